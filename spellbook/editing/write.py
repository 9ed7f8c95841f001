"""Writing memories, all or none: the file first, the index after, so that a crash in between heals by itself."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from spellbook.editing import derived_labels, erase, memory, revise, superseding
from spellbook.editing.memory import Findings, Labels, Memory
from spellbook.editing.scribed import Duplicate, Overturned, Scribed, ScribeOptions, WrittenNote
from spellbook.index import embed, extract, sync
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.vectors import Row
from spellbook.index.filters import NO_GUIDES, fold
from spellbook.index.opened import Index
from spellbook.index.privacy import DRAFT, ON_PURPOSE, is_untrusted
from spellbook.models.base import score, vector_key
from spellbook.notes.chunks import cut
from spellbook.notes.labels import DECISION
from spellbook.notes.note import Note, parse
from spellbook.notes.relations import SUPERSEDES
from spellbook.search import duplicates, related
from spellbook.search.question import Answer, SearchOptions
from spellbook.search.searcher import Searcher
from spellbook.system.errors import EmbeddingError, InvalidInput
from spellbook.system.lazy import np
from spellbook.text import credentials
from spellbook.text.diff import contradiction, overturns, unified
from spellbook.text.terms import is_short
from spellbook.vault.journal import CALLER

if TYPE_CHECKING:
    from spellbook.editing.book import Book

_MOST_COMPARED = 10_000
"""Letters of a text that is compared with a chunk that it repeats by words."""

_EMBED_AT_ONCE = 256
"""Chunks of a memory that are embedded before `scribe` returns; the next run embeds the rest of a long one."""

_OVERTURNED = (
    'If one of them no longer holds, revise(the new id, metadata={"supersedes": its id}) says so. '
    "If one should go, forget(its id) takes it away."
)

_UNREAD = "duplicates could be looked for among some notes alone: all are being read for the first time"

_NearChunk = tuple[StoredChunk, float, float]
"""A chunk near to a new text: the score of the two, and the likeness by which they are about the same thing."""


def superseding_fields(done: Scribed, number: int = 0) -> dict[str, Any]:
    """Return the fields that list superseded notes, and notes that may be superseded with a hint; empty for none."""
    closed, older = done.superseded[number], done.may_supersede[number]
    return {
        **({"superseded": [*closed]} if closed else {}),
        **({"may_supersede": [*map(asdict, older)], "hint": _OVERTURNED} if older else {}),
        **({"warnings": [_UNREAD]} if _UNREAD in done.warnings[number] else {}),
    }


@dataclass(frozen=True, slots=True)
class _NoteDraft:
    note: Note
    text: str
    rows: tuple[Row, ...]  # what will be embedded
    folds: tuple[str, ...]
    vectors: dict[str, bytes]
    texts: dict[str, str]  # by key, as they are written


def scribe(index: Index, searcher: Searcher, chunks: Sequence[object], **options: Unpack[ScribeOptions]) -> Scribed:
    """
    Store finished chunks, each as one note, after a check of all.

    If one repeats a chunk of a note that it does not supersede, nothing is written unless `force`. Raises InvalidInput
    for an invalid chunk, and for a secret unless `force`; MemoryNotFound if one supersedes a missing note.
    """
    findings, memories = _checked(index, chunks, options)
    replaced = [superseding.meant(index, ids) if (ids := checked.meta.get(SUPERSEDES)) else [] for checked in memories]
    memories = [
        replace(checked, meta={**checked.meta, **superseding.replacing(old)}) if old else checked
        for checked, old in zip(memories, replaced, strict=True)
    ]
    now = dt.datetime.now().astimezone()
    drafts = [_draft(index, checked, now) for checked in memories]
    compared = (_compare(index, searcher, draft, old) for draft, old in zip(drafts, replaced, strict=True))
    found, older = zip(*compared, strict=True)
    repeats = [(*same, *_twins(drafts, number)) for number, same in enumerate(found)]
    # A text that says which one it replaces is written although a third one is alike: the three are not the same then.
    is_repeated = any(
        duplicate.how == "words" or (duplicate.how == "meaning" and not old)
        for listed, old in zip(repeats, replaced, strict=True)
        for duplicate in listed
    )
    session = options.get("session") or ""
    again = options.get("again", options.get("force", False))
    written = () if is_repeated and not options.get("force") else _write(index, memories, drafts, session, again)
    if session and written:
        index.catalog.sessions.count(session, len(written))
    unread = () if index.catalog.is_read else (_UNREAD,)
    warnings = tuple((*finding.warnings, *unread) for finding in findings)
    closed = tuple(tuple(map(superseding.named, old)) for old in replaced)
    return Scribed(written, tuple(repeats), warnings, older, closed)


def _compare(
    index: Index, searcher: Searcher, draft: _NoteDraft, superseded: Sequence[StoredChunk]
) -> tuple[list[Duplicate], tuple[Overturned, ...]]:
    """Return the chunks that a draft repeats, and the notes that it may overturn."""
    gone = {chunk.path for chunk in superseded}  # of which only the words may not be repeated
    near = _find_near(index, searcher, draft)
    found = _find_duplicates(index, draft, near)
    left = [each for each in near if each[0].path not in gone]
    older = _find_overturned(index, draft.note, left, {duplicate.id for duplicate in found})
    return [each for each in found if each.how == "words" or each.path not in gone], older


def _twins(drafts: Sequence[_NoteDraft], number: int) -> list[Duplicate]:
    """Return the first of the drafts before this one that says the same, if there is one."""
    twins = (i for i in range(number) if set(drafts[i].folds) & set(drafts[number].folds))
    return [Duplicate("", "", f"chunk {i + 1} of this call", 1.0, "") for i in islice(twins, 1)]


def _checked(index: Index, chunks: Sequence[object], options: ScribeOptions) -> tuple[list[Findings], list[Memory]]:
    """Return what is found in chunks, and their memories with labels. Raises InvalidInput as `scribe` does."""
    labels = options.get("labels", "given")
    if labels not in get_args(Labels):
        raise InvalidInput(f"labels is {labels!r:.40}.", f"It is one of {', '.join(get_args(Labels))}.")
    given = {key: value for key, value in options.items() if key in {"source", "category", "labels", "untrusted"}}
    findings = [memory.check(chunk, scope=index.scope, **given) for chunk in chunks]  # type: ignore[arg-type]
    wrong = numbered([finding.errors for finding in findings])
    if wrong or not findings:
        raise InvalidInput("; ".join(wrong or ["there is no chunk"]) + ".", "Nothing was written.")
    secrets = numbered([finding.secrets for finding in findings])
    if secrets and not options.get("force"):
        raise InvalidInput(f"{'; '.join(secrets)}.", credentials.HINT)
    memories = [finding.memory for finding in findings if finding.memory]
    if index.config.review and memory.AGENT.get():
        memories = [replace(each, meta={**each.meta, "status": DRAFT}) for each in memories]
    return findings, [_label(index, checked) for checked in memories] if labels == "derived" else memories


def numbered(remarks: Sequence[Sequence[str]]) -> list[str]:
    """Return the remarks about each chunk of a call, with the chunk's number if there are several."""
    if len(remarks) == 1:
        return [*remarks[0]]
    return [f"chunk {i}: {remark}" for i, each in enumerate(remarks, 1) for remark in each]


