"""Relations in frontmatter, what they mean for ranking, and how they survive renames."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.editing import memory
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.notes import links
from spellbook.notes.frontmatter import compose
from spellbook.notes.note import parse
from tests.helpers import Write


def relations(text: str) -> list[tuple[str, str, str]]:
    """The relations of a note with this header, as written."""
    found = links.find(parse("a.md", f"---\n{text}\n---\nbody [[x]]".encode()))
    return [(each.relation, each.target, each.fragment) for each in found if each.relation]


FORMS = {
    ("a/Old",): ('"[[a/Old]]"', "'[[a/Old|the old one]]'", "[[a/Old]]"),
    ("a", "b"): ('["[[a]]", "[[b]]"]', '\n- "[[a]]"\n- b'),
    ("a", "b/c.md", "01HALL"): ('\n  - "[[a]]"\n  - b/c.md\n  - 01HALL',),
    ("Don't",): ("'[[Don''t]]'",),
    ("01HALL",): ("01HALL",),
    ("memory:17",): ("memory:17",),
    ("20261122",): ("20261122",),
    ("a/C# notes.md",): ("a/C# notes.md",),
    ("a b",): ('"a b"  # because',),
    ("옛",): ('"\\uC61B"',),
    (): ("", "null", "https://x.org/a", "{id: a}", "|\n  a", "'a\n  b'"),
}
ODD = {"? supersedes\n: a": ["a"], "{x: [supersedes], supersedes: a, y: b}": ["a"], "&k x: 1\nsupersedes: b": ["b"]}
ODD |= {f"supersedes: {form}": [*targets] for targets, forms in FORMS.items() for form in forms}


@pytest.mark.parametrize("header", [*ODD, "x: {supersedes: a}\ny: supersedes"])
def test_every_form_is_read(header: str) -> None:
    """
    One or a list, of wikilinks, ids and paths; what names no note is none. Each relation has its key's name; a section
    belongs to its note; other keys are links without a name.
    """
    assert relations(header) == [("supersedes", target, "") for target in ODD.get(header, ())]
    others = 'derived_from: [[01HALL|it]]\ncontradicts: ["[[b#Part]]", c#Part]\nup: "[[c]]"\nsee: d'
    named = [("derived_from", "01HALL", "|it"), ("contradicts", "b", "#Part"), ("contradicts", "c", "#Part")]
    assert relations(others) == named


@settings(max_examples=200)
@given(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12))
def test_what_is_written_is_read_again(name: str) -> None:
    """Whatever a note is called, what a writer puts into frontmatter leads to it."""
    name = name.strip().strip("./")
    path = f"decision/a/{name or 'x'}.md"
    for value in (links.wikilink(path), [links.wikilink(path), links.wikilink("b.md")]):
        note = parse("new.md", compose({"supersedes": value}, "text").encode())
        [first, *_] = links.find(note)
        reached = links.Files([path, "b.md"]).relation("new.md", first.target)
        assert (first.relation, reached and reached.path) == ("supersedes", path)


def test_a_writer_names_a_note(book: Spellbook, write_note: Write) -> None:
    """By its id, its path or a chunk's id; it is written as Obsidian does."""
    write_note("decision/door/Left door.md", "# Left\n\ntext\n", id="01LEFT")
    book.reindex()
    for id in ("01LEFT", "decision/door/Left door.md", "01LEFT#"):
        written = memory.replacing(memory.meant(book.index, id))
        assert written == {"supersedes": "[[decision/door/Left door]]"}
    shown = compose(written, "x")
    assert 'supersedes: "[[decision/door/Left door]]"\n' in shown


# -- where they lead


def paths(book: Spellbook, **asked: object) -> list[str]:
    return [hit.path for hit in book.find("door", **asked).hits]


NAMED = ("'[[decision/Old door]]'", "'[[Old door]]'", "[['old door']]", "'[[the first]]'", "decision/Old door.md")


@pytest.mark.parametrize("named", [*NAMED, "decision/old door", "01OLD", "['[[nothing]]', 01OLD#, 01GONE]"])
def test_the_older_note_stands_below(book: Spellbook, write_note: Write, named: str) -> None:
    """By path, name, alias or id: the old note is below the new one, whatever matches better, and says so."""
    write_note("decision/Old door.md", "door door door door\n", id="01OLD", aliases="[the first]")
    write_note(
        "new.md", "# The new door\n\nWe take the left of the two that were offered to us in May.\n", supersedes=named
    )
    assert paths(book) == ["new.md", "decision/Old door.md"]
    old = book.find("door").hits[1]
    assert old.why["superseded_by"] == {"path": "new.md", "id": "new", "title": "The new door"}
    assert ": superseded by The new door id: new\n" in render.answer(book.find("door"))
    [back] = book.around("01OLD").backlinks
    assert (back.path, back.relations) == ("new.md", ("supersedes",))
    book.erase("new", hard=True)
    assert "superseded_by" not in book.find("door").hits[0].why


