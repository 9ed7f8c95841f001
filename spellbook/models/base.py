"""
The protocols of embedders and rerankers, and what is done to texts and cosines for every model.

A text is cleaned first (NUL, lone surrogates, composed letters, length), so
that one text has one vector. Vectors of two embedders are never compared:
their fingerprints differ.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol, TypeAlias

from spellbook.system.lazy import np, npt
from spellbook.text.unicode import composed, mended

Vectors: TypeAlias = "npt.NDArray[np.float32]"
Bytes: TypeAlias = "npt.NDArray[np.int8]"

_MOST_LETTERS = 2_000
"""Longer texts are cut before they are embedded: the engine's time grows faster than the text."""

TEMPLATE = "t2"
"""Names the form of `notes.chunks.Chunk.embedded`; part of each embedder's fingerprint."""

Scale = tuple[tuple[float, float], ...]
"""Points (cosine, score), rising, between which a score is drawn linearly."""

PUT_OFF = 0.25
"""Seconds for which a question delays the embedding of a text in the background; many questions do not stop it."""

_POLL = 0.005
"""Seconds between checks whether a question is being answered. (Chosen by hand.)"""

questions: set[object] = set()
"""One for each question that is being answered in this process."""

servers: set[object] = set()
"""One for each server of this process: it goes on after an answer, so a model can be prepared beside its questions."""

_unhurried: ContextVar[bool] = ContextVar("unhurried", default=False)


class Encoder(Protocol):
    """A model that turns texts into vectors. Vectors of two fingerprints are never compared."""

    @property
    def name(self) -> str:
        """Its name for people."""

    @property
    def fingerprint(self) -> str:
        """Names everything that changes a vector: model, prefixes, calibration and the form of the text."""

    @property
    def scale(self) -> Scale:
        """How its cosines become scores."""

    def describe(self) -> str:
        """Say what runs the model here, or why nothing does; "" if there is no more than the name. Loads nothing."""


class Embedder(Encoder, Protocol):
    """A model as sync and search use it. Its width is known from its vectors only."""

    def embed_query(self, text: str) -> Vectors:
        """Return one unit vector, shape (width,). Raises EmbeddingError."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), width). Raises EmbeddingError."""


class SecondEncoder(Encoder, Protocol):
    """A small, quick encoder that helps the embedder."""

    def vectors(self, texts: Sequence[str], query: bool = False) -> Bytes:
        """
        Return the vectors of passages, or with `query` of questions, titles and other short texts: int8 (n, width).

        Raises EmbeddingError.
        """


class Reranker(Protocol):
    """A model that reads a question and a text together."""

    name: str

    def rerank(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """
        Return how well each text answers, 0..1, in the order of `texts`.

        Raises EmbeddingError, after `seconds` at the latest.
        """


def embed_queries(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return the unit vectors of questions, shape (n, width), in one call if `embedder` can. Raises EmbeddingError."""
    several = getattr(embedder, "embed_queries", None)
    made: Vectors = several(texts) if several else np.stack([embedder.embed_query(text) for text in texts])
    return made


def question_scale(embedder: Embedder) -> Scale:
    """Return how cosines of questions become scores: an encoder of its own for questions has a scale of its own."""
    own: Scale | None = getattr(embedder, "question_scale", None)
    return embedder.scale if own is None else own


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """
    Within this context nobody waits for the vectors: a service may take the time to load its model.

    Outside of it somebody waits, and a service that does not answer within seconds is given up.
    """
    token = _unhurried.set(True)
    try:
        yield
    finally:
        _unhurried.reset(token)


def is_unhurried() -> bool:
    """Say whether this is within `unhurried`."""
    return _unhurried.get()


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Within this context a question is being answered, and background embedding gives way."""
    questions.add(mark := object())
    try:
        yield
    finally:
        questions.discard(mark)


def give_way() -> None:
    """Wait while a question is being answered in this process, `PUT_OFF` seconds at most."""
    until = time.monotonic() + PUT_OFF
    while questions and time.monotonic() < until:
        time.sleep(_POLL)


def vector_key(fingerprint: str, text: str) -> str:
    """Return the key under which the vector of `text` is kept: equal text, equal vector, wherever it stands."""
    return short_hash(f"{fingerprint}\0{text}".encode("utf-8", "surrogatepass"))


def short_hash(data: bytes) -> str:
    """Return 120 bits of the SHA-256 of `data` as 20 letters and digits, "-" and "_"."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()[:15]).decode("ascii")


def label_key(fingerprint: str, kind: str, text: str) -> str:
    """Return the key of the vector of a note's label: its title or a question it names, as `kind` says."""
    return vector_key(f"{fingerprint}\0{kind}", text)


def score(cosine: float, scale: Scale) -> float:
    """Return a cosine as a score in 0..1 on an embedder's scale."""
    low, a = scale[0]
    if cosine <= low:
        return a
    for high, b in scale:
        if cosine <= high:
            return a + (b - a) * (cosine - low) / (high - low)
        low, a = high, b
    return a


def unit(kept: Bytes) -> Vectors:
    """Return rows of int8, shape (..., width), as float32 vectors of length one."""
    floats = kept.astype(np.float32)
    vectors: Vectors = floats / np.maximum(np.linalg.norm(floats, axis=-1, keepdims=True), 1e-9)
    return vectors


def clean(text: str) -> str:
    """Return `text` as it is safe to embed: NFC, no NUL, no lone surrogate, of bounded length, never empty."""
    # A composed letter may be up to four.
    return mended(composed(text[: _MOST_LETTERS * 4])[:_MOST_LETTERS]) or " "
