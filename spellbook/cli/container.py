"""The option `--container` of `serve`."""

from __future__ import annotations

import os

import click

from spellbook.cli import output


def _apply(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    """Set the variables of the container and make its folders, before other options take their defaults from them."""
    if value and not ctx.resilient_parsing:
        from spellbook.server.http import container

        found = container.layout()
        os.environ.update(found.environment)
        for note in (*container.prepare(found), container.embedding(found.vault)):
            output.say(f"spellbook: {note}", err=True)


container_option = click.option(
    "--container",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_apply,
    help="Run in a container: everything in /data, the vault in /data/vault or /vault, a token needed.",
)
