"""
Writing into the vault: keep a memory, revise a section, erase.

The file first, the index after: a crash in between heals at the next sync. A
file that somebody changed meanwhile is read again and the change applied to
what it now holds, or refused; it is never written over.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ulid import ULID

from spellbook import chunks, edits, sync
from spellbook.catalog.schema import Found
from spellbook.chunks import Chunk
from spellbook.errors import Conflict, EmbeddingError, InvalidInput, MemoryNotFound, SpellbookError
from spellbook.index import Index
from spellbook.memory import BROKEN, Findings, Memory, metadata
from spellbook.notes import Note, Stamp, parse
from spellbook.search import Searcher
from spellbook.vault import digest

DUPLICATE = 0.95
"""From this score on a text says what another one says already."""

_TRIES = 100
"""Each time a file changed in the very moment it was written; somebody else got on."""
_EMBED_AT_ONCE = 64
_MOST_ID = 5_000


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A chunk that a new text repeats; `score` is 1 for the same words, `difference` shows what is not the same."""

    id: str
    path: str
    title: str
    score: float
    difference: str


@dataclass(frozen=True, slots=True)
class Written:
    """A note that was written: the id of its first chunk, its path, and the generation that has it."""

    chunk_id: str
    path: str
    generation: int
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Revised:
    """A note that was changed, and the change as a unified difference."""

    chunk_id: str
    path: str
    generation: int
    difference: str


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased: ids of chunks, and where it can be found again, "" for what was deleted for good."""

    chunk_ids: tuple[str, ...]
    trash: tuple[str, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class _Draft:
    text: str
    rows: tuple[tuple[str, str], ...]  # key and text of what will be embedded
    folds: tuple[str, ...]
    vectors: dict[str, bytes]


def hash_of(text: str) -> str:
    """Return the hash by which a caller names the text of a section it has seen; blank lines around it do not count."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def write(
    index: Index, searcher: Searcher, memories: Sequence[Memory], *, force: bool = False
) -> tuple[list[Written], list[list[Duplicate]]]:
    """
    Write each memory as one note and index it at once; return what was written and what each would repeat.

    Unless `force`, nothing at all is written if one of them repeats a chunk.
    """
    now = dt.datetime.now().astimezone()
    drafts = [_draft(index, memory, str(ULID()), now) for memory in memories]
    repeats = [_duplicates(index, searcher, draft) for draft in drafts]
    for i, draft in enumerate(drafts):
        twin = next((j for j in range(i) if set(drafts[j].folds) & set(draft.folds)), None)
        if twin is not None:
            repeats[i].append(Duplicate("", "", f"chunk {twin + 1} of this call", 1.0, ""))
    if any(repeats) and not force:
        return [], repeats
    for memory in memories:
        index.vault.check_folder(memory.folder)
    paths: list[str] = []
    try:
        for memory, draft in zip(memories, drafts, strict=True):
            paths.append(index.vault.create(memory.folder, memory.name, draft.text.encode("utf-8")))
    except SpellbookError:
        for path, draft in zip(paths, drafts, strict=False):  # all or nothing: the disk filled up half-way, say
            index.vault.remove(path, digest(draft.text.encode("utf-8")), hard=True)
        raise
    for draft in drafts:
        index.catalog.add_vectors(draft.vectors.items())
    sync.some(index, paths)
    return [_written(index, path, draft) for path, draft in zip(paths, drafts, strict=True)], repeats


def _written(index: Index, path: str, draft: _Draft) -> Written:
    found = index.catalog.at(path)
    return Written(found[0].id if found else path, path, index.catalog.generation, not draft.vectors)


def duplicates(index: Index, searcher: Searcher, memory: Memory) -> list[Duplicate]:
    """Return the chunks that `memory` would repeat, likest first."""
    return _duplicates(index, searcher, _draft(index, memory, str(ULID()), dt.datetime.now().astimezone()))


def _draft(index: Index, memory: Memory, id: str, now: dt.datetime) -> _Draft:
    text = memory.note(id, now)
    note = parse(f"{memory.folder}/{memory.name}.md", text.encode("utf-8"))
    pieces = chunks.cut(note, index.config.chunk_tokens)
    entry = sync.entry(index, note, Stamp(0, 0, 0), 0, "")
    rows = tuple({row.key: row.embedded for row in entry.chunks}.items())
    try:
        vectors = dict(sync.vectors(index, rows))
    except EmbeddingError:
        vectors = {}  # found by words at once, by meaning when the embedder is back
    return _Draft(text, rows, tuple(sync.folded(piece.text) for piece in pieces if piece.text.strip()), vectors)


