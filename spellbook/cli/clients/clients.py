"""
MCP clients: where each keeps its settings, and Spellbook's entry in them.

An entry is added and taken out as text, so that everything else in the file
stays as its owner wrote it. What carries our name and is not ours is not touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from spellbook.cli.clients import changes, jsonc
from spellbook.cli.clients.changes import FileChange
from spellbook.settings import environment, paths
from spellbook.system.errors import InvalidInput
from spellbook.text.unicode import is_whole

_CARRIED = tuple(map(environment.variables, ("folder", "folders", "entry")))
"""Variables that go into an entry: a client does not pass on this shell's, and without them has another index."""

SECRETS = environment.variables("secret")
"""Variables that are not written into a client's settings unless somebody asks for it."""

PORT = 17950
"""The port of `spellbook serve`."""

_DESKTOP = "claude_desktop_config.json"


@dataclass(frozen=True, slots=True)
class McpClient:
    """
    An MCP client.

    `key`: the object that holds its servers. `project`: its settings in a folder of work, "" if it has none. `typed`:
    an entry says that it speaks over stdio. `comments`: it reads JSON with comments. `next`: what makes it see the
    change.
    """

    title: str
    key: str
    next: str
    project: str = ""
    typed: bool = False
    comments: bool = False


CLIENTS = {
    "claude-desktop": McpClient(
        "Claude Desktop", "mcpServers", "Quit Claude Desktop (its window alone is not enough) and start it again."
    ),
    "claude-code": McpClient(
        "Claude Code",
        "mcpServers",
        "Start a new session of Claude Code; /mcp shows its servers.",
        project=".mcp.json",
        typed=True,
    ),
    "vscode": McpClient(
        "VS Code",
        "servers",
        "Open a new chat in VS Code; MCP: List Servers in its palette starts a server.",
        project=".vscode/mcp.json",
        typed=True,
        comments=True,
    ),
    "cursor": McpClient(
        "Cursor",
        "mcpServers",
        "Restart Cursor, or switch the server on in its MCP settings.",
        project=".cursor/mcp.json",
        typed=True,
        comments=True,
    ),
}


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file of settings, and a folder that is there if its client is."""

    file: Path
    folder: Path


def places(name: str, system: str, environ: Mapping[str, str], home: Path) -> list[SettingsFile]:
    """Return where a client may keep a person's settings, the likeliest first; `system` as in `sys.platform`."""
    if name == "claude-code":
        folder = environ.get("CLAUDE_CONFIG_DIR")
        return [SettingsFile(Path(folder or home) / ".claude.json", Path(folder or home / ".claude"))]
    if name == "cursor":
        return [SettingsFile(home / ".cursor" / "mcp.json", home / ".cursor")]
    applications = _applications(system, environ, home)
    if name == "vscode":
        folders = [applications / variant / "User" for variant in ("Code", "Code - Insiders", "VSCodium")]
        return [SettingsFile(folder / "mcp.json", folder) for folder in folders]
    usual = [SettingsFile(applications / "Claude" / _DESKTOP, applications / "Claude")]
    if system == "win32":
        # Installed as a package of Windows, Claude Desktop sees a folder of its own in place of the usual one.
        packages = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "Packages"
        inside = Path("LocalCache", "Roaming", "Claude", _DESKTOP)
        usual = [*(SettingsFile(package / inside, package) for package in sorted(packages.glob("Claude_*"))), *usual]
    return usual


def _applications(system: str, environ: Mapping[str, str], home: Path) -> Path:
    """Return the folder under which applications keep their settings."""
    if system == "darwin":
        return home / "Library" / "Application Support"
    if system == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def choose(name: str, candidates: Sequence[SettingsFile]) -> Path:
    """Return the one of `candidates` that the client uses. Raises InvalidInput if it is not on this machine."""
    for place in candidates:
        if place.file.exists() or place.folder.is_dir():
            return place.file
    title = CLIENTS[name].title
    raise InvalidInput(
        f"{title} is not installed: there is no {candidates[0].folder}.",
        f"Start {title} once and repeat, or name its settings with --file {candidates[0].file}.",
    )


def launch() -> list[str]:
    """Return the command that starts this Spellbook from anywhere, with absolute paths."""
    script = Path(sysconfig.get_path("scripts")) / ("spellbook.exe" if os.name == "nt" else "spellbook")
    # Without -P, a folder of work that holds a click.py would be taken for the library.
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "spellbook"]


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what `environ` sets that Spellbook needs wherever it is started; paths absolute."""
    folder, folders, others = ({name: environ[name] for name in names if environ.get(name)} for names in _CARRIED)
    whole = {name: _absolute(value) for name, value in folder.items()}
    lists = {name: os.pathsep.join(map(_absolute, paths.listed(value))) for name, value in folders.items()}
    return whole | lists | others


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def entry(client: McpClient, vault: Path, scope: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry that starts Spellbook for the real path `vault`. Raises InvalidInput if it is not UTF-8."""
    command, *arguments = launch()
    arguments += ["--vault", str(vault), "mcp", *(["--scope", scope] if scope else [])]
    if not is_whole("".join([command, *arguments])):
        raise InvalidInput(f"{str(vault)!a}: the path is not UTF-8, and settings are.", "Rename the folder.")
    fields = {"type": "stdio" if client.typed else "", "command": command, "args": arguments, "env": carried(environ)}
    return {name: value for name, value in fields.items() if value}


