"""Revising: append, replace and set change no other byte; hashes for callers; command and tool."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing import erase
from spellbook.editing.edits import appended, replaced
from spellbook.library.book import Spellbook
from spellbook.notes.note import parse
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.vault.folder import digest
from tests.editing.conftest import NOTE
from tests.helpers import Write, held


def text(file: Path) -> str:
    return file.read_bytes().decode()


# -- append


def test_appended_text_is_a_paragraph_of_its_own(book: Spellbook, harbour: Path) -> None:
    """
    Appended text becomes a paragraph at the end of the section, with its blank lines and line endings, and is found.
    With a note's id or path it goes to the end of the note, which still has no final newline.
    """
    done = book.revise("harbour#two", append="Added later,\nin two lines.\n")
    assert text(harbour) == NOTE.replace("second", "second\r\n\r\nAdded later,\r\nin two lines.")
    assert "+Added later," in done.difference
    assert [hit.id for hit in book.find("added later").hits] == ["harbour#two"]
    harbour.write_bytes(NOTE.encode())
    for number, id in enumerate(("harbour", "harbour.md", "harbour#three"), 1):
        book.revise(id, append="The end.")
        assert text(harbour) == NOTE + "\r\n\r\nThe end." * number


@pytest.mark.parametrize(
    ("before", "added", "after"),
    [
        pytest.param("- a\n- b\n", "- c", "- a\n- b\n- c\n", id="an item of a list"),
        pytest.param("1. a\n\n\n", "2. b", "1. a\n2. b\n\n\n", id="a numbered item, blank lines behind"),
        pytest.param("- a\n", "b", "- a\n\nb\n", id="a paragraph behind a list"),
        pytest.param("a\n", "- b", "a\n\n- b\n", id="a list behind a paragraph"),
        pytest.param("", "a", "a\n", id="an empty note"),
        pytest.param("---\ntopic: x\n---\n", "a", "---\ntopic: x\n---\na\n", id="nothing but frontmatter"),
        pytest.param("a  ", "b", "a  \n\nb", id="blanks at the end of a line"),
        pytest.param("## H\n", "a", "## H\n\na\n", id="nothing but a heading"),
    ],
)
def test_append_follows_what_is_there(before: str, added: str, after: str) -> None:
    """An appended list item joins the list, other text becomes a paragraph; the end of the file stays."""
    note = parse("a.md", before.encode())
    assert appended(note, note.body_at, len(note.text), added) == after


def test_a_long_section_is_appended_to_at_its_end(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Appending to a section that is indexed in parts appends to its end; a single part can also be named."""
    body = "\n\n".join(f"Paragraph {i} speaks of cranes, ships and the tide at length. " * 6 for i in range(12))
    write_note("long.md", f"# Long\n\n## One\n\n{body}\n\n## Two\n\nlast\n")
    assert len([found for found in book.show("long") if found.id.startswith("long#one")]) > 1
    book.revise("long#one", append="The very end.")
    assert (vault / "long.md").read_text() == f"# Long\n\n## One\n\n{body}\n\nThe very end.\n\n## Two\n\nlast\n"


# -- replace


def test_a_phrase_is_replaced_where_it_stands(book: Spellbook, harbour: Path) -> None:
    """A phrase is replaced once, in the named section or note, with the file's line ends; frontmatter stays."""
    book.revise("harbour#two", replace=("second", "2nd\nsection"))
    assert text(harbour) == NOTE.replace("second", "2nd\r\nsection")
    book.revise("harbour", replace=("2nd\nsection", "second"))
    assert text(harbour) == NOTE
    with pytest.raises(InvalidInput, match="is not there"):
        book.revise("harbour", replace=("Harbour", "Port"))


BODIES = st.text(alphabet="ab가 \n\r#-`", max_size=60)


@given(BODIES, st.text(alphabet="ab가", min_size=1, max_size=3), st.text(alphabet="xy나 ", max_size=4))
def test_replace_changes_the_phrase_and_nothing_else(body: str, old: str, new: str) -> None:
    """Replacing the phrase back restores the file, or nothing was changed."""
    note = parse("a.md", f"---\ntopic: {old}\n---\n{body}".encode())
    try:
        after = replaced(note, note.body_at, len(note.text), (old, new))
    except InvalidInput:
        assert note.body.count(old) != 1
        return
    at = note.text.index(old, note.body_at)
    assert after == note.text[:at] + new + note.text[at + len(old) :]