def _duplicates(index: Index, searcher: Searcher, draft: _Draft) -> list[Duplicate]:
    import numpy as np

    same = {found.id: (found, 1.0) for found in index.catalog.by_fold(draft.folds) if found.text.strip()}
    for vector in draft.vectors.values():
        for found, score in searcher.near(np.frombuffer(vector, dtype="<f4"), 3):
            if score >= DUPLICATE:
                same.setdefault(found.id, (found, round(score, 3)))
    body = draft.text.partition("\n---\n")[2].strip()
    ordered = sorted(same.values(), key=lambda pair: -pair[1])
    return [Duplicate(found.id, found.path, found.title, score, _difference(found.text.strip(), body)) for found, score in ordered[:5]]


def revise(
    index: Index,
    chunk_id: str,
    *,
    content: str | None = None,
    meta: Mapping[str, Any] | None = None,
    expected_hash: str | None = None,
) -> Revised:
    """
    Replace the text of one section, set frontmatter keys, or both; a key set to None is removed.

    `expected_hash` is the `hash_of` the section, or the file's sha256, as the
    caller last saw it. Raises MemoryNotFound; InvalidInput for content or
    metadata that cannot be kept; Conflict, with nothing written, if the
    section is not what it was.
    """
    if content is None and not meta:
        raise InvalidInput("There is nothing to revise.", "Give content, metadata, or both.")
    if content is not None and not content.strip():
        raise InvalidInput("The new content is empty.", "To remove a section, use erase.")
    if content is not None and BROKEN.search(content):
        raise InvalidInput("The new content holds NUL or half letters (lone surrogates).", "Take them out; nothing was changed.")
    changes = _changes(meta)
    for _ in range(_TRIES):
        found = resolve(index, chunk_id)
        siblings = index.catalog.at(found.path)
        if content is not None and len(siblings) > 1 and all(each.id != chunk_id for each in siblings):
            raise InvalidInput(
                f"{chunk_id!r} is a note of {len(siblings)} sections, and the content is for one.",
                f"Name the section, {found.id!r} say; nothing was changed.",
            )
        data = index.vault.read(found.path)[0]
        note = parse(found.path, data)
        text = note.text
        if content is not None or expected_hash:
            piece = _piece(index, note, found, expected_hash, digest(data))
            text = edits.rewrite(note, piece, content) if content is not None else text
        text = _with_meta(found.path, note, text, changes)
        if text == note.text:
            return Revised(found.id, found.path, index.catalog.generation, "")
        try:
            index.vault.write(found.path, note.encode(text), digest(data))
        except Conflict:
            continue  # changed in this very moment: look again whether the parts overlap
        sync.some(index, [found.path])
        with_vectors(index, found.path)
        after = index.catalog.at(found.path)
        now = next((each for each in after if each.ordinal == found.ordinal), found)
        return Revised(now.id, found.path, index.catalog.generation, _difference(note.text, text, found.path))
    raise Conflict(f"{found.path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was written.")


def erase(index: Index, id: str, *, hard: bool = False) -> Erased:
    """
    Erase one chunk, or a whole note if `id` names the note and none of its chunks, or it has no other chunk.

    What is erased goes to the trash unless `hard`. One section of a longer
    note is cut out of it, and kept in the trash as a file of its own.
    """
    found = resolve(index, id)
    siblings = index.catalog.at(found.path)
    if len(siblings) == 1 or all(each.id != id for each in siblings):
        [kept] = _remove(index, [found.path], hard)
        gone = tuple(each.id for each in siblings)
    else:
        kept, gone = _erase_section(index, found, hard), (found.id,)
    sync.some(index, [found.path])
    if not hard:
        with_vectors(index, found.path)
    return Erased(gone, (kept,) if kept else (), index.catalog.generation)


def erase_topic(index: Index, topic: str, category: str | None, *, hard: bool = False) -> Erased:
    """Erase every note of a topic. Raises MemoryNotFound if there is none."""
    found = index.catalog.topic(topic, category)
    if not found:
        raise MemoryNotFound(f"There is no topic {topic!r:.200}.", "get_index lists the topics.")
    paths = list(dict.fromkeys(each.path for each in found))
    kept = _remove(index, paths, hard)
    return Erased(tuple(each.id for each in found), tuple(filter(None, kept)), index.catalog.generation)


def _remove(index: Index, paths: Sequence[str], hard: bool) -> list[str | None]:
    """Remove whole notes that are what the index says of them; if one is not, none is removed."""
    known = index.catalog.known(paths)
    there = [path for path in paths if index.vault.stamp(path)] or [paths[0]]  # the others vanished meanwhile
    changed = [path for path in there if digest(index.vault.read(path)[0]) != known[path].sha256]
    if changed:
        sync.some(index, paths)
        raise Conflict(f"{changed[0]}: the file was changed since it was read.", "Look at it again and repeat; nothing was erased.")
    try:
        return [index.vault.remove(path, known[path].sha256, hard=hard) for path in there]
    finally:
        sync.some(index, paths)


