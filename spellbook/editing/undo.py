"""
Undo a change of a tool or a command, byte for byte; an undo can be undone.

A later edit stays where the two do not overlap. Where they do, nothing is undone.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from spellbook.editing import edits, moves, threeway
from spellbook.editing.revise import embed_note
from spellbook.index import sync
from spellbook.index.filters import instant
from spellbook.index.opened import Index
from spellbook.notes.note import parse
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError, UnreadableNote
from spellbook.text.diff import unified
from spellbook.text.quoting import counted, one_line
from spellbook.text.unicode import is_markdown, without_ending
from spellbook.vault import names
from spellbook.vault.entries import INODE, Entry, Trace
from spellbook.vault.folder import digest
from spellbook.vault.journal import BY_ITSELF, CALLER, Journal, net
from spellbook.vault.revert import Step, revert, states
from spellbook.vault.writer import is_logged

_MOST_EMBEDDED = 20
"""Notes that get their vectors at once; more wait for the next run."""

_PAUSE = 1800.0
"""Seconds without a change that end a session where the log names none. By hand."""

_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}
"""Seconds of a minute, an hour and a day."""

_ERASING = {"forget", "tidy"}
"""Verbs of the log that move notes to the trash and do nothing else."""


@dataclass(frozen=True, slots=True)
class Undone:
    """
    An undo: the entry, the changed files (none if nothing was to do), a unified diff, the generation.

    `changes` has the path and the texts of each file that the diff shows, before the undo and after it, "" for none.
    `newer` is the latest change if that is another's, which an agent's undo leaves.
    """

    entry: Entry
    paths: tuple[str, ...]
    difference: str
    changes: tuple[tuple[str, str, str], ...]
    generation: int
    newer: Entry | None = None


def undo(index: Index, entry: int | None = None, *, dry_run: bool = False) -> Undone:
    """
    Undo one entry of the log, by default the latest change that is neither undone nor an undo.

    For an agent it is the latest of its own session. Undoing an undo repeats the change. Raises MemoryNotFound for an
    entry that does not exist or lost its texts; Conflict, with the difference and nothing undone, if a later edit
    overlaps.
    """
    picked, latest = _pick(index.vault.journal, entry)
    plan = _plan(index, picked)
    difference, changes = _show(index, plan)
    if not dry_run:
        vault = index.vault
        with vault.change("undo", f"{picked.id}: {picked.verb} {picked.what}", undoes=picked.id, again=True):
            if plan.is_moved:
                vault.move(plan.new, plan.old)
            revert(vault.trash, plan.steps)
        _update_index(index, list(plan.paths))
    newer = None if latest == picked else latest
    return Undone(picked, plan.paths, difference, changes, index.catalog.generation, newer)


def _pick(journal: Journal, entry: int | None) -> tuple[Entry, Entry | None]:
    """Return the entry to undo, and the latest of all. Raises MemoryNotFound as `undo` does."""
    if entry is not None:
        picked = journal.get(entry)
        return picked, picked
    own, latest = journal.latest(CALLER.get()), journal.latest()
    if own is not None:
        return own, latest
    if latest is not None:
        raise MemoryNotFound(
            f"This session changed nothing that is left to undo. The latest change is {latest.described}.",
            f"undo({latest.id}) takes that one back.",
        )
    lost = journal.lost
    hint = f"{lost}." if lost else "`spellbook log` lists what tools and commands changed."
    raise MemoryNotFound("There is nothing to undo.", hint)


@dataclass(frozen=True, slots=True)
class _UndoPlan:
    """
    The work of an undo: the files that go back from `new` to `old`, if that move `is_moved` still, and steps, of which
    `at` has the present path of each file.
    """

    old: str
    new: str
    is_moved: bool
    moved: list[tuple[str, str]]
    steps: list[Step]
    at: dict[str, str]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it changes, by their paths before and after it."""
        moved = (path for pair in self.moved for path in pair)
        return tuple(dict.fromkeys([*moved, *(step.path for step in self.steps)]))


