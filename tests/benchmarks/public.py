"""
Public benchmarks of long conversations, LoCoMo and BEAM, asked of the product's own search. `make bench-public DATA=…`.

No language model takes part, and no data is here: the folder that holds it is named. Each conversation is a vault of its
own, whose notes are written as an import of chats writes them: a note for each session, a section for each turn. A
question is asked on the day after the last session, without a threshold. What is measured is the share of its evidence,
the turns that hold the answer, in the first hits; the mean over questions. README.md names the forms.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spellbook import __version__
from spellbook.archive.formats.conversations import CATEGORY, cleaned, lowered, make_note, on_one_line
from spellbook.index.catalog.rows import StoredChunk
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.settings.limits import MOST_QUERY
from tests.benchmarks.measures import DEPTH

_MOST_LETTERS, _MOST_NAME = 100_000, 60  # of a turn, of a speaker's name
_MOST_TOKENS = 10_000
"""Tokens of an answer: ten whole hits with their neighbours, so that what is measured is the ranking."""
_FORMS = (
    "a file locomo*.json, folders with chat.json and probing_questions/probing_questions.json, or a file beam*.json"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody says; `id` names it among the turns of its chat."""

    id: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a kind, and the ids of the turns that answer it."""

    kind: str
    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation: the day of each session, None if it is not said, with its turns; and its questions."""

    name: str
    sessions: Sequence[tuple[dt.date | None, Sequence[Turn]]]
    questions: Sequence[Asked]


class Malformed(Exception):
    """A file is not in the form that its name says."""


@dataclass(slots=True)
class Shares:
    """The shares of evidence found, a row for each question, by kind; `left_out` counts questions without any known turn."""

    rows: dict[str, list[Sequence[float]]] = field(default_factory=dict)
    left_out: int = 0

    def add(self, kind: str, row: Sequence[float]) -> None:
        self.rows.setdefault("all", []).append(row)
        self.rows.setdefault(kind, []).append(row)


# -- the forms


def read(folder: Path) -> dict[str, list[Chat]]:
    """Return the conversations in a folder by benchmark. Raises Malformed for a file of a known name and another form."""
    files = sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]
    found: dict[str, list[Chat]] = {}
    for file in files:
        name = file.name.lower()
        try:
            if name.startswith("locomo"):
                found.setdefault("LoCoMo", []).extend(map(_locomo, _listed(_json(file))))
            elif name == "chat.json":
                probing = file.parent / "probing_questions" / "probing_questions.json"
                found.setdefault("BEAM", []).append(_beam(file.parent.name, _json(file), _json(probing)))
            elif name.startswith("beam"):
                rows = _listed(_json(file))
                found.setdefault("BEAM", []).extend(_beam("", row["chat"], row["probing_questions"]) for row in rows)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError, OSError) as error:
            raise Malformed(f"{file}: not in the form that is read ({error!r:.120}). Forms: {_FORMS}.") from error
    return found


