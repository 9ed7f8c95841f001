"""Put Spellbook's entry and its hooks into the settings of an MCP client, and take them out; list the clients."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from spellbook.capture.ledger import CAPTURE, CLAUDE_MEMORY, Ledger
from spellbook.cli import output
from spellbook.cli.app import vault_of
from spellbook.cli.clients import known_clients, session_hooks, settings_entry
from spellbook.cli.clients.changes import FileChange
from spellbook.cli.clients.known_clients import CLIENTS, McpClient, SettingsFile
from spellbook.mcp.tool_names import DEFAULT, toolsets_of
from spellbook.settings.config import load
from spellbook.system.errors import InvalidInput, SpellbookError

_RECALL = "UserPromptSubmit"
"""The event of the hook that `--recall` adds."""


def show_all(name: str, as_json: bool) -> None:
    """Print the clients on this machine, and what each would get."""
    rows = []
    for client, about in CLIENTS.items():
        if not (file := known_clients.found(_places(client))):
            continue
        has_entry = False
        has_hooks = False
        command = " ".join(["spellbook", "install", client])
        hooks = known_clients.hooks_file(client, None, os.environ, Path.home()) if any(about.hooks) else None
        with contextlib.suppress(SpellbookError):  # settings that cannot be read
            has_entry = bool(about.format and settings_entry.take_out(file, about, name, force=True))
        with contextlib.suppress(SpellbookError):
            has_hooks = bool(hooks and session_hooks.events(hooks, name))
        rows.append(
            {"client": client, "file": str(file), "hooks": str(hooks or ""), "has": has_entry, "command": command}
        )
        if as_json:
            continue
        if has_entry:
            output.say(f"{about.title}: {file} has {name!r}.")
        elif about.format:
            output.say(f"{about.title}: `{command}` adds {name!r} to {file}.")
        else:
            output.say(f"{about.title}: `{command}` prints what to add to {file}.")
        if hooks:
            output.say(f"  {hooks} has its hooks." if has_hooks else f"  With --hooks it also writes {hooks}.")
    if as_json:
        output.as_json({"clients": rows})
    elif not rows:
        output.say("No client was found on this machine; spellbook install --help lists those that are known.")


def _places(client: str) -> list[SettingsFile]:
    return known_clients.places(client, sys.platform, os.environ, Path.home())


def _project(options: Mapping[str, Any]) -> Path | None:
    return Path(options["project"]).expanduser().resolve() if options["project"] else None


def _hooks_file(client: str, options: Mapping[str, Any]) -> Path | None:
    """Return the file with the hooks of a client, None for one without, or for a file that the person names."""
    has_hooks = any(CLIENTS[client].hooks) and not options["file"]
    return known_clients.hooks_file(client, _project(options), os.environ, Path.home()) if has_hooks else None


def _settings_file(about: McpClient, options: Mapping[str, Any]) -> Path | None:
    """Return the settings that the options name, None if they name none. Raises UsageError."""
    folder = _project(options)
    if not folder:
        return Path(options["file"]).expanduser().absolute() if options["file"] else None
    if not about.project:
        raise click.UsageError(f"{about.title} has no settings for a project.")
    if not folder.is_dir():
        raise click.UsageError(f"--project {folder}: there is no such folder.")
    return folder / about.project


def _is_by_hand(about: McpClient, place: Path | None) -> bool:
    return not about.format or bool(about.by_hand and not place)


def _only_by_hand(about: McpClient) -> click.UsageError:
    return click.UsageError(f"{about.title} is set up by hand: add an address, or remove the entry, there.")


def _print_by_hand(ctx: click.Context, about: McpClient, file: Path, options: Mapping[str, Any]) -> None:
    """Print what a person runs, or adds to `file`. Raises UsageError for an address."""
    if options["url"]:
        raise _only_by_hand(about)
    click.echo(settings_entry.by_hand(about, options["name"], _entry(ctx, about, options)))
    output.say(f"{about.title}: nothing was written. Run this, or add it to {file}.", err=True)


def add(ctx: click.Context, client: str, dry_run: bool, options: Mapping[str, Any]) -> None:
    """Add the entry, and hooks if they are wanted or there already, to a client's settings."""
    about = CLIENTS[client]
    name = options["name"]
    url = options["url"]
    usual = _places(client)
    place = _settings_file(about, options) or known_clients.found(usual)
    if _is_by_hand(about, place):
        _print_by_hand(ctx, about, usual[0].file, options)
        return
    hooks = _hooks_file(client, options)
    there = session_hooks.events(hooks, name) if hooks else set()
    entry = _entry(ctx, about, options)
    if not place:
        raise InvalidInput(
            f"{about.title} is not installed: there is no {usual[0].folder}.",
            f"Start {about.title} once and repeat, or name its settings with --file {usual[0].file}.",
        )
    planned = [settings_entry.add(place, about, name, entry, force=options["force"])]
    # Hooks that are there get the vault and the index of the entry.
    if hooks and (options["hooks"] or (there and not url)):
        recall = options["recall"] or (not options["hooks"] and _RECALL in there)
        command = [*settings_entry.launch(), "--vault", str(vault_of(ctx))]
        runs = session_hooks.groups(
            *(client, command, settings_entry.carried(os.environ), _scope(ctx), recall),
            mark=session_hooks.mark(name),
            system=sys.platform,
        )
        planned.append(session_hooks.add(hooks, name, runs))
    of = url or vault_of(ctx)
    for change in planned:
        if change.before == change.after:
            output.say(f"{change.path} already has {name!r} for {of}; nothing was changed.")
        else:
            make(change, dry_run, f"Added {name!r} to {change.path}, for {of}.")
    if dry_run:
        return
    _ask(ctx, client, options)
    if any(change.before != change.after for change in planned):
        output.say(about.next)
        if client == "codex" and (options["hooks"] or there):
            output.say("Codex runs a hook only after you trust it: open /hooks in it.")


