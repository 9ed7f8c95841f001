"""How well a ranking answers, in the field's own figures."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

DEPTH = 10
"""Places that count."""


@dataclass(slots=True)
class Tally:
    """Rankings added up; `ranks` are the places of what is right in each, from 1, `rights` how many of them there are to find."""

    ranks: list[tuple[int, ...]] = field(default_factory=list)
    rights: list[int] = field(default_factory=list)

    def add(self, ranked: Sequence[str], right: Collection[str]) -> None:
        """Count a ranking, best first; what is in it twice counts where it comes first."""
        distinct = list(dict.fromkeys(ranked))[:DEPTH]
        self.ranks.append(tuple(rank for rank, each in enumerate(distinct, 1) if each in right))
        self.rights.append(len(right))

    @property
    def ndcg(self) -> float:
        """Mean normalised discounted cumulative gain within ten places, each right one being worth the same."""
        gains = [sum(1 / math.log2(rank + 1) for rank in ranks) for ranks in self.ranks]
        most = [sum(1 / math.log2(rank + 1) for rank in range(1, min(rights, DEPTH) + 1)) for rights in self.rights]
        return _mean([gain / ideal for gain, ideal in zip(gains, most, strict=True)])

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank of the first right one, 0 past the tenth place."""
        return _mean([1 / ranks[0] if ranks else 0.0 for ranks in self.ranks])

    def recall(self, first: int) -> float:
        """Share of the questions with something right in the `first` places."""
        return _mean([float(bool(ranks) and ranks[0] <= first) for ranks in self.ranks])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
