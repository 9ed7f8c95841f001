"""The sizes of the measured vaults, and the rows of the table: a figure, its aim, and its ratio to a baseline of the same run."""

import math
from dataclasses import dataclass

HEAD = "| figure | aim | measured | ratio | met |\n| --- | --- | --- | --- | --- |"
_MET = {True: "yes", False: "**no**", None: ""}


@dataclass(frozen=True, slots=True)
class Sizes:
    """
    Sizes for all parts. The aims apply to these defaults.

    `notes` of the indexed vault, `chunks` of the searched vault, `large`: notes of the large vault, enough for more chunks than
    are searched exactly.
    """

    notes: int = 6_000
    chunks: int = 20_000
    large: int = 20_000


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure divided by a baseline of the same run, named `of`; NaN, where the system reports no value, meets no aim."""

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


@dataclass(frozen=True, slots=True)
class Figure:
    """
    A row of the table. Seconds are printed as s or ms, every other `unit` unchanged.

    `most` and the bounds of `ratio` are the aim; `also` is printed after the value.
    """

    name: str
    value: float
    unit: str = "s"
    most: float = math.inf
    ratio: Ratio | None = None
    also: str = ""

    @property
    def row(self) -> str:
        """The row as Markdown; whether the aims are met stands in the last column, nothing without an aim."""
        ratio = self.ratio or Ratio(0, "")
        aims = [ratio.aim, f"≤ {told(self.most, self.unit)}" if self.most < math.inf else ""]
        aim = "; ".join(filter(None, aims))
        is_met = self.value <= self.most and ratio.least <= ratio.value <= ratio.most
        measured = "; ".join(filter(None, (told(self.value, self.unit), self.also)))
        compared = f"{ratio.value:.2f}" + ("" if ratio.aim else f" × {ratio.of}") if self.ratio else ""
        return f"| {self.name} | {aim} | {measured} | {compared} | {_MET[is_met if aim else None]} |"


def told(value: float, unit: str) -> str:
    """Return a value with its unit: `12 ms`, `12 s`, `1,234 MB`, `0.31 %`."""
    if unit == "s" and value < 1:
        value, unit = value * 1000, "ms"
    digits = 2 if value < 1 else 1 if value < 10 and value % 1 else 0
    return f"{value:,.{digits}f} {unit}"