@given(BODIES, st.text(alphabet="xy나", min_size=1, max_size=8))
def test_append_adds_and_takes_nothing(body: str, added: str) -> None:
    """All old text stays in order, and the new text is in one piece."""
    note = parse("a.md", f"---\ntopic: t\n---\n{body}".encode())
    after = appended(note, note.body_at, len(note.text), added)
    assert after.startswith(f"---\ntopic: t\n---\n{body.rstrip()}")
    at = after.index(added, note.body_at)
    assert "".join(after[:at].split()) + "".join(after[at + len(added) :].split()) == "".join(note.text.split())


def test_what_makes_no_sense_changes_nothing(book: Spellbook, harbour: Path) -> None:
    """Nothing, two ways at once, an empty phrase, or text that would absorb later sections is INVALID_INPUT."""
    wrong: tuple[dict[str, Any], ...] = (
        *({}, {"append": " \n"}, {"append": "\ud800"}, {"append": "<!--"}, {"append": "a", "content": "b"}),
        *({"content": " \n"}, {"content": "```\nnever closed"}, {"content": "\ud800"}),
        *({"metadata": {}}, {"metadata": {"id": "x"}}, {"metadata": {"topic": ["a"]}}, {"metadata": {"bad: key": 1}}),
        *({"replace": ("", "b")}, {"replace": ("nowhere", "b")}, {"replace": ("first", "a\0b")}),
        *({"replace": ("first", "```")}, {"append": "a", "replace": ("a", "b")}),
    )
    for asked in wrong:
        with pytest.raises(InvalidInput):
            book.revise("harbour#one", **asked)
        assert text(harbour) == NOTE, asked
    assert book.log() == []


# -- hashes


def test_every_answer_has_the_hash_that_revise_expects(book: Spellbook, harbour: Path) -> None:
    """
    Hits, `show` and revisions return the hash for the next revision, and that of the file counts too; an old hash, or
    one letter of it, is a conflict.
    """
    [hit] = book.find("second").hits
    shown = next(found for found in book.show("harbour") if found.id == hit.id)
    assert hit.hash == shown.hash == hit.as_dict()["hash"]
    done = book.revise(hit.id, append="more", expected_hash=hit.hash)
    book.revise(hit.id, replace=("more", "less"), expected_hash=done.hash)
    for asked in ({"append": "x"}, {"replace": ("less", "x")}, {"metadata": {"topic": "x"}}, {"content": "x"}):
        for wrong in (done.hash, done.hash[:1], "0" * 64, "zzz"):
            with pytest.raises(Conflict):
                book.revise(hit.id, expected_hash=wrong, **asked)
    for letters, added in ((64, "x"), (16, "y")):
        book.revise("harbour", append=added, expected_hash=digest(harbour.read_bytes())[:letters])
    assert text(harbour) == NOTE.replace("second", "second\r\n\r\nless") + "\r\n\r\nx\r\n\r\ny"


# -- updated


