"""The desk toolset: make one of two, look at what was changed and take it back, move notes, and mend links."""

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
        Make one note of two that say much the same, and lose no sentence. Without apply it only shows the difference.

        The older keeps its id, the other goes to the trash with a pointer. Where numbers or a "not" differ they are
        listed, and nothing is written until keep says which are right.
        """
        done = book.merge(a, b, keep=keep, apply=apply)
        gone, path = exact(done.gone), exact(done.path)
        said = f"Merged {gone} into {path}, id: {exact(done.id)}." if apply else f"Would merge {gone} into {path}."
        contrary = [f"They contradict; keep says who is right, a or b:\n{_sides(each)}" for each in done.changed]
        stays = [f"{flat(key)}: {flat(str(value))} stays, not {flat(str(other))}" for key, (value, other) in done.differs.items()]
        return "\n".join([said, *contrary, *stays, quoted(done.difference)])

    def restore(name: given.Erased) -> str:
        """
        Bring back what was erased, from the vault's .trash folder. A section goes back into its note, where it was.

        Name it by its path in the trash as erase gave it, or by what was erased: a chunk_id, a path, a topic.
        """
        return as_json(status="restored", paths=list(book.restore(name))[:100], generation=book.state().generation)

    def log(limit: given.Entries = 20) -> str:
        """What tools and commands changed in the vault, the newest first: entry numbers for undo, times, verbs and files."""
        entries = [{**each.as_dict(), "files": each.as_dict()["files"][:10]} for each in book.log(limit)]
        lost = book.index.vault.journal.lost
        return as_json(entries=entries, **({"warning": lost} if lost else {}))

    def undo(entry: given.EntryNumber = None, dry_run: given.DryRun = False) -> str:
        """
        Undo the latest change that a tool or command made, or the entry of the log that is named; answers with the difference.

        Undoing the entry of an undo does it again. CONFLICT means that the file was edited since in the same place:
        nothing was undone.
        """
        done = book.undo(entry, dry_run=dry_run)
        verb = f"{'Would undo' if dry_run else 'Undid'} entry {done.entry.id}, {done.entry.verb}"
        return f"{verb} {flat(done.entry.what)}.\n{quoted(done.difference) or '(all is as it was before)'}"

    def move(old: given.Old, new: given.New, preview: given.Preview = True) -> str:
        """
        Move a note or a folder to another path, and mend every link to it and in it. Shows what would change first; preview=false does it.

        Ids that are paths change with the path. Nothing is written over.
        """
        return render.moved(book.move(old, new, dry_run=preview), preview)

    def mend_links(preview: given.Preview = True) -> str:
        """
        Find the links that lead nowhere and mend those whose meaning is known: the file was moved, or has that name, alias or title.

        Shows what would change first; preview=false does it.
        """
        return render.offered(book.mend_links(dry_run=preview), preview)

    add = adder(mcp)
    add(merge, "Merge two memories", CHANGE)
    add(restore, "Bring back a memory", CHANGE)
    add(log, "What was changed", READ)
    add(undo, "Undo a change", CHANGE)
    add(move, "Move notes", CHANGE)
    add(mend_links, "Mend links", CHANGE)


def _sides(each: Changed) -> str:
    """Return the two sentences that contradict, each under the name of its note."""
    return f"a:\n{quoted(each.first)}\nb:\n{quoted(each.other)}"
