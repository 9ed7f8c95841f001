"""
Chroma: an approximate index over the catalog's vectors, which any Chroma client can read from a copy.

Chroma is never the only copy and never trusted further than its lock. Every operation, reads included, holds one lock
and reopens the client if another process wrote since. At the first error the folder is built anew.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spellbook.index.catalog.vectors import Vectors
from spellbook.system import disk, platform
from spellbook.system.lazy import np, npt, shutil
from spellbook.system.lock import take

COLLECTION = "vectors"
"""The collection's name in the folder, and in a copy of it."""

_log = logging.getLogger(__name__)
BATCH = 1_000
"""Rows that are written while the lock is held once: 0.3 s, and as quick a row as in larger batches."""

RESERVE = 200_000_000
"""Bytes that Chroma leaves free on the disk, which notes need more. By hand."""

_DEATHS = 3
"""Processes that end while they use the index, one after another, until it is built anew. By hand: one is killed."""

_PATIENCE = 0.1
"""Seconds that a question waits for the lock: the search without Chroma takes about as long."""

QUESTION_SECONDS = 2.0
"""Seconds that a question waits for Chroma in all, on a server too; then it compares the vectors itself. By hand."""

_WAIT = 30.0
"""Seconds that a writer waits for it: every holder releases it after a batch, which takes less than a second."""

_POLL = 0.01
"""Seconds between attempts to get the lock while another process holds it: a question has ten in all."""

_FORM = 3
"""The version of a collection; one of another version is built anew."""

LATE = 60.0
"""Seconds by which a transaction may be later than the time that it wrote down. By hand: a scan writes for seconds."""

EF_SEARCH = 2_000
"""
Vectors that Chroma compares with a question. Of 780,000 it then finds 93 % of the nearest; with its default of 100, 66
%, 3 ms faster.
"""


class Unavailable(Exception):
    """Chroma cannot answer now; the caller searches without it."""


def batches(changes: Sequence[tuple[str, int]], size: int) -> Iterator[tuple[list[str], int]]:
    """Yield the keys of changes, some at a time, and the last seq of which all were seen then."""
    for start in range(0, len(changes), size):
        batch, after = changes[start : start + size], changes[start + size : start + size + 1]
        # Others may have come with the same seq as the last of these.
        yield [key for key, _ in batch], min(batch[-1][1], after[0][1] - 1) if after else batch[-1][1]


class _Current(NamedTuple):
    """
    The index as `chroma.json` has it: its folder, its embedding, and the part of the catalog that it holds.

    `seq` is the last vector taken in. The metadata are as of `change`, the last change of the notes in `catalog`, which
    was at `at`, in seconds since 1970. `epoch` counts writes, `dropped` the deleted rows.
    """

    folder: str = ""
    fingerprint: str = ""
    seq: int = 0
    epoch: int = 0
    rows: int = 0
    form: int = 0
    catalog: str = ""
    change: int = 0
    at: float = 0.0
    dropped: int = 0


