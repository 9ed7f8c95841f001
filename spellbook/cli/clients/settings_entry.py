"""
Spellbook's entry in the settings of an MCP client.

An entry is added and removed as text: everything else in the file stays as its owner wrote it. An entry with our name
that is not ours is not touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from spellbook.cli import output
from spellbook.cli.clients import changes, jsonc, toml
from spellbook.cli.clients.changes import FileChange
from spellbook.cli.clients.known_clients import McpClient
from spellbook.settings import environment, paths
from spellbook.settings.defaults import ADDRESS, PORT
from spellbook.system.errors import InvalidInput
from spellbook.text.unicode import is_whole

_CARRIED = tuple(map(environment.variables, ("folder", "folders", "entry")))
"""Variables that go into an entry: a client does not pass on this shell's, and without them has another index."""

SECRETS = environment.variables("secret")
"""Variables that are not written into a client's settings unless somebody asks for it."""

_OPENCODE_2 = ("mcp", "servers")
_EDITORS: Mapping[str, ModuleType] = {"json": jsonc, "jsonc": jsonc, "toml": toml}


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


def entry(client: McpClient, vault: Path, scope: str, environ: Mapping[str, str], toolsets: str = "") -> dict[str, Any]:
    """Return the entry that starts Spellbook for the real path `vault`. Raises InvalidInput if it is not UTF-8."""
    command, *arguments = launch()
    arguments += ["--vault", str(vault), "mcp"]
    arguments += [part for option in (("--scope", scope), ("--toolsets", toolsets)) if option[1] for part in option]
    if not is_whole("".join([command, *arguments])):
        raise InvalidInput(f"{str(vault)!a}: the path is not UTF-8, and settings are.", "Rename the folder.")
    fields = {"type": client.types[0], "command": command, "args": arguments, "env": carried(environ), **client.more}
    if client.names.get("args") == "command":  # one list
        fields |= {"command": "", "args": [command, *arguments]}
    return {client.names.get(name, name): value for name, value in fields.items() if value}


def address(client: McpClient, url: str, token: str = "") -> dict[str, Any]:
    """Return the entry with address and token of a served Spellbook; Codex gets a variable. Raises InvalidInput."""
    if client.names.get("url") == "":
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
        raise InvalidInput(f"--url {url[:200]}: this is not an address of a server.", f"Write one such as {ADDRESS}.")
    headers = token if not token or "headers" in client.names else {"Authorization": f"Bearer {token}"}
    fields = {"type": client.types[1], "url": url, "headers": headers, **client.more}
    return {client.names.get(name, name): value for name, value in fields.items() if value}


def by_hand(client: McpClient, name: str, wanted: dict[str, Any]) -> str:
    """Return what a person runs, or adds to the client's settings, for the entry `wanted` under `name`."""
    env = [f"{key}={value}" for key, value in wanted.get("env", {}).items()]
    command = [*(env and ["env", *env]), str(wanted.get("command")), *wanted["args"]]
    shown, fields = (json.dumps(each, ensure_ascii=False) for each in (wanted, {"name": name, **wanted}))
    named, quoted, line = (" ".join(map(output.argument, words)) for words in ([name], [shown], command))
    return client.by_hand.format(fields=fields[1:-1], name=named, quoted=quoted, command=line)


def is_ours(value: object) -> bool:
    """Say whether an entry starts a Spellbook, whichever and however, or names one at the port of `spellbook serve`."""
    if not isinstance(value, dict):
        return False
    if "command" not in value:
        with contextlib.suppress(ValueError):
            return any(urlsplit(str(value.get(name))).port == PORT for name in ("url", "serverUrl", "httpUrl"))
        return False
    parts = (value["command"], value.get("args"))
    words = [word for part in parts for word in (part if isinstance(part, list) else [part])]
    command = re.split(r"[/\\]", str(words[0] if words else ""))[-1].lower().removesuffix(".exe")
    return "mcp" in words and "spellbook" in (command, *words)


def add(file: Path, client: McpClient, name: str, wanted: Mapping[str, Any], *, force: bool = False) -> FileChange:
    """Return the change that puts our entry; a stranger's of this name stays unless `force`. Raises InvalidInput."""
    before, text = read(file, client)
    editor = _EDITORS[client.format]
    with shaped(file):
        place = _place(file, client, name, text)
        existing = editor.get(text, place)
        if existing is not None and not is_ours(existing) and not force:
            raise InvalidInput(
                f"{file}: another server is called {name!r}.",
                "Choose a name with --name, or replace it with --force; nothing was written.",
            )
        after = text
        is_same_kind = isinstance(existing, dict) and ("command" in existing) == ("command" in wanted)
        parts: list[tuple[tuple[str, ...], Any]] = [((), wanted)]
        if is_ours(existing) and is_same_kind:
            parts = [*_parts(wanted), *_without_left_over(existing, wanted, client.names.get("env", "env"))]
        for path, part in parts:
            after = editor.put(after, (*place, *path), part)
    return FileChange(file, before, after.encode())


