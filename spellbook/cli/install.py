"""Commands that put Spellbook where people work: install, completion."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import output
from spellbook.cli.app import Command, json_option, main, scope_option, vault_of, vault_option
from spellbook.mcp.names import DEFAULT, toolsets_of
from spellbook.settings.defaults import ADDRESS
from spellbook.system.errors import InvalidInput, SpellbookError
from spellbook.system.hook_queue import LOG

if TYPE_CHECKING:
    from spellbook.cli.clients.changes import FileChange
    from spellbook.cli.clients.hooks import DriverSetting, Hook
    from spellbook.cli.clients.known import McpClient
    from spellbook.settings.config import Config

_CLIENTS = ("claude-desktop", "claude-code", "codex", "cursor", "vscode", "copilot-cli", "gemini-cli", "qwen-code",
            "cline", "opencode", "antigravity", "zed", "lmstudio", "windsurf", "devin", "goose",
            "openclaw")  # fmt: skip
_HOOKS, _MERGE, _PLUGIN = "git-hooks", "git-merge", "obsidian"
_SESSIONS = ("claude-code", "codex")
"""Clients whose sessions have hooks."""


@main.command()
@click.argument("client", metavar="CLIENT", required=False, type=click.Choice((*_CLIENTS, _PLUGIN, _HOOKS, _MERGE)))
@click.option(
    "--project", type=click.Path(), metavar="DIR", help="For this project folder only, instead of for you everywhere."
)
@click.option(
    "--file", type=click.Path(), metavar="FILE", help="The client's settings file, if it is not in the usual place."
)
@click.option(
    "--name",
    default="spellbook",
    show_default=True,
    metavar="NAME",
    help="What the client calls it; one for each vault.",
)
@click.option("--force", is_flag=True, help="Replace, or remove, an entry of that name even if it is another server.")
@click.option(
    "--url",
    is_flag=False,
    flag_value=ADDRESS,
    metavar="URL",
    help=f"Write the address of a running spellbook serve instead of a command [{ADDRESS}].",
)
@click.option("--with-token", is_flag=True, help="Ask for the token of that server, and write it into the settings.")
@click.option("--toolsets", default="", metavar="NAMES", help="Toolsets that the client gets, with commas.")
@click.option("--uninstall", is_flag=True, help="Remove the entry, or the lines in the hooks.")
@click.option("--hooks", is_flag=True, help="Also tell each session what is open, and hand its end to capture.")
@click.option("--recall", is_flag=True, help="With --hooks: at each prompt also find what is surely related to it.")
@click.option(
    "--capture/--no-capture", default=None, help="With --hooks: keep sessions as notes, or do not; no question."
)
@click.option("--claude-memory/--no-claude-memory", default=None, help="Also search Claude Code's own memory, or not.")
@click.option("--dry-run", is_flag=True, help="Print what would change, as a diff, and change nothing.")
@json_option
@scope_option
@vault_option
@click.pass_context
def install(ctx: click.Context, /, client: str | None, uninstall: bool, dry_run: bool, **options: Any) -> None:
    """
    Add Spellbook to the settings of CLIENT, or to the hooks of the vault's git repository.

    Without CLIENT it lists the clients on this machine, and what each would get.
    CLIENT is claude-desktop, claude-code, codex, cursor, vscode, copilot-cli,
    gemini-cli, qwen-code, cline, opencode, antigravity, zed, lmstudio, windsurf,
    devin, goose, openclaw, obsidian, git-hooks or git-merge. Nothing else in the
    client's settings changes. A backup of the file is kept beside it, and
    --uninstall removes the entry. For goose and openclaw it prints what to add.
    obsidian puts a plugin into the vault, which asks a running spellbook serve.
    git-hooks update the index in the background when git has changed the vault's
    files. git-merge lets git merge frontmatter by its keys: where both sides
    differ, both stay. --hooks are of claude-code and codex.

    \b
    spellbook install
    spellbook install claude-desktop --vault ~/notes
    spellbook install claude-code --vault ~/notes --hooks --recall
    spellbook install claude-code --project . --dry-run
    spellbook install obsidian --vault ~/notes
    """
    if (client and options["as_json"]) or (not client and (uninstall or dry_run or options["hooks"])):
        raise click.UsageError("Name a client. Without one, those of this machine are listed, also with --json.")
    if not client:
        _list(options["name"], options["as_json"])
        return
    if wrong := _misuse(client, options):
        raise click.UsageError(wrong)
    if client == _PLUGIN:
        _obsidian(ctx, uninstall, dry_run, **options)
    elif client == _HOOKS:
        _git_hooks(ctx, uninstall, dry_run, **options)
    elif client == _MERGE:
        _git_merge(ctx, uninstall, dry_run)
    else:
        _client(ctx, client, uninstall, dry_run, **options)


def _misuse(client: str, options: dict[str, Any]) -> str:
    """Say what is wrong with options for `client`, "" for nothing."""
    hooks, asks_capture = options["hooks"], options["capture"] is not None
    rules = {
        "--recall needs --hooks.": options["recall"] and not hooks,
        "--hooks are for claude-code and codex, in their own file; --project names another.": (
            hooks and (client not in _SESSIONS or options["file"])
        ),
        "--capture needs --hooks.": asks_capture and not hooks,
        "--claude-memory is for claude-code.": options["claude_memory"] is not None and client != "claude-code",
        "--with-token needs --url.": options["with_token"] and not options["url"],
        "--toolsets and --url: give the toolsets to `spellbook serve`.": options["toolsets"] and options["url"],
    }
    return next((message for message, is_broken in rules.items() if is_broken), "")


def _has_hooks(file: Path, name: str) -> bool:
    """Whether a client's settings have a hook of `name`; not if they cannot be read."""
    from spellbook.cli.clients import session_hooks

    with contextlib.suppress(SpellbookError):
        return bool(session_hooks.events(file, name))
    return False


