"""Commands that fetch models, list them and delete them: model pull, list, remove."""

from __future__ import annotations

import click

from spellbook.cli import output, progress_bar
from spellbook.cli.app import Group, json_option, main
from spellbook.text.quoting import one_line


@main.group(cls=Group)
def model() -> None:
    """
    Download, list and delete models for search by meaning; nothing is ever downloaded without being asked.

    \b
    spellbook model pull multilingual-e5-base
    SPELLBOOK_EMBEDDER=onnx:multilingual-e5-base spellbook reindex
    """


@model.command()
@click.argument("name")
@click.option(
    "--from",
    "source",
    default="",
    metavar="URL",
    help="A repository's page on the hub, or a folder with a manifest.json on any web server.",
)
def pull(name: str, source: str) -> None:
    """
    Download the model NAME, one that `spellbook model list` names or OWNER/NAME on the hub, and check it.

    Only what ONNX Runtime needs of it is fetched. A download that broke off
    goes on where it stopped.

    \b
    spellbook model pull multilingual-e5-small
    """
    from spellbook.errors import EmbeddingError
    from spellbook.models import embedders
    from spellbook.models.hub import download

    with progress_bar.download(name) as progress:
        found, fetched = download.pull(name, source, progress)
    what = "is here now" if fetched else "is here already; nothing was fetched"
    click.echo(f"{found.name} {what}: {found.folder} ({found.size / 1e6:,.0f} MB).")
    try:
        width = len(embedders.create(f"onnx:{found.name}").embed_query("Spellbook"))
    except EmbeddingError as error:
        raise EmbeddingError(f"It is whole, but cannot be used yet: {error.message}", error.hint) from error
    click.echo(f"It gives vectors of {width} numbers. To use it: SPELLBOOK_EMBEDDER=onnx:{found.name}, then `spellbook reindex`.")


@model.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """Print the models that are here, and some that can be pulled."""
    from spellbook.models.hub import store

    here = store.pulled()
    good = {name: each for name, each in store.GOOD.items() if name not in {one.name for one in here}}
    if as_json:
        keys = [{"name": one.name, "folder": one.folder, "source": one.source, "bytes": one.size, "whole": one.is_whole} for one in here]
        output.as_json({"here": keys, "known": {name: each.about for name, each in good.items()}})
        return
    for one in here:
        broken = "" if one.is_whole else "; files are missing: remove it and pull it again"
        click.echo(f"{click.style(one_line(one.name), bold=True)}  {one.size / 1e6:,.0f} MB, from {one_line(one.source)}{broken}")
    if not here:
        click.echo("No model was pulled yet.")
    click.echo("To pull:")
    for name, each in good.items():
        click.echo(f"  {name}  {each.about}")


@model.command()
@click.argument("name")
def remove(name: str) -> None:
    """Delete the model NAME, and what is left of a download of it; its vectors stay in the index."""
    from spellbook.models.hub import store

    gone = store.remove(name)
    click.echo(f"{gone.name} was deleted ({gone.size / 1e6:,.0f} MB).")
