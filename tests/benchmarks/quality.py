"""
Quality of search in one table: finding and rejecting. `make bench-quality`.

The product is asked, and by words or by meaning alone. Sets without data are named and skipped. Vectors are cached, so a second run takes minutes.
"""

import argparse
import datetime as dt
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from platformdirs import user_cache_path

from spellbook.notes.chunks import Chunk
from spellbook.search import time_in_question
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.benchmarks.corpora import LANGUAGES, OTHER, Asked, React, Set, Vault, Xquad, sampled
from tests.benchmarks.measures import PRODUCT, SHOWN, SYSTEMS, Row, Tally, loose_figures, place
from tests.benchmarks.questions import (
    HALVES,
    QUALITY,
    Dated,
    Helped,
    Loose,
    dated,
    helped,
    loose,
    memories,
    places,
    react_pages,
    sessions,
    validity,
)
from tests.benchmarks.trials import Remembered, Trial

PAIRS = (("zh", "en"), ("en", "ru"), ("ar", "en"), ("de", "th"), ("hi", "es"), ("vi", "en"), ("tr", "el"), ("ro", "zh"))
MIXED = ("zh", "es", "ru", "ar")
OFF_TOPIC = tuple(pair.split() for pair in ("en en", "es es", "zh zh", "ar ar", "th th", "en zh", "en ru", "es hi"))
"""Languages of the notes and of the questions."""

LEAST_NDCG, LEAST_OTHER = 0.975, 0.75
LEAST_HELD = 0.90
MOST_OFF_TOPIC = 0.10
"""Aims for the product."""

WAYS: Mapping[str, Callable[[Sequence[str], Sequence[str]], Sequence[str]]] = {
    "alone": lambda own, other: (),
    "with two texts": lambda own, other: own,
    "with one": lambda own, other: own[:1],
    "with two, one wrong": lambda own, other: (other[0], *own[1:]),
}
"""How agents ask: the texts beside a question, of its `own` further texts and of those of an `other` question."""

_DATA = Path(__file__).parents[3] / "shared"
_T = TypeVar("_T")
Lines = Mapping[Loose, Sequence[tuple[str, int, int]]]
"""The lines that answer each question: path, first, last."""