def _json(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _locomo(sample: Mapping[str, Any]) -> Chat:
    """Read a sample of LoCoMo: sessions by number, turns with `dia_id`, questions with `evidence`."""
    talk, sessions = sample["conversation"], []
    for key in sorted((key for key in talk if re.fullmatch(r"session_\d{1,4}", key)), key=lambda key: int(key[8:])):
        said = [Turn(str(row["dia_id"]), str(row["speaker"]), _with_picture(row)) for row in talk[key]]
        sessions.append((_day(talk.get(f"{key}_date_time"), "%I:%M %p on %d %B, %Y"), said))
    asked = [
        Asked(f"category {row.get('category')}", str(row["question"]), _named(row.get("evidence")))
        for row in sample["qa"]
    ]
    return Chat(str(sample.get("sample_id", "")), sessions, asked)


def _with_picture(row: Mapping[str, Any]) -> str:
    shown = f"(image: {row['blip_caption']})" if row.get("blip_caption") else ""
    return "\n\n".join(filter(None, (str(row.get("text") or ""), shown)))


def _named(evidence: Any) -> frozenset[str]:
    """Return the ids in LoCoMo's evidence, of which some hold several."""
    return frozenset(re.findall(r"D\d{1,4}:\d{1,4}", " ".join(map(str, _listed(evidence or [])))))


def _beam(name: str, chat: Any, probing: Any) -> Chat:
    """Read a chat of BEAM: batches of turns with `id`, `role` and `content`; questions by ability with `source_chat_ids`."""
    rows = [[*_messages(batch)] for batch in _batches(chat)]
    often = Counter(str(row["id"]) for batch in rows for row in batch)
    sessions = []
    for batch in rows:
        said = [Turn(str(row["id"]), str(row["role"]).title(), _without_mark(str(row["content"]))) for row in batch]
        sessions.append(
            (_day(next((row["time_anchor"] for row in batch if row.get("time_anchor")), None), "%B-%d-%Y"), said)
        )
    asked = [
        # An id that several messages have names none.
        Asked(ability, str(row["question"]), frozenset(id for id in _ids(row.get("source_chat_ids")) if often[id] == 1))
        for ability, listed in (json.loads(probing) if isinstance(probing, str) else probing).items()
        for row in listed
    ]
    return Chat(name, sessions, asked)


def _without_mark(text: str) -> str:
    """Return a text without the number that BEAM leaves behind what a person says: `->-> 1,2`."""
    said, mark, number = text.rpartition("->->")
    return said if mark and not number.strip(" ,0123456789\n") else text


def _batches(chat: Any) -> Iterator[Any]:
    """Yield what holds the messages of a session: a mapping with `turns`, or a list of messages."""
    if (isinstance(chat, Mapping) and "turns" in chat) or (isinstance(chat, list) and any(map(_is_message, chat))):
        yield chat
    elif isinstance(chat, Mapping | list):
        for part in chat.values() if isinstance(chat, Mapping) else chat:
            yield from _batches(part)


def _messages(part: Any) -> Iterator[Mapping[str, Any]]:
    if _is_message(part):
        yield part
    elif isinstance(part, Mapping | list):
        for inner in part.values() if isinstance(part, Mapping) else part:
            yield from _messages(inner)


def _is_message(part: Any) -> bool:
    return isinstance(part, Mapping) and {"role", "id", "content"} <= part.keys()


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _ids(inner)
    elif value is not None:
        yield str(value)


def _day(text: object, form: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(str(text), form).date()
    except ValueError:
        return None


# -- measuring


def measure(chats: Iterable[Chat], embedder: str | None = None) -> Shares:
    """Ask each chat its questions in a vault of its own; return the shares of evidence in the columns of `HEAD`."""
    shares = Shares()
    for number, chat in enumerate(chats, 1):
        print(f"\rchat {number} ", end="", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="spellbook-public-") as folder:
            (vault := Path(folder) / "vault").mkdir()
            places = keep(vault, chat)
            with books.open(vault, embedder=embedder, state=Path(folder) / "state") as book:
                report = book.reindex()
                if report.failed or report.pending:
                    raise SystemExit(f"{chat.name}: {report.failed[:3]}, {report.pending} texts pending")
                _ask(book, chat, places, shares)
    return shares


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


def _ask(book: Spellbook, chat: Chat, places: Mapping[str, Sequence[tuple[int, str]]], shares: Shares) -> None:
    catalog = book.index.catalog
    turns_of = {chunk.id: _turns(chunk, places[path]) for path in places for chunk in catalog.at(path)}
    session_of = {id: path for path, listed in places.items() for _, id in listed}
    last = max((day for day, _ in chat.sessions if day), default=dt.date.today())
    noon = dt.datetime.combine(last + dt.timedelta(days=1), dt.time(12)).timestamp()
    searcher = Searcher(book.index, lambda: noon)
    for asked in chat.questions:
        text, wanted = cleaned(asked.text).strip()[:MOST_QUERY], asked.evidence & session_of.keys()
        if not wanted or not text:
            shares.left_out += 1
            continue
        hits, notes = (
            searcher.ask(Question(text, limit=DEPTH, min_score=0.0, max_tokens=_MOST_TOKENS, per_note=most)).hits
            for most in (0, 1)
        )
        alone = [turns_of[hit.id] for hit in hits]
        beside = [
            turns.union(*(turns_of[one["id"]] for one in hit.neighbours.values()))
            for hit, turns in zip(hits, alone, strict=True)
        ]
        sessions = {session_of[id] for id in wanted}
        ranked = ((wanted, alone), (wanted, beside), (sessions, [{hit.path} for hit in notes]))
        shares.add(asked.kind, [_share(right, of[:first]) for right, of in ranked for first in (5, DEPTH)])


def _turns(chunk: StoredChunk, listed: Sequence[tuple[int, str]]) -> frozenset[str]:
    """Return the ids of the turns that have a line of a chunk."""
    ends = [first - 1 for first, _ in listed[1:]] + [sys.maxsize]
    return frozenset(
        id for (first, id), end in zip(listed, ends, strict=True) if first <= chunk.end_line and chunk.line <= end
    )


def _share(right: Collection[str], found: Iterable[Collection[str]]) -> float:
    return len(set(right).intersection(*[set().union(*found)])) / len(right)


HEAD = "| benchmark | questions | turns @5 | @10 | with neighbours @5 | @10 | sessions @5 | @10 |\n|---|---|---|---|---|---|---|---|"


def lines(name: str, shares: Shares) -> Iterator[str]:
    """Yield the rows of the table, a kind of question each."""
    for kind, rows in sorted(shares.rows.items()):
        means = " | ".join(f"{mean:.3f}" for mean in np.mean(rows, axis=0))
        yield f"| {name}, {kind} | {len(rows)} | {means} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help=f"folders with {_FORMS}")
    parser.add_argument("--chats", type=int, default=0, help="most conversations of each benchmark; 0 for all")
    parser.add_argument("--embedder", help="the product's own if none is named")
    given, begin = parser.parse_args(arguments), time.monotonic()
    found: dict[str, list[Chat]] = {}
    try:
        for folder in given.data:
            for name, chats in read(folder).items():
                found.setdefault(name, []).extend(chats)
    except Malformed as error:
        parser.error(str(error))
    if not found:
        parser.error(f"Nothing to read in {', '.join(map(str, given.data))}. It needs {_FORMS}.")
    print(
        f"Spellbook {__version__}, {dt.date.today()}. Share of evidence found, mean over questions.\n\n{HEAD}",
        flush=True,
    )
    for name, chats in found.items():
        shares = measure(chats[: given.chats or None], given.embedder)
        print("\n".join(lines(name, shares)), flush=True)
        print(f"| {name}, left out: no turn is named as evidence | {shares.left_out} | | | | | | |", flush=True)
    print(f"\n{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