def _ask(ctx: click.Context, client: str, options: Mapping[str, Any]) -> None:
    """Ask a person what the client may do beyond its tools, and keep the first answers of its server."""
    from spellbook.mcp.app import keep_first_answers

    if options["hooks"]:
        question = "Keep what you say to agents as notes in sessions/ of the vault?"
        _switch(vault_of(ctx), CAPTURE, options["capture"], question)
        _tell_capture(vault_of(ctx))
    if options["url"]:
        return
    if client == "claude-code":
        question = "Search Claude Code's own memory of a project too? It is only read."
        _switch(vault_of(ctx), CLAUDE_MEMORY, options["claude_memory"], question)
    toolsets = options["toolsets"] or os.environ.get("SPELLBOOK_TOOLSETS", DEFAULT)
    with contextlib.suppress(SpellbookError):  # settings that make no sense
        keep_first_answers(toolsets_of(toolsets), load(vault_of(ctx), scope=_scope(ctx)))


def remove(client: str, dry_run: bool, options: Mapping[str, Any]) -> None:
    """Remove the entry and the hooks of a name from a client's settings."""
    about = CLIENTS[client]
    name = options["name"]
    usual = _places(client)
    file = _settings_file(about, options)
    if _is_by_hand(about, file or known_clients.found(usual)):
        raise _only_by_hand(about)
    files = [file] if file else list(dict.fromkeys(place.file for place in usual))
    hooks = _hooks_file(client, options)
    removed = [settings_entry.take_out(each, about, name, force=options["force"]) for each in files]
    of_hooks = session_hooks.take_out(hooks, name) if hooks else None
    vaults = {settings_entry.vault_of(each, about, name) for each in files if of_hooks}
    planned = [change for change in (*removed, of_hooks) if change]
    if not planned:
        output.say(f"{about.title} has no {name!r} in {' or '.join(map(str, files))}; nothing was changed.")
    for change in planned:
        done = f"Deleted {change.path}." if change.after is None else f"Removed {name!r} from {change.path}."
        make(change, dry_run, done)
    if dry_run or not planned:
        return
    for vault in filter(None, vaults):
        _tell_capture(Path(vault))
    output.say(about.next)


def _entry(ctx: click.Context, about: McpClient, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry that the options ask for, say which secrets it lacks, and ask for a token that it needs."""
    if not options["url"]:
        for secret in filter(os.environ.get, settings_entry.SECRETS):
            lacks = f"{secret} is not written there; if {about.title} does not set it, add it to the entry's env."
            output.say(f"spellbook: {lacks}", err=True)
        toolsets = ",".join(toolsets_of(options["toolsets"]))
        return settings_entry.entry(about, vault_of(ctx), _scope(ctx), os.environ, toolsets)
    token = ""
    if options["with_token"] and about.format == "toml":
        token = "SPELLBOOK_TOKEN"
        output.say(f"{about.title} reads the token from its variable SPELLBOOK_TOKEN: set it there.", err=True)
    elif options["with_token"]:
        token = click.prompt("Token", hide_input=True, err=True).strip()
    return settings_entry.address(about, options["url"], token)


def _scope(ctx: click.Context) -> str:
    return ctx.ensure_object(dict).get("scope") or os.environ.get("SPELLBOOK_SCOPE", "")


def _switch(vault: Path, name: str, is_wanted: bool | None, question: str) -> None:
    """Switch something on or off as a person says; ask once, and leave it as it is where nobody can be asked."""
    ledger = Ledger(str(vault))
    if is_wanted is None and name not in ledger.all("switch") and output.can_ask():
        is_wanted = output.confirm(question, abort=False)
    if is_wanted is not None:
        ledger.turn(is_wanted, vault, name)


def _tell_capture(vault: Path) -> None:
    """Say whether what is said to agents becomes notes of the vault, and how that is switched off."""
    place = output.argument(str(vault))
    on = f"Capture is on for {vault}; `spellbook --vault {place} capture off` switches it off."
    output.say(on if Ledger(str(vault)).switch().is_on else "Capture is off.")


def make(change: FileChange, dry_run: bool, message: str, backups: Path | None = None) -> None:
    """Make a change, with a backup in `backups`, and say so; or print its difference."""
    if dry_run:
        click.echo(change.difference(), nl=False)
        return
    copy = change.keep(backups)
    change.make()
    output.say(message)
    if copy:
        output.say(f"Backup: {copy}.")
