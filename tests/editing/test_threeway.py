"""The three-way merge of a note: no sentence of either side is lost, and what only one side changed is as it wrote it."""

from __future__ import annotations

import re

import pytest

from spellbook.editing.threeway import merge
from spellbook.notes.note import parse
from spellbook.system.errors import UnreadableNote
from tests.editing.author import Author, header, written

NAMES = ("main", "feature")
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
    return merge("a.md", base.encode(), ours.encode(), theirs.encode(), NAMES).data.decode()


def edited(*changes: tuple[str, str]) -> str:
    """The note with texts replaced, each of which it has once."""
    text = NOTE
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("text", [NOTE, NOTE.replace("\n", "\r\n"), "\ufeff" + NOTE, "plain", "", "---\nx: [\n---\na"])
def test_one_side_alone_is_kept_byte_for_byte(text):
    """So is a change that both made."""
    other = text + "More.\r\n \n"
    assert merged(text, text, other) == merged(text, other, text) == merged(text, other, other) == other


def test_changes_in_different_places():
    """Two sentences of a line, two keys, two sections, two items at the end of one list: all are there, without a callout."""
    ours = edited(("8443", "9000"), ("- two\n", "- two\n- three\n"), ("status: open", "status: done"))
    theirs = edited(
        ("It is old", "It is new"),
        ("- two\n", "- two\n- four\n"),
        ("[proxy, ports]", "[proxy, net]"),
        ("## Old\n", "## Older\n"),
    )
    both = edited(
        ("8443", "9000"),
        ("It is old", "It is new"),
        ("- two\n", "- two\n- three\n- four\n"),
        ("status: open", "status: done"),
        ("[proxy, ports]", "[proxy, net]"),
        ("## Old\n", "## Older\n"),
    )
    assert merged(NOTE, ours, theirs) == both


def test_the_same_sentence_changed_twice():
    """Ours stays in its place; theirs follows in a callout with the name of its side, on one line whoever gave it."""
    text = merged(NOTE, edited(("8443", "9000")), edited(("8443", "7000")))
    callout = "> [!merge] feature\n> The proxy listens on 7000. It is old.\n\n"
    assert text == edited(("8443", "9000"), ("## Keys", f"{callout}## Keys"))
    done = merge("a.md", NOTE.encode(), edited(("b = 2", "b = 3")).encode(), edited(("b = 2", "b = 4")).encode(), NAMES)
    assert done.both == ("Code",)
    assert "> ```python\n> a = 1\n>\n> b = 4\n> ```\n\n## Old" in done.data.decode()
    sides = (text.encode() for text in (NOTE, edited(("8443", "1")), edited(("8443", "2"))))
    assert not re.search("^# x", merge("a.md", *sides, ("a", "b\n# x")).data.decode(), re.M)


def test_deleted_here_and_changed_there():
    """What was changed stays, and a callout says who deleted it; what was not changed goes."""
    section = NOTE[NOTE.index("## Old") :]
    without, changed = NOTE.replace("\n" + section, ""), NOTE.replace("text of the old", "new text of the old")
    for text, name in ((merged(NOTE, without, changed), "main"), (merged(NOTE, changed, without), "feature")):
        assert text == changed + f"\n> [!merge] deleted by {name}\n"
    assert merged(NOTE, without, edited(("8443", "1"))) == edited(("8443", "1")).replace("\n" + section, "")
    korean = NOTE.replace("## Old", "## 예전")
    text = merged(korean, korean.replace("text of", "글 of"), korean[: korean.index("\n## 예전")])
    assert text.endswith("> [!merge] feature 쪽에서는 지움\n")


def test_moved_sections_and_new_ones():
    """A section that one side moved keeps the other side's changes; new ones follow the section that they followed."""
    keys = "## Keys\n\n- one\n- two\n\n"
    moved = edited((keys, ""), ("## Old", f"{keys}## Old"))
    changed = edited(("- two", "- second"), ("## Old", "## New\n\nAll new.\n\n## Old"))
    text = merged(NOTE, moved, changed)
    assert text == merged(NOTE, changed, moved)
    assert re.findall("^## .*", text, re.M) == ["## Code", "## New", "## Keys", "## Old"]
    assert "- second" in text
    assert "- two" not in text


def test_both_added_the_note():
    """What they have in common stands once, both sides' own text follows each other, and either id finds the note."""
    ours, theirs = edited(("8443", "9000")), edited(("- two", "- two\n- three"))
    text = merged("", ours, theirs)
    assert text.count("## Code") == text.count("# Ports\n") == 1
    assert "9000" in text
    assert "8443" in text
    assert "- three" in text
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
def test_values_that_both_changed(base, ours, theirs, wanted):
    """A rule chooses for these keys, lists are united as by `spellbook merge`, and no callout is needed."""
    text = merged(header(base), header(ours), header(theirs))
    note = parse("a.md", text.encode())
    assert str(note.meta[theirs.partition(":")[0]]) == str(wanted)
    assert "[!merge]" not in text


