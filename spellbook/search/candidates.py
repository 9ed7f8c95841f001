"""Candidates of a question: each of its texts finds chunks by meaning and words; each text scores all, 0..1."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.rows import QUESTION, TITLE, Counts, StoredChunk
from spellbook.index.filters import NO_GUIDES, Condition
from spellbook.index.nearest import Reasons
from spellbook.index.opened import Index
from spellbook.index.privacy import ON_PURPOSE, is_session
from spellbook.index.question_cache import LoadedIndex, NoteCosines
from spellbook.models.base import Bytes, Scale, Vectors, question_scale, score, unit
from spellbook.notes.labels import CHECKPOINT, SESSION
from spellbook.search import synonyms, weights
from spellbook.search.question import Question
from spellbook.search.related import Superseded
from spellbook.search.scores import NOTHING, Candidate, Leg, Match, OfNote, joined
from spellbook.search.script_and_language import Writing, writing_of
from spellbook.search.words import Query, QueryWord, Words, parse, phrases, stem_phrase
from spellbook.system.errors import EmbeddingError
from spellbook.system.lazy import np

if TYPE_CHECKING:
    from spellbook.search.time_in_question import When

_INCOMPLETE = "not everything could be searched"
_QUESTIONS = 256
"""Questions whose vectors are cached."""
MOST_ALIKE = 20
"""Chunks of a note that are compared with other notes, or with a question that its predecessor answers."""


class QueryText(NamedTuple):
    """A text of a question, with its unit vector and the second encoder's (int8), or None; from the cache or not."""

    text: str
    vector: Vectors | None = None
    second: Bytes | None = None
    is_cached: bool = False


class QueryTexts:
    """Embeds the texts of questions, and caches the vectors of the last ones. Safe for many threads."""

    def __init__(self, index: Index) -> None:
        self._index, self._guard = index, threading.Lock()
        self._known: OrderedDict[str, QueryText] = OrderedDict()

    def read(self, question: Question, time: When | None, reasons: list[str]) -> list[QueryText]:
        """
        Return the texts of a question, itself first.

        Words of `time` are looked for as words alone. A text has no vectors if it is asked by words alone, or if the
        model fails, which `reasons` then say.
        """
        if question.mode == "keyword":
            return [QueryText(question.text)]  # which has no further texts
        first = self._embedded(time.rest if time else question.text, reasons)._replace(text=question.text)
        return [first, *(self._embedded(text, reasons) for text in question.also)]

    def _embedded(self, text: str, reasons: list[str]) -> QueryText:
        with self._guard:
            if known := self._known.get(text):
                self._known.move_to_end(text)
                return known._replace(is_cached=True)
        try:
            vector = self._index.embedder.embed_query(text)
            self._index.fits(len(vector))
        except EmbeddingError as error:
            reasons.append(f"searched by words only: {error}")
            return QueryText(text)
        made = QueryText(text, vector)
        second = self._index.second
        if second is not None and Writing(text).is_read:
            try:
                made = QueryText(text, vector, second.vectors([text], query=True)[0])
            except EmbeddingError:  # the embedder answers alone; whoever embeds says why
                return made
        with self._guard:
            self._known[text] = made
            while len(self._known) > _QUESTIONS:
                self._known.popitem(last=False)
        return made

    def cached(self) -> dict[str, int]:
        """Return the questions whose vectors are cached, with the bytes of each."""
        with self._guard:
            return {text: read.vector.nbytes for text, read in self._known.items() if read.vector is not None}

    def forget(self, texts: Iterable[str]) -> int:
        """Drop the vectors of these questions; return how many were cached."""
        with self._guard:
            return sum(self._known.pop(text, None) is not None for text in texts)


