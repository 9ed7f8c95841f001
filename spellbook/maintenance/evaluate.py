"""
Check: how well a vault finds what it holds, and what in it says too much or too little.

Every note names the questions it answers; they are asked as `search` asks
them, but with nothing to find by what the notes name as questions: else each
would find itself by its own words, and the figures would say nothing. Texts
are compared exactly, each with every other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from spellbook.errors import EmbeddingError, InvalidInput, MemoryNotFound
from spellbook.index.embed import Progress
from spellbook.index.filters import Condition, Filter, conditions
from spellbook.index.lookup import chunks_of
from spellbook.index.opened import Index
from spellbook.maintenance import golden
from spellbook.maintenance.duplicates import Alike, Contradiction, Piece, Place, compare
from spellbook.maintenance.golden import Golden
from spellbook.notes.note import Note
from spellbook.paths import MARKER
from spellbook.search.ranking import Hit
from spellbook.search.searcher import MOST_QUERY, VERBS, Question, Searcher, State, state
from spellbook.system import disk

FIRST = 5
"""A question is answered well if the answer is among so many hits."""

_HITS = 10
_AT_ONCE = 2_000
_ROOM = 1_000_000  # tokens: no hit is left out for want of space
_NO_GUIDES = Condition("category", ("system",), negated=True)


@dataclass(frozen=True, slots=True)
class Standard:
    """
    What is checked, and what it is held to.

    `filter` limits whose questions are asked and whose texts are compared, not
    what they are asked of. `all_notes` names also the notes of people that
    lack a topic or questions. Shares are in 0..1; 0 holds to nothing.
    """

    filter: Filter | None = None
    min_recall5: float = 0.0
    min_mrr: float = 0.0
    all_notes: bool = False

    def __post_init__(self) -> None:
        for name in ("min_recall5", "min_mrr"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput(f"{name}={getattr(self, name)} makes no sense.", "It is a share from 0 to 1, 0.8 say.")


@dataclass(frozen=True, slots=True)
class Missed:
    """A question that its own note is not among the first five hits for: its rank, 0 if past ten, and what came first."""

    note: Place
    question: str
    rank: int
    instead: Place | None
    score: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A golden query that did not find what it should: `missing` were not found, `unknown` are not in the vault at all."""

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
    What a check found; `failures` says why the vault does not stand it, nothing if it does.

    Figures are None where no question could be asked. `memories` are the notes
    of `notes` that Spellbook wrote; of the others, people's, `lacking` counts
    those without topic and without questions.
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
    duplicates: tuple[Alike, ...]
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
    queries = _golden(index)
    with index.catalog.reading():
        notes, pieces = _read(index, (*conditions(standard.filter), _NO_GUIDES))
        counts = index.catalog.counts()
    asked = _ask_all(index, searcher, notes, queries, progress)
    duplicates, contradictions = compare(index, pieces, progress)
    of_people = [note for note in notes if not note.is_memory]
    recall1, recall5, recall10 = (_share(asked.ranks, first) for first in (1, FIRST, _HITS))
    checked = Checked(
        notes=len(notes),
        memories=len(notes) - len(of_people),
        questions=sum(len(note.questions) for note in notes),
        recall1=recall1,
        recall5=recall5,
        recall10=recall10,
        mrr=round(sum(1 / rank for rank in asked.ranks if rank) / len(asked.ranks), 4) if asked.ranks else None,
        missed=tuple(asked.missed),
        golden=len(queries),
        golden_failed=tuple(asked.failed),
        duplicates=duplicates,
        contradictions=contradictions,
        unlabelled=tuple(Unlabelled(note.place, note.lacks) for note in notes if note.lacks and (note.is_memory or standard.all_notes)),
        lacking=dict(Counter(name for note in of_people for name in note.lacks)),
        failures=(),
        index=state(index, counts, asked.reason),
    )
    by_meaning = bool(checked.questions) or any(query.mode != "find" for query in queries)
    unmatched = map(str, index.catalog.unmatched(conditions(standard.filter), index.visible))
    return replace(checked, failures=(*unmatched, *_failures(checked, standard, counts.pending if by_meaning else 0)))


def _failures(checked: Checked, standard: Standard, pending: int) -> Iterable[str]:
    if checked.index.reason:
        yield f"nothing can be asked by meaning: {checked.index.reason}"
    if pending:
        then = "they are being embedded, so check again when that is done" if checked.index.embedding else "run `spellbook reindex`"
        yield f"{pending} texts are not embedded yet, and not found by meaning: {then}"
    for name, value, least in (("recall@5", checked.recall5, standard.min_recall5), ("MRR", checked.mrr, standard.min_mrr)):
        if value is not None and value < least:
            yield f"{name} is {value:.3f}, below {least:g}"
    if checked.golden_failed:
        yield f"{len(checked.golden_failed)} of {checked.golden} golden queries failed"


def _share(ranks: Sequence[int], first: int) -> float | None:
    return round(sum(0 < rank <= first for rank in ranks) / len(ranks), 4) if ranks else None


# -- what there is


@dataclass(frozen=True, slots=True)
class _Note:
    place: Place
    is_memory: bool
    questions: tuple[str, ...]
    lacks: tuple[str, ...]