def test_values_without_a_rule():
    """
    Ours stays, theirs stands in a callout; a value that one side removed and the other changed stays. Faulty
    frontmatter cannot be merged by its keys: theirs stands above the text as it is, and ours is not touched.
    """
    text = merged(header("a: 1", "b: 1"), header("a: 2"), header("a: 3", "b: 2", "# a remark"))
    callout = "\n> [!merge] feature\n>     {}\n\nText".format
    assert text == header("a: 2", "b: 2").replace("\nText", callout("a: 3\n>     # a remark"))
    text = merged(header("a: 1"), header("a: [1"), header("a: 2"))
    assert text == header("a: [1").replace("\nText", callout("---\n>     a: 2\n>     ---"))


def test_line_ends_and_encodings():
    """The result has those of our side."""
    ours, theirs = edited(("8443", "9000")), edited(("- two", "- two\n- three"))
    both = edited(("8443", "9000"), ("- two", "- two\n- three"))
    data = merge("a.md", NOTE.encode(), ours.replace("\n", "\r\n").encode("utf-16"), theirs.encode(), NAMES).data
    assert data.decode("utf-16") == both.replace("\n", "\r\n")
    with pytest.raises(UnreadableNote):
        merge("a.md", NOTE.encode(), b"caf\xe9", theirs.encode(), NAMES)


def test_no_sentence_is_lost():
    """Of 600 generated merges: what a side wrote is there, and so is what neither deleted; no fault, no marker."""
    for seed in range(600):
        author = Author(seed)
        note = author.note()
        base, ours, theirs = (written(each) for each in (note, author.edit(note), author.edit(note)))
        text = merged(base if seed % 10 else "", ours, theirs)
        was, here, there, now = (
            set(re.findall(r"w\d+x", each)) for each in (base if seed % 10 else "", ours, theirs, text)
        )
        lost = ((here - was) | (there - was) | (here & there)) - now
        assert not lost, f"{seed}: {lost}"
        parsed = parse("a.md", text.encode())
        assert not parsed.faults, seed
        assert not re.search(r"^(<{7}|={7}|>{7})", text, re.M), seed
        headings = [block.text for block in parsed.blocks if block.kind == "heading" and block.level == 2]
        assert len(headings) == len(set(headings)), seed


def spaced(blocks: list[tuple[str, int]]) -> str:
    return "".join(block + "\n" * ends for block, ends in blocks)


def test_no_line_is_touched_that_neither_side_touched():
    """Of 500 merges of notes with any blank lines, none or three behind a heading: all other lines stay as they are."""
    for seed in range(500):
        author = Author(seed)
        chance = author.chance
        blocks = [("# Title", chance.choice([1, 2]))]
        for _ in range(chance.randint(2, 6)):
            blocks += [(f"## Head {author.word()}", chance.randint(1, 4))] * chance.randint(0, 1)
            block = author.block()
            if not (block.startswith("- ") and blocks[-1][0].startswith("- ")):  # two lists would be one
                blocks.append((block, chance.choice([2, 2, 3, 4])))
        changes: dict[int, list[tuple[str, int]]] = {}
        sides: list[dict[int, list[tuple[str, int]]]] = [{}, {}]
        for at in chance.sample(range(1, len(blocks)), min(len(blocks) - 1, 4)):
            block, ends = blocks[at]
            is_text = not block.startswith("#")
            kind = chance.randrange(4 if is_text else 2)
            if kind == 0 and is_text:
                new = [(re.sub(r"w\d+x", author.word(), block, count=1), ends)]
            elif kind <= 1:
                new = [(block, ends % 4 + 1 if not is_text else ends + 1)]
            else:
                new = [(block, ends), (f"Here is {author.word()} said.", 2)] if kind == 2 else []
            changes[at] = sides[chance.randrange(2) if new else 0][at] = new
        base, ours, theirs, both = (
            spaced([each for at, block in enumerate(blocks) for each in edits.get(at, [block])])
            for edits in ({}, *sides, changes)
        )
        assert merged(base, ours, theirs) == both, seed


def test_a_heading_and_the_text_right_below_it():
    """No blank line comes between them, whoever changed which; where a list would run into a text, one does."""
    base = "## Keys\nOne is here. Two is here.\n- a\n"
    ours = base.replace("One", "Three")
    assert merged(base, ours, base.replace("Two", "Four")) == ours.replace("Two", "Four")
    assert merged(base, base.replace("Keys", "Locks"), ours) == ours.replace("Keys", "Locks")
    theirs = "## Keys\nOne is here. Two is here.\n\nThe end.\n"
    assert merged(base, base.replace("- a", "\nMore.\n\n- a"), theirs).endswith("Two is here.\n\nMore.\n\nThe end.\n")
