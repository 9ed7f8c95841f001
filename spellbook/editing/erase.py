"""Erasing a section, a note, a topic; never what somebody changed meanwhile. What was erased leaves tombstones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spellbook.editing import edits
from spellbook.editing.erase_for_good import Traces, forget
from spellbook.editing.memory import AGENT
from spellbook.editing.revise import TRIES, embed_note, find_section, keeps_changing, sections
from spellbook.index import privacy, sync
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import conditions, instant
from spellbook.index.lookup import named
from spellbook.index.opened import Index
from spellbook.notes.frontmatter import compose
from spellbook.notes.note import parse
from spellbook.system.errors import Conflict, MemoryNotFound, StorageError, UnreadableNote
from spellbook.text.quoting import counted, flat
from spellbook.text.sentences import ways
from spellbook.text.unicode import without_ending
from spellbook.vault.folder import digest

LEFT = "Earlier snapshots and git's history still have it."
_NAMELESS = "erased"
"""The name in the journal of notes that are erased for good and have no id in their frontmatter."""
_DAY = 86_400.0  # seconds


@dataclass(frozen=True, slots=True)
class Erased:
    """
    An erasing: `erased` in words, the ids of its chunks, and their paths in the trash, none if deleted for good.

    `warnings` say why it may be written again unasked: no tombstone could be kept.
    """

    erased: str
    chunk_ids: tuple[str, ...]
    trash: tuple[str, ...]
    generation: int
    warnings: tuple[str, ...] = ()


def erase(index: Index, id: str, *, hard: bool = False, whole: bool = False) -> Erased:
    """
    Erase a note (by id or path) or one chunk (by its own id); a note's only chunk, or any with `whole`, is the note.

    Erased text goes to the trash unless `hard`; no file of the state folder holds it then, which a repeated call
    completes after a kill. A section of a longer note is kept in the trash as a file.
    """
    with _for_good(index, hard) as traces:
        [chunk, *_], is_note = named(index, id, to_change=True)
        siblings = index.catalog.at(chunk.path)
        what = str(chunk.meta.get("id") or _NAMELESS) if hard else ""
        if is_note or whole or len(siblings) == 1:
            count, title = sections(siblings), flat(chunk.title)
            called = f"the note {title} ({counted(count, 'section')})" if count > 1 else f"the note {title}"
            return _erase_whole(index, traces, siblings, called, what or (id if is_note else chunk.note), hard=hard)
        traces.add(index, [chunk])
        trash, warnings = _erase_section(index, chunk, what or chunk.id, hard)
        sync.scan_paths(index, [chunk.path])
        if not hard:
            embed_note(index, chunk.path)
        return Erased(_place_of(chunk, siblings), (chunk.id,), trash, index.catalog.generation, warnings)


def _place_of(chunk: StoredChunk, siblings: Sequence[StoredChunk]) -> str:
    """Describe a chunk within its note: a section, the text above the first one, or a part of either."""
    section = chunk.suffix.partition("~")[0]
    parts = [part for part in siblings if part.suffix.partition("~")[0] == section]
    heading, title = flat(parts[0].heading or section[1:]), flat(chunk.title)
    name = f"the text above the first section of {title}" if section == "#" else f"the section {heading} of {title}"
    return f"part {1 + parts.index(chunk)} of {len(parts)} of {name}" if len(parts) > 1 else name


def erase_topic(index: Index, topic: str, category: str | None, *, hard: bool = False) -> Erased:
    """Erase every note of a topic. Raises MemoryNotFound if there is none."""
    stored = index.catalog.topic(topic, category, index.visible)
    if not stored:
        raise MemoryNotFound(f"There is no topic {topic!r:.200}.", "get_index lists the topics.")
    name = "/".join(filter(None, (category, topic)))
    count = counted(len({chunk.path for chunk in stored}), "note")
    return erase_notes(index, stored, f"the topic {flat(name)} ({count})", name, hard=hard)


def erase_notes(
    index: Index, stored: Sequence[StoredChunk], called: str, what: str, verb: str = "forget", *, hard: bool = False
) -> Erased:
    """Erase whole notes as one change, or none if one was edited (Conflict); `called`, `verb`, `what` describe it."""
    with _for_good(index, hard) as traces:
        return _erase_whole(index, traces, stored, called, _NAMELESS if hard else what, verb, hard=hard)


def _erase_whole(
    index: Index,
    traces: Traces,
    stored: Sequence[StoredChunk],
    called: str,
    what: str,
    verb: str = "forget",
    *,
    hard: bool,
) -> Erased:
    """Erase the notes of chunks as `erase_notes` does, and add them to `traces`."""
    traces.add(index, stored)
    paths = list(dict.fromkeys(chunk.path for chunk in stored))
    with index.vault.change(verb, what, for_good=hard):
        trash, warnings = _remove(index, paths, hard, is_asked=verb != "tidy")
    return Erased(called, tuple(chunk.id for chunk in stored), trash, index.catalog.generation, warnings)


@contextlib.contextmanager
def _for_good(index: Index, hard: bool) -> Iterator[Traces]:
    """Yield the traces of what is erased; if that is for good, remove them in the end, whatever happened."""
    traces = Traces()
    try:
        yield traces
    finally:
        if hard:
            forget(index, traces)


@contextlib.contextmanager
def _buried(index: Index, texts: Sequence[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Keep tombstones of texts, each with its note's id, unless they are not erased; yield warnings."""
    try:
        new = index.vault.tombstones.keep(texts, AGENT.get())
    except StorageError as error:
        yield (f"it may be written again: {error.message}",)
        return
    try:
        is_known = any(any(ways(text)) for _, text in texts)
        reason = "none of its sentences is long enough to be known again: it may be written again"
        yield () if is_known else (reason,)
    except BaseException:
        index.vault.tombstones.lift(new)
        raise


