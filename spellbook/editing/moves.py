"""
Move a note or a folder, and rewrite links so that every link still leads to the same file.

Links are those of notes, and those of Obsidian's canvases, to files and in text cards. Each new text is parsed again;
if it does not read as planned, the links stay as they are.

A move is one entry of the journal: `spellbook undo` takes it back, also after a kill. Nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from spellbook.editing.relinking import Mended, Shift, mend, mend_cards
from spellbook.index import sync
from spellbook.index.lookup import bare, named
from spellbook.index.opened import Index
from spellbook.notes import dates
from spellbook.notes.files import Fault
from spellbook.notes.note import Note, decode, parse
from spellbook.notes.where_links_lead import Files
from spellbook.notes.where_links_lead import key as link_key
from spellbook.system import disk, platform
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError, StorageError, UnreadableNote
from spellbook.system.lazy import regex
from spellbook.text.diff import unified
from spellbook.text.unicode import folded, without_ending
from spellbook.vault import names
from spellbook.vault.entries import Entry
from spellbook.vault.folder import digest
from spellbook.vault.journal import Journal
from spellbook.vault.vault import Vault
from spellbook.vault.writer import mode_of

VERB = "move"
_TO = " → "
_LOCK = "moving.lock"
_TRIES = 20
"""Attempts to rewrite a note that an editor saves meanwhile."""
_BOOKMARKS = ".obsidian/bookmarks.json"
_NAMED = regex(r"""["'\[(]([^"'\[\]()|#\r\n]{1,1000})""")  # a file, perhaps, in a base or in bookmarks


@dataclass(frozen=True, slots=True)
class RelinkedNote:
    """A file with rewritten links: its new path, their number, and a unified diff; of no note its two heads alone."""

    path: str
    links: int
    difference: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A move, done or planned: old and new paths of all files, changed notes, and links that were left."""

    old: str
    new: str
    moved: tuple[tuple[str, str], ...]
    changed: tuple[RelinkedNote, ...]
    left: tuple[Fault, ...]
    generation: int


@dataclass(slots=True)
class Relinking:
    """
    Planned links: text before and after by path, with the number of rewritten links, and by `mends`, how they were
    planned; `others` are canvases and the notes that the catalog does not know: templates and excluded ones.
    """

    vault: Vault
    others: set[str] = field(default_factory=set)
    texts: dict[str, tuple[bytes, bytes, int]] = field(default_factory=dict)
    mends: dict[str, Callable[[Note], Mended]] = field(default_factory=dict)
    left: list[Fault] = field(default_factory=list)

    def plan(self, path: str, at: str, mend: Callable[[Note], Mended]) -> None:
        """Plan the new text of the file that is at `at` and will be at `path`: what `mend` makes of its notes."""
        self.texts.pop(path, None)
        self.mends[path] = mend
        try:
            data = self.vault.read(at)[0]
            note, head = parse(path, data), ""
            if not note.editable and path in self.others:  # a template may have `{{date}}` in its frontmatter
                head = note.text[: note.text.find("\n") + 1]
                note = parse(path, note.encode(note.text[len(head) :]))
            done = mend_cards(path, note.text, mend) if path.endswith(names.CANVAS) else mend(note)
        except (MemoryNotFound, UnreadableNote) as error:
            return self.leave(Fault.of(path, error, at))
        if done.left:
            lines = ", ".join(str(link.line) for link in done.left)
            why = "no spelling leads there" if note.editable else note.faults[-1].reason
            self.leave(Fault(path, 0, f"links on line {lines} are as they were ({why})"))
        if done.count and path in self.others and not mode_of(self.vault.locate(at)) & 0o222:
            self.leave(Fault(path, 0, "it is read-only; its links are as they were"))
        elif done.count:
            self.texts[path] = data, note.encode(head + done.text), done.count

    def leave(self, fault: Fault) -> None:
        """Plan nothing for a file, and say why."""
        self.texts.pop(fault.path, None)
        self.left.append(fault)

    def write(self) -> dict[str, StorageError]:
        """Write the new texts, planned again in files that changed meanwhile; return the errors of the disk by path."""
        failed: dict[str, StorageError] = {}
        wanted = dict(self.texts)
        for _ in range(_TRIES):
            new = {path: (after, digest(before)) for path, (before, after, _) in wanted.items()}
            errors = self.vault.write_all(new)
            failed |= {path: error for path, error in errors.items() if isinstance(error, StorageError)}
            changed = errors.keys() - failed.keys()
            for path in changed:
                self.plan(path, path, self.mends[path])
            wanted = {path: text for path, text in self.texts.items() if path in changed}
            if not wanted:
                break
        for path in wanted:
            self.leave(Fault(path, 0, "the file keeps changing, and is as it was"))
        return failed

    def changed(self) -> tuple[RelinkedNote, ...]:
        """Return the files with rewritten links, by path."""
        changed = []
        for path, (*pair, count) in sorted(self.texts.items()):
            before, after = (decode(path, data)[0] for data in pair)
            heads = f"a/{path}", f"b/{path}"
            shown = "--- {}\n+++ {}".format(*heads) if path in self.others else unified(before, after, *heads)
            changed.append(RelinkedNote(path, count, shown))
        return tuple(changed)


def move(index: Index, old: str, new: str, *, dry_run: bool = False) -> Moved:
    """
    Move the note or folder `old` (a path or a note's id) to `new`, or into that folder; `dry_run` only reports.

    Raises MemoryNotFound, InvalidInput for an impossible path, Conflict if something is at `new`, and StorageError,
    with nothing moved.
    """
    if dry_run:
        sync.scan(index)
        return _report(index, *_plan_move(index, old, new))
    busy = Conflict("Another Spellbook is moving notes.", "Repeat it when that is done; nothing was moved.")
    with disk.alone(index.config.state / _LOCK, 60, busy):
        sync.scan(index)
        old, new, shift, planned = _plan_move(index, old, new)
        with index.vault.change(VERB, f"{old}{_TO}{new}"):
            index.vault.move(old, new)
            for path, error in planned.write().items():
                if path not in planned.others:
                    raise error
                planned.leave(Fault.of(path, error))
        paths = [*(path for pair in shift.moved.items() for path in pair), *planned.texts]
        sync.scan_paths(index, [path for path in dict.fromkeys(paths) if names.is_note(path)])
        return _report(index, old, new, shift, planned)


def paths_of_move(journal: Journal, entry: Entry) -> tuple[str, str] | None:
    """Return the old and new path of a journal entry that is a move, else None."""
    try:
        if entry.undoes is not None:
            undone = paths_of_move(journal, journal.get(entry.undoes))
            return (undone[1], undone[0]) if undone else None
    except MemoryNotFound:
        return None
    if entry.verb != VERB:
        return None
    paths = [trace.path for trace in entry.traces[:2]]
    # A long name is cut there, and that of a file that was erased for good since is not there.
    is_kept = len(paths) == 2 and entry.what and _TO.join(paths).startswith(entry.what)
    return (paths[0], paths[1]) if is_kept else None


# -- planning


def _plan_move(index: Index, old: str, new: str) -> tuple[str, str, Shift, Relinking]:
    """Return the paths that are meant, the files before and after, and the planned links by new path."""
    old, new = _resolve_places(index, old, new)
    files = index.vault.files()
    moved = {path: target for path in files if (target := names.after_move(path, old, new)) != path}
    shift = _shift(index, files, moved)
    known = index.catalog.notes.known().keys()
    others = {path for path in files if path.endswith(names.CANVAS) or (names.is_note(path) and path not in known)}
    planned = Relinking(index.vault, set(map(shift.now, others)))
    for source in sorted(_concerned(index, shift) & set(files) | others):
        if not platform.is_link(index.vault.root / source):  # links of a file behind it are rewritten in that file
            planned.plan(shift.now(source), source, partial(mend, source=source, shift=shift))
    _leave_mentions(planned, shift, files, old)
    return old, new, shift, planned


def _shift(index: Index, files: Sequence[str], moved: Mapping[str, str]) -> Shift:
    """Return the files before and after a move; names of Logseq's pages go with their files."""
    aliases = index.catalog.links.aliases()
    gone = {folded(name) for path in moved for name in dates.logseq_names(path)}
    kept = {name: moved.get(path, path) for name, path in aliases.items() if path not in moved or name not in gone}
    return Shift(Files(files, aliases), Files((moved.get(path, path) for path in files), kept), moved)


def _concerned(index: Index, shift: Shift) -> set[str]:
    """Return the notes with a link that would lead elsewhere after the move."""
    paths = (path for pair in shift.moved.items() for path in pair)
    touched = {link_key(name) for path in paths for name in (path, *dates.logseq_names(path))}
    return {
        linked.source
        for linked in index.catalog.links.to()
        if (linked.source in shift.moved or linked.link.name in touched)
        and shift.wanted(linked.source, linked.link.target, linked.link.is_markdown)
    }


def _leave_mentions(planned: Relinking, shift: Shift, files: Sequence[str], old: str) -> None:
    """Report the bases and bookmarks of Obsidian that name a moved file: neither is rewritten."""
    renamed = {link_key(path) for path, target in shift.moved.items() if link_key(path) != link_key(target)}
    wanted = renamed | {without_ending(folded(path)) for path in (old, *shift.moved)}
    for path in (*(path for path in files if path.lower().endswith(".base")), _BOOKMARKS):
        with contextlib.suppress(SpellbookError):
            mentioned = _NAMED.findall(decode(path, planned.vault.read(path)[0])[0])
            if any(without_ending(folded(name).strip().strip("/")) in wanted for name in mentioned):
                planned.leave(Fault(shift.now(path), 0, f"it names {old}, and is as it was"))


def _resolve_places(index: Index, old: str, new: str) -> tuple[str, str]:
    """Return the source and target that are meant. Raises MemoryNotFound, InvalidInput, PathOutsideVault, Conflict."""
    vault = index.vault
    source = _source_of(index, old)
    is_note = names.is_note(source) and not vault.locate(source).is_dir()
    target = _target_of(vault, source, new, is_note=is_note)
    if target == source or target.startswith(f"{source}/"):
        raise InvalidInput(f"{source} cannot be moved to {target}.", "Choose a path elsewhere; nothing was moved.")
    dotted = next((path for path in (source, target) if any(part.startswith(".") for part in path.split("/"))), "")
    if dotted or (is_note and not vault.is_note(target)):
        raise InvalidInput(
            f"{dotted or target}: Spellbook sees no notes there.",
            "Choose a path without a dot in front, that is not ignored.",
        )
    name = target.rpartition("/")[2]
    if name != source.rpartition("/")[2] and (bad := names.forbidden(name)):
        raise InvalidInput(
            f"{target}: some systems, or links, cannot hold {bad!r}.", "Choose another name; nothing was moved."
        )
    vault.check_here(target)
    place = vault.locate(target)
    if os.path.lexists(place) and not disk.is_same_name(place, vault.locate(source)):
        raise Conflict(f"{target}: something is there already.", "Choose another path; nothing was moved.")
    return source, target


def _source_of(index: Index, old: str) -> str:
    """Return the path of the file or folder that `old` names. Raises MemoryNotFound, InvalidInput for a section."""
    source = bare(index, old).rstrip("/")
    if os.path.lexists(index.vault.locate(source)):
        return source
    chunks, is_whole = named(index, old)
    source = chunks[0].path
    if not is_whole and len(index.catalog.at(source)) > 1:
        raise InvalidInput(
            f"{old[:200]!r} is one section of {source}.",
            f"Move the note, {chunks[0].note!r:.200}, or its folder; nothing was moved.",
        )
    return source


def _target_of(vault: Vault, source: str, new: str, *, is_note: bool) -> str:
    """Return the path that `new` means for `source`: a folder takes it in, and a note keeps its ending."""
    target = new.rstrip("/")
    own = source.rpartition("/")[2]
    if target in {"", "."}:
        return own
    if new.endswith("/") or (vault.locate(target).is_dir() and target.casefold() != source.casefold()):
        return f"{target}/{own}"
    if is_note and not names.is_note(target.rpartition("/")[2]):
        return target + source[len(without_ending(source)) :]
    return target


def _report(index: Index, old: str, new: str, shift: Shift, planned: Relinking) -> Moved:
    return Moved(
        old,
        new,
        tuple(sorted(shift.moved.items())),
        planned.changed(),
        tuple(planned.left),
        index.catalog.generation,
    )
