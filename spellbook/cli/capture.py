"""The command that lets sessions of agents become notes: capture."""

from __future__ import annotations

from typing import Any

import click

from spellbook.cli import output
from spellbook.cli.app import main, opened, vault_option
from spellbook.text.quoting import counted, one_line


@main.command()
@click.argument("action", metavar="ACTION", type=click.Choice(["on", "off", "status", "forget", "hook"]))
@click.argument("session", default="")
@click.option("--project", default="", metavar="NAME", help="Forget the sessions of this project.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Forget those of this day and later.")
@click.option("--dry-run", is_flag=True, help="List the notes that would go to the trash, and change nothing.")
@vault_option
@click.pass_context
def capture(ctx: click.Context, /, action: str, session: str, project: str, since: Any, dry_run: bool) -> None:
    """
    Keep what you say to Claude Code and Codex as notes: ACTION is on, off, status or forget.

    It is off until you switch it on, for each machine and vault. forget moves
    the notes of SESSION, of a project, or since a day to the trash, and these
    sessions are never captured again.

    \b
    spellbook capture on
    spellbook capture forget --project shop --dry-run
    """
    from spellbook.capture import ledger, run
    from spellbook.settings.config import find_vault

    if action == "hook":
        ledger.hook(ctx.ensure_object(dict).get("vault", ""))
    elif sum(map(bool, (session, project, since))) != (action == "forget"):
        raise click.UsageError("Name a session, a --project or a --since DATE for forget, and none for the others.")
    elif action == "forget":
        with opened(ctx) as book:
            book.refresh()
            day = f"{since:%Y-%m-%d}" if since else ""
            paths = run.forget(book.index, session, project, day, dry_run=dry_run)
        click.echo("".join(f"{one_line(path)}\n" for path in paths), nl=False)
        count = counted(len(paths), "note")
        output.say(f"{count} would go to the trash." if dry_run else f"{count} moved to the trash.")
    else:
        vault = find_vault(ctx.ensure_object(dict).get("vault"))
        known = ledger.Ledger(str(vault))
        if action != "status":
            known.turn(action == "on", vault)
        output.say("Capture is on." if known.switch.get("on") else "Capture is off.")
        for problem in known.problems():
            output.say(f"{one_line(problem)}.")
