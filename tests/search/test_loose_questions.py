"""The loose questions of `tests/quality`: their number, their accepted answers, and that they do not quote headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from spellbook.editing.memory import made_title
from spellbook.notes.note import parse
from spellbook.search import when
from tests.benchmarks.questions import HALVES, QUALITY, Loose, half_of, loose, memories, places, react_pages, validity

REACT = Path(__file__).parents[3] / "shared" / "vaults" / "react-docs"
EVERYDAY = 10
"""A word that headings of so many pages hold (list, server, function) names none of them."""

_STOP = frozenset(
    re.findall(
        "[a-z]+",
        """
        the and but for with without from are was were its this that what when where why how who which does did not yes our your their you
        they can will should would could have has had else than then into about more most all any one two just only also never use using used get got make
        """,
    )
)
_PARTICLE = re.compile(
    "(?:으로|에서|에게|하는|하기|하고|되는|되기|이란|인가요|나요|을|를|이|가|은|는|의|에|로|와|과|도|만)$"
)


def stems(text: str) -> set[str]:
    """Content words without common endings: English of three letters or more, Korean of two syllables or more."""
    found = set()
    for word in re.findall("[a-z]+|[가-힣]+", re.sub("[`'’]", "", text.lower())):
        if not word.isascii():
            found.add(_PARTICLE.sub("", word) if len(word) > 2 else word)
        elif len(word) > 2 and word not in _STOP:
            found.add(re.sub(r"(.)\1$", r"\1", re.sub("(?:ing|ed|es|s|ly|e)$", "", word) if len(word) > 4 else word))
    return {stem for stem in found if len(stem) > 1}


def quoted(question: str, heading: str) -> set[str]:
    """The words that a question shares with a heading; Korean words are equal if one is the beginning of the other."""
    asked = stems(question)
    return {
        stem
        for stem in stems(heading)
        if stem in asked
        or (not stem.isascii() and any(stem.startswith(each) or each.startswith(stem) for each in asked))
    }


@pytest.mark.parametrize(("name", "korean", "english"), [("react", 100, 50), ("memories", 35, 25)])
def test_counts_and_halves(name: str, korean: int, english: int) -> None:
    """Each set has the promised number of different questions in each language, and the right half for each."""
    asked = loose(name)
    assert Counter(each.language for each in asked) == {"ko": korean, "en": english}
    assert len({each.text for each in asked}) == len(asked)
    assert [each.half for each in asked] == [half_of(each.accept) for each in asked]
    assert min(Counter((each.language, each.half) for each in asked).values()) > 10
    assert {each.half for each in asked} == set(HALVES)
    for each in asked:
        assert bool(re.search("[가-힣]", each.text)) == (each.language == "ko")


def test_states_of_facts() -> None:
    """Three states each of 40 facts are notes with dates; 60 questions ask for one, a third each way, half in each half."""
    given = validity()
    notes = {path: parse(path, text.encode()) for path, text in given.notes.items()}
    assert len(notes) == 120
    assert not any(note.faults for note in notes.values())
    assert all(note.meta.keys() & {"valid_from", "valid_until", "created"} for note in notes.values())
    assert {f"{note.meta['supersedes']}.md" for note in notes.values() if "supersedes" in note.meta} <= notes.keys()
    assert all(path in notes for each in given.questions for path in each.accept)
    assert Counter(each.half for each in given.questions) == dict.fromkeys(HALVES, 30)
    ways = Counter((bool(each.as_of), bool(when.read(each.text, given.today))) for each in given.questions)
    assert ways == {(True, False): 20, (False, True): 20, (False, False): 20}


def test_memories_are_notes() -> None:
    """There are 150 to 200 memories of two years in two languages, in the form that `scribe` writes."""
    notes = memories()
    assert 150 <= len(notes) <= 200
    assert len({path for path, _ in notes.values()}) == len(notes)
    assert (QUALITY / "memories.yaml").stat().st_size < 100_000
    parsed = {id: parse(path, text.encode()) for id, (path, text) in notes.items()}
    assert all(note.declared_id == id and not note.faults for id, note in parsed.items())
    assert {"topic", "category", "keywords", "importance", "created", "updated"} <= set.intersection(
        *(set(n.meta) for n in parsed.values())
    )
    days = [note.meta["created"].date() for note in parsed.values()]
    assert (max(days) - min(days)).days > 500
    korean = sum(bool(re.search("[가-힣]", note.body)) for note in parsed.values())
    assert len(notes) / 3 < korean < len(notes) * 3 / 4


def test_memories_answer() -> None:
    """Each accepted memory exists, some in the other language, and no question quotes its title or first words."""
    notes = memories()
    across = 0
    for each in loose("memories"):
        for id in each.accept:
            note = parse(notes[id][0], notes[id][1].encode())
            title = note.meta.get("title", "")
            is_made = title == made_title(note.body.strip())
            heading = " ".join(note.body.split()[:8]) if is_made or not title else title
            assert not quoted(each.text, heading), each.text
            across += bool(re.search("[가-힣]", note.body)) != (each.language == "ko")
    assert across >= 20


def test_pages_answer() -> None:
    """Each accepted section of React's documentation exists, and no question quotes its heading."""
    pages = react_pages(REACT)
    if pages is None:
        pytest.skip(f"React's documentation is not in {REACT}")
    asked = loose("react")
    found = {name: places(pages, name) for each in asked for name in each.accept}
    assert [name for name, at in found.items() if not at] == []
    assert len({name.partition("#")[0] for name in found}) >= 90
    common = everyday(pages.values())
    for each in asked:
        assert quotes(each, [at.heading for name in each.accept for at in found[name]]) <= common, each.text


def quotes(asked: Loose, headings: Iterable[str]) -> set[str]:
    """The words that a question shares with any of the headings."""
    return set().union(*(quoted(asked.text, heading) for heading in headings))


def everyday(pages: Iterable[str]) -> set[str]:
    """Words that the headings or titles of at least `EVERYDAY` pages contain."""
    held: Counter[str] = Counter()
    for text in pages:
        headings = re.findall(r"^(?:title:|#{1,4}) *(.*?)(?:\{/\*|$)", text, re.M)
        held.update(stems(" ".join(headings)))
    return {stem for stem, count in held.items() if count >= EVERYDAY}
