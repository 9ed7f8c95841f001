"""
Move a note or a folder, and rewrite links so that every link still leads to the same file.

The plan is written to the state folder first. If a kill interrupts a move, the next call completes it, or it never
began. Nothing is overwritten: no other file, and nothing that somebody saved in the meantime.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from spellbook.editing.relink import Shift, derive_spans, find_again, mend
from spellbook.index import sync
from spellbook.index.lookup import note_chunks
from spellbook.index.opened import Index
from spellbook.notes import links
from spellbook.notes.links import Files, Span
from spellbook.notes.note import Fault, Note, decode, parse
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError, StorageError, UnreadableNote
from spellbook.text.diff import unified
from spellbook.text.quoting import counted
from spellbook.vault import names
from spellbook.vault.folder import digest
from spellbook.vault.journal import Change, Entry, Journal, Rewrite
from spellbook.vault.vault import UNDER_WAY
from spellbook.vault.writer import gone

VERB = "mv"
_TO = " → "
_LOCK = "moving.lock"
_TRIES = 20
"""Attempts to rewrite a note that an editor saves at the same moment."""
_LOOKED_BACK = 50
"""Latest entries of the journal in which the move is looked for that this one reverses."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RelinkedNote:
    """A note with rewritten links: its new path, the number of links, and a unified diff."""

    path: str
    links: int
    difference: str


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move did, or would do: old and new paths of all files, changed notes, and links that were left."""

    old: str
    new: str
    moved: tuple[tuple[str, str], ...]
    changed: tuple[RelinkedNote, ...]
    left: tuple[Fault, ...]
    generation: int


@dataclass(slots=True)
class _MovePlan:
    """
    A planned move: texts before and after by new path, and the number of rewritten links in each.

    `spans` are the changes to links, also in notes that keep their text. `then` is what the move that this one
    undoes did to links, by the current path; None if it undoes none.
    """

    old: str
    new: str
    shift: Shift
    then: Mapping[str, Rewrite] | None = None
    texts: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    spans: dict[str, tuple[Span, ...]] = field(default_factory=dict)
    same: dict[str, bytes] = field(default_factory=dict)
    left: list[Fault] = field(default_factory=list)


def move(index: Index, old: str, new: str, *, dry_run: bool = False, undoes: Entry | None = None) -> Moved:
    """
    Move the note or folder `old` (a path or a note's id) to `new` and rewrite links; `dry_run` only reports.

    If `new` is a folder, `old` is moved into it. `undoes` is the journal entry that this move undoes. Raises
    MemoryNotFound, InvalidInput for an impossible path, and Conflict if something is at `new`.
    """
    if dry_run:
        sync.scan(index)
        return _report(index, _plan_move(index, old, new, undoes))
    with _lock(index):
        _finish(index)
        sync.scan(index)
        plan = _plan_move(index, old, new, undoes)
        file = index.config.state / UNDER_WAY
        try:
            inode = os.lstat(index.vault.locate(plan.old)).st_ino
        except FileNotFoundError as error:
            raise gone(plan.old) from error
        _write_down(file, plan, inode, undoes)
        with _change(index, plan, undoes):
            _note_same(index, plan, plan.same)
            try:
                index.vault.relocate(plan.old, plan.new)
            except SpellbookError:
                file.unlink()
                raise
            trouble = _mend(index, plan)
        _commit(index, plan, trouble)
        return _report(index, plan)


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


def finish(index: Index) -> None:
    """Complete a move that was cut short, unless another process is moving. Raises StorageError."""
    if (index.config.state / UNDER_WAY).exists():
        with contextlib.suppress(Conflict), _lock(index, wait=0):
            _finish(index)


def _lock(index: Index, wait: float = 60) -> AbstractContextManager[None]:
    busy = Conflict("Another Spellbook is moving notes.", "Repeat it when that is done; nothing was moved.")
    return disk.alone(index.config.state / _LOCK, wait, busy)


# -- planning


def _plan_move(index: Index, old: str, new: str, undoes: Entry | None) -> _MovePlan:
    old, new = _resolve_places(index, old, new, is_undo=undoes is not None)
    files = index.vault.files()
    moved = {path: target for path in files if (target := names.after_move(path, old, new)) != path}
    aliases = index.catalog.links.aliases()
    after = _rename_files(files, aliases, moved)
    entry = undoes or _find_reverse(index.vault.journal, old, new)
    plan = _MovePlan(old, new, Shift(Files(files, aliases), after, moved), _rewrites(index.vault.journal, entry))
    then = plan.then or {}
    sources = _find_concerned(index, plan.shift) | {
        path for path, rewrite in then.items() if rewrite.after and (rewrite.links or rewrite.before != rewrite.after)
    }
    is_noted = any(rewrite.links is not None for rewrite in then.values())
    for source in sorted(sources & set(files) - _doubles(index)):
        # Journals of earlier versions do not name the notes with links that came to lead somewhere by chance. A note
        # that such a journal does not name stays as it is, unless it was written since.
        if entry is None or is_noted or source in then or _is_written_since(index, source, entry.at):
            _plan_note(index, plan, source, source)
    return plan


def _rename_files(files: Iterable[str], aliases: Mapping[str, str], to: Mapping[str, str]) -> Files:
    return Files((to.get(path, path) for path in files), {name: to.get(path, path) for name, path in aliases.items()})


def _doubles(index: Index) -> set[str]:
    """Return the symbolic links to notes of the vault. The links in these are rewritten in the note itself."""
    root = os.path.join(index.vault.root, "")
    real = {path: os.path.realpath(index.vault.root / path) for path in index.vault.symlinks()}
    return {
        path
        for path, place in real.items()
        if place.startswith(root) and index.vault.stamp(place[len(root) :].replace(os.sep, "/"))
    }


def _is_written_since(index: Index, path: str, at: float) -> bool:
    try:
        status = os.stat(index.vault.locate(path))
    except FileNotFoundError:
        return False
    return max(status.st_mtime, status.st_ctime) > at


def _find_concerned(index: Index, shift: Shift) -> set[str]:
    """Return the notes with a link that the move would break or redirect, according to the catalog."""
    touched = {links.key(path) for pair in shift.moved.items() for path in pair}
    return {
        linked.source
        for linked in index.catalog.links.all()
        if (linked.source in shift.moved or linked.link.name in touched)
        and (
            shift.wanted(linked.source, linked.link.target, linked.link.is_markdown)
            or shift.finds(linked.source, linked.link.target, linked.link.is_markdown)
        )
    }


def _plan_note(index: Index, plan: _MovePlan, source: str, at: str) -> None:
    """Plan the new text of the note that was at `source`. Until the move is done it is at the path `at`."""
    path = plan.shift.now(source)
    for planned in (plan.texts, plan.spans, plan.same):
        planned.pop(path, None)
    try:
        data = index.vault.read(at)[0]
        note = parse(path, data)
        then = None
        if plan.then is not None:
            then = _find_links_again(index.vault.journal, plan.then.get(source), note, digest(data))
    except (MemoryNotFound, UnreadableNote) as error:
        plan.left.append(Fault(path, 0, error.message))
        return
    done = mend(note, source, plan.shift, then=then)
    if done.left:
        lines = ", ".join(str(link.line) for link in done.left)
        why = "no spelling leads there" if note.editable else note.faults[-1].reason
        plan.left.append(Fault(path, 0, f"links on line {lines} are as they were ({why})"))
    plan.spans[path] = done.spans
    if done.count:
        plan.texts[path], plan.counts[path] = (data, note.encode(done.text)), done.count
    elif done.spans:
        plan.same[path] = data


def _find_links_again(journal: Journal, rewrite: Rewrite | None, note: Note, sha256: str) -> dict[int, Span | None]:
    """Return the positions of links that an earlier move recorded in a note; empty if they are not known any more."""
    if rewrite is None or rewrite.after is None:
        return {}
    data = note.encode() if rewrite.after == sha256 else journal.text(rewrite.after)
    if data is None:
        return {}
    former = parse(note.path, data)
    spans = rewrite.links
    if spans is None:
        before = journal.text(rewrite.before) if rewrite.before else None
        spans = derive_spans(parse(note.path, before), former) if before is not None else ()
    return find_again(former.text, spans, note)


def _find_reverse(journal: Journal, old: str, new: str) -> Entry | None:
    """Return the recent move that a move from `old` to `new` would undo, if there is one."""
    entries = (entry for entry in journal.entries(_LOOKED_BACK) if entry.is_whole and not entry.is_undone)
    return next((entry for entry in entries if paths_of_move(journal, entry) == (new, old)), None)


def _rewrites(journal: Journal, entry: Entry | None) -> dict[str, Rewrite] | None:
    """Return what `entry` did to links, by the current paths of files."""
    if entry is None:
        return None
    since = moved_since(journal, entry)
    return {carry(path, since): rewrite for path, rewrite in journal.rewrites(entry.id).items()}


def carry(path: str, moves: Sequence[tuple[str, str]]) -> str:
    """Return the path of a file after these moves, the earliest first."""
    for old, new in moves:
        path = names.after_move(path, old, new)
    return path


def _resolve_places(index: Index, old: str, new: str, *, is_undo: bool) -> tuple[str, str]:
    """Return the source and target that are meant. Raises MemoryNotFound, InvalidInput, PathOutsideVault, Conflict."""
    vault = index.vault
    source, target = old.rstrip("/"), new.rstrip("/")
    if not os.path.lexists(vault.locate(source)):
        chunks = index.catalog.meant(old) or note_chunks(index, old)
        if not chunks:
            raise MemoryNotFound(
                f"There is nothing at {old[:200]!r}.",
                "Give the path of a note or a folder in the vault, or a note's id.",
            )
        source = chunks[0].path
        if len(chunks) < len(index.catalog.at(source)):
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
    if not is_undo and name != source.rpartition("/")[2] and (bad := names.forbidden(name)):
        raise InvalidInput(
            f"{target}: some systems, or links, cannot hold {bad!r}.", "Choose another name; nothing was moved."
        )
    if os.path.lexists(place) and not disk.is_same_name(place, vault.locate(source)):
        raise Conflict(f"{target}: something is there already.", "Choose another path; nothing was moved.")
    return source, target


# -- doing


def _change(
    index: Index, plan: _MovePlan, undoes: Entry | None, *, resumes: bool = False
) -> AbstractContextManager[None]:
    if undoes is None:
        return index.vault.change(VERB, f"{plan.old}{_TO}{plan.new}", always=not resumes, resumes=resumes)
    return index.vault.change("undo", f"{undoes.id}: {undoes.verb} {undoes.what}", undoes=undoes.id, resumes=resumes)


def _note_same(index: Index, plan: _MovePlan, paths: Iterable[str]) -> None:
    """Record in the journal notes that keep their text but have links that lead somewhere by chance from now on."""
    if changes := [Change(path, plan.same[path], plan.same[path], links=plan.spans[path]) for path in paths]:
        index.vault.journal.note(changes)


def _mend(index: Index, plan: _MovePlan) -> StorageError | None:
    """Write the new links, planned again in notes that changed meanwhile. Returns the error that stops the move."""
    homes = {new: old for old, new in plan.shift.moved.items()}
    wanted = set(plan.texts)
    for _ in range(_TRIES):
        texts = {path: (after, digest(before)) for path, (before, after) in plan.texts.items() if path in wanted}
        failed = index.vault.write_all(texts, plan.spans)
        for path, error in failed.items():
            if isinstance(error, StorageError):
                return error
            _plan_note(index, plan, homes.get(path, path), path)
        _note_same(index, plan, failed.keys() & plan.same.keys())
        wanted = failed.keys() & plan.texts.keys()
        if not wanted:
            return None
    for path in wanted:
        plan.texts.pop(path)
        plan.left.append(Fault(path, 0, "the file keeps changing; its links are as they were"))
    return None


def _commit(index: Index, plan: _MovePlan, trouble: StorageError | None) -> None:
    """Update the index, then mark the move as done, unless there was an error."""
    changed = [path for pair in plan.shift.moved.items() for path in pair]
    sync.scan_paths(index, [path for path in dict.fromkeys([*changed, *plan.texts]) if names.is_note(path)])
    if trouble is not None:
        raise StorageError(
            f"{plan.old} was moved, and not all links are mended yet: {trouble.message}",
            "The next call goes on with it.",
        )
    (index.config.state / UNDER_WAY).unlink(missing_ok=True)


def _report(index: Index, plan: _MovePlan) -> Moved:
    changed = []
    for path, pair in sorted(plan.texts.items()):
        before, after = (decode(path, data)[0] for data in pair)
        changed.append(RelinkedNote(path, plan.counts[path], unified(before, after, f"a/{path}", f"b/{path}")))
    moved = tuple(sorted(plan.shift.moved.items()))
    return Moved(plan.old, plan.new, moved, tuple(changed), tuple(plan.left), index.catalog.generation)


# -- after a kill


def _write_down(file: Path, plan: _MovePlan, inode: int, undoes: Entry | None) -> None:
    written = {
        "old": plan.old,
        "new": plan.new,
        "inode": inode,
        "texts": {path: digest(after) for path, (_, after) in plan.texts.items()},
        "undoes": undoes.id if undoes else None,
    }
    with disk.replacing(file) as target:
        target.write(json.dumps(written).encode())


def _finish(index: Index) -> None:
    file = index.config.state / UNDER_WAY
    try:
        written = json.loads(file.read_bytes())
        old, new, inode, texts = (written[key] for key in ("old", "new", "inode", "texts"))
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        _log.warning("%s is damaged: if a move was cut short, `spellbook doctor --fix links` mends what it left.", file)
        file.unlink(missing_ok=True)
        return
    source, target = index.vault.root / old, index.vault.root / new
    is_moved = os.path.lexists(target) and (target.lstat().st_ino == inode or not os.path.lexists(source))
    if is_moved:
        undoes: Entry | None = None
        with contextlib.suppress(MemoryNotFound):
            undoes = index.vault.journal.get(written.get("undoes") or 0)
        plan = _plan_rest(index, old, new, texts, undoes)
        with _change(index, plan, undoes, resumes=True):
            trouble = _mend(index, plan)
        _commit(index, plan, trouble)
        done = "A move of %s to %s that was cut short is finished; links in %s were still to be mended."
        _log.warning(done, old, new, counted(len(plan.texts), "note"))
        for left in plan.left:
            _log.warning("%s.", left)
        return
    if os.path.lexists(source):
        if target.is_file() and not target.stat().st_size:
            target.unlink()  # its name was taken, and no more done
        _log.warning("A move of %s to %s was cut short before it began; nothing was changed.", old, new)
    else:
        _log.warning(
            "A move of %s to %s was cut short, and both are gone: see `spellbook doctor --fix links`.", old, new
        )
    file.unlink()


def _plan_rest(index: Index, old: str, new: str, texts: Mapping[str, str], undoes: Entry | None) -> _MovePlan:
    """Plan the rest of a move whose files are moved already; `texts` are the planned hashes of notes."""
    files = index.vault.files()
    homes = {path: home for path in files if (home := names.after_move(path, new, old)) != path}
    aliases = index.catalog.links.aliases()
    moved = {home: path for path, home in homes.items()}
    shift = Shift(_rename_files(files, aliases, homes), Files(files, aliases), moved)
    plan = _MovePlan(old, new, shift, _rewrites(index.vault.journal, undoes))
    for path, sha256 in texts.items():
        with contextlib.suppress(MemoryNotFound):
            if digest(index.vault.read(path)[0]) != sha256:
                _plan_note(index, plan, homes.get(path, path), path)
    return plan
