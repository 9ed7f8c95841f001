"""
The MCP clients that `spellbook install` knows: where each keeps its settings, and its words for a server.

A new client is a row of `CLIENTS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class McpClient:
    """
    An MCP client.

    `key`: the object that holds its servers. `next`: what makes it see the change. `files`: where a person's settings
    may be, the likeliest first, as `places` reads them. `project`: its settings in a folder of work, "" if it has none.
    `format`: json, jsonc (with comments) or toml; "" if its settings are never written. `types`: what an entry says of
    its kind, for a command and for an address. `names`: fields that it calls otherwise. `more`: fields that only it
    has. `by_hand`: what its person runs or adds where nothing is written. `hooks`: the file with the hooks of a
    sessions, and that of a project. `package`: its package of Windows, as a pattern, if it has one.
    """

    title: str
    key: str
    next: str
    files: Sequence[str | tuple[str, str]] = ()
    project: str = ""
    format: str = "json"
    types: tuple[str, str] = ("", "")
    names: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    by_hand: str = ""
    hooks: tuple[str, str] = ("", "")
    package: str = ""


_TYPED = ("stdio", "http")
_LOCAL = ("local", "remote")
_SERVERS = "mcpServers"
_SERVER_URL = {"url": "serverUrl"}
_HTTP_URL = {"url": "httpUrl"}
_DEVIN = "devin mcp add -s user {name} -- {command}"
_GEMINI, _OLD_GEMINI = "{home}/.gemini/config/mcp_config.json", "{home}/.gemini/antigravity-cli"
_EXTENSION = "{apps}/Code/User/globalStorage/saoudrizwan.claude-dev"

# Sources of the four newest: docs/tools/mcp-server.md of google-gemini/gemini-cli and docs/users/features/mcp.md of
# QwenLM/qwen-code (both drop comments of their settings, and want httpUrl for streamable HTTP); add-mcp-servers.md and
# cli-config-dir-reference.md of github/docs; of docs.cline.bot getting-started/config and
# mcp/connecting-to-a-remote-server.
CLIENTS = {
    "claude-desktop": McpClient(
        "Claude Desktop", _SERVERS, "Quit Claude Desktop (its window alone is not enough) and start it again.",
        ["{apps}/Claude/claude_desktop_config.json"], names={"url": ""}, package="Claude_*"),
    "claude-code": McpClient(
        "Claude Code", _SERVERS, "Start a new session of Claude Code; /mcp shows its servers.",
        [("{claude_json}", "{claude}")], ".mcp.json", types=_TYPED,
        # Claude Code keeps a project's local settings out of git: commands have paths of this machine.
        hooks=("{claude}/settings.json", ".claude/settings.local.json")),
    "codex": McpClient(
        "Codex", "mcp_servers", "Start a new session of Codex; /mcp shows its servers.", ["{codex}/config.toml"],
        ".codex/config.toml", "toml", names={"headers": "bearer_token_env_var"},
        hooks=("{codex}/hooks.json", ".codex/hooks.json")),
    "cursor": McpClient(
        "Cursor", _SERVERS, "Restart Cursor, or switch the server on in its MCP settings.", ["{home}/.cursor/mcp.json"],
        ".cursor/mcp.json", "jsonc", _TYPED),
    "vscode": McpClient(
        "VS Code", "servers", "Open a new chat in VS Code; MCP: List Servers in its palette starts a server.",
        ["{apps}/Code/User/mcp.json", "{apps}/Code - Insiders/User/mcp.json", "{apps}/VSCodium/User/mcp.json"],
        ".vscode/mcp.json", "jsonc", _TYPED),
    "copilot-cli": McpClient(
        "Copilot CLI", _SERVERS, "Start Copilot CLI again; /mcp show lists its servers.", ["{copilot}/mcp-config.json"],
        ".mcp.json", types=_TYPED, more={"tools": ["*"]}),
    "gemini-cli": McpClient(
        "Gemini CLI", _SERVERS, "Start Gemini CLI again, in a folder that it trusts; /mcp shows its servers.",
        [("{gemini}/settings.json", "{gemini}/settings.json")], ".gemini/settings.json", "jsonc", names=_HTTP_URL),
    "qwen-code": McpClient(
        "Qwen Code", _SERVERS, "Start Qwen Code again; /mcp shows its servers.", ["{qwen}/settings.json"],
        ".qwen/settings.json", "jsonc", names=_HTTP_URL),
    "cline": McpClient(
        "Cline", _SERVERS, "Start Cline again; its MCP servers show the new one.",
        [("{cline}/settings/cline_mcp_settings.json", "{cline}"),
         (f"{_EXTENSION}/settings/cline_mcp_settings.json", _EXTENSION)], types=("", "streamableHttp")),
    "opencode": McpClient(
        "OpenCode", "mcp", "Start OpenCode again; `opencode mcp list` shows its servers.",
        [("{config}/opencode/opencode.jsonc",) * 2, "{config}/opencode/opencode.json"], "opencode.json", "jsonc",
        _LOCAL, {"args": "command", "env": "environment"}),
    "antigravity": McpClient(
        "Antigravity", _SERVERS, "Start Antigravity again.",
        [_GEMINI, (f"{_OLD_GEMINI}/mcp_config.json",) * 2, (_GEMINI, _OLD_GEMINI)], ".agents/mcp_config.json",
        names=_SERVER_URL),
    "zed": McpClient(
        "Zed", "context_servers", "Zed's agent settings show the server.", ["{zed}/settings.json"], format="jsonc"),
    "lmstudio": McpClient(
        "LM Studio", _SERVERS, "Switch the server on in LM Studio, under Integrations.",
        ["{home}/.lmstudio/mcp.json", "{home}/.cache/lm-studio/mcp.json"]),
    "windsurf": McpClient(
        "Windsurf", _SERVERS, "Refresh the servers in Windsurf.", [("{home}/.codeium/windsurf/mcp_config.json",) * 2],
        names=_SERVER_URL, by_hand=_DEVIN),
    "devin": McpClient(
        "Devin", _SERVERS, "Start Devin again; `devin mcp list` shows its servers.",
        [("{roaming}/devin/mcp_config.json",) * 2], by_hand=_DEVIN),
    "goose": McpClient(
        "Goose", "extensions", "", ["{goose}/config.yaml"], format="", types=("stdio", ""),
        names={"command": "cmd", "env": "envs"}, by_hand='extensions:\n  {name}: {{"enabled": true, {fields}}}'),
    "openclaw": McpClient(
        "OpenClaw", "mcp.servers", "", ["{home}/.openclaw/openclaw.json"], format="",
        by_hand="openclaw mcp set {name} {quoted}"),
}  # fmt: skip
"""Clients by their names for `spellbook install`."""

_FOLDERS = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
    "copilot": ("COPILOT_HOME", ".copilot"),
    "qwen": ("QWEN_HOME", ".qwen"),
    "cline_home": ("CLINE_DIR", ".cline"),
    "config": ("XDG_CONFIG_HOME", ".config"),
    "roaming": ("APPDATA", "AppData/Roaming"),
}
"""Folders of settings, of clients and of the system: the variable that names one, and its place in a person's home."""

