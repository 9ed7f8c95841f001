"""Frontmatter in TOML, as Hugo and Zola write it: read with its faults, and edited without losing a byte."""

import datetime as dt
import json

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing.edits import with_meta
from spellbook.index import privacy
from spellbook.library.book import Spellbook
from spellbook.notes.note import parse
from spellbook.system.errors import InvalidInput
from tests.helpers import Write

HUGO = """+++
# written by hugo new
title = 'Marmots: a "guide"'   # quoted
date = 2024-01-05T10:00:00+09:00
draft = false
weight = 10
tags = ["alps", "동물"]
categories = [
  "animals",  # the first
]
[params]
author = "Ann"
[[menu.main]]
name = "x"
+++

# Heading

The marmot sleeps.
"""
ZOLA = '+++\ntitle = "Yaks"\ndate = 2023-02-03\n\n[taxonomies]\ntags = ["herd", "snow"]\n\n[extra]\ntoc = true\n+++\nThe yak grazes.\n'
TEXTS = [
    "+++\nThis is a paragraph.\n+++\n\nMore.\n",
    "+++\n[a link](b.md)\n+++\n",
    "+++\n- item\n+++\n",
    "+++\n",
    "+++ title = 1\n+++\n",
    "++++\ntitle = 1\n++++\n",
    "++\ntitle = 1\n++\n",
    "text\n+++\ntitle = 1\n+++\n",
    "+++\ntitle: Marmots\n+++\n",
    "+++\n\nPlease see a=b or c.\n+++\n",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_hugo_and_zola_are_read(end: str, bom: str) -> None:
    """Titles, dates and tags of both are the note's, whatever its line ends; the text begins after the rules."""
    hugo, zola = (parse("a.md", (bom + text.replace("\n", end)).encode()) for text in (HUGO, ZOLA))
    assert hugo.title == 'Marmots: a "guide"'
    assert hugo.created == "2024-01-05T10:00:00+09:00"
    assert hugo.tags == ("alps", "동물")
    assert hugo.meta["draft"] is False
    assert hugo.meta["params"] == {"author": "Ann"}
    assert hugo.body.startswith(f"{end}# Heading")
    assert hugo.text[hugo.body_at :].count(end) == 4
    assert hugo.body_line == 16
    assert (zola.title, zola.tags, zola.created) == ("Yaks", ("herd", "snow"), "2023-02-03")
    assert hugo.faults == zola.faults == ()


@pytest.mark.parametrize("text", TEXTS)
def test_text_between_rules_stays_text(text: str) -> None:
    """What begins with plus signs and is no TOML is a note's text, without a fault."""
    note = parse("a.md", text.encode())
    assert (note.body, dict(note.meta), note.faults, note.editable) == (text, {}, (), True)


@pytest.mark.parametrize(
    ("header", "line", "words"),
    [
        ('title = "a"\ntags = [', 3, "Invalid"),
        ("title = a", 2, "Invalid value"),
        ('title = "a"\ntitle = "b"', 3, "overwrite"),
        ('title = "a"\n[x\n', 3, "']'"),
        ("title = 1\ndate = 2024-13-01", 3, "TOML"),
        ("a" + ".a" * 250 + " = 1", 2, "too deep"),
        ("a = " + "[" * 40 + "]" * 40, 2, "too deep"),
        ("a = " + "[" * 5_000 + "]" * 5_000, 2, "TOML"),
        ('a = "' + "x" * 300_000 + '"', 2, "256 kB"),
    ],
)
def test_faults_are_named_by_line(header: str, line: int, words: str) -> None:
    """TOML that cannot be read is a fault with its line; the text is found, and no edit touches the file."""
    note = parse("a.md", f"+++\n{header}\n+++\nThe marmot sleeps.\n".encode())
    [fault] = note.faults
    assert fault.line == line
    assert words in fault.reason
    assert note.body == "The marmot sleeps.\n"
    with pytest.raises(InvalidInput):
        with_meta(note, {"topic": "x"})


@pytest.mark.parametrize(
    ("text", "changes", "old", "new"),
    [
        (HUGO, {"title": "Yaks"}, "title = 'Marmots: a \"guide\"'   #", 'title = "Yaks"   #'),
        (HUGO, {"draft": True}, "draft = false", "draft = true"),
        (HUGO, {"draft": None}, "draft = false\n", ""),
        (HUGO, {"tags": ["alps"]}, 'tags = ["alps", "동물"]', 'tags = ["alps"]'),
        (HUGO, {"importance": 0.9}, "# written", "importance = 0.9\n# written"),
        (HUGO, {"date": dt.date(2025, 1, 2)}, "date = 2024-01-05T10:00:00+09:00", "date = 2025-01-02"),
        (ZOLA, {"tags": ["herd"]}, 'tags = ["herd", "snow"]', 'tags = ["herd"]'),
        (ZOLA, {"own key": "a"}, "title", '"own key" = "a"\ntitle'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_edit_touches_its_value_alone(text: str, changes: dict[str, object], old: str, new: str, end: str) -> None:
    """A key of TOML is set, added or removed, and every other byte stays: comments, quotes, order, line ends."""
    note = parse("a.md", text.replace("\n", end).encode())
    assert with_meta(note, changes) == text.replace(old, new, 1).replace("\n", end)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-99, 99),
    st.text("ab'\"\\ 가#", max_size=6),
    st.lists(st.text("ab,", max_size=3), max_size=3),
)


@given(
    st.dictionaries(st.text("abXY-", min_size=1, max_size=4), VALUES, min_size=1, max_size=5),
    st.text("cd", min_size=1, max_size=2),
    VALUES,
)
def test_any_toml_is_read_and_edited(meta: dict[str, object], key: str, value: object) -> None:
    """What TOML holds is read as it is, a key is added and taken away again, and the bytes are those of before."""
    text = f"+++\n{tomlkit.dumps(meta)}+++\nThe marmot sleeps.\n"
    note = parse("a.md", text.encode())
    assert json.loads(json.dumps(dict(note.meta))) == meta
    added = parse("a.md", with_meta(note, {key: value}).encode())
    assert added.meta == {**meta, key: value}
    assert added.body == note.body
    assert with_meta(added, {key: None}) == text


def test_what_toml_says_of_privacy_and_trust_counts(book: Spellbook, write_note: Write) -> None:
    """A stranger's note that calls itself trusted in TOML is imported as untrusted; its scope is read as in YAML."""
    text = b'+++\ntitle = "a"\ntrust = "trusted"\nprivacy_scope = "team"\n+++\nThe marmot sleeps.\n'
    assert privacy.shows("team", "a.md", text)
    assert not privacy.shows("public", "a.md", text)
    assert privacy.distrusted("a.md", text) == text.replace(b'"trusted"', b'"untrusted"')
    write_note("hugo.md", HUGO)
    book.reindex()
    [hit] = book.find("marmot", min_score=0).hits
    assert (hit.title, hit.path) == ('Marmots: a "guide"', "hugo.md")


def test_json_frontmatter_is_text() -> None:
    """Hugo's third form, JSON, is a note's text; a key is not set in it, and nothing is lost."""
    text = '{\n  "title": "Marmots"\n}\n\nThe marmot sleeps.\n'
    note = parse("a.md", text.encode())
    assert (note.body, note.faults) == (text, ())
    assert with_meta(note, {"topic": "x"}).endswith(text)
