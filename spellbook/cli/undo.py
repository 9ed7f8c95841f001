"""Commands that list changes and take them back: log, undo."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from collections.abc import Sequence

import click

import spellbook
from spellbook.cli import output
from spellbook.cli.app import command, option
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, one_line, plain
from spellbook.vault.entries import Entry
from spellbook.verbs import table

dry_run_option = option(table.REVISE, "dry_run")


@command(option(table.LOG, "limit", "-n", "--limit"))
def log(book: spellbook.Spellbook, limit: int, as_json: bool) -> None:
    """
    List what commands and tools changed in the vault, newest first.

    Each can be undone by its number; changes made in an editor are not listed.

    \b
    spellbook log -n 5
    """
    entries = book.log(limit)
    lost = book.index.vault.journal.lost
    if lost:
        output.say(f"spellbook: {one_line(lost)}.", err=True)
    if as_json:
        output.as_json({"entries": [entry.as_dict() for entry in entries], **({"warning": lost} if lost else {})})
    else:
        _print(entries)


@command(
    click.argument("entry", type=int, required=False),
    click.option("--since", default="", metavar="TIME", help="Undo all changes since: 10m, 2h or 3d ago, or a time."),
    click.option("--session", "is_session", is_flag=True, help="Undo all changes of the last session."),
    click.option("--yes", is_flag=True, help="With --since or --session: do not ask."),
    dry_run_option,
)
def undo(
    book: spellbook.Spellbook, entry: int | None, since: str, is_session: bool, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """
    Undo the latest change that a command or tool made, or the one that `log` lists as ENTRY.

    Every byte is put back. Repeat it to go further back; undo the entry of an
    undo to redo the change. Later edits stay if the two do not overlap; if they
    do, nothing is undone. --since and --session list the changes and ask; if
    one cannot be undone, none is.

    \b
    spellbook undo
    spellbook undo 12 --dry-run
    spellbook undo --since 10m
    """
    if since or is_session:
        if entry is not None or (since and is_session):
            raise click.UsageError("Give ENTRY, --since or --session: one of them.")
        _undo_all(book, since, yes=yes, dry_run=dry_run, as_json=as_json)
        return
    done = book.undo(entry, dry_run=dry_run)
    if as_json:
        of_it = {"paths": done.paths, "difference": done.difference, "generation": done.generation}
        output.as_json({"undone": done.entry.id, **of_it})
        return
    if done.difference:
        click.echo(plain(done.difference))
    what = f"{done.entry.id}: {translated(done.entry.verb)} {one_line(done.entry.what)}"
    if done.paths:
        output.say(f"Would undo {what}." if dry_run else f"Undid {what}.", err=True)
    else:
        output.say(f"Nothing to do: everything is already as it was before {what}.", err=True)


def _undo_all(book: spellbook.Spellbook, since: str, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Undo several changes after they were shown, and the person on a terminal, or `yes`, agreed."""
    entries = book.undo_all(since, dry_run=True)
    if not as_json and entries:
        _print(entries)
    is_wanted = bool(yes and entries)
    if entries and not (dry_run or yes or as_json) and sys.stdin.isatty():
        is_wanted = output.confirm(f"Undo {counted(len(entries), 'change')}?", abort=False)
    done = book.undo_all(since) if is_wanted and not dry_run else []
    if as_json:
        output.as_json({"changes": [entry.as_dict() for entry in entries], "undone": [entry.id for entry in done]})
    elif done:
        output.say(f"{counted(len(done), 'change')} undone.", err=True)
    elif not entries:
        output.say("There is nothing to undo.", err=True)
    else:
        output.say("Nothing was undone; --yes does it.", err=True)


def _print(entries: Sequence[Entry]) -> None:
    """Print what was changed, a line an entry."""
    for entry in entries:
        kinds = Counter(trace.kind for trace in entry.traces)
        files = ", ".join(translated(f"{count} {kind}") for kind, count in kinds.items())
        state = "  ".join(["", *filter(None, (entry.state and f"({translated(entry.state)})", entry.session))])
        line = f"{entry.id:>5}  {dt.datetime.fromtimestamp(entry.at):%Y-%m-%d %H:%M}"
        verb = output.pad(translated(entry.verb), 8)
        what = one_line(entry.what)
        click.echo(f"{line}  {verb} {what}  {click.style(files + state, dim=True)}")
    if not entries:
        output.say("No command or tool has changed anything yet.", err=True)
