"""Scopes: a server sees one project and shared notes, and writes into that project."""

from __future__ import annotations

from pathlib import Path

import pytest

from spellbook.index.scopes import project, scopes_of
from spellbook.library import book as books
from spellbook.notes.note import parse
from spellbook.system.errors import InvalidInput, MemoryNotFound
from tests.helpers import Counting, Write, opened

CHUNK = {
    "text": "The crane lifts the copper over the quay of the harbour.",
    "metadata": {"topic": "crane", "keywords": ["crane"]},
}


@pytest.mark.parametrize(
    ("path", "frontmatter", "scopes"),
    [
        ("a.md", "", ()),
        ("a.md", "scope: Acme", ("acme",)),
        ("a.md", "scope: [acme, globex]", ("acme", "globex")),
        ("a.md", "scope: shared", ()),
        ("a.md", "scope: [acme, Shared]", ()),
        ("a.md", "scope:", ()),
        ("work/acme/b/a.md", "", ("acme",)),
        ("work/acme/b/a.md", "scope: globex", ("globex",)),
        ("work/acme/b/a.md", "scope: shared", ()),
        ("work/other.md", "", ("work",)),
        ("scopes/Globex/a.md", "", ("globex",)),
        ("scopes/a.md", "", ()),
    ],
)
def test_the_scope_of_a_note(path: str, frontmatter: str, scopes: tuple[str, ...]) -> None:
    """Frontmatter decides first, then the first matching rule of the settings, then the folder scopes/NAME."""
    note = parse(path, f"---\ntopic: t\n{frontmatter}\n---\ntext".encode())
    assert scopes_of(note, {"work/acme/": "acme", "work/*": "work"}) == scopes


@pytest.fixture
def notes(vault: Path, write_note: Write) -> Path:
    """Notes about copper in two scopes and without one, all in one topic."""
    write_note("acme.md", "# A\n\nThe copper harbour of acme.", scope="acme", topic="copper")
    write_note("scopes/globex/g.md", "# G\n\nThe copper harbour of globex.", topic="copper")
    write_note("all.md", "# S\n\nThe copper harbour of all.", topic="copper")
    return vault


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        ("", {"acme", "globex", "all"}),
        ("ACME", {"acme", "all"}),
        ("nobody", {"all"}),
        ("shared", {"acme", "globex", "all"}),
    ],
)
def test_a_scope_sees_itself_and_what_all_share(notes: Path, scope: str, seen: set[str]) -> None:
    """Searches, topics and the table of contents show the scope and notes without one; without a scope, everything."""
    with books.open(notes, embedder="hash", scope=scope) as book:
        book.reindex()

        def of(texts: list[str]) -> set[str]:
            return {text.rpartition(" ")[2].strip(".") for text in texts}

        for answer in (
            book.search("copper harbour", min_score=0),
            book.find("copper"),
            book.memorize("copper harbour", min_score=0),
        ):
            assert of([hit.text for hit in answer.hits]) == seen
        assert of([found.text for found in book.topic("copper")]) == seen
        assert book.topics()[0].chunks == len(seen)
        assert book.show("scopes/globex/g")[0].text.endswith("globex.")  # who names an id may read it


def test_a_table_of_contents_tells_nothing_of_other_scopes(notes: Path, write_note: Write) -> None:
    """Summaries of topics and categories come only from notes that the scope sees."""
    write_note("acme/category.md", "What acme works on.", scope="acme", category="port", topic="copper")
    write_note("z.md", "The piers of globex.", scope="globex", category="port", topic="copper")
    told = {}
    for scope in ("acme", "globex"):
        with books.open(notes, embedder="hash", scope=scope) as book:
            book.reindex()
            told[scope] = {
                each.name: (each.description, *(book.about(topic).summary for topic in each.topics))
                for each in book.contents()
            }
    assert told == {
        "acme": {"": ("", "The copper harbour of acme."), "port": ("What acme works on.", "What acme works on.")},
        "globex": {"": ("", "The copper harbour of all."), "port": ("", "The piers of globex.")},
    }


def test_a_filter_and_a_scope_go_together(notes: Path) -> None:
    """A filter applies within the scope, and `why` names the scope if it hides a note."""
    with books.open(notes, embedder="hash", scope="acme") as book:
        assert [hit.path for hit in book.search("copper harbour", filter={"scope": "acme"}).hits] == ["acme.md"]
        [row] = book.why("copper harbour", "scopes/globex/g").rows
        assert "filter scope" in row.verdict


def test_what_a_scope_writes_is_its_own(notes: Path) -> None:
    """
    A memory gets the scope it was written in, unless it names another or `shared`; notes of other scopes are no
    duplicates.
    """
    with books.open(notes, embedder="hash", scope="acme") as book:
        [mine] = book.scribe(CHUNK).written
        assert "scope: acme" in (notes / mine.path).read_text("utf-8")
        assert book.scribe(CHUNK).written == ()
        [shared] = book.scribe(
            {"text": "Everybody may know of the ferry at noon.", "metadata": {**CHUNK["metadata"], "scope": "shared"}}
        ).written
    with books.open(notes, embedder="hash", scope="globex") as book:
        assert [hit.path for hit in book.find("ferry").hits] == [shared.path]
        assert book.find("crane").hits[0].path == shared.path
        [theirs] = book.scribe(CHUNK).written
        assert "scope: globex" in (notes / theirs.path).read_text("utf-8")
        book.erase_topic("crane")
        assert (notes / mine.path).exists()
        assert not (notes / theirs.path).exists()
    with books.open(notes, embedder="hash", scope="nobody") as book, pytest.raises(MemoryNotFound):
        book.erase_topic("crane")


def test_new_rules_are_followed_and_nothing_is_embedded_again(vault: Path, write_note: Write) -> None:
    """After a change of the rules notes have new scopes at the next scan, and keep their vectors."""
    write_note("work/acme/a.md", "The copper harbour.")
    embedder = Counting()
    for rules, seen in (({}, 1), ({"work/acme/": "acme"}, 0), ({"work/acme/": "globex"}, 1)):
        with opened(vault, embedder, scopes=rules, scope="globex") as index:
            book = books.Spellbook(index.config, embedder)
            book.reindex()
            assert len(book.find("copper").hits) == seen
            book.close()
    assert embedder.taken() == 1


@pytest.mark.parametrize(
    ("environment", "folder", "name"),
    [({"CLAUDE_PROJECT_DIR": "/x/Acme"}, "", "Acme"), ({}, "repo/src", "repo"), ({}, "", "")],
)
def test_the_project_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str, name: str
) -> None:
    """`auto` is the folder named by the client, else the git repository of the working folder, else no scope."""
    (tmp_path / "repo/src").mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    monkeypatch.chdir(tmp_path / folder)
    assert project(environment) == name


def test_settings_that_make_no_sense(vault: Path, write_note: Write) -> None:
    """An invalid rule is refused with file and key."""
    write_note(".spellbook/config.toml", '[scopes]\n"a/" = 3')
    with pytest.raises(InvalidInput, match=r"config\.toml: scopes\.a/ must be text"):
        books.open(vault, embedder="hash")
