"""The tool `undo`, which the toolsets core and desk share: a server that loads both offers it once."""

from __future__ import annotations

from collections.abc import Callable

from spellbook.library.reader import Reader
from spellbook.server.base import CHANGE
from spellbook.text.quoting import flat, quoted
from spellbook.verbs import table


def add_undo(add: Callable[..., None], book: Reader) -> None:
    """Add the tool that undoes changes of `book`."""

    def undo(entry: int | None, dry_run: bool) -> str:
        """
        Undo the latest change by a tool or command, or one entry of the log; returns the difference.

        Undoing an undo redoes. CONFLICT: the place was edited since, nothing was undone.
        """
        done = book.whole.undo(entry, dry_run=dry_run)
        verb = f"{'Would undo' if dry_run else 'Undid'} entry {done.entry.id}, {done.entry.verb}"
        return f"{verb} {flat(done.entry.what)}.\n{quoted(done.difference) or '(nothing to change)'}"

    add(undo, "Undo a change", CHANGE, table.UNDO)
