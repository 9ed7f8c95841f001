"""The command that lets sessions of agents become notes: capture."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click

from spellbook.capture import run
from spellbook.capture.ledger import Ledger, hook
from spellbook.cli import output
from spellbook.cli.app import json_option, main, opened, vault_option
from spellbook.settings.config import find_vault
from spellbook.text.quoting import counted, one_line


@main.command()
@click.argument("action", metavar="ACTION", type=click.Choice(["on", "off", "status", "forget", "hook"]))
@click.argument("session", default="")
@click.option("--project", default="", metavar="NAME", help="Forget the sessions of this project.")
@click.option("--since", default="", metavar="DATE", help="Forget the sessions that ended on this day or later.")
@click.option("--dry-run", is_flag=True, help="List the notes that would go into the trash, and change nothing.")
@json_option
@vault_option
@click.pass_context
def capture(ctx: click.Context, /, action: str, session: str, as_json: bool, dry_run: bool, **chosen: Any) -> None:
    """
    Keep what you say to Claude Code and Codex as notes: ACTION is on, off, status or forget.

    It is off until you switch it on, for each machine. forget moves the notes of
    SESSION, of a project, or since a day to the trash, and these sessions are
    never captured again. docs/capture.md says what is kept, and what is not.

    \b
    spellbook capture on
    spellbook capture forget --project shop --dry-run
    """
    if action == "hook":
        hook(ctx.ensure_object(dict).get("vault", ""))
        return
    if action != "forget" and (session or dry_run or any(chosen.values())):
        raise click.UsageError("A session, --project, --since and --dry-run are for forget.")
    vault = find_vault(ctx.ensure_object(dict).get("vault"))
    ledger = Ledger(str(vault))
    if action == "forget":
        if sum(map(bool, (session, *chosen.values()))) != 1:
            raise click.UsageError("Name a session, a --project or a --since DATE.")
        with opened(ctx) as book:
            book.refresh()
            paths = run.forget(book.index, session, dry_run=dry_run, **chosen)
        output.result({"notes": paths, "dry_run": dry_run}, as_json, lambda _: _tell(paths, dry_run))
    elif action == "status":
        state = {"on": bool(ledger.switch.get("on")), "sessions": len(ledger.all("session"))}
        output.result({**state, "run": ledger.all("run").get("", {}), "problems": ledger.problems()}, as_json, _show)
    else:
        ledger.turn(action == "on", vault)
        output.say(
            "What you say to agents is kept in sessions/." if action == "on" else "Nothing is captured any more."
        )


def _tell(paths: list[str], dry_run: bool) -> None:
    for path in paths:
        click.echo(one_line(path))
    count = counted(len(paths), "note")
    output.say(f"{count} would go to the trash." if dry_run else f"{count} moved to the trash.")


def _show(state: dict[str, Any]) -> None:
    output.say(f"Capture is {'on' if state['on'] else 'off'}; sessions: {state['sessions']}.")
    if at := state["run"].get("at"):
        count = counted(state["run"].get("exchanges", 0), "exchange")
        output.say(f"The last run was on {dt.datetime.fromtimestamp(at):%Y-%m-%d at %H:%M}: {count} captured.")
    for problem in state["problems"]:
        output.say(one_line(problem))
