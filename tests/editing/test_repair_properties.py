"""Frontmatter that is no YAML: its cause in plain words, and quotes where only one reading is possible."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spellbook.editing.repair_properties import with_quotes
from spellbook.notes import broken_headers as broken
from spellbook.notes.note import Note, parse
from tests.commands import spellbook_in
from tests.helpers import Write, held


def note_of(header: str, end: str = "\n") -> Note:
    return parse("a.md", f"---\n{header}\n---\n\n# A\n\nText: a.\n".replace("\n", end).encode())


CERTAIN = [
    ("title: Tea: a story", broken.COLON, 'title: "Tea: a story"'),
    ("title: 차: 이야기", broken.COLON, 'title: "차: 이야기"'),
    ("title: ends with a colon:", broken.COLON, 'title: "ends with a colon:"'),
    ('title: say "hi": now', broken.COLON, "title: 'say \"hi\": now'"),
    ("title: it's: so", broken.COLON, 'title: "it\'s: so"'),
    (r"path: C:\tea: x", broken.COLON, r"path: 'C:\tea: x'"),
    ('title: "Tea" and more', broken.QUOTE, "title: '\"Tea\" and more'"),
    ("title: 'Tea' and more", broken.QUOTE, "title: \"'Tea' and more\""),
    ("author: @ann", broken.SIGN, 'author: "@ann"'),
    ("code: `ls`", broken.SIGN, 'code: "`ls`"'),
    ("share: %5", broken.SIGN, 'share: "%5"'),
    ("title: **bold** text", broken.SIGN, 'title: "**bold** text"'),
    ("title: & more", broken.SIGN, 'title: "& more"'),
    ("title: [draft] my text", broken.BRACKET, 'title: "[draft] my text"'),
    ("see: [[Tea]] and more", broken.BRACKET, 'see: "[[Tea]] and more"'),
    ("tags:\n  - @home", broken.SIGN, 'tags:\n  - "@home"'),
]
UNCERTAIN = [
    ('title: "Tea', broken.OPEN),
    ("title: 'Tea", broken.OPEN),
    ('title: "Tea" or "coffee"', broken.QUOTE),
    ("title: Tea: a story # or a remark", broken.COLON),
    ("title: Tea: a story\n  that goes on", broken.COLON),
    ("tags: [[a]], [[b]]", broken.BRACKET),
    ("tags: [a, b", broken.BRACKET),
    ("tags: {a", broken.BRACKET),
    ("title: !ENV tea", broken.SIGN),
    ("tags:\n\t- tea", broken.TAB),
    ("title:Tea\ntags: a", broken.BLANK),
    ('title: Tea: a\nabout: "x\nkey: b: c\nend"', broken.COLON),
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("header", "cause", "mended"), CERTAIN)
def test_what_is_certain_gets_quotes(header: str, cause: str, mended: str, end: str) -> None:
    """A value that can only be the text that stands there gets quotes, and no other byte changes."""
    header = f"a: 1\n{header}\nb: [x, y]"
    note = note_of(header, end)
    assert [fault.reason for fault in note.faults] == [cause]
    text, count = with_quotes(note)
    assert count == 1
    assert text == note_of(f"a: 1\n{mended}\nb: [x, y]", end).text


@pytest.mark.parametrize(("header", "cause"), UNCERTAIN)
def test_what_has_two_readings_stays(header: str, cause: str) -> None:
    """A header with a line of two readings is told in plain words, and stays as it is."""
    note = note_of(header)
    assert note.faults[0].reason == cause
    assert with_quotes(note) == (note.text, 0)


KEYS = st.sampled_from(["title", "tags", "date", "제목", "my key", "aliases", "x_1"])
PIECES = [line.partition(": ")[2] for line, *_ in [*CERTAIN, *UNCERTAIN] if "\n" not in line]
LETTERS = st.text(st.sampled_from("ab차 :'\"#[]{}@`%*&!|>-,\\\t?.1~=<"), min_size=1, max_size=12)
VALUES = st.one_of(
    st.sampled_from(PIECES), LETTERS, st.sampled_from(["|", ">-", "[a, b]", '"x"', "1", "", "&a b", "*a"])
)
LINES = st.one_of(
    st.builds("{}: {}".format, KEYS, VALUES),
    st.builds("{}- {}".format, st.sampled_from(["", "  "]), VALUES),
    st.builds("  {}: {}".format, KEYS, VALUES),
    st.builds("  {}".format, VALUES),
    st.sampled_from(["# remark", "", "text:", "\t- x", "a:b"]),
)


@given(st.lists(LINES, min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
@example(["title: |", "- @x"], "\n")
def test_quotes_change_no_meaning(lines: list[str], end: str) -> None:
    """A valid header stays as it is; a mended one differs by quotes alone, and reads as the text that stood there."""
    note = note_of("\n".join(lines), end)
    text, count = with_quotes(note)
    if note.editable:
        assert (text, count) == (note.text, 0)
    if not count:
        return
    after = parse("a.md", text.encode())
    assert after.editable
    assert after.body == note.body
    differing = [pair for pair in zip(note.text.split(end), text.split(end), strict=True) if pair[0] != pair[1]]
    assert len(differing) == count
    for old, new in differing:
        head = next(at for at, letter in enumerate(new) if not old.startswith(new[: at + 1]))
        value = old[head:].rstrip(" \t")
        inner = new[head:].rstrip(" \t")[1:-1]
        assert value in {inner, inner.replace("''", "'")}
        assert old[:head] == new[:head]


def test_doctor_puts_values_into_quotes(vault: Path, write_note: Write) -> None:
    """Many notes are one line, in two languages; `--fix properties` shows, and with --yes writes one change."""
    for number in range(7):
        write_note(f"n{number}.md", f"---\ntitle: Tea: {number}\n---\n\nTea {number}.\n")
    write_note("open.md", '---\ntitle: "Tea\n---\n\nTea.\n')
    write_note("new.md", "---\ntitle: {{title}}\ncreated: <% tp.date.now('x: y') %>\n---\n\nTea.\n")
    write_note("day.md", "---\ndate: YYYY-MM-DD\n---\n\nTea.\n")
    before = held(vault)
    told = spellbook_in(vault, "reindex", "--words-only").stderr
    places = ", ".join(f"n{number}.md:2" for number in range(5))
    assert f"7 notes: {broken.COLON}; the first 5: {places}, and 2 more." in told
    assert "new.md" not in told
    assert "day.md" not in told
    assert "7 notes: " in spellbook_in(vault, "status").stdout
    assert "노트 7개: 글 안에 쌍점(:)이 있습니다" in spellbook_in(vault, "status", SPELLBOOK_LANG="ko").stdout
    shown = spellbook_in(vault, "doctor", "--fix", "properties", code=1)
    assert '+title: "Tea: 6"' in shown.stdout
    assert held(vault) == before
    done = spellbook_in(vault, "doctor", "--fix", "properties", "--yes", code=1)  # open.md is left
    assert "Put 7 values in 7 notes into quotes." in done.stderr
    assert "open.md, line 2: a quote that is not closed: close it." in done.stderr
    assert (vault / "n3.md").read_text("utf-8") == '---\ntitle: "Tea: 3"\n---\n\nTea 3.\n'
    spellbook_in(vault, "undo")
    assert held(vault) == before
