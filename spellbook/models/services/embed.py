"""
Embedders run by a service that answers as OpenAI does, or by Ollama; and rerankers run by a service.

Every vector comes from the model that the fingerprint names, never from another one in its place. Vectors are
normalised here, and their count, their width and their numbers are checked. A service's calibration is learnt once and
kept. All vectors are calibrated, so that those of an index are always of one kind; until it is learnt, there are none.

Rerankers read a question and a text together. They have a timeout set by the caller, and either score
every text or fail.
"""

from __future__ import annotations

import base64
import contextlib
import math
import re
import threading
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from spellbook.models.base import TEMPLATE, Scale, Vectors, clean, is_unhurried
from spellbook.models.calibration import VERSION, Calibration, calibrate
from spellbook.models.services.client import (
    PASSAGES,
    POOLING,
    QUERY,
    UNHURRIED,
    NotThere,
    Patience,
    ServiceClient,
    TooLong,
)
from spellbook.settings.config import Service
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError, InvalidInput
from spellbook.system.lazy import np
from spellbook.text.quoting import counted

KEY = "SPELLBOOK_API_KEY"
"""Environment variable of the key that the embedder's service wants."""

_MOST_TEXTS = 32
"""Texts of one request."""

_MOST_LETTERS = 32_000
"""Letters of all texts of one request."""

_NATIVE = "/embedding"
"""The path at which llama.cpp embeds one text in its own form; the oldest servers embed nowhere else."""

_SHORTEST = 100
"""Letters below which a text that the service finds too long is not cut again."""

_KINDS = {
    "ollama": (
        "Ollama",
        "Start it with `ollama serve`; until it answers, notes are found by words.",
        # `/v1/embeddings` reads no `keep_alive`: https://github.com/ollama/ollama/issues/11458
        "/api/embed",
        {"dimensions", "prefix"},
    ),
    "openai": (
        "The embedding service",
        "Start it, or check the address; until it answers, notes are found by words.",
        "/embeddings",
        {"dimensions", "input_type", "prefix"},
    ),
    "llamacpp": (
        "llama.cpp",
        "Start it with `llama-server --embeddings`; until it answers, notes are found by words.",
        "/v1/embeddings",
        {"prefix"},
    ),
}
"""By kind of service, its name for people, how to start it, where it embeds, and its options."""

_SENTENCE = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

