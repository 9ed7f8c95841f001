"""
The backup toolset: snapshots, and exports in one folder.

A model chooses no path: files are kept beside the person's snapshots. Only a
person can restore a snapshot over the vault.
"""

from __future__ import annotations

import os
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer

from spellbook.archive.snapshots import name_of
from spellbook.library.reader import Reader
from spellbook.mcp.base import ADD, CHANGE, READ, adder, as_json, reporter
from spellbook.system import disk
from spellbook.system.errors import InvalidInput
from spellbook.verbs import table

_MOST_SHOWN = 20


def register(mcp: MCPServer, book: Reader) -> None:
    """Add the tools for backups over `book` to a server."""
    folder = exports(book)

    def snapshot(ctx: Context) -> str:
        """
        Take a snapshot of the whole vault, kept outside of it; unchanged files take no space.

        Take one before you change many notes. A person restores it with `spellbook snapshot restore NAME`.
        """
        taken = book.snapshots.create(reporter(ctx))
        faults = [fault.path for fault in taken.faults[:_MOST_SHOWN]]
        return as_json(status="kept", **{**taken.as_dict(), "faults": faults})

    def snapshots() -> str:
        """List the snapshots of the vault, newest first, with names, times and their folder."""
        kept = book.snapshots.all()
        shown = [
            {"name": each.name, "taken": each.taken.isoformat(), "files": each.files, "bytes": each.bytes}
            for each in kept
        ]
        return as_json(folder=str(book.snapshots.folder), snapshots=shown)

    def export(format: str) -> str:
        """
        Write the whole vault into one file: json for programs, markdown for a zip of the note files.

        Returns the path of the file, in a folder beside the snapshots; tell it to the person.
        """
        disk.restrict(folder, book.config.vault)
        done = book.whole.export(folder / f"{name_of()}.{'json' if format == 'json' else 'zip'}", format)
        return as_json(
            status="exported",
            file=done.file,
            notes=done.notes,
            attachments=done.attachments,
            bytes=done.bytes,
            left_out=[fault.path for fault in done.faults[:_MOST_SHOWN]],
        )

    def import_(file_path: str, on_conflict: str, dry_run: bool, ctx: Context) -> str:
        """
        Import a file that export wrote: all of it, or nothing if anything fails. dry_run, the default, only reports.

        A person imports other files, such as exports of ChatGPT or Claude, with `spellbook import FILE`, or puts them
        into that folder.
        """
        file = within(folder, file_path)
        done = book.whole.import_(file, on_conflict=on_conflict, dry_run=dry_run, progress=reporter(ctx))
        shown = {
            name: list(value)[:_MOST_SHOWN] for name, value in done.as_dict().items() if isinstance(value, list | dict)
        }
        counts = {name: len(getattr(done, name)) for name in ("added", "overwritten", "renamed", "skipped")}
        status = "would be imported" if dry_run else "imported"
        return as_json(status=status, counts={**counts, "unchanged": done.unchanged}, **shown)

    import_.__name__ = "import"

    add = adder(mcp, book)
    add(snapshot, "Take a snapshot", ADD)
    add(snapshots, "List snapshots", READ)
    add(export, "Export the vault", ADD, table.EXPORT)
    add(import_, "Import an export", CHANGE, table.IMPORT, file_path="source")


def exports(book: Reader) -> Path:
    """Return the folder of exports, beside the snapshots."""
    return book.config.snapshot_folder / "exports"


def within(folder: Path, named: str) -> Path:
    """Return a file of the folder by its name or path. Raises InvalidInput for any other."""
    name = os.path.basename(named)
    place = folder / name
    # A link could lead anywhere.
    if named not in {name, str(place)} or not os.path.isfile(place) or os.path.islink(place):
        raise InvalidInput(
            f"{named[:200]!r} is not one of the files in {folder}.",
            "Name one that export wrote. A person can import other files with `spellbook import FILE`.",
        )
    return place
