"""Print for people what a merge, a move or a repair did, or would do, with its differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from spellbook.cli.output import faults, say
from spellbook.text.quoting import counted, one_line, plain

if TYPE_CHECKING:
    from spellbook.editing.merge import Merged
    from spellbook.editing.moves import Moved, RelinkedNote
    from spellbook.editing.repair_links import Offer


def merged(done: Merged) -> None:
    """Print what a merge makes, and on stderr what is to be decided."""
    click.echo(plain(done.difference))
    for pair in done.changed:
        click.echo(f"{click.style('a', bold=True)}  {one_line(pair.first)}", err=True)
        click.echo(f"{click.style('b', bold=True)}  {one_line(pair.other)}", err=True)
    for key, (stays, other) in done.differs.items():
        say(f"{one_line(key)}: keeps {one_line(str(stays))}, not {one_line(str(other))}", err=True)
    if done.linking:
        say(f"Links to it in {', '.join(map(one_line, done.linking))}", err=True)
    gone = one_line(done.gone)
    path = one_line(done.path)
    if done.trash:
        say(f"{gone} is merged into {path}; the old file is in {one_line(done.trash)}.", err=True)
    else:
        say(f"--yes merges {gone} into {path}.", err=True)
        if done.changed:
            say("They contradict each other, so add --keep a, b or both.", err=True)


def moved(done: Moved, *, dry_run: bool) -> None:
    """Print what a move did or, with all differences, would do."""
    if dry_run:
        for old, new in done.moved:
            click.echo(f"{one_line(old)} → {one_line(new)}")
        for note in done.changed:
            click.echo(plain(note.difference))
    faults(done.left)
    links, notes = _links(done.changed)
    files = counted(len(done.moved), "file")
    old = one_line(done.old)
    new = one_line(done.new)
    if dry_run and done.changed:
        say(f"Would move {old} to {new}: {files}; {links} in {notes} to update.", err=True)
    elif dry_run:
        say(f"Would move {old} to {new}: {files}.", err=True)
    elif done.changed:
        say(f"Moved {old} to {new}: {files}; {links} in {notes} updated.")
    else:
        say(f"Moved {old} to {new}: {files}.")


def offer(made: Offer, *, is_done: bool) -> None:
    """Print broken links, where their files went, and the differences that repair them."""
    for each in made.broken:
        at = click.style(one_line(f"{each.source}:{each.line}"), fg="cyan")
        click.echo(f"{at}  {one_line(each.target)} → {one_line(each.path or '?')}")
    for note in made.changed:
        click.echo(plain(note.difference))
    faults(made.left)
    links, notes = _links(made.changed)
    unknown = sum(each.path is None for each in made.broken)
    rest = f" {counted(unknown, 'link')} without a known target." if unknown else ""
    if not made.broken:
        say("There are no broken links.", err=True)
    elif is_done and made.changed:
        say(f"Repaired {links} in {notes}.{rest}", err=True)
    elif made.changed:
        say(f"{links} in {notes} can be repaired: repeat with --yes.{rest}", err=True)
    elif rest:
        say(rest.strip(), err=True)


def properties(made: Offer, *, is_done: bool) -> None:
    """Print the differences that make frontmatter readable, and the notes that were left."""
    for note in made.changed:
        click.echo(plain(note.difference))
    faults(made.left)
    values = counted(sum(note.links for note in made.changed), "value")
    notes = counted(len(made.changed), "note")
    if is_done and made.changed:
        say(f"Put {values} in {notes} into quotes.", err=True)
    elif made.changed:
        say(f"{values} in {notes} can be put into quotes: repeat with --yes.", err=True)
    else:
        say("There is no value that quotes alone would make readable.", err=True)


def _links(changed: Sequence[RelinkedNote]) -> tuple[str, str]:
    return counted(sum(note.links for note in changed), "link"), counted(len(changed), "note")
