"""The three-way merge of a note: no sentence of either side is lost, and both stand where both changed one place."""

import re
from pathlib import Path

import pytest

from spellbook.editing.threeway import merge
from spellbook.notes.note import parse
from spellbook.system.errors import Conflict, InvalidInput, UnreadableNote
from tests.commands import spellbook
from tests.editing.author import Author, header, written

NOTE = """---
title: Ports
tags: [proxy, ports]
status: open
created: 2026-03-01
---

# Ports

The proxy listens on 8443. It is old.

## Keys

- one
- two

## Code

```python
a = 1

b = 2
```

## Old

The text of the old section.
"""


def merged(base: str, ours: str, theirs: str) -> str:
    return merge("a.md", base.encode(), ours.encode(), theirs.encode(), "feature").data.decode()


def edited(*changes: tuple[str, str]) -> str:
    """The note with texts replaced, each of which it has once."""
    text = NOTE
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("text", [NOTE, NOTE.replace("\n", "\r\n"), "\ufeff" + NOTE, "plain", "", "---\nx: [\n---\na"])
def test_one_side_alone_is_kept_byte_for_byte(text: str) -> None:
    """So is a change that both made."""
    other = text + "More.\r\n \n"
    assert merged(text, text, other) == merged(text, other, text) == merged(text, other, other) == other


def test_changes_in_different_places() -> None:
    """Two paragraphs, two keys, items at both ends of a list, a section's name: all are there, without a conflict."""
    ours = edited(("8443", "9000"), ("- two\n", "- two\n- three\n"), ("status: open", "status: done"))
    theirs = edited(("a = 1", "a = 2"), ("- one\n", "- zero\n- one\n"), ("[proxy, ports]", "[proxy, net]"))
    both = edited(
        ("8443", "9000"),
        ("a = 1", "a = 2"),
        ("- one\n- two\n", "- zero\n- one\n- two\n- three\n"),
        ("status: open", "status: done"),
        ("[proxy, ports]", "[proxy, net]"),
    )
    for sides in ((ours, theirs), (theirs, ours)):
        assert merged(NOTE, *sides) == both


def conflict(ours: str, theirs: str, name: str = "feature") -> str:
    """A conflict as git writes it."""
    return f"<<<<<<< this copy\n{ours}=======\n{theirs}>>>>>>> {name}\n"


PARAGRAPH = "The proxy listens on {}. It is old.\n"


@pytest.mark.parametrize(
    ("was", "ours", "theirs"),
    [
        pytest.param(PARAGRAPH.format(8443), PARAGRAPH.format(9000), PARAGRAPH.format(7000), id="a sentence"),
        pytest.param(PARAGRAPH.format(8443), PARAGRAPH.format(9000), "The proxy listens on 8443.\n", id="a paragraph"),
        pytest.param("- one\n- two\n", "- one\n- two, more\n", "- one\n- zwei\n", id="an item"),
        pytest.param("b = 2\n", "b = 3\n", "b = 4\n", id="code"),
        pytest.param("```python\na = 1\n", "~~~python\na = 1\n", "Text.\n", id="code that one side opens"),
        pytest.param("## Keys\n", "## Locks\n", "## Doors\n", id="a heading"),
        pytest.param("The text of the old section.\n", "", "The text of a new section.\n", id="deleted here"),
        pytest.param("The text of the old section.\n", "The text of a new section.\n", "", id="deleted there"),
        pytest.param("The text of the old section.\n", "끝.\n", "The end.", id="without a last line end"),
    ],
)
def test_the_same_place_changed_twice(was: str, ours: str, theirs: str) -> None:
    """Both stand there between git's markers, nothing else changes, and the note says that it has them, in code too."""
    base, mine, other = (edited((was, new)).encode() for new in (was, ours, theirs))
    done = merge("a.md", base, mine, other, "feature")
    text = done.data.decode()
    shown = [theirs if theirs.endswith("\n") or not theirs else f"{theirs}\n", ours]
    for line in ("- one\n", "a = 1\n"):  # what both have stands once
        if all(line in side for side in (ours, theirs)):
            shown = [side.replace(line, "") for side in shown]
            was = was.replace(line, "")
    assert text == edited((was, conflict(shown[1], shown[0])))
    assert done.conflicts == 1
    assert [fault.reason[:16] for fault in parse("a.md", done.data).faults] == ["conflict markers"]


def test_a_name_is_one_line_of_the_marker() -> None:
    """Whoever gave it: it begins no line of the note."""
    base, ours, theirs = (text.encode() for text in (NOTE, edited(("8443", "1")), edited(("8443", "2"))))
    assert not re.search("^# x", merge("a.md", base, ours, theirs, "b\n# x").data.decode(), re.M)


