"""
The candidates of a question: each text of it looks for chunks by meaning and by words, and scores all that were found.

A question may come with further texts, `Question.also`. Each finds its own chunks;
every chunk is then scored under every text. Only reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import NO_GUIDES, Condition
from spellbook.index.loaded import LoadedIndex
from spellbook.index.privacy import ON_PURPOSE
from spellbook.models.base import Bytes, Vectors, question_scale
from spellbook.search import retrieve, synonyms, weights
from spellbook.search.presentation import is_session
from spellbook.search.question import Question, Ranked
from spellbook.search.ranking import Candidate
from spellbook.search.text_scores import NOTHING, Leg, Match, OfNote
from spellbook.search.when import When


@dataclass(frozen=True, slots=True)
class QueryText:
    """A text of a question, with its unit vector and the second encoder's (int8); None where it has none."""

    text: str
    vector: Vectors | None = None
    second: Bytes | None = None


class Gathering:
    """
    What the texts of a question, itself first, find in an index; `reasons` get why that may not be all.

    `time` is what the question says of time. `written` knows the languages of chunks.
    """

    def __init__(
        self,
        loaded: LoadedIndex,
        question: Question,
        texts: Sequence[QueryText],
        limits: Sequence[Condition],
        reasons: list[str],
        written: retrieve.ScriptsCache,
        time: When | None = None,
    ) -> None:
        index, catalog = loaded.index, loaded.catalog
        self.counts = catalog.counts()
        self.guides = catalog.guides() if NO_GUIDES in limits else 0
        if texts[0].vector is not None and catalog.fingerprint != index.embedder.fingerprint:
            texts = [QueryText(text.text) for text in texts]
            if catalog.fingerprint:  # else nothing was indexed yet
                reasons.append("searched by words only: another process indexes this vault with another embedder")
        has_second = any(text.second is not None for text in texts)
        if has_second and (index.second is None or catalog.second.fingerprint != index.second.fingerprint):
            # Its vectors are another encoder's, if there are any.
            texts = [replace(text, second=None) for text in texts]
        pool = weights.POOL if len(texts) == 1 else weights.POOL_OF_SEVERAL
        wanted = max(pool, question.limit * weights.CANDIDATES_A_HIT)
        self._catalog, self._written, self._limits, self._reasons, self._time = catalog, written, limits, reasons, time
        self._has_few_sessions = question.has_few_sessions
        self._lookups = [Lookup(loaded, question, text, wanted) for text in texts]

    def candidates(self, wanted: Sequence[int] = ()) -> list[Candidate]:
        """Return the candidates in no order and without a score; the chunks `wanted`, by number, are among them."""
        found = self._within(self._limits, wanted)
        if self._has_few_sessions and any(map(is_session, found)):  # which may be many, and fill all the places
            found = self._within((*self._limits, ON_PURPOSE), [one.chunk.number for one in found])
        return found

    def _within(self, limits: Sequence[Condition], wanted: Sequence[int]) -> list[Candidate]:
        near, first = list(wanted), self._lookups[0]
        for lookup in self._lookups:
            time = self._time if lookup is first else None
            near += lookup.by_meaning(limits, self._reasons, time, pending=self.counts.pending > 0)
        for lookup in self._lookups:
            near += lookup.by_words(limits, list(dict.fromkeys(near)), self.counts.chunks, self.guides)
        return self.of(list(dict.fromkeys(near)))

    def of(self, numbers: Sequence[int]) -> list[Candidate]:
        """Return these chunks, by number, as candidates; call `candidates` first."""
        if not numbers:
            return []
        known = {number: chunk for lookup in self._lookups for number, (chunk, _) in lookup.semantic.items()}
        missing = [number for number in numbers if number not in known]
        known |= {chunk.number: chunk for chunk in self._catalog.by_number(missing)}
        chunks = [known[number] for number in numbers if number in known]
        compares = any(lookup.compares_languages for lookup in self._lookups)
        how_written = [self._written.of(chunk) for chunk in chunks] if compares else []
        rows: dict[str, bytes] = {}
        matches = [lookup.matches(chunks, how_written, rows) for lookup in self._lookups]
        return [Candidate(chunk, of_texts) for chunk, *of_texts in zip(chunks, *matches, strict=True)]

    def state(self) -> Ranked:
        """Return what was looked for, without candidates."""
        first, *others = self._lookups
        return Ranked(
            [],
            self.counts,
            self._reasons,
            first.words.words,
            first.expected,
            first.text.vector,
            first.words.quotes,
            guides=self.guides,
            further=tuple(word for lookup in others for word in lookup.words.words),
        )


