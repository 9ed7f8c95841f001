"""
Vectors on a Chroma server, which several machines share: each adds the ones it made and copies the ones it lacks.

The key of a vector names its embedding and its text, so one machine embeds a text for all. The server gets only keys
and vectors. Only vectors of texts that were erased for good are deleted there: another machine or vault may use others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from spellbook.index.catalog.vectors import OF_CHUNKS, OF_LABELS, Vectors
from spellbook.index.vectors.chroma import EF_SEARCH, QUESTION_SECONDS, Unavailable, batches
from spellbook.models.services.exchange import MOST_BYTES, Remote
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError
from spellbook.system.lazy import np, npt
from spellbook.text.quoting import counted

_log = logging.getLogger(__name__)

BATCH = 300
"""Vectors in one request: Chroma Cloud takes no more, and a server of one's own is hardly quicker with a thousand."""

_BATCH_SECONDS = 10.0
"""Seconds for all requests of a call where nobody waits for an answer, a batch at most. By hand."""

_MOST_FOUND = 1_000_000
"""Bytes of an answer to a question: 2,000 keys are 50 kB."""

_REST = 30.0
"""Seconds for which a server that failed is not asked again. By hand."""

_FAILED = "failed"
"""The key in the file for the time of the last failure, in seconds since 1970."""

_PARTS = {"texts": OF_CHUNKS, "labels": OF_LABELS}
"""The two collections of an embedding: a question would otherwise meet titles where it looks for texts."""

_Ask = Callable[..., Any]
"""Sends a path, and a body if it is a POST, to the server, and returns the JSON that answers. Raises any error."""


class _Extent(NamedTuple):
    """
    The extent of a catalog in the collection `id`: its vectors up to `seq` are there, among `rows` in all.

    A collection is `doubted` once it had another vector for a text than the embedder makes here.
    """

    id: str = ""
    seq: int = 0
    rows: int = 0
    doubted: bool = False


