"""New notes are called as they are titled, by names that every system and Obsidian's links accept."""

from __future__ import annotations

import unicodedata

import pytest

from spellbook.system.errors import InvalidInput
from spellbook.vault.names import MOST_NEW, is_note, safe_name
from spellbook.vault.vault import Vault


@pytest.fixture
def notes(vault, tmp_path):
    return Vault(vault, tmp_path / "locks")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("복셀 16×16 크기!", "복셀 16×16 크기!", id="signs stay"),
        pytest.param("Don't mix A & B, 50 %", "Don't mix A & B, 50 %", id="case, blanks and commas stay"),
        pytest.param("18:30 회의", "18-30 회의", id="time"),
        pytest.param("abc\u202egnp.exe", "abcgnp.exe", id="right to left override"),
        pytest.param("\u200f\u2067a\u2069", "a", id="isolates"),
        pytest.param("a\u200bb\u00adc\ufeff\u0085d", "abcd", id="nothing to see"),
        pytest.param("می\u200cخواهم 👨\u200d👩\u200d👧", "می\u200cخواهم 👨\u200d👩\u200d👧", id="joiners stay"),
        pytest.param("e\u200b\u0301", "é", id="composed after that"),
        pytest.param("Plan (conflicted copy 2)", "Plan -conflicted copy 2-".strip("-"), id="no conflict copy"),
        pytest.param("x.sync-conflict-20260101", "x-sync-conflict-20260101", id="no conflict of Syncthing"),
        pytest.param("(case conflict) a", "case conflict- a", id="no conflict of case"),
    ],
)
def test_names(text, name):
    """What shows nothing is left out, what a system refuses is a dash, and the result is a note by its name."""
    assert safe_name(text) == name
    assert is_note(f"{name}.md")


def test_names_that_differ_in_case_alone_do_not_meet_on_another_disk(notes, vault):
    """A name is taken if another one is the same on a disk that ignores case or composes letters."""
    (vault / "t").mkdir()
    (vault / "t" / unicodedata.normalize("NFD", "한글.md")).write_text("there")
    assert [notes.create("t", name, b"x") for name in ("Keys", "KEYS", "keys", "한글", "Straße", "STRASSE")] == [
        "t/Keys.md", "t/KEYS 2.md", "t/keys 3.md", "t/한글 2.md", "t/Straße.md", "t/STRASSE 2.md",
    ]  # fmt: skip


def test_a_long_name_leaves_room_for_its_number(notes):
    """With its number and ending a name has at most 100 bytes."""
    paths = [notes.create("t", "가" * 60, b"%d" % number) for number in range(11)]
    assert len(set(paths)) == 11
    assert all(len(path.removeprefix("t/").encode()) <= MOST_NEW == 100 for path in paths)
    assert paths[10].endswith(" 11.md")


def test_a_name_that_is_ignored_is_refused(book, vault):
    """A memory that `.spellbookignore` would hide by its title is refused, and nothing is written."""
    (vault / ".spellbookignore").write_text("Draft *.md\n")
    chunk = {"text": "The harbour opens at six.", "metadata": {"topic": "t", "keywords": ["a"], "title": "Draft one"}}
    with pytest.raises(InvalidInput, match=r"leaves out 'knowledge/t/Draft one\.md'.*topic or title"):
        book.scribe(chunk)
    assert not [*vault.rglob("*.md")]
