"""Commands about the tokens of a server: token add, token list, token remove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import Group, json_option, main, vault_option
from spellbook.system.errors import InvalidInput, StorageError
from spellbook.text.quoting import one_line

if TYPE_CHECKING:
    from spellbook.server.http.tokens import Tokens


published_option = click.option(
    "--published", is_flag=True, help="The tokens of servers over published vaults, instead of those of one vault."
)


@main.group(cls=Group)
def token() -> None:
    """
    Tokens let programs and browsers into the server, each with rights of its own.

    \b
    spellbook token add laptop
    spellbook token add team --may read --sees team
    spellbook token add ann --published --only-vault notes
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
@click.option(
    "--only-vault",
    "vaults",
    multiple=True,
    metavar="NAME",
    help="A published vault that it sees; repeat for more. Others do not exist for it. Default: all.",
)
@published_option
@vault_option
@click.pass_context
def add(ctx: click.Context, name: str, may: str | None, sees: str, vaults: tuple[str, ...], published: bool) -> None:
    """
    Make a token NAME and print it, for the only time: Spellbook keeps its hash alone.

    With --sees team or public, it may only read, and notes of a more private
    privacy_scope do not exist for it.
    """
    _check(ctx, vaults, published)
    tokens = _tokens(ctx, published)
    is_first = tokens.is_empty
    click.echo(tokens.add(name, may, sees, vaults))  # type: ignore[arg-type]  # click has checked both
    output.say(
        f"Send it as `Authorization: Bearer …`. If it is lost: spellbook token remove {one_line(name)}", err=True
    )
    if is_first:
        output.say("From now on, this machine's dashboard and programs need a token, too.", err=True)


@token.command(name="list")
@json_option
@published_option
@vault_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool, published: bool) -> None:
    """List the tokens by name, with what they may do and see."""
    tokens = _tokens(ctx, published).all()
    if as_json:
        output.as_json({"tokens": [row.as_dict() for row in tokens]})
        return
    if not tokens:
        output.say("No token yet. To make one: spellbook token add NAME")
    for row in tokens:
        limit = f" ({', '.join(map(one_line, row.vaults))})" if row.vaults else ""
        rest = f"{row.may}, {row.sees}{limit}  {row.created[:10]}"
        click.echo(f"{click.style(one_line(row.name), bold=True)}  {rest}".rstrip())


@token.command()
@click.argument("name")
@published_option
@vault_option
@click.pass_context
def remove(ctx: click.Context, name: str, published: bool) -> None:
    """Remove the token NAME; running servers refuse it, and browsers that logged in with it, at once."""
    tokens = _tokens(ctx, published)
    gone = tokens.remove(name)
    output.say(f"{one_line(gone.name)} was removed.")
    if tokens.is_empty:
        output.say("No token is left: on this machine, a server now lets every program in.", err=True)


def _tokens(ctx: click.Context, published: bool) -> Tokens:
    from spellbook.server.http.tokens import Tokens

    if published:
        return Tokens.of_published()
    return Tokens.of(_vault(ctx))


def _vault(ctx: click.Context) -> Path:
    from spellbook.settings.config import find_vault

    return find_vault(ctx.ensure_object(dict).get("vault"))


def _check(ctx: click.Context, names: tuple[str, ...], published: bool) -> None:
    """Raise VaultNotFound, InvalidInput for a limit to a vault that is not there, where that can be known."""
    if not names:
        return
    if not published:
        own = _vault(ctx).name
        if unknown := [each for each in names if each != own]:
            raise InvalidInput(
                f"--only-vault {unknown[0][:100]!r}: this server has one vault, {own!r}.",
                "With --published the token is one of servers over published vaults.",
            )
        return
    from spellbook.index.postgres.database import configured
    from spellbook.index.postgres.reader import vaults

    database = configured()
    if not database:
        output.say("Whether these vaults are published is not known: SPELLBOOK_DATABASE_URL is not set.", err=True)
        return
    try:
        vaults(database, names)
    except StorageError as error:
        output.say(f"Whether these vaults are published is not known: {error.message}", err=True)
    finally:
        database.close()
