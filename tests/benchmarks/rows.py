"""The rows of `make bench-quality`: a figure of a set for each way of asking."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tests.benchmarks.systems import SYSTEMS

if TYPE_CHECKING:
    from spellbook.models.base import Vectors


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of a set for each system that has one, what the product is held to, and half a figure's 95 % interval where it is told."""

    what: str
    figure: str
    values: Mapping[str, float]
    aim: str = ""
    met: bool = True
    spreads: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def head() -> str:
        """Return the head of the table."""
        names = "".join(f" | {name:>14}" for name in SYSTEMS)
        rules = f" | {'-' * 13}:" * len(SYSTEMS)
        return f"| {'set':<70} | {'figure':<10}{names} | {'aim':<18} |\n| {'-' * 70} | {'-' * 10}{rules} | {'-' * 18} |"

    def __str__(self) -> str:
        values = "".join(f" | {self._value(name):>14}" for name in SYSTEMS)
        aim = f"{self.aim} {'met' if self.met else 'NOT MET'}" if self.aim else ""
        return f"| {self.what:<70} | {self.figure:<10}{values} | {aim:<18} |"

    def _value(self, system: str) -> str:
        if system not in self.values:
            return ""
        spread = f" ±{self.spreads[system]:.3f}" if system in self.spreads else ""
        return f"{self.values[system]:.3f}{spread}"


def place(ranked: Sequence[str], right: Collection[str]) -> int:
    """Return the place of the first right one, from 1; 0 if none is right, -1 if nothing was found at all."""
    return next((rank for rank, each in enumerate(ranked, 1) if each in right), 0) if ranked else -1


def loose_figures(name: str, found: Sequence[Mapping[str, int]]) -> Iterator[Row]:
    """Yield the figures of loose questions from the places that `place` gave each system, with their intervals."""
    kinds: dict[str, Callable[[int], float]] = {
        **{f"hit@{first}": lambda rank, first=first: float(1 <= rank <= first) for first in (1, 3, 5)},
        "MRR@10": lambda rank: 1 / rank if rank > 0 else 0.0,
        "no hit": lambda rank: float(rank < 0),
    }
    for figure, worth in kinds.items():
        values = {system: np.array([worth(ranks[system]) for ranks in found]) for system in found[0]}
        means = {system: float(each.mean()) for system, each in values.items()}
        yield Row(name, figure, means, spreads={system: bootstrap(each) for system, each in values.items()})


def bootstrap(values: Vectors, times: int = 2_000) -> float:
    """Return half the width of the 95 % interval of the mean of `values`, by drawing them anew with replacement."""
    drawn = np.random.default_rng(7).choice(values, (times, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(high - low) / 2
