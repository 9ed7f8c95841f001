"""
Keep the index equal to the vault.

`plan` compares, `run` acts in two stages: every changed note is read and
findable by words first, then texts without a vector are embedded, newest
first. Each step is one small transaction, so that a run can be killed
anywhere and the next one goes on. The vault is the truth: deleting the index
and running again loses nothing but time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spellbook import chunks, terms
from spellbook.catalog.schema import ChunkRow, Entry, Known
from spellbook.errors import EmbeddingError, MemoryNotFound, PathOutsideVault, StorageError, UnreadableNote
from spellbook.filters import fold
from spellbook.index import Index
from spellbook.models import unhurried, vector_key
from spellbook.notes import Fault, Note, Stamp, parse
from spellbook.vault import Vault, digest
from spellbook.vectors import Unavailable

_log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with the stage ("reading", "embedding"), how much is done and of how much."""

SETTLED_NS = 2_000_000_000
"""A file this young when it was read may change again without its stamp showing it (the coarsest clock is FAT's)."""

_FEW = 10
_BATCH_FILES = 100
_BATCH_BYTES = 2_000_000
_BATCH_TEXTS = 16
_BATCH_AT_ONCE = 4
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """Files to read, and files to forget."""

    read: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """What a run did. `failed` lists what a person should mend, whether it was found now or earlier."""

    scanned: int = 0
    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    failed: tuple[Fault, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    pending: int = 0
    seconds: float = 0.0
    generation: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as the command line's JSON shows it."""
        return {name: value for name, value in asdict(self).items() if name != "pending"}


def plan(disk: Mapping[str, Stamp], known: Mapping[str, Known], hidden: Sequence[str] = (), *, full: bool = False) -> Plan:
    """
    Return the least work that brings the index up to `disk`.

    Files under the folders `hidden`, which could not be listed, are not gone.
    With `full` everything is read.
    """

    def current(path: str, stamp: Stamp) -> bool:
        before = known.get(path)
        # A second write within the clock's tick leaves size and mtime as they were.
        return before is not None and before.stamp == stamp and stamp.mtime_ns + SETTLED_NS <= before.read_ns

    read = (path for path, stamp in disk.items() if full or not current(path, stamp))
    gone = (path for path in known.keys() - disk.keys() if not path.startswith(tuple(hidden)))
    return Plan(tuple(sorted(read)), tuple(sorted(gone)))


def is_unlikely(work: Plan, known: Mapping[str, Known]) -> bool:
    """Say whether so much is gone at once, and nothing new in its place, that a drive may be unmounted."""
    fresh = sum(path not in known for path in work.read)
    lost = len(work.gone) - fresh
    return lost >= _FEW and lost * 2 > len(known)


def run(index: Index, *, full: bool = False, words_only: bool = False, progress: Progress | None = None) -> Report:
    """
    Bring the index up to the vault and return what was done.

    With `words_only` the vectors stay pending. Raises VaultNotFound or
    StorageError if the vault seems to be unmounted, EmbeddingError if the
    embedder fails (search by words is up to date even then).
    """
    started = time.monotonic()
    report = words(index, full=full, progress=progress)
    if not words_only:
        report.embedded = embed(index, progress=progress)
        settle(index)
    return finish(index, report, started)


def words(index: Index, *, full: bool = False, progress: Progress | None = None) -> Report:
    """First stage: read what changed anywhere in the vault; afterwards search by words is right."""
    index.catalog.recut(f"{chunks.TEMPLATE}:{index.config.chunk_tokens}")
    _adopt(index)
    listing = index.vault.walk()
    known = index.catalog.known()
    work = plan(listing.files, known, listing.hidden, full=full)
    report = Report(scanned=len(listing.files), unchanged=len(listing.files) - len(work.read))
    unlikely = not full and is_unlikely(work, known)
    if unlikely:
        lost, work = len(work.gone), Plan(work.read)
    index.catalog.set_walk_faults(listing.faults)
    index.vault.sweep(listing.litter)
    _take(index, work, known, report, full=full, progress=progress)
    complaint = ""
    if unlikely:
        complaint = f"{index.vault.root}: {lost} of {len(known)} notes are gone. Is a drive not mounted?"
    index.catalog.set_looked(complaint)
    if unlikely:
        raise StorageError(complaint, "Nothing was forgotten. If you deleted them, run `spellbook reindex --full`.")
    return report


def some(index: Index, paths: Sequence[str]) -> Report:
    """First stage for `paths` alone, which somebody says have changed; waits for no other process."""
    _adopt(index)
    report = Report(scanned=len(paths))
    left = list(paths)
    for _ in range(_LOOKS):
        known = index.catalog.known(left)
        disk = {path: stamp for path in left if (stamp := index.vault.spelled(path))}
        work = Plan(tuple(sorted(disk)), tuple(sorted(known.keys() - disk.keys())))
        late = _take(index, work, known, report, alone=True)
        if not late:  # else somebody wrote in between, and a caller wants to find what it has just written
            break
        left = late
    return report


def _adopt(index: Index) -> None:
    index.catalog.adopt(index.embedder.fingerprint, lambda text: vector_key(index.embedder.fingerprint, text))


def finish(index: Index, report: Report, started: float) -> Report:
    """Fill in what a report says of the whole index."""
    counts = index.catalog.counts()
    report.failed = index.catalog.faults()
    report.chunks, report.pending, report.generation = counts.chunks, counts.pending, counts.generation
    report.seconds = round(time.monotonic() - started, 3)
    return report


def _take(
    index: Index,
    work: Plan,
    known: Mapping[str, Known],
    report: Report,
    *,
    full: bool = False,
    alone: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Read and commit `work`, add to `report`, and return the paths that changed while they were read."""
    lost = Counter(known[path].sha256 for path in work.gone if known[path].sha256)
    done, moved = 0, 0
    heirs: set[str] = set()
    late: list[str] = []
    for batch in _batches(index.vault, work.read):
        with contextlib.nullcontext() if alone else _sparing(index):
            if not alone and not full:
                # Another process may have taken some of it meanwhile.
                fresh = index.catalog.known(batch)
                stamps = {path: stamp for path in batch if (stamp := index.vault.stamp(path))}
                skipped = len(batch)
                batch = plan(stamps, fresh).read
                report.unchanged += skipped - len(batch)
            else:
                fresh = {path: known[path] for path in batch if path in known}
            entries = [entry for path in batch if (entry := read(index, path, None if full else fresh.get(path)))]
            same = [entry for entry in entries if entry.note is None and not _is_news(entry, fresh.get(entry.path))]
            if same:
                index.catalog.touch(same)
                report.unchanged += len(same)
            news = [entry for entry in entries if entry not in same] if same else entries
            keys = {chunk.key for entry in news for chunk in entry.chunks}
            report.reused += len(index.catalog.has_vectors(keys))
            taken, _ = index.catalog.apply(news, (), index.vault.stamp, index.embedder.fingerprint) if news else ([], [])
        accepted = set(taken)
        for entry in news:
            if entry.path not in accepted:
                late.append(entry.path)
                continue
            if entry.path in fresh:
                report.changed += fresh[entry.path].sha256 != entry.sha256
                report.unchanged += fresh[entry.path].sha256 == entry.sha256
            elif lost[entry.sha256]:
                lost[entry.sha256] -= 1
                moved += 1
                heirs.add(entry.path)
                report.moved += 1
            else:
                report.added += 1
        done += len(batch)
        if progress:
            progress("reading", done, len(work.read))
    if work.gone:
        _, forgotten = index.catalog.apply((), work.gone, index.vault.spelled, index.embedder.fingerprint, heirs)
        report.removed += max(0, len(forgotten) - moved)
    return late


def read(index: Index, path: str, known: Known | None = None) -> Entry | None:
    """
    Read one file as the catalog keeps it; None if it is gone.

    A file that holds what `known` says comes back without its note, since
    nothing but its stamp is news.
    """
    read_ns = time.time_ns()
    try:
        data, stamp = index.vault.read(path)
    except (MemoryNotFound, PathOutsideVault):  # it was there a moment ago, or was no link
        return None
    except UnreadableNote as error:
        # Its stamp is not trusted: permissions may change without showing in it.
        return Entry(path, index.vault.stamp(path) or Stamp(0, 0, 0), 0, "", (Fault(path, error.line or 0, _reason(path, error)),))
    sha256 = digest(data)
    if known is not None and known.sha256 == sha256:
        return Entry(path, stamp, read_ns, sha256)
    try:
        return entry(index, parse(path, data), stamp, read_ns, sha256)
    except UnreadableNote as error:
        return Entry(path, stamp, read_ns, sha256, (Fault(path, error.line or 0, _reason(path, error)),))
    except Exception as error:  # whatever one note does, the others are indexed
        _log.exception("%s cannot be read", path)
        return Entry(path, stamp, read_ns, sha256, (Fault(path, 0, f"Spellbook cannot read it ({type(error).__name__}: {error})"),))


def entry(index: Index, note: Note, stamp: Stamp, read_ns: int, sha256: str) -> Entry:
    """Return what the catalog keeps of a note."""
    pieces = chunks.cut(note, index.config.chunk_tokens)
    title, keywords, questions = map(_findable, (_titles(note), " ".join(_keywords(note)), " ".join(note.questions)))
    rows = tuple(
        ChunkRow(
            piece.ordinal,
            piece.suffix,
            " > ".join(piece.heading),
            piece.line,
            piece.end_line,
            piece.text,
            piece.embedded,
            folded(piece.text),
            vector_key(index.embedder.fingerprint, piece.embedded),
            piece.lead,
            piece.tail,
            (
                title,
                _findable(" ".join(piece.heading)),
                keywords,
                questions,
                terms.index_form(piece.text),
                terms.parts(piece.text),
            ),
        )
        for piece in pieces
    )
    columns = {
        "declared": note.declared_id,
        "title": note.title,
        "topic": note.topic,
        "category": note.category,
        "kind": note.kind,
        "importance": note.importance,
        "created": note.created,
        "updated": note.updated,
        "keywords": json.dumps(note.keywords, ensure_ascii=False),
        "tags": json.dumps(note.tags, ensure_ascii=False),
        "meta": json.dumps(note.meta, ensure_ascii=False, default=str),
    }
    return Entry(note.path, stamp, read_ns, sha256, note.faults, columns, frozenset(_fields(note)), rows)


def folded(text: str) -> str:
    """Return a hash that two texts share if they differ in nothing but case, blanks and marks."""
    return digest("".join(re.findall(r"\w+", fold(text))).encode("utf-8", "surrogatepass"))


def embed(
    index: Index,
    *,
    progress: Progress | None = None,
    most: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """
    Second stage: embed what is pending, newest first, and return how many vectors were stored.

    At most `most` texts if given, because somebody waits. Texts that another
    process is at come last, and are embedded here after all if that process
    does not finish them.
    """
    owner = f"{os.getpid()}-{secrets.token_hex(4)}"
    stored = done = 0
    refused: set[str] = set()
    size = _BATCH_TEXTS if most is None else _BATCH_AT_ONCE
    with unhurried() if most is None else contextlib.nullcontext():
        for attempt in range(3):
            keys = [key for key in index.catalog.pending() if key not in refused][:most]
            for start in range(0, len(keys), size):
                if stop():
                    return stored
                batch = keys[start : start + size]
                rows = index.catalog.claim(batch, owner) if attempt == 0 else index.catalog.texts(batch)
                stored += index.catalog.add_vectors(_patiently(index, rows, refused)) if rows else 0
                done += len(batch)
                if progress:
                    progress("embedding", done, max(done, len(keys)))
            if not keys or most is not None:
                break
    return stored


def _patiently(index: Index, rows: Sequence[tuple[str, str]], refused: set[str]) -> list[tuple[str, bytes]]:
    """Embed `rows`; where one text is refused, its key goes to `refused` and the others are embedded. Raises EmbeddingError if all are."""
    try:
        return vectors(index, rows)
    except EmbeddingError as failure:
        done: list[tuple[str, bytes]] = []
        for row in rows if len(rows) > 1 else ():
            try:
                done += vectors(index, [row])
            except EmbeddingError as error:
                if not done:  # the first alone too: the embedder is down, and asking on would take for ever
                    raise
                refused.add(row[0])
                _log.warning("A text that begins %r is not embedded: %s", row[1][:60], error)
        if not done:
            raise failure
        return done


def vectors(index: Index, rows: Sequence[tuple[str, str]]) -> list[tuple[str, bytes]]:
    """
    Embed the texts of `rows` (key, text) and return key and vector, as the catalog keeps them.

    Keys of another embedding than the index's are left out: another process
    may have changed it since. Raises EmbeddingError for what is no unit
    vector, or not as wide as those that are kept.
    """
    import numpy as np

    rows = [(key, text) for key, text in rows if key == vector_key(index.embedder.fingerprint, text)]
    if not rows:
        return []
    block = np.asarray(index.embedder.embed_passages([text for _, text in rows]), dtype="<f4")
    if block.ndim != 2 or len(block) != len(rows) or not np.allclose(np.linalg.norm(block, axis=1), 1, atol=0.01):
        raise EmbeddingError(
            f"The embedder {index.embedder.name} gave no unit vectors: {block.shape} for {len(rows)} texts.",
            "Choose another one with SPELLBOOK_EMBEDDER.",
        )
    index.fits(block.shape[1])
    return [(key, row.tobytes()) for (key, _), row in zip(rows, block, strict=True)]


def settle(index: Index) -> None:
    """After embedding: keep the cache within its bound, and let Chroma catch up."""
    index.catalog.evict(index.config.cache_mb * 1_000_000)
    if index.catalog.changes(index.chroma.seq):
        with contextlib.suppress(Unavailable):  # search is exact until it succeeds
            index.chroma.catch_up(index.catalog.changes, index.catalog.vectors)


def _batches(vault: Vault, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        stamp = vault.stamp(path)
        batch.append(path)
        size += stamp.size if stamp else 0
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


@contextlib.contextmanager
def _sparing(index: Index) -> Iterator[None]:
    """Spare double work with another process; the catalog's transactions decide, so a busy lock is no reason to wait long."""
    from filelock import FileLock, Timeout

    lock = FileLock(index.config.state / "sync.lock", timeout=5)
    with contextlib.suppress(Timeout, OSError):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _is_news(entry: Entry, known: Known | None) -> bool:
    return known is None or known.sha256 != entry.sha256


def _reason(path: str, error: UnreadableNote) -> str:
    return re.sub(rf"^{re.escape(path)}(, line \d+)?: ", "", error.message).rstrip(".")


def _findable(text: str) -> str:
    return f"{terms.index_form(text)} {terms.parts(text)}".rstrip()


def _titles(note: Note) -> str:
    return " ".join((note.title, *note.aliases))


def _keywords(note: Note) -> tuple[str, ...]:
    return (*note.keywords, *note.entities, *note.tags)


def _fields(note: Note) -> Iterator[tuple[str, str]]:
    named: dict[str, Sequence[object]] = {
        "id": [note.declared_id] if note.declared_id else [],
        "title": [note.title],
        "topic": [note.topic],
        "category": [note.category],
        "kind": [note.kind],
        "keywords": note.keywords,
        "aliases": note.aliases,
        "entities": note.entities,
        # A tag a/b is found by a as well.
        "tags": ["/".join(tag.split("/")[:depth]) for tag in note.tags for depth in range(1, tag.count("/") + 2)],
    }
    for key, values in named.items():
        yield from ((key, fold(value)) for value in values)
    for key, value in note.meta.items():
        if key not in named:
            yield from _flat(fold(key), value)


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flat(f"{key}.{fold(name)}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _flat(key, item)
    elif isinstance(value, dt.datetime | dt.date):
        yield key, fold(value.isoformat())
    else:
        yield key, fold("" if value is None else value)
