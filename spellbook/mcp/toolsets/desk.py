"""
The toolsets desk and backup. `core` has `undo`.

Desk merges and restores notes, lists changes, moves notes and repairs links. Backup makes snapshots, and exports in one
folder. A model chooses no path: files are kept beside the person's snapshots. Only a person can restore a snapshot over
the vault.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context

from spellbook.archive.snapshots import name_of
from spellbook.library.limited import Seen
from spellbook.mcp import render
from spellbook.mcp.tool import ADD, CHANGE, READ, as_json, reporter, tool
from spellbook.system import disk
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import counted, exact, filled, flat, quoted
from spellbook.verbs import table

if TYPE_CHECKING:
    from spellbook.editing.moves import RelinkedNote
    from spellbook.notes.files import Fault

_MOVE_TOKENS = 2_000
_MOST_SHOWN = 20


@tool("Merge two memories", CHANGE, table.MERGE)
def merge(book: Seen, a: str, b: str, keep: Any, dry_run: bool) -> str:
    """
    Merge two similar notes into one without losing a sentence. Only shows the difference unless dry_run=false.

    The older note keeps its id; the other goes to the trash with a pointer. Where numbers or a "not" differ, both
    sentences are listed, and nothing is written until keep says which to keep.
    """
    done = book.whole.merge(a, b, keep=keep, apply=not dry_run)
    gone = exact(done.gone)
    path = exact(done.path)
    head = f"Would merge {gone} into {path}." if dry_run else f"Merged {gone} into {path}, id: {exact(done.id)}."
    contrary = [
        f"They contradict each other; set keep to a, b or both:\na:\n{quoted(pair.first)}\nb:\n{quoted(pair.other)}"
        for pair in done.changed
    ]
    stays = [
        f"{flat(key)}: keeps {flat(str(value))}, not {flat(str(other))}" for key, (value, other) in done.differs.items()
    ]
    return "\n".join([head, *contrary, *stays, quoted(done.difference)])


@tool("Restore a memory", CHANGE, table.RESTORE)
def restore(book: Seen, name: str) -> str:
    """
    Restore erased notes or sections from the vault's .trash folder. A section goes back to its place in its note.

    Name it by its path in the trash, which erase returned, or by what was erased: a chunk_id, a path, a topic.
    """
    return as_json(status="restored", paths=list(book.whole.restore(name))[:100], generation=book.state().generation)


@tool("List changes", READ, table.LOG)
def log(book: Seen, limit: int) -> str:
    """List the changes by tools and commands, newest first: entry numbers for undo, times, verbs and files."""
    entries = [{**each.as_dict(), "files": each.as_dict()["files"][:10]} for each in book.log(limit)]
    return as_json(entries=entries, **filled(warning=book.index.vault.journal.lost))


@tool("Move notes", CHANGE, table.MOVE)
def move(book: Seen, old: str, new: str, dry_run: bool) -> str:
    """
    Move a note or a folder, and update every link to it and in it. Only previews the change unless dry_run=false.

    Ids that are paths change with the path. Nothing is overwritten.
    """
    done = book.whole.move(old, new, dry_run=dry_run)
    links = sum(each.links for each in done.changed)
    head = (
        f"{'Would move' if dry_run else 'Moved'} {exact(done.old)} to {exact(done.new)}: files {len(done.moved)}, "
        f"notes updated {len(done.changed)}, links in them {links}; generation {done.generation}."
    )
    return "\n".join([head, *_differences(done.changed, done.left)])


@tool("Repair links", CHANGE, table.MEND_LINKS)
def mend_links(book: Seen, dry_run: bool) -> str:
    """
    Find broken links, and repair those to files that were moved.

    Only previews the change unless dry_run=false.
    """
    made = book.whole.mend_links(dry_run=dry_run)
    unknown = [each for each in made.broken if each.path is None]
    verb = "Would repair" if dry_run else "Repaired"
    head = f"{verb} links: {sum(each.links for each in made.changed)}; still broken: {len(unknown)}."
    nowhere = [f"- {exact(each.source)}:{each.line} {flat(each.target)}" for each in unknown[:_MOST_SHOWN]]
    return "\n".join([head, *nowhere, *_differences(made.changed, made.left)])


@tool("Take a snapshot", ADD)
def snapshot(book: Seen, ctx: Context) -> str:
    """
    Take a snapshot of the whole vault, kept outside of it; unchanged files take no space.

    Take one before you change many notes. A person restores it with `spellbook snapshot restore NAME`.
    """
    taken = book.snapshots.create(reporter(ctx))
    faults = [fault.path for fault in taken.faults[:_MOST_SHOWN]]
    return as_json(status="kept", **{**taken.as_dict(), "faults": faults})


@tool("List snapshots", READ)
def snapshots(book: Seen) -> str:
    """List the snapshots of the vault, newest first, with names, times and their folder."""
    shown = [
        {"name": each.name, "taken": each.taken.isoformat(), "files": each.files, "bytes": each.bytes}
        for each in book.snapshots.all()
    ]
    return as_json(**filled(folder="" if book.denial else str(book.snapshots.folder)), snapshots=shown)


@tool("Export the vault", ADD, table.EXPORT)
def export(book: Seen, format: str) -> str:
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
def import_(book: Seen, file_path: str, on_conflict: str, dry_run: bool, ctx: Context) -> str:
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


def exports(book: Seen) -> Path:
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


def _differences(changed: Sequence[RelinkedNote], left: Sequence[Fault]) -> list[str]:
    faults = [f"{exact(each.path)}: {flat(each.reason)}" for each in left[:_MOST_SHOWN]]
    differences = (quoted(note.difference) for note in changed)
    shown = render.first_that_fit(differences, _MOVE_TOKENS, lambda part: render.tokens_of([part]))
    more = len(changed) - len(shown)
    return [*faults, *shown, *([f"… and {counted(more, 'more note')}"] if more else [])]