class Lookup:
    """What one text of a question finds, by chunk number, and what it says of each chunk."""

    def __init__(self, loaded: LoadedIndex, question: Question, text: QueryText, wanted: int) -> None:
        self._loaded, self._wanted = loaded, wanted
        self._question = question if text.text == question.text else replace(question, text=text.text, also=())
        self._most_words = weights.WORDS if text.text == question.text else weights.WORDS_OF_FURTHER
        self.text = text
        self.semantic: dict[int, tuple[StoredChunk, Leg]] = {}
        self.words = retrieve.Words({}, ())
        self._is_by_words = question.mode != "semantic" or text.vector is None

    @property
    def is_both(self) -> bool:
        """Whether the text is asked by words and by meaning."""
        return self._is_by_words and self.text.vector is not None

    @property
    def compares_languages(self) -> bool:
        """Whether it matters in which language a chunk is written."""
        return self.is_both or self.text.second is not None

    @property
    def expected(self) -> float | None:
        """The share, 0..1 by weight, of the text's words that the vault has; None if it is not asked by words."""
        return self.words.known if self._is_by_words else None

    def by_meaning(
        self, limits: Sequence[Condition], reasons: list[str], time: When | None, *, pending: bool
    ) -> list[int]:
        """Look for the nearest chunks, notes with the nearest titles, and what stands in for texts that are pending."""
        loaded, vector, wanted = self._loaded, self.text.vector, self._wanted
        if vector is None:
            return []
        nearest, scale = loaded.nearest, question_scale(loaded.index.embedder)
        self.semantic |= retrieve.by_meaning(nearest, vector, scale, limits, wanted, reasons)
        if time and not time.newest:
            # The notes of a week may be few among very many that are nearer.
            dated = retrieve.by_meaning(nearest, vector, scale, (*limits, time.condition), wanted, reasons)
            unranked = {number: (chunk, leg._replace(rank=0)) for number, (chunk, leg) in dated.items()}
            self.semantic = {**unranked, **self.semantic}
        near = [*self.semantic, *loaded.notes.near(vector, limits)]
        if self.text.second is not None and pending:
            pending_texts = nearest.standing_in(self.text.second, limits, wanted)
            near += [chunk.number for chunks, _ in pending_texts for chunk in chunks]
        return near

    def by_words(self, limits: Sequence[Condition], near: Sequence[int], total: int, guides: int) -> list[int]:
        """Look for chunks with the text's words, and score the chunks `near` by them; see `retrieve.by_words`."""
        if not self._is_by_words:
            return []
        config = self._loaded.index.config
        table = synonyms.of(config.words_of or config.vault)
        words = retrieve.by_words(
            self._loaded, self._question, limits, total, guides, near, self._wanted, table, self._most_words
        )
        self.words = replace(words, legs={**words.legs, **self.words.legs})
        self._scored = {*near, *self.words.legs}
        return list(words.legs)

    def matches(
        self,
        chunks: Sequence[StoredChunk],
        written: Sequence[retrieve.ChunkScripts],
        rows: dict[str, bytes],
    ) -> list[Match]:
        """
        Return what the text has to do with each of `chunks`.

        `written` says how each is written; it is empty where no text `compares_languages`.
        `rows` are vectors of the second encoder by key; those that are missing are read and added.
        """
        loaded, index, vector = self._loaded, self._loaded.index, self.text.vector
        scores = {number: leg for number, (_, leg) in self.semantic.items()}
        if vector is not None:
            others = [chunk for chunk in chunks if chunk.number not in scores]
            scale = question_scale(index.embedder)
            scores |= retrieve.scores_by_meaning(loaded.nearest, vector, scale, others)
        words = self.words.legs
        if self._is_by_words:
            words |= self.words.more([chunk.number for chunk in chunks if chunk.number not in self._scored])
        # With one leg alone no credit is given for another language.
        own = retrieve.TextScripts.of(self.text.text) if self.is_both else retrieve.ANY_LANGUAGE
        notes: Mapping[str, OfNote] = {}
        by_second: Mapping[str, float] = {}
        if self._question.mode != "keyword":  # which asks for chunks with these words
            about = loaded.notes.of(vector, chunks)
            if self.text.second is not None and index.second is not None:
                labels = (key for note in about.values() for _, key, _ in note.labels)
                keys = dict.fromkeys((*(chunk.key for chunk in chunks), *labels))
                if missing := [key for key in keys if key not in rows]:
                    rows |= loaded.catalog.second.of(missing)
                by_second = retrieve.scores_by_second(self.text.second, index.second.scale, rows)
            # A service that is down may not have a scale yet.
            scale = () if vector is None else question_scale(index.embedder)
            notes = retrieve.of_notes(loaded, self.words, about, scale, by_second)
        expected, matches = self.expected, []
        for chunk, scripts in zip_longest(chunks, written):
            leg = words.get(chunk.number)
            second, foreign = by_second.get(chunk.key), 0.0
            if scripts is not None:
                foreign = own.foreign(chunk, scripts, leg.score if leg else 0.0)
                second = second if second is not None and scripts.is_read(chunk) else None
            note = notes.get(chunk.path, NOTHING)
            matches.append(Match(scores.get(chunk.number), leg, foreign, note, second, expected, self.text.text))
        return matches