def _list(name: str, as_json: bool) -> None:
    """Print the clients on this machine, and what each would get."""
    from spellbook.cli.clients import clients, known, session_hooks

    rows = []
    for client, about in known.CLIENTS.items():
        if not (file := known.found(known.places(client, sys.platform, os.environ, Path.home()))):
            continue
        is_there, command = False, f"spellbook install {client}"
        hooks = session_hooks.settings(client, None, os.environ, Path.home()) if client in _SESSIONS else None
        with contextlib.suppress(SpellbookError):
            is_there = bool(about.format and clients.take_out(file, about, name, force=True))
        line = f"{about.title}: `{command}` prints what to add to {file}."
        if about.format:
            line = f"{about.title}: `{command}` adds {name!r} to {file}."
        line = f"{about.title}: {file} has {name!r}." if is_there else line
        settings = str(hooks or "")
        rows.append({"client": client, "file": str(file), "hooks": settings, "has": is_there, "command": command})
        if not as_json:
            output.say(line)
            if hooks:
                are_there = _has_hooks(hooks, name)
                output.say(f"  {hooks} has its hooks." if are_there else f"  With --hooks it also writes {hooks}.")
    if as_json:
        output.as_json({"clients": rows})
    elif not rows:
        output.say("No client was found on this machine; spellbook install --help lists those that are known.")


def _client(ctx: click.Context, client: str, uninstall: bool, dry_run: bool, **options: Any) -> None:
    from spellbook.capture.ledger import CAPTURE, CLAUDE_MEMORY
    from spellbook.cli.clients import clients, known, session_hooks

    about, name, url = known.CLIENTS[client], options["name"], options["url"]
    folder = Path(options["project"]).expanduser().resolve() if options["project"] else None
    file = _settings_file(about, options["file"], folder)
    usual = known.places(client, sys.platform, os.environ, Path.home())
    place = file or known.found(usual)
    if not about.format or (about.by_hand and not place):
        if url or uninstall:
            raise click.UsageError(f"{about.title} is set up by hand: add an address, or remove the entry, there.")
        click.echo(clients.by_hand(about, name, _entry(ctx, about, **options)))
        output.say(f"{about.title}: nothing was written. Run this, or add it to {usual[0].file}.", err=True)
        return
    files = [file] if file else list(dict.fromkeys(place.file for place in usual))
    hooks = client in _SESSIONS and not options["file"]
    settings = session_hooks.settings(client, folder, os.environ, Path.home()) if hooks else Path()
    there = session_hooks.events(settings, name) if hooks else set()
    vaults = {clients.vault_of(each, about, name) for each in files if uninstall and there}
    if uninstall:
        removed = [clients.take_out(each, about, name, force=options["force"]) for each in files]
        planned = [*filter(None, [*removed, session_hooks.take_out(settings, name) if hooks else None])]
        if not planned:
            output.say(f"{about.title} has no {name!r} in {' or '.join(map(str, files))}; nothing was changed.")
    else:
        entry = _entry(ctx, about, **options)
        if not place:
            raise InvalidInput(
                f"{about.title} is not installed: there is no {usual[0].folder}.",
                f"Start {about.title} once and repeat, or name its settings with --file {usual[0].file}.",
            )
        planned = [clients.add(place, about, name, entry, force=options["force"])]
        if options["hooks"] or (there and not url):  # those that are there have the vault and the index of the entry
            recall = options["recall"] or (not options["hooks"] and "UserPromptSubmit" in there)
            command, mark = [*clients.launch(), "--vault", str(vault_of(ctx))], session_hooks.mark(name)
            ends = (clients.carried(os.environ), _scope(ctx), recall, mark, sys.platform)
            planned.append(session_hooks.add(settings, name, session_hooks.groups(client, command, *ends)))
    for change in planned:
        if change.before == change.after:
            output.say(f"{change.path} already has {name!r} for {url or vault_of(ctx)}; nothing was changed.")
        elif not uninstall:
            _make(change, dry_run, f"Added {name!r} to {change.path}, for {url or vault_of(ctx)}.")
        else:
            is_left = change.after is not None
            _make(change, dry_run, f"Removed {name!r} from {change.path}." if is_left else f"Deleted {change.path}.")
    if options["hooks"] and not uninstall and not dry_run:
        question = "Keep what you say to agents as notes in sessions/ of the vault?"
        _switch(vault_of(ctx), CAPTURE, options["capture"], question)
        _tell_capture(vault_of(ctx))
    for vault in filter(None, () if dry_run else vaults):
        _tell_capture(Path(vault))
    if client == "claude-code" and not (uninstall or dry_run or url):
        question = "Search Claude Code's own memory of a project too? It is only read."
        _switch(vault_of(ctx), CLAUDE_MEMORY, options["claude_memory"], question)
    if not (uninstall or dry_run or url):
        _keep_first_answers(ctx, options["toolsets"] or os.environ.get("SPELLBOOK_TOOLSETS", DEFAULT))
    if not dry_run and any(change.before != change.after for change in planned):
        output.say(about.next)
        if client == "codex" and not uninstall and (options["hooks"] or there):
            output.say("Codex runs a hook only after you trust it: open /hooks in it.")


