"""Embed the texts of chunks and labels, and keep what follows from their vectors: the cache's bound, Chroma."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any

from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.vectors import Row
from spellbook.index.guide_vectors import Packaged, packaged
from spellbook.index.opened import Index, Progress
from spellbook.index.vectors import follow
from spellbook.index.vectors.chroma import Unavailable
from spellbook.index.vectors.server import Server
from spellbook.models.base import embed_queries, label_key, unhurried, vector_key
from spellbook.system.errors import EmbeddingError, StorageError
from spellbook.system.lazy import np
from spellbook.system.lock import held
from spellbook.text.quoting import counted

_log = logging.getLogger(__name__)

_BATCH_TEXTS = 32
"""Texts that are embedded and committed at once: some two seconds of work, which a kill loses at most."""

_BATCH_AT_ONCE = 4
"""The same where somebody waits, who is to be answered within two seconds."""

_LABELS_AT_ONCE = 64
"""Most labels that are embedded while somebody waits; the others stay pending."""

_SECOND_AT_ONCE = 256
"""Texts that the second encoder is given and that are committed at once: some half a second of work."""

_OF_A_LIBRARY = (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError)
"""Errors that a text may cause in a library."""

COPIED = 600
"""Vectors that are copied at a time from another catalog or a server."""

WORTH_A_REQUEST = 64
"""Texts that wait, from which on a server is asked: fewer are embedded here before it answers. By hand."""

_CHECKED = 50
"""Vectors of a server for each one that is compared with our own."""

_ALIKE = 0.97
"""
The least cosine of a server's vector with our own. Measured with multilingual-e5-small: the same text by two engines
.997 or more (250 texts), its nearest other text .915 or less, the text as a question .89 or less.
"""

_LOCK = "embed.lock"
_PATIENCE = 2.0
"""Seconds of waiting for the lock between checks of the other process's progress."""

_STUCK = 120.0
"""Seconds without progress of the process that embeds, after which this one embeds beside it. By hand."""


