"""Commands about the tokens of a server: token add, token list, token remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import Group, json_option, main, vault_option
from spellbook.text.quoting import one_line

if TYPE_CHECKING:
    from spellbook.http.tokens import Tokens


@main.group(cls=Group)
def token() -> None:
    """
    Tokens let programs and browsers into the server, each with rights of its own.

    \b
    spellbook token add laptop
    spellbook token add team --may read --sees team
    """


@token.command()
@click.argument("name")
@click.option(
    "--may",
    type=click.Choice(["read", "write", "admin"]),
    help="What it may do; each includes the one before. Default: write, or read if it does not see all notes.",
)
@click.option(
    "--sees",
    type=click.Choice(["private", "team", "public"]),
    default="private",
    show_default=True,
    help="The most private notes that it sees, by their privacy_scope; private is all notes.",
)
@vault_option
@click.pass_context
def add(ctx: click.Context, name: str, may: str | None, sees: str) -> None:
    """
    Make a token NAME and print it, for the only time: Spellbook keeps its hash alone.

    With --sees team or public, it may only read, and notes of a more private
    privacy_scope do not exist for it.
    """
    tokens = _tokens(ctx)
    is_first = tokens.is_empty
    click.echo(tokens.add(name, may, sees))  # type: ignore[arg-type]  # click has checked both
    output.say(
        f"Send it as `Authorization: Bearer …`. If it is lost: spellbook token remove {one_line(name)}", err=True
    )
    if is_first:
        output.say("From now on, this machine's dashboard and programs need a token, too.", err=True)


@token.command(name="list")
@json_option
@vault_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the tokens by name, with what they may do and see."""
    tokens = _tokens(ctx).all()
    if as_json:
        output.as_json({"tokens": [row.as_dict() for row in tokens]})
        return
    if not tokens:
        output.say("No token yet. To make one: spellbook token add NAME")
    for row in tokens:
        rest = f"{row.may}, {row.sees}  {row.created[:10]}"
        click.echo(f"{click.style(one_line(row.name), bold=True)}  {rest}".rstrip())


@token.command()
@click.argument("name")
@vault_option
@click.pass_context
def remove(ctx: click.Context, name: str) -> None:
    """Remove the token NAME; running servers refuse it, and browsers that logged in with it, at once."""
    tokens = _tokens(ctx)
    gone = tokens.remove(name)
    output.say(f"{one_line(gone.name)} was removed.")
    if tokens.is_empty:
        output.say("No token is left: on this machine, a server now lets every program in.", err=True)


def _tokens(ctx: click.Context) -> Tokens:
    from spellbook.http.tokens import Tokens
    from spellbook.settings.config import find_vault

    return Tokens.of(find_vault(ctx.ensure_object(dict).get("vault")))
