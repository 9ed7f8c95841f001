"""Revising a section, keys or a note; never over what somebody changed meanwhile."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spellbook.editing import edits
from spellbook.editing.derived_labels import made_title
from spellbook.editing.memory import AGENT, Findings, Memory, metadata
from spellbook.editing.superseding import meant, replacing
from spellbook.index import embed, privacy, sync
from spellbook.index.catalog.rows import StoredChunk, hash_of
from spellbook.index.filters import bound, validity
from spellbook.index.lookup import named
from spellbook.index.opened import Index
from spellbook.notes import chunks, dates
from spellbook.notes.frontmatter import load_value
from spellbook.notes.note import Note, parse
from spellbook.notes.relations import SUPERSEDES
from spellbook.notes.titles import begins_with
from spellbook.system.errors import Conflict, EmbeddingError, InvalidInput, MemoryNotFound, StorageError
from spellbook.text import credentials
from spellbook.text.diff import unified
from spellbook.text.unicode import without_ending
from spellbook.vault.folder import digest
from spellbook.vault.names import note_name

TRIES = 100
"""Attempts to write a file that another program changes at the same moment."""
_MOST_QUESTIONS = 10  # questions that an answer names
_EMBED_AT_ONCE = 64  # chunks that a caller waits for


@dataclass(frozen=True, slots=True)
class Revision:
    """
    A requested change of a section or a note: its text, its frontmatter, or both.

    Text: a new `content`, text to `append`, or a phrase to `replace`, unique unless `every` is set. Frontmatter:
    `metadata` to set; None removes a key. `expected_hash` is the hash of the section, or the file's sha256, as the
    caller read it. Text that looks like a secret is only written with `force`, text that was erased with `again`, which
    is by default as `force`.
    """

    content: str | None = None
    append: str | None = None
    replace: tuple[str, str] | None = None
    every: bool = False
    metadata: Mapping[str, Any] | None = None
    expected_hash: str | None = None
    dry_run: bool = False
    force: bool = False
    again: bool | None = None


@dataclass(frozen=True, slots=True)
class Revised:
    """
    A changed section or note: its id, its path, and the `difference` as a unified diff.

    `hash` is that of the section; of a note with several, the first 16 hex digits of the file's sha256.
    `questions_to_check` may have no answer any more.
    """

    chunk_id: str
    path: str
    generation: int
    difference: str
    hash: str
    warnings: tuple[str, ...] = ()
    questions_to_check: tuple[str, ...] = ()


def revise(index: Index, id: str, revision: Revision) -> Revised:
    """
    Change the text of one section, frontmatter keys, or both, and no other byte; an existing `updated` is set.

    `id` names a section, or a whole note unless `content` is given. Raises MemoryNotFound; InvalidInput for a senseless
    request, unstorable text, or a secret without `force`; Conflict, with nothing written, if the section changed.
    """
    changes = _check_request(revision)
    with contextlib.suppress(MemoryNotFound, InvalidInput):  # what names no note, or one that is gone, stays as it is
        changes |= replacing(meant(index, changes.get(SUPERSEDES)))
    for _ in range(TRIES):
        [chunk, *_], is_note = named(index, id, to_change=True)
        data = index.vault.read(chunk.path)[0]
        note = parse(chunk.path, data)
        if AGENT.get() and index.config.review and privacy.waits(note.meta) and "status" in changes:
            what = f"{chunk.path}: it waits for the person, who alone changes its status."
            raise InvalidInput(what, "They keep it, on the first page or by `spellbook keep`; nothing was changed.")
        text = _revise_text(index, chunk, (note, digest(data)), revision, is_note=is_note)
        text = _set_meta(chunk.path, note, text, {**_made_title(note, text), **changes})
        difference = unified(note.text, text, f"a/{chunk.path}", f"b/{chunk.path}")
        secrets = tuple(
            f"line {secret.line} looks like it holds {secret.kind}" for secret in credentials.new(note.text, text)
        )
        remarks = *secrets, *_remark_name(note, parse(note.path, note.encode(text)))
        is_rewritten = revision.content is not None and text != note.text and "questions" not in changes
        questions = note.questions[:_MOST_QUESTIONS] if is_rewritten else ()
        if revision.dry_run or text == note.text:
            return _result(index, chunk, data, difference, is_note, remarks, questions)
        if secrets and not revision.force:
            raise InvalidInput(f"{chunk.path}: {'; '.join(secrets)}.", credentials.HINT)
        try:
            with index.vault.change("edit", id, again=revision.force if revision.again is None else revision.again):
                index.vault.write(chunk.path, note.encode(text), digest(data))
        except Conflict:
            continue  # changed at the same moment: check again whether the parts overlap
        sync.scan_paths(index, [chunk.path])
        embed_note(index, chunk.path)
        return _result(index, chunk, note.encode(text), difference, is_note, remarks, questions)
    raise keeps_changing(chunk.path)


def _made_title(note: Note, text: str) -> dict[str, Any]:
    """Return the title of a memory, as metadata to set, if it was its first sentence and is not any more."""
    title, body = str(note.meta.get("title") or ""), parse(note.path, note.encode(text)).body.strip()
    is_made = note.kind == "memory" and begins_with(note.body.strip(), title)
    return {"title": made_title(body)} if is_made and body and not begins_with(body, title) else {}


def _remark_name(before: Note, after: Note) -> Iterator[str]:
    """Yield what the file of a memory would be called now, if its name was made of the title or the text before."""
    stem = without_ending(before.path.rpartition("/")[2])
    for made in (True, False) if before.kind == "memory" else ():  # a made title stands in a note as a given one does
        metas = [{} if made else {"title": note.title} for note in (before, after)]
        old = note_name(Memory(before.body.strip(), metas[0]).name)
        new = note_name(Memory(after.body.strip(), metas[1]).name)
        if stem == old != new:
            yield f"the file is still called {stem}; {new} fits the new text, if you move it"


def keeps_changing(path: str) -> Conflict:
    return Conflict(f"{path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was written.")


def _check_request(revision: Revision) -> dict[str, Any]:
    """Return the metadata to set. Raises InvalidInput for a contradictory or empty request."""
    texts = [text for text in (revision.content, revision.append, revision.replace) if text is not None]
    if not texts and not revision.metadata:
        raise InvalidInput("There is nothing to revise.", "Give content, metadata, or both; or append, or replace.")
    if len(texts) > 1:
        raise InvalidInput(
            "Content, append and replace are three ways to change a text.", "Give one of them; nothing was changed."
        )
    for text in (revision.content, revision.append):
        if text is not None and not text.strip():
            raise InvalidInput("The new content is empty.", "erase(id) removes a section.")
    if any("\0" in part for text in texts for part in ((text,) if isinstance(text, str) else text)):
        raise InvalidInput("The new content holds NUL.", "Take it out; nothing was changed.")
    findings = Findings()
    changes = metadata(revision.metadata or {}, findings)
    if findings.errors or (revision.metadata and not changes):
        raise InvalidInput(
            f"The metadata cannot be kept: {'; '.join(findings.errors or findings.warnings)}.", "Nothing was changed."
        )
    return changes


def _result(
    index: Index, chunk: StoredChunk, data: bytes, difference: str, is_note: bool, *remarks: tuple[str, ...]
) -> Revised:
    """Return the result for a chunk or its whole note; `data` are the bytes of the file now."""
    after = index.catalog.at(chunk.path)
    now = next((row for row in after if row.ordinal == chunk.ordinal), chunk)
    sha = now.hash if len(after) == 1 or not is_note else digest(data)[:16]
    return Revised(now.note if is_note else now.id, chunk.path, index.catalog.generation, difference, sha, *remarks)


def _revise_text(index: Index, chunk: StoredChunk, read: tuple[Note, str], revision: Revision, *, is_note: bool) -> str:
    """Return the new text of a note. `read` is the note and the sha256 of its file."""
    note, sha256 = read
    siblings = index.catalog.at(chunk.path)
    if revision.content is not None and is_note and len(siblings) > 1:
        raise InvalidInput(
            f"{chunk.note!r:.200} is a note of {sections(siblings)} sections, and the content is for one.",
            f"Name the section: {chunk.id!r:.300} is the first; nothing was changed.",
        )
    if revision.content is not None:
        piece = find_section(index, note, chunk, revision.expected_hash, sha256, revision.content)
        return edits.rewrite(note, piece, revision.content)
    if revision.expected_hash:
        find_section(index, note, chunk, revision.expected_hash, sha256)
    start, end = note.body_at, len(note.text)
    if not is_note:  # a section with all its parts, as it is in the file now
        cut = chunks.cut(note, index.config.chunk_tokens)
        parts = [part for part in cut if part.suffix == chunk.suffix or part.suffix.startswith(f"{chunk.suffix}~")]
        if not parts:
            raise Conflict(
                f"{note.path}: the section {chunk.suffix} is not there any more.",
                "Read the note again; nothing was written.",
            )
        start, end = parts[0].start, parts[-1].end
    if revision.append is not None:
        return edits.appended(note, start, end, revision.append)
    if revision.replace is not None:
        return edits.replaced(note, start, end, revision.replace, every=revision.every)
    return note.text


def sections(siblings: Sequence[StoredChunk]) -> int:
    return len({chunk.suffix.partition("~")[0] for chunk in siblings})


def embed_note(index: Index, path: str) -> None:
    """Embed the pending chunks and labels of the note at `path`. If that fails they stay pending."""
    stored = index.catalog.at(path)
    rows = index.catalog.waiting.texts([chunk.key for chunk in stored]) if stored else []
    with contextlib.suppress(EmbeddingError, StorageError):  # the change is made, and found by words
        # The rest of a long note is left to the next run.
        embed.embed_and_store(index, rows[:_EMBED_AT_ONCE])
        embed.embed_labels(index, [path])


def find_section(
    index: Index, note: Note, chunk: StoredChunk, expected: str | None, sha256: str, wanted: str | None = None
) -> chunks.Chunk:
    """Return the section as it is in the file now. Raises Conflict, with a diff to the `wanted` text, if it changed."""
    piece = next((part for part in chunks.cut(note, index.config.chunk_tokens) if part.suffix == chunk.suffix), None)
    seen = expected or hash_of(chunk.text)
    is_same = piece is not None and (
        hash_of(piece.text) == seen[:16] or (len(seen) >= 16 and bool(expected) and sha256.startswith(seen))
    )
    if piece is None or not is_same:
        sync.scan_paths(index, [chunk.path])
        raise Conflict(
            f"{chunk.path}: the section {chunk.id} was changed meanwhile.",
            "Read it again and repeat; nothing was written.",
            unified(piece.text, wanted, f"{chunk.id} now", f"{chunk.id} yours") if piece and wanted is not None else "",
        )
    return piece


def _set_meta(path: str, before: Note, text: str, changes: Mapping[str, Any]) -> str:
    wanted = dict(changes)
    if text != before.text or changes:
        wanted |= date_of_change(before)
    note = parse(path, before.encode(text))
    named = {edits.written(note, key): value for key, value in wanted.items()}
    wanted = {key: _dated(value, note.meta.get(key)) for key, value in named.items()}
    wanted = {key: value for key, value in wanted.items() if key in note.meta or value is not None}
    after = {key: value for key, value in {**note.meta, **wanted}.items() if key not in wanted or value is not None}
    if not changes.keys().isdisjoint(dates.VALID) and (valid := validity(after))[1] < valid[0]:
        raise InvalidInput(f"{path}: valid_until is before valid_from.", "Nothing was changed.")
    wanted |= privacy.kept_label(after, before.meta)
    return edits.with_meta(note, wanted) if wanted and (changes or note.editable) else text


def _dated(value: object, old: object) -> object:
    """Return a text as the date that it is, for frontmatter without quotes, unless `old` is a text too."""
    if isinstance(value, list):
        return [_dated(each, old[0] if isinstance(old, list) and old else old) for each in value]
    read = load_value(value) if isinstance(value, str) and not isinstance(old, str) else value
    return read if isinstance(read, dt.date) else value


def date_of_change(note: Note) -> dict[str, object]:
    """Return the keys that say when a note was changed, and by which agent, as of now; {} if it has none of them."""
    key, _ = dates.find(note.meta, dates.UPDATED)
    now = _now_like(note.meta.get(key))
    return ({key: now} if now else {}) | _generated(note.meta)


def _generated(meta: Mapping[str, Any]) -> dict[str, object]:
    """Return `generated` as of now, for a note that has it, and for a confirmed one that an agent changes."""
    generated, by = meta.get(privacy.GENERATED), AGENT.get()
    confirmed = [bound(at) or 0.0 for _, at in privacy.verifications(meta)]
    if not isinstance(generated, Mapping):
        if not by or not (confirmed or "agent" in meta):
            return {}
        generated = {}
    now = dt.datetime.now().astimezone().replace(microsecond=0)
    if now.timestamp() in confirmed:  # the text was confirmed before, though within the same second
        now += dt.timedelta(seconds=1)
    return {privacy.GENERATED: {**generated, "by": by or generated.get("by"), "at": now}}


def _now_like(old: object) -> object:
    """Return the time now in the form of `old`: a date, a time with or without zone, or a text of one; else None."""
    now = dt.datetime.now().astimezone().replace(microsecond=0)
    if isinstance(old, dt.datetime):
        return now if old.tzinfo else now.replace(tzinfo=None)
    if isinstance(old, dt.date):
        return now.date()
    if isinstance(old, int):
        return int(now.timestamp()) * 1000 ** (old >= 10**12)
    if not isinstance(old, str):
        return None
    try:
        time_before = dt.datetime.fromisoformat(old)
    except ValueError:
        day = dates.iso(old) or ""
        return old.replace(day, now.date().isoformat()) if day in old else now.isoformat(" ", "minutes")[:16]
    if len(old) <= 10:
        return now.date().isoformat()
    precise = "seconds" if re.match(r"\d\d:\d\d:\d\d", old[11:]) else "minutes"
    return (now if time_before.tzinfo else now.replace(tzinfo=None)).isoformat(old[10], precise)