def _entry(ctx: click.Context, about: McpClient, **options: Any) -> dict[str, Any]:
    """Return the entry that the options ask for, say which secrets it lacks, and ask for a token that it needs."""
    from spellbook.cli.clients import clients

    if not options["url"]:
        for secret in filter(os.environ.get, clients.SECRETS):
            lacks = f"{secret} is not written there; if {about.title} does not set it, add it to the entry's env."
            output.say(f"spellbook: {lacks}", err=True)
        toolsets = ",".join(toolsets_of(options["toolsets"]))
        return clients.entry(about, vault_of(ctx), _scope(ctx), os.environ, toolsets)
    token = ""
    if options["with_token"] and about.format == "toml":
        token = "SPELLBOOK_TOKEN"
        output.say(f"{about.title} reads the token from its variable SPELLBOOK_TOKEN: set it there.", err=True)
    elif options["with_token"]:
        token = click.prompt("Token", hide_input=True, err=True).strip()
    return clients.address(about, options["url"], token)


def _keep_first_answers(ctx: click.Context, toolsets: str) -> None:
    from spellbook.mcp.app import keep_first_answers
    from spellbook.settings.config import load

    with contextlib.suppress(SpellbookError):  # settings that make no sense
        keep_first_answers(toolsets_of(toolsets), load(vault_of(ctx), scope=_scope(ctx)))


def _scope(ctx: click.Context) -> str:
    return ctx.ensure_object(dict).get("scope") or os.environ.get("SPELLBOOK_SCOPE", "")


def _switch(vault: Path, name: str, is_wanted: bool | None, question: str) -> None:
    """Switch something on or off as a person says; ask once, and leave it as it is where nobody can be asked."""
    from spellbook.capture.ledger import Ledger

    ledger = Ledger(str(vault))
    if is_wanted is None and name not in ledger.all("switch") and sys.stdin.isatty() and sys.stderr.isatty():
        is_wanted = output.confirm(question, abort=False)
    if is_wanted is not None:
        ledger.turn(is_wanted, vault, name)


def _tell_capture(vault: Path) -> None:
    """Say whether what is said to agents becomes notes of the vault, and how that is switched off."""
    from spellbook.capture.ledger import Ledger

    if not Ledger(str(vault)).switch.get("on"):
        output.say("Capture is off.")
    else:
        place = output.argument(str(vault))
        output.say(f"Capture is on for {vault}; `spellbook --vault {place} capture off` switches it off.")


def _settings_file(client: McpClient, file: str | None, folder: Path | None) -> Path | None:
    if file and folder:
        raise click.UsageError("--file and --project each name the file: give one.")
    if not folder:
        return Path(file).expanduser().absolute() if file else None
    if not client.project:
        raise click.UsageError(f"{client.title} has no settings for a project.")
    if not folder.is_dir():
        raise click.UsageError(f"--project {folder}: there is no such folder.")
    return folder / client.project


