"""The command by which a person keeps a note."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import command
from spellbook.text.quoting import one_line

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook


@command(click.argument("ids", metavar="ID...", nargs=-1, required=True))
def keep(book: Spellbook, ids: tuple[str, ...], as_json: bool) -> None:
    """
    Keep notes: say that you read them, and that they are right.

    It is written into each note, and a draft becomes stable. Hits say so, until
    somebody changes the text; `spellbook undo` takes it back.

    \b
    spellbook keep 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    """
    done = [book.keep(id) for id in ids]
    if as_json:
        output.as_json({"kept": [output.fields(each) for each in done]})
        return
    for each in done:
        path = one_line(each.path)
        output.say(f"Kept: {path}" if each.changed else f"You have kept it before, and it is unchanged: {path}")