class Server:
    """
    The vectors of the embedding `fingerprint` on the Chroma server at `place`, for any number of threads.

    `place` is `https://host:port`, with `?tenant=…&database=…` for Chroma Cloud; `token` is sent along. A file under
    `state` has the extent of the catalog's vectors there, and when the server failed, for questions of all processes.
    The names of its collections begin with `name`.
    """

    def __init__(self, state: Path, fingerprint: str, place: str, token: str = "") -> None:
        self.state, self.place = state, place
        self.name = f"spellbook-{hashlib.sha256(fingerprint.encode()).hexdigest()[:32]}"
        self._file = state / "chroma-server.json"
        self._collections: dict[str, str] = {}
        self._failed = 0.0
        url = urlsplit(place)
        port = ":8000" if url.scheme == "http" and not url.port else ""
        headers = {"Content-Type": "application/json"} | ({"x-chroma-token": token} if token else {})
        self._remote = Remote("The Chroma server", f"{url.scheme}://{url.netloc}{port}", lambda: headers)
        options = {"tenant": "default_tenant", "database": "default_database", **dict(parse_qsl(url.query))}
        tenant, database = quote(options["tenant"], ""), quote(options["database"], "")
        self._root = f"/api/v2/tenants/{tenant}/databases/{database}/collections"

    @property
    def seq(self) -> int:
        """The last change of the catalog whose text's vector is on the server; 0 if none is known to be there."""
        return self._mark("texts").seq

    @property
    def rows(self) -> int:
        """How many vectors of texts there were on the server at the last contact, those of other vaults too."""
        return self._mark("texts").rows

    @property
    def doubted(self) -> list[str]:
        """The names of the collections that have other vectors than the embedder makes here, and are not used."""
        return [f"{self.name}-{part}" for part in _PARTS if self._mark(part).doubted]

    def nearest(
        self, query: npt.NDArray[np.float32], limit: int, least: int = 0, seconds: float = QUESTION_SECONDS
    ) -> list[str]:
        """Return about the `limit` nearest keys, of other vaults too, within `seconds`. Raises Unavailable."""
        if 0 <= time.time() - self._read()[1] < _REST:
            raise Unavailable("the server failed a moment ago")
        with self._asking(seconds, _MOST_FOUND) as ask:
            collection, mark = self._collection("texts", ask), self._mark("texts")
            if mark.doubted:
                raise Unavailable("the server has other vectors than this machine makes")
            if not mark.rows or mark.seq < least:
                raise Unavailable("the server lacks vectors of this vault")
            wanted = {"query_embeddings": [query.tolist()], "n_results": min(limit, mark.rows), "include": []}
            return list(map(str, ask(f"{collection}/query", wanted)["ids"][0]))[:limit]

    def fetch(self, part: str, keys: Sequence[str], width: int) -> dict[str, bytes]:
        """
        Return the unit vectors (float32) that the server has of `keys` in `part`, "texts" or "labels".

        They have `width` numbers each; none are of a doubted collection. Raises Unavailable.
        """
        found, wrong = dict[str, bytes](), 0
        with self._asking(_BATCH_SECONDS) as ask:
            collection = self._collection(part, ask)
            for start in range(0, 0 if self._mark(part).doubted else len(keys), BATCH):
                asked = keys[start : start + BATCH]
                answer = ask(f"{collection}/get", {"ids": asked, "include": ["embeddings"]})
                given = dict(zip(answer["ids"], np.asarray(answer["embeddings"], dtype="<f4"), strict=True))
                for key, vector in given.items():
                    if key in asked and vector.shape == (width,) and abs(np.linalg.norm(vector) - 1) <= 0.01:
                        found[key] = vector.tobytes()
                    else:
                        wrong += 1
        if wrong:
            _log.warning("Not used: %s from %s, no unit vectors.", counted(wrong, "vector"), self.place)
        return found

    def forget(self, keys: Sequence[str]) -> None:
        """Delete vectors that were erased for good; a machine that still has their texts adds them again."""
        for part in _PARTS:
            with self._asking(_BATCH_SECONDS) as ask:
                collection = self._collection(part, ask)
                for start in range(0, len(keys), BATCH):
                    ask(f"{collection}/delete", {"ids": keys[start : start + BATCH]})
                self._save(**{part: self._mark(part)._replace(rows=int(ask(f"{collection}/count")))})

    def doubt(self, part: str) -> None:
        """Use a collection no more, until it is another one."""
        _log.warning("Not used: %s of %s, which are not those of this machine's model.", part, self.place)
        self._save(**{part: self._mark(part)._replace(doubted=True)})

    def is_current(self, source: Vectors, version: object) -> bool:
        """Say whether the server has all vectors of the catalog; it knows nothing of notes and their `version`."""
        marks = {which: self._mark(part) for part, which in _PARTS.items()}
        return not any(source.changes(mark.seq, 1, which) for which, mark in marks.items() if not mark.doubted)

    def catch_up(self, source: Vectors, most: int, seconds: float = math.inf) -> int:
        """Add the vectors that came since, for about so many seconds, and return how many. Raises Unavailable."""
        until, added = time.monotonic() + seconds, 0
        for part, which in _PARTS.items():
            with self._asking(_BATCH_SECONDS) as ask:
                collection, mark = self._collection(part, ask), self._mark(part)
            for keys, seq in batches([] if mark.doubted else source.changes(mark.seq, -1, which), BATCH):
                with self._asking(_BATCH_SECONDS) as ask:
                    there = set(ask(f"{collection}/get", {"ids": keys, "include": []})["ids"])
                    if fresh := source.of([key for key in keys if key not in there]):
                        block = np.frombuffer(b"".join(fresh.values()), dtype="<f4").reshape(len(fresh), -1)
                        ask(f"{collection}/upsert", {"ids": list(fresh), "embeddings": block.tolist()})
                        added += len(fresh)
                    rows = int(ask(f"{collection}/count"))
                    self._save(**{part: self._mark(part)._replace(id=mark.id, seq=seq, rows=rows)})
                if time.monotonic() > until:
                    return added
        return added

    def release(self, before: float) -> bool:
        """Return False: a client holds nothing worth releasing."""
        return False

    def close(self) -> None:
        """Forget the collections; the next call looks for them again."""
        self._collections = {}

    @contextlib.contextmanager
    def _asking(self, seconds: float, most: int = MOST_BYTES) -> Iterator[_Ask]:
        """Yield a function that asks the server, for `seconds` and `most` bytes an answer. Raises Unavailable."""
        if 0 <= time.time() - self._failed < _REST:
            raise Unavailable("the server failed a moment ago")
        try:
            yield partial(self._ask, time.monotonic() + seconds, most)
        except Unavailable:
            raise
        except Exception as error:  # an answer may be anything
            self.close()
            self._failed = time.time()
            with contextlib.suppress(OSError):
                self._save()
            # The text of another error may be the server's, and would stand in an answer to an agent.
            is_own = isinstance(error, OSError | EmbeddingError)
            reason = str(error) if is_own else f"no usable answer ({type(error).__name__})"
            _log.warning("The Chroma server at %s failed: %s", self.place, reason)
            raise Unavailable(reason) from error

    def _ask(self, until: float, most: int, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        answer, content = self._remote.exchange(self._root + path, data, until, most=most)
        if not answer.is_success:
            raise ConnectionError(f"HTTP {answer.status_code}")
        return json.loads(content or b"null")

    def _collection(self, part: str, ask: _Ask) -> str:
        """Return the path of a collection, made if need be; `_mark` is of this one from then on."""
        if part not in self._collections:
            wanted = {"hnsw": {"space": "cosine", "ef_search": EF_SEARCH}, "embedding_function": {"type": "legacy"}}
            name = f"{self.name}-{part}"
            made = ask("", {"name": name, "configuration": wanted, "get_or_create": True})
            path = f"/{quote(made['id'], '')}"
            mark, rows = self._mark(part), int(ask(f"{path}/count"))
            # Another collection, or one with fewer rows, does not hold what was added to the one before.
            if mark.id != made["id"] or rows < mark.rows:
                self._save(**{part: _Extent(made["id"], 0, rows)})
            self._collections[part] = path
        return self._collections[part]

    def _mark(self, part: str) -> _Extent:
        return self._read()[0].get(f"{self.name}-{part}", _Extent())

    def _read(self) -> tuple[dict[str, _Extent], float]:
        """Return the extents in the file by collection, and when the server failed; a broken file says neither."""
        with contextlib.suppress(Exception):  # it may hold anything
            marks = json.loads(self._file.read_text("utf-8"))
            failed = float(marks.pop(_FAILED, 0.0))
            return {
                name: _Extent(str(id), int(seq), int(rows), any(doubted))
                for name, (id, seq, rows, *doubted) in marks.items()
            }, failed
        return {}, 0.0

    def _save(self, **marks: _Extent) -> None:
        """Write the marks of these parts; a process at work thereby ends the pause that another one began."""
        named = {f"{self.name}-{part}": mark for part, mark in marks.items()}
        disk.put(self._file, json.dumps({**self._read()[0], **named, _FAILED: self._failed}).encode())