def validate(
    index: Index, searcher: Searcher, chunk: object, source: str | None, category: str | None
) -> tuple[Findings, list[Duplicate]]:
    """Check a chunk without writing it; return the findings and the chunks that it repeats."""
    findings = memory.check(chunk, source=source, category=category, scope=index.scope)
    draft = _draft(index, findings.memory, dt.datetime.now().astimezone()) if findings.memory else None
    return findings, _find_duplicates(index, draft, _find_near(index, searcher, draft)) if draft else []


def _label(index: Index, checked: Memory) -> Memory:
    """Return a memory with keywords of its tags and its text, a decision's of its topic too, unless it has keywords."""
    if checked.meta.get("keywords"):
        return checked
    first = list(checked.meta.get("tags") or ())
    if checked.meta["category"] == DECISION:
        first += filter(None, map(str.strip, re.split(r"[:/]", checked.meta["topic"])))
    words = derived_labels.derived_keywords(checked.text, first, index.catalog.frequency, index.catalog.counts().chunks)
    return replace(checked, meta={**checked.meta, **({"keywords": words} if words else {})})


def _write(
    index: Index, memories: Sequence[Memory], drafts: Sequence[_NoteDraft], session: str, again: bool
) -> tuple[WrittenNote, ...]:
    """Write and index each memory as one note: all or none."""
    what = memories[0].name if len(memories) == 1 else f"{len(memories)} memories"
    with index.vault.change("add", what, session=session, again=again):  # the disk may fill up half-way
        paths = [
            index.vault.create(checked.folder_in(index), checked.name, draft.text.encode())
            for checked, draft in zip(memories, drafts, strict=True)
        ]
        for draft in drafts:  # only now: of what was erased nothing may be kept
            index.catalog.vectors.add(draft.vectors.items())
    sync.scan_paths(index, paths)
    embed.embed_labels(index, [path for path, draft in zip(paths, drafts, strict=True) if draft.vectors])
    generation, ids = index.catalog.generation, [index.catalog.where_is(path) or path for path in paths]
    index.wrote(CALLER.get() or "", ids)
    return tuple(
        WrittenNote(id, path, generation, len(draft.vectors) < len(draft.rows))
        for id, path, draft in zip(ids, paths, drafts, strict=True)
    )