def test_a_git_that_is_missing_or_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is written then, and git reports a conflict: the exit code is 1."""
    versions = [edited(("8443", number)).encode() for number in ("8443", "9000", "7000")]
    files = [tmp_path / name for name in ("base", "ours", "theirs")]
    for file, text in zip(files, versions, strict=True):
        file.write_bytes(text)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "was not merged" in spellbook("merge-driver", *files, code=1).stderr
    monkeypatch.undo()
    files[2].write_bytes(b"Not a text for git.\0")
    assert "git merge-file failed" in spellbook("merge-driver", *files, code=1).stderr
    assert files[1].read_bytes() == versions[1]


def test_both_added_the_note() -> None:
    """What they have in common stands once, what they have not stands in conflicts, and either id finds the note."""
    ours, theirs = edited(("8443", "9000")), edited(("- two", "- two\n- three"))
    text = merged("", ours, theirs)
    assert text.count("## Code") == text.count("# Ports\n") == 1
    assert all(part in text for part in ("9000", "8443", "- three"))
    assert parse("a.md", text.encode()).title == "Ports"
    meta = parse("a.md", merged("", header("id: left"), header("id: right")).encode()).meta
    assert (meta["id"], meta["merged"]) == ("left", ["right"])


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "wanted"),
    [
        pytest.param("updated: 2026-01-01", "updated: 2026-02-01", "updated: 2026-03-01", "2026-03-01", id="newest"),
        pytest.param("created: 2026-01-03", "created: 2026-01-02", "created: 2026-01-01", "2026-01-01", id="oldest"),
        pytest.param("importance: low", "importance: high", "importance: 0.6", "high", id="more important"),
        pytest.param("x: 1", "trust: own", "trust: untrusted", "untrusted", id="less trusted"),
        pytest.param("x: 1", "privacy_scope: public", "privacy_scope: team", "team", id="more private"),
        pytest.param("x: 1", "privacy_scope: private", "privacy_scope: team", "private", id="private"),
        pytest.param("tags: [a, b]", "tags: [b, c]", "tags: [a, b, d]", ["b", "c", "d"], id="list"),
        pytest.param("keywords: a, b", "keywords: a, b, c", "keywords: a, b, d", ["a", "b", "c", "d"], id="text list"),
        pytest.param("x: 1", "x: 1", "x: true", True, id="one side"),
        pytest.param("", "entities: [{name: Redis, type: technology}]", "entities: [redis, Kafka]",
                     [{"name": "Redis", "type": "technology"}, "Kafka"], id="by name"),
        pytest.param("", "keywords: [Docker]", "keywords: [docker, proxy]", ["Docker", "proxy"], id="without case"),
        pytest.param("", "refs: [{url: a}]", "refs: [{url: b}]", [{"url": "a"}, {"url": "b"}], id="nameless"),
    ],
)  # fmt: skip
def test_values_that_both_changed(base: str, ours: str, theirs: str, wanted: object) -> None:
    """A rule chooses for these keys, lists are united as by `spellbook merge`, and nothing is left to decide."""
    text = merged(header(base), header(ours), header(theirs))
    note = parse("a.md", text.encode())
    assert str(note.meta[theirs.partition(":")[0]]) == str(wanted)
    assert not note.faults


def test_values_without_a_rule() -> None:
    """
    Ours stays, and theirs stands in a conflict above the text; a value that one side removed and the other changed
    stays. Frontmatter that cannot be merged by its keys is left to the person.
    """
    base, ours, theirs = header("a: 1", "b: 1"), header("a: 2"), header("a: 3", "b: 2", "# a remark")
    aside = conflict("", "    a: 3\n    # a remark\n")
    assert merged(base, ours, theirs) == header("a: 2", "b: 2").replace("\nText", f"\n{aside}\nText")
    faulty, own = header("a: [1"), header("b: 1")
    for sides in ((own, faulty, theirs), (own, theirs, faulty), (faulty, ours, theirs)):
        with pytest.raises((InvalidInput, Conflict)):
            merged(*sides)


def test_line_ends_and_encodings() -> None:
    """The result has those of our side."""
    ours, theirs = edited(("8443", "9000")), edited(("- two", "- two\n- three"))
    both = edited(("8443", "9000"), ("- two", "- two\n- three"))
    data = merge("a.md", NOTE.encode(), ours.replace("\n", "\r\n").encode("utf-16"), theirs.encode(), "feature").data
    assert data.decode("utf-16") == both.replace("\n", "\r\n")
    with pytest.raises(UnreadableNote):
        merge("a.md", NOTE.encode(), b"caf\xe9", theirs.encode(), "feature")


def test_no_sentence_is_lost() -> None:
    """Of 200 generated merges: what a side wrote is there, and so is what neither deleted; a conflict is a fault."""
    for seed in range(200):
        author = Author(seed)
        note = author.note()
        sides = (written(each) for each in (note, author.edit(note), author.edit(note)))
        base, ours, theirs = (text if seed % 10 or number else "" for number, text in enumerate(sides))
        done = merge("a.md", base.encode(), ours.encode(), theirs.encode(), "feature")
        was, here, there, now = (set(re.findall(r"w\d+x", each)) for each in (base, ours, theirs, done.data.decode()))
        lost = ((here - was) | (there - was) | (here & there)) - now
        assert not lost, f"{seed}: {lost}"
        assert len(parse("a.md", done.data).faults) == bool(done.conflicts), seed