def embed_texts(
    index: Index,
    *,
    progress: Progress | None = None,
    most: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """
    Embed pending texts in the order of `Waiting.in_order`, and return how many texts of chunks were stored.

    The second encoder comes first, being many times as quick. One process embeds at a time; texts edited meanwhile, or
    found by words in any process, are next. With `most`, somebody waits: labels come last, and nothing is done while
    another process embeds.
    """
    second, kept = index.second, index.catalog.second
    helps = second is not None and (kept.fingerprint != second.fingerprint or kept.waiting.is_there)
    if not (helps or index.catalog.waiting.is_there):
        return 0
    stored, tried, refused = 0, set[str](), set[str]()
    hurry = unhurried() if most is None else contextlib.nullcontext()
    with hurry, _turn(index, stop, waits=most is None) as is_ours:
        if not is_ours:
            return 0
        copy_vectors(index, packaged())
        embed_second(index, progress=progress, most=most, stop=stop)
        if most is None:
            take_shared(index, stop)
        failed = second_pending(index)
        for batch, total in _batches(index, tried, most):
            if second_pending(index) > failed:
                # Texts edited meanwhile do not wait until all the rest is done here.
                embed_second(index, most=_SECOND_AT_ONCE, stop=stop)
            if stop():
                break
            stored += embed_and_store(index, index.catalog.waiting.texts(batch), refused)
            if progress:
                progress("embedding", len(tried), total)
    return stored


@contextlib.contextmanager
def _turn(index: Index, stop: Callable[[], bool], *, waits: bool) -> Iterator[bool]:
    """Yield whether this process may embed now; if it `waits`, for as long as another one that embeds gets on."""
    pending, since = -1, time.monotonic()
    with contextlib.ExitStack() as lock:
        is_ours = waits
        with contextlib.suppress(OSError):  # where nothing can be locked, nothing can be stored either
            while not (is_ours := lock.enter_context(held(index.config.state / _LOCK, _PATIENCE if waits else 0))):
                if not waits or stop():
                    break
                if pending != (now := index.catalog.counts().pending):
                    pending, since = now, time.monotonic()
                elif is_ours := time.monotonic() - since > _STUCK:
                    break
        yield is_ours


def _batches(index: Index, tried: set[str], most: int | None) -> Iterator[tuple[list[str], int]]:
    """Yield keys that wait, some at a time, and how many these are in all; list them anew after each change."""
    waiting, size, seen = index.catalog.waiting, _BATCH_TEXTS if most is None else _BATCH_AT_ONCE, None
    left: Iterator[str] = iter(())
    total = 0
    while True:
        now = index.catalog.version, waiting.asked_for()[:1]
        if now != seen:
            listed = [key for key in waiting.in_order(labels_last=most is not None) if key not in tried]
            listed = listed if most is None else listed[: max(0, most - len(tried))]
            seen, left, total = now, iter(listed), len(tried) + len(listed)
        batch = list(islice(left, size))
        if not batch:
            return
        tried.update(batch)
        yield batch, total


def embed_and_store(index: Index, rows: Sequence[Row], refused: set[str] | None = None, *, kept_days: int = 0) -> int:
    """
    Embed the texts of `rows`, store their vectors, and return how many are of chunks.

    `refused` gets refused texts, and the others are embedded. Vectors are kept for `kept_days` even if unused. Raises
    EmbeddingError if a text, or with `refused` all of them, fail.
    """
    if not rows:
        return 0
    vectors = vectors_of(index, rows, refused)
    if kept_days:
        index.catalog.vectors.keep_unused([key for key, _ in vectors], kept_days)
    index.catalog.vectors.add(vectors)
    labels = {key for key, label, _ in rows if label}
    return sum(key not in labels for key, _ in vectors)


def embed_labels(index: Index, paths: Sequence[str]) -> None:
    """Embed the pending labels of the notes at `paths`, and their texts by the second encoder, if possible."""
    keys = [key for _, _, key in index.catalog.labels.of(paths)][:_LABELS_AT_ONCE]
    with contextlib.suppress(EmbeddingError, StorageError):
        embed_and_store(index, index.catalog.waiting.texts(keys))
    chunks = [key for _, _, key in index.catalog.labels.chunks(paths, _SECOND_AT_ONCE)]
    with contextlib.suppress(StorageError):
        embed_second(index, [*keys, *chunks][:_SECOND_AT_ONCE])


def embed_second(
    index: Index,
    keys: Sequence[str] | None = None,
    *,
    progress: Progress | None = None,
    most: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """
    Embed texts that wait for the second encoder, or those of them that `keys` names; at most `most`.

    Without a second encoder nothing is done; if it fails, the texts keep waiting and the log says so once. Texts that
    two processes embed at once cost milliseconds, and come out the same.
    """
    second, kept = index.second, index.catalog.second
    if second is None:
        return
    kept.adopt(second.fingerprint)
    waiting = (kept.waiting.in_order() if keys is None else list(keys))[:most]
    for start in range(0, len(waiting), _SECOND_AT_ONCE):
        if stop():
            break
        rows = kept.waiting.texts(waiting[start : start + _SECOND_AT_ONCE])
        try:
            for are_labels in (True, False):
                some = [(key, text) for key, label, text in rows if bool(label) is are_labels]
                vectors = second.vectors([text for _, text in some], query=are_labels)
                if some:
                    stored = [(key, row.tobytes()) for (key, _), row in zip(some, vectors, strict=True)]
                    kept.add(second.fingerprint, stored)
        except EmbeddingError as error:
            _warn_once(str(error))
            break
        if progress and keys is None:
            progress("second encoder", min(start + _SECOND_AT_ONCE, len(waiting)), len(waiting))


def take_shared(index: Index, stop: Callable[[], bool]) -> None:
    """
    Copy waiting texts' vectors from a Chroma server, if they are worth a request.

    Of each collection one vector in fifty, at least one of each batch, is compared with our own before the batch is
    taken. If one differs, the collection is doubted from then on, and what this call took of it is dropped.
    """
    server, waiting = index.chroma, index.catalog.waiting.in_order()
    if not isinstance(server, Server) or len(waiting) < WORTH_A_REQUEST:
        return
    vectors = index.catalog.vectors
    taken: dict[str, list[str]] = {"texts": [], "labels": []}
    try:
        width = vectors.width() or len(index.embedder.embed_query("width"))
        for start in range(0, len(waiting), COPIED):
            rows = index.catalog.waiting.texts(waiting[start : start + COPIED])
            for part, of_part in taken.items():
                some = {row[0]: row for row in rows if bool(row[1]) == (part == "labels")}
                found = {} if stop() else server.fetch(part, [*some], width)
                chosen = random.sample([*found], -(-len(found) // _CHECKED))
                own = dict(vectors_of(index, [some[key] for key in chosen]))
                if any(np.frombuffer(own[key], "<f4") @ np.frombuffer(found[key], "<f4") < _ALIKE for key in own):
                    server.doubt(part)
                    vectors.drop(of_part)
                    found = {}
                elif len(own) < len(chosen):  # another process went over to another embedder meanwhile
                    return
                vectors.add((found | own).items())
                of_part += found.keys() - own.keys()
    except Unavailable as error:
        _log.warning("The texts are embedded here, since Chroma gives no vectors: %s", error)


def _copy(waiting: Sequence[str], of: Callable[[list[str]], dict[str, bytes]], add: Callable[[Any], None]) -> None:
    for start in range(0, len(waiting), COPIED):
        if vectors := of([*waiting[start : start + COPIED]]):
            add(vectors.items())


def copy_vectors(index: Index, source: Catalog | Packaged) -> None:
    """Copy waiting texts' vectors from `source`, as far as it has them; embeds nothing."""
    _copy(index.catalog.waiting.in_order(), source.vectors.of, index.catalog.vectors.add)
    own, second = index.catalog.second, source.second
    if index.second is not None and second.fingerprint == index.second.fingerprint:
        own.adopt(second.fingerprint)
        _copy(own.waiting.in_order(), second.of, partial(own.add, second.fingerprint))


def second_pending(index: Index) -> int:
    """Return how many texts of chunks wait for the second encoder, 0 without one."""
    return index.catalog.counts().second_pending if index.second else 0


@cache
def _warn_once(error: str) -> None:
    _log.warning("The second encoder does not help now: %s", error)


def vectors_of(index: Index, rows: Sequence[Row], refused: set[str] | None = None) -> list[tuple[str, bytes]]:
    """Embed `rows`; return key and vector (float32). `refused` gets refused keys. Raises EmbeddingError if all fail."""
    try:
        return _vectors(index, rows)
    except EmbeddingError as failure:
        if refused is None:
            raise
        done: list[tuple[str, bytes]] = []
        for number, row in enumerate(rows if len(rows) > 1 else ()):
            try:
                done += _vectors(index, [row])
            except EmbeddingError as error:
                # The first two fail alone too: the embedder is down, and to go on would take for ever.
                if number and not done:
                    raise
                refused.add(row[0])
                _log.warning("A text that begins %r is not embedded: %s", row[2][:60], error)
        if not done:
            raise failure
        return done


def _vectors(index: Index, rows: Sequence[Row]) -> list[tuple[str, bytes]]:
    """
    Embed the texts of `rows` at once, all or none.

    Keys of another embedding than the index's are left out: another process may have changed it. Raises EmbeddingError
    for a vector that is not a unit vector of the usual width.
    """
    fingerprint = index.embedder.fingerprint
    texts = [(key, text) for key, label, text in rows if not label and key == vector_key(fingerprint, text)]
    labels = [(key, text) for key, label, text in rows if label and key == label_key(fingerprint, label, text)]
    named = [*texts, *labels]
    if not named:
        return []
    try:
        # A label is as short as a question, and nearer to one as a question: MRR .63 (.59 as a passage) of loose
        # questions over memories, by titles alone.
        blocks = [index.embedder.embed_passages([text for _, text in texts])] if texts else []
        blocks += [embed_queries(index.embedder, [text for _, text in labels])] if labels else []
        block = np.concatenate([np.asarray(each, dtype="<f4") for each in blocks])
    except _OF_A_LIBRARY as error:
        raise EmbeddingError(
            f"The embedder {index.embedder.name} failed ({type(error).__name__}: {error}).",
            "Choose another one with SPELLBOOK_EMBEDDER.",
        ) from error
    if block.ndim != 2 or len(block) != len(named) or not np.allclose(np.linalg.norm(block, axis=1), 1, atol=0.01):
        asked = counted(len(named), "text")
        raise EmbeddingError(
            f"The embedder {index.embedder.name} gave no unit vectors: {block.shape} for {asked}.",
            "Choose another one with SPELLBOOK_EMBEDDER.",
        )
    index.fits(block.shape[1])
    return [(key, row.tobytes()) for (key, _), row in zip(named, block, strict=True)]


def tidy(index: Index) -> None:
    """Keep the cache of vectors within its bound and the catalog's file small; call it where nobody waits."""
    # Before that, vectors of notes that are not read yet look unused.
    if index.catalog.is_read and index.catalog.vectors.evict(index.config.cache_mb * 1_000_000):
        index.catalog.second.evict()
    index.catalog.upkeep.shrink()


def maintain(index: Index) -> None:
    """Keep the cache and the file small; let a child fill Chroma where it answers and lacks many vectors."""
    tidy(index)
    # Answers take longer while Chroma lacks many vectors, in a vault where it answers or soon will.
    chunks = index.catalog.counts().chunks
    most = min(follow.MOST_BEHIND, chunks // 20)
    is_large = chunks > follow.SOON * index.config.exact_most
    if is_large and follow.behind(index) > most:
        follow.start(index)  # search does without until it succeeds
