"""
Vectors on a Chroma server, which several machines share: each adds the ones it made and copies the ones it lacks.

The key of a vector names its embedding and its text, so one machine embeds a text for all. The server gets only keys
and vectors. Nothing is ever deleted there, since another machine or vault may use it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from spellbook.index.catalog.vectors import OF_CHUNKS, OF_LABELS, Vectors
from spellbook.index.vectors.chroma import EF_SEARCH, Unavailable, batches
from spellbook.system import disk
from spellbook.system.lazy import np, npt
from spellbook.text.quoting import counted

_log = logging.getLogger(__name__)

BATCH = 300
"""Vectors in one request: Chroma Cloud takes no more, and a server of one's own is hardly quicker with a thousand."""

_TIMEOUTS = (2.0, 10.0, 10.0, 10.0)
"""Seconds to connect, read, write and get a connection. Chroma's client would wait without end. By hand."""

_REST = 30.0
"""Seconds for which a server that failed is not asked again. By hand."""

_PARTS = {"texts": OF_CHUNKS, "labels": OF_LABELS}
"""The two collections of an embedding: a question would otherwise meet titles where it looks for texts."""


class _Extent(NamedTuple):
    """The extent of a catalog in the collection `id`: its vectors up to `seq` are there, among `rows` in all."""

    id: str = ""
    seq: int = 0
    rows: int = 0


class Server:
    """
    The vectors of the embedding `fingerprint` on the Chroma server at `place`, for any number of threads.

    `place` is `https://host:port`, with `?tenant=…&database=…` for Chroma Cloud; `token` is sent along. A file under
    `state` has the extent of the catalog's vectors there.
    """

    def __init__(self, state: Path, fingerprint: str, place: str, token: str = "") -> None:
        self.state, self.place = state, place
        self._token = token
        self._name = f"spellbook-{hashlib.sha256(fingerprint.encode()).hexdigest()[:32]}"
        self._file = state / "chroma-server.json"
        self._collections: dict[str, Any] = {}
        self._failed = -_REST
        self._guard = threading.Lock()

    @property
    def seq(self) -> int:
        """The last change of the catalog whose text's vector is on the server; 0 if none is known to be there."""
        return self._mark("texts").seq

    @property
    def rows(self) -> int:
        """How many vectors of texts there were on the server at the last contact, those of other vaults too."""
        return self._mark("texts").rows

    def nearest(self, query: npt.NDArray[np.float32], limit: int, least: int = 0) -> list[str]:
        """Return about the `limit` nearest keys, of other vaults too. Raises Unavailable."""
        with self._asking():
            collection, mark = self._collection("texts"), self._mark("texts")
            if not mark.rows or mark.seq < least:
                raise Unavailable("the server lacks vectors of this vault")
            answer = collection.query(query_embeddings=[query.tolist()], n_results=min(limit, mark.rows), include=[])
            return list(answer["ids"][0])

    def fetch(self, keys: Sequence[str], width: int) -> dict[str, bytes]:
        """Return the server's unit vectors (float32) of `keys`, `width` numbers each. Raises Unavailable."""
        found, wrong = dict[str, bytes](), 0
        with self._asking():
            for part in _PARTS:
                left = [key for key in keys if key not in found]
                for start in range(0, len(left), BATCH):
                    asked = left[start : start + BATCH]
                    answer = self._collection(part).get(ids=asked, include=["embeddings"])
                    given = dict(zip(answer["ids"], np.asarray(answer["embeddings"], dtype="<f4"), strict=True))
                    for key, vector in given.items():
                        if key in asked and len(vector) == width and abs(np.linalg.norm(vector) - 1) <= 0.01:
                            found[key] = vector.tobytes()
                        else:
                            wrong += 1
        if wrong:
            _log.warning("Not used: %s from %s, no unit vectors.", counted(wrong, "vector"), self.place)
        return found

    def is_current(self, source: Vectors, version: object) -> bool:
        """Say whether the server has all vectors of the catalog; it knows nothing of notes and their `version`."""
        return not any(source.changes(self._mark(part).seq, 1, which) for part, which in _PARTS.items())

    def catch_up(self, source: Vectors, most: int, seconds: float = math.inf) -> int:
        """Add the vectors that came since, for about so many seconds, and return how many. Raises Unavailable."""
        until, added = time.monotonic() + seconds, 0
        with self._asking():
            for part, which in _PARTS.items():
                collection, mark = self._collection(part), self._mark(part)
                for keys, seq in batches(source.changes(mark.seq, -1, which), BATCH):
                    there = set(collection.get(ids=keys, include=[])["ids"])
                    if fresh := source.of([key for key in keys if key not in there]):
                        block = np.frombuffer(b"".join(fresh.values()), dtype="<f4").reshape(len(fresh), -1)
                        collection.upsert(ids=list(fresh), embeddings=block)
                        added += len(fresh)
                    self._save(part, _Extent(mark.id, seq, collection.count()))
                    if added and time.monotonic() > until:
                        return added
        return added

    def release(self, before: float) -> bool:
        """Return False: a client holds nothing worth releasing."""
        return False

    def close(self) -> None:
        """Forget the collections; the next call connects again."""
        self._collections = {}

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        if time.monotonic() - self._failed < _REST:
            raise Unavailable("the server failed a moment ago")
        try:
            yield
        except Unavailable:
            raise
        except Exception as error:  # Chroma's errors share no base
            self.close()
            self._failed = time.monotonic()
            _log.warning("The Chroma server at %s failed: %s", self.place, error)
            raise Unavailable(str(error) or type(error).__name__) from error

    def _collection(self, part: str) -> Any:
        """Return a collection, made if need be; `_mark` is of this one from then on."""
        with self._guard:
            if part not in self._collections:
                collection = self._client().get_or_create_collection(
                    f"{self._name}-{part}",
                    embedding_function=None,
                    configuration={"hnsw": {"space": "cosine", "ef_search": EF_SEARCH}},
                )
                mark, rows = self._mark(part), collection.count()
                # Another collection, or one with fewer rows, does not hold what was added to the one before.
                if mark.id != str(collection.id) or rows < mark.rows:
                    self._save(part, _Extent(str(collection.id), 0, rows))
                self._collections[part] = collection
            return self._collections[part]

    def _client(self) -> Any:
        os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
        import chromadb.config

        url = urlsplit(self.place)
        options = parse_qs(url.query)
        client: Any = chromadb.HttpClient(
            host=url.hostname or "localhost",
            port=url.port or (443 if url.scheme == "https" else 8000),
            ssl=url.scheme == "https",
            headers={"x-chroma-token": self._token} if self._token else {},
            settings=chromadb.config.Settings(anonymized_telemetry=False),
            tenant=options.get("tenant", [chromadb.config.DEFAULT_TENANT])[0],
            database=options.get("database", [chromadb.config.DEFAULT_DATABASE])[0],
        )
        client._server._session.timeout = _TIMEOUTS  # no public way leads there
        return client

    def _mark(self, part: str) -> _Extent:
        return _Extent(*self._marks().get(f"{self._name}-{part}", ()))

    def _marks(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(self._file.read_text("utf-8")))
        return {}

    def _save(self, part: str, mark: _Extent) -> None:
        with disk.replacing(self._file) as file:
            file.write(json.dumps({**self._marks(), f"{self._name}-{part}": mark}).encode())
