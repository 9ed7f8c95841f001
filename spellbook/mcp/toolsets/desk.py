"""The desk toolset: merge and restore notes, list changes, move notes, and repair links. `core` has `undo`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spellbook.library.reader import Reader
from spellbook.mcp import render
from spellbook.mcp.base import CHANGE, READ, as_json, tool
from spellbook.text.quoting import counted, exact, flat, quoted
from spellbook.verbs import table

if TYPE_CHECKING:
    from spellbook.editing.moves import Moved, RelinkedNote
    from spellbook.editing.repair_links import Offer
    from spellbook.notes.note import Fault

_MOVE_TOKENS = 2_000
_MOST_LEFT = 20


@tool("Merge two memories", CHANGE, table.MERGE)
def merge(book: Reader, a: str, b: str, keep: Any, dry_run: bool) -> str:
    """
    Merge two similar notes into one without losing a sentence. Only shows the difference unless dry_run=false.

    The older note keeps its id; the other goes to the trash with a pointer. Where numbers or a "not" differ, both
    sentences are listed, and nothing is written until keep says which to keep.
    """
    done = book.whole.merge(a, b, keep=keep, apply=not dry_run)
    gone, path = exact(done.gone), exact(done.path)
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
def restore(book: Reader, name: str) -> str:
    """
    Restore erased notes or sections from the vault's .trash folder. A section goes back to its place in its note.

    Name it by its path in the trash, which erase returned, or by what was erased: a chunk_id, a path, a topic.
    """
    return as_json(status="restored", paths=list(book.whole.restore(name))[:100], generation=book.state().generation)


@tool("List changes", READ, table.LOG)
def log(book: Reader, limit: int) -> str:
    """List the changes by tools and commands, newest first: entry numbers for undo, times, verbs and files."""
    entries = [{**each.as_dict(), "files": each.as_dict()["files"][:10]} for each in book.log(limit)]
    lost = book.index.vault.journal.lost
    return as_json(entries=entries, **({"warning": lost} if lost else {}))


@tool("Move notes", CHANGE, table.MOVE)
def move(book: Reader, old: str, new: str, dry_run: bool) -> str:
    """
    Move a note or a folder, and update every link to it and in it. Only previews the change unless dry_run=false.

    Ids that are paths change with the path. Nothing is overwritten.
    """
    return _moved(book.whole.move(old, new, dry_run=dry_run), dry_run)


@tool("Repair links", CHANGE, table.MEND_LINKS)
def mend_links(book: Reader, dry_run: bool) -> str:
    """
    Find broken links, and repair those to files that were moved.

    Only previews the change unless dry_run=false.
    """
    return _offered(book.whole.mend_links(dry_run=dry_run), dry_run)


def _moved(done: Moved, is_preview: bool) -> str:
    """Return what a move did, or would do, with as many differences as fit."""
    links = sum(each.links for each in done.changed)
    what = f"files {len(done.moved)}, notes updated {len(done.changed)}, links in them {links}"
    verb = "Would move" if is_preview else "Moved"
    head = f"{verb} {exact(done.old)} to {exact(done.new)}: {what}; generation {done.generation}."
    return "\n".join([head, *_differences(done.changed, done.left)])


def _offered(made: Offer, is_preview: bool) -> str:
    """Return the broken links, and the repairs that were made or are offered."""
    unknown = [each for each in made.broken if each.path is None]
    verb = "Would repair" if is_preview else "Repaired"
    head = f"{verb} links: {sum(each.links for each in made.changed)}; still broken: {len(unknown)}."
    nowhere = [f"- {exact(each.source)}:{each.line} {flat(each.target)}" for each in unknown[:_MOST_LEFT]]
    return "\n".join([head, *nowhere, *_differences(made.changed, made.left)])


def _differences(changed: Sequence[RelinkedNote], left: Sequence[Fault]) -> list[str]:
    parts = [f"{exact(each.path)}: {flat(each.reason)}" for each in left[:_MOST_LEFT]]
    room = _MOVE_TOKENS
    for number, note in enumerate(changed):
        part = quoted(note.difference)
        room -= render.tokens_of([part])
        if room < 0:
            return [*parts, f"… and {counted(len(changed) - number, 'more note')}"]
        parts.append(part)
    return parts
