"""Text that was made of several notes is as private as the most private and as untrusted as the least trusted of them."""

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from spellbook.editing import edits, joining, merge, threeway
from spellbook.index import privacy
from spellbook.library.book import Spellbook
from spellbook.notes.note import parse
from spellbook.search import note_marks
from spellbook.system.errors import Conflict, InvalidInput
from tests.editing.author import Author
from tests.helpers import Write, session_writer
from tests.mcp.agent import talk

ADDRESS = "https://a.example/page"


@pytest.mark.parametrize(
    ("header", "scope"),
    [
        *((header, "private") for header in ("", "x: 1", "privacy_scope:", "privacy_scope: everybody")),
        *((f"privacy_scope: {value}", "private") for value in ("[public, private]", "{public: true}", "public\nx: [1")),
        *((f"privacy_scope: {value}", "public") for value in ("public", "Public")),
        ("Privacy_Scope: ' TEAM '", "team"),
        ("privacy_scope: [team, public]", "team"),
    ],
)
def test_what_a_header_says_of_privacy(header: str, scope: str) -> None:
    """The reader of the scope and the merges read a header alike; without the key a note is private."""
    data = f"---\n{header}\n---\nText.\n".encode()
    assert privacy.privacy_of(parse("a.md", data).meta) == scope
    assert [privacy.shows(sees, "a.md", data) for sees in ("team", "public")] == [scope != "private", scope == "public"]


@pytest.mark.parametrize(
    ("headers", "untrusted"),
    [
        (("source: me", f"trust: trusted\nsource: {ADDRESS}"), False),
        (tuple(f"source: {text}" for text in ("meeting.md", "team/kim.md", "v1.2/notes", "사내 회의")), False),
        ((f"source: {ADDRESS}", f"source: [me, '{ADDRESS}']", "Source: [[me], [HTTP://a.example]]"), True),
        (("source: [Papers/one.PDF]", "trust: Untrusted", "trust: [trusted, untrusted]"), True),
        ((f"trust: mine\nsource: {ADDRESS}", "source: 'www.e.test/x'", "source: '<https://e.test>'"), True),
        (tuple(f"{key}: {ADDRESS}" for key in ("url", "sources", "origin", "source-url", "Source_URL")), True),
        (("source: e.test/page.html", "source: 'data:text/html,x'", 'source: "\\u200bhttps://e.test"'), True),
    ],
)
def test_what_a_header_says_of_trust(
    book: Spellbook, write_note: Write, headers: tuple[str, ...], untrusted: bool
) -> None:
    """Answers and lists of related notes read it alike; of several sources one from outside is enough."""
    write_note("b.md", "The crane of the harbour.")
    for number, header in enumerate(headers):
        write_note(f"{number}.md", f"---\n{header}\n---\nThe crane lifts boxes. [[b]]\n")
    book.reindex()
    assert [note_marks.of(book.resolve(f"{number}.md")).is_outside for number in range(len(headers))] == [
        untrusted
    ] * len(headers)
    assert [each.untrusted for each in book.around("b.md").backlinks] == [untrusted] * len(headers)


# -- merges

SCOPES = (
    *("", "x: 1", "privacy_scope:", "privacy_scope: private", "privacy_scope: secret", "privacy_scope: [public, team]"),
    *("privacy_scope: team", "privacy_scope: Team", "privacy_scope: public", "privacy_scope: Public"),
    *("Privacy_Scope: public", "privacy_scope: [Public]", "privacy_scope: {public: 1}"),
    *("privacy_scope: public\nx: [1", "privacy_scope: team\nprivacy_scope: public"),
)
TRUSTS = (
    *("", "", "trust: trusted", "trust: untrusted", "Trust: Untrusted", "trust: [untrusted]", "Trust: trusted"),
    *("trust: agent", "Trust: Agent", "trust: [trusted, agent]"),
)
SOURCES = ("", "source: me", f"source: {ADDRESS}", f"source: [me, '{ADDRESS}']", "source: a.pdf", "Source: ftp://a")


def sentences(author: Author) -> list[str]:
    return [f"Word {author.word()} is here." for _ in range(author.chance.randint(1, 4))]


def labelled(author: Author, shared: list[str]) -> bytes:
    """A note of sentences, with a scope, a trust and a source by chance."""
    parts = [author.chance.choice(each) for each in (SCOPES, TRUSTS, SOURCES)]
    header = "".join(f"{part}\n" for part in parts if part)
    body = "\n\n".join([*shared, *sentences(author)])
    return (f"---\n{header}---\n\n" * bool(header) + f"{body}\n").encode()


def words(data: bytes) -> set[str]:
    return set(re.findall(r"w\d+x", data.decode()))