def _read(index: Index, limits: Sequence[Condition]) -> tuple[list[_Note], list[Piece]]:
    """All notes by their paths, and what is compared of their chunks, in reading order."""
    notes: dict[str, tuple[int, _Note]] = {}
    pieces: list[tuple[str, int, Piece]] = []
    keys = index.catalog.keys(limits)
    for start in range(0, len(keys), _AT_ONCE):
        for found in index.catalog.by_key(keys[start : start + _AT_ONCE], limits):
            # Frontmatter as the catalog has it, read by the rules for notes.
            note = Note(found.path, "", found.meta, 0, 0, ())
            if found.path not in notes or found.ordinal < notes[found.path][0]:
                lacks = tuple(name for name in ("topic", "questions") if not getattr(note, name))
                place = replace(Place.of(found), id=found.note)
                notes[found.path] = found.ordinal, _Note(place, note.kind == "memory", note.questions, lacks)
            if piece := Piece.of(found, note):
                pieces.append((found.path, found.ordinal, piece))
    listed = [note for _, (_, note) in sorted(notes.items())]
    return listed, [piece for *_, piece in sorted(pieces, key=lambda each: each[:2])]


# -- questions


@dataclass(slots=True)
class _Asked:
    """What came of asking: the rank of the own note for every question, 0 past ten; `reason` if nothing could be asked by meaning."""

    ranks: list[int] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    reason: str = ""


class _Deaf(Exception):
    """Nothing can be asked by meaning any more."""


def _ask_all(index: Index, searcher: Searcher, notes: Sequence[_Note], queries: Sequence[Golden], progress: Progress | None) -> _Asked:
    asked = _Asked()
    by_words = [query for query in queries if query.mode == "find"]
    by_meaning = [query for query in queries if query.mode != "find"]
    for query in by_words:
        asked.failed += _ask_golden(index, searcher, query)
    if not by_meaning and not any(note.questions for note in notes):
        return asked
    try:
        _listen(index)
        for query in by_meaning:
            asked.failed += _ask_golden(index, searcher, query)
        asked.ranks, asked.missed = _ask(searcher, notes, progress)
    except _Deaf as error:
        asked.reason = str(error)
    asked.failed.sort(key=lambda each: each.line)
    return asked


def _listen(index: Index) -> None:
    """Raise _Deaf if nothing can be asked by meaning."""
    if index.catalog.fingerprint != index.embedder.fingerprint:
        raise _Deaf("another process indexes this vault with another embedder")
    try:
        index.embedder.embed_query("Spellbook")
    except EmbeddingError as error:
        raise _Deaf(str(error)) from error


def _hits(searcher: Searcher, question: Question) -> tuple[Hit, ...]:
    answer = searcher.ask(question)
    by_words_only = answer.hits and not any("semantic" in hit.why for hit in answer.hits)
    if question.mode != "keyword" and answer.index.degraded and by_words_only:
        raise _Deaf(answer.index.reason)  # since a moment ago; the words alone would be measured
    return answer.hits


def _ask(searcher: Searcher, notes: Iterable[_Note], progress: Progress | None) -> tuple[list[int], list[Missed]]:
    """Ask every question of every note; return the rank of its note in each answer, 0 past the tenth, and what was missed."""
    asked: dict[str, list[_Note]] = {}
    for note in notes:
        for question in note.questions:
            asked.setdefault(question[:MOST_QUERY], []).append(note)
    ranks: list[int] = []
    missed: list[Missed] = []
    for done, (question, owners) in enumerate(asked.items(), 1):
        hits = _hits(searcher, Question(question, limit=_HITS, max_tokens=_ROOM, unprompted=True))
        for note in owners:
            rank = next((rank for rank, hit in enumerate(hits, 1) if hit.path == note.place.path), 0)
            ranks.append(rank)
            if not 0 < rank <= FIRST:
                instead, score = (Place.of(hits[0]), hits[0].score) if hits else (None, 0.0)
                missed.append(Missed(note.place, question, rank, instead, score))
        if progress:
            progress("asking", done, len(asked))
    return ranks, sorted(missed, key=lambda each: (each.note.path, each.question))


# -- golden queries


def _golden(index: Index) -> tuple[Golden, ...]:
    file = index.config.vault / MARKER / golden.FILE
    try:
        return golden.parse(disk.read_small(file).decode("utf-8-sig"), str(file))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{file}: the golden queries cannot be read ({reason}).", "Mend or delete the file.") from error


def _ask_golden(index: Index, searcher: Searcher, query: Golden) -> list[Failed]:
    """Return how a golden query failed, nothing if it did not."""
    chunks = {name: _meant(index, name) for name in query.expect}
    unknown = tuple(name for name, ids in chunks.items() if not ids)
    limit = max(FIRST, len(query.expect))
    try:
        question = Question(query.query, VERBS[query.mode], limit=limit, filter=query.filter, max_tokens=_ROOM)
        hits = _hits(searcher, question)
        if unmatched := searcher.unmatched(question):  # where nothing may be found, a misspelling would pass
            return [Failed(query.query, query.line, reason=str(unmatched[0]))]
    except InvalidInput as error:
        return [Failed(query.query, query.line, reason=str(error))]
    found = {hit.id for hit in hits}
    missing = tuple(name for name, ids in chunks.items() if ids and not ids & found)
    reason = f"{hits[0].path} was found, and nothing should be" if hits and not query.expect else ""
    if not (missing or unknown or reason):
        return []
    return [Failed(query.query, query.line, missing, unknown, tuple(map(Place.of, hits)), reason)]


def _meant(index: Index, name: str) -> frozenset[str]:
    """The ids of the chunks that a name means: a note's id or path, a chunk's id, `topic` or `category/topic`."""
    try:
        found = chunks_of(index, name)
    except MemoryNotFound:
        category, slash, topic = name.partition("/")
        found = index.catalog.topic(name) or (index.catalog.topic(topic, category) if slash else [])
    return frozenset(each.id for each in found)
