"""Installing the address of a server that runs already, in place of a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spellbook.cli import main

FILES = {"claude-code": ".mcp.json", "vscode": ".vscode/mcp.json", "cursor": ".cursor/mcp.json"}


def install(*args: object, code: int = 0, typed: str = "") -> Result:
    result = CliRunner().invoke(main, ["install", *map(str, args)], input=typed)
    assert result.exit_code == code, f"{args}: {result.output} {result.exception!r}"
    return result


def entry(file: Path) -> Any:
    held = json.loads(file.read_text("utf-8"))
    return held.get("servers", held.get("mcpServers"))["spellbook"]


@pytest.mark.parametrize("client", FILES)
def test_an_address(vault, tmp_path, client):
    """The usual one, or a named one with a token that is asked for; and out again without a trace."""
    file = tmp_path / FILES[client]
    project = ("--project", tmp_path, "--vault", vault)
    install(client, *project, "--url")
    assert entry(file) == {"type": "http", "url": "http://127.0.0.1:17950"}
    install(client, *project, "--url", "https://notes.example/mcp", "--with-token", typed="spb_secret\n")
    assert entry(file) == {
        "type": "http",
        "url": "https://notes.example/mcp",
        "headers": {"Authorization": "Bearer spb_secret"},
    }
    install(client, *project, "--uninstall", "--force")
    assert not file.exists()


def test_an_address_in_place_of_a_command_and_back(vault, tmp_path):
    """Nothing of the one stays beside the other; other servers keep their bytes."""
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}\n')
    project = ("--project", tmp_path, "--vault", vault)
    install("claude-code", *project)
    assert "args" in entry(file)
    install("claude-code", *project, "--url")
    assert set(entry(file)) == {"type", "url"}
    install("claude-code", *project)
    assert "url" not in entry(file)
    install("claude-code", *project, "--uninstall")
    assert file.read_text() == '{"mcpServers": {"a": {"command": "x"}}}\n'


def test_what_is_refused(vault, tmp_path):
    """A client that takes no address, a text that is none, and another server of that name; nothing is written."""
    said = install("claude-desktop", "--file", tmp_path / "x.json", "--vault", vault, "--url", code=2).stderr
    assert "Install it without --url." in said
    project = ("--project", tmp_path, "--vault", vault)
    for url in ("localhost:17950", "ftp://x", "http://", "http://u:p@x", "http://x:99999", "http://x\ny"):
        assert "this is not an address" in install("claude-code", *project, "--url", url, code=2).stderr
    assert "needs --url" in install("claude-code", *project, "--with-token", code=2).stderr
    (tmp_path / ".mcp.json").write_text(
        '{"mcpServers": {"spellbook": {"type": "http", "url": "https://other.example"}}}'
    )
    assert "another server" in install("claude-code", *project, "--url", code=2).stderr