def _draft(index: Index, checked: Memory, now: dt.datetime) -> _NoteDraft:
    from ulid import ULID  # slow to import, and most processes write nothing

    text = checked.note(str(ULID()), now)
    note = parse(f"{checked.folder_in(index)}/{checked.name}.md", text.encode("utf-8"))
    fingerprint = index.embedder.fingerprint
    pieces = {vector_key(fingerprint, piece.embedded): piece for piece in cut(note, index.config.chunk_tokens)}
    rows = tuple((key, "", piece.embedded) for key, piece in pieces.items())
    try:
        vectors = dict(embed.vectors_of(index, rows[:_EMBED_AT_ONCE]))
    except EmbeddingError:
        vectors = {}  # found by words at once, by meaning when the embedder is back
    written = (note.text[piece.start : piece.end] for piece in pieces.values())
    folds = tuple(extract.folded(each) for each in written if each.strip())
    return _NoteDraft(note, text, rows, folds, vectors, {key: piece.text.strip() for key, piece in pieces.items()})


def _find_overturned(index: Index, note: Note, near: Sequence[_NearChunk], same: set[str]) -> tuple[Overturned, ...]:
    """Return living notes about the same thing, for a checkpoint or an article only of its kind; none from outside."""
    older: dict[str, Overturned] = {}
    for chunk, _, about in near:
        is_alike = chunk.category == note.category or not {chunk.category, note.category} & {*duplicates.APART}
        is_candidate = is_alike and chunk.id not in same and not is_untrusted(chunk.meta)
        if about >= duplicates.SAME_THING and is_candidate and not related.standing(index, [chunk]):
            older.setdefault(chunk.path, Overturned(chunk.note, chunk.path, chunk.title, round(about, 3)))
    return tuple(older.values())[: duplicates.MOST_OVERTURNED]


