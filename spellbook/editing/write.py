"""
Writing into the vault: keep a memory, revise a section, erase.

The file first, the index after: a crash in between heals at the next sync. A
file that somebody changed meanwhile is read again and the change applied to
what it now holds, or refused; it is never written over.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from spellbook.editing import edits
from spellbook.editing.memory import BROKEN, Findings, Memory, metadata
from spellbook.errors import Conflict, EmbeddingError, InvalidInput, MemoryNotFound
from spellbook.index import embed, extract, sync
from spellbook.index.catalog.schema import Found, hash_of
from spellbook.index.filters import fold
from spellbook.index.lookup import resolve
from spellbook.index.opened import Index
from spellbook.notes import chunks
from spellbook.notes.chunks import Chunk
from spellbook.notes.note import Note, Stamp, parse
from spellbook.search.searcher import Searcher
from spellbook.text import credentials
from spellbook.text.diff import contradiction, unified
from spellbook.text.quoting import flat
from spellbook.vault.folder import digest

DUPLICATE = 0.95
"""From this score on a text says what another one says already."""

LIKELY = 0.88
"""From this score on it may, if topic and labels agree: of Korean sentences that say the same, 93 % reach it (KLUE-STS)."""

_TRIES = 100
"""Each time a file changed in the very moment it was written; somebody else got on."""
_EMBED_AT_ONCE = 64
_NEAREST = 10
_MOST_COMPARED = 10_000


@dataclass(frozen=True, slots=True)
class Duplicate:
    """
    A chunk that a new text repeats.

    `how` is by which it was found: the same `words` (then `score` is 1), the
    `meaning`, or `labels`, topic and keywords, which only say that it may.
    `difference` shows what is not the same, `changed` the parts in which the two
    contradict, that of the chunk first.
    """

    id: str
    path: str
    title: str
    score: float
    difference: str
    how: Literal["words", "meaning", "labels"] = "words"
    changed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A note that was written: its id, its path, and the generation that has it."""

    chunk_id: str
    path: str
    generation: int
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """
    What is to become of a section or a note.

    Of its text: a new `content`, or something to `append`, or a phrase to
    `replace` by another, the only one unless `every` of them is meant. Of its
    frontmatter: `metadata` to set, or with None to remove. `expected_hash` is
    the hash of the section, or the file's sha256, as the caller last saw it.
    What looks like a secret is only written with `force`.
    """

    content: str | None = None
    append: str | None = None
    replace: tuple[str, str] | None = None
    every: bool = False
    metadata: Mapping[str, Any] | None = None
    expected_hash: str | None = None
    dry_run: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Revised:
    """
    A section or a note that was changed: its id, the change as a unified difference, and its hash now.

    The hash of a note of several sections is the first 16 digits of its file's sha256.
    `warnings` say what of the file the system did not let it keep, its owner say, and what looks like a secret.
    """

    chunk_id: str
    path: str
    generation: int
    difference: str
    hash: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """What was `erased`, in words; ids of its chunks, and where in the trash it lies, nothing for what was deleted for good."""

    erased: str
    chunk_ids: tuple[str, ...]
    trash: tuple[str, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class _Draft:
    note: Note
    text: str
    rows: tuple[tuple[str, str], ...]  # key and text of what will be embedded
    folds: tuple[str, ...]
    vectors: dict[str, bytes]


def write(
    index: Index, searcher: Searcher, memories: Sequence[Memory], *, force: bool = False
) -> tuple[list[Written], list[list[Duplicate]]]:
    """
    Write each memory as one note and index it at once; return what was written and what each would repeat.

    Unless `force`, nothing at all is written if one of them repeats a chunk by its words or its meaning.
    """
    now = dt.datetime.now().astimezone()
    drafts = [_draft(index, memory, _new_id(), now) for memory in memories]
    repeats = [_duplicates(index, searcher, draft) for draft in drafts]
    for i, draft in enumerate(drafts):
        twin = next((j for j in range(i) if set(drafts[j].folds) & set(draft.folds)), None)
        if twin is not None:
            repeats[i].append(Duplicate("", "", f"chunk {twin + 1} of this call", 1.0, ""))
    if any(each.how != "labels" for found in repeats for each in found) and not force:
        return [], repeats
    for memory in memories:
        index.vault.check_folder(memory.folder)
    what = memories[0].name if len(memories) == 1 else f"{len(memories)} memories"
    with index.vault.change("scribe", what):  # all or nothing: the disk may fill up half-way
        paths = [index.vault.create(each.folder, each.name, draft.text.encode()) for each, draft in zip(memories, drafts, strict=True)]
    for draft in drafts:
        index.catalog.vectors.add(draft.vectors.items())
    sync.scan_paths(index, paths)
    embed.count_tokens(index, [key for draft in drafts for key in draft.vectors])
    return [_written(index, path, draft) for path, draft in zip(paths, drafts, strict=True)], repeats


def _written(index: Index, path: str, draft: _Draft) -> Written:
    return Written(index.catalog.where_is(path) or path, path, index.catalog.generation, not draft.vectors)


def duplicates(index: Index, searcher: Searcher, memory: Memory) -> list[Duplicate]:
    """Return the chunks that `memory` would repeat, likest first."""
    return _duplicates(index, searcher, _draft(index, memory, _new_id(), dt.datetime.now().astimezone()))


def _new_id() -> str:
    from ulid import ULID  # takes a while to import, and most processes write nothing

    return str(ULID())


def _draft(index: Index, memory: Memory, id: str, now: dt.datetime) -> _Draft:
    text = memory.note(id, now)
    note = parse(f"{memory.folder}/{memory.name}.md", text.encode("utf-8"))
    entry = extract.entry(note, sync.rules(index), Stamp(0, 0, 0), 0, "")
    rows = tuple({row.key: row.embedded for row in entry.chunks}.items())
    try:
        vectors = dict(embed.vectors_of(index, rows))
    except EmbeddingError:
        vectors = {}  # found by words at once, by meaning when the embedder is back
    return _Draft(note, text, rows, tuple(row.same for row in entry.chunks if row.text.strip()), vectors)


def _duplicates(index: Index, searcher: Searcher, draft: _Draft) -> list[Duplicate]:
    import numpy as np

    same: dict[str, tuple[Found, float, Literal["words", "meaning", "labels"]]] = {}
    for found in index.catalog.by_fold(draft.folds, index.visible):
        if found.text.strip():
            same[found.id] = found, 1.0, "words"
    for vector in draft.vectors.values():
        for found, score in searcher.near(np.frombuffer(vector, dtype="<f4"), _NEAREST):
            if score >= DUPLICATE:
                same.setdefault(found.id, (found, round(score, 3), "meaning"))
            elif score >= LIKELY and _is_labelled_alike(found, draft.note):
                same.setdefault(found.id, (found, round(score, 3), "labels"))
    body = draft.note.body.strip()
    ordered = sorted(same.values(), key=lambda each: -each[1])
    return [
        Duplicate(
            found.id,
            found.path,
            found.title,
            score,
            unified(found.text.strip(), body),
            how,
            contradiction(found.text, body) if len(body) <= _MOST_COMPARED else (),
        )
        for found, score, how in ordered[:5]
    ]


def _is_labelled_alike(found: Found, note: Note) -> bool:
    """Say whether a chunk is of the note's topic and shares half of the keywords and entities, and two at least."""
    other = replace(note, meta=found.meta)
    ours, theirs = ({fold(word) for word in (*each.keywords, *each.entities)} for each in (note, other))
    shared = len(ours & theirs)
    return fold(found.topic) == fold(note.topic) and shared >= max(2, min(len(ours), len(theirs)) / 2)


def revise(index: Index, id: str, asked: Revision) -> Revised:
    """
    Change the text of one section, frontmatter keys, or both, and no other byte; `updated` is kept up where the note has it.

    `id` names a section; for all but a new content, also a whole note. Raises
    MemoryNotFound; InvalidInput for what makes no sense, cannot be kept, or
    looks like a secret without `force`;
    Conflict, with nothing written, if the section is not what it was.
    """
    changes = _sensible(asked)
    for _ in range(_TRIES):
        found, is_note = resolve(index, id), bool(index.catalog.note(id))
        data = index.vault.read(found.path)[0]
        note = parse(found.path, data)
        text = _with_meta(found.path, note, _revised(index, found, (note, digest(data)), asked, is_note=is_note), changes)
        difference = unified(note.text, text, f"a/{found.path}", f"b/{found.path}")
        secrets = tuple(f"line {each.line} looks like it holds {each.kind}" for each in credentials.new(note.text, text))
        if asked.dry_run or text == note.text:
            return _told_of(index, found, data, difference, is_note=is_note, warnings=secrets)
        if secrets and not asked.force:
            raise InvalidInput(f"{found.path}: {'; '.join(secrets)}.", credentials.HINT)
        try:
            with index.vault.change("revise", id) as warnings:
                index.vault.write(found.path, note.encode(text), digest(data))
        except Conflict:
            continue  # changed in this very moment: look again whether the parts overlap
        sync.scan_paths(index, [found.path])
        with_vectors(index, found.path)
        return _told_of(index, found, note.encode(text), difference, is_note=is_note, warnings=(*secrets, *warnings))
    raise Conflict(f"{found.path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was written.")


def _sensible(asked: Revision) -> dict[str, Any]:
    """Return the metadata to set. Raises InvalidInput for a revision that nobody can want."""
    texts = [each for each in (asked.content, asked.append, asked.replace) if each is not None]
    if not texts and not asked.metadata:
        raise InvalidInput("There is nothing to revise.", "Give content, metadata, or both; or append, or replace.")
    if len(texts) > 1:
        raise InvalidInput("Content, append and replace are three ways to change a text.", "Give one of them; nothing was changed.")
    for text in (asked.content, asked.append):
        if text is not None and not text.strip():
            raise InvalidInput("The new content is empty.", "To remove a section, use erase.")
    if any(BROKEN.search(part) for text in texts for part in ((text,) if isinstance(text, str) else text)):
        raise InvalidInput("The new content holds NUL or half letters (lone surrogates).", "Take them out; nothing was changed.")
    findings = Findings()
    changes = metadata(asked.metadata or {}, findings)
    if findings.errors or (asked.metadata and not changes):
        raise InvalidInput(f"The metadata cannot be kept: {'; '.join(findings.errors or findings.warnings)}.", "Nothing was changed.")
    return changes


def _told_of(index: Index, found: Found, data: bytes, difference: str, *, is_note: bool, warnings: Sequence[str] = ()) -> Revised:
    """Say of a chunk, or its whole note, whose file holds `data` now, what was changed."""
    after = index.catalog.at(found.path)
    now = next((each for each in after if each.ordinal == found.ordinal), found)
    hash = now.hash if len(after) == 1 or not is_note else digest(data)[:16]
    return Revised(now.note if is_note else now.id, found.path, index.catalog.generation, difference, hash, tuple(warnings))


def _revised(index: Index, found: Found, read: tuple[Note, str], asked: Revision, *, is_note: bool) -> str:
    """Return the text of a note, that was `read` with the sha256 of its file, with one section or all of it as it is `asked`."""
    note, sha256 = read
    siblings = index.catalog.at(found.path)
    if asked.content is not None and is_note and len(siblings) > 1:
        raise InvalidInput(
            f"{found.note!r:.200} is a note of {_sections(siblings)} sections, and the content is for one.",
            f"Name the section: {found.id!r:.300} is the first; nothing was changed.",
        )
    if asked.content is not None:
        return edits.rewrite(note, _piece(index, note, found, asked.expected_hash, sha256), asked.content)
    if asked.expected_hash:
        _piece(index, note, found, asked.expected_hash, sha256)
    start, end = (note.body_at, len(note.text)) if is_note else _span(index, note, found)
    if asked.append is not None:
        return edits.appended(note, start, end, asked.append)
    if asked.replace is not None:
        return edits.replaced(note, start, end, asked.replace, every=asked.every)
    return note.text


def _span(index: Index, note: Note, found: Found) -> tuple[int, int]:
    """Return from which character to which a section stands in the file as it is now, all its parts."""
    suffix = found.suffix
    parts = [each for each in chunks.cut(note, index.config.chunk_tokens) if each.suffix == suffix or each.suffix.startswith(f"{suffix}~")]
    if not parts:
        raise Conflict(f"{note.path}: the section {suffix} is not there any more.", "Read the note again; nothing was written.")
    return parts[0].start, parts[-1].end


def erase(index: Index, id: str, *, hard: bool = False) -> Erased:
    """
    Erase a note, named by its id or path, or one chunk, named by its own id; the only chunk of a note is the note.

    What is erased goes to the trash unless `hard`. One section of a longer
    note is cut out of it, and kept in the trash as a file of its own.
    """
    found, is_note = resolve(index, id), bool(index.catalog.note(id))
    siblings = index.catalog.at(found.path)
    if is_note or len(siblings) == 1:
        with index.vault.change("erase", id if is_note else found.note, for_good=hard):
            [kept] = _remove(index, [found.path], hard)
        gone, said = siblings, f"the note {flat(found.title)}"
        said += f" ({_sections(siblings)} sections)" if _sections(siblings) > 1 else ""
    else:
        kept, gone, said = _erase_section(index, found, hard), [found], _place_of(found, siblings)
    sync.scan_paths(index, [found.path])
    if not hard:
        with_vectors(index, found.path)
    return Erased(said, tuple(each.id for each in gone), (kept,) if kept else (), index.catalog.generation)


def _sections(siblings: Sequence[Found]) -> int:
    return len({each.suffix.partition("~")[0] for each in siblings})


def _place_of(found: Found, siblings: Sequence[Found]) -> str:
    """Say what a chunk is of its note: a section, what stands above the first one, or a part of either."""
    section = found.suffix.partition("~")[0]
    parts = [each for each in siblings if each.suffix.partition("~")[0] == section]
    name = f"the section {flat(parts[0].heading or section[1:])}" if section != "#" else "the text above the first section"
    part = f"part {1 + parts.index(found)} of {len(parts)} of " if len(parts) > 1 else ""
    return f"{part}{name} of {flat(found.title)}"


def erase_topic(index: Index, topic: str, category: str | None, *, hard: bool = False) -> Erased:
    """Erase every note of a topic. Raises MemoryNotFound if there is none."""
    found = index.catalog.topic(topic, category, index.visible)
    if not found:
        raise MemoryNotFound(f"There is no topic {topic!r:.200}.", "get_index lists the topics.")
    paths = list(dict.fromkeys(each.path for each in found))
    name = "/".join(filter(None, (category, topic)))
    with index.vault.change("erase", name, for_good=hard):
        kept = _remove(index, paths, hard)
    said = f"the topic {flat(name)} ({len(paths)} note{'s' * (len(paths) != 1)})"
    return Erased(said, tuple(each.id for each in found), tuple(filter(None, kept)), index.catalog.generation)


def _remove(index: Index, paths: Sequence[str], hard: bool) -> list[str | None]:
    """Remove whole notes that are what the index says of them; if one is not, none is removed."""
    known = index.catalog.notes.known(paths)
    there = [path for path in paths if index.vault.stamp(path)] or [paths[0]]  # the others vanished meanwhile
    changed = [path for path in there if digest(index.vault.read(path)[0]) != known[path].sha256]
    if changed:
        sync.scan_paths(index, paths)
        raise Conflict(f"{changed[0]}: the file was changed since it was read.", "Look at it again and repeat; nothing was erased.")
    try:
        return [index.vault.remove(path, known[path].sha256, hard=hard) for path in there]
    finally:
        sync.scan_paths(index, paths)


def with_vectors(index: Index, path: str) -> None:
    """Embed what is still pending of the note at `path`; an embedder that fails leaves it pending."""
    found = index.catalog.at(path)
    rows = index.catalog.waiting.texts([each.key for each in found]) if found else []
    with contextlib.suppress(EmbeddingError):
        # A long note that nobody embedded yet is left to the next run.
        embed.embed_and_store(index, rows[:_EMBED_AT_ONCE])


def _erase_section(index: Index, found: Found, hard: bool) -> str | None:
    for _ in range(_TRIES):
        data = index.vault.read(found.path)[0]
        note = parse(found.path, data)
        piece = _piece(index, note, found, None, "")
        left = note.encode(edits.without(note, piece))
        copy = note.encode(("\ufeff" if note.encoding != "utf-8" else "") + piece.text)
        name = f"{found.path.rpartition('/')[2].removesuffix('.md')} {piece.suffix.strip('#')}".strip()
        try:
            with index.vault.change("erase", found.id, for_good=hard):
                kept = None if hard else index.vault.trash.keep(found.path, name, copy)
                index.vault.write(found.path, left, digest(data))
        except Conflict:
            continue
        return kept
    raise Conflict(f"{found.path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was written.")


def _piece(index: Index, note: Note, found: Found, expected: str | None, sha256: str) -> Chunk:
    """The section of the file as it is now that the caller means."""
    piece = next((each for each in chunks.cut(note, index.config.chunk_tokens) if each.suffix == found.suffix), None)
    seen = expected or hash_of(found.text)
    is_same = piece is not None and (hash_of(piece.text) == seen[:16] or (len(seen) >= 16 and bool(expected) and sha256.startswith(seen)))
    if piece is None or not is_same:
        sync.scan_paths(index, [found.path])
        raise Conflict(f"{found.path}: the section {found.id} was changed meanwhile.", "Read it again and repeat; nothing was written.")
    return piece


def _with_meta(path: str, before: Note, text: str, changes: Mapping[str, Any]) -> str:
    wanted = dict(changes)
    if text != before.text or changes:
        key = next((key for key in ("updated", "modified") if key in before.meta), "")
        now = now_like(before.meta.get(key))
        wanted |= {key: now} if now else {}
    note = parse(path, before.encode(text))
    wanted = {key: value for key, value in wanted.items() if key in note.meta or value is not None}
    return edits.with_meta(note, wanted) if wanted and (changes or note.editable) else text


def now_like(old: object) -> object:
    """Return the time in the form that `old` has: a date, a time with or without its zone, or a text of one; None if it is none."""
    now = dt.datetime.now().astimezone().replace(microsecond=0)
    if isinstance(old, dt.datetime):
        return now if old.tzinfo else now.replace(tzinfo=None)
    if isinstance(old, dt.date):
        return now.date()
    try:
        then = dt.datetime.fromisoformat(old) if isinstance(old, str) else None
    except ValueError:
        return None
    if then is None or not isinstance(old, str):
        return None
    if len(old) <= 10:
        return now.date().isoformat()
    precise = "seconds" if re.match(r"\d\d:\d\d:\d\d", old[11:]) else "minutes"
    return (now if then.tzinfo else now.replace(tzinfo=None)).isoformat(old[10], precise)
