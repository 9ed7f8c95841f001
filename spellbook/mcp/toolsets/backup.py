"""
The backup toolset: snapshots, and exports in one folder.

A model chooses no path: files are kept beside the person's snapshots. Only a
person can restore a snapshot over the vault.
"""

from __future__ import annotations

import os
from pathlib import Path

from mcp.server.mcpserver import Context

from spellbook.archive.snapshots import name_of
from spellbook.library.reader import Reader
from spellbook.mcp.base import ADD, CHANGE, READ, as_json, reporter, tool
from spellbook.system import disk
from spellbook.system.errors import InvalidInput
from spellbook.verbs import table

_MOST_SHOWN = 20


@tool("Take a snapshot", ADD)
def snapshot(book: Reader, ctx: Context) -> str:
    """
    Take a snapshot of the whole vault, kept outside of it; unchanged files take no space.

    Take one before you change many notes. A person restores it with `spellbook snapshot restore NAME`.
    """
    taken = book.snapshots.create(reporter(ctx))
    faults = [fault.path for fault in taken.faults[:_MOST_SHOWN]]
    return as_json(status="kept", **{**taken.as_dict(), "faults": faults})


@tool("List snapshots", READ)
def snapshots(book: Reader) -> str:
    """List the snapshots of the vault, newest first, with names, times and their folder."""
    kept = book.snapshots.all()
    shown = [
        {"name": each.name, "taken": each.taken.isoformat(), "files": each.files, "bytes": each.bytes} for each in kept
    ]
    return as_json(folder=str(book.snapshots.folder), snapshots=shown)


@tool("Export the vault", ADD, table.EXPORT)
def export(book: Reader, format: str) -> str:
    """
    Write the whole vault into one file: json for programs, markdown for a zip of the note files.

    Returns the path of the file, in a folder beside the snapshots; tell it to the person.
    """
    folder = exports(book)
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


@tool("Import an export", CHANGE, table.IMPORT, file_path="source")
def import_(book: Reader, file_path: str, on_conflict: str, dry_run: bool, ctx: Context) -> str:
    """
    Import a file that export wrote: all of it, or nothing if anything fails. dry_run, the default, only reports.

    A person imports other files, such as exports of ChatGPT or Claude, with `spellbook import FILE`, or puts them
    into that folder.
    """
    file = within(exports(book), file_path)
    done = book.whole.import_(file, on_conflict=on_conflict, dry_run=dry_run, progress=reporter(ctx))
    shown = {
        name: list(value)[:_MOST_SHOWN] for name, value in done.as_dict().items() if isinstance(value, list | dict)
    }
    counts = {name: len(getattr(done, name)) for name in ("added", "overwritten", "renamed", "skipped")}
    status = "would be imported" if dry_run else "imported"
    return as_json(status=status, counts={**counts, "unchanged": done.unchanged}, **shown)


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
