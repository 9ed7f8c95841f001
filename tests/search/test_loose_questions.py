"""The sets of questions in `tests/quality`: each accepted answer exists, and the halves are as they are told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from spellbook.notes.note import parse
from spellbook.search import when
from tests.benchmarks.questions import HALVES, half_of, loose, memories, places, react_pages, validity

REACT = Path(__file__).parents[3] / "shared" / "vaults" / "react-docs"


@pytest.mark.parametrize(("name", "korean", "english"), [("react", 100, 50), ("memories", 35, 25)])
def test_every_set_is_sound(name: str, korean: int, english: int) -> None:
    """Different questions in each language, each in its half; what they accept exists."""
    asked = loose(name)
    assert Counter(each.language for each in asked) == {"ko": korean, "en": english}
    assert len({each.text for each in asked}) == len(asked)
    assert [each.half for each in asked] == [half_of(each.accept) for each in asked]
    accepted = {accept for each in asked for accept in each.accept}
    if name == "memories":
        assert accepted <= memories().keys()
    elif pages := react_pages(REACT):
        assert [accept for accept in accepted if not places(pages, accept)] == []


def test_states_of_facts() -> None:
    """Three states each of 40 facts are notes with dates; 60 questions ask for one, a third each way, half in each half."""
    given = validity()
    notes = {path: parse(path, text.encode()) for path, text in given.notes.items()}
    assert len(notes) == 120
    assert all(note.meta.keys() & {"valid_from", "valid_until", "created"} for note in notes.values())
    assert all(path in notes for each in given.questions for path in each.accept)
    assert Counter(each.half for each in given.questions) == dict.fromkeys(HALVES, 30)
    ways = Counter((bool(each.as_of), bool(when.read(each.text, given.today))) for each in given.questions)
    assert ways == {(True, False): 20, (False, True): 20, (False, False): 20}
