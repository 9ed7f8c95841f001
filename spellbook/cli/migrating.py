"""The command that goes over to another embedder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from spellbook.cli import output, progress_bar
from spellbook.cli.app import command, json_option
from spellbook.errors import InvalidInput

if TYPE_CHECKING:
    from spellbook.book import Spellbook


@command(
    click.option("--to", metavar="MODEL", help="The embedder to go over to, as SPELLBOOK_EMBEDDER names it."),
    click.option("--rollback", is_flag=True, help="Go back to the embedder before the last migration."),
    click.option("--dry-run", is_flag=True, help="Measure the embedder on a few texts, say how long it will take, and stop."),
    click.option("--yes", is_flag=True, help="Do not ask before it begins."),
    json_option,
)
def migrate(book: Spellbook, to: str | None, rollback: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """
    Go over to another embedder, without an hour in which nothing is found.

    The new vectors are built beside the old, which answer until all are there;
    then the index and the vault's settings switch, and running processes
    follow. Prints what `check` says before and after. Ended half-way, it goes
    on where it was.

    \b
    spellbook migrate --to ollama:nomic-embed-text
    spellbook migrate --rollback
    """
    if rollback == bool(to):
        raise InvalidInput("Say which way to go.", "--to MODEL, or --rollback.")
    if to:
        ahead = book.estimate(to)
        if as_json and dry_run:
            output.as_json(ahead.as_dict())
        else:
            click.echo(output.ahead(ahead), err=not dry_run)
        if dry_run:
            return
        if ahead.missing and not yes and sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm("Begin?", abort=True, err=True, default=True)
    with progress_bar.bar(hidden=as_json) as progress:
        done = book.migrate(to, progress=progress) if to else book.migrate_back(progress=progress)
    if as_json:
        output.as_json(done.as_dict())
    else:
        output.migrated(done)