FAMILIES: Mapping[str, tuple[str, str, str]] = {
    "nomic": (r"nomic-embed-text", "search_query: ", "search_document: "),
    "gemma": (r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
    "qwen3": (r"qwen3-embedding", _INSTRUCT, ""),
    "mxbai": (r"mxbai-embed", _SENTENCE, ""),
    "arctic2": (r"arctic-embed(?:2|.*v2)", "query: ", ""),
    "arctic": (r"arctic-embed", _SENTENCE, ""),
    "bge-zh": (r"bge-(?:small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    "bge-m3": (r"bge-m3", "", ""),
    "bge": (r"bge-(?:small|base|large)", _SENTENCE, ""),
    "gte": (r"gte-multilingual", "", ""),
    "e5-instruct": (r"(?<![a-z0-9])e5-.*(?:instruct|mistral)", f"{_INSTRUCT} ", ""),
    "e5": (r"(?<![a-z0-9])e5(?![a-z0-9])", "query: ", "passage: "),
}
"""By family, a pattern in the names of its models, and what comes before a question and before a passage."""


class ServiceEmbedder:
    """
    An embedder that `service` runs; `?dimensions=N` shortens its vectors, where the model can.

    A question differs from a passage by the prefix that the model's family wants before each (`?prefix=FAMILY`, or
    `none`), or by the field `input_type`: it is `query` for a question, and for a passage what `?input_type=` says,
    `passage` or `document`. The fingerprint names the model, the dimensions and this choice. It does not name the
    address, except where llama.cpp's model has no name.
    """

    # A calibration finds out what a cosine means.
    scale: Scale = ((0.0, 0.0), (1.0, 1.0))

    def __init__(self, service: Service) -> None:
        title, start, self._path, options = _KINDS[service.kind]
        if service.kind == "llamacpp":
            service = service._replace(url=service.url.removesuffix(_NATIVE))
        self._service = service
        if unknown := service.options.keys() - options:
            known = ", ".join(sorted(options))
            raise InvalidInput(f"{service.kind} has no option {min(unknown)!r:.80}.", f"Options are {known}.")
        number = service.options.get("dimensions", "0")
        if "dimensions" in service.options and not re.fullmatch(r"[1-9]\d{0,4}", number, re.A):
            raise InvalidInput(f"dimensions={number!r:.80} makes no sense.", "It is a whole number, for example 512.")
        self._dimensions = int(number)
        # Ollama frees a model after five minutes without a request, and loading it takes longer than a search may.
        own = {"truncate": True, "keep_alive": "30m"} if service.kind == "ollama" else {"encoding_format": "float"}
        self._fields: dict[str, Any] = own | ({"dimensions": self._dimensions} if self._dimensions else {})
        self._type = service.options.get("input_type", "")
        if self._type not in {"", "passage", "document"}:
            known = "It is passage or document, as the service calls a text."
            raise InvalidInput(f"input_type={self._type!r:.80} makes no sense.", known)
        self._before = ("", "") if self._type else _prefixes(service)
        self.name = service.kind + (f":{service.model}" if service.model else f"@{service.url}")
        model = service.model.removesuffix(":latest") or service.url
        sides = f"input_type={self._type}" if self._type else sha256("\0".join(self._before).encode()).hexdigest()[:8]
        self.fingerprint = f"service:{model}:{self._dimensions or 'full'}:{sides}:nfc:{TEMPLATE}"
        # OpenAI's own key is set in many environments: nobody but OpenAI gets it.
        is_openai = service.kind == "openai" and service.url.lower().startswith("https://api.openai.com/")
        keys = (KEY, "OPENAI_API_KEY") if is_openai else (KEY,)
        self._client = ServiceClient(service, title, start, keys)
        self._width = self._dimensions

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (width,), within seconds."""
        return self._many([text], self._before[0], "query", QUERY).reshape(-1)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of questions for which nobody waits, shape (n, width); (0, 0) of none."""
        return self._many(texts, self._before[0], "query", PASSAGES)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, width); (0, 0) of none."""
        return self._many(texts, self._before[1], self._type, PASSAGES)

    def describe(self) -> str:
        """Say where it runs."""
        return self._service.url

    def _many(self, texts: Sequence[str], before: str, side: str, patience: Patience) -> Vectors:
        patience = UNHURRIED if is_unhurried() else patience
        batches: list[list[str]] = []
        for text in texts:
            whole = before + clean(text)
            last = batches[-1] if batches else []
            if last and len(last) < _MOST_TEXTS and sum(map(len, last)) + len(whole) <= _MOST_LETTERS:
                last.append(whole)
            else:
                batches.append([whole])
        blocks = [self._unit(self._rows(batch, side, patience)) for batch in batches]
        return np.concatenate(blocks) if blocks else np.empty((0, 0), dtype=np.float32)

    def _rows(self, texts: Sequence[str], side: str, patience: Patience) -> list[Any]:
        """Ask for the vectors of `texts`; too many at once are split, a text that is too long by itself is cut."""
        is_native = self._path == _NATIVE
        if is_native and len(texts) > 1:  # old servers would join them to one
            return [self._rows([text], side, patience)[0] for text in texts]
        body = {"content": texts[0]} if is_native else {"model": self._service.model, "input": texts, **self._fields}
        if self._type:
            body["input_type"] = side
        try:
            answer = self._client.post(self._path, body, patience)
        except TooLong:
            if len(texts) > 1:
                middle = len(texts) // 2
                return self._rows(texts[:middle], side, patience) + self._rows(texts[middle:], side, patience)
            if len(texts[0]) < _SHORTEST:
                raise
            return self._rows([texts[0][: len(texts[0]) * 2 // 3]], side, patience)
        except NotThere:
            if self._service.kind != "llamacpp" or is_native:
                raise
            self._path = _NATIVE
            return self._rows(texts, side, patience)
        try:
            rows = _listed(answer)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            self._client.refuse(
                "answered something else than embeddings", f"Does {self._service.url}{self._path} embed?"
            )
        if len(rows) != len(texts):
            self._client.refuse(f"gave {counted(len(rows), 'vector')} for {counted(len(texts), 'text')}")
        return [self._pooled(row) for row in rows]

    def _pooled(self, row: Any) -> Any:
        """Return the vector of a text, which llama.cpp may give in a list, as it lists one for each token."""
        if not (isinstance(row, list) and row and isinstance(row[0], list)):
            return row
        if len(row) > 1:
            self._client.refuse("gave a vector for each token", POOLING)
        return row[0]

    def _unit(self, rows: list[Any]) -> Vectors:
        try:
            block = np.array([_numbers(row) for row in rows], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            self._client.refuse("gave what is not a vector, or vectors of several lengths")
        width = block.shape[1] if block.ndim == 2 else 0
        if not width:
            self._client.refuse("gave what is not a vector")
        if self._dimensions and width != self._dimensions:
            self._client.refuse(
                f"gave vectors of {width} numbers, not {self._dimensions}",
                "It cannot shorten them: leave out dimensions=.",
            )
        if self._width and width != self._width:
            self._client.refuse(f"gave vectors of {width} numbers, and {self._width} before: its model changed")
        # By the largest number first, so that no square is out of range.
        most = np.abs(block).max(axis=1, keepdims=True)
        if not np.isfinite(most).all() or not most.all():
            self._client.refuse("gave a vector with no direction (zeros, or what is not a number)")
        self._width = width
        block /= most
        unit: Vectors = (block / np.linalg.norm(block, axis=1, keepdims=True)).astype(np.float32)
        return unit


def _listed(answer: Any) -> list[Any]:
    """Return the vectors of an answer in the order of the texts. Raises KeyError, TypeError and such for other JSON."""
    if "embeddings" in answer:  # Ollama's form
        return list(answer["embeddings"])
    if "data" in answer:  # OpenAI's, in any order
        placed = {each.get("index", place): each["embedding"] for place, each in enumerate(answer["data"])}
        return [placed[i] for i in range(len(answer["data"]))]
    # llama.cpp's own forms, of today, of 2024 and of 2023
    [one] = answer if isinstance(answer, list) else answer.get("results", [answer])
    return [one["embedding"]]


def _numbers(row: Any) -> list[float] | np.ndarray[Any, Any]:
    if isinstance(row, str):  # base64 of float32, which some services give unasked
        return np.frombuffer(base64.b64decode(row, validate=True), dtype="<f4")
    return [float(number) for number in row]


def _prefixes(service: Service) -> tuple[str, str]:
    """Return what comes before a question and before a passage, by the option or by the model's family."""
    name = service.options.get("prefix")
    if name not in {None, "none", *FAMILIES}:
        raise InvalidInput(f"prefix={name!r:.80} makes no sense.", f"It is none, {', '.join(FAMILIES)}.")
    found = (each for each in FAMILIES.values() if re.search(each[0], service.model.lower()))
    family = next(found, ("", "", "")) if name is None else FAMILIES.get(name, ("", "", ""))
    return family[1:]


class Calibrated:
    """`raw` as calibrated; `folder` keeps what was learnt of each model."""

    def __init__(self, raw: ServiceEmbedder, folder: Path) -> None:
        self._raw = raw
        self.name, self.describe = raw.name, raw.describe
        self.fingerprint = f"{raw.fingerprint}:{VERSION}"
        """The embedder's own, and how it was calibrated."""
        self._file = folder / f"{sha256(self.fingerprint.encode()).hexdigest()[:16]}.npz"
        self._calibration: Calibration | None = None
        self._learning = threading.Lock()

    @property
    def scale(self) -> Scale:
        """The scale of its cosines. Raises EmbeddingError before it could be learnt."""
        return self._load().scale

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (width,)."""
        vector = self._raw.embed_query(text)  # first: a service that is down is the error to report
        return self._load(len(vector)).query.apply(vector)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of questions, shape (n, width)."""
        vectors = self._raw.embed_queries(texts)
        return self._load(vectors.shape[1]).query.apply_all(vectors)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, width)."""
        vectors = self._raw.embed_passages(texts)
        return self._load(vectors.shape[1]).passage.apply_all(vectors)

    def _load(self, width: int = 0) -> Calibration:
        """Return the calibration, read or learnt at its first use. Raises EmbeddingError if it is of another width."""
        with self._learning:
            if self._calibration is None:
                # A damaged file is learnt again, with the same result from the same model.
                with contextlib.suppress(OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
                    self._calibration = self._read()
            learnt = self._calibration = self._calibration or self._learn()
        if width not in {0, len(learnt.query.shift)}:
            raise EmbeddingError(
                f"{self.name} now gives vectors of {width} numbers; those of this index have "
                f"{len(learnt.query.shift)}: its model changed.",
                f"Go back to the old model, or delete {self._file.parents[1]} and run `spellbook reindex`: "
                f"the notes stay as they are.",
            )
        return learnt

    def _read(self) -> Calibration:
        with self._file.open("rb") as file:
            return Calibration.load(file)

    def _learn(self) -> Calibration:
        if not is_unhurried():
            raise EmbeddingError(
                f"{self.name} is not calibrated yet, which takes a minute.", "Run `spellbook reindex` once."
            )
        learnt = calibrate(self._raw.embed_queries, self._raw.embed_passages)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with disk.replacing(self._file) as target:
                learnt.save(target)
            return self._read()  # as every later process reads it, to the last bit
        except OSError as error:
            raise EmbeddingError(
                f"{self._file} cannot be written ({error.strerror}).", "Make room there, or let it be written."
            ) from error


RERANKER_KEY = "SPELLBOOK_RERANKER_API_KEY"
"""Environment variable of the reranker's key: another service, which must not see the embedder's key."""


class ServiceReranker:
    """A reranker behind TEI's `/rerank` (`tei`), or the one that Jina, Cohere, vLLM and llama.cpp have (`rerank`)."""

    def __init__(self, service: Service) -> None:
        if service.options:
            raise InvalidInput(
                f"{service.kind} has no option {min(service.options)!r:.80}.", "Leave out what stands after ?."
            )
        self._service = service
        self.name = f"{service.kind}:{service.model}" if service.model else f"{service.kind}@{service.url}"
        self._client = ServiceClient(service, "The reranker", "Start it, or unset SPELLBOOK_RERANKER.", (RERANKER_KEY,))
        self._raw = False

    def rerank(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return how well each text answers `query`, 0..1. Raises EmbeddingError on a failure, and after `seconds`."""
        if not texts:
            return []
        body: dict[str, Any] = {"query": clean(query)}
        if self._service.kind == "tei":
            body |= {"texts": [clean(text) for text in texts], "raw_scores": False, "truncate": True}
        else:
            body |= {"model": self._service.model, "documents": [clean(text) for text in texts]}
        answer = self._client.post("/rerank", body, Patience(min(QUERY.connect, seconds), seconds, 2))
        try:
            items = answer["results"] if isinstance(answer, dict) else answer
            found = {each["index"]: float(each.get("relevance_score", each.get("score"))) for each in items}
            scores = [found[i] for i in range(len(texts))]
            if len(items) != len(texts) or not all(map(math.isfinite, scores)):
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self._client.refuse(
                "did not score every text", "Is it a reranker? Check the address, or unset SPELLBOOK_RERANKER."
            )
        # llama.cpp gives logits, others what a sigmoid (here by tanh) has made of them; once seen, so it stays.
        self._raw = self._raw or not all(0 <= score <= 1 for score in scores)
        return [0.5 * (1 + math.tanh(score / 2)) for score in scores] if self._raw else scores