@dataclass(frozen=True, slots=True)
class Gathering:
    """
    The candidates that the texts of a question, itself first, find in an index; best first once they are ranked.

    All meet `limits`. `counts` are those of the index, `guides` the chunks left out because they are of guides. `time`
    is the time that the question names. `reasons` say why
    candidates may be missing; a caller who does not see `sees_reasons` is told of no model and no service.
    """

    question: Question
    limits: Sequence[Condition]
    time: When | None
    counts: Counts
    guides: int
    lookups: Sequence[Lookup]
    candidates: Sequence[Candidate]
    reasons: Reasons
    sees_reasons: bool

    @property
    def first(self) -> Lookup:
        """The lookup of the question itself."""
        return self.lookups[0]

    @property
    def reason(self) -> str:
        """Why candidates may be missing, "" if none is."""
        reasons = "; ".join(dict.fromkeys(self.reasons))
        return reasons if self.sees_reasons or not reasons else _INCOMPLETE

    @property
    def words(self) -> list[QueryWord]:
        """The words of all texts that were looked for."""
        return [word for lookup in self.lookups for word in lookup.words.words]

    def with_successors(self, superseded: Mapping[str, Superseded], catalog: Catalog) -> Gathering:
        """
        Return it with chunks of living successors that are no candidates, unless the question is by words alone.

        They supersede one of the first notes of each leg, as many as are asked for, that is no checkpoint.
        """
        if self.question.mode == "keyword" or not superseded:
            return self
        living: dict[str, set[str]] = {}
        for path, known in superseded.items():  # what supersedes comes first
            living[path] = {one for by in known.above for one in living.get(by, {by})}
        wanted: set[str] = set()
        for each in self.candidates:
            is_first = any(leg and 0 < leg.rank <= self.question.limit for leg in (each.semantic, each.keyword))
            if is_first and each.chunk.category != CHECKPOINT:
                wanted |= living.get(each.chunk.path, set())
        wanted.difference_update(each.chunk.path for each in self.candidates)
        keys = [chunk.key for path in wanted for chunk in catalog.at(path)[:MOST_ALIKE]]
        numbers = [chunk.number for chunk in catalog.by_key(keys, self.limits) if chunk.path in wanted]
        return replace(self, candidates=[*self.candidates, *_candidates(catalog, self.lookups, numbers)])


def gather(
    loaded: LoadedIndex,
    question: Question,
    texts: Sequence[QueryText],
    limits: Sequence[Condition],
    reasons: Reasons,
    time: When | None = None,
    wanted: Sequence[int] = (),
) -> Gathering:
    """Find candidates, in no order and without a score; the chunks `wanted`, by number, are among them."""
    catalog = loaded.catalog
    counts, guides = catalog.counts(), catalog.guides() if NO_GUIDES in limits else 0
    texts = _comparable(loaded, texts, reasons)
    lookups = [Lookup(loaded, question, text, counts.chunks, guides) for text in texts]
    pool = weights.POOL if len(texts) == 1 else weights.POOL_OF_SEVERAL
    most = max(pool, question.limit * weights.CANDIDATES_A_HIT)

    def candidates(limits: Sequence[Condition], wanted: Sequence[int]) -> list[Candidate]:
        near = list(wanted)
        for lookup in lookups:
            named = time if lookup is lookups[0] else None
            near += lookup.by_meaning(limits, most, reasons, named, pending=counts.pending > 0)
        for lookup in lookups:
            if lookup.is_by_words:
                near += lookup.words.find(limits, list(dict.fromkeys(near)), most)
        return _candidates(catalog, lookups, list(dict.fromkeys(near)))

    found = candidates(limits, wanted)
    # Sessions may be many, and fill all the places.
    if question.has_few_sessions and any(is_session(one.chunk.meta) for one in found):
        found = candidates((*limits, ON_PURPOSE), [one.chunk.number for one in found])
    return Gathering(question, limits, time, counts, guides, lookups, found, reasons, not loaded.index.sees)