def _plan(index: Index, picked: Entry) -> _UndoPlan:
    """Return how to undo an entry. Raises as `undo` does."""
    vault = index.vault
    old, new = moves.paths_of_move(vault.journal, picked) or ("", "")
    is_moved = bool(old) and _is_moved(index, picked, old, new)
    moved: list[tuple[str, str]] = []
    if is_moved:
        files = vault.files(new) if vault.locate(new).is_dir() else [new]
        moved = [(path, names.after_move(path, new, old)) for path in files]
    # Of a move the changes are as of files that were never moved: the files go back first.
    traces = net([trace._replace(path=names.after_move(trace.path, new, old)) for trace in picked.traces])
    at = {trace.path: names.after_move(trace.path, old, new) if is_moved else trace.path for trace in traces}
    steps = [step for trace in traces if (step := _plan_step(index, picked, trace, at[trace.path]))]
    return _UndoPlan(old, new, is_moved, moved, steps, at)


def _show(index: Index, plan: _UndoPlan) -> tuple[str, tuple[tuple[str, str, str], ...]]:
    """Return the difference that an undo makes, and the texts of each file in it, before and after."""
    # What a note leaves in the trash, or takes from there, is the note itself.
    shown = [step for step in plan.steps if not step.path.startswith(f"{names.TRASH}/")] or plan.steps
    parts = [f"rename from {one_line(here)}\nrename to {one_line(there)}" for here, there in plan.moved]
    changes: list[tuple[str, str, str]] = []
    for step in shown:
        texts = _texts_of(index, step, plan.at[step.path])
        old = f"a/{step.path}" if step.now is not None else "/dev/null"
        new = f"b/{step.path}" if step.earlier is not None else "/dev/null"
        parts.append(_compare(index, step.path, texts, old, new))
        if _is_shown(index, step.path):
            now, earlier = (_decode(step.path, text) for text in texts)
            changes.append((step.path, now, earlier))
    return "\n".join(parts), tuple(changes)


def chosen(index: Index, since: str = "", now: float | None = None) -> list[Entry]:
    """
    Return the changes to undo, newest first: those since a time (ISO 8601, or `10m`, `2h`, `3d` ago), else those of the
    last session.

    The log names sessions; without a name, pauses of half an hour end one. Raises InvalidInput for an invalid time.
    """
    listed = (entry for entry in index.vault.journal.entries() if entry.verb != BY_ITSELF)
    entries = [entry for entry in listed if entry.undoes is None and not entry.is_undone]
    if since:
        if ago := re.fullmatch(r"(\d{1,6})\s*([mhd])", since.strip()):
            begin = (time.time() if now is None else now) - int(ago[1]) * _SECONDS[ago[2]]
        elif (at := instant(since.strip())) is not None:
            begin = at
        else:
            hint = "Write 10m, 2h, 3d, or a time such as 2026-10-15 14:30."
            raise InvalidInput(f"{since!r:.80} is not a time.", hint)
        return [entry for entry in entries if entry.at >= begin]
    if entries and (session := entries[0].session):
        return [entry for entry in entries if entry.session == session]
    run = entries[:1]
    for entry in entries[1:]:
        if entry.session or run[-1].at - entry.at >= _PAUSE:
            break
        run.append(entry)
    return run


def undo_all(index: Index, entries: Sequence[Entry]) -> list[Undone]:
    """Undo changes in their order, all or none. Raises as `undo` does, for the first that cannot be undone."""
    done: list[Undone] = []
    try:
        for entry in entries:
            done.append(undo(index, entry.id))
    except SpellbookError:
        undos = {each.undoes: each.id for each in reversed(index.vault.journal.entries()) if not each.is_undone}
        for each in reversed(done):
            undo(index, undos[each.entry.id])
        raise
    return done


