"""Links, backlinks and related notes, in Python, on the command line and through MCP."""

from __future__ import annotations

from pathlib import Path

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from tests.helpers import Write
from tests.mcp.agent import Agent, talk


@pytest.fixture
def notes(write_note: Write) -> None:
    """Notes about a harbor that link to each other."""
    write_note(
        "harbor/crane.md",
        "# Crane\n\nSee [[tides]].\n\n## Lifts\n\n[[tides#Table]] ![[plan.png]] [[nowhere]]\n",
        tags="[iron, port]",
    )
    write_note("harbor/tides.md", "# Tides\n\n[crane](crane.md#lifts)\n", aliases="[moon table]")
    write_note("log/monday.md", "# Monday\n\nThe [[moon table]] was wrong; see also [[crane]].\n", tags="[port]")
    write_note("log/tuesday.md", "# Tuesday\n\n[old](../harbor/tides.md)\n\n```\n[[crane]]\n```\n")
    write_note("iron.md", "# Iron\n\nNothing linked.\n", tags="[iron]")


@pytest.mark.usefixtures("notes")
def test_around(book: Spellbook) -> None:
    """Links by name, alias and path lead to notes; each backlink has its lines; related notes have reasons."""
    around = book.around("harbor/crane")
    assert [(link.target, link.line, link.path) for link in around.links] == [
        ("tides", 6, "harbor/tides.md"),
        ("tides#Table", 10, "harbor/tides.md"),
        ("plan.png", 10, None),
        ("nowhere", 10, None),
    ]
    assert [(back.path, back.lines) for back in around.backlinks] == [
        ("harbor/tides.md", (6,)),
        ("log/monday.md", (6,)),
    ]
    assert {each.path: each.why for each in around.related} == {
        "harbor/tides.md": ("linked from here", "links here"),
        "log/monday.md": ("links here", "links to Tides too", "shares port"),
        "log/tuesday.md": ("links to Tides too",),
        "iron.md": ("shares iron",),
    }
    assert [back.path for back in book.around("harbor/tides.md").backlinks] == [
        "harbor/crane.md",
        "log/monday.md",
        "log/tuesday.md",
    ]


@pytest.mark.usefixtures("notes")
def test_a_renamed_target_is_followed_without_reading_its_sources(
    book: Spellbook, vault: Path, write_note: Write
) -> None:
    """
    A note that appears, goes or is edited changes the backlinks of others at once, without reading these. From one
    scope, notes of other scopes are not shown as backlinks or related.
    """
    secret = write_note("secret.md", "[[crane]]", scope="acme")
    assert "secret.md" in [back.path for back in book.around("harbor/crane").backlinks]
    with books.open(vault, embedder="hash", scope="lantern") as scoped:
        around = scoped.around("harbor/crane")
        assert "secret.md" not in [each.path for each in (*around.backlinks, *around.related)]
    secret.unlink()
    assert len(book.around("harbor/crane").backlinks) == 2
    (vault / "harbor/crane.md").rename(vault / "harbor/derrick.md")
    assert [link.path for link in book.around("log/monday").links] == ["harbor/tides.md", None]
    (vault / "crane.md").write_text("# Another crane\n")
    assert [back.path for back in book.around("crane").backlinks] == ["harbor/tides.md", "log/monday.md"]
    write_note("log/monday.md", "# Monday\n\nNothing any more.\n")
    assert [back.path for back in book.around("crane").backlinks] == ["harbor/tides.md"]


@pytest.mark.usefixtures("notes")
def test_an_agent_reads_a_note_with_what_is_around(book: Spellbook) -> None:
    """Hits count their backlinks, and reading counts as use."""

    async def conversation(agent: Agent) -> None:
        hits = (await agent.json("find", keywords=["Crane"], format="json"))["hits"]
        counts = {hit["path"].rpartition("/")[2]: hit["backlinks"] for hit in hits}
        assert counts == {"crane.md": 2, "tides.md": 3, "monday.md": 0, "tuesday.md": 0}
        await agent.call("show", id="harbor/crane")

    talk(book, conversation)
    assert book.index.catalog.usage.of(["harbor/crane"])["harbor/crane"].count == 1


# -- pictures of the vault


def test_all_notes_and_their_links(book: Spellbook, write_note: Write) -> None:
    """
    The most linked first; a pair is joined once, by its relation if it has one; nothing leads nowhere. No more than asked
    for, with the links between them, and how many there are.
    """
    write_note("hub.md", "# Hub\n\n[[a]] [[b]] [[a]] [[nowhere]] [[hub]]", category="x", topic="t")
    write_note("a.md", "Back to [[hub]].", trust="untrusted")
    write_note("b.md", "Text.", supersedes="a")
    write_note("alone.md", "Nobody links here.")
    graph = book.vault_graph(100)
    assert [(note.id, links) for note, links in zip(graph.notes, graph.degrees, strict=True)] == [
        *(("a", 2), ("b", 2), ("hub", 2), ("alone", 0)),
    ]
    named = {(frozenset((graph.notes[a].id, graph.notes[b].id)), kind) for a, b, kind in graph.edges}
    assert named == {
        (frozenset(("hub", "a")), "link"),
        (frozenset(("hub", "b")), "link"),
        (frozenset(("a", "b")), "supersedes"),
    }
    assert [note.untrusted for note in graph.notes] == [True, False, False, False]
    assert (graph.notes[2].category, graph.notes[2].topic, graph.notes[2].title) == ("x", "t", "Hub")
    few = book.vault_graph(2)
    assert ([note.id for note in few.notes], few.total, len(few.edges)) == (["a", "b"], 4, 1)


def test_notes_of_a_folder_come_by_name(book: Spellbook, write_note: Write) -> None:
    """Without case, with numbers as numbers; the first has none before it, and one alone has no other."""
    for name in ("b", "C", "a10", "a9", "sub/x"):
        write_note(f"f/{name}.md", f"Text of {name}.")
    order, at = ["f/a9"], book.adjacent("f/a9")
    assert at[0] is None
    while after := book.adjacent(order[-1])[1]:
        assert book.adjacent(after.id)[0].id == order[-1]
        order.append(after.id)
    assert order == ["f/a9", "f/a10", "f/b", "f/C"]
    assert book.adjacent("f/sub/x") == (None, None)
