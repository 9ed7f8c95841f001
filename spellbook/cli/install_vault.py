"""Put Obsidian's plugin into a vault, and git hooks and the merge driver into its repository; take them out again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from spellbook.cli import output
from spellbook.cli.clients import git_hooks as hooks
from spellbook.cli.clients import obsidian_plugin, settings_entry
from spellbook.cli.clients.changes import FileChange
from spellbook.cli.clients.git_hooks import DriverSetting, Move
from spellbook.cli.install_client import make
from spellbook.settings.config import Config, load
from spellbook.settings.defaults import ADDRESS
from spellbook.system.git_hook_queue import LOG


def git_hooks(ctx: click.Context, uninstall: bool, dry_run: bool) -> None:
    config = _config(ctx)
    repository = hooks.find(config.vault)
    if uninstall:
        planned = [each for name in hooks.HOOKS for each in hooks.take_out(repository.hooks, name, config.vault)]
    else:
        lines = hooks.block(repository.top, config.vault, settings_entry.launch(), settings_entry.carried(os.environ))
        planned = [each for name in hooks.HOOKS for each in hooks.add(repository.hooks, name, config.vault, lines)]
    names = ", ".join(change.path.name for change in planned if isinstance(change, FileChange))
    done = f"{names} in {repository.hooks} index {config.vault} in the background; the log is {config.state / LOG}."
    done = f"Removed from {repository.hooks}: {names}." if uninstall else done
    unchanged = f"The hooks in {repository.hooks} are already as they should be; nothing was changed."
    _carry_out(planned, dry_run, unchanged, done)
    listed = ("ls-files", "--cached", "--others", "--exclude-standard", "--", str(repository.hooks))
    is_inside = repository.hooks.resolve().is_relative_to(repository.top.resolve())
    if planned and not uninstall and is_inside and hooks.git(repository.top, *listed):
        output.say(f"Do not commit the hooks in {repository.hooks}: they name places of this machine.", err=True)


def obsidian(ctx: click.Context, uninstall: bool, dry_run: bool, options: Mapping[str, Any]) -> None:
    config = _config(ctx)
    force = options["force"]
    folder = obsidian_plugin.home(config.vault)
    if uninstall:
        planned = obsidian_plugin.take_out(folder, config.state, force=force)
    else:
        planned = obsidian_plugin.add(folder, options["url"] or "", ADDRESS, force=force)
    for change in planned:
        backups = None if change.path.is_relative_to(folder) else config.state  # git would take the list's
        make(change, dry_run, f"Deleted {change.path}." if change.after is None else f"Wrote {change.path}.", backups)
    if not planned:
        output.say(f"The plugin in {folder} is already as it should be; nothing was changed.")
    elif uninstall and not dry_run:
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()
            folder.parent.rmdir()
    elif not dry_run:
        output.say(obsidian_plugin.ABOUT.next)


def _config(ctx: click.Context) -> Config:
    return load(ctx.ensure_object(dict).get("vault"))


def git_merge(ctx: click.Context, uninstall: bool, dry_run: bool) -> None:
    vault = _config(ctx).vault
    planned = hooks.merging(vault, [] if uninstall else settings_entry.launch())
    attributes = vault / hooks.ATTRIBUTES
    unchanged = f"{attributes} and the repository's settings are as they should be; nothing was changed."
    done = f"Git merges the notes in {vault} by Spellbook; commit {attributes} for the others."
    done = f"Git merges the notes in {vault} as any other text again." if uninstall else done
    _carry_out(planned, dry_run, unchanged, done)


def _carry_out(planned: Sequence[FileChange | Move | DriverSetting], dry_run: bool, unchanged: str, done: str) -> None:
    """Make the changes of a repository, or print them; say what was done, or that there was nothing to do."""
    for change in planned:
        if dry_run:
            click.echo(change.difference(), nl=False)
        else:
            change.make()
    if not (planned and dry_run):
        output.say(done if planned else unchanged)