def _is_moved(index: Index, entry: Entry, old: str, new: str) -> bool:
    """Return whether a move's file is at `new`, else it is back. Raises Conflict, MemoryNotFound if at neither."""
    was, now = map(index.vault.locate, (old, new))
    is_moved, is_back = os.path.lexists(now), os.path.lexists(was)
    if is_moved and is_back and not disk.is_same_name(now, was):
        raise Conflict(f"{old}: something is there already.", "Nothing was undone; move it away first.")
    if not is_moved and not is_back:
        raise MemoryNotFound(
            f"{new}: what entry {entry.id} moved there is not there any more.",
            "Nothing was undone; other entries can be undone by their numbers.",
        )
    return is_moved


def restore(index: Index, name: str) -> tuple[str, ...]:
    """
    Restore erased notes and return the restored paths; `name` is a path in the trash, or an erased id, path, topic.

    A section returns to its place in its note; if that has changed, it becomes a note. Raises MemoryNotFound.
    """
    entry, in_trash = _find_erased(index, name)
    if entry is not None:
        try:
            undo(index, entry.id)
            return tuple(trace.path for trace in entry.traces if trace.path not in in_trash)
        except (Conflict, MemoryNotFound):
            if not in_trash:
                raise
    with index.vault.change("restore", name, again=True):
        homes = [index.vault.trash.restore(path) for path in in_trash]
    _update_index(index, homes)
    return tuple(homes)


def _find_erased(index: Index, name: str) -> tuple[Entry | None, list[str]]:
    """Return the entry to undo to restore `name`, None if it erased other notes too, and the paths in the trash."""
    journal = index.vault.journal
    if name.startswith(f"{names.TRASH}/"):
        made = journal.made(name)
        if made is None or made.is_undone or made.verb not in {*_ERASING, "merge", "undo"}:
            return None, [name]
        return made if any(trace.before and trace.after for trace in made.traces) else None, [name]
    erased = [entry for entry in journal.entries() if entry.verb in _ERASING and not entry.is_undone]
    # A section that was erased alone, by its id, else the note that it went with.
    ids = dict.fromkeys((name, name.rpartition("#")[0] or name))
    for wanted, entry in product(ids, erased):
        trash = {trace.after: trace.path for trace in entry.traces if trace.before is None}
        if entry.what == wanted:
            return entry, list(trash.values())
        for trace in entry.traces:
            if trace.after is None and wanted in {trace.path, without_ending(trace.path)} and trace.before in trash:
                return None, [trash[trace.before]]
    raise MemoryNotFound(
        f"Nothing called {name[:200]!r} was erased.", f"Give a path in {index.vault.root / names.TRASH}."
    )


def _plan_step(index: Index, entry: Entry, trace: Trace, at: str) -> Step | None:
    """Return how to undo a change of one file, which lies at `at`; None if nothing is to do."""
    now = states(index.vault, at)
    if trace.after is None and trace.before not in now and (index.vault.root / trace.path).is_dir():
        now = set()  # a folder of other files of this entry, or something is in the way
    if not now and trace.after is not None and (home := _home_of(index, entry, trace, at)):
        raise Conflict(
            f"{trace.path}: the note was moved since, to {home}.",
            "Nothing was undone; undo the move first, or change the note where it is.",
        )
    if _is_in(trace.before, now):
        return None
    if not _is_in(trace.after, now) and (now or not _in_trash(index, entry, trace.before)):
        return _plan_merge(index, entry, trace, at if now else "")
    is_kept = trace.before is None or index.vault.journal.text(trace.before) is not None
    if not is_kept and not _in_trash(index, entry, trace.before):
        raise _not_kept(entry)
    return Step(trace.path, trace.after if now else None, trace.before, trace.mode)


def _is_in(state: str | None, now: set[str]) -> bool:
    """Say whether a file with the states `now` has this state; None is no file."""
    return state in now or (state is None and not now)


