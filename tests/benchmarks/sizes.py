"""The sizes of the measured vaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """
    Sizes for all parts. The aims apply to these defaults.

    `notes` of the indexed vault, `chunks` of the searched vault, `growth`: notes of each compared vault, `rounds`: queries and
    edits of the memory test, `seconds` for which many clients ask, `large`: notes of the large vault, enough for more chunks
    than are searched exactly.
    """

    notes: int = 6_000
    chunks: int = 20_000
    growth: tuple[int, ...] = (1_000, 10_000)
    rounds: int = 1_000
    seconds: float = 60.0
    large: int = 20_000
