"""The way of a question: through which files of the package it goes."""

import sys
from pathlib import Path
from types import FrameType

import pytest

import spellbook
from spellbook.library.book import Spellbook
from tests.helpers import Write, watched

STAGES = {
    "question",
    "searcher",
    "candidates",
    "words",
    "script_and_language",
    "synonyms",
    "time_in_question",
    "scores",
    "related",
    "ranking",
    "choice",
    "packing",
    "cited_code",
}


@pytest.mark.bare
def test_a_question_goes_through_few_files(book: Spellbook, write_note: Write) -> None:
    """Warm, and to JSON: the stages of `search` and how hits are shown, a file each, and what they stand on."""
    for number in range(12):
        write_note(f"{number}.md", f"# Harbour {number}\n\nThe keys of the harbour, see [[{number - 1}]].")
    book.reindex()
    watched(book)  # no scan
    root, entered = Path(spellbook.__file__).parent, set[Path]()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(root)):
            entered.add(Path(frame.f_code.co_filename).relative_to(root))

    asked = "which keys does the harbour have?"
    book.search(asked)
    sys.setprofile(look)
    try:
        assert book.search(asked).as_dict()["hits"]
    finally:
        sys.setprofile(None)
    assert {file.stem for file in entered if file.parts[0] == "search"} <= {*STAGES, "note_marks", "presentation"}
    assert len(entered) <= 41, sorted(entered)
