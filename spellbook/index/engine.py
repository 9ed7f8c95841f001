"""
What a question reads of an index, whichever engine keeps it: this machine's catalog (`local`) or PostgreSQL.

All that goes over a network is asked for in as few calls as possible, and filters cut inside the engine: as many rows
come back as there are. Chunks have numbers; those of a note follow each other. Vectors are unit vectors, float32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from spellbook.index.catalog.links import Links
from spellbook.index.catalog.schema import Counts, StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import Condition, Unmatched
from spellbook.index.opened import Index
from spellbook.index.vectors.about import NoteCosines
from spellbook.index.vectors.nearest import Texts
from spellbook.models.base import Bytes, Embedder, Reranker, SecondEncoder, Vectors
from spellbook.settings.config import Config
from spellbook.text.expressions import Expression, Phrase


class Linking(Protocol):
    """What tells which notes supersede others; a catalog is one, and so is an engine."""

    @property
    def links(self) -> Links:
        """The links between notes."""

    def among(self, paths: Collection[str], conditions: Sequence[Condition]) -> set[str]:
        """Return those of `paths` whose notes meet `conditions`."""


class Engine(Linking, Protocol):
    """What answers from an index, for any number of threads. It raises StorageError where it cannot."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the embedder whose vectors these are, "" before the first."""

    @property
    def second_fingerprint(self) -> str:
        """The fingerprint of the second encoder whose vectors these are, "" before the first."""

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which all reads see one state of the index."""

    def counts(self) -> Counts:
        """Return the state of the index."""

    # -- by words

    def guides(self) -> int:
        """Return the number of the chunks of guides; see `filters.NO_GUIDES`."""

    def frequencies(self, phrases: Sequence[Phrase], unprompted: bool, guides: int = 0) -> Callable[[Expression], int]:
        """
        Return what tells how many chunks an expression finds; `phrases` are those that it will be asked for.

        With `unprompted` the column `questions` does not count. A search that leaves guides out gives `guides`, the
        number of their chunks: then an expression that only guides have counts 0.
        """

    def match(
        self, expression: Expression, limits: Sequence[Condition], limit: int, also: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        """
        Return the `limit` best chunks by number, with bm25 (more is better), of those that meet `limits`.

        Then those of the chunks `also` that match and meet them. Equally good ones come by number.
        """

    def match_among(self, expression: Expression, numbers: Sequence[int]) -> list[tuple[int, float]]:
        """Return the same as `match` for the chunks `numbers` alone."""

    def holding(self, expressions: Sequence[Expression], notes: Sequence[tuple[int, int]]) -> list[list[bool]]:
        """Return for each expression which notes, by the numbers of their first and last chunk, have it."""

    # -- by meaning

    def nearest(self, vector: Vectors, limits: Sequence[Condition], wanted: int, reasons: list[str]) -> Texts:
        """Return the `wanted` texts nearest to a vector; why it took longer or may be less exact goes to `reasons`."""

    def standing_in(self, vector: Bytes, limits: Sequence[Condition], wanted: int) -> list[int]:
        """Return the chunks nearest by the second encoder (int8), of those that the embedder has not read."""

    def named(self, vector: Vectors, limits: Sequence[Condition]) -> list[int]:
        """Return the best chunks of the few notes whose title or question is nearest; see `NoteVectors.near`."""

    def cosines(self, vector: Vectors, keys: Iterable[str]) -> dict[str, float]:
        """Return the cosines of these keys' vectors to a vector; those without one are left out."""

    def about(self, vector: Vectors | None, chunks: Iterable[StoredChunk]) -> dict[str, NoteCosines]:
        """Return what a question and the notes of `chunks` have to do with each other, by path."""

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """Return the vectors of these keys; those without one are left out."""

    def seconds(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the vectors of the second encoder (int8) of these keys; those without one are left out."""

    # -- rows

    def by_number(self, numbers: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by their numbers, in no order."""

    def at(self, path: str) -> list[StoredChunk]:
        """Return the chunks of the note at `path`, in order; none if there is no such note."""

    def unmatched(
        self, wanted: Sequence[Condition], visible: Sequence[Condition], *, paths: bool = True
    ) -> tuple[Unmatched, ...]:
        """Return the values of a filter that no visible note has; see `conditions.unmatched`."""

    # -- what the machine with the files knows beside the notes

    def uses(self, notes: Iterable[str]) -> Mapping[str, Use]:
        """Return how often notes were opened, by id."""

    def tokens(self, numbers: Sequence[int], tokeniser: str) -> dict[int, int]:
        """Return the tokens of those of the chunks `numbers` that were counted."""

    def embed_next(self, keys: Iterable[str]) -> None:
        """Have these texts, if they have no vector yet, embedded before others."""


class Source(Protocol):
    """What a search is given: an engine, with the models and the settings that belong to it."""

    @property
    def config(self) -> Config:
        """The settings."""

    @property
    def embedder(self) -> Embedder:
        """The model that reads questions."""

    @property
    def second(self) -> SecondEncoder | None:
        """The model that helps it, if there is one."""

    @property
    def reranker(self) -> Reranker | None:
        """The model that judges the first hits, if there is one."""

    @property
    def whole(self) -> Index | None:
        """For a part of a vault, the index of all of it."""

    @property
    def visible(self) -> tuple[Condition, ...]:
        """What limits searches to a scope."""

    def engine(self) -> Engine:
        """Return a new engine, which keeps what it needs in memory."""

    def fits(self, width: int) -> None:
        """Make sure that vectors of `width` numbers can be compared with those of the index. Raises EmbeddingError."""
