"""How far something is that takes long: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli.output import say
from spellbook.settings.translate import translated

if TYPE_CHECKING:
    from spellbook.index.embed import Progress


EVERY = 60.0
"""Seconds between lines where stderr is not a terminal."""


@contextmanager
def bar(hidden: bool) -> Iterator[Progress | None]:
    """Show a bar for each stage on a terminal, and a line a minute where there is none."""
    if hidden:
        yield None
        return
    with ExitStack() as stack:
        bars: dict[str, Any] = {}
        last = time.monotonic()

        def advance(stage: str, done: int, total: int) -> None:
            nonlocal last
            if sys.stderr.isatty():
                if stage not in bars:
                    stack.close()  # the bar of the stage before
                    shown = click.progressbar(length=total, label=translated(stage), file=sys.stderr)
                    bars[stage] = stack.enter_context(shown)
                bars[stage].length = total
                bars[stage].update(done - bars[stage].pos)
            elif time.monotonic() - last >= EVERY:
                last = time.monotonic()
                say(f"spellbook: {stage}: {done:,} of {total:,} so far", err=True)

        yield advance
