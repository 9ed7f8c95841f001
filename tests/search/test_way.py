"""The way of a question: through which files of the package it goes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import spellbook
from spellbook.library.book import Spellbook
from tests.helpers import Write, watched

ROOT = f"{Path(spellbook.__file__).parent}/"
STAGES = {"question", "searcher", "candidates", "words", "synonyms", "when", "scores", "related", "ranking", "packing"}


@contextmanager
def traced() -> Iterator[Counter[str]]:
    """Count the calls of the package's functions by file."""
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := frame.f_code.co_filename).startswith(ROOT):
            calls[name.removeprefix(ROOT)] += 1

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.bare
def test_a_question_goes_through_few_files(book: Spellbook, write_note: Write) -> None:
    """Warm, and to JSON: the stages of `search` and how hits are shown, a file each, and what they stand on."""
    for number in range(12):
        write_note(f"{number}.md", f"# Harbour {number}\n\nThe keys of the harbour, see [[{number - 1}]].")
    book.reindex()
    watched(book)  # no scan
    asked = "which keys does the harbour have?"
    book.search(asked)
    with traced() as calls:
        assert book.search(asked).as_dict()["hits"]
    stages = {Path(name).stem for name in calls if name.startswith("search/")}
    assert stages <= {*STAGES, "presentation"}
    assert len(calls) <= 44
