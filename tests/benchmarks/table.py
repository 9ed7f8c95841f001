"""The rows of the benchmark table: a figure, its aim, its ratio to a baseline of the same run, and whether it met the aim."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEAD = "| figure | aim | measured | ratio | met |\n| --- | --- | --- | --- | --- |"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure divided by a baseline of the same run, named `of`; NaN where the system reports no value."""

    value: float
    of: str
    most: float = math.inf
    least: float = -math.inf

    @property
    def aim(self) -> str:
        """The bound as text; empty without one."""
        if self.most < math.inf:
            return f"≤ {self.most:g} × {self.of}"
        return f"≥ {self.least:g} × {self.of}" if self.least > -math.inf else ""

    @property
    def met(self) -> bool:
        """Whether the value is within its bounds; NaN never is."""
        return self.least <= self.value <= self.most


@dataclass(frozen=True, slots=True)
class Figure:
    """
    A row of the table. Seconds are printed as s or ms, every other `unit` unchanged.

    `most`, `least` and the bounds of `ratio` are the aim; `also` is printed after the value.
    """

    name: str
    value: float
    unit: str = "s"
    most: float = math.inf
    ratio: Ratio | None = None
    also: str = ""
    least: float = -math.inf

    @property
    def aim(self) -> str:
        """The aims as text; empty without any."""
        return "; ".join(
            filter(
                None,
                (
                    self.ratio.aim if self.ratio else "",
                    f"≤ {told(self.most, self.unit)}" if self.most < math.inf else "",
                    f"≥ {told(self.least, self.unit)}" if self.least > -math.inf else "",
                ),
            )
        )

    @property
    def met(self) -> bool | None:
        """Whether all aims are met; None without an aim."""
        within = self.least <= self.value <= self.most and (self.ratio is None or self.ratio.met)
        return within if self.aim else None

    @property
    def row(self) -> str:
        """The row as Markdown."""
        measured = "; ".join(filter(None, (told(self.value, self.unit), self.also)))
        ratio = f"{self.ratio.value:.2f}" + ("" if self.ratio.aim else f" × {self.ratio.of}") if self.ratio else ""
        return f"| {self.name} | {self.aim} | {measured} | {ratio} | {_MET[self.met]} |"


@dataclass(frozen=True, slots=True)
class Failure:
    """A part that failed; `why` is the reason."""

    name: str
    why: str

    @property
    def row(self) -> str:
        """The row as Markdown."""
        return f"| {self.name} | | failed: {self.why} | | no |"


_MET = {True: "yes", False: "**no**", None: ""}


def table(rows: Iterable[Figure | Failure]) -> Iterator[str]:
    """Return the lines of the table."""
    yield HEAD
    yield from (row.row for row in rows)


def told(value: float, unit: str) -> str:
    """
    Return a value with its unit.

    >>> told(0.0123, "s"), told(12.34, "s"), told(1234.5, "MB"), told(0.31, "%")
    ('12 ms', '12 s', '1,234 MB', '0.31 %')
    """
    if unit == "s" and value < 1:
        value, unit = value * 1000, "ms"
    digits = 2 if value < 1 else 1 if value < 10 and value % 1 else 0
    return f"{value:,.{digits}f} {unit}"
