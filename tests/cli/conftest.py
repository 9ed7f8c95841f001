"""Commands run with the small embedder; settings of a client, as tests of `install` read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spellbook.cli.clients import jsonc, toml

AT = ("mcpServers", "spellbook")
"""Where our entry stands in most settings."""

DESKTOP = """\
{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me"]
    },
    "메모": {"command": "uvx", "args": ["memo"], "env": {"KEY": "secret"}}
  },
  "preferences": { "theme": "dark" }
}
"""


@pytest.fixture(autouse=True)
def _hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")


def servers(file: Path, key: str = "mcpServers") -> dict[str, Any]:
    text = file.read_bytes().decode()
    found: dict[str, Any] = toml.get(text, (key,)) if file.suffix == ".toml" else jsonc.get(text, (key,))
    return found
