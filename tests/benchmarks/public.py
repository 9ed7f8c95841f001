"""
Public benchmarks of long conversations, LoCoMo and BEAM, asked of the product's own search. `make bench-public DATA=…`.

No language model takes part, and no data is here: the folder that holds it is named. Each conversation is a vault of its
own, whose notes are written as an import of chats writes them: a note for each session, a section for each turn. A
question is asked on the day after the last session. What is measured is the evidence, the turns that hold the answer, in
the first hits; the mean over questions, with its 95 % interval. Plain BM25 over the same turns is asked in the same run.
README.md names the forms of the data.
"""

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer

from spellbook import __version__
from spellbook.archive.formats.conversations import CATEGORY, cleaned, lowered, make_note, on_one_line
from spellbook.index.catalog.rows import StoredChunk
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.search.question import VERBS, Question
from spellbook.search.searcher import Searcher
from spellbook.settings import config
from spellbook.settings.limits import MOST_KEYWORDS, MOST_QUERY
from tests.benchmarks.__main__ import load, machine
from tests.benchmarks.conversations import FORMS, Chat, Malformed, Turn, read
from tests.benchmarks.measures import DEPTH, half_interval
from tests.benchmarks.trials import Remembered

_MOST_LETTERS, _MOST_NAME = 100_000, 60  # of a turn, of a speaker's name
_MOST_TOKENS = 10_000
"""Tokens of an answer: ten whole hits with their neighbours, so that what is measured is the ranking."""

_STEMMER = Stemmer.Stemmer("english")

RANKED, SURE, SHOWN, BM25 = "ranked", "sure", "shown", "bm25"
"""
The product's ranking without a threshold; its sure hits, by the default threshold; what a user gets, which has the
closest notes where nothing is sure; and plain BM25.
"""
GROUPS = {"LoCoMo": ("categories 1 to 4", {f"category {number}" for number in range(1, 5)})}
"""Kinds that are counted together; of a benchmark that is not named, all. Category 5 asks for things that nobody said."""


@dataclass(frozen=True, slots=True)
class Found:
    """
    A question by its number in its chat, with its evidence, and the turns of each hit by system, best first.

    `beside` are the turns of each ranked hit and of its neighbours; `sessions` the sessions of the evidence, and those
    found with one hit a session.
    """

    chat: str
    question: int
    kind: str
    evidence: Sequence[str]
    turns: Mapping[str, Sequence[Collection[str]]]
    beside: Sequence[Collection[str]]
    sessions: tuple[Sequence[str], Sequence[str]]

    def as_dict(self) -> dict[str, Any]:
        """Return it as the file of `--json` has it."""
        turns = {system: [sorted(hit) for hit in hits] for system, hits in self.turns.items()}
        sessions = dict(zip(("evidence", "found"), self.sessions, strict=True))
        of = {"chat": self.chat, "question": self.question, "kind": self.kind, "evidence": self.evidence}
        return of | {"found": turns, "with_neighbours": [sorted(hit) for hit in self.beside], "sessions": sessions}


@dataclass(slots=True)
class Measured:
    """The questions of a benchmark, how many had no known turn as evidence, and the seconds of a core that it took."""

    found: list[Found] = field(default_factory=list)
    left_out: int = 0
    turns: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("indexing", "asking", "bm25"), 0.0))


# -- measuring


def measure(chats: Iterable[Chat], order: str, opened: Callable[[Path, Path], Spellbook]) -> Measured:
    """
    Ask each chat its questions in a vault of its own, by the verb `order`, and plain BM25 over its turns.

    `opened` opens a vault, the first folder, with its state in the second.
    """
    measured = Measured()
    for number, chat in enumerate(chats, 1):
        print(f"\rchat {number} ", end="", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="spellbook-public-") as folder:
            (vault := Path(folder) / "vault").mkdir()
            places = keep(vault, chat)
            with opened(vault, Path(folder) / "state") as book:
                began = time.process_time()
                report = book.reindex()
                measured.seconds["indexing"] += time.process_time() - began
                if report.failed or report.pending:
                    raise SystemExit(f"{chat.name}: {report.failed[:3]}, {report.pending} texts pending")
                _ask(book, chat, places, order, measured)
    return measured


