"""
Move a note or a folder, and rewrite links so that every link still leads to the same file.

A move is one entry of the journal: `spellbook undo` takes it back, also after a kill. Nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spellbook.editing.relink import Mended, Shift, mend, mend_cards
from spellbook.index import sync
from spellbook.index.lookup import bare, named
from spellbook.index.opened import Index
from spellbook.notes import dates, links
from spellbook.notes.links import Files
from spellbook.notes.note import Fault, Note, decode, parse
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError, StorageError, UnreadableNote
from spellbook.text.diff import unified
from spellbook.text.unicode import folded
from spellbook.vault import names
from spellbook.vault.folder import digest
from spellbook.vault.journal import Entry, Journal
from spellbook.vault.vault import Vault
from spellbook.vault.writer import mode_of

VERB = "mv"
_TO = " → "
_LOCK = "moving.lock"
_TRIES = 20
"""Attempts to rewrite a note that an editor saves meanwhile."""
_BOOKMARKS = ".obsidian/bookmarks.json"
_NAMED = re.compile(r"""["'\[(]([^"'\[\]()|#\r\n]{1,1000})""")  # a file, perhaps, in a base or in bookmarks


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
    Planned links: text before and after by path, with the number of rewritten links; `others` are canvases and the
    notes that the catalog does not know: templates and excluded ones.
    """

    vault: Vault
    others: set[str] = field(default_factory=set)
    texts: dict[str, tuple[bytes, bytes, int]] = field(default_factory=dict)
    left: list[Fault] = field(default_factory=list)

    def plan(self, path: str, at: str, mend: Callable[[Note], Mended]) -> None:
        """Plan the new text of the file that is at `at` and will be at `path`: what `mend` makes of its notes."""
        self.texts.pop(path, None)
        try:
            data = self.vault.read(at)[0]
            note, head = parse(path, data), ""
            if not note.editable and path in self.others:  # a template may have `{{date}}` in its frontmatter
                head = note.text[: note.text.find("\n") + 1]
                note = parse(path, note.encode(note.text[len(head) :]))
            done = mend_cards(path, note.text, mend) if path.endswith(names.CANVAS) else mend(note)
        except (MemoryNotFound, UnreadableNote) as error:
            return self.leave(path, error.message)
        if done.left:
            lines = ", ".join(str(link.line) for link in done.left)
            why = "no spelling leads there" if note.editable else note.faults[-1].reason
            self.leave(path, f"links on line {lines} are as they were ({why})")
        if done.count and path in self.others and not mode_of(self.vault.locate(at)) & 0o222:
            self.leave(path, "it is read-only; its links are as they were")
        elif done.count:
            self.texts[path] = data, note.encode(head + done.text), done.count

    def leave(self, path: str, why: str) -> None:
        """Plan nothing for the file at `path`, and say why."""
        self.texts.pop(path, None)
        self.left.append(Fault(path, 0, why))

    def write(self, paths: Iterable[str]) -> dict[str, SpellbookError]:
        """Write the new texts at `paths`; return the errors as `Vault.write_all` does."""
        return self.vault.write_all({path: (self.texts[path][1], digest(self.texts[path][0])) for path in paths})

    def changed(self) -> tuple[RelinkedNote, ...]:
        """Return the files with rewritten links, by path."""
        changed = []
        for path, (*pair, count) in sorted(self.texts.items()):
            before, after = (decode(path, data)[0] for data in pair)
            heads = f"a/{path}", f"b/{path}"
            shown = "--- {}\n+++ {}".format(*heads) if path in self.others else unified(before, after, *heads)
            changed.append(RelinkedNote(path, count, shown))
        return tuple(changed)


@dataclass(slots=True)
class _MovePlan:
    """A planned move, and its links by new path."""

    old: str
    new: str
    shift: Shift
    links: Relinking


def move(index: Index, old: str, new: str, *, dry_run: bool = False) -> Moved:
    """
    Move the note or folder `old` (a path or a note's id) to `new`, or into that folder; `dry_run` only reports.

    Raises MemoryNotFound, InvalidInput for an impossible path, Conflict if something is at `new`, and StorageError,
    with nothing moved.
    """
    if dry_run:
        sync.scan(index)
        return _report(index, _plan_move(index, old, new))
    busy = Conflict("Another Spellbook is moving notes.", "Repeat it when that is done; nothing was moved.")
    with disk.alone(index.config.state / _LOCK, 60, busy):
        sync.scan(index)
        plan = _plan_move(index, old, new)
        with index.vault.change(VERB, f"{plan.old}{_TO}{plan.new}"), relocated(index.vault, plan.old, plan.new):
            _mend(plan)
        paths = [*(path for pair in plan.shift.moved.items() for path in pair), *plan.links.texts]
        sync.scan_paths(index, [path for path in dict.fromkeys(paths) if names.is_note(path)])
        return _report(index, plan)


@contextlib.contextmanager
def relocated(vault: Vault, old: str, new: str) -> Iterator[None]:
    """Move a note or a folder; move it back if the block ends in an error."""
    vault.relocate(old, new)
    try:
        yield
    except BaseException:
        with vault.journal.reverting():
            vault.relocate(new, old)
        raise


def paths_of_move(journal: Journal, entry: Entry) -> tuple[str, str] | None:
    """Return the old and new path of a journal entry that is a move, else None."""
    try:
        if entry.undoes is not None:
            undone = paths_of_move(journal, journal.get(entry.undoes))
            return (undone[1], undone[0]) if undone else None
    except MemoryNotFound:
        return None
    old, arrow, new = entry.what.partition(_TO)
    return (old, new) if entry.verb == VERB and arrow and _TO not in new else None


def moved_since(journal: Journal, entry: Entry) -> list[tuple[str, str]]:
    """Return the old and new paths of all moves after an entry, the earliest first."""
    newest = journal.entries(1)
    later = journal.entries(newest[0].id - entry.id) if newest else []
    return [places for move in reversed(later) if move.id > entry.id and (places := paths_of_move(journal, move))]


# -- planning


def _plan_move(index: Index, old: str, new: str) -> _MovePlan:
    old, new = _resolve_places(index, old, new)
    files = index.vault.files()
    moved = {path: target for path in files if (target := names.after_move(path, old, new)) != path}
    aliases = index.catalog.links.aliases()
    shift = Shift(Files(files, aliases), _rename_files(files, aliases, moved), moved)
    known = index.catalog.notes.known().keys()
    others = {path for path in files if path.endswith(names.CANVAS) or (names.is_note(path) and path not in known)}
    plan = _MovePlan(old, new, shift, Relinking(index.vault, set(map(shift.now, others))))
    # Links in a file behind a symbolic link are rewritten in that file.
    for source in sorted((_find_concerned(index, shift) & set(files) | others) - set(index.vault.symlinks())):
        _plan_note(plan, source, source)
    for path in (*(path for path in files if path.lower().endswith(".base")), _BOOKMARKS):
        _name_mention(index, plan, path)
    return plan


def _name_mention(index: Index, plan: _MovePlan, path: str) -> None:
    """Report a base or bookmarks file at `path` that names a moved file: Spellbook rewrites neither."""
    moved = plan.shift.moved
    renamed = {links.key(old) for old, new in moved.items() if links.key(old) != links.key(new)}
    wanted = renamed | {folded(old).removesuffix(".md") for old in (plan.old, *moved)}
    with contextlib.suppress(SpellbookError):
        named = _NAMED.findall(decode(path, index.vault.read(path)[0])[0])
        if any(folded(name).strip().strip("/").removesuffix(".md") in wanted for name in named):
            plan.links.leave(plan.shift.now(path), f"it names {plan.old}, and is as it was")


def _rename_files(files: Iterable[str], aliases: Mapping[str, str], to: Mapping[str, str]) -> Files:
    gone = {folded(name) for path in to for name in dates.logseq_names(path)}
    kept = {name: to.get(path, path) for name, path in aliases.items() if path not in to or name not in gone}
    return Files((to.get(path, path) for path in files), kept)


def _find_concerned(index: Index, shift: Shift) -> set[str]:
    """Return the notes with a link that the move would break or redirect, according to the catalog."""
    paths = (path for pair in shift.moved.items() for path in pair)
    touched = {links.key(name) for path in paths for name in (path, *dates.logseq_names(path))}
    return {
        linked.source
        for linked in index.catalog.links.all()
        if (linked.source in shift.moved or linked.link.name in touched)
        and shift.wanted(linked.source, linked.link.target, linked.link.is_markdown)
    }


def _plan_note(plan: _MovePlan, source: str, at: str) -> None:
    """Plan the new text of the note that was at `source`. Until the move is done it is at the path `at`."""
    plan.links.plan(plan.shift.now(source), at, lambda note: mend(note, source, plan.shift))


def carry(path: str, moves: Sequence[tuple[str, str]]) -> str:
    """Return the path of a file after these moves, the earliest first."""
    for old, new in moves:
        path = names.after_move(path, old, new)
    return path


def _resolve_places(index: Index, old: str, new: str) -> tuple[str, str]:
    """Return the source and target that are meant. Raises MemoryNotFound, InvalidInput, PathOutsideVault, Conflict."""
    vault = index.vault
    source, target = bare(index, old).rstrip("/"), new.rstrip("/")
    if not os.path.lexists(vault.locate(source)):
        chunks, is_whole = named(index, old)
        source = chunks[0].path
        if not is_whole and len(index.catalog.at(source)) > 1:
            raise InvalidInput(
                f"{old[:200]!r} is one section of {source}.",
                f"Move the note, {chunks[0].note!r:.200}, or its folder; nothing was moved.",
            )
    is_note = names.is_note(source) and not vault.locate(source).is_dir()
    if target in {"", "."}:
        target = source.rpartition("/")[2]
    elif new.endswith("/") or (vault.locate(target).is_dir() and target.casefold() != source.casefold()):
        target = f"{target}/{source.rpartition('/')[2]}"
    elif is_note and not names.is_note(target):
        target += ".md"
    place = vault.locate(target)
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
    if os.path.lexists(place) and not disk.is_same_name(place, vault.locate(source)):
        raise Conflict(f"{target}: something is there already.", "Choose another path; nothing was moved.")
    return source, target


# -- doing


def _mend(plan: _MovePlan) -> None:
    """Write the new links, planned again in notes that changed meanwhile. Raises StorageError."""
    homes = {new: old for old, new in plan.shift.moved.items()}
    links = plan.links
    wanted = set(links.texts)
    for _ in range(_TRIES):
        failed = links.write(wanted)
        for path, error in failed.items():
            if not isinstance(error, StorageError):
                _plan_note(plan, homes.get(path, path), path)
            elif path in links.others:
                links.leave(path, error.message)
            else:
                raise error
        wanted = failed.keys() & links.texts.keys()
    for path in wanted:
        links.leave(path, "the file keeps changing; its links are as they were")


def _report(index: Index, plan: _MovePlan) -> Moved:
    moved = tuple(sorted(plan.shift.moved.items()))
    return Moved(plan.old, plan.new, moved, plan.links.changed(), tuple(plan.links.left), index.catalog.generation)
