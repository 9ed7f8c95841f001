"""
Vectors as the catalog stores them: 12 bits a number, and read back as unit vectors of float32, little endian.

Only the direction is stored: a vector's largest number is 2,047 or -2,047. With multilingual-e5-small a cosine differs
by 0.00002 (root mean square), a hundredth of the distance between two neighbours in a top ten. With 8 bits it would be
0.0004, and every second top ten would change its order.
"""

from __future__ import annotations

from collections.abc import Sequence

from spellbook.system.lazy import np

_MOST = 2_047


def compact(vector: bytes) -> bytes:
    """Return a vector of float32, little endian, as it is stored: 3 bytes for two numbers."""
    numbers = np.frombuffer(vector, dtype="<f4")
    whole = np.rint(numbers * (_MOST / (np.abs(numbers).max(initial=0.0) or 1.0))).astype(np.int16) + (_MOST + 1)
    first, second = whole[0::2], np.zeros(-(-len(whole) // 2), np.int16)
    second[: len(whole) // 2] = whole[1::2]
    stored = np.stack([first & 0xFF, first >> 8 | (second & 0xF) << 4, second >> 4], axis=1).astype(np.uint8)
    return stored.tobytes()[: -(-len(whole) * 3 // 2)]


def restored(stored: Sequence[bytes]) -> list[bytes]:
    """Return stored vectors as unit vectors of float32, little endian, each as wide as it was."""
    if len({len(vector) for vector in stored}) > 1:
        return [restored([vector])[0] for vector in stored]
    if not stored:
        return []
    width = width_of(len(stored[0]))
    filled = b"".join(vector.ljust(-(-width // 2) * 3, b"\0") for vector in stored)
    low, middle, high = np.frombuffer(filled, np.uint8).reshape(len(stored), -1, 3).astype(np.int16).transpose(2, 0, 1)
    whole = np.stack([low | (middle & 0xF) << 8, middle >> 4 | high << 4], axis=2).reshape(len(stored), -1)
    rows = (whole[:, :width] - (_MOST + 1)).astype("<f4")
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    return [row.tobytes() for row in rows]


def width_of(size: int) -> int:
    """Return how many numbers a stored vector of `size` bytes has."""
    return size * 2 // 3
