"""
Vectors: exact search in memory, and Chroma as the approximate index; the only Chroma.

Chroma is never the only copy and never trusted further than its lock: every
operation runs alone among all processes, reopens what another process wrote,
and at the first exception the folder is given up for a new one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import numpy as np
    import numpy.typing as npt

Row = tuple[str, bytes, int]
"""Key, vector as float32 bytes, seq."""

_log = logging.getLogger(__name__)
BATCH = 1_000
_PATIENCE = 0.1
TRIES = 5
_FORM = 1
"""How a collection is made: one that was made otherwise is made again."""

LOOKED_AT = 2_000
"""Vectors that Chroma looks at for a question: of 780,000 it finds 93 in 100 of the nearest so, with its own 100 only 66, in 3 ms less."""
LEAST_SHARED = 12_000
"""Rows up to which one thread is as quick as two."""

SHARE = 1_024
"""Rows that one thread takes at a time, some 1.5 MB."""


class Unavailable(Exception):
    """Chroma cannot answer now; the caller searches without it."""


class Matrix:
    """
    Vectors in memory, one row a key, grown by difference; exact cosine search over them.

    `seq` is the last change taken in. Rows of keys that went out of use stay;
    the caller drops them from results. The first row says how wide all are.
    One thread may add while others search.
    """

    def __init__(self) -> None:
        self.seq = 0
        self._rows: dict[str, int] = {}
        self._keys: list[str] = []
        self._data: npt.NDArray[np.float32] | None = None
        self._helper: Executor | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows, a few at a time; a key that is there already keeps its place."""
        left = iter(rows)
        while some := list(islice(left, BATCH)):
            self._add(some)

    def _add(self, rows: Sequence[Row]) -> None:
        import numpy as np

        fresh = [row for row in rows if row[0] not in self._rows]
        if fresh:
            width = self._data.shape[1] if self._data is not None else len(fresh[0][1]) // 4
            fresh = [row for row in fresh if len(row[1]) == width * 4]
            block = np.frombuffer(b"".join(vector for _, vector, _ in fresh), dtype="<f4").reshape(-1, width)
            need = len(self._keys) + len(fresh)
            if self._data is None or need > len(self._data):
                grown = np.empty((max(need, 64, len(self._keys) * 3 // 2), width), dtype=np.float32)
                if self._data is not None:
                    grown[: len(self._keys)] = self._data[: len(self._keys)]
                self._data = grown
            self._data[len(self._keys) : need] = block
            for key, _, _ in fresh:
                self._rows[key] = len(self._keys)
                self._keys.append(key)
        self.seq = max([self.seq, *(seq for _, _, seq in rows)])

    def nearest(self, query: npt.NDArray[np.float32], limit: int, keys: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Return the `limit` keys nearest to the unit vector `query` with their cosines, among `keys` if given."""
        import numpy as np

        if keys is not None:
            among = self.cosines(query, keys)
            return sorted(among.items(), key=lambda pair: -pair[1])[:limit]
        count = len(self._keys)  # first: there are never fewer rows
        if self._data is None or not count:
            return []
        cosines = np.vecdot(self._data[:count], query) if count <= LEAST_SHARED else product(self._data[:count], query, self._help())
        # Of as many blocks as are wanted each has one this near: few others are, and only they need to be sorted.
        blocks = cosines[: count - count % limit].reshape(-1, limit)
        top = np.flatnonzero(cosines >= np.fmax.reduce(blocks).min()) if count > limit else np.arange(count)
        top = top[np.argsort(-cosines[top], kind="stable")][:limit]
        return [(self._keys[row], cosine) for row, cosine in zip(top.tolist(), cosines[top].tolist(), strict=True)]

    def _help(self) -> Executor:
        if self._helper is None:
            from concurrent.futures import ThreadPoolExecutor

            self._helper = ThreadPoolExecutor(1, thread_name_prefix="cosines")  # which ends with the matrix
        return self._helper

    def cosines(self, query: npt.NDArray[np.float32], keys: Sequence[str]) -> dict[str, float]:
        """Return the cosines to the unit vector `query` of those of `keys` that are here."""
        import numpy as np

        rows = {key: row for key in keys if (row := self._rows.get(key)) is not None}
        if self._data is None or not rows:
            return {}
        return dict(zip(rows, np.vecdot(self._data[list(rows.values())], query).tolist(), strict=True))


def product(rows: npt.NDArray[np.float32], query: npt.NDArray[np.float32], helper: Executor) -> npt.NDArray[np.float32]:
    """
    Return the product of each of `rows`, shape (n, width), with `query`, (width,); where a processor is idle `helper` does half of them.

    What takes the time is to read the rows. A product as a whole begins threads
    that wait for each other, long where a processor is busy. Here one thread
    begins at either end, and nobody waits: what the other has not finished is done again.
    """
    import numpy as np

    products: npt.NDArray[np.float32] = np.empty(len(rows), dtype=np.float32)
    todo = deque(range(0, len(rows), SHARE))
    left = set(todo)

    def work(take: Callable[[], int]) -> None:
        with contextlib.suppress(IndexError):  # the other took the last
            while todo:
                start = take()
                np.vecdot(rows[start : start + SHARE], query, out=products[start : start + SHARE])
                left.discard(start)

    with contextlib.suppress(RuntimeError):  # Python is ending, and begins no more threads
        helper.submit(work, todo.pop)
    work(todo.popleft)
    for start in tuple(left):
        np.vecdot(rows[start : start + SHARE], query, out=products[start : start + SHARE])
    return products


@dataclass(frozen=True, slots=True)
class _Current:
    """Which folder holds the index, of which embedding, how far it is, and how often it was written."""

    folder: str = ""
    fingerprint: str = ""
    seq: int = 0
    epoch: int = 0
    rows: int = 0
    form: int = 0


class Chroma:
    """
    The Chroma index under `state`, of the embedding `fingerprint`; other processes may use the same one.

    With `url` (`https://host:port`, `?tenant=…&database=…` for Chroma Cloud) it lies on that server, which
    then knows the vectors and hashes of their texts; the file under `state` only says how far it is. `token`
    is sent along.
    """

    def __init__(self, state: Path, fingerprint: str, url: str = "", token: str = "") -> None:
        self._state = state
        self._url = url
        self._token = token
        self._fingerprint = fingerprint
        self._opened: tuple[str, int] | None = None
        self._used = 0.0
        self.client: Any = None
        self.collection: Any = None
        self.guard = threading.RLock()

    @property
    def seq(self) -> int:
        """The last change that Chroma has seen; 0 if it is missing, broken or of another embedding."""
        current = self.current()
        return current.seq if self._usable(current) else 0

    def nearest(self, query: npt.NDArray[np.float32], limit: int) -> list[tuple[str, float]]:
        """
        Return about the `limit` nearest keys with their cosines.

        Raises Unavailable if another process holds the index for more than
        100 ms, or if Chroma fails; it is then given up and built anew by the
        next `catch_up`.
        """
        with self.locked(_PATIENCE):
            current = self.current()
            if not self._usable(current) or not current.seq or not current.rows:
                raise Unavailable("there is no index yet")
            with self._given_up_on_error(current):
                collection = self._open(current)
                answer = collection.query(query_embeddings=[query.tolist()], n_results=min(limit, current.rows), include=["distances"])
                return [(key, 1.0 - float(far)) for key, far in zip(answer["ids"][0], answer["distances"][0], strict=True)]

    def catch_up(
        self,
        changes: Callable[[int], list[tuple[str, int]]],
        blobs: Callable[[Sequence[str]], dict[str, bytes]],
        most: int,
        seconds: float = math.inf,
    ) -> int:
        """
        Add what came since, for so many seconds or little longer, and return how many vectors were added.

        `changes` gives the keys in use and their seq after a seq, oldest first, `blobs` the
        vectors of keys; there are at most `most` in use. What was added counts, whatever becomes of
        this process. Raises Unavailable if the lock or Chroma fails; nothing
        is lost, the next call begins a new folder.
        """
        until, added = time.monotonic() + seconds, 0
        with self.locked(30):
            current = self.current()
            if not self._usable(current):
                current = self.begin_writing(current)
            todo = changes(current.seq)
            folder = current.folder
            if current.rows > BATCH and current.rows > 2 * most:
                # Chroma never gives space back; a new folder does.
                current = self.begin_writing(current)
                todo, folder = changes(0), current.folder
        for start in range(0, len(todo), BATCH):
            batch, after = todo[start : start + BATCH], todo[start + BATCH : start + BATCH + 1]
            with self.locked(30):
                current = self.current()
                if not self._usable(current) or current.folder != folder:
                    raise Unavailable("the index was given up meanwhile")
                with self._given_up_on_error(current):
                    # Others may have come with the same seq as the last of these.
                    seen = min(batch[-1][1], after[0][1] - 1) if after else batch[-1][1]
                    added += self._add(current, [key for key, _ in batch], blobs, seen)
            if added and time.monotonic() > until:
                break
        return added

    def _add(self, current: _Current, keys: Sequence[str], blobs: Callable[[Sequence[str]], dict[str, bytes]], seq: int) -> int:
        import numpy as np

        collection = self._open(current)
        # Said first: whoever goes on after a kill in here must not trust what it has open.
        current = replace(current, epoch=current.epoch + 1)
        self._save(current)
        self._opened = (current.folder, current.epoch)
        there = set(collection.get(ids=list(keys), include=[])["ids"])
        # Chroma writes a row again at a fifteenth of the speed of a new one.
        fresh = blobs([key for key in keys if key not in there])
        if fresh:
            block = np.frombuffer(b"".join(fresh.values()), dtype="<f4").reshape(len(fresh), -1)
            collection.upsert(ids=list(fresh), embeddings=block)
        self._save(replace(current, seq=max(seq, current.seq), rows=collection.count()))
        return len(fresh)

    def let_go(self, before: float) -> bool:
        """Let go of the client if one is open and was not used since `before`, of the monotonic clock; say whether that was so."""
        if self.client is None or self._used > before or not self.guard.acquire(blocking=False):
            return False
        try:
            self.close()
            return True
        finally:
            self.guard.release()

    def close(self) -> None:
        """Let go of the client, if one is open."""
        with self.guard:
            client, self.client, self.collection, self._opened = self.client, None, None, None
            if client is not None:
                with contextlib.suppress(Exception):
                    client.close()

    # -- one at a time

    @contextlib.contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        from filelock import FileLock, Timeout

        if not self.guard.acquire(timeout=patience):
            raise Unavailable("another thread holds the index")
        try:
            if self._url:  # a server minds its clients itself
                yield
                return
            lock = FileLock(self._state / "chroma.lock", timeout=patience, poll_interval=0.01)
            try:
                lock.acquire()
            except Timeout as error:
                raise Unavailable("another process holds the index") from error
            except OSError as error:
                raise Unavailable(str(error)) from error
            try:
                yield
            finally:
                lock.release()
        finally:
            self.guard.release()

    @contextlib.contextmanager
    def _given_up_on_error(self, current: _Current) -> Iterator[None]:
        try:
            yield
        except Unavailable:
            raise
        # Chroma's errors share no base, and its Rust side panics with a BaseException.
        except BaseException as error:
            self.close()
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
                raise
            _log.warning("The Chroma index in %s failed (%s); it will be built anew.", self._state / current.folder, error)
            with contextlib.suppress(OSError):
                self._save(replace(current, seq=0, fingerprint=""))
            raise Unavailable(str(error)) from error

    def _open(self, current: _Current) -> Any:
        self._used = time.monotonic()
        if self._opened != (current.folder, current.epoch):
            self.close()
            self.client = self._connect(current.folder)
            self.collection = self.client.get_or_create_collection(
                current.folder if self._url else "vectors",
                embedding_function=None,
                configuration={"hnsw": {"space": "cosine", "ef_search": LOOKED_AT}},
            )
            self._opened = (current.folder, current.epoch)
        return self.collection

    def _connect(self, folder: str) -> Any:
        os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
        import chromadb
        from chromadb.config import DEFAULT_DATABASE, DEFAULT_TENANT, Settings

        settings = Settings(anonymized_telemetry=False)
        if not self._url:
            return chromadb.PersistentClient(str(self._state / folder), settings=settings)
        url = urlsplit(self._url)
        asked = parse_qs(url.query)
        return chromadb.HttpClient(
            host=url.hostname or "localhost",
            port=url.port or (443 if url.scheme == "https" else 8000),
            ssl=url.scheme == "https",
            headers={"x-chroma-token": self._token} if self._token else {},
            settings=settings,
            tenant=asked.get("tenant", [DEFAULT_TENANT])[0],
            database=asked.get("database", [DEFAULT_DATABASE])[0],
        )

    # -- which folder

    @property
    def _file(self) -> Path:
        return self._state / ("chroma-server.json" if self._url else "chroma.json")

    def _usable(self, current: _Current) -> bool:
        there = bool(current.folder) and (bool(self._url) or (self._state / current.folder).is_dir())
        return there and (current.fingerprint, current.form) == (self._fingerprint, _FORM)

    def current(self) -> _Current:
        try:
            return _Current(**json.loads(self._file.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return _Current()

    def _save(self, current: _Current) -> None:
        temporary = self._file.with_suffix(".tmp")  # only ever written under the lock
        temporary.write_text(json.dumps(asdict(current)), "utf-8")
        for left in reversed(range(TRIES)):
            try:
                os.replace(temporary, self._file)
                return
            except PermissionError:  # on Windows while somebody reads it, which everybody does at each question
                if not left:
                    raise
                time.sleep(_PATIENCE / TRIES)

    def begin_writing(self, current: _Current) -> _Current:
        """Start an empty folder and clear away the old ones."""
        self.close()
        if self._url:
            return self._begin_collection(current)
        numbers = [int(path.name[7:]) for path in self._state.glob("chroma-*") if path.name[7:].isdigit()]
        new = _Current(f"chroma-{max(numbers, default=0) + 1}", self._fingerprint, epoch=current.epoch + 1, form=_FORM)
        try:
            (self._state / new.folder).mkdir(parents=True)
            self._save(new)
        except OSError as error:
            raise Unavailable(str(error)) from error
        for old in self._state.glob("chroma-*"):
            if old.name != new.folder:
                shutil.rmtree(old, ignore_errors=True)  # a process that still has it open answers exactly instead
        return new

    def _begin_collection(self, current: _Current) -> _Current:
        """Name a new collection on the server, and delete the old one there; other vaults' are left alone."""
        new = _Current(f"spellbook-{os.urandom(8).hex()}", self._fingerprint, epoch=current.epoch + 1, form=_FORM)
        try:
            if current.folder:
                with contextlib.suppress(Exception):  # it may be gone, or the server away: then it is only litter
                    self._connect("").delete_collection(current.folder)
            self._save(new)
        except OSError as error:
            raise Unavailable(str(error)) from error
        return new
