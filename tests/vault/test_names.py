"""Names: which files are notes by theirs, and names for new notes that every system allows."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.vault.names import COPY, is_note, safe_name

PARTS = [*("./()~#a한\n"), "~$", "case conflict", "conflicted copy", ".sync-conflict-1", ".md"]


@given(st.lists(st.sampled_from(PARTS)))
def test_a_name_that_is_no_notes_is_told_by_all_of_it(parts):
    """The quick check of a path agrees with the slow one on every rule."""
    path = "".join(parts) + ".md"
    hidden = any(part.startswith(".") for part in path.split("/"))
    assert is_note(path) == (not hidden and not COPY.search(path.rpartition("/")[2][:-3]))
    assert is_note("".join(parts)) == (path[:-3].lower().endswith(".md") and is_note(path[:-3]))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param('a<b>:"c/d\\e|f?g*h', "a-b-c-d-e-f-g-h", id="Windows"),
        pytest.param("a#b^c[d]e", "a-b-c-d-e", id="Obsidian"),
        pytest.param("tab\tline\nbell\x07", "tab-line-bell", id="control characters"),
        pytest.param("  .hidden. ", "hidden", id="dots and blanks at the ends"),
        pytest.param("~$lock~", "$lock", id="no editor's temporary name"),
        pytest.param("CON", "CON-", id="device"),
        pytest.param("nul.tar.gz", "nul-.tar.gz", id="device before a dot"),
        pytest.param("com¹ .x", "com¹- .x", id="device before a blank"),
        pytest.param("", "note", id="empty"),
        pytest.param("\ud800", "note", id="half a letter"),
        pytest.param(unicodedata.normalize("NFD", "한글 é"), "한글 é", id="NFC"),
        pytest.param("a" * 200, "a" * 117, id="length"),
        pytest.param("가" * 100, "가" * 39, id="length in bytes"),
        pytest.param("x" * 116 + "e\u0323\u0302\u0330", "x" * 116, id="not through a letter with marks"),
        pytest.param("x" * 103 + "👩‍👩‍👧‍👦", "x" * 103, id="not through a family"),
        pytest.param("x" * 111 + "👍🏽", "x" * 111, id="not through a skin"),
        pytest.param("x" * 112 + "कि", "x" * 112, id="not through a syllable"),
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
def test_safe_name(text, name):
    """
    The name is valid on Windows, macOS, Linux and in Obsidian, with at most 117 bytes before `.md`, what shows nothing
    is left out, and the result is a note by its name.
    """
    assert safe_name(text) == name
    assert is_note(f"{name}.md")


@given(st.text(max_size=200), st.integers(5, 117))
@settings(max_examples=300)
def test_safe_name_is_always_safe(text, most):
    """For any text the name is short enough, stable, not hidden and no device name."""
    name = safe_name(text, most)
    assert 0 < len(name.encode()) <= most + 1  # a device that is cut short gets its dash back
    assert safe_name(name, 120) == name
    assert not set(name) & set('<>:"/\\|?*#^[]\0\n')
    assert not name.startswith(".")
    assert name[-1] not in " ."