def _comparable(loaded: LoadedIndex, texts: Sequence[QueryText], reasons: Reasons) -> Sequence[QueryText]:
    """Return the texts without vectors that are of another model than those of the index; `reasons` say so."""
    index, catalog = loaded.index, loaded.catalog
    if texts[0].vector is not None and catalog.fingerprint != index.embedder.fingerprint:
        if catalog.fingerprint:  # else nothing was indexed yet
            reasons.append("searched by words only: another process indexes this vault with another embedder")
        return [QueryText(text.text) for text in texts]
    if index.second is None or catalog.second.fingerprint != index.second.fingerprint:
        return [text._replace(second=None) for text in texts]
    return texts


def _candidates(catalog: Catalog, lookups: Sequence[Lookup], numbers: Sequence[int]) -> list[Candidate]:
    """Return these chunks, by number, as candidates with their scores for each text."""
    if not numbers:
        return []
    known = {number: chunk for lookup in lookups for number, (chunk, _) in lookup.semantic.items()}
    known |= {chunk.number: chunk for chunk in catalog.by_number([each for each in numbers if each not in known])}
    chunks = [known[number] for number in numbers if number in known]
    compares = any(lookup.is_both or lookup.text.second is not None for lookup in lookups)
    how_written = [writing_of(chunk.title, chunk.heading, chunk.packed) for chunk in chunks] if compares else []
    rows: dict[str, bytes] = {}
    matches = [lookup.matches(chunks, how_written, rows) for lookup in lookups]
    return [Candidate(chunk, of_texts) for chunk, *of_texts in zip(chunks, *matches, strict=True)]