@pytest.mark.parametrize(
    ("old", "form"),
    [
        ("2020-01-02", r"\d{4}-\d\d-\d\d"),
        ("2020-01-02 03:04:05", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"),
        ("2020-01-02T03:04:05+09:00", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"),
        ("2020-01-02T03:04", r"\d{4}-\d\d-\d\dT\d\d:\d\d"),
        ("'2020-01-02 03:04:05'", r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d'"),
        ('"2020-01-02"', r'"\d{4}-\d\d-\d\d"'),
        ("'[[2020-01-02]]'", r"'\[\[\d{4}-\d\d-\d\d\]\]'"),
        ("January 2, 2020", r"\d{4}-\d\d-\d\d \d\d:\d\d"),
        *((value, re.escape(value)) for value in ("yesterday", "[2020, 1]", "12", "")),
    ],
)
def test_updated_keeps_its_form(book: Spellbook, write_note: Write, old: str, form: str) -> None:
    """`updated` keeps its form (date, quoted text, minutes), under any name; no other line changes. No time stays."""
    for number, key in enumerate(("updated", "modified", "Updated", "date modified", "lastmod")):
        file = write_note(f"{number}.md", f"---\nx: 1  # one\n{key}: {old}\n---\ntext\n")
        book.revise(str(number), "new text")
        found = re.fullmatch(rf"---\nx: 1  # one\n{key}: ({form})\n---\nnew text\n", file.read_text())
        assert found, file.read_text()
        assert "20" not in old[:3] or found[1] == old or str(dt.date.today().year) in found[1]


@pytest.mark.parametrize(
    ("before", "asked", "after"),
    [
        ("birthday: 1990-05-12  # c", {"birthday": "1990-05-13"}, "birthday: 1990-05-13  # c"),
        ("birthday: '1990-05-12'", {"birthday": "1990-05-13"}, "birthday: '1990-05-13'"),
        ("Birthday: 1990-05-12", {"birthday": "1990-05-13"}, "Birthday: 1990-05-13"),
        ("due: [1990-05-12]", {"due": ["1990-05-12", "1990-05-13"]}, "due: [1990-05-12, 1990-05-13]"),
        ("a: 1", {"due": "1990-05-13"}, "a: 1\ndue: 1990-05-13"),
        ("at: 1990-05-12 10:00:00", {"at": "1990-05-12 11:00:00"}, "at: 1990-05-12T11:00:00"),
        ("country: no", {"country": "off"}, "country: 'off'"),
        ("event: 10:30", {"event": "12:30"}, "event: '12:30'"),
        ("title: 2024-01-05", {"title": "2024-01-06"}, "title: '2024-01-06'"),
        ("Tags: [a]", {"tags": ["a", "no"]}, "Tags: [a, 'no']"),
        ("TAGS: a\nb: 1", {"Tags": None}, "b: 1"),
        ("생일: 1", {"생일": 2}, "생일: 2"),
    ],
)
def test_a_changed_value_is_written_as_its_readers_take_it(
    book: Spellbook, write_note: Write, before: str, asked: dict[str, Any], after: str
) -> None:
    """A date stands without quotes, a text that readers of YAML may take for something else in them; keys stay."""
    file = write_note("a.md", f"---\n{before}\n---\ntext\n")
    book.revise("a", metadata=asked)
    assert file.read_text("utf-8") == f"---\n{after}\n---\ntext\n"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("ten\u00a0km", "no-break space"),
        ("ten\u3000km", "ideographic space"),
        ("ten  km", "other blanks"),
        ("ten\nkm", "line end"),
        ("ten\u202f\u00a0km", "narrow no-break space, no-break space"),
    ],
)
def test_another_blank_is_named(book: Spellbook, write_note: Write, written: str, said: str) -> None:
    """A phrase that the note has with other blanks is shown as it stands there; nothing is changed."""
    file = write_note("a.md", f"It is {written} away.\n")
    with pytest.raises(InvalidInput) as raised:
        book.revise("a", replace=("ten km away", "far"))
    assert f"with {said}." in str(raised.value)
    assert repr(f"{written} away") in str(raised.value)
    assert file.read_text("utf-8") == f"It is {written} away.\n"


# -- erasing


def test_of_a_topic_whose_note_was_edited_nothing_is_erased(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Not even the notes that are as the index knows them; once it knows the edit, all of them go."""
    for name in "abc":
        write_note(f"{name}.md", f"# {name}\n\nText of {name}.\n", topic="tides")
    book.reindex()
    write_note("b.md", "# b\n\nEdited.\n", topic="tides")
    before = held(vault)
    for hard in (False, True):
        with pytest.raises(Conflict, match="nothing was erased"):
            erase.erase_topic(book.index, "tides", None, hard=hard)
        assert held(vault) == before
        write_note("b.md", f"# b\n\nEdited again {hard}.\n", topic="tides")
        before = held(vault)
    book.erase_topic("tides")
    assert sorted(held(vault)) == [".trash/a.md", ".trash/b.md", ".trash/c.md"]
