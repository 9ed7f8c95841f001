"""
The backup toolset: snapshots, and exports that are written to and read from one folder.

A model names no path: what it asks for lies where the person's snapshots are,
and going back to one over the vault is left to the person.
"""

from __future__ import annotations

import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer

from spellbook.book import Spellbook
from spellbook.errors import InvalidInput
from spellbook.server import arguments as a
from spellbook.server.base import ADD, CHANGE, READ, adder, as_json

_MOST_SHOWN = 20


def register(mcp: MCPServer, book: Spellbook) -> None:
    """Add the tools for backups over `book` to a server."""
    folder = book.config.snapshot_folder / "exports"

    def snapshot() -> str:
        """
        Keep the whole vault as it is now, outside of it; unchanged files cost nothing.

        Take one before a change of many notes. A person goes back with `spellbook snapshot restore NAME`.
        """
        taken = book.snapshots.create()
        return as_json(status="kept", **{**taken.as_dict(), "faults": [fault.path for fault in taken.faults[:_MOST_SHOWN]]})

    def snapshots() -> str:
        """The snapshots of the vault, the newest first, by name and time, and where they are."""
        kept = book.snapshots.all()
        shown = [{"name": each.name, "taken": each.taken.isoformat(), "files": each.files, "bytes": each.bytes} for each in kept]
        return as_json(folder=str(book.snapshots.folder), snapshots=shown)

    def export(format: a.ExportForm = "json") -> str:
        """
        Write the whole vault into one file: json for programs, markdown for a zip of the notes as they are.

        Answers with the path of the file, which lies beside the snapshots; tell it to the person.
        """
        from spellbook.archive.snapshots import name_of

        folder.mkdir(parents=True, exist_ok=True)
        done = book.export(folder / f"{name_of()}.{'json' if format == 'json' else 'zip'}", format)
        return as_json(
            status="exported",
            file=done.file,
            notes=done.notes,
            attachments=done.attachments,
            bytes=done.bytes,
            left_out=[fault.path for fault in done.faults[:_MOST_SHOWN]],
        )

    def import_(file_path: a.ExportPath, on_conflict: a.OnConflict = "skip", dry_run: a.DryFirst = True) -> str:
        """
        Take a file of export's back into the vault, all of it or nothing. With dry_run, the default, it only says what would be done.

        Other files, such as exports of ChatGPT or Claude, a person imports with `spellbook import FILE`, or puts into that folder.
        """
        done = book.import_(_within(folder, file_path), on_conflict=on_conflict, dry_run=dry_run)
        shown = {name: list(value)[:_MOST_SHOWN] for name, value in done.as_dict().items() if isinstance(value, list | dict)}
        counts = {
            "added": len(done.added),
            "overwritten": len(done.overwritten),
            "renamed": len(done.renamed),
            "skipped": len(done.skipped),
        }
        return as_json(status="would be imported" if dry_run else "imported", counts={**counts, "unchanged": done.unchanged}, **shown)

    import_.__name__ = "import"

    add = adder(mcp)
    add(snapshot, "Take a snapshot", ADD)
    add(snapshots, "List snapshots", READ)
    add(export, "Export the vault", ADD)
    add(import_, "Import an export", CHANGE)


def _within(folder: Path, named: str) -> Path:
    """Return the file of the folder that is meant, by its name or its path. Raises InvalidInput for any other."""
    name = os.path.basename(named)
    place = folder / name
    if named not in {name, str(place)} or not os.path.isfile(place) or os.path.islink(place):  # which take any name
        raise InvalidInput(
            f"{named[:200]!r} is not one of the files in {folder}.",
            "Name one that export wrote. Anything else a person imports with `spellbook import FILE`.",
        )
    return place