def _git_hooks(ctx: click.Context, uninstall: bool, dry_run: bool, **options: Any) -> None:
    from spellbook.cli.clients import clients, hooks

    if options["project"] or options["file"] or options["force"]:
        raise click.UsageError(
            "--project, --file and --force are for clients; hooks belong to the repository that holds the vault."
        )
    config = _config(ctx)
    repository = hooks.find(config.vault)
    if uninstall:
        planned = [hooks.take_out(repository.hooks, name, config.vault) for name in hooks.HOOKS]
    else:
        lines = hooks.block(repository.top, config.vault, clients.launch(), clients.carried(os.environ))
        planned = [hooks.add(repository.hooks, name, config.vault, lines) for name in hooks.HOOKS]
    changed = [hook for hook in planned if hook]
    names = ", ".join(hook.change.path.name for hook in changed)
    done = f"{names} in {repository.hooks} index {config.vault} in the background; the log is {config.state / LOG}."
    done = f"Removed from {repository.hooks}: {names}." if uninstall else done
    unchanged = f"The hooks in {repository.hooks} are already as they should be; nothing was changed."
    _carry_out(changed, dry_run, unchanged, done)
    listed = ("ls-files", "--cached", "--others", "--exclude-standard", "--", str(repository.hooks))
    is_inside = repository.hooks.resolve().is_relative_to(repository.top.resolve())
    if changed and not uninstall and is_inside and hooks.git(repository.top, *listed):
        output.say(f"Do not commit the hooks in {repository.hooks}: they name places of this machine.", err=True)


def _obsidian(ctx: click.Context, uninstall: bool, dry_run: bool, **options: Any) -> None:
    from spellbook.cli.clients import obsidian_plugin

    if options["project"] or options["file"] or options["with_token"]:
        raise click.UsageError(
            "--project, --file and --with-token are not for obsidian: paste a token into the plugin's settings."
        )
    config, force = _config(ctx), options["force"]
    folder = obsidian_plugin.home(config.vault)
    if uninstall:
        planned = obsidian_plugin.take_out(folder, config.state, force=force)
    else:
        planned = obsidian_plugin.add(folder, options["url"] or "", ADDRESS, force=force)
    for change in planned:
        backups = None if change.path.is_relative_to(folder) else config.state  # git would take the list's
        _make(change, dry_run, f"Deleted {change.path}." if change.after is None else f"Wrote {change.path}.", backups)
    if not planned:
        output.say(f"The plugin in {folder} is already as it should be; nothing was changed.")
    elif uninstall and not dry_run:
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()
            folder.parent.rmdir()
    elif not dry_run:
        output.say(obsidian_plugin.ABOUT.next)


def _config(ctx: click.Context) -> Config:
    from spellbook.settings.config import load

    return load(ctx.ensure_object(dict).get("vault"))


def _git_merge(ctx: click.Context, uninstall: bool, dry_run: bool) -> None:
    from spellbook.cli.clients import clients, hooks

    vault = _config(ctx).vault
    planned = hooks.merging(vault, [] if uninstall else clients.launch())
    attributes = vault / hooks.ATTRIBUTES
    unchanged = f"{attributes} and the repository's settings are as they should be; nothing was changed."
    done = f"Git merges the notes in {vault} by Spellbook; commit {attributes} for the others."
    done = f"Git merges the notes in {vault} as any other text again." if uninstall else done
    _carry_out(planned, dry_run, unchanged, done)


def _carry_out(planned: Sequence[FileChange | Hook | DriverSetting], dry_run: bool, unchanged: str, done: str) -> None:
    """Make the changes of a repository, or print them; say what was done, or that there was nothing to do."""
    for change in planned:
        click.echo(change.difference(), nl=False) if dry_run else change.make()
    if not (planned and dry_run):
        output.say(done if planned else unchanged)


def _make(change: FileChange, dry_run: bool, message: str, backups: Path | None = None) -> None:
    if dry_run:
        click.echo(change.difference(), nl=False)
        return
    copy = change.keep(backups)
    change.make()
    output.say(message)
    if copy:
        output.say(f"Backup: {copy}.")


@main.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """
    Print a script that completes commands and options by the tab key.

    \b
    echo 'eval "$(spellbook completion bash)"' >> ~/.bashrc
    echo 'eval "$(spellbook completion zsh)"' >> ~/.zshrc
    spellbook completion fish > ~/.config/fish/completions/spellbook.fish
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kind = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    click.echo(kind(main, {}, "spellbook", "_SPELLBOOK_COMPLETE").source())
