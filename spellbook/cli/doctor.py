"""Commands that say how things are: status, doctor, chroma, demo."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spellbook.cli import output, progress_bar, vault_state
from spellbook.cli.app import command, json_option, main
from spellbook.search.presentation import place, titles
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, one_line

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook
    from spellbook.search.duplicates import Repeated

_MOST_LISTED = 5  # duplicates and contradictions of a vault
_MOST_ALIKE = 5  # chunks of a group of duplicates
_MOST_PARTS = 3  # pairs of words of a contradiction


@command(
    click.option("--verbose", is_flag=True, help="Also places, sizes, engines, times and every fault."),
    json_option,
)
def status(book: Spellbook, verbose: bool, as_json: bool) -> None:
    """Print how the vault is: what search finds, what to fix, who has it open."""
    book.refresh()
    output.result(book.status(), as_json, partial(vault_state.show, verbose=verbose))


@command(
    click.option("--fix", type=click.Choice(["links"]), help="Show how broken links can be repaired."),
    click.option("--yes", is_flag=True, help="With --fix: write the repairs."),
)
def doctor(book: Spellbook, fix: str | None, yes: bool) -> None:
    """
    Check the vault, the index and the embedder; exit 1 if something must be fixed.

    It also compares all texts, and lists duplicates and contradictions (other
    numbers, or a "not").

    --fix links lists broken links, and repairs those to files that were moved.
    It shows the differences; with --yes it writes them, and `spellbook undo`
    takes them back.

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
    with progress_bar.bar(hidden=False) as progress:
        found = book.check(progress=progress)
    _print_repeated(found)
    if sick:
        sys.exit(1)


def _print_repeated(found: Repeated) -> None:
    """Print which texts repeat or contradict each other, a few of each, and what to do about them."""
    for findings, name, step in (
        (
            found.duplicates,
            counted(len(found.duplicates), "duplicate"),
            "keep one and erase the others, or say what is different",
        ),
        (
            found.contradictions,
            counted(len(found.contradictions), "contradiction"),
            "keep what is true, edit or erase the other",
        ),
    ):
        if findings:
            click.echo(f"\n{click.style(translated(name), bold=True)}: {translated(step)}")
        for finding in findings[:_MOST_LISTED]:
            parts = getattr(finding, "parts", ())[:_MOST_PARTS]
            texts = [", ".join(side) for side in zip(*parts, strict=True)] or map(titles, finding.chunks)
            for chunk, text in [*zip(finding.chunks, texts, strict=True)][:_MOST_ALIKE]:
                click.echo(f"  {click.style(place(chunk), fg='cyan')}  {one_line(text)}")
            if len(finding.chunks) > _MOST_ALIKE:
                output.say(f"  … {len(finding.chunks) - _MOST_ALIKE:,} more")
        if len(findings) > _MOST_LISTED:
            output.say(f"  … {len(findings) - _MOST_LISTED:,} more: the page Health of the dashboard lists them")


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
