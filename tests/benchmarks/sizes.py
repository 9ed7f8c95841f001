"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """
    What all parts are told; the aims are meant for what stands here.

    `chunks` are those of a vault that questions are asked of, `growth` the notes of vaults that are compared, `rounds` the questions
    and edits that a process must endure.
    """

    notes: int = 6_000
    chunks: int = 20_000
    growth: tuple[int, ...] = (1_000, 10_000)
    rounds: int = 1_000
