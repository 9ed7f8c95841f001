"""Commands that say how things are: status, check, doctor, chroma, demo."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spellbook import DISTRIBUTION, __version__
from spellbook.cli import checks, output, progress_bar, vault_state
from spellbook.cli.app import command, filter_option, json_option, main
from spellbook.settings.translate import translated
from spellbook.system.errors import SpellbookError
from spellbook.text.quoting import one_line

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook

_MOST_SECONDS = 60
"""Seconds that the package index may take to answer."""


@command(
    click.option("--verbose", is_flag=True, help="Also places, sizes, engines, times and every fault."),
    json_option,
)
def status(book: Spellbook, verbose: bool, as_json: bool) -> None:
    """Print how the vault is: what search finds, what to fix, who has it open."""
    book.refresh()
    output.result(book.status(), as_json, partial(vault_state.show, verbose=verbose))


@command(
    click.option(
        "--min-recall5",
        default=0.0,
        metavar="X",
        help="Fail if less than this share of the questions (0 to 1) find their note among the first five hits.",
    ),
    click.option(
        "--min-mrr",
        default=0.0,
        metavar="X",
        help="Fail if the mean reciprocal rank of the notes (0 to 1) is below this.",
    ),
    click.option(
        "--all", "all_notes", is_flag=True, help="Also list notes written by people that lack a topic or questions."
    ),
    filter_option,
    click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=0),
        default=5,
        show_default=True,
        metavar="N",
        help="Most findings of each kind to list.",
    ),
    json_option,
)
def check(book: Spellbook, limit: int, as_json: bool, **held_to: Any) -> None:
    """
    Measure how well search finds notes by the questions they list, and compare all texts; exit 1 if the vault falls
    short.

    Prints notes that their own questions do not find, golden queries of
    .spellbook/queries.yaml that fail, duplicates, and contradictions (other
    numbers, or a "not"). Questions are asked as `search` asks them, but the
    questions that notes list do not count as text to find.

    \b
    spellbook check --min-recall5 0.8
    """
    with progress_bar.bar(hidden=as_json) as progress:
        done = book.check(progress=progress, **held_to)
    if as_json:
        output.as_json(done.as_dict())
    else:
        checks.checked(done, limit)
        for failure in done.failures:
            output.say(f"spellbook: {one_line(failure)}", err=True)
    if done.failures:
        sys.exit(1)


@command(
    click.option("--fix", type=click.Choice(["links"]), help="Show how broken links can be repaired."),
    click.option("--yes", is_flag=True, help="With --fix: write the repairs."),
    click.option("--newer", is_flag=True, help="Also ask the package index for a newer release."),
)
def doctor(book: Spellbook, fix: str | None, yes: bool, newer: bool) -> None:
    """
    Check the vault, the index and the embedder; exit 1 if something must be fixed.

    --fix links lists broken links, and repairs those to files that were moved.
    It shows the differences; with --yes it writes them, and `spellbook undo`
    takes them back.

    Only --newer asks another machine: the package index that pip uses.

    \b
    spellbook doctor --fix links
    """
    if fix:
        offer = book.mend_links(dry_run=not yes)
        output.offer(offer, is_done=yes)
        if offer.left or (offer.changed and not yes):
            sys.exit(1)
        return
    from spellbook.library.doctor import Remark

    sick = False
    for name, problems in book.doctor():
        is_wrong = not all(isinstance(problem, Remark) for problem in problems)
        mark = output.pad(translated("wrong" if is_wrong else "ok"), 5)
        click.echo(f"{click.style(mark, fg='red' if is_wrong else 'green')}  {translated(name)}")
        for problem in problems:
            output.say(f"       {one_line(problem)}")
        sick = sick or is_wrong
    if newer:
        output.say(_compare_releases())
    if sick:
        sys.exit(1)


def _compare_releases() -> str:
    """Return whether there is a newer release."""
    newest = _newest_release()
    if _numbers(newest) > _numbers(__version__):
        return f"Spellbook {newest} is out; this is {__version__}. Upgrade with the tool that you installed it with."
    return f"Spellbook {__version__} is the newest release."


def _newest_release() -> str:
    """Ask pip, which knows the package index that this machine uses. Raises SpellbookError if there is no answer."""
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "pip", "index", "versions", DISTRIBUTION],
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SpellbookError("The package index did not answer.", "Try again later.") from error
    newest = re.match(rf"{DISTRIBUTION} \(([\d.]+)\)", answer.stdout)
    if not newest:
        reason = one_line(answer.stderr.strip()).rpartition("ERROR: ")[2][:200].removesuffix(".")
        raise SpellbookError(
            f"pip could not ask for the newest release: {reason}.",
            f"Installed without pip? Run `uv tool upgrade {DISTRIBUTION}` or `pipx upgrade {DISTRIBUTION}`.",
        )
    return newest[1]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


@command(
    click.option(
        "--copy",
        type=click.Path(),
        metavar="DIR",
        help="Copy the collection into DIR, a new folder, for any Chroma client.",
    ),
    json_option,
)
def chroma(book: Spellbook, copy: str | None, as_json: bool) -> None:
    """
    Print where Chroma keeps the vectors and how far it is; --copy brings it up to date and copies it.

    Open the copy with any Chroma client, never the folder itself: a second
    client would damage the index.

    \b
    spellbook chroma --copy ~/vectors
    """
    from spellbook.index.vectors import chroma, follow
    from spellbook.library import doctor

    book.refresh(embed=True)
    copied = Path(copy).expanduser().absolute() if copy else None
    if copied:
        follow.copy(book.index, copied)
    state = doctor.chroma(book.index)
    if as_json:
        output.as_json({**state, "copy": str(copied)} if copied else state)
        return
    output.say(output.chroma(state))
    if copied:
        output.say(f"Copied to {copied}: open it with chromadb.PersistentClient, collection {chroma.COLLECTION}.")


@main.command()
def demo() -> None:
    """Show in a temporary folder what Spellbook does: index, write through MCP, find, watch."""
    from spellbook.cli.demo import run

    run()