class Chroma:
    """
    The Chroma index under `state`, of the embedding `fingerprint`; other processes may use the same one.

    A row's id is a vector's key, which all chunks with the same text share. Its metadata name the first of these chunks
    by path: `id`, `path`, `heading`, `category`, `topic`. There are no documents.
    """

    doubted: Sequence[str] = ()
    """Only a server's collections are ever doubted."""

    def __init__(self, state: Path, fingerprint: str) -> None:
        self.state = state
        self._file = state / "chroma.json"
        self._fingerprint = fingerprint
        self._opened: tuple[str, int] | None = None
        self._used = 0.0
        self.client: Any = None
        self.collection: Any = None
        self.guard = threading.RLock()

    @property
    def seq(self) -> int:
        """The last change that Chroma has seen; 0 if it is missing, broken or of another embedding."""
        return self._usable().seq

    def nearest(
        self, query: npt.NDArray[np.float32], limit: int, least: int = 0, seconds: float = QUESTION_SECONDS
    ) -> list[str]:
        """Return about the `limit` nearest keys. Raises Unavailable, also before the change `least`."""
        with self.locked(min(_PATIENCE, max(seconds, 0.0))):
            current = self._usable()
            if not current.seq or not current.rows:
                raise Unavailable("there is no index yet")
            if current.seq < least:
                raise Unavailable("it is being built anew")
            with self._given_up_on_error(current):
                collection = self._open(current)
                wanted = min(limit, current.rows)
                answer = collection.query(query_embeddings=[query.tolist()], n_results=wanted, include=[])
                return list(answer["ids"][0])

    @property
    def place(self) -> str:
        """The folder that holds the index; "" if there is none yet."""
        folder = self._usable().folder
        return str(self.state / folder) if folder else ""

    @property
    def rows(self) -> int:
        """How many vectors it holds; 0 if it is missing, broken or of another embedding."""
        return self._usable().rows

    def is_current(self, source: Vectors, version: tuple[str, int]) -> bool:
        """Say whether it holds all vectors and knows of all changes of notes."""
        current = self._usable()
        is_compared = current.folder and (current.catalog, current.change) == version
        return bool(is_compared) and not source.changes(current.seq, 1)

    def catch_up(self, source: Vectors, most: int, seconds: float = float("inf")) -> int:
        """Add the vectors that came since, for about so many seconds; return how many. Raises Unavailable."""
        until, added = time.monotonic() + seconds, 0
        with self.locked(_WAIT):
            current = self._usable()
            if not current.folder:
                current = self.begin_writing(self.current())
            todo = source.changes(current.seq)
            size = current.rows + current.dropped
            if size > BATCH and size > 2 * most:
                # Chroma never gives space back; a new folder does.
                current = self.begin_writing(current)
                todo = source.changes(0)
        for keys, seen in batches(todo, BATCH):
            if shutil.disk_usage(self.state).free < RESERVE:
                raise Unavailable("the disk is nearly full")
            with self._writing(current) as (collection, now):
                added += self._add(collection, now, keys, source, seen)
            if added and time.monotonic() > until:
                break
        return added

    def compare(self, source: Vectors, version: tuple[str, int]) -> None:
        """Bring the metadata of changed notes up to the catalog, and delete unused rows. Raises Unavailable."""
        at, (catalog, change), current = time.time(), version, self._usable()
        with self.reading(current) as collection:
            there = set(collection.get(include=[])["ids"])
        in_use = {key for key, _ in source.changes(0)}
        # Notes that changed, and texts that a note lost.
        is_known = current.catalog == catalog
        keys = [*there.intersection(source.touched(current.change, current.at - LATE) if is_known else in_use)]
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            with self.reading(current) as collection:
                kept = collection.get(ids=batch, include=["metadatas"])
            labels = source.labels(batch)
            stale = {
                key: labels[key]
                for key, old in zip(kept["ids"], kept["metadatas"], strict=True)
                if labels.get(key, old) != old
            }
            if stale:
                with self._writing(current) as (collection, _):
                    collection.update(ids=list(stale), metadatas=list(stale.values()))
        lost = sorted(there - in_use)
        for start in range(0, len(lost), BATCH):
            batch = lost[start : start + BATCH]
            # A key that came into use again since has a new seq, and is added again.
            with self._writing(current) as (collection, now):
                collection.delete(ids=batch)
                self._save(now._replace(rows=collection.count(), dropped=now.dropped + len(batch)))
        with self.locked(_WAIT):
            now = self.current()
            if now.folder == current.folder:
                self._save(now._replace(catalog=catalog, change=change, at=at))

    def copy(self, to: Path) -> int:
        """Copy the folder, whole or not at all, to `to`; return the number of vectors. Raises Unavailable, OSError."""
        with self.locked(_WAIT):
            current = self._usable()
            if not current.folder:
                raise Unavailable("there is no index yet")
            self.close()  # all that is written is in its files then
            made = to.with_name(f"{to.name}.copying-{os.getpid()}")
            try:
                shutil.copytree(self.state / current.folder, made)
                if to.exists():
                    to.rmdir()  # it is empty
                platform.rename(made, to)
            finally:
                shutil.rmtree(made, ignore_errors=True)
            return current.rows

    @contextlib.contextmanager
    def reading(self, began: _Current) -> Iterator[Any]:
        """Yield the collection under the lock. Raises Unavailable if it is no longer the folder that `began` names."""
        with self.locked(_WAIT):
            current = self._usable()
            if not current.folder or current.folder != began.folder:
                raise Unavailable("the index was given up meanwhile")
            with self._given_up_on_error(current):
                yield self._open(current)

    @contextlib.contextmanager
    def _writing(self, began: _Current) -> Iterator[tuple[Any, _Current]]:
        """As `reading`, and count a write; yield the collection and what `chroma.json` says now."""
        with self.reading(began) as collection:
            current = self.current()
            # Saved first: whoever goes on after a kill in here must not trust what it has open.
            current = current._replace(epoch=current.epoch + 1)
            self._save(current)
            self._opened = (current.folder, current.epoch)
            yield collection, current

    def _add(self, collection: Any, current: _Current, keys: Sequence[str], source: Vectors, seq: int) -> int:
        there = set(collection.get(ids=list(keys), include=[])["ids"])
        # Chroma writes a row again at a fifteenth of the speed of a new one.
        fresh = source.of([key for key in keys if key not in there])
        labels = source.labels(list(fresh))
        # What went out of use meanwhile gets a new seq if it comes back.
        fresh = {key: vector for key, vector in fresh.items() if key in labels}
        if fresh:
            block = np.frombuffer(b"".join(fresh.values()), dtype="<f4").reshape(len(fresh), -1)
            collection.upsert(ids=list(fresh), embeddings=block, metadatas=[labels[key] for key in fresh])
        self._save(current._replace(seq=max(seq, current.seq), rows=collection.count()))
        return len(fresh)

    def release(self, before: float) -> bool:
        """Close the client unless it was used since `before` (monotonic clock); return whether it was closed."""
        if self.client is None or self._used > before or not self.guard.acquire(blocking=False):
            return False
        try:
            self.close()
            return True
        finally:
            self.guard.release()

    def close(self) -> None:
        """Close the client, if one is open."""
        with self.guard:
            client, self.client, self.collection, self._opened = self.client, None, None, None
            if client is not None:
                with contextlib.suppress(Exception):
                    client.close()

    # -- one at a time

    @contextlib.contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        if not self.guard.acquire(timeout=patience):
            raise Unavailable("another thread holds the index")
        with contextlib.ExitStack() as held:
            held.callback(self.guard.release)
            try:
                lock = take(self.state / "chroma.lock", patience, poll=_POLL)
            except OSError as error:
                raise Unavailable(str(error)) from error
            if lock is None:
                raise Unavailable("another process holds the index")
            held.callback(lock.release)
            yield

    @contextlib.contextmanager
    def _given_up_on_error(self, current: _Current) -> Iterator[None]:
        """Delete the index at an error, or if the processes that used it last ended in it. Raises Unavailable."""
        mark = (
            self.state / "chroma.used"
        )  # a letter for each process that is in it, or ended there: files may be damaged
        try:
            with contextlib.suppress(OSError), mark.open("ab") as file:
                file.write(b".")
                if file.tell() > _DEATHS:
                    raise RuntimeError(f"{_DEATHS} processes ended in it")
            yield
        except Unavailable:
            raise
        # Chroma's errors share no base, and its Rust side panics with a BaseException.
        except BaseException as error:
            self.close()
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
                raise
            folder = self.state / current.folder
            _log.warning("The Chroma index in %s failed (%s); it will be built anew.", folder, error)
            shutil.rmtree(folder, ignore_errors=True)  # it may be what fills the disk
            with contextlib.suppress(OSError):
                self._save(current._replace(seq=0, fingerprint=""))
            raise Unavailable(str(error)) from error
        finally:
            with contextlib.suppress(OSError):
                platform.discard(mark)

    def _open(self, current: _Current) -> Any:
        self._used = time.monotonic()
        if self._opened != (current.folder, current.epoch):
            self.close()
            os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
            with platform.loading():
                import chromadb.config

            settings = chromadb.config.Settings(anonymized_telemetry=False)
            self.client = chromadb.PersistentClient(str(self.state / current.folder), settings=settings)
            self.collection = self.client.get_or_create_collection(
                COLLECTION,
                embedding_function=None,
                configuration={"hnsw": {"space": "cosine", "ef_search": EF_SEARCH}},
            )
            if current.rows and not self.collection.count():
                raise RuntimeError("its rows are gone")
            self._opened = (current.folder, current.epoch)
        return self.collection

    # -- which folder

    def _usable(self) -> _Current:
        """Return the index as `chroma.json` has it, an empty one if it is missing, broken or of another embedding."""
        current = self.current()
        # Only a name that it gives itself: a folder that fails is deleted.
        is_own = current.folder.startswith("chroma-") and current.folder[7:].isdecimal()
        is_there = is_own and (self.state / current.folder).is_dir()
        return current if is_there and (current.fingerprint, current.form) == (self._fingerprint, _FORM) else _Current()

    def current(self) -> _Current:
        with contextlib.suppress(Exception):  # the file may hold anything
            read = json.loads(self._file.read_text("utf-8"))
            types = {name: type(default) for name, default in _Current._field_defaults.items() if name in read}
            return _Current(**{name: of(read[name]) for name, of in types.items()})
        return _Current()

    def _save(self, current: _Current) -> None:
        disk.put(self._file, json.dumps(current._asdict()).encode())  # only ever written under the lock

    def begin_writing(self, current: _Current) -> _Current:
        """Start an empty folder and clear away the old ones."""
        self.close()
        old = [path for path in self.state.glob("chroma-*") if path.is_dir()]
        names = [current.folder, *(path.name for path in old)]  # a client may keep what it read in a deleted folder
        number = max((int(name[7:]) for name in names if name[7:].isdecimal()), default=0) + 1
        folder = f"chroma-{number}"
        new = _Current(folder, self._fingerprint, epoch=current.epoch + 1, form=_FORM)
        try:
            (self.state / folder).mkdir(parents=True)
            self._save(new)
        except OSError as error:
            raise Unavailable(str(error)) from error
        for path in old:
            shutil.rmtree(path, ignore_errors=True)  # a process that still has it open answers exactly instead
        return new
