"""No caller over HTTP names a file of the server's disk: none is read, and nobody learns which there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from spellbook.http.served import Served
from spellbook.library.book import Spellbook

from .running import asked

TEXT = "The proxy listens on port 8443, and a second one waits beside it for the day on which the first one fails. "
HTML = f"<html><title>Proxies</title><body><article><p>{TEXT * 9}</p></article></body>"

TOOLS = ("core", "articles", "backup", "wiki")


@pytest.fixture
def client(book: Spellbook) -> Any:
    with asked(Served(book, TOOLS)) as made:
        yield made


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page in a file beside the vault."""
    file = tmp_path / "secret.html"
    file.write_text(HTML, "utf-8")
    return file


def tool(client: TestClient, name: str, **arguments: Any) -> str:
    """Call a tool as a stateless client does."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return str(client.post("/mcp", json=body, headers=headers).json()["result"]["content"][0]["text"])


def test_save_takes_no_file(client, book, page):
    """Not by the tool, the API or the page, whether there is such a file, none, or one that was saved before."""
    book.memories.articles.save(str(page), ["x"])
    missing = page.with_name("missing.html")
    answers = set()
    for place in (page, missing, f"file://{page}", f"~/../..{page}", page.relative_to(page.parent)):
        said = tool(client, "save", source=str(place), categories=["y"])
        api = client.post("/api/articles", json={"source": str(place), "categories": ["y"]})
        form = {"source": str(place), "categories": "y", "text": ""}
        shown = client.post("/do/save", data=form, headers={"origin": "http://localhost:17950"})
        assert (api.status_code, shown.status_code) == (400, 400)
        answers.add((said.partition(": ")[2], api.json()["error"]["message"]))
    assert len(answers) == 1
    assert "no file" in answers.pop()[1]
    assert len(book.recent(filter={"category": "article"}).notes) == 1


def test_save_takes_given_text(client, page):
    """A path beside given text only says where it is from."""
    text = "# Proxies\n\nThe proxy listens on port 8443."
    done = json.loads(tool(client, "save", source=str(page), categories=["y"], text=text))
    assert done["status"] == "saved"
    assert "port 8443" in tool(client, "get", article_id=done["id"], include_content=True)


def test_other_arguments_name_no_file(client, page, tmp_path, vault):
    """An import and a folder of documents are those that the server was started with, or none."""
    missing = tmp_path / "missing"
    for place in (page, missing, f"../{page.name}", "../../../etc/passwd"):
        assert "is not one of the files in" in tool(client, "import", file_path=str(place))
        assert client.post("/api/import", json={"file": str(place)}).status_code == 400
        assert "PERMISSION_DENIED" in tool(client, "wiki_status", path=str(tmp_path / Path(place).name))