class Bench:
    """Shared by all measurements: the data, the model with its cache, and the most questions per set."""

    def __init__(self, data: Path, model: Remembered, most: int) -> None:
        self.model, self.most, self._data = model, most, data

    @cached_property
    def xquad(self) -> Xquad | None:
        """XQuAD in twelve languages; None if its data is missing."""
        return self._there("XQuAD (eval/xquad)", Xquad.read(self._data / "eval" / "xquad"))

    @cached_property
    def react(self) -> React | None:
        """React's documentation in Korean and English; None if its data is missing."""
        return self._there("React (vaults/react-docs)", React.read(self._data / "vaults" / "react-docs"))

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

    def plain(self) -> Iterator[Row]:
        """XQuAD: questions and paragraphs in one language, and in different ones."""
        if self.xquad is None:
            return
        for pair in [*((one, one) for one in LANGUAGES), *PAIRS]:
            for row in self.asked(self.xquad.pair(*pair)):
                aims = pair == ("en", "en") and row.figure == "nDCG@10"
                yield replace(row, aim=f">= {LEAST_NDCG}", met=row.values[PRODUCT] >= LEAST_NDCG) if aims else row

    def headings(self) -> Iterator[Row]:
        """React: Korean headings as questions for sections."""
        if self.react:
            yield from self.asked(self.react.one("en"))
            yield from self.asked(self.react.one("ko"))

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
            ranked = {system: [trial.ranked(system, asked) for asked in questions] for system in SYSTEMS}
        for part in sorted({"", *(asked.part for asked in questions)}):
            tallies = {system: Tally() for system in SYSTEMS}
            for system, rankings in ranked.items():
                for asked, ranking in zip(questions, rankings, strict=True):
                    if part in {"", asked.part}:
                        tallies[system].add(ranking, asked.right)
            title = f"{each.name}: {part}" if part else each.name
            yield Row(title, "nDCG@10", {system: tally.ndcg for system, tally in tallies.items()})
            yield Row(title, "R@1", {system: tally.recall(1) for system, tally in tallies.items()})
            yield Row(title, "R@5", {system: tally.recall(5) for system, tally in tallies.items()})
            yield Row(title, "MRR@10", {system: tally.mrr for system, tally in tallies.items()})

    def loose(self) -> Iterator[Row]:
        """
        Questions as people type who half remember, by half: over React's documentation, and over memories such as agents write.

        A hit is right if it holds a line of what is accepted.
        """
        for name, notes, lines in self._loosely():
            title = {"react": "loose, React ko + en", "memories": "loose, memories"}[name]
            with self.trial(_by_lines(notes)) as trial:
                ranked: dict[Loose, dict[str, int]] = {}
                for each, right in zip(lines, _right(trial, lines).values(), strict=True):
                    asked = Asked(each.text, each.language, right)
                    ranked[each] = {system: place(trial.ranked(system, asked), right) for system in SYSTEMS}
            for half in HALVES:
                for language in ("", "ko", "en") if name == "react" else ("",):
                    of = [each for each in ranked if each.half == half and language in {"", each.language}]
                    asks = f" asked in {language}" if language else ""
                    yield from loose_figures(f"{title}{asks}, {half} ({len(of)})", [ranked[each] for each in of])

    def _loosely(self) -> Iterator[tuple[str, Mapping[str, str], Lines]]:
        """Yield name, notes and questions of the loose sets, each with the lines that answer it."""
        pages = self._there("React (vaults/react-docs)", react_pages(self._data / "vaults" / "react-docs"))
        if pages:
            accepted = {each: [at for name in each.accept for at in places(pages, name)] for each in loose("react")}
            yield "react", pages, {each: [(at.path, at.first, at.last) for at in ats] for each, ats in accepted.items()}
        notes = memories()
        lines = {each: [(notes[id][0], 1, sys.maxsize) for id in each.accept] for each in loose("memories")}
        yield "memories", dict(notes.values()), lines

    def agents(self) -> Iterator[Row]:
        """How agents ask: with texts guessed from the question alone; also what no note answers."""
        chats = sessions()
        lines = {each: [(path, 1, sys.maxsize) for path in each.accept] for each in chats.questions}
        for name, notes, asks in (*self._loosely(), ("sessions", chats.notes, lines)):
            halves = {each.text: each.half for each in asks}
            with self.trial(_by_lines(notes)) as trial:
                asked = {name: helped(name, halves, _right(trial, asks))}
                asked |= {off: helped(off, {}, {}) for off in ("nowhere", "near")[: 1 + (name == "memories")]}
                for (of, each), way in ((pair, way) for pair in asked.items() for way in WAYS):
                    what = name if of == name else f"{name}, asked {of}"
                    for half, figure, sure, shown in _of_agents(trial, each, way):
                        if of == name or figure == "any hit":
                            yield Row(f"agents: {what}, {way}, {half}", figure, {PRODUCT: sure, SHOWN: shown})

    def dated(self) -> Iterator[Row]:
        """Questions that say when, over notes that differ by their dates, by half; asked on the set's own day."""
        yield from self._dated("dated notes", dated())

    def validity(self) -> Iterator[Row]:
        """Facts that changed, asked with a date beside the question, with a time in it, and with neither: the state that held is first."""
        given = validity()
        for row in self._dated("validity", given):
            aims = row.figure == "hit@1"
            yield replace(row, aim=f">= {LEAST_HELD:.2f}", met=row.values[PRODUCT] >= LEAST_HELD) if aims else row
        ways: dict[str, list[Loose]] = {}
        for each in given.questions:
            says = (
                "as of" if each.as_of else "words of time" if time_in_question.read(each.text, given.today) else "now"
            )
            ways.setdefault(says, []).append(each)
        for way, asked in ways.items():
            yield from self._dated(f"validity, {way}", replace(given, questions=asked))

    def _dated(self, name: str, given: Dated) -> Iterator[Row]:
        """Ask dated questions on the set's own day; yield the figures of each half."""
        noon = dt.datetime.combine(given.today, dt.time(12)).timestamp()
        with self.trial(Vault(given.notes)) as trial:
            searcher = Searcher(trial.book.index, lambda: noon)
            for half in HALVES:
                found = []
                for each in (each for each in given.questions if each.half == half):
                    hits = searcher.ask(Question(each.text, as_of=each.as_of)).hits
                    found.append({PRODUCT: place([hit.path for hit in hits], each.accept)})
                yield from loose_figures(f"{name}, {half} ({len(found)})", found)

    # -- leaving out

    def off_topic(self) -> Iterator[Row]:
        """Share of off-topic questions that find anything, and of on-topic questions still answered, with the default threshold."""
        # Name, set, whether it is asked its own questions too, others.
        cases: list[tuple[str, Set, bool, Sequence[str]]] = []
        nowhere = [line for line in (QUALITY / "nowhere.txt").read_text("utf-8").split("\n") if line.strip()]
        if self.xquad:
            halves = [self.xquad.half(told, asked) for told, asked in OFF_TOPIC]
            cases += [(on.name, on, True, off) for on, off in halves]
            english = self.xquad.pair("en", "en")
            cases.append(("XQuAD en asked unanswerable questions", english, False, nowhere))
        if self.react:
            pages = self.react.one("en")
            cases.append(("React en, its Korean headings", pages, True, nowhere))
        if self.xquad and self.react:
            cases.append(("XQuAD en asked React's Korean headings", english, False, [a.text for a in pages.asked]))
            cases.append(("React en asked XQuAD en", pages, False, [a.text for a in english.asked]))
        for name, on, is_asked, off in cases:
            with self.trial(on.vault) as trial:
                off = off if len(off) <= self.most else random.Random(5).sample(list(off), self.most)
                answers = [trial.book.search(text) for text in off]
                found = float(np.mean([bool(answer.hits) for answer in answers]))
                shown = float(np.mean([bool(answer.hits or answer.closest) for answer in answers]))
                what = f"off topic: {name}" + (", others" if is_asked else "")
                yield Row(
                    what, "any hit", {PRODUCT: found, SHOWN: shown}, f"< {MOST_OFF_TOPIC:.2f}", found < MOST_OFF_TOPIC
                )
                if is_asked:
                    questions = sampled(on.asked, self.most)
                    right = [bool(asked.right.intersection(trial.hits(asked.text))) for asked in questions]
                    yield Row(f"on topic: {name}", "in first 5", {PRODUCT: float(np.mean(right))})


