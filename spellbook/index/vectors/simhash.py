"""
Sketches of vectors in memory, for a vault with more vectors than memory should hold: 80 bytes each instead of 1,536.

A vector, less the mean of the first ones and turned at random, is kept as the
signs of its numbers. The more of them two vectors share the nearer they are
(Charikar, "Similarity estimation techniques from rounding algorithms", STOC
2002), so the nearest of all are among those that share most; the caller
compares these exactly. Nothing is built to which a new vector could not be added at once.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from spellbook.index.vectors.matrix import Row
from spellbook.system.disk import fsync
from spellbook.system.lazy import np, npt
from spellbook.system.lock import held

BATCH = 10_000
"""Vectors that are taken in at a time, 15 MB."""

_SHARE = 32_768
"""Vectors whose signs are compared at a time: their words stay in the processor's own memory."""

_KEY = 15
"""Bytes of a key."""

_WORD = 8
"""Bytes of a word of signs."""

_LETTERS = 20
"""Letters of a key in base64: without padding, so the keys of many are one string."""


def _packed_keys(keys: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return keys as bytes, shape (n, _KEY)."""
    return np.frombuffer(base64.urlsafe_b64decode("".join(keys)), np.uint8).reshape(-1, _KEY)


def _begins(keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return the first eight bytes of each key as one number."""
    return keys[:, :_WORD].copy().view(np.uint64)[:, 0]


@dataclass(frozen=True, slots=True)
class _Projection:
    """
    How vectors are projected: relative to their mean, shape (width,), and rotated by `turn`, (width, width).

    The rotation makes all numbers equally informative.
    """

    mean: npt.NDArray[np.float32]
    turn: npt.NDArray[np.float32]

    @classmethod
    def of(cls, block: npt.NDArray[np.float32]) -> _Projection:
        """Choose one by some vectors."""
        width = block.shape[1]
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((width, width)))[0]
        return cls(block.mean(axis=0), turn.astype(np.float32))

    def signs(self, block: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
        """Return the signs of vectors, shape (n, width), in words of 64 of them, (words, n)."""
        bits = np.packbits((block - self.mean) @ self.turn > 0, axis=1)
        return np.pad(bits, ((0, 0), (0, -bits.shape[1] % _WORD))).view(np.uint64).T


class Sketches:
    """
    Sketches of the vectors of the embedding `fingerprint`, grown by difference.

    `seq` is the last change taken in. Those of keys that went out of use stay;
    the caller drops them. One thread may add while others search.
    """

    def __init__(self, fingerprint: str) -> None:
        self.seq = 0
        self._head = f"spellbook sketches 2 {fingerprint}\n".encode()
        self._count = 0
        self._view: _Projection | None = None
        self._keys: npt.NDArray[np.uint8] | None = None
        self._signs: npt.NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Iterable[Row]) -> int:
        """Take in rows, a few at a time, and return how many; the first say how wide all are."""
        left, added = iter(rows), 0
        while some := list(islice(left, BATCH)):
            added += self._add(some)
        return added

    def _add(self, rows: Sequence[Row]) -> int:
        width = len(self._view.mean) if self._view else len(rows[0][1]) // 4
        fresh = [row for row in rows if len(row[1]) == width * 4]
        block = np.frombuffer(b"".join([vector for _, vector, _ in fresh]), dtype="<f4").reshape(-1, width)
        self._view = self._view or _Projection.of(block)
        signs = self._view.signs(block)
        keys = _packed_keys([key for key, _, _ in fresh])
        count, need = self._count, self._count + len(fresh)
        if self._keys is None or self._signs is None or need > len(self._keys):
            room = max(need, count * 5 // 4)
            named, known = np.empty((room, _KEY), np.uint8), np.empty((len(signs), room), np.uint64)
            if self._keys is not None and self._signs is not None:
                named[:count], known[:, :count] = self._keys[:count], self._signs[:, :count]
            self._keys, self._signs = named, known
        self._keys[count:need], self._signs[:, count:need] = keys, signs
        self._count = need  # last: whoever searches meanwhile reads it first
        self.seq = max([self.seq, *(seq for _, _, seq in rows)])
        return len(fresh)

    def alike(self, query: npt.NDArray[np.float32], wanted: int, among: Sequence[str] | None = None) -> list[str]:
        """
        Return the `wanted` keys, in no order, whose vectors' signs differ least from those of `query`.

        With `among`, only of these keys.
        """
        count, view, keys, signs = self._count, self._view, self._keys, self._signs
        if not count or view is None or keys is None or signs is None:
            return []
        differ = np.zeros(count, np.uint16)
        words = view.signs(query[None])[:, 0]
        for start in range(0, count, _SHARE):
            share = slice(start, min(count, start + _SHARE))
            for known, word in zip(signs[:, share], words, strict=True):
                differ[share] += np.bitwise_count(known ^ word)
        rows = np.arange(count)
        if among is not None:
            # The first eight bytes of a key tell it from all others.
            rows = np.flatnonzero(np.isin(_begins(keys[:count]), _begins(_packed_keys(among))))
            differ = differ[rows]
        if wanted < len(rows):
            most = np.searchsorted(np.cumsum(np.bincount(differ)), wanted)
            rows = rows[np.concatenate([np.flatnonzero(differ < most), np.flatnonzero(differ == most)])[:wanted]]
        listed = base64.urlsafe_b64encode(keys[rows].tobytes()).decode("ascii")
        return [listed[start : start + _LETTERS] for start in range(0, len(listed), _LETTERS)]

    # -- between processes

    @classmethod
    def load(cls, file: Path, fingerprint: str) -> Sketches:
        """Return the sketches that were kept in `file`, none if they are missing, torn or of another embedding."""
        kept = cls(fingerprint)
        with contextlib.suppress(OSError, ValueError, EOFError), open(file, "rb") as saved:
            if saved.readline() == kept._head:
                mean, turn, keys, signs, seq = (np.load(saved, allow_pickle=False) for _ in range(5))
                kept._view, kept._keys, kept._signs = _Projection(mean, turn), keys, signs
                kept._count, kept.seq = len(keys), int(seq)
        return kept

    def save(self, file: Path) -> None:
        """Keep them in `file`, all or nothing; not while another process does. Raises OSError."""
        count, view, keys, signs = self._count, self._view, self._keys, self._signs
        if view is None or keys is None or signs is None:
            return
        aside = file.with_suffix(".tmp")
        with held(file.with_suffix(".lock")) as is_ours:
            if not is_ours:
                return
            try:
                with open(aside, "wb") as saved:
                    saved.write(self._head)
                    for part in (view.mean, view.turn, keys[:count], signs[:, :count], np.int64(self.seq)):
                        np.save(saved, part, allow_pickle=False)
                fsync(aside)
                os.replace(aside, file)
            finally:
                aside.unlink(missing_ok=True)  # what did not fit must not fill the disk
