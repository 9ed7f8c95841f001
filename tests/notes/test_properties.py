"""Properties: a note's own keys in one form, and the fields that Dataview and Tasks see in its text."""

import datetime as dt
import time
import unicodedata
from typing import Any

import pytest

from spellbook.notes.frontmatter import as_json
from spellbook.notes.note import parse
from spellbook.notes.properties import fields, own


def said(text: str) -> list[tuple[str, object]]:
    return [(key, value) for _, key, value in fields(parse("a.md", text.encode()))]


DUE = ("due", "2026-12-20")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("mood:: good", [("mood", "good")], id="a line"),
        pytest.param("text\nBasic Field:: Some value", [("Basic Field", "Some value")], id="a key of two words"),
        pytest.param("**Owner**:: [[Minji|M]]", [("Owner", "[[Minji|M]]")], id="emphasised"),
        pytest.param("**Owner:: **Ann\n_who_:: *Bo*", [("Owner", "Ann"), ("who", "Bo")], id="emphasised value"),
        pytest.param(unicodedata.normalize("NFD", "기분:: 좋음"), [tuple(unicodedata.normalize("NFD", each) for each in ("기분", "좋음"))], id="NFD"),
        pytest.param("I am [mood:: good] and (place:: Seoul (KR)).", [("mood", "good"), ("place", "Seoul (KR)")], id="in a line"),
        pytest.param("[who:: [[Ann]] and [x]]", [("who", "[[Ann]] and [x]")], id="brackets in brackets"),
        pytest.param("🎂 birthday:: x\n- 📅 **due**:: y\n[❤️love:: z] (👨‍👩‍👧 🎁 가족:: 2)\n🇰🇷 – land:: KR", [("birthday", "x"), ("due", "y"), ("love", "z"), ("가족", 2), ("land", "KR")], id="behind emoji"),
        pytest.param("🎂:: x\n1️⃣ first:: y", [("🎂", "x"), ("1️⃣ first", "y")], id="an emoji alone, a keycap"),
        pytest.param("> - **a**:: 1\n> > b:: 2\n3. c:: 3", [("a", 1), ("b", 2), ("c", 3)], id="in quotes and lists"),
        pytest.param("| t |\n| --- |\n| [a:: x] |\n", [("a", "x")], id="in a table"),
        pytest.param("colour:: #ff0000\nx:: @a: b", [("colour", "#ff0000"), ("x", "@a: b")], id="no values of YAML"),
        pytest.param("- [ ] Pay 📅 2026-12-20 ⏳ 2026-12-18 🛫2026-12-01 ➕ 2026-11-01", [("task", "open"), DUE, ("scheduled", "2026-12-18"), ("start", "2026-12-01"), ("created", "2026-11-01")], id="a task"),
        pytest.param("> * [x] a ✅ 2026-12-20\n+ [-] b ❌ 2026-12-20\n1) [/] 🗓\ufe0f 2026-12-20", [("task", "done"), ("done", "2026-12-20"), ("task", "cancelled"), ("cancelled", "2026-12-20"), ("task", "open"), DUE], id="states"),
        pytest.param("- [ ] a [due:: 2026-12-20]\n  - [X] b\n- [ ]c\n- [link](x)", [("task", "open"), ("due", dt.date(2026, 12, 20)), ("task", "done")], id="tasks of Dataview"),
        pytest.param("- `a`[x] due 📅 2026-12-20\n- $x$[ ] b:: 1\n\n%%y%%\n\n- %%z%%[x] c\n- [x] d", [DUE, ("b", 1), ("task", "done")], id="no box behind code, a formula or a comment"),
        pytest.param("`a:: 1` x\n- `[b:: 2]`\n\n```\nc:: 3\n- [ ] d\n```\n\n    e:: 5\n", [], id="no code"),
        pytest.param("%%\na:: 1\n\nb:: 2\n%%\nx <!-- [c:: 3]\nd:: 4 --> y\n<!-- [e:: 5] -->", [], id="no comments"),
        pytest.param("It cost $5 [a:: 1] or $6 <!-- [b:: 2]", [("a", 1), ("b", 2)], id="money, an open comment"),
        pytest.param("I like std::vector. (see std::list)\na:::b\n[x::y](z) [[a:: b]] http://a/::1\n:: c\nd::\n", [], id="no fields"),
        pytest.param("trust:: trusted\nprivacy_scope:: public\nScope:: x\nTags:: a\ntype:: working\nid:: b\nsupersedes:: c", [], id="no keys that rule"),
    ],
)  # fmt: skip
def test_fields(text: str, expected: Any) -> None:
    """A field is read as Dataview and Tasks do; keys by which Spellbook files and guards a note are none in a text."""
    assert said(text) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("birthday: 1990-05-12\nstatus: active\n생일: '1'", [("birthday", "1990-05-12"), ("status", "active"), ("생일", "1")]),
        ("title: a\nTags: [b]\ncreated: 2026-01-01\ndate modified: 2026-01-01\nlang: ko\ntrust: untrusted\nsupersedes: b", []),
        ("n: 4.5\nyes: true\nlangs: [ko, 1]", [("n", "4.5"), ("yes", "true"), ("langs", "ko, 1")]),
        ("none:\nempty: ''\nmap: {a: 1}\nlist: []\ndeep: [[a]]\nlong: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]", []),
        ("type: book\nsource: a talk", [("type", "book"), ("source", "a talk")]),
        ("id: 01K\ntype: semantic\nsource: a talk\nbirthday: x", [("birthday", "x")]),
        (f"{'k' * 300}: {'v' * 300}", [("k" * 200, "v" * 200)]),
    ],
)  # fmt: skip
def test_own(header: str, expected: list[tuple[str, ...]] | list[Any]) -> None:
    """Scalars and short lists of them, under keys that Spellbook neither knows nor, in what it keeps, writes itself."""
    assert [*own(as_json(parse("a.md", f"---\n{header}\n---\ntext".encode()).meta))] == expected


@pytest.mark.parametrize(
    "text",
    ["[a:: ", "(a:: ", "[a:: [b] ", "(a:: [b:: (", "<!-- ", "%% ", "$a ", "$$ ", "a b ", "`[a:: 1] ", "**a:: ", "- [ ] 📅 ", "a:: 1\n", "<!-- -- "],
)  # fmt: skip
def test_hostile_text_takes_linear_time(text: str) -> None:
    """Eight times the text takes much less than 64 times as long."""
    times = []
    for size in (40_000, 320_000):
        note = parse("a.md", f"x:: y {text * (size // len(text))}".encode())
        began = time.process_time()
        assert len([*fields(note)]) <= size
        times.append(time.process_time() - began)
    assert times[1] < 24 * max(times[0], 0.05)