def _by_lines(notes: Mapping[str, str]) -> Vault:
    return Vault(notes, lambda path, line: f"{path}:{line}")


def _right(trial: Trial, lines: Lines) -> dict[str, frozenset[str]]:
    """Return the places of the chunks that hold one of a question's lines, by its text."""

    def holds(path: str, chunk: Chunk, accepted: Sequence[tuple[str, int, int]]) -> bool:
        return any(path == at and chunk.line <= last and chunk.end_line >= first for at, first, last in accepted)

    return {
        each.text: frozenset(
            trial.vault.unit(path, chunk.line) for path, chunk in trial.chunks if holds(path, chunk, accepted)
        )
        for each, accepted in lines.items()
    }


def _of_agents(trial: Trial, asked: Sequence[Helped], way: str) -> Iterator[tuple[str, str, float, float]]:
    """Ask one way; yield half, figure, and its value by sure hits and by what is shown: the hits, or the closest notes."""
    found: dict[str, list[tuple[int, int]]] = {half: [] for half in HALVES}
    for each in asked:
        answer = trial.book.search(each.text, also=WAYS[way](each.also, each.wrong))
        sure, shown = (
            place([trial.vault.unit(hit.path, hit.line) for hit in hits], each.accept)
            for hits in (answer.hits, answer.hits or answer.closest)
        )
        found[each.half].append((sure, shown))
    for half, ranks in ((half, np.array(ranks)) for half, ranks in found.items() if ranks):
        for figure, met in (("hit@1", ranks == 1), ("hit@5", (ranks >= 1) & (ranks <= 5)), ("any hit", ranks >= 0)):
            by_sure, by_shown = met.mean(axis=0)
            yield half, figure, float(by_sure), float(by_shown)


PARTS: Mapping[str, Callable[[Bench], Iterator[Row]]] = {
    "xquad": Bench.plain,
    "react": Bench.headings,
    "mixed": Bench.mixed,
    "loose": Bench.loose,
    "agents": Bench.agents,
    "dated": Bench.dated,
    "validity": Bench.validity,
    "off-topic": Bench.off_topic,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    cache = user_cache_path("spellbook", appauthor=False) / "bench"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=_DATA, help="folder with eval/ and vaults/")
    parser.add_argument("--cache", type=Path, default=cache, help="folder of cached vectors")
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