def _find_duplicates(index: Index, draft: _NoteDraft, near: Sequence[_NearChunk]) -> list[Duplicate]:
    same: dict[str, tuple[StoredChunk, float, Literal["words", "meaning", "labels"]]] = {}
    for chunk in index.catalog.by_key(draft.folds, (NO_GUIDES, ON_PURPOSE, *index.visible), "same"):
        if chunk.text.strip():
            same[chunk.id] = chunk, 1.0, "words"
    body = draft.note.body.strip()
    is_compared = len(body) <= _MOST_COMPARED
    for chunk, value, _ in near:
        if value >= duplicates.LIKELY and is_compared and overturns(body, chunk.text):
            continue
        if value >= duplicates.DUPLICATE:
            same.setdefault(chunk.id, (chunk, round(value, 3), "meaning"))
        elif value >= duplicates.LIKELY and fold(chunk.topic) == fold(draft.note.topic):
            sides = draft.note, replace(draft.note, meta=chunk.meta)
            ours, theirs = ({fold(word) for word in (*side.keywords, *side.entities)} for side in sides)
            if len(ours & theirs) >= max(2, min(len(ours), len(theirs)) / 2):
                same.setdefault(chunk.id, (chunk, round(value, 3), "labels"))
    return [
        Duplicate(
            chunk.id,
            chunk.path,
            chunk.title,
            value,
            unified(chunk.text.strip(), body),
            how,
            contradiction(chunk.text, body) if is_compared else (),
        )
        for chunk, value, how in sorted(same.values(), key=lambda row: -row[1])[:5]
    ]


def _find_near(index: Index, searcher: Searcher, draft: _NoteDraft) -> list[_NearChunk]:
    """Return the chunks nearest to a draft's, best first, with the scores of their texts without title and labels."""
    near = [
        (chunk, draft.texts[key], value)
        for key, vector in draft.vectors.items()
        for chunk, value in searcher.near(np.frombuffer(vector, dtype="<f4"), duplicates.NEAREST, (ON_PURPOSE,))
        if value >= duplicates.NEAR
    ]
    near = sorted(near, key=lambda row: -row[2])[: duplicates.MOST_BY_TEXT]
    whole = [text for chunk, own, _ in near for text in (chunk.text.strip(), own)]
    texts = list(dict.fromkeys((*whole, *map(duplicates.below_headings, whole))))
    try:
        vectors = dict(zip(texts, index.embedder.embed_passages(texts) if texts else (), strict=True))
    except EmbeddingError:
        return [(chunk, value, 0.0) for chunk, _, value in near]
    compared: list[_NearChunk] = []
    for chunk, own, _ in near:
        pairs = (own, text := chunk.text.strip()), (duplicates.below_headings(own), duplicates.below_headings(text))
        value, inner = (score(float(vectors[a] @ vectors[b]), index.embedder.scale) for a, b in pairs)
        # Short texts are about the same thing only if they are nearly equal.
        about, nearly = min(value, inner), duplicates.LIKELY if overturns(*pairs[1]) else duplicates.DUPLICATE
        compared.append((chunk, value, about if about >= nearly or not is_short(pairs[1][0]) else 0.0))
    return sorted(compared, key=lambda row: -row[1])


@dataclass(frozen=True)
class Opened:
    """An opened vault as it is now, for verbs on kinds of notes, whoever calls them."""

    book: Book

    @cached_property
    def index(self) -> Index:
        """The index, the same for one verb from its beginning to its end."""
        return self.book.index

    def _answer(self, verb: str, query: str, **options: Unpack[SearchOptions]) -> Answer:
        """Answer a search verb as the library does: embed new texts first, and count and time the question."""
        return self.book.ask(verb, query, scans=False, **options)

    def _scribe(self, chunk: object, **options: Unpack[ScribeOptions]) -> Scribed:
        """Write one note, with keywords of its own text if it has none."""
        options["labels"] = "derived"
        self._check()
        with self.book.meter.timed("scribe"):
            return scribe(self.index, self.book.searcher, [chunk], **options)

    def _revise(self, id: str, **change: Any) -> revise.Revised:
        """Change a note; the options are the fields of `editing.revise.Revision`."""
        self._check()
        return revise.revise(self.index, id, revise.Revision(**change))

    def _erase(self, id: str, *, hard: bool = False) -> erase.Erased:
        """Move a whole note to the trash, or delete it for good."""
        self._check()
        return erase.erase(self.index, id, hard=hard, whole=True)

    def _check(self) -> None:
        """Raise PermissionDenied if the vault may only be read, VaultNotFound if it is gone."""
        if self.book.denial:
            raise self.book.denial
        self.index.vault.check_there()
