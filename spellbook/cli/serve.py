"""Commands about the server of a vault over HTTP: serve, and token add, token list, token remove."""

from __future__ import annotations

import io
import ipaddress
import os
import sys
import threading
import webbrowser
from functools import partial
from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import (
    Group,
    command,
    debug_option,
    main,
    opened,
    scope_option,
    toolsets_option,
    vault_of,
    wiki_option,
)
from spellbook.http.oauth.grants import Grants
from spellbook.http.tokens import Tokens
from spellbook.mcp.tool_names import toolsets_of
from spellbook.settings.config import either, is_loopback
from spellbook.settings.defaults import HOST, PORT
from spellbook.system.children import growing, leave_threads
from spellbook.system.errors import InvalidInput
from spellbook.system.processes import present
from spellbook.text.quoting import json_of, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from spellbook.http.guard import AccessRules


def _apply(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    """Set the variables of the container and make its folders, before other options take their defaults from them."""
    if value and not ctx.resilient_parsing:
        from spellbook.http import container

        layout = container.layout()
        os.environ.update(layout.environment)
        for note in (*container.prepare(layout), container.embedding(layout.vault)):
            output.say(f"spellbook: {note}", err=True)


container_option = click.option(
    "--container",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_apply,
    help="Run in a container: everything in /data, the vault in /data/vault or /vault, a token needed.",
)


@command(
    container_option,
    click.option(
        "--host",
        default=lambda: os.environ.get("SPELLBOOK_HOST") or HOST,
        metavar="ADDRESS",
        help=f"Where to listen [{HOST}: this machine alone; SPELLBOOK_HOST]. Beyond it, clients need a token.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=lambda: os.environ.get("SPELLBOOK_PORT") or str(PORT),
        metavar="PORT",
        help=f"The port [{PORT}; SPELLBOOK_PORT]; 0 for any free one.",
    ),
    toolsets_option,
    click.option("--certfile", type=click.Path(), metavar="FILE", help="A certificate as PEM, for https."),
    click.option("--keyfile", type=click.Path(), metavar="FILE", help="The certificate's key as PEM."),
    click.option(
        "--trusted-proxy",
        "proxies",
        multiple=True,
        metavar="ADDRESS",
        help="A proxy whose X-Forwarded headers are believed; repeat for more.",
    ),
    click.option("--phone", "is_for_phone", is_flag=True, help="Also open it to a phone in this network, by a code."),
    click.option(
        "--public-url",
        "public",
        metavar="URL",
        help="The address of your tunnel, https://NAME: apps such as Claude and ChatGPT may then be connected there.",
    ),
    click.option("--open/--no-open", "opens", default=True, help="Open the page in this machine's browser, or not."),
    debug_option,
    wiki_option,
    scope_option,
    json=False,
    opens=False,
)
def serve(
    ctx: click.Context,
    host: str,
    port: int,
    toolsets: str,
    certfile: str | None,
    keyfile: str | None,
    proxies: tuple[str, ...],
    is_for_phone: bool,
    public: str | None,
    opens: bool,
    debug_log: bool,
) -> None:
    """
    Serve the vault over HTTP: MCP for any number of clients, and a JSON API.

    Give clients the address that it prints. Ctrl-C ends it. Only this machine
    can reach it unless you say otherwise, and then clients need a token,
    which spellbook token makes.
    """
    if bool(certfile) != bool(keyfile):
        raise click.UsageError("--certfile and --keyfile belong together.")
    _check_proxies(proxies)
    if is_for_phone and not is_loopback(host):
        raise click.UsageError("--phone chooses the address itself: leave out --host and SPELLBOOK_HOST.")
    from spellbook.http import run
    from spellbook.http.oauth.addresses import public_url

    issuer = public_url(public) if public is not None else ""
    address = run.Address(run.bound(host, port), host, "https" if certfile else "http")
    homes = [run.home()] if is_for_phone else []
    at = address.socket.getsockname()[1]
    others = [run.Address(run.bound(home, at), home, address.scheme) for home in homes]
    with address.socket, opened(ctx) as book:
        with growing():
            from spellbook.http import app, guard, served
            from spellbook.mcp.debug_log import open_log, wants_log

            allowed = os.environ.get("SPELLBOOK_ALLOWED_HOSTS", "").lower().split(",")
            named = tuple(name for each in [*allowed, issuer.removeprefix("https://")] if (name := each.strip()))
            rules = guard.AccessRules(
                hosts=guard.hosts(host, (*homes, *named)),
                is_local=is_loopback(host) and not proxies,
                is_open=either("SPELLBOOK_AUTH", "token", "none") == "none",
                is_contained=bool(os.environ.get("SPELLBOOK_CONTAINER")),
                rate=_number("SPELLBOOK_RATE", guard.RATE),
                public=issuer,
            )
            if rules.is_open:
                _check_open(rules, host, named, proxies)
            log = open_log(book.config.state, "http") if wants_log(debug_log) else None
            doors = served.Served(book, toolsets_of(toolsets), log=log, public=issuer)
            if issuer:
                output.say(f"Apps connect at {issuer}/mcp, once your tunnel leads there.", err=True)
            is_for_others = bool(named or proxies or not others)
            url = _let_in(doors.tokens, rules, address.url, is_for_others=is_for_others)
            for other in others:
                doors.phone = f"{other.url}/login#{doors.tokens.lend()}"
            asgi = app.make(doors, rules)
        with present(book.config.state, "serve"):
            tls = (certfile, keyfile) if certfile and keyfile else None
            announce = partial(_announce, url, doors.phone, book.config.vault, opens)
            run.serve(asgi, address, announce, proxies, tls, others)
            book.meter.flush()
            leave_threads()


def _check_proxies(proxies: tuple[str, ...]) -> None:
    """Raise UsageError for a proxy that is neither an address nor a network."""
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError as error:
            reason = f"--trusted-proxy {proxy[:100]}: this is neither an address nor a network."
            raise click.UsageError(reason) from error


def _let_in(tokens: Tokens, rules: AccessRules, url: str, *, is_for_others: bool) -> str:
    """Return the address for the person at this terminal, who is logged in by it; make the first token if needed."""
    asks_all = not rules.is_open and (rules.others or not rules.is_local)
    if asks_all and tokens.is_empty and is_for_others:
        output.say("A token was made for this server. It is shown only now:", err=True)
        headers = {"Authorization": f"Bearer {tokens.add('first')}"}
        entry = {"type": "http", "url": url, "headers": headers}
        click.echo(json_of({"mcpServers": {"spellbook": entry}}), err=True)
    asks_here = asks_all or not (rules.is_open or tokens.is_empty)
    # A log would keep it.
    return f"{url}/login#{tokens.link()}" if asks_here and sys.stderr.isatty() else url


def _announce(url: str, login: str, vault: Path, opens: bool) -> None:
    """Print where the server of `vault` is, and open it in the browser of the person at this terminal."""
    if login:
        import segno

        segno.make_qr(login).terminal(code := io.StringIO(), border=2, compact=True)
        if sys.stderr.isatty():  # a log would keep it; Settings shows it too
            click.secho(code.getvalue(), fg="bright_white", bg="black", err=True)
        place = login.partition("/login")[0]
        output.say(f"Scan the code, here or in Settings, with a phone. It opens {place}; Ctrl-C ends it.", err=True)
        how = place.partition(":")[0]
        output.say(f"Everybody in it who has the code can read and write your notes, over {how}.", err=True)
    click.echo(url, err=True)  # alone in its line, since programs read it
    output.say(f"This address opens {vault} in a browser. Ctrl-C ends the server.", err=True)
    if opens and sys.stderr.isatty() and (browser := _browser()):
        threading.Thread(target=browser.open, args=(url,), daemon=True).start()


def _browser() -> webbrowser.BaseBrowser | None:
    """Return the browser of the person at this terminal, None where nobody would see it."""
    is_far = any(map(os.environ.get, ("SSH_CONNECTION", "SSH_TTY", "CI", "SPELLBOOK_CONTAINER")))
    try:
        found = None if is_far or not sys.stdout.isatty() else webbrowser.get()
    except webbrowser.Error:
        return None
    return None if type(found) is webbrowser.GenericBrowser else found  # without a screen, w3m at most


def _check_open(rules: AccessRules, host: str, named: tuple[str, ...], proxies: tuple[str, ...]) -> None:
    """Say what SPELLBOOK_AUTH=none means. Raises InvalidInput for a server that is not for this machine alone."""
    beyond = [*rules.others, *proxies]
    if not named and not is_loopback(host):
        beyond.append(host)
    if beyond:
        raise InvalidInput(
            f"SPELLBOOK_AUTH=none is for this machine alone, and this server also has: {', '.join(beyond)}.",
            "Unset SPELLBOOK_AUTH, so that clients need a token; or take these out of SPELLBOOK_ALLOWED_HOSTS, --host, "
            "--trusted-proxy, --public-url and --phone.",
        )
    if rules.is_contained:
        output.say("SPELLBOOK_AUTH=none: whoever reaches this server can read and change all notes.", err=True)


def _number(name: str, default: int) -> int:
    """Return a setting of the environment that is a whole number. Raises InvalidInput."""
    digits = os.environ.get(name, "").strip()
    if digits and not (digits.isdecimal() and len(digits) < 10):
        raise InvalidInput(f"{name}={digits[:80]!r} is not a whole number.", "Write one, or unset it.")
    return int(digits) if digits else default


@main.group(cls=Group)
def token() -> None:
    """
    Tokens let programs and browsers into the server, each with rights of its own.

    \b
    spellbook token add laptop
    spellbook token add team --may read --sees team
    """


@command(
    click.argument("name"),
    click.option(
        "--may",
        type=click.Choice(["read", "write", "admin"]),
        help="What it may do; each includes the one before. Default: write, or read if it does not see all notes.",
    ),
    click.option(
        "--sees",
        type=click.Choice(["private", "team", "public"]),
        default="private",
        show_default=True,
        help="The most private notes that it sees, by their privacy_scope; private is all notes.",
    ),
    group=token,
    json=False,
    opens=False,
)
def add(ctx: click.Context, name: str, may: str | None, sees: str) -> None:
    """
    Make a token NAME and print it, for the only time: Spellbook keeps its hash alone.

    With --sees team or public, it may only read, and notes of a more private
    privacy_scope do not exist for it.
    """
    tokens = Tokens.of(vault_of(ctx))
    is_first = tokens.is_empty
    click.echo(tokens.add(name, may, sees))  # type: ignore[arg-type]  # click has checked both
    output.say(
        f"Send it as `Authorization: Bearer …`. If it is lost: spellbook token remove {one_line(name)}", err=True
    )
    if is_first:
        output.say("From now on, this machine's dashboard and programs need a token, too.", err=True)


@command(group=token, opens=False)
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the tokens and the connected apps by name, with what they may do and see."""
    tokens = Tokens.of(vault_of(ctx))
    rows = [row.as_dict() for row in tokens.all()]
    apps = [row.as_dict() for row in Grants(tokens).all()]
    if as_json:
        output.as_json({"tokens": rows, "apps": apps})
        return
    if not rows:
        output.say("No token yet. To make one: spellbook token add NAME")
    for row in rows + apps:
        named = click.style(one_line(row["name"]), bold=True)
        click.echo(f"{named}  {row['may']}, {row['sees']}  {row['created'][:10]}".rstrip())


@command(click.argument("name"), group=token, json=False, opens=False)
def remove(ctx: click.Context, name: str) -> None:
    """Remove the token or app NAME; running servers refuse it, and browsers that logged in with it, at once."""
    tokens = Tokens.of(vault_of(ctx))
    gone = Grants(tokens).remove(name)
    output.say(f"{one_line(gone.name)} was removed.")
    if tokens.is_empty:
        output.say("No token is left: a server for this machine alone now answers every program on it.", err=True)
