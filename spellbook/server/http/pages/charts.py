"""Charts as SVG within the page, without a script or a style of their own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spellbook.index.metrics import Meter
from spellbook.server.http.admin.common import SEARCHES

_HEIGHT = 96
"""Pixels of the highest bar."""

_STEP = 22
"""Pixels from one bar to the next."""

_GAP = 6
"""Pixels between two bars."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its height, a second height within it, the words under it, and what it says in whole."""

    value: float
    inner: float
    label: str
    title: str


def hours(meter: Meter, count: int) -> list[Bar]:
    """Return how long searches took in each of the last `count` hours: the 95th percentile, and the median in it."""
    made = []
    for hour, timing in meter.by_hour(SEARCHES, count):
        at = f"{dt.datetime.fromtimestamp(hour * 3600):%H}"
        title = f"{at}:00 p50 {_brief(timing.p50)}, p95 {_brief(timing.p95)}, {timing.count:,}×"
        made.append(Bar(timing.p95, timing.p50, at, title))
    return made


def _brief(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1_000 else f"{ms / 1_000:,.1f} s"


def bars(values: Sequence[Bar], title: str) -> Markup:
    """Return a bar chart."""
    most = max((bar.value for bar in values), default=0) or 1
    width = _STEP * len(values)
    parts = [
        Markup('<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}">').format(title, width, _HEIGHT + 18)
    ]
    for number, bar in enumerate(values):
        x = number * _STEP + _GAP / 2
        parts.append(Markup("<g><title>{}</title>").format(bar.title))
        for kind, value in (("outer", bar.value), ("inner", bar.inner)):
            tall = round(value / most * _HEIGHT, 1)
            rect = '<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="3"/>'
            parts.append(Markup(rect).format(kind, x, round(_HEIGHT - tall, 1), _STEP - _GAP, tall))
        if number % 3 == 0:
            text = '<text x="{}" y="{}" text-anchor="middle">{}</text>'
            parts.append(Markup(text).format(x + (_STEP - _GAP) / 2, _HEIGHT + 14, bar.label))
        parts.append(Markup("</g>"))
    return Markup("").join([*parts, Markup("</svg>")])
