"""Commands that give notes other paths: mv."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import command, json_option
from spellbook.cli.revising import dry_run_option

if TYPE_CHECKING:
    from spellbook.book import Spellbook


@command(click.argument("old"), click.argument("new"), dry_run_option, json_option)
def mv(book: Spellbook, old: str, new: str, dry_run: bool, as_json: bool) -> None:
    """
    Move the note or folder OLD to NEW, and mend every link to it and in it.

    OLD is a path in the vault or a note's id; if NEW is a folder, it goes into
    it. A link keeps its form: short names stay short, relative paths relative,
    aliases and headings as they are. Nothing is written over.

    \b
    spellbook mv ops/keys.md decision/ --dry-run
    spellbook mv projects/lantern archive/lantern
    """
    done = book.move(old, new, dry_run=dry_run)
    if as_json:
        moved = [{"old": before, "new": after} for before, after in done.moved]
        output.as_json({**asdict(done), "moved": moved, "dry_run": dry_run})
    else:
        output.moved(done, dry_run=dry_run)
