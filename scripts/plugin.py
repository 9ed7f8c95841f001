"""
Write the settings of plugins/spellbook, which Claude Code loads as a plugin, and the marketplace that lists it.

    python scripts/plugin.py

The skills in that folder are written by hand. The plugin starts the `spellbook` on the PATH with the vault that this
finds (SPELLBOOK_VAULT, the nearest parent folder with `.spellbook/`, or `~/spellbook`). The hooks are those of
`spellbook install claude-code --hooks`, in lines for the shells of all systems.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from spellbook import __version__
from spellbook.cli.clients import session_hooks

ROOT = Path(__file__).resolve().parent.parent


def files() -> dict[str, str]:
    """Return the files that are made: path in the repository, and text."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    about = {
        "name": "spellbook",
        "version": __version__,
        "description": project["description"],
        "author": project["authors"][0],
        "license": project["license"],
        "keywords": project["keywords"],
    }
    server = {"mcpServers": {"spellbook": {"type": "stdio", "command": "spellbook", "args": ["mcp"]}}}
    groups: dict[str, list[Any]] = {}
    for event, group in session_hooks.groups("claude-code", ["spellbook"], {}):
        groups.setdefault(event, []).append(group)
    about_hooks = "Tells a session what the notes say, and keeps sessions where a person has switched that on."
    hooks = {"description": about_hooks, "hooks": groups}
    listed = {"name": "spellbook", "source": "./plugins/spellbook", "description": project["description"]}
    market = {
        "name": "spellbook",
        "description": project["description"],
        "owner": project["authors"][0],
        "plugins": [listed],
    }
    return {
        ".claude-plugin/marketplace.json": _json(market),
        "plugins/spellbook/.claude-plugin/plugin.json": _json(about),
        "plugins/spellbook/.mcp.json": _json(server),
        "plugins/spellbook/hooks/hooks.json": _json(hooks),
    }


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def main() -> None:
    """Write the files."""
    for name, text in files().items():
        file = ROOT / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8", newline="")
        print(name)


if __name__ == "__main__":
    main()
