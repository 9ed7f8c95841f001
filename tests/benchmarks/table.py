"""Figures, and the one table they stand in: what was measured, its aim, what it was compared with in the same run, and whether it is met."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEAD = "| figure | aim | measured | ratio | met |\n| --- | --- | --- | --- | --- |"


@dataclass(frozen=True, slots=True)
class Ratio:
    """What a figure is to something that was measured in the same run; `of` names that. NaN where the system does not say."""

    value: float
    of: str
    most: float = math.inf
    least: float = -math.inf

    @property
    def aim(self) -> str:
        """The bound in words, if there is one."""
        if self.most < math.inf:
            return f"≤ {self.most:g} × {self.of}"
        return f"≥ {self.least:g} × {self.of}" if self.least > -math.inf else ""

    @property
    def met(self) -> bool:
        """Whether it keeps within its bounds, which NaN never does."""
        return self.least <= self.value <= self.most


@dataclass(frozen=True, slots=True)
class Figure:
    """
    A row of the table. Seconds are shown in the unit that suits them, every other `unit` as it is.

    `most` and the bounds of `ratio` are the aim; `also` is told beside what was measured.
    """

    name: str
    value: float
    unit: str = "s"
    most: float = math.inf
    ratio: Ratio | None = None
    also: str = ""

    @property
    def aim(self) -> str:
        """The aims in words, if there are any."""
        return "; ".join(
            filter(
                None,
                (
                    self.ratio.aim if self.ratio else "",
                    f"≤ {told(self.most, self.unit)}" if self.most < math.inf else "",
                ),
            )
        )

    @property
    def met(self) -> bool | None:
        """Whether all aims are met; None where there is none."""
        return (self.value <= self.most and (self.ratio is None or self.ratio.met)) if self.aim else None

    @property
    def row(self) -> str:
        """The row as Markdown."""
        measured = "; ".join(filter(None, (told(self.value, self.unit), self.also)))
        ratio = f"{self.ratio.value:.2f}" + ("" if self.ratio.aim else f" × {self.ratio.of}") if self.ratio else ""
        return f"| {self.name} | {self.aim} | {measured} | {ratio} | {_MET[self.met]} |"


@dataclass(frozen=True, slots=True)
class Failure:
    """A part of the table that could not be measured to its end; `why` says more."""

    name: str
    why: str

    @property
    def row(self) -> str:
        """The row as Markdown."""
        return f"| {self.name} | | not measured to the end: {self.why} | | no |"


_MET = {True: "yes", False: "**no**", None: ""}


def table(rows: Iterable[Figure | Failure]) -> Iterator[str]:
    """Return the lines of the table."""
    yield HEAD
    yield from (row.row for row in rows)


def told(value: float, unit: str) -> str:
    """
    Return a measure with its unit.

    >>> told(0.0123, "s"), told(12.34, "s"), told(1234.5, "MB"), told(0.31, "%")
    ('12 ms', '12 s', '1,234 MB', '0.31 %')
    """
    if unit == "s" and value < 1:
        value, unit = value * 1000, "ms"
    digits = 2 if value < 1 else 1 if value < 10 and value % 1 else 0
    return f"{value:,.{digits}f} {unit}"
