"""The figures of `make bench-quality`: nDCG, recall and MRR of rankings, and the rows that show them for each way to ask."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

DEPTH = 10
"""Ranks that count."""

WORDS, MEANING, ALL, PRODUCT, SHOWN = SYSTEMS = ("by words", "by meaning", "all hits", "Spellbook", "with closest")
"""
`by words` is `find` with any of the question's words, `by meaning` is `memorize`; `all hits` is `search` without the
threshold that keeps out hits that do not answer, `Spellbook` what a user gets, and `with closest` adds the closest notes
where it finds none.
"""


@dataclass(slots=True)
class Tally:
    """Collected rankings: `ranks` of the right results of each, from 1, and `rights`, how many right results exist."""

    ranks: list[tuple[int, ...]] = field(default_factory=list)
    rights: list[int] = field(default_factory=list)

    def add(self, ranked: Sequence[str], right: Collection[str]) -> None:
        """Add a ranking, best first; a repeated result counts at its first rank."""
        distinct = list(dict.fromkeys(ranked))[:DEPTH]
        self.ranks.append(tuple(rank for rank, each in enumerate(distinct, 1) if each in right))
        self.rights.append(len(right))

    @property
    def ndcg(self) -> float:
        """Mean nDCG@10; all right results have the same relevance."""
        gains = [sum(1 / math.log2(rank + 1) for rank in ranks) for ranks in self.ranks]
        most = [sum(1 / math.log2(rank + 1) for rank in range(1, min(rights, DEPTH) + 1)) for rights in self.rights]
        return float(np.mean([gain / ideal for gain, ideal in zip(gains, most, strict=True)]))

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank of the first right result, 0 below rank 10."""
        return float(np.mean([1 / ranks[0] if ranks else 0.0 for ranks in self.ranks]))

    def recall(self, first: int) -> float:
        """Share of questions with a right result in the `first` ranks."""
        return float(np.mean([bool(ranks) and ranks[0] <= first for ranks in self.ranks]))


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of a set for each system that has one, the product's aim, and half of a figure's 95 % interval if it is known."""

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
        shown = {name: f"{value:.3f}" for name, value in self.values.items()}
        shown |= {name: f"{shown[name]} ±{spread:.3f}" for name, spread in self.spreads.items()}
        values = "".join(f" | {shown.get(name, ''):>14}" for name in SYSTEMS)
        aim = f"{self.aim} {'met' if self.met else 'NOT MET'}" if self.aim else ""
        return f"| {self.what:<70} | {self.figure:<10}{values} | {aim:<18} |"


def place(ranked: Sequence[str], right: Collection[str]) -> int:
    """Return the place of the first right one, from 1; 0 if none is right, -1 if nothing was found at all."""
    return next((rank for rank, each in enumerate(ranked, 1) if each in right), 0) if ranked else -1


def loose_figures(name: str, found: Sequence[Mapping[str, int]]) -> Iterator[Row]:
    """Yield the figures of loose questions from the places that `place` gave each system, with their intervals."""
    kinds: dict[str, Callable[[int], float]] = {
        **{f"hit@{first}": partial(_is_hit, first) for first in (1, 3, 5)},
        "MRR@10": lambda rank: 1 / rank if rank > 0 else 0.0,
        "no hit": lambda rank: float(rank < 0),
    }
    for figure, worth in kinds.items():
        values = {system: np.array([worth(ranks[system]) for ranks in found]) for system in found[0]}
        means = {system: float(each.mean()) for system, each in values.items()}
        yield Row(name, figure, means, spreads={system: half_interval(each) for system, each in values.items()})


def _is_hit(first: int, rank: int) -> float:
    return float(1 <= rank <= first)


def half_interval(values: np.ndarray) -> float:
    """Return half the width of the 95 % interval of the mean of `values`, by drawing 2,000 times with replacement."""
    drawn = np.random.default_rng(7).choice(values, (2_000, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(high - low) / 2
