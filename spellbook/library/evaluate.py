"""
Check: how well the notes of a vault are found, and which are duplicates, contradictory or unlabelled.

Every question that a note names is asked as `search` does. The index of the questions themselves is left out: otherwise
each question would find itself. All texts are compared with each other, exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from spellbook.index.catalog.schema import Place
from spellbook.index.embed import Progress
from spellbook.index.filters import Condition, Filter, conditions
from spellbook.index.lookup import chunks_of
from spellbook.index.opened import Index
from spellbook.library import golden
from spellbook.library.golden import Golden
from spellbook.notes.note import Note
from spellbook.search.duplicates import AlikeChunks, ComparedChunk, Contradiction, compare
from spellbook.search.question import VERBS, Question, State, state
from spellbook.search.ranking import Hit
from spellbook.search.searcher import Searcher
from spellbook.settings.limits import MOST_QUERY
from spellbook.settings.paths import MARKER
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError, InvalidInput, MemoryNotFound
from spellbook.text.quoting import counted

FIRST = 5
"""A question is answered well if its note is among so many hits."""

_HITS = 10
"""Hits of a question that are looked at."""

_AT_ONCE = 2_000
"""Chunks that are read at once."""

_ROOM = 1_000_000
"""Tokens of an answer: no hit is left out for lack of room."""

_NO_GUIDES = Condition("category", ("system",), negated=True)


@dataclass(frozen=True, slots=True)
class Standard:
    """
    What is checked, and the least figures that pass. Raises InvalidInput for a share that makes no sense.

    `filter` limits the notes whose questions are asked and whose texts are compared, not the notes that are searched.
    `all_notes` lists people's notes without topic or questions, too. Shares are in 0..1; 0 always passes.
    """

    filter: Filter | None = None
    min_recall5: float = 0.0
    min_mrr: float = 0.0
    all_notes: bool = False

    def __post_init__(self) -> None:
        for name, share in (("min_recall5", self.min_recall5), ("min_mrr", self.min_mrr)):
            if not 0 <= share <= 1:
                raise InvalidInput(f"{name}={share} is out of range.", "Give a share from 0 to 1, such as 0.8.")


@dataclass(frozen=True, slots=True)
class Missed:
    """A question without its own note among the first five hits: its rank (0 past ten), and the first hit."""

    note: Place
    question: str
    rank: int
    instead: Place | None
    score: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A golden query that failed: `missing` were not found, `unknown` are not in the vault."""

    query: str
    line: int
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    found: tuple[Place, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """A note that lacks a topic, questions or both."""

    note: Place
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """
    The result of a check; `failures` says why the vault does not pass, and is empty if it does.

    Figures are None if no question could be asked. `memories` counts the notes that Spellbook wrote. Of people's notes,
    `lacking` counts those without topic and those without questions.
    """

    notes: int
    memories: int
    questions: int
    recall1: float | None
    recall5: float | None
    recall10: float | None
    mrr: float | None
    missed: tuple[Missed, ...]
    golden: int
    golden_failed: tuple[Failed, ...]
    duplicates: tuple[AlikeChunks, ...]
    contradictions: tuple[Contradiction, ...]
    unlabelled: tuple[Unlabelled, ...]
    lacking: Mapping[str, int]
    failures: tuple[str, ...]
    index: State

    def as_dict(self) -> dict[str, Any]:
        """Return it as the command line's JSON shows it."""
        return {**asdict(self), "index": self.index.as_dict(), "ok": not self.failures}


def run(index: Index, searcher: Searcher, standard: Standard, progress: Progress | None = None) -> Checked:
    """
    Check the vault as the index has it; the guides (category `system`) are not measured.

    Raises InvalidInput for a golden file or a filter that makes no sense.
    """
    queries = _read_golden(index)
    with index.catalog.reading():
        notes, pieces = _read_notes(index, (*conditions(standard.filter), _NO_GUIDES))
        counts = index.catalog.counts()
    results = _ask_all(index, searcher, notes, queries, progress)
    duplicates, contradictions = compare(index, pieces, progress)
    of_people = [note for note in notes if not note.is_memory]
    labelled = notes if standard.all_notes else [note for note in notes if note.is_memory]
    recall1, recall5, recall10 = (_share(results.ranks, first) for first in (1, FIRST, _HITS))
    checked = Checked(
        notes=len(notes),
        memories=len(notes) - len(of_people),
        questions=sum(len(note.questions) for note in notes),
        recall1=recall1,
        recall5=recall5,
        recall10=recall10,
        mrr=round(sum(1 / rank for rank in results.ranks if rank) / len(results.ranks), 4) if results.ranks else None,
        missed=tuple(results.missed),
        golden=len(queries),
        golden_failed=tuple(results.failed),
        duplicates=duplicates,
        contradictions=contradictions,
        unlabelled=tuple(Unlabelled(note.place, note.lacks) for note in labelled if note.lacks),
        lacking=dict(Counter(name for note in of_people for name in note.lacks)),
        failures=(),
        index=state(index, counts, results.reason),
    )
    by_meaning = bool(checked.questions) or any(query.mode != "find" for query in queries)
    unmatched = map(str, index.catalog.unmatched(conditions(standard.filter), index.visible))
    return replace(checked, failures=(*unmatched, *_failures(checked, standard, counts.pending if by_meaning else 0)))


def _failures(checked: Checked, standard: Standard, pending: int) -> Iterable[str]:
    if checked.index.reason:
        yield f"nothing can be asked by meaning: {checked.index.reason}"
    if pending:
        busy = "they are being embedded, so check again when that is done"
        then = busy if checked.index.embedding else "run `spellbook reindex`"
        yield f"{counted(pending, 'text')} not embedded yet, and not found by meaning: {then}"
    shares = (("recall@5", checked.recall5, standard.min_recall5), ("MRR", checked.mrr, standard.min_mrr))
    for name, value, least in shares:
        if value is not None and value < least:
            yield f"{name} is {value:.3f}, below {least:g}"
    if checked.golden_failed:
        yield f"{counted(len(checked.golden_failed), 'golden query', 'golden queries', of=checked.golden)} failed"


def _share(ranks: Sequence[int], first: int) -> float | None:
    return round(sum(0 < rank <= first for rank in ranks) / len(ranks), 4) if ranks else None


# -- notes


@dataclass(frozen=True, slots=True)
class _EvaluatedNote:
    place: Place
    is_memory: bool
    questions: tuple[str, ...]
    lacks: tuple[str, ...]


def _read_notes(index: Index, limits: Sequence[Condition]) -> tuple[list[_EvaluatedNote], list[ComparedChunk]]:
    """Return all notes by path, and the pieces of their chunks, in reading order."""
    notes: dict[str, tuple[int, _EvaluatedNote]] = {}
    pieces: list[tuple[str, int, ComparedChunk]] = []
    keys = index.catalog.keys(limits)
    for start in range(0, len(keys), _AT_ONCE):
        for chunk in index.catalog.by_key(keys[start : start + _AT_ONCE], limits):
            # The frontmatter as the catalog has it, interpreted as a note's.
            note = Note(chunk.path, "", chunk.meta, 0, 0, ())
            if chunk.path not in notes or chunk.ordinal < notes[chunk.path][0]:
                lacks = tuple(name for name in ("topic", "questions") if not getattr(note, name))
                place = replace(chunk.place, id=chunk.note)
                notes[chunk.path] = chunk.ordinal, _EvaluatedNote(place, note.kind == "memory", note.questions, lacks)
            if piece := ComparedChunk.of(chunk, note):
                pieces.append((chunk.path, chunk.ordinal, piece))
    listed = [note for _, (_, note) in sorted(notes.items())]
    return listed, [piece for *_, piece in sorted(pieces, key=lambda row: row[:2])]


# -- questions


@dataclass(slots=True)
class _Ranks:
    """Ranks of each question's own note (0 past ten), and `reason` if search by meaning failed."""

    ranks: list[int] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    reason: str = ""


class _NoMeaning(Exception):
    """Search by meaning does not work."""


def _ask_all(
    index: Index,
    searcher: Searcher,
    notes: Sequence[_EvaluatedNote],
    queries: Sequence[Golden],
    progress: Progress | None,
) -> _Ranks:
    results = _Ranks()
    by_words = [query for query in queries if query.mode == "find"]
    by_meaning = [query for query in queries if query.mode != "find"]
    for done, query in enumerate(by_words, 1):
        results.failed += _ask_golden(index, searcher, query)
        if progress:
            progress("golden queries", done, len(queries))
    if not by_meaning and not any(note.questions for note in notes):
        return results
    try:
        _require_meaning(index)
        for done, query in enumerate(by_meaning, len(by_words) + 1):
            results.failed += _ask_golden(index, searcher, query)
            if progress:
                progress("golden queries", done, len(queries))
        results.ranks, results.missed = _ask_questions(searcher, notes, progress)
    except _NoMeaning as error:
        results.reason = str(error)
    results.failed.sort(key=lambda failed: failed.line)
    return results


def _require_meaning(index: Index) -> None:
    """Raise _NoMeaning if search by meaning does not work."""
    if index.catalog.fingerprint != index.embedder.fingerprint:
        raise _NoMeaning("another process indexes this vault with another embedder")
    try:
        index.embedder.embed_query("Spellbook")
    except EmbeddingError as error:
        raise _NoMeaning(str(error)) from error


def _hits(searcher: Searcher, question: Question) -> tuple[Hit, ...]:
    answer = searcher.ask(question)
    by_words_only = answer.hits and not any("semantic" in hit.why for hit in answer.hits)
    if question.mode != "keyword" and answer.index.degraded and by_words_only:
        raise _NoMeaning(answer.index.reason)  # otherwise search by words alone would be measured
    return answer.hits


def _ask_questions(
    searcher: Searcher, notes: Iterable[_EvaluatedNote], progress: Progress | None
) -> tuple[list[int], list[Missed]]:
    """Ask every question of every note; return the ranks of its note (0 past ten), and what was missed."""
    owners_of: dict[str, list[_EvaluatedNote]] = {}
    for note in notes:
        for question in note.questions:
            owners_of.setdefault(question[:MOST_QUERY], []).append(note)
    ranks: list[int] = []
    missed: list[Missed] = []
    for done, (question, owners) in enumerate(owners_of.items(), 1):
        hits = _hits(searcher, Question(question, limit=_HITS, max_tokens=_ROOM, unprompted=True))
        for note in owners:
            rank = next((rank for rank, hit in enumerate(hits, 1) if hit.path == note.place.path), 0)
            ranks.append(rank)
            if not 0 < rank <= FIRST:
                instead, score = (hits[0].chunk.place, hits[0].score) if hits else (None, 0.0)
                missed.append(Missed(note.place, question, rank, instead, score))
        if progress:
            progress("asking", done, len(owners_of))
    return ranks, sorted(missed, key=lambda one: (one.note.path, one.question))


# -- golden queries


def _read_golden(index: Index) -> tuple[Golden, ...]:
    file = index.config.vault / MARKER / golden.FILE
    try:
        return golden.parse(disk.read_small(file).decode("utf-8-sig"), str(file))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(
            f"{file}: the golden queries cannot be read ({reason}).", "Fix or delete the file."
        ) from error


def _ask_golden(index: Index, searcher: Searcher, query: Golden) -> list[Failed]:
    """Return how a golden query failed; empty if it passed."""
    chunks = {name: _chunk_ids(index, name) for name in query.expect}
    unknown = tuple(name for name, ids in chunks.items() if not ids)
    limit = max(FIRST, len(query.expect))
    try:
        question = Question(query.query, VERBS[query.mode], limit=limit, filter=query.filter, max_tokens=_ROOM)
        hits = _hits(searcher, question)
        # A misspelt filter would pass where nothing may be found.
        if unmatched := searcher.unmatched(question):
            return [Failed(query.query, query.line, reason=str(unmatched[0]))]
    except InvalidInput as error:
        return [Failed(query.query, query.line, reason=str(error))]
    hit_ids = {hit.id for hit in hits}
    missing = tuple(name for name, ids in chunks.items() if ids and not ids & hit_ids)
    reason = f"{hits[0].path} was found, and nothing should be" if hits and not query.expect else ""
    if not (missing or unknown or reason):
        return []
    return [Failed(query.query, query.line, missing, unknown, tuple(hit.chunk.place for hit in hits), reason)]


def _chunk_ids(index: Index, name: str) -> frozenset[str]:
    """Return the ids of the chunks of a name: a note's id or path, a chunk's id, `topic` or `category/topic`."""
    try:
        chunks = chunks_of(index, name)
    except MemoryNotFound:
        category, slash, topic = name.partition("/")
        chunks = index.catalog.topic(name) or (index.catalog.topic(topic, category) if slash else [])
    return frozenset(chunk.id for chunk in chunks)