class Lookup:
    """Chunks that one text of a question finds, by number, with their scores."""

    def __init__(self, loaded: LoadedIndex, question: Question, text: QueryText, total: int, guides: int) -> None:
        self._loaded, self.text = loaded, text
        self.semantic: dict[int, tuple[StoredChunk, Leg]] = {}
        self._mode, is_first = question.mode, text.text == question.text
        self.is_by_words = question.mode != "semantic" or text.vector is None
        query = Query()
        stems = None
        if self.is_by_words and question.keywords:
            query = phrases(question.keywords, needs_all=question.match_all)
            stems = phrases(question.keywords, needs_all=question.match_all, form=stem_phrase)
        elif self.is_by_words:
            config = loaded.index.config
            query = parse(text.text, synonyms.of(config.words_of or config.vault))
        most = weights.WORDS if is_first else weights.WORDS_OF_FURTHER
        self.words = Words(loaded, query, total, guides, most, stems if stems != query else None)
        self.is_both = self.is_by_words and text.vector is not None
        """Whether the text is asked by words and by meaning."""
        self.expected = self.words.known if self.is_by_words else None
        """The share, 0..1 by weight, of the text's words that the vault has; None if it is not asked by words."""
        self._scale = () if text.vector is None else question_scale(loaded.index.embedder)

    def by_meaning(
        self, limits: Sequence[Condition], wanted: int, reasons: Reasons, time: When | None, *, pending: bool
    ) -> list[int]:
        """Find the nearest chunks, notes with the nearest titles, and pending texts by the second encoder."""
        loaded, vector = self._loaded, self.text.vector
        if vector is None:
            return []
        self.semantic |= self._nearest(vector, limits, wanted, reasons)
        if time and not time.newest:
            # The notes of a week may be few among very many that are nearer.
            dated = self._nearest(vector, (*limits, time.condition), wanted, reasons)
            unranked = {number: (chunk, leg._replace(rank=0)) for number, (chunk, leg) in dated.items()}
            self.semantic = {**unranked, **self.semantic}
        near = [*self.semantic, *loaded.near_labels(vector, limits)]
        if self.text.second is not None and pending:
            pending_texts = loaded.nearest.standing_in(self.text.second, limits, wanted)
            near += [chunk.number for chunks, _ in pending_texts for chunk in chunks]
        return near

    def _nearest(
        self, vector: Vectors, limits: Sequence[Condition], wanted: int, reasons: Reasons
    ) -> dict[int, tuple[StoredChunk, Leg]]:
        """Return the `wanted` chunks nearest to a unit vector, by number, best first; see `Nearest.chunks`."""
        found: dict[int, tuple[StoredChunk, Leg]] = {}
        for chunks, cosine in self._loaded.nearest.chunks(vector, limits, wanted, reasons):
            leg = Leg(len(found) + 1, score(cosine, self._scale))
            found |= {chunk.number: (chunk, leg) for chunk in chunks}
        return found

    def matches(self, chunks: Sequence[StoredChunk], written: Sequence[Writing], rows: dict[str, bytes]) -> list[Match]:
        """Return the text's scores of `chunks`; `rows`, second encoder's vectors by key, are completed."""
        near = self._scores(chunks)
        if self.is_by_words:
            self.words.score(chunk.number for chunk in chunks)
        notes: Mapping[str, OfNote] = {}
        by_second: Mapping[str, float] = {}
        if self._mode != "keyword":  # which asks for chunks with these words
            about = self._loaded.cosines_of_notes(self.text.vector, chunks)
            labels = (key for note in about.values() for _, key, _ in note.labels)
            by_second = self._by_second(dict.fromkeys((*(chunk.key for chunk in chunks), *labels)), rows)
            shares = self.words.shares(self._loaded, {path: (note.first, note.last) for path, note in about.items()})
            notes = {path: _of_note(note, self._scale, by_second, shares.get(path)) for path, note in about.items()}
        # With one leg alone no credit is given for another language.
        own = Writing(self.text.text if self.is_both else "")
        matches = []
        for chunk, writing in zip_longest(chunks, written):
            leg = self.words.legs.get(chunk.number)
            second, foreign = by_second.get(chunk.key), 0.0
            if writing is not None:
                foreign = own.foreign(writing, leg.score if leg else 0.0)
                second = second if writing.is_read else None
            note = notes.get(chunk.path, NOTHING)
            if chunk.ordinal and chunk.category == SESSION:
                note = note._replace(title=None)
            matches.append(Match(near.get(chunk.number), leg, foreign, note, second, self.expected, self.text.text))
        return matches

    def _scores(self, chunks: Sequence[StoredChunk]) -> dict[int, Leg]:
        """Return the legs by meaning of the chunks that were found near, and of these, by number."""
        scores = {number: leg for number, (_, leg) in self.semantic.items()}
        if self.text.vector is None:
            return scores
        others = [chunk for chunk in chunks if chunk.number not in scores]
        cosines = self._loaded.nearest.cosines(self.text.vector, [chunk.key for chunk in others])
        return scores | {
            one.number: Leg(0, score(cosines[one.key], self._scale)) for one in others if one.key in cosines
        }

    def _by_second(self, keys: Iterable[str], rows: dict[str, bytes]) -> Mapping[str, float]:
        """Return the scores by the second encoder of the texts that it knows, by key; `rows` are completed."""
        second = self._loaded.index.second
        if self.text.second is None or second is None:
            return {}
        if missing := [key for key in keys if key not in rows]:
            rows |= self._loaded.catalog.second.of(missing)
        if not rows:
            return {}
        block = np.frombuffer(b"".join(rows.values()), np.int8).reshape(len(rows), -1)
        pairs = zip(rows, (unit(block) @ unit(self.text.second)).tolist(), strict=True)
        return {key: score(cosine, second.scale) for key, cosine in pairs}


def _of_note(note: NoteCosines, scale: Scale, by_second: Mapping[str, float], words: float | None) -> OfNote:
    """Return the scores of a whole note; `words` is the share, by weight, of the words asked for that it contains."""
    labels: dict[str, float] = {}
    for kind, key, cosine in note.labels:
        first = None if cosine is None else score(cosine, scale)
        value = joined(first, by_second.get(key), weights.SCORE.first, weights.UNKNOWN_LABEL_COST)
        if value is not None and value >= labels.get(kind, 0.0):
            labels[kind] = value
    is_several = note.last > note.first  # else the chunk itself is the whole note
    whole = score(note.whole, scale) if note.whole is not None and is_several else None
    return OfNote(labels.get(TITLE), labels.get(QUESTION), whole, words)