def resolve(index: Index, id: str) -> Found:
    """Return the chunk with this id, or the first of the note with this id or path. Raises MemoryNotFound."""
    if len(id) > _MOST_ID:
        raise MemoryNotFound(f"There is no memory {id[:80]!r}….", "Search for it: ids are in every hit.")
    for at in [len(id), *(i for i in range(len(id) - 1, 0, -1) if id[i] in "#~")]:
        found = index.catalog.note(id[:at])
        chunk = next((each for each in found if each.id == id), None)
        if chunk is None and found and at == len(id):
            chunk = found[0]
        if chunk:
            return chunk
    raise MemoryNotFound(f"There is no memory {id[:200]!r}.", "Search for it: ids are in every hit; it may have been erased or renamed.")


def chunks_of(index: Index, id: str) -> list[Found]:
    """Return the chunk with this id, or all chunks of the note with this id or path. Raises MemoryNotFound."""
    return index.catalog.note(id) or [resolve(index, id)]


def with_vectors(index: Index, path: str) -> None:
    """Embed what is still pending of the note at `path`; an embedder that fails leaves it pending."""
    found = index.catalog.at(path)
    rows = index.catalog.texts([each.key for each in found]) if found else []
    with contextlib.suppress(EmbeddingError):
        # A long note that nobody embedded yet is left to the next run.
        index.catalog.add_vectors(sync.vectors(index, rows[:_EMBED_AT_ONCE]))


def _erase_section(index: Index, found: Found, hard: bool) -> str | None:
    for _ in range(_TRIES):
        data = index.vault.read(found.path)[0]
        note = parse(found.path, data)
        piece = _piece(index, note, found, None, "")
        left = note.encode(edits.without(note, piece))
        kept, copy = None, note.encode(("\ufeff" if note.encoding != "utf-8" else "") + piece.text)
        if not hard:
            name = found.path.rpartition("/")[2].removesuffix(".md")
            kept = index.vault.keep(found.path, f"{name} {piece.suffix.strip('#')}".strip(), copy)
        try:
            index.vault.write(found.path, left, digest(data))
        except SpellbookError as error:
            if kept:
                index.vault.forget(kept)
            if isinstance(error, Conflict):
                continue
            raise
        return kept
    raise Conflict(f"{found.path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was written.")


def _piece(index: Index, note: Note, found: Found, expected: str | None, sha256: str) -> Chunk:
    """The section of the file as it is now that the caller means."""
    suffix = _suffix(index, found)
    piece = next((each for each in chunks.cut(note, index.config.chunk_tokens) if each.suffix == suffix), None)
    seen = expected or hash_of(found.text)
    is_same = piece is not None and (hash_of(piece.text) == seen[:16] or (len(seen) >= 16 and bool(expected) and sha256.startswith(seen)))
    if piece is None or not is_same:
        sync.some(index, [found.path])
        raise Conflict(f"{found.path}: the section {found.id} was changed meanwhile.", "Read it again and repeat; nothing was written.")
    return piece


def _suffix(index: Index, found: Found) -> str:
    return found.id.removeprefix(index.catalog.where_is(found.path) or "")


def _changes(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    findings = Findings()
    changes = metadata(meta or {}, findings)
    if findings.errors or (meta and not changes):
        raise InvalidInput(f"The metadata cannot be kept: {'; '.join(findings.errors or findings.warnings)}.", "Nothing was changed.")
    return changes


def _with_meta(path: str, before: Note, text: str, changes: Mapping[str, Any]) -> str:
    wanted = dict(changes)
    if text != before.text or changes:
        now = dt.datetime.now().astimezone().replace(microsecond=0)
        old = before.meta.get("updated")
        # Kept up where the note has it, in the form it has.
        if isinstance(old, dt.datetime):
            wanted["updated"] = now if old.tzinfo else now.replace(tzinfo=None)
        elif isinstance(old, dt.date):
            wanted["updated"] = now.date()
    note = parse(path, before.encode(text))
    wanted = {key: value for key, value in wanted.items() if key in note.meta or value is not None}
    return edits.with_meta(note, wanted) if wanted and (changes or note.editable) else text


def _difference(before: str, after: str, path: str = "") -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"a/{path}" if path else "there", f"b/{path}" if path else "new", lineterm="", n=1
    )
    return "\n".join(list(lines)[:200])
