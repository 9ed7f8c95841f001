"""Quality of rankings: nDCG, recall and MRR."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

DEPTH = 10
"""Ranks that count."""


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
        return _mean([gain / ideal for gain, ideal in zip(gains, most, strict=True)])

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank of the first right result, 0 below rank 10."""
        return _mean([1 / ranks[0] if ranks else 0.0 for ranks in self.ranks])

    def recall(self, first: int) -> float:
        """Share of questions with a right result in the `first` ranks."""
        return _mean([float(bool(ranks) and ranks[0] <= first) for ranks in self.ranks])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
