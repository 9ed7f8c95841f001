"""ZyWiki: the documents of a code base are asked in plain words, through the MCP tools, beside the person's own vault."""

from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from tests.helpers import note_writer
from tests.mcp.agent import Agent, conversation

SETS = ("core", "wiki")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with documents of its code."""
    root = tmp_path / "app"
    write = note_writer(root)
    write(
        "zywiki/auth.md",
        "# AuthService\n\n## 인증 코드\n\n로그인과 JWT 인증은 src/auth/jwt.ts에 있다.\n\n## Sessions\n\nIn Redis.\n",
    )
    write("zywiki/mail.md", "# Mail\n\n## Sending\n\nInvoices leave by the worker queue.\n")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(root))
    return root


@conversation(SETS)
async def test_where_is_the_code(agent: Agent, book: Spellbook, project: Path) -> None:
    """Architecture: "인증 관련 코드 어디 있어?" is answered by file, section, text and similarity, sections being chunks."""
    results = (await agent.json("wiki_search", query="인증 관련 코드 어디 있어?", format="json"))["results"]
    assert {"file_path", "section", "content", "similarity"} <= set(results[0])
    assert (results[0]["file_path"], results[0]["section"]) == ("zywiki/auth.md", "## 인증 코드")
    assert "jwt.ts" in results[0]["content"]
    assert 0 <= results[0]["similarity"] <= 1
    assert len((await agent.json("wiki_search", query="인증", limit=1, format="json"))["results"]) == 1
    none = await agent.json("wiki_search", query="인증", threshold=1.0, format="json")
    assert none["results"] == []


@conversation(SETS)
async def test_it_is_indexed_when_asked_and_when_it_changes(agent: Agent, book: Spellbook, project: Path) -> None:
    """결정 4: wiki_index says what was indexed and how long it took; a change is found at the next question, too."""
    done = await agent.json("wiki_index")
    assert done["indexed"] == (await agent.json("wiki_status"))["total_sections"]
    assert done["duration_ms"] >= 0
    note_writer(project)("zywiki/new.md", "# Billing\n\n## Ledger\n\nThe lighthouse ledger lists refunds.\n")
    results = (await agent.json("wiki_search", query="lighthouse ledger", format="json"))["results"]
    assert results[0]["file_path"] == "zywiki/new.md"


@conversation(SETS)
async def test_its_status(agent: Agent, book: Spellbook, project: Path) -> None:
    """wiki_status: documents, sections, when they were last indexed, the size of the index."""
    await agent.call("wiki_index")
    status = await agent.json("wiki_status")
    assert {"total_documents", "total_sections", "last_indexed", "index_size_mb"} <= set(status)
    assert status["total_documents"] == 2


@conversation(("core", "zyflow"))
async def test_the_names_of_the_seed(agent: Agent, book: Spellbook, project: Path) -> None:
    """zyflow_wiki_… are called as well as wiki_…, and the toolset zyflow lists them."""
    listed = {tool.name: tool.input_schema["properties"] for tool in await agent.tools()}
    assert {"query", "limit", "threshold"} <= listed["zyflow_wiki_search"].keys()
    assert "path" in listed["zyflow_wiki_index"]
    assert {"zyflow_wiki_status"} <= listed.keys()
    assert "wiki_search" not in listed
    for tool in ("wiki_index", "wiki_status"):
        assert set(await agent.json(f"zyflow_{tool}")) == set(await agent.json(tool))


@conversation(SETS)
async def test_nothing_is_written_and_the_vault_stays_apart(
    agent: Agent, book: Spellbook, vault: Path, project: Path
) -> None:
    """The documents are only read; the person's own search does not find them, nor do they find the person's notes."""
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    note_writer(vault)("own.md", "My own lighthouse.")
    await agent.call("wiki_index")
    assert await agent.found("find", keywords=["Redis"]) == []
    assert (await agent.json("wiki_search", query="lighthouse", format="json"))["results"] == []
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