def keep(vault: Path, chat: Chat) -> dict[str, list[tuple[int, str]]]:
    """Write the sessions of a chat as notes; return the first line and the id of each turn, by path."""
    places: dict[str, list[tuple[int, str]]] = {}
    for number, (day, said) in enumerate(chat.sessions, 1):
        who = ", ".join([*dict.fromkeys(map(_name, said))][:3])
        meta = {"id": f"session-{number:04}", "title": f"{who}, {day or f'session {number}'}"}
        path, sections = f"session-{number:04}.md", [f"## {_name(turn)}\n\n{_text(turn)}" for turn in said]
        note = make_note(path, meta | {"category": CATEGORY, "created": day}, "\n\n".join(sections))
        text = b"".join(note.pieces).decode()
        (vault / path).write_text(text, "utf-8", newline="")
        line, places[path] = text.partition("\n## ")[0].count("\n") + 2, []
        for turn, section in zip(said, sections, strict=True):
            places[path].append((line, turn.id))
            line += section.count("\n") + 2
    return places


def _name(turn: Turn) -> str:
    return on_one_line(turn.speaker)[:_MOST_NAME] or "Somebody"


def _text(turn: Turn) -> str:
    return lowered(cleaned(turn.text[:_MOST_LETTERS])).strip() or "…"


def _ask(
    book: Spellbook, chat: Chat, places: Mapping[str, Sequence[tuple[int, str]]], order: str, measured: Measured
) -> None:
    catalog = book.index.catalog
    turns_of = {chunk.id: _turns(chunk, places[path]) for path in places for chunk in catalog.at(path)}
    session_of = {id: path for path, listed in places.items() for _, id in listed}
    measured.turns += len(session_of)
    last = max((day for day, _ in chat.sessions if day), default=dt.date.today())
    noon = dt.datetime.combine(last + dt.timedelta(days=1), dt.time(12)).timestamp()
    searcher, by_bm25 = Searcher(book.index, lambda: noon), _by_bm25(chat)
    for number, asked in enumerate(chat.questions):
        text, wanted = cleaned(asked.text).strip()[:MOST_QUERY], asked.evidence & session_of.keys()
        if not wanted or not text:
            measured.left_out += 1
            continue
        words = tuple(text.split()[:MOST_KEYWORDS]) if order == "find" else ()  # which takes a text for one phrase
        usual: dict[str, Any] = {"mode": VERBS[order], "keywords": words, "limit": DEPTH, "max_tokens": _MOST_TOKENS}
        began = time.process_time()
        ranked = searcher.ask(Question(text, **usual, min_score=0.0)).hits
        measured.seconds["asking"] += time.process_time() - began
        notes = searcher.ask(Question(text, **usual, min_score=0.0, per_note=1)).hits
        answer = searcher.ask(Question(text, **usual))
        began = time.process_time()
        by_words = [{id} for id in by_bm25(text)]
        measured.seconds["bm25"] += time.process_time() - began
        turns = {
            name: [turns_of[hit.id] for hit in hits]
            for name, hits in ((RANKED, ranked), (SURE, answer.hits), (SHOWN, answer.hits or answer.closest))
        }
        beside = [turns_of[hit.id].union(*(turns_of[one["id"]] for one in hit.neighbours.values())) for hit in ranked]
        sessions = sorted({session_of[id] for id in wanted}), [hit.path for hit in notes]
        measured.found.append(
            Found(chat.name, number, asked.kind, sorted(wanted), turns | {BM25: by_words}, beside, sessions)
        )


def _turns(chunk: StoredChunk, listed: Sequence[tuple[int, str]]) -> frozenset[str]:
    """Return the ids of the turns that have a line of a chunk."""
    ends = [first - 1 for first, _ in listed[1:]] + [sys.maxsize]
    return frozenset(
        id for (first, id), end in zip(listed, ends, strict=True) if first <= chunk.end_line and chunk.line <= end
    )


def _by_bm25(chat: Chat) -> Callable[[str], list[str]]:
    """
    Return what finds the ids of turns, best first, by plain BM25 over speakers and texts.

    Of bm25s' settings these find the most: its longer list of stop words, and stems by Snowball.
    """
    said = [turn for _, turns in chat.sessions for turn in turns]
    engine = bm25s.BM25()
    engine.index(_tokens([f"{turn.speaker}: {turn.text}" for turn in said]), show_progress=False)

    def found(text: str) -> list[str]:
        (numbers,), (scores,) = engine.retrieve(_tokens([text]), k=min(DEPTH, len(said)), show_progress=False)
        return [said[number].id for number, score in zip(numbers, scores, strict=True) if score > 0]

    return found


def _tokens(texts: Sequence[str]) -> Any:
    return bm25s.tokenize(texts, stopwords="english_plus", stemmer=_STEMMER, show_progress=False)


# -- the table