def address(client: McpClient, url: str, token: str = "") -> dict[str, Any]:
    """
    Return the entry that names the address of a Spellbook that is served over HTTP, and the token for it.

    Raises InvalidInput for an address that is none, and for a client that takes none.
    """
    if not client.typed:
        raise InvalidInput(
            f"{client.title} reaches only servers that it starts itself, or that the internet can reach.",
            "Install it without --url.",
        )
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isprintable() or parts.username is not None:
        raise InvalidInput(
            f"--url {url[:200]}: this is not an address of a server.", "Write one such as http://127.0.0.1:17950."
        )
    headers = {"headers": {"Authorization": f"Bearer {token}"}} if token else {}
    return {"type": "http", "url": url, **headers}


def is_ours(value: object) -> bool:
    """Say whether an entry starts a Spellbook, whichever and however, or names one at the port of `spellbook serve`."""
    if isinstance(value, dict) and "args" not in value:
        with contextlib.suppress(ValueError):
            return urlsplit(str(value.get("url"))).port == PORT
    if not isinstance(value, dict) or not isinstance(value.get("args"), list):
        return False
    command = re.split(r"[/\\]", str(value.get("command")))[-1].lower().removesuffix(".exe")
    return "mcp" in value["args"] and "spellbook" in (command, *value["args"])


def add(file: Path, client: McpClient, name: str, wanted: Mapping[str, Any], *, force: bool = False) -> FileChange:
    """
    Return the change that tells `client` of the entry `wanted`, under `name`.

    An entry of ours is brought up to date where it differs. Raises InvalidInput if another server has that name, unless
    `force`, or if the file is not what the client reads.
    """
    before, text = read(file, client)
    place = (client.key, name)
    with shaped(file, client):
        existing = jsonc.get(text, place)
        if existing is not None and not is_ours(existing) and not force:
            raise InvalidInput(
                f"{file}: another server is called {name!r}.",
                "Choose a name with --name, or replace it with --force; nothing was written.",
            )
        after = text
        is_same_kind = isinstance(existing, dict) and ("url" in existing) == ("url" in wanted)
        for path, part in _parts(wanted) if is_ours(existing) and is_same_kind else [((), wanted)]:
            after = jsonc.put(after, (*place, *path), part)
    return FileChange(file, before, after.encode())


def _parts(wanted: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what an entry says one by one, so that what its owner added to it, and to its environment, stays."""
    for name, value in wanted.items():
        if isinstance(value, dict):
            yield from (((name, *path), part) for path, part in _parts(value))
        else:
            yield (name,), value


def take_out(file: Path, client: McpClient, name: str, *, force: bool = False) -> FileChange | None:
    """
    Return the change that takes our entry `name` out again; None if there is none.

    What has only been added to since is as it was before, to the byte; a file
    that was made for the entry alone goes. Raises InvalidInput as `add` does.
    """
    before, text = read(file, client)
    place = (client.key, name)
    with shaped(file, client):
        existing = jsonc.get(text, place)
        if existing is None:
            return None
        if not is_ours(existing) and not force:
            raise InvalidInput(
                f"{file}: {name!r} is another server.",
                "Give Spellbook's entry with --name, or remove this one with --force; nothing was written.",
            )
        earlier = texts_before(file, lambda old: jsonc.get(old, place) is not None)
        if change := restored(file, before, earlier, lambda old: jsonc.put(old, place, existing) == text):
            return change
        after = jsonc.remove(text, place)
        if earlier and jsonc.get(earlier[0], (client.key,)) is None and not jsonc.get(after, (client.key,)):
            after = jsonc.remove(after, (client.key,))
    return FileChange(file, before, after.encode())


def texts_before(file: Path, has_ours: Callable[[str], bool]) -> list[str]:
    """Return what backups of the file hold from before it had what is ours, the newest first."""
    texts: list[str] = []
    for data in changes.backups(file):
        with contextlib.suppress(UnicodeDecodeError, jsonc.Malformed):
            if not has_ours(text := data.decode()):
                texts.append(text)
    return texts


def restored(
    file: Path, before: bytes | None, earlier: Iterable[str], leads_here: Callable[[str], bool]
) -> FileChange | None:
    """
    Return the change that gives the file an earlier text, from which adding what is ours leads to the text that it has.

    That text may be none: then the file was made for ours alone, and goes. None if no earlier text does.
    """
    for text in (*earlier, None):
        if leads_here(text or ""):
            return FileChange(file, before, None if text is None else text.encode(), matters=False)
    return None


def read(file: Path, client: McpClient) -> tuple[bytes | None, str]:
    """Return the bytes of a client's settings, None if there are none, and their text. Raises InvalidInput."""
    data = changes.read(file)
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{file}: not UTF-8, so {client.title} cannot read it.", "Save it as UTF-8; nothing was written."
        ) from error
    if not jsonc.is_blank(text):
        with shaped(file, client):
            jsonc.parse(text, comments=client.comments)
    return data, text


@contextlib.contextmanager
def shaped(file: Path, client: McpClient) -> Iterator[None]:
    """Turn what is wrong with the text of settings into InvalidInput, which names the file and the line."""
    try:
        yield
    except jsonc.Malformed as error:
        raise InvalidInput(
            f"{file}, line {error.line}: {error.reason}.",
            f"Correct the line, which {client.title} cannot read either; nothing was written.",
        ) from error