def check(result: bytes, *parts: bytes) -> None:
    """Assert that a token sees a merged text if it saw all of its parts before, and that the least trust is kept."""
    assert words(result) >= set().union(*map(words, parts))
    for sees in ("team", "public"):
        assert privacy.shows(sees, "a.md", result) is all(privacy.shows(sees, "a.md", part) for part in parts)
    of, *before = [privacy.TRUSTS.index(privacy.trust_of(parse("a.md", part).meta)) for part in (result, *parts)]
    assert of >= max(before)


def test_many_pairs_through_both_merges() -> None:
    """
    No token is shown a sentence that it did not see before, and no untrusted text loses its label. A faulty header of
    ours that would have to be more private is left to the person.
    """
    done = 0
    for seed in range(300):
        author = Author(seed)
        shared = sentences(author)
        base, ours, theirs = (labelled(author, shared) for _ in range(3))
        with contextlib.suppress(InvalidInput, Conflict):
            check(threeway.merge("a.md", base if seed % 2 else b"", ours, theirs).data, ours, theirs)
            done += 1
        first, other = parse("a.md", ours), parse("b.md", theirs)
        text = joining.join(first, other, "both").text
        with contextlib.suppress(InvalidInput):  # faulty frontmatter is not written into
            merged = parse("a.md", first.encode(text))
            check(merged.encode(edits.with_meta(merged, merge.metadata(first, other)[0])), ours, theirs)
    ours = b"---\nid: A\nx: 1\nx: 2\nprivacy_scope: public\n---\nOurs.\n"
    with pytest.raises(InvalidInput):
        threeway.merge("a.md", b"Old.\n", ours, b"---\nprivacy_scope: team\n---\nTheirs.\n")
    assert done > 150


# -- the label ends by a person's decision


@pytest.mark.parametrize(
    "change", [{"trust": None, "x": 1}, {"TRUST": "trusted", "x": 1}, {"category": "memory", "source": "me"}]
)
def test_no_tool_raises_the_trust_of_a_session(book: Spellbook, vault: Path, change: dict[str, Any]) -> None:
    """Whatever an agent sets, a captured session stays one, and so do a section in the trash and a note it is merged into."""
    file = session_writer(vault)("a", "The crane.", "Lifted.", "The quay.")
    (vault / "own.md").write_text("---\nid: O\n---\nThe harbour.\n")
    book.reindex()
    talk(book, lambda agent: agent.call("revise", chunk_id="session-a", metadata=change))
    assert "\ntrust: agent\n" in file.read_text()
    assert "trust: agent\n" in (vault / book.erase(book.show("session-a")[-1].id).trash[0]).read_text()
    done = book.merge("own.md", "session-a", keep="both", apply=True)
    assert "\ntrust: agent\n" in (vault / done.path).read_text()


@pytest.mark.parametrize("source", [ADDRESS, f"[me, '{ADDRESS}']", "Papers/one.pdf"])
@pytest.mark.parametrize("change", [{"source": None}, {"source": "me"}, {"Trust": "trusted", "source": "me"}])
def test_a_note_that_loses_its_source_stays_untrusted(
    book: Spellbook, vault: Path, write_note: Write, source: Any, change: dict[str, Any]
) -> None:
    """
    Revising removes or replaces the source, and the label takes its place. Only an edit of the file ends it; such a
    decision of a person stays. Of a section in the trash, restored as a note of its own, the label stays too.
    """
    file = write_note("a.md", "Lead.\n\n## One\n\nThe crane.\n", source=source, id="A")
    book.revise("A", metadata=change)
    assert note_marks.of(book.resolve("A")).is_outside
    assert "trust: untrusted\n" in file.read_text()
    book.revise("A", append="More of it.")
    book.undo()
    assert note_marks.of(book.resolve("A")).is_outside
    trash = book.erase("A#one").trash[0]
    file.write_text(file.read_text().replace("trust: untrusted", "trust: trusted"))
    book.revise("A", metadata={"source": f"{ADDRESS}/2"})
    assert not note_marks.of(book.resolve("A")).is_outside
    file.write_text("Another note.\n")
    book.reindex()
    (path,) = book.restore(trash)
    assert note_marks.of(book.resolve(path)).is_outside
    assert "The crane." in (vault / path).read_text()


def test_undo_over_a_later_edit_opens_nothing(book: Spellbook, vault: Path, write_note: Write) -> None:
    """What returns is as private, and as untrusted, as it was when it was taken away."""
    file = write_note("a.md", "One.\n\nTwo of the stranger.\n\nThree.\n", source=ADDRESS, id="A", privacy_scope="team")
    book.revise("A", replace=("Two of the stranger.\n\n", ""))
    text = file.read_text().replace("team", "public").replace(f"source: {ADDRESS}", "trust: trusted")
    file.write_text(text)
    book.reindex()
    book.undo()
    note = parse("a.md", file.read_bytes())
    assert "stranger" in note.body
    assert privacy.privacy_of(note.meta) == "team"
    assert privacy.is_untrusted(note.meta)
