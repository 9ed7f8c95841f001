"""
Relations in frontmatter: every form is read, and who asks in old words gets what holds now.

`relations.tesh` says what they mean for ranking, and how they survive renames and merges.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.library.book import Spellbook
from spellbook.notes import links
from spellbook.notes.frontmatter import compose
from spellbook.notes.note import parse
from spellbook.notes.where_links_lead import Files
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
        reached = Files([path, "b.md"]).relation("new.md", first.target)
        assert (first.relation, reached and reached.path) == ("supersedes", path)


def test_a_successor_comes_along(book: Spellbook, write_note: Write) -> None:
    """
    Whoever asks in the words of what is superseded gets what holds now, right above it, however little it matches. Each
    note of a long chain is named by its successor, and the newest is the first.
    """
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
    for number in range(12):
        write_note(f"n{number}.md", "door " * (12 - number), supersedes=f"'[[n{number - 1}]]'")
    book.refresh(whole=True)  # a second has not gone since the last question
    found = book.find("door", limit=100).hits
    assert [hit.path for hit in found] == [f"n{number}.md" for number in reversed(range(12))]
    assert [hit.why["superseded_by"]["path"] for hit in found[1:]] == [hit.path for hit in found[:-1]]
