"""How far something is that takes long: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spellbook.cli.output import say
from spellbook.settings.translate import translated
from spellbook.text.quoting import one_line

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
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich import progress, text

    class Rate(progress.ProgressColumn):
        def render(self, task: progress.Task) -> text.Text:
            return text.Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")

    with _make_progress("{task.description:<9}", progress.MofNCompleteColumn(), Rate()) as shown:
        tasks: dict[str, Any] = {}

        def advance(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(translated(stage))
            shown.update(tasks[stage], completed=done, total=total)

        yield advance


def _lines() -> Progress:
    """Return what prints how far a stage is, once it takes longer than `EVERY`."""
    last = time.monotonic()

    def advance(stage: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            say(f"spellbook: {stage}: {done:,} of {total:,} so far", err=True)

    return advance


@contextmanager
def download(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar of bytes on a terminal, nothing on a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress

    with _make_progress("{task.description}", progress.DownloadColumn(), progress.TransferSpeedColumn()) as shown:
        task = shown.add_task(one_line(name), total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _make_progress(named: str, *columns: Any) -> Any:
    from rich import console, progress

    all_columns = (progress.TextColumn(named), progress.BarColumn(), *columns, progress.TimeRemainingColumn())
    return progress.Progress(*all_columns, console=console.Console(stderr=True), transient=True)