def _plan_merge(index: Index, entry: Entry, trace: Trace, at: str) -> Step | None:
    """Return how to undo a change of a note that was edited since, and is `at` a path, "" if it is gone."""
    before, after = (index.vault.journal.text(sha256) if sha256 else None for sha256 in (trace.before, trace.after))
    is_lost = (trace.before and before is None) or (trace.after and after is None)
    if is_lost and is_markdown(trace.path):
        raise _not_kept(entry)
    data = index.vault.read(at)[0] if at and not is_lost else None
    earlier = None if before is None or after is None or data is None else _merge(trace.path, after, data, before)
    if earlier is None:
        raise Conflict(
            f"{trace.path}: the file was changed since entry {entry.id} ({entry.verb} {entry.what}) in the same place.",
            "Nothing was undone; undo that change first, edit the file, or undo another entry by its number.",
            _compare(index, trace.path, (after, data), f"then/{trace.path}", f"now/{trace.path}"),
        )
    if data is None or earlier == data:
        return None
    return Step(trace.path, digest(data), digest(earlier), trace.mode, earlier)


def _in_trash(index: Index, entry: Entry, state: str | None) -> bool:
    """Say whether another file of the entry has this state now: one that it moved, or that is in the trash."""
    places = (trace.path for trace in entry.traces if trace.after == state)
    return state is not None and any(state in states(index.vault, path) for path in places)


def _not_kept(entry: Entry) -> MemoryNotFound:
    return MemoryNotFound(
        f"What entry {entry.id} ({entry.verb} {entry.what}) changed is not kept.",
        "It was erased for good, or too much was changed since; nothing was undone. "
        "Others can be undone by their numbers.",
    )


def _home_of(index: Index, entry: Entry, trace: Trace, at: str) -> str | None:
    """Return the current path of a note that an entry left at `at`, by the log or its id; None if it was not moved."""
    if at.startswith(f"{names.TRASH}/"):
        return None
    line = [each for later in index.vault.journal.of_note(at) if later.id > entry.id for each in later.traces]
    paths = [each.path for each in reversed(line) if each.after is not None]
    text = index.vault.journal.text(trace.after or "")
    with contextlib.suppress(UnreadableNote):
        if id := parse(trace.path, text).declared_id if text else None:
            paths += (chunk.path for chunk in index.catalog.note(id))
    return next((path for path in paths if path != at and index.vault.stamp(path)), None)


def _merge(path: str, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    try:
        notes = [parse(path, data) for data in (base, ours, theirs)]
        text = edits.merged(*(note.text for note in notes))
        if text is None or len({note.encoding for note in notes}) > 1:
            return None
        note = parse(path, notes[0].encode(text))
        return note.encode(threeway.guard(note, *notes[1:]))
    except (Conflict, InvalidInput, UnreadableNote):
        return None


def _decode(path: str, data: bytes | None) -> str:
    try:
        return "" if data is None else parse(path, data).text
    except UnreadableNote:
        return f"({counted(len(data or b''), 'byte')} that cannot be read as text)"


def _texts_of(index: Index, step: Step, at: str) -> tuple[bytes | None, bytes | None]:
    """Return the text of a step's file as it is, and as it is put back; None where there is none."""
    is_text = step.now and not step.now.startswith(INODE) and is_logged(at, index.vault.locate(at))
    now = index.vault.read(at)[0] if is_text else None
    return now, step.text or index.vault.journal.text(step.earlier or "")


def _is_shown(index: Index, path: str) -> bool:
    """Return whether the texts of a file are shown: not of canvases and excluded notes."""
    return path.startswith(f"{names.TRASH}/") or index.vault.is_note(path)


def _compare(index: Index, path: str, texts: tuple[bytes | None, bytes | None], *names: str) -> str:
    """Return the difference of two texts of a file under two names; the names alone of one that is not shown."""
    if _is_shown(index, path):
        return unified(*(_decode(path, text) for text in texts), *names)
    return "--- {}\n+++ {}".format(*names) if texts[1] else ""


def _update_index(index: Index, paths: list[str]) -> None:
    notes = [path for path in paths if index.vault.is_note(path)]
    if notes:
        sync.scan_paths(index, notes)
    for path in notes[:_MOST_EMBEDDED]:
        embed_note(index, path)
