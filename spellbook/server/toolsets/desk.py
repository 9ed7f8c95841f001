"""The desk toolset: merge, restore, log and undo, move notes, and repair links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.mcpserver import MCPServer

from spellbook.book import Spellbook
from spellbook.server import arguments as given
from spellbook.server import render
from spellbook.server.base import CHANGE, READ, adder, as_json
from spellbook.text.quoting import exact, flat, quoted

if TYPE_CHECKING:
    from spellbook.editing.combine import Changed


def register(mcp: MCPServer, book: Spellbook) -> None:
    """Add the tools of the desk over `book` to a server."""

    def merge(a: given.MergedId, b: given.MergedId, keep: given.Keep = "", apply: given.Apply = False) -> str:
        """
        Merge two similar notes into one without losing a sentence. Without apply it only shows the difference.

        The older note keeps its id; the other goes to the trash with a pointer. Where numbers or a "not" differ, both
        sentences are listed, and nothing is written until keep says which to keep.
        """
        done = book.merge(a, b, keep=keep, apply=apply)
        gone, path = exact(done.gone), exact(done.path)
        said = f"Merged {gone} into {path}, id: {exact(done.id)}." if apply else f"Would merge {gone} into {path}."
        contrary = [f"They contradict each other; set keep to a, b or both:\n{_sides(each)}" for each in done.changed]
        stays = [
            f"{flat(key)}: keeps {flat(str(value))}, not {flat(str(other))}"
            for key, (value, other) in done.differs.items()
        ]
        return "\n".join([said, *contrary, *stays, quoted(done.difference)])

    def restore(name: given.Erased) -> str:
        """
        Restore erased notes or sections from the vault's .trash folder. A section goes back to its place in its note.

        Name it by its path in the trash, which erase returned, or by what was erased: a chunk_id, a path, a topic.
        """
        return as_json(status="restored", paths=list(book.restore(name))[:100], generation=book.state().generation)

    def log(limit: given.Entries = 20) -> str:
        """List the changes by tools and commands, newest first: entry numbers for undo, times, verbs and files."""
        entries = [{**each.as_dict(), "files": each.as_dict()["files"][:10]} for each in book.log(limit)]
        lost = book.index.vault.journal.lost
        return as_json(entries=entries, **({"warning": lost} if lost else {}))

    def undo(entry: given.EntryNumber = None, dry_run: given.DryRun = False) -> str:
        """
        Undo the latest change that a tool or command made, or the given entry of the log; returns the difference.

        Undoing an undo redoes the change. CONFLICT means that the file was edited in the same place since: nothing was
        undone.
        """
        done = book.undo(entry, dry_run=dry_run)
        verb = f"{'Would undo' if dry_run else 'Undid'} entry {done.entry.id}, {done.entry.verb}"
        return f"{verb} {flat(done.entry.what)}.\n{quoted(done.difference) or '(nothing to change)'}"

    def move(old: given.Old, new: given.New, preview: given.Preview = True) -> str:
        """
        Move a note or a folder, and update every link to it and in it. Only previews the change unless preview=false.

        Ids that are paths change with the path. Nothing is overwritten.
        """
        return render.moved(book.move(old, new, dry_run=preview), preview)

    def mend_links(preview: given.Preview = True) -> str:
        """
        Find broken links, and repair those with a known target: a moved file, or one of that name, alias or title.

        Only previews the change unless preview=false.
        """
        return render.offered(book.mend_links(dry_run=preview), preview)

    add = adder(mcp)
    add(merge, "Merge two memories", CHANGE)
    add(restore, "Restore a memory", CHANGE)
    add(log, "List changes", READ)
    add(undo, "Undo a change", CHANGE)
    add(move, "Move notes", CHANGE)
    add(mend_links, "Repair links", CHANGE)


def _sides(each: Changed) -> str:
    """Return two sentences that contradict each other, each under the name of its note."""
    return f"a:\n{quoted(each.first)}\nb:\n{quoted(each.other)}"
