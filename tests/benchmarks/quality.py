"""
Quality of search in one table: finding, rejecting, duplicates and packing. `make bench-quality`.

The product is asked, and by words or by meaning alone. Sets without data are named and skipped. Vectors are cached, so a second run takes minutes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from platformdirs import user_cache_path

from spellbook.index.extract import folded
from spellbook.models.base import score
from spellbook.search import when
from spellbook.search.duplicates import DUPLICATE
from spellbook.search.question import Question
from spellbook.search.ranking import Hit
from spellbook.search.searcher import Searcher
from spellbook.text import diff
from tests.benchmarks import agents
from tests.benchmarks.corpora import (
    LANGUAGES,
    OTHER,
    Asked,
    Pairs,
    React,
    Set,
    Vault,
    Xquad,
    edited,
    klue,
    sampled,
    with_another_number,
)
from tests.benchmarks.measures import DEPTH, Tally
from tests.benchmarks.questions import (
    HALVES,
    QUALITY,
    Dated,
    Loose,
    captured,
    dated,
    loose,
    memories,
    places,
    react_pages,
    sessions,
    validity,
)
from tests.benchmarks.remembered import Embedder, Remembered
from tests.benchmarks.rows import Row, loose_figures, place
from tests.benchmarks.systems import PRODUCT, SHOWN, SYSTEMS, Trial

if TYPE_CHECKING:
    pass

PAIRS = (("zh", "en"), ("en", "ru"), ("ar", "en"), ("de", "th"), ("hi", "es"), ("vi", "en"), ("tr", "el"), ("ro", "zh"))
MIXED = ("zh", "es", "ru", "ar")
OFF_TOPIC = (
    ("en", "en"),
    ("es", "es"),
    ("zh", "zh"),
    ("ar", "ar"),
    ("th", "th"),
    ("en", "zh"),
    ("en", "ru"),
    ("es", "hi"),
)
"""Languages of the notes and of the questions."""
LONG = ("en", "zh")
BUDGETS = (500, 1_000, 2_000)

LEAST_NDCG, LEAST_OTHER = 0.975, 0.75
MOST_LOST_TO = 0.01
LEAST_HELD = 0.90
LEAST_RECALL, LEAST_PRECISION, MOST_OFF_TOPIC = 0.95, 0.99, 0.10
"""Aims for the product."""

NOWHERE = QUALITY / "nowhere.txt"
"""Korean and English questions, one per line, that no vault here answers."""

_DATA = Path(__file__).parents[3] / "shared"
_T = TypeVar("_T")


class Bench:
    """Shared by all measurements: the data, the model with its cache, and the most questions per set."""

    def __init__(self, data: Path, model: Remembered, most: int) -> None:
        self.model, self.most = model, most
        self._data = data

    @cached_property
    def xquad(self) -> Xquad | None:
        """XQuAD in twelve languages; None if its data is missing."""
        return self._there("XQuAD (eval/xquad)", Xquad.read(self._data / "eval" / "xquad"))

    @cached_property
    def react(self) -> React | None:
        """React's documentation in Korean and English; None if its data is missing."""
        return self._there("React (vaults/react-docs)", React.read(self._data / "vaults" / "react-docs"))

    @cached_property
    def klue(self) -> Pairs | None:
        """KLUE-STS; None if its data is missing."""
        return self._there(
            "KLUE-STS (eval/klue-sts)", klue(self._data / "eval" / "klue-sts" / "klue-sts-v1.1_dev.json")
        )

    def _there(self, name: str, found: _T | None) -> _T | None:
        if found is None:
            print(f"{name} is not in {self._data}: skipped.", file=sys.stderr)
        return found

    @contextmanager
    def trial(self, vault: Vault) -> Iterator[Trial]:
        """Write a vault to a temporary folder and open it."""
        with tempfile.TemporaryDirectory(prefix="spellbook-quality-") as folder:
            trial = Trial(vault, self.model, Path(folder))
            try:
                yield trial
            finally:
                trial.close()

    # -- finding

    def single(self) -> Iterator[Row]:
        """XQuAD: questions and paragraphs in one language."""
        for language in LANGUAGES if self.xquad else ():
            first, *rest = self.asked(self.xquad.one(language))
            aims = language == "en"
            yield replace(first, aim=f">= {LEAST_NDCG}", met=first.values[PRODUCT] >= LEAST_NDCG) if aims else first
            yield from rest

    def across(self) -> Iterator[Row]:
        """XQuAD: questions and paragraphs in different languages."""
        if self.xquad:
            for pair in PAIRS:
                yield from self.asked(self.xquad.pair(*pair))
            yield from self.asked(self.xquad.others())

    def headings(self) -> Iterator[Row]:
        """React: Korean headings as questions for sections."""
        if self.react:
            yield from self.asked(self.react.english())
            yield from self.asked(self.react.korean())

    def mixed(self) -> Iterator[Row]:
        """Vaults of several languages, each text in one of them."""
        sets = [self.xquad.mixed(one, "en") for one in MIXED] + [self.xquad.twelve()] if self.xquad else []
        if self.react:
            sets.append(self.react.mixed())
        for each in sets:
            for row in self.asked(each):
                aims = row.figure == "nDCG@10" and row.what.endswith(f": {OTHER}")
                yield replace(row, aim=f">= {LEAST_OTHER}", met=row.values[PRODUCT] >= LEAST_OTHER) if aims else row

    def asked(self, each: Set) -> Iterator[Row]:
        """Ask every system a set; yield its figures, then those of its parts."""
        questions = sampled(each.asked, self.most)
        with self.trial(each.vault) as trial:
            ranked = {system: [trial.ranked(system, asked, each.apart) for asked in questions] for system in SYSTEMS}
        yield from figures(each.name, questions, ranked)

    def loose(self) -> Iterator[Row]:
        """Questions as people type who half remember, by half: over React's documentation, and over memories such as agents write."""
        for name, notes, lines in self._loosely():
            title = {"react": "loose, React ko + en", "memories": "loose, memories"}[name]
            yield from self._loose(title, notes, lines, by_language=name == "react")

    def _loosely(self) -> Iterator[tuple[str, Mapping[str, str], Mapping[Loose, Sequence[tuple[str, int, int]]]]]:
        """Yield name, notes and questions of the loose sets, each with the lines that answer it: path, first, last."""
        pages = self._there("React (vaults/react-docs)", react_pages(self._data / "vaults" / "react-docs"))
        if pages:
            yield (
                "react",
                pages,
                {
                    each: [(at.path, at.first, at.last) for name in each.accept for at in places(pages, name)]
                    for each in loose("react")
                },
            )
        notes = memories()
        lines = {each: [(notes[id][0], 1, sys.maxsize) for id in each.accept] for each in loose("memories")}
        yield "memories", dict(notes.values()), lines

    def agents(self) -> Iterator[Row]:
        """How agents ask: with texts guessed from the question alone; also what no note answers."""
        chats = sessions()
        lines = {each: [(path, 1, sys.maxsize) for path in each.accept] for each in chats.questions}
        for name, notes, asks in (*self._loosely(), ("sessions", chats.notes, lines)):
            vault = Vault(notes, lambda path, line: f"{path}:{line}")
            halves = {each.text: each.half for each in asks}
            with self.trial(vault) as trial:
                asked = {name: agents.questions(name, halves, agents.right(vault, trial.chunks, asks))}
                asked |= {
                    off: agents.off_topic(off) for off in (("nowhere", "near") if name == "memories" else ("nowhere",))
                }
                for of, each in asked.items():
                    what = name if of == name else f"{name}, asked {of}"
                    for way in agents.WAYS:
                        found = agents.places(trial.book, vault, each, way)
                        for half, figure, sure, shown in agents.figures(each, found):
                            if of == name or figure == "any hit":
                                yield Row(f"agents: {what}, {way}, {half}", figure, {PRODUCT: sure, SHOWN: shown})

    def _loose(
        self,
        name: str,
        notes: Mapping[str, str],
        lines: Mapping[Loose, Sequence[tuple[str, int, int]]],
        *,
        by_language: bool,
    ) -> Iterator[Row]:
        """Ask about a vault; a hit is right if it holds a line of what is accepted (path, first and last line)."""
        vault = Vault(notes, lambda path, line: f"{path}:{line}")
        with self.trial(vault) as trial:
            ranked: dict[Loose, dict[str, int]] = {}
            for each, right in zip(lines, agents.right(vault, trial.chunks, lines).values(), strict=True):
                asked = Asked(each.text, each.language, right)
                ranked[each] = {system: place(trial.ranked(system, asked), right) for system in SYSTEMS}
        for half in HALVES:
            for language in ("", "ko", "en") if by_language else ("",):
                chosen = [
                    found for each, found in ranked.items() if each.half == half and language in {"", each.language}
                ]
                asks = f" asked in {language}" if language else ""
                yield from loose_figures(f"{name}{asks}, {half} ({len(chosen)})", chosen)

    def dated(self) -> Iterator[Row]:
        """Questions that say when, over notes that differ by their dates, by half; asked on the set's own day."""
        yield from self._dated("dated notes", dated())

    def validity(self) -> Iterator[Row]:
        """Facts that changed, asked with a date beside the question, with a time in it, and with neither: the state that held is first."""
        given = validity()
        for row in self._dated("validity", given):
            aims = row.figure == "hit@1"
            yield replace(row, aim=f">= {LEAST_HELD:.2f}", met=row.values[PRODUCT] >= LEAST_HELD) if aims else row
        for way in dict.fromkeys(_way(each, given.today) for each in given.questions):
            asked = [each for each in given.questions if _way(each, given.today) == way]
            yield from self._dated(f"validity, {way}", replace(given, questions=asked))

    def _dated(self, name: str, given: Dated) -> Iterator[Row]:
        """Ask dated questions on the set's own day; yield the figures of each half."""
        vault = Vault(given.notes, lambda path, line: path)
        noon = dt.datetime.combine(given.today, dt.time(12)).timestamp()
        with self.trial(vault) as trial:
            searcher = Searcher(trial.book.index, lambda: noon)
            for half in HALVES:
                asked = [each for each in given.questions if each.half == half]
                hits = [[hit.path for hit in searcher.ask(_question(each)).hits] for each in asked]
                found = [{PRODUCT: place(paths, each.accept)} for paths, each in zip(hits, asked, strict=True)]
                yield from loose_figures(f"{name}, {half} ({len(found)})", found)

    def captured(self) -> Iterator[Row]:
        """Loose questions over memories, alone and beside 200 captured sessions about the same: no memory loses its rank."""
        notes, asked = memories(), loose("memories")
        beside = captured()
        first: list[float] = []
        for name, more in (("alone", {}), (f"beside {len(beside)} sessions", beside)):
            with self.trial(Vault(dict(notes.values()) | more)) as trial:
                hits = [[hit.path for hit in trial.book.search(each.text, limit=DEPTH).hits] for each in asked]
            found = [
                place(paths, {notes[id][0] for id in each.accept}) for paths, each in zip(hits, asked, strict=True)
            ]
            yield from loose_figures(f"memories {name} ({len(asked)})", [{PRODUCT: rank} for rank in found])
            first.append(float(np.mean([rank == 1 for rank in found])))
        lost = first[0] - first[1]
        yield Row("memories beside sessions", "hit@1 lost", {PRODUCT: lost}, f"<= {MOST_LOST_TO}", lost <= MOST_LOST_TO)

    # -- leaving out

    def off_topic(self) -> Iterator[Row]:
        """Share of off-topic questions that find anything, and of on-topic questions still answered, with the default threshold."""
        cases: list[tuple[Set | None, str, Vault, Sequence[str]]] = []
        nowhere = [line for line in NOWHERE.read_text("utf-8").split("\n") if line.strip()]
        if self.xquad:
            for told, asked in OFF_TOPIC:
                on, off = self.xquad.half(told, asked)
                cases.append((on, f"{on.name}", on.vault, off))
            english = self.xquad.one("en")
            cases.append((None, "XQuAD en asked unanswerable questions", english.vault, nowhere))
            if self.react:
                cases.append(
                    (
                        None,
                        "XQuAD en asked React's Korean headings",
                        english.vault,
                        [s.asks for s in self.react.sections if s.asks],
                    )
                )
        if self.react:
            pages = self.react.english()
            cases.append((pages, "React en, its Korean headings", pages.vault, nowhere))
            if self.xquad:
                cases.append(
                    (None, "React en asked XQuAD en", pages.vault, [text for text, *_ in self.xquad.questions["en"]])
                )
        for on, name, vault, off in cases:
            with self.trial(vault) as trial:
                off = off if len(off) <= self.most else random.Random(5).sample(list(off), self.most)
                found = float(np.mean([bool(trial.hits(text)) for text in off]))
                what = f"off topic: {name}" + (", others" if on else "")
                yield Row(what, "any hit", {PRODUCT: found}, f"< {MOST_OFF_TOPIC:.2f}", found < MOST_OFF_TOPIC)
                if on:
                    questions = sampled(on.asked, self.most)
                    right = [bool(asked.right.intersection(trial.hits(asked.text))) for asked in questions]
                    yield Row(f"on topic: {name}", "in first 5", {PRODUCT: float(np.mean(right))})

    # -- telling apart

    def duplicates(self) -> Iterator[Row]:
        """Which pairs count as duplicates: pairs judged by people, and edited sections."""
        sets = [self.klue] if self.klue else []
        sets += [self._edits(language) for language in ("en", "ko") if self.react]
        embedder = self.model.product()
        for pairs in filter(None, sets):
            alike = {kind: _alike(embedder, same) for kind, same in pairs.same.items()}
            right, wrong = sum(map(sum, alike.values())), sum(_alike(embedder, pairs.different))
            recall, precision = right / sum(map(len, pairs.same.values())), right / max(1, right + wrong)
            name = f"duplicates: {pairs.name}"
            yield Row(name, "recall", {PRODUCT: recall}, f">= {LEAST_RECALL}", recall >= LEAST_RECALL)
            yield Row(name, "precision", {PRODUCT: precision}, f">= {LEAST_PRECISION}", precision >= LEAST_PRECISION)
            for kind in alike if len(alike) > 1 else ():
                yield Row(f"{name}: {kind}", "recall", {PRODUCT: float(np.mean(alike[kind]))})
        if self.react:
            texts = [text for language in ("en", "ko") for text in self._sections(language)]
            numbers = [(text, other) for seed, text in enumerate(texts) if (other := with_another_number(text, seed))]
            alike_by_meaning = float(np.mean(_alike(embedder, numbers)))
            yield Row("changed number: counted as a duplicate by meaning", "share", {PRODUCT: alike_by_meaning})
            reported = float(np.mean([bool(diff.contradiction(a, b)) for a, b in numbers]))
            yield Row("changed number: reported as a contradiction", "share", {PRODUCT: reported})

    def _edits(self, language: str) -> Pairs:
        texts = self._sections(language)
        vectors = self.model.passages(texts)
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -1)
        nearest = [(text, texts[i]) for text, i in zip(texts, cosines.argmax(axis=1), strict=True)]
        return Pairs(f"edited sections of React {language}", edited(texts), nearest)

    def _sections(self, language: str) -> list[str]:
        """Return different chunks of the documentation, at most as many as a set has questions."""
        each = self.react.english() if language == "en" else self.react.korean()
        with self.trial(each.vault) as trial:
            texts = {folded(chunk.text): chunk.text.strip() for _, chunk in trial.chunks if len(chunk.text) >= 200}
        return random.Random(11).sample(list(texts.values()), min(self.most, 300, len(texts)))

    # -- packing

    def excerpts(self) -> Iterator[Row]:
        """How often the packed hits still hold the answer, by token budget."""
        for language in LONG if self.xquad else ():
            each = self.xquad.articles(language)
            questions = sampled(each.asked, self.most)
            with self.trial(each.vault) as trial:
                for budget in BUDGETS:
                    packed = [trial.book.search(asked.text, limit=DEPTH, max_tokens=budget).hits for asked in questions]
                    held = [_holds(hits, asked) for hits, asked in zip(packed, questions, strict=True)]
                    yield Row(f"{each.name}, as packed", f"@{budget}", {PRODUCT: float(np.mean(held))})