HEAD = (
    "| benchmark | found by | questions | turns @5 | @10 | all @5 | @10 | MRR | with neighbours @5 | @10 | sessions @5 | @10 |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def figures(found: Found, system: str) -> list[float]:
    """Return a question's figures in the columns of `HEAD`: shares of its evidence, whether all is there, MRR@10."""
    right, hits = set(found.evidence), found.turns[system]
    shares = [_share(right, hits[:first]) for first in (5, DEPTH)]
    rank = next((rank for rank, hit in enumerate(hits[:DEPTH], 1) if right.intersection(hit)), 0)
    row = [*shares, *(float(share == 1) for share in shares), 1 / rank if rank else 0.0]
    if system != RANKED:
        return row
    of_sessions, notes = found.sessions
    ranked = ((right, found.beside), (of_sessions, [{path} for path in notes]))
    return row + [_share(wanted, of[:first]) for wanted, of in ranked for first in (5, DEPTH)]


def _share(right: Collection[str], found: Iterable[Collection[str]]) -> float:
    return len(set(right).intersection(*[set().union(*found)])) / len(right)


def lines(name: str, order: str, measured: Measured) -> Iterator[str]:
    """Yield the rows of the table: the kinds that count together, by all systems; each kind by search and by BM25."""
    title, together = GROUPS.get(name, ("all", {found.kind for found in measured.found}))
    names = {
        RANKED: f"Spellbook, `{order}`",
        SURE: "the same, sure hits alone",
        SHOWN: "the same, as a user gets it",
        BM25: f"BM25 (bm25s {metadata.version('bm25s')})",
    }
    groups = {title: together} | {kind: {kind} for kind in sorted({found.kind for found in measured.found})}
    for kind, kinds in groups.items():
        of_kind = [found for found in measured.found if found.kind in kinds]
        for system, label in names.items():
            if of_kind and (kind == title or system in {RANKED, BM25}):
                columns = np.array([figures(found, system) for found in of_kind]).T
                cells = [f"{column.mean():.3f} ±{half_interval(column):.3f}" for column in columns]
                row = " | ".join([*cells, *[""] * (9 - len(cells))])
                yield f"| {name}, {kind} | {label} | {len(of_kind)} | {row} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help=f"folders with {FORMS}")
    parser.add_argument("--chats", type=int, default=0, help="most conversations of each benchmark; 0 for all")
    parser.add_argument("--order", choices=list(VERBS), default="search", help="the verb that ranks (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found for each question, by ids")
    parser.add_argument(
        "--cache", type=Path, help="folder of cached vectors, for a second run in a fraction of the time"
    )
    parser.add_argument("--embedder", help="the product's own if none is named")
    given = parser.parse_args(arguments)
    chats: dict[str, list[Chat]] = {}
    try:
        for folder in given.data:
            for name, listed in read(folder).items():
                chats.setdefault(name, []).extend(listed)
    except Malformed as error:
        parser.error(str(error))
    if not chats:
        parser.error(f"Nothing to read in {', '.join(map(str, given.data))}. It needs {FORMS}.")
    about = {"spellbook": __version__, "commit": _commit(), "date": f"{dt.date.today()}", "machine": machine()}
    print(f"Spellbook {', '.join(about.values())}; load {load()}. Means over questions, ± half of a 95 % interval.\n")
    print(HEAD, flush=True)
    model = Remembered(given.cache / "vectors.db") if given.cache else None

    def opened(vault: Path, state: Path) -> Spellbook:
        if model is None:
            return books.open(vault, embedder=given.embedder, state=state)
        return Spellbook(replace(config.load(vault, embedder="hash"), state=state), model.product())

    benchmarks = {}
    for name, listed in chats.items():
        began = time.monotonic()
        measured = measure(listed[: given.chats or None], given.order, opened)
        print("\n".join(lines(name, given.order, measured)))
        taken = {"in all": time.monotonic() - began} | measured.seconds
        spent = ", ".join(f"{verb} {seconds:.1f} s" for verb, seconds in taken.items())
        size = f"{len(listed[: given.chats or None])} chats, {measured.turns:,} turns"
        print(
            f"| {name}, left out: no turn is named as evidence | {size}; {spent} | {measured.left_out} |{' |' * 9}",
            flush=True,
        )
        benchmarks[name] = {"seconds": taken, "questions": [found.as_dict() for found in measured.found]}
    if given.json:
        kept = about | {"order": given.order, "benchmarks": benchmarks}
        given.json.write_text(json.dumps(kept, ensure_ascii=False, separators=(",", ":")), "utf-8")


def _commit() -> str:
    """Return the commit of this tree, with a `+` if files were changed since; "no commit" outside of a clone."""
    named = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return named.stdout.strip() or "no commit"


if __name__ == "__main__":
    main()