def _remove(
    index: Index, paths: Sequence[str], hard: bool, *, is_asked: bool = True
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Remove whole notes if all are as the index knows them, else none, with tombstones if `is_asked`.

    Return the paths in the trash, and warnings.
    """
    known = index.catalog.notes.known(paths)
    there = [path for path in paths if index.vault.stamp(path)]  # the others were deleted in the meantime
    there = there or ([] if hard else [paths[0]])
    changed = [path for path in there if digest(index.vault.read(path)[0]) != known[path].sha256]
    if changed:
        sync.scan_paths(index, paths)
        raise Conflict(
            f"{changed[0]}: the file was changed since it was read.", "Look at it again and repeat; nothing was erased."
        )
    texts = [_text(path, index.vault.read(path)[0]) for path in there if is_asked]
    try:
        with _buried(index, texts) if is_asked else contextlib.nullcontext(()) as warnings:
            kept = [index.vault.trash.remove(path, known[path].sha256, hard=hard) for path in there]
            return tuple(filter(None, kept)), warnings
    finally:
        sync.scan_paths(index, paths)


def _text(path: str, data: bytes) -> tuple[str, str]:
    """Return the id that a note has in its frontmatter, and its text."""
    with contextlib.suppress(UnreadableNote):
        note = parse(path, data)
        return note.declared_id or _NAMELESS, note.body
    return _NAMELESS, ""


def _erase_section(index: Index, chunk: StoredChunk, what: str, hard: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remove one section as `_remove` does notes."""
    for _ in range(TRIES):
        data = index.vault.read(chunk.path)[0]
        note = parse(chunk.path, data)
        piece = find_section(index, note, chunk, None, "")
        left = note.encode(edits.without(note, piece))
        label = privacy.kept_label({}, note.meta)
        kept_text = compose(label, piece.text) if label else piece.text
        copy = note.encode(("\ufeff" if note.encoding != "utf-8" else "") + kept_text)
        name = f"{without_ending(chunk.path.rpartition('/')[2])} {piece.suffix.strip('#')}".strip()
        try:
            texts = [(note.declared_id or _NAMELESS, piece.text)]
            with index.vault.change("forget", what, for_good=hard), _buried(index, texts) as warnings:
                trash = () if hard else (index.vault.trash.keep(chunk.path, name, copy),)
                index.vault.write(chunk.path, left, digest(data))
            return trash, warnings
        except Conflict:
            continue
    raise keeps_changing(chunk.path)


# -- working memories: nothing else is ever forgotten by itself


def due(index: Index, days: float, now: float) -> list[StoredChunk]:
    """
    Return the first chunk of each working memory that may be forgotten at `now` (seconds since 1970), oldest first.

    Such a note has an `id` and `type: working`, is not pinned, and was neither edited (by its file's time too) nor
    opened for `days`.
    """
    paths = index.catalog.paths((*conditions({"type": "working"}), *index.visible))
    firsts = (chunk for path in paths for chunk in index.catalog.at(path)[:1])
    notes = [note for note in firsts if note.meta.get("id") and note.meta.get("pinned") is not True]
    uses = index.catalog.usage.of(note.note for note in notes)

    def touched(note: StoredChunk) -> float:
        dates = (instant(text) or 0.0 for text in (note.created, note.updated))
        used = uses.get(note.note)
        return max(*dates, note.mtime_ns / 1e9, used.last if used else 0.0)

    old = [note for note in notes if touched(note) <= now - days * _DAY]
    return sorted(old, key=lambda note: (touched(note), note.path))


def forget_working(index: Index, days: float | None = None) -> Erased | None:
    """Move due working memories to the trash, as one change; None if none is due. `days` defaults to `working_days`."""
    notes = due(index, index.config.working_days if days is None else days, time.time())
    count = counted(len(notes), "note")
    return erase_notes(index, notes, f"working memories ({count})", "working memories", "tidy") if notes else None
