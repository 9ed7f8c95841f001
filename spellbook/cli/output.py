"""
Print answers and tables for people, and one JSON object for programs.

Text from notes and file names cannot send control sequences to the terminal. Every line of a note's text is marked: by
`>` (see `quoting`), or by the first letter of a line of a difference.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spellbook.index.filters import Unmatched
from spellbook.notes.files import Fault
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, json_of, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from spellbook.index.opened import Progress
    from spellbook.index.sync import Report

T = TypeVar("T")


def say(text: str, *, err: bool = False) -> None:
    """Print a message in the person's language. What notes hold, and differences, are not printed by this."""
    click.echo(translated(text), err=err)


def confirm(text: str, *, default: bool = False, abort: bool = True) -> bool:
    """Ask a question on stderr in the person's language; abort unless the answer is yes."""
    return click.confirm(translated(text), default=default, abort=abort, err=True)


def can_ask() -> bool:
    """Say whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_agreed(question: str, how: str) -> bool:
    """Ask a person on a terminal; say `how` it can be had, where nobody can be asked."""
    if can_ask():
        return confirm(question, default=True, abort=False)
    say(how, err=True)
    return False


def argument(text: str) -> str:
    """Return a path or an id as the shell of this system takes it in a command that a person pastes."""
    line = one_line(text)
    also = r"\\" if os.name == "nt" else ""
    if re.fullmatch(rf"(~[/{also}])?[\w@+=:,./{also}-][\w@+=:,./{also}#-]*", line):
        return line
    return '"' + line.replace('"', '\\"') + '"' if os.name == "nt" else shlex.quote(line)


def as_json(value: Any) -> None:
    """Print `value` as one JSON object, first why not all notes are there, if the command's vault says so."""
    context = click.get_current_context(silent=True)
    book = context.ensure_object(dict).get("book") if context else None
    click.echo(json_of(book.qualified(value) if book else value))


def fields(done: Any) -> dict[str, Any]:
    """Return the fields of a result for JSON."""
    if isinstance(done, Mapping):
        return dict(done)
    return dict(done.as_dict() if hasattr(done, "as_dict") else asdict(done))


def result(done: T, is_json: bool, show: Callable[[T], object]) -> None:
    """Print a result as one JSON object, or by `show` for people."""
    if is_json:
        as_json(fields(done))
    else:
        show(done)


def say_empty(vault: Path) -> None:
    """Say on stderr that a vault has no notes, and how it gets some."""
    say(
        f"There is no Markdown note in {vault}: `spellbook add TEXT` keeps the first, `spellbook import SOURCE` brings "
        "those you have, `spellbook use DIR` chooses another folder.",
        err=True,
    )


def unmatched(values: Sequence[Unmatched]) -> None:
    """Print on stderr which values of a filter no note has."""
    for value in values:
        say(f"spellbook: {one_line(str(value))}", err=True)


def faults(faults: Sequence[Fault], *, end: bool = False) -> None:
    """Print faults on stderr, a line each; a command may `end` by them."""
    for fault in faults:
        say(f"spellbook: {one_line(str(fault))}.", err=True)
    if faults and end:
        sys.exit(1)


# -- the state of the vault


def summary(report: Report) -> str:
    """Return in a sentence what a run did."""
    kinds = (
        f"{report.added} added" if report.added else "",
        f"{report.changed} changed" if report.changed else "",
        f"{report.moved} moved" if report.moved else "",
        f"{report.removed} removed" if report.removed else "",
    )
    parts = (
        ", ".join(filter(None, kinds)) or "nothing new",
        f"{counted(report.embedded, 'text')} embedded" if report.embedded else "",
        f"{counted(report.pending, 'text')} still to embed" if report.pending else "",
    )
    done = "; ".join(filter(None, parts))
    return f"{counted(report.scanned, 'note')}: {done}. {counted(report.chunks, 'section')}, {report.seconds:.1f} s."


# -- parts of a line


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width_of(text))


def width_of(text: str) -> int:
    """Return how many columns of a terminal `text` takes: Korean, Chinese and Japanese letters take two."""
    from rich.cells import cell_len

    return cell_len(text)


# -- how far something is that takes long

EVERY = 10.0
"""Seconds between lines where stderr is not a terminal."""


def say_wait(reason: str) -> None:
    """Say on stderr why a command waits."""
    say(f"spellbook: {reason} …", err=True)


@contextmanager
def progress_bar(hidden: bool) -> Iterator[Progress | None]:
    """Show a bar for each stage on a terminal, and a line every ten seconds where there is none."""
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
                say(f"spellbook: {stage}: {100 * done // max(total, 1)} % so far", err=True)

        yield advance