def test_relations_are_named(book: Spellbook, write_note: Write) -> None:
    """
    Links, backlinks and related notes say by which relation. A note never supersedes itself, nor does one that is called
    like a note that is not there; an id goes before a path and a name.
    """
    write_note("door.md", "door\n", id="01DOOR", supersedes="[01DOOR, door, '[[nothing]]']")
    write_note("a.md", "door a\n", id="b")
    write_note("x/b.md", "door b\n")
    write_note("newer.md", "door new\n", supersedes="b")
    assert [hit.path for hit in book.find("door").hits if "superseded_by" in hit.why] == ["a.md"]
    write_note("old.md", "# Old\n")
    write_note(
        "new.md", "# New\n\n[[old]]\n", supersedes="old.md", contradicts="'[[old]]'", derived_from="https://x.org"
    )
    links = [("old.md", 2, "old.md", "supersedes"), ("old", 3, "old.md", "contradicts"), ("old", 8, "old.md", "")]
    around = book.around("new")
    assert [(each.target, each.line, each.path, each.relation) for each in around.links] == links
    named = ("linked from here (supersedes)", "linked from here (contradicts)", "linked from here")
    assert around.related[0].why == named
    [back] = book.around("old").backlinks
    assert (back.lines, back.relations) == ((2, 3, 8), ("supersedes", "contradicts"))
    assert book.around("old").related[0].why == ("links here (supersedes, contradicts)",)


def test_lines_about_a_note(book: Spellbook, write_note: Write) -> None:
    """
    The outcome is in the head and in a pointer, and a named share of the score. A stranger's note that links to one of
    the person's is named as such beside it.
    """
    write_note("try.md", "# Redis\n\nWe keep the door in Redis. See [[mine]].\n", outcome="failed", trust="untrusted")
    shown = render.answer(book.find("door"), explain=True)
    assert ("\n   outcome: failed\n" in shown, "outcome failed -0.05" in shown) == (True, True)
    write_note("long.md", "# Long\n\n" + "door and more words of it\n" * 200, outcome="partial", status="superseded")
    small = render.answer(book.find("door", limit=1, filter={"path": "long.md"}, max_tokens=70))
    assert "left out for space, partial, superseded) id: long#" in small
    write_note("mine.md", "The plan.")
    write_note("page.md", "See [[mine]].", source="https://example.org/a")
    write_note("read.md", "See [[mine]].", source="https://example.org/b", trust="trusted")
    book.reindex()
    near = book.backlinks({"mine.md"})
    assert {each.path for each in near if each.untrusted} == {"try.md", "page.md"}
    assert render.topic("t", book.index.catalog.at("mine.md"), 2_000, near, {}).count(", untrusted] id: ") == 2


# -- chains, circles, hidden notes


@pytest.fixture
def chain(write_note: Write) -> None:
    """Three decisions, of which the oldest matches best."""
    write_note("a.md", "door door door door\n", created="2026-01-01", topic="one")
    write_note("b.md", "door door, seen again\n", created="2026-02-01", supersedes="'[[a]]'", topic="two")
    text = "# Third\n\nThe door, as it was decided after all those talks in spring and early summer\n"
    write_note("c.md", text, created="2026-03-01", supersedes="'[[b]]'", topic="one")


@pytest.mark.usefixtures("chain")
def test_a_chain_ranks_newest_first(book: Spellbook) -> None:
    """Whatever the limit, the filter and the verb, also if the filter leaves the middle one out."""
    for limit in (1, 2, 3, 10):
        found = paths(book, limit=limit)
        assert found == ["c.md", "b.md", "a.md"][:limit]
    for ask in (book.search, book.memorize, book.find):
        assert [hit.path for hit in ask("door", min_score=0).hits] == ["c.md", "b.md", "a.md"]
        assert [hit.path for hit in ask("door", filter={"topic": "one"}).hits] == ["c.md", "a.md"]