def figures(name: str, questions: Sequence[Asked], ranked: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[Row]:
    """Yield the figures of a set and of its parts."""
    for part in ["", *sorted({part for asked in questions for part in asked.parts})]:
        tallies = {}
        for system, rankings in ranked.items():
            tallies[system] = tally = Tally()
            for asked, ranking in zip(questions, rankings, strict=True):
                if not part or part in asked.parts:
                    tally.add(ranking, asked.right)
        title = f"{name}: {part}" if part else name
        yield Row(title, "nDCG@10", {system: tally.ndcg for system, tally in tallies.items()})
        yield Row(title, "R@1", {system: tally.recall(1) for system, tally in tallies.items()})
        yield Row(title, "R@5", {system: tally.recall(5) for system, tally in tallies.items()})
        yield Row(title, "MRR@10", {system: tally.mrr for system, tally in tallies.items()})


def _way(asked: Loose, today: dt.date) -> str:
    """Return how a question says which time it asks for."""
    return "as of" if asked.as_of else "words of time" if when.read(asked.text, today) else "now"


def _question(asked: Loose) -> Question:
    return Question(asked.text, **({"as_of": asked.as_of} if asked.as_of else {}))


def _alike(embedder: Embedder, pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Return for each pair whether it counts as a duplicate: by text or by score."""
    one, other = (embedder.embed_passages([pair[side] for pair in pairs]) for side in (0, 1))
    scores = [score(float(a @ b), embedder.scale) for a, b in zip(one, other, strict=True)]
    return [value >= DUPLICATE or folded(a) == folded(b) for value, (a, b) in zip(scores, pairs, strict=True)]


def _holds(hits: Sequence[Hit], asked: Asked) -> bool:
    """Whether a hit of the right note shows the answer; line numbers of excerpts are ignored."""
    wanted = "".join(asked.answer.split())
    return any(
        hit.path in asked.right and wanted in "".join(re.sub(r"(?m)^\d+: ", "", hit.text).split()) for hit in hits
    )


PARTS: Mapping[str, Callable[[Bench], Iterator[Row]]] = {
    "xquad": Bench.single,
    "across": Bench.across,
    "react": Bench.headings,
    "mixed": Bench.mixed,
    "loose": Bench.loose,
    "agents": Bench.agents,
    "dated": Bench.dated,
    "validity": Bench.validity,
    "captured": Bench.captured,
    "off-topic": Bench.off_topic,
    "duplicates": Bench.duplicates,
    "excerpts": Bench.excerpts,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=_DATA, help="folder with eval/ and vaults/")
    parser.add_argument(
        "--cache",
        type=Path,
        default=user_cache_path("spellbook", appauthor=False) / "bench",
        help="folder of cached vectors",
    )
    parser.add_argument("--sample", type=int, default=300, help="most questions per set; 0 for all")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, separated by commas")
    given = parser.parse_args(arguments)
    unknown = set(given.only.split(",")) - PARTS.keys()
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    begin, model = time.monotonic(), Remembered(given.cache / "vectors.db")
    bench = Bench(given.data, model, given.sample or sys.maxsize)
    rows: list[Row] = []
    print(Row.head(), flush=True)
    for part in given.only.split(","):
        for row in PARTS[part](bench):
            rows.append(row)
            print(row, flush=True)
    aims = [row for row in rows if row.aim]
    missed = sum(not row.met for row in aims)
    print(f"\n{len(aims)} aims, {missed} not met. {model.embedded:,} texts embedded, {time.monotonic() - begin:.0f} s.")


if __name__ == "__main__":
    main()