_PACKAGE = "LocalCache/Roaming"
"""Where a package of Windows keeps what another program has in %APPDATA%."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file, and the folder that shows that its client is installed; without one, the file shows it."""

    file: Path
    folder: Path


def places(name: str, system: str, environ: Mapping[str, str], home: Path) -> list[SettingsFile]:
    """
    Return where a client may keep a person's settings, the likeliest first; `system` as in `sys.platform`.

    In a row of `CLIENTS` that is a path, whose folder shows that the client is installed, or a path and what shows it.
    """
    roots = _roots(system, environ, home)
    about = CLIENTS[name]
    listed = [row if isinstance(row, tuple) else (row, row.rpartition("/")[0]) for row in about.files]
    known = [SettingsFile(*(Path(part.format_map(roots)) for part in row)) for row in listed]
    if not about.package or system != "win32":
        return known
    # Installed as a package of Windows, a client sees a folder of its own in place of the usual one.
    local = Path(environ.get("LOCALAPPDATA") or home / "AppData/Local")
    inside = known[0].file.relative_to(roots["apps"])
    packages = sorted(local.glob(f"Packages/{about.package}"))
    return [*(SettingsFile(each / _PACKAGE / inside, each) for each in packages), *known]


def hooks_file(client: str, project: Path | None, environ: Mapping[str, str], home: Path) -> Path:
    """Return the file that holds the hooks of a client that has some, a person's own or those of a project's folder."""
    own, local = CLIENTS[client].hooks
    return project / local if project else Path(own.format_map(_roots("", environ, home)))


def _roots(system: str, environ: Mapping[str, str], home: Path) -> dict[str, Path]:
    """Return the folders that the rows of `CLIENTS` name."""
    named = {name: Path(environ.get(variable) or home / usual) for name, (variable, usual) in _FOLDERS.items()}
    roaming = named["roaming"] if system == "win32" else named["config"]
    apps = home / "Library/Application Support" if system == "darwin" else roaming
    return named | {
        "home": home,
        "apps": apps,
        "roaming": roaming,
        "claude_json": Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json",
        "gemini": Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini",
        "cline": Path(environ.get("CLINE_DATA_DIR") or named["cline_home"] / "data"),
        "zed": {"win32": apps / "Zed", "darwin": home / ".config/zed"}.get(system, apps / "zed"),
        "goose": apps / "Block/goose/config" if system == "win32" else named["config"] / "goose",
    }


def found(candidates: Sequence[SettingsFile]) -> Path | None:
    """Return the one of `candidates` that a client uses, None if it is not on this machine."""
    return next((place.file for place in candidates if place.file.exists() or place.folder.is_dir()), None)