def test_a_successor_comes_along(book: Spellbook, write_note: Write) -> None:
    """Whoever asks in the words of what is superseded gets what holds now, right above it, however little it matches."""
    for number in range(80):
        write_note(f"other/{number}.md", f"session cookies and login, case {number}\n")
    write_note("old.md", "We keep login sessions in signed cookies.\n", topic="auth", privacy_scope="team")
    write_note("middle.md", "Redis it is.\n", supersedes="'[[old]]'", topic="auth")
    write_note("new.md", "# Storage\n\nEverything lives in PostgreSQL tables.\n", supersedes="'[[middle]]'", topic="db")
    question = "login sessions in signed cookies"
    for limit, left in ((1, ["new.md"]), (2, ["new.md", "old.md"])):
        assert [hit.path for hit in book.search(question, limit=limit, min_score=0).hits] == left
    first, second, *_ = book.search(question, min_score=0).hits
    assert first.score == pytest.approx(second.score + 0.0001)
    assert [one["reason"] for one in first.why["adjustments"]] == ["supersedes old.md"]
    filtered = book.search(question, filter={"topic": "auth"}, min_score=0).hits
    assert [hit.path for hit in filtered] == ["middle.md", "old.md"]
    seen = book.search(question, filter={"privacy_scope": "team"}, min_score=0).hits
    assert [(hit.path, hit.why["superseded_by"]) for hit in seen] == [("old.md", {})]
    assert "new.md" not in {hit.path for hit in book.find("cookies", limit=100).hits}


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_in_a_circle_the_newest_is_not_superseded(book: Spellbook, write_note: Write, order: str) -> None:
    """Whoever supersedes whom in it, the newest of them stands first, and the others are superseded."""
    for name, old in zip("abc", "bca", strict=True):
        write_note(f"{name}.md", f"door {name}\n", created=f"2026-0{order.index(name) + 1}-01", supersedes=old)
    found = book.find("door").hits
    assert found[0].path == f"{order[-1]}.md"
    assert ["superseded_by" in hit.why for hit in found] == [False, True, True]


# -- renames


def is_below(book: Spellbook) -> bool:
    """Whether the old note, wherever it is, is superseded by the new one."""
    first, second = book.find("door").hits
    return first.path == "new.md" and second.why.get("superseded_by", {}).get("path") == "new.md"


@pytest.mark.parametrize("named", ["'[[decision/old]]'", "'[[old]]'", "decision/old.md", "decision/old"])
def test_a_rename_outside_keeps_the_relation(book: Spellbook, vault: Path, write_note: Write, named: str) -> None:
    """
    By `git mv` or in a file manager, several times, to a name that no link can hold: its text tells where it went. A
    note with an id is known again under any path, with any text.
    """
    write_note("decision/old.md", "# Old\n\ndoor door\n")
    write_note("new.md", "door\n", supersedes=named)
    book.reindex()
    at = "decision/old.md"
    for to in ("x/old.md", "y/again.md", 'a: b/it\'s "old".md', "x/[a] | #b.md"):
        (vault / to).parent.mkdir(exist_ok=True)
        (vault / at).rename(vault / to)
        book.reindex()
        at = to
        assert is_below(book)
        assert [back.path for back in book.around(at).backlinks] == ["new.md"]
    write_note(at, "# Old\n\ndoor door\n", id="01OLD")
    book.reindex()
    (vault / at).unlink()
    write_note("other/name.md", "door, quite different\n", id="01OLD")
    book.reindex()
    assert is_below(book)


def test_doctor_mends_a_relation_whose_note_was_renamed(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Wikilinks and paths are repaired like links in the text; ids that lead to a note are no broken links."""
    write_note("decision/old.md", "# Old\n\ndoor\n", id="01OLD")
    write_note("new.md", "door\n", supersedes="['[[decision/old]]', decision/old.md, 01OLD, 01GONE]")
    book.reindex()
    (vault / "decision/old.md").rename(vault / "decision/older.md")
    book.reindex()
    assert [each.target for each in book.mend_links().broken if each.path is None] == ["01GONE"]
    assert "supersedes: ['[[decision/older]]', decision/older.md, 01OLD, 01GONE]\n" in (vault / "new.md").read_text()


def test_a_merge_of_a_note_with_its_successor(book: Spellbook, vault: Path, write_note: Write) -> None:
    """One note is left: it supersedes what both did, not itself, and what superseded the other one supersedes it."""
    write_note("oldest.md", "door, the oldest\n")
    write_note("older.md", "door, older\n")
    write_note("old.md", "# Old\n\nThe door is red.\n", id="01OLD", supersedes="older")
    text = "# New\n\nThe door is green, and has a bell.\n"
    write_note("new.md", text, id="01NEW", supersedes="['[[old]]', oldest]")
    write_note("newest.md", "# Newest\n\nNo door.\n", supersedes="[01OLD, '[[new]]', 01NEW]")
    book.merge("old.md", "new.md", keep="both", apply=True)
    assert (vault / "old.md").read_text().startswith("---\nid: 01OLD\nsupersedes: [older, oldest]\n")
    found = {hit.path: hit.why.get("superseded_by", {}).get("path") for hit in book.find("door").hits}
    assert found == {"newest.md": None, "old.md": "newest.md", "older.md": "old.md", "oldest.md": "old.md"}
