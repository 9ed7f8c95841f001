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
    """A note that appears, goes or is edited changes the backlinks of others at once, without reading these."""
    assert len(book.around("harbor/crane").backlinks) == 2
    (vault / "harbor/crane.md").rename(vault / "harbor/derrick.md")
    assert [link.path for link in book.around("log/monday").links] == ["harbor/tides.md", None]
    (vault / "crane.md").write_text("# Another crane\n")
    assert [back.path for back in book.around("crane").backlinks] == ["harbor/tides.md", "log/monday.md"]
    write_note("log/monday.md", "# Monday\n\nNothing any more.\n")
    assert [back.path for back in book.around("crane").backlinks] == ["harbor/tides.md"]


@pytest.mark.usefixtures("notes")
def test_a_scope_hides_backlinks_of_others(vault: Path, write_note: Write) -> None:
    """From one scope, notes of other scopes are not shown as backlinks or related."""
    write_note("secret.md", "[[crane]]", scope="acme")
    with books.open(vault, embedder="hash") as book:
        assert "secret.md" in [back.path for back in book.around("harbor/crane").backlinks]
    with books.open(vault, embedder="hash", scope="lantern") as book:
        around = book.around("harbor/crane")
        assert "secret.md" not in [each.path for each in (*around.backlinks, *around.related)]


@pytest.mark.usefixtures("notes")
def test_an_agent_reads_a_note_with_what_is_around(book: Spellbook, write_note: Write) -> None:
    """The tool show reads a pointer's id within its budget, hits count their backlinks, and reading counts as use."""

    async def conversation(agent: Agent) -> None:
        hits = (await agent.json("find", keywords=["Crane"], format="json"))["hits"]
        counts = {hit["path"].rpartition("/")[2]: hit["backlinks"] for hit in hits}
        assert counts == {"crane.md": 2, "tides.md": 3, "monday.md": 0, "tuesday.md": 0}
        for i in range(200):
            write_note(f"many/{i}.md", f"# Number {i}\n\n[[crane]] [[iron]]\n\n## More\n\n{'granite ' * 40}\n")
        small = await agent.call("show", id="harbor/crane", max_tokens=300)
        assert "more" in small
        assert len(small) < 300 * 4

    talk(book, conversation)
    assert book.index.catalog.usage.of(["harbor/crane"])["harbor/crane"].count == 1