def _without_left_over(existing: Mapping[str, Any], wanted: Mapping[str, Any], env: str) -> Iterator[tuple[Any, Any]]:
    """Yield the environment of our entry if an earlier install carried variables into it that this one does not."""
    there = existing.get(env)
    carried = set(chain(*_CARRIED))
    if isinstance(there, dict) and carried & there.keys() - wanted.get(env, {}).keys():
        yield (env,), {name: value for name, value in there.items() if name not in carried} | wanted.get(env, {})


def vault_of(file: Path, client: McpClient, name: str) -> str:
    """Return the vault of the entry `name`, "" without an entry or a vault in it. Raises InvalidInput."""
    _, text = read(file, client)
    entry = _EDITORS[client.format].get(text, _place(file, client, name, text))
    lists = [part for part in entry.values() if isinstance(part, list)] if isinstance(entry, dict) else []
    return next((str(value) for part in lists for word, value in pairwise(part) if word == "--vault"), "")


def _place(file: Path, client: McpClient, name: str, text: str) -> tuple[str, ...]:
    """Return where the entry `name` is, or goes. OpenCode 2 has another place; it reads that of version 1, too."""
    place = (client.key, name)
    if client.key != "mcp" or jsonc.get(text, place) is not None:
        return place
    servers = jsonc.get(text, _OPENCODE_2)
    is_second = isinstance(servers, dict) and not isinstance(servers.get("type"), str)
    return (*_OPENCODE_2, name) if is_second or (file.parent / "cli.json").exists() else place


def _parts(wanted: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each leaf of our entry with its path, so that keys the user added are left alone."""
    for name, value in wanted.items():
        if isinstance(value, dict):
            yield from (((name, *path), part) for path, part in _parts(value))
        else:
            yield (name,), value


def take_out(file: Path, client: McpClient, name: str, *, force: bool = False) -> FileChange | None:
    """Return the change that removes our entry, and a file made for it; None if there is none. Raises as `add` does."""
    before, text = read(file, client)
    editor = _EDITORS[client.format]
    with shaped(file):
        place = _place(file, client, name, text)
        existing = editor.get(text, place)
        if existing is None:
            return None
        if not is_ours(existing) and not force:
            raise InvalidInput(
                f"{file}: {name!r} is another server.",
                "Give Spellbook's entry with --name, or remove this one with --force; nothing was written.",
            )

        def cut(earlier: list[str]) -> str:
            after: str = editor.remove(text, place)
            for depth in range(len(place) - 1, 0, -1):
                if earlier and editor.get(earlier[0], place[:depth]) is None and not editor.get(after, place[:depth]):
                    after = editor.remove(after, place[:depth])
            return after

        return without_ours(
            file,
            before,
            lambda old: editor.get(old, place) is not None,
            lambda old: editor.put(old, place, existing) == text,
            cut,
        )


def without_ours(
    file: Path,
    before: bytes | None,
    has_ours: Callable[[str], bool],
    leads_here: Callable[[str], bool],
    cut: Callable[[list[str]], str],
    backups: Sequence[Path] = (),
) -> FileChange:
    """
    Return the change that removes our part of the file.

    If adding our part to an earlier text gives the present one, the earlier text is restored; where that is none, the
    file was made for our part and goes. Otherwise our part is `cut`.
    """
    earlier: list[str] = []
    for data in (data for place in (*backups, file) for data in changes.backups(place)):
        with contextlib.suppress(UnicodeDecodeError, jsonc.Malformed):
            if not has_ours(text := data.decode()):
                earlier.append(text)
    for each in (*earlier, None):
        with contextlib.suppress(jsonc.Malformed):  # what is ours does not go into that text
            if leads_here(each or ""):
                return FileChange(file, before, None if each is None else each.encode(), matters=False)
    return FileChange(file, before, cut(earlier).encode())


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
        with shaped(file):
            _EDITORS[client.format].parse(text, comments=client.format == "jsonc")
    return data, text


@contextlib.contextmanager
def shaped(file: Path) -> Iterator[None]:
    """Turn what is wrong with the text of settings into InvalidInput, which names the file and the line."""
    try:
        yield
    except jsonc.Malformed as error:
        raise InvalidInput(
            f"{file}, line {error.line}: {error.reason}.", "Correct the line and repeat; nothing was written."
        ) from error
