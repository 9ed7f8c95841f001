"""
Commands for sessions of agents: context, which their hooks run without being asked, and capture.

context never stops a client: whatever goes wrong, it prints nothing on stdout and one line on stderr, and exits with 0.
It reads the index as it is, and neither scans the vault, nor makes or migrates an index, nor waits for a lock. When its
second is over, it prints what it has.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from spellbook.capture.hook import END, HookInput
from spellbook.cli import output
from spellbook.cli.app import command, json_option, opened, scope_option, vault_of
from spellbook.cli.hook_deadline import LATELY, LOCK_SECONDS, PATIENCE, STDIN_SECONDS, Deadline, HookCommand
from spellbook.cli.search import also_option
from spellbook.system.children import age, read_stdin
from spellbook.system.errors import SpellbookError
from spellbook.text.quoting import counted, json_of, one_line

if TYPE_CHECKING:
    from spellbook.capture.ledger import Ledger
    from spellbook.index.opened import Index

_MOST_STDIN = 4_000_000
"""Bytes of stdin that are read; a prompt may hold a long paste."""
_LEAST_TOKENS = 200
_MOST_TOKENS = 20_000
"""Tokens between which the text for the start of a session may be bounded."""

_COMPACTING = (
    "Keep in the summary what was decided and why, and which of it is not saved in Spellbook yet, so that it can be "
    "saved right after."
)


@command(
    click.argument("text", required=False),
    click.option(
        "--session-start", "kind", flag_value="start", help="For the start of a session. This is the default."
    ),
    click.option("--prompt", "kind", flag_value="prompt", help="What is surely related to TEXT, or to stdin's prompt."),
    also_option,
    click.option("--reminder", "kind", flag_value="reminder", help="What a summary should keep, before a compaction."),
    click.option(
        "--max-tokens",
        type=click.IntRange(_LEAST_TOKENS, _MOST_TOKENS),
        default=800,
        show_default=True,
        metavar="N",
        help="Most tokens for the start of a session.",
    ),
    json_option,
    scope_option,
    kind=HookCommand,
    json=False,
    opens=False,
)
def context(
    ctx: click.Context,
    /,
    text: str | None,
    kind: str | None,
    also: tuple[str, ...],
    max_tokens: int,
    as_json: bool,
    deadline: Deadline,
) -> None:
    """
    Print what an agent should know without asking, for hooks of its client.

    It reads the index as it is. If anything is wrong, it prints nothing, says
    why on stderr and still exits with 0. A hook's JSON may come on stdin.

    \b
    spellbook context --session-start
    spellbook context --prompt "why did we move to PostgreSQL?"
    """
    hook = HookInput.read(b"" if text else read_stdin(_MOST_STDIN, STDIN_SECONDS))
    if kind == "prompt":
        prompt = text or hook.prompt
        if prompt.strip():
            from spellbook.memories import prompt_recall

            with _index(ctx) as index:
                passages = prompt_recall.recall(index, prompt, also or hook.also)
            if as_json:
                output.as_json({"passages": [passage.as_dict() for passage in passages]})
            elif passages:
                click.echo(prompt_recall.related_text(passages))
        return
    from spellbook.capture import ledger as ledgers
    from spellbook.memories import session_briefing
    from spellbook.settings import paths

    is_leaving = False
    event = "PreCompact" if kind == "reminder" else "SessionStart"
    with contextlib.suppress(SpellbookError, OSError):  # first: where nothing can be told, a session may yet be off
        root = paths.real(paths.vault(ctx.ensure_object(dict).get("vault") or ""))
        ledger = ledgers.Ledger(root, ledgers.PATIENCE)
        ledger.leave_job(hook._replace(event=event))
        while (is_leaving := _is_leaving(ledger, hook)) and age() < PATIENCE:
            time.sleep(0.02)
    if kind == "reminder":
        output.result({"reminder": _COMPACTING}, as_json, lambda _: click.echo(_COMPACTING))
        return
    is_compacted = hook.source == "compact"
    known = session_briefing.Briefing(compacted=is_compacted)
    deadline.gathered = json_of(known.as_dict()) if as_json else known.text(max_tokens)
    with _index(ctx) as index:
        for overview in session_briefing.gathered(index, is_compacted, hook.session, not is_leaving):
            deadline.gathered = json_of(overview.as_dict()) if as_json else overview.text(max_tokens)
    deadline.echo()


def _is_leaving(ledger: Ledger, hook: HookInput) -> bool:
    """Say whether the note of another session of this folder, which was just left, is still to be written."""
    folder = os.path.dirname(hook.transcript)
    return any(
        job is not None
        and job.event == END
        and not job.is_off
        and job.session != hook.session
        and os.path.dirname(job.transcript) == folder
        and time.time_ns() - job.at < LATELY * 1_000_000_000
        for job in ledger.jobs().values()
    )


@contextlib.contextmanager
def _index(ctx: click.Context) -> Iterator[Index]:
    """Open the index of the vault, for an agent, if it can be read at once. Raises StorageError."""
    from spellbook.index.catalog.catalog import FILE
    from spellbook.index.catalog.tables import FORM
    from spellbook.index.opened import Index
    from spellbook.settings.config import load
    from spellbook.system.sqlite import expect
    from spellbook.vault.journal import CALLER

    options = ctx.ensure_object(dict)
    config = load(options.get("vault"), scope=options.get("scope"))
    expect(config.state / FILE, FORM, LOCK_SECONDS)
    before = CALLER.set("")
    try:
        with contextlib.closing(Index.open(config)) as index:
            yield index
    finally:
        CALLER.reset(before)


@command(
    click.argument("action", metavar="ACTION", type=click.Choice(["on", "off", "status", "forget", "hook"])),
    click.argument("session", default=""),
    click.option("--project", default="", metavar="NAME", help="Forget the sessions of this project."),
    click.option(
        "--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Forget those of this day and later."
    ),
    click.option("--dry-run", is_flag=True, help="List the notes that would go to the trash, and change nothing."),
    json=False,
    opens=False,
)
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
    from spellbook.capture import jobs, ledger, session_note

    if action == "hook":
        ledger.hook(ctx.ensure_object(dict).get("vault", ""))
    elif sum(map(bool, (session, project, since))) != (action == "forget") or (dry_run and action != "forget"):
        raise click.UsageError(
            "Name a session, a --project or a --since DATE for forget; the others take none of them, and no --dry-run."
        )
    elif action == "forget":
        with opened(ctx) as book:
            book.refresh()
            paths = session_note.forget(
                book.index, session, project, f"{since:%Y-%m-%d}" if since else "", dry_run=dry_run
            )
        click.echo("".join(f"{one_line(path)}\n" for path in paths), nl=False)
        count = counted(len(paths), "note")
        output.say(f"{count} would go to the trash." if dry_run else f"{count} moved to the trash.")
    else:
        vault = vault_of(ctx)
        known = ledger.Ledger(str(vault))
        if action != "status":
            known.turn(action == "on", vault)
        output.say("Capture is on." if known.switch().is_on else "Capture is off.")
        for problem in known.problems():
            output.say(f"{one_line(problem)}.")
        off, unmarked = jobs.left_out(known) if known.switch().is_on else (0, 0)
        if off:
            output.say(f"{counted(off, 'session')} left out: switched off by SPELLBOOK_CAPTURE, or forgotten.")
        for name, number in known.numbers("erased").items():
            output.say(f"{counted(number, 'exchange')} of the session {name} left out: erased before.")
        if unmarked:
            output.say(f"{counted(unmarked, 'session')} left out: none of its hooks has run while capture was on.")
