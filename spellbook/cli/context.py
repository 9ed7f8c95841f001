"""
The command that hooks of agents run without being asked: context.

It never stops a client: whatever goes wrong, it prints nothing on stdout and one line on stderr, and exits with 0. It
reads the index as it is, and neither scans the vault, nor makes or migrates an index, nor waits for a lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn

import click

from spellbook.cli import output
from spellbook.cli.app import Command, json_option, main, scope_option, vault_option
from spellbook.cli.search import also_option
from spellbook.system.errors import SpellbookError
from spellbook.system.processes import read_stdin
from spellbook.text.quoting import one_line

if TYPE_CHECKING:
    from spellbook.index.opened import Index

_SECONDS = 1.0
"""After this time the command gives up, whatever holds it up. A client waits for its hooks."""

_STDIN_SECONDS = 0.1
"""After this time nobody is expected to write a hook's JSON any more."""
_LOCK_SECONDS = 0.05
"""How long the command waits for a database that another process locks."""
_MOST_STDIN = 4_000_000
"""Bytes of stdin that are read; a prompt may hold a long paste."""
_LEAST_TOKENS = 200
_MOST_TOKENS = 20_000
"""Tokens between which the text for the start of a session may be bounded."""

_LONG = 100_000
"""Bytes of a transcript from which on a session may have decided something. By hand."""

_MOST_TRANSCRIPT = 64_000_000  # bytes at the end of a transcript that are read
_SAVED = rb'"name":\s*"[\w-]*(?:scribe|revise|remember|mama_save|mama_update)"'
_REMINDED = "reminded.log"
"""Which sessions were reminded; its ending tells `seal` that it is no part of the index."""

_MOST_REMINDED = 200  # sessions that are remembered
_KEEP = (
    "Before this ends: if something was decided or learned in this session that should last and is not in the notes "
    "yet, keep it now with Spellbook (mama_save if it is there, else rest and scribe). If there is nothing, go on."
)
_COMPACTING = (
    "Keep in the summary what was decided and why, and which of it is not saved in Spellbook yet, so that it can be "
    "saved right after."
)


class _Quiet(Command):
    """Ends with 0 and one line on stderr, whatever is wrong, also with its own options."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.ClickException as error:
            _leave(error.format_message())

    def invoke(self, ctx: click.Context) -> Any:
        threading.Thread(target=_give_up, args=(threading.Event(),), daemon=True).start()
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except (SpellbookError, click.ClickException) as error:
            _leave(error.message)
        except Exception as error:  # a hook that fails would stop the client
            _leave(f"{type(error).__name__}: {error}")


def _give_up(never: threading.Event) -> None:
    never.wait(_SECONDS)
    with contextlib.suppress(OSError):
        output.say(f"spellbook: no context within {_SECONDS:g} s.", err=True)
    os._exit(0)


def _leave(why: str) -> NoReturn:
    output.say(f"spellbook: {one_line(' '.join(why.split()))}", err=True)
    raise click.exceptions.Exit(0)


@main.command(cls=_Quiet)
@click.argument("text", required=False)
@click.option("--session-start", "kind", flag_value="start", help="For the start of a session. This is the default.")
@click.option("--prompt", "kind", flag_value="prompt", help="What is surely related to TEXT, or to stdin's prompt.")
@also_option
@click.option("--reminder", "kind", flag_value="reminder", help="A reminder to keep what was decided.")
@click.option(
    "--max-tokens",
    type=click.IntRange(_LEAST_TOKENS, _MOST_TOKENS),
    default=800,
    show_default=True,
    metavar="N",
    help="Most tokens for the start of a session.",
)
@json_option
@scope_option
@vault_option
@click.pass_context
def context(
    ctx: click.Context, /, text: str | None, kind: str | None, also: tuple[str, ...], max_tokens: int, as_json: bool
) -> None:
    """
    Print what an agent should know without asking, for hooks of its client.

    It reads the index as it is. If anything is wrong, it prints nothing, says
    why on stderr and still exits with 0. A hook's JSON may come on stdin.

    \b
    spellbook context --session-start
    spellbook context --prompt "why did we move to PostgreSQL?"
    """
    hook = _hook(b"" if text else read_stdin(_MOST_STDIN, _STDIN_SECONDS))
    if kind == "reminder":
        _print_reminder(ctx, hook, as_json)
        return
    if kind == "prompt":
        prompt = text or hook.get("prompt")
        if isinstance(prompt, str) and prompt.strip():
            _print_related(ctx, prompt, also or hook.get("also") or (), as_json)
        return
    from spellbook.capture.ledger import Ledger
    from spellbook.memories import briefing

    with _index(ctx) as index:
        overview = briefing.briefing(index, hook.get("source") == "compact", hook.get("session_id"))
    if as_json:
        output.as_json(overview.as_dict())
    else:
        click.echo(overview.text(max_tokens))
    with contextlib.suppress(SpellbookError, OSError):  # what it is about to print matters more
        Ledger(str(index.config.vault)).leave_job({**hook, "hook_event_name": "SessionStart"})


def _print_related(ctx: click.Context, prompt: str, also: str | Sequence[str], as_json: bool) -> None:
    from spellbook.memories import recall

    with _index(ctx) as index:
        passages = recall.recall(index, prompt, also)
    if as_json:
        output.as_json({"passages": [passage.as_dict() for passage in passages]})
    elif passages:
        click.echo(recall.text(passages))


def _print_reminder(ctx: click.Context, hook: dict[str, Any], as_json: bool) -> None:
    event = hook.get("hook_event_name")
    if event == "Stop":
        # Only this form makes the client go on once more, so that the agent reads it.
        if (
            not hook.get("stop_hook_active")
            and _is_worth_reminding(hook.get("transcript_path"))
            and _is_first_reminder(ctx, hook)
        ):
            output.as_json({"decision": "block", "reason": _KEEP})
        return
    reminder = _COMPACTING if event == "PreCompact" else _KEEP
    if as_json:
        output.as_json({"reminder": reminder})
    else:
        click.echo(reminder)


def _is_worth_reminding(transcript: object) -> bool:
    """Say whether a session was long, and nothing was saved in it."""
    if not isinstance(transcript, str) or not os.path.isfile(transcript):
        return False
    with open(transcript, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _MOST_TRANSCRIPT))
        return size >= _LONG and not re.search(_SAVED, file.read(_MOST_TRANSCRIPT))


def _is_first_reminder(ctx: click.Context, hook: dict[str, Any]) -> bool:
    """Record that this session is reminded, and say whether it is for the first time."""
    session = sha256(str(hook.get("session_id")).encode("utf-8", "replace")).hexdigest()[:16]
    file = _config(ctx).state / _REMINDED
    known = file.read_text("ascii").split() if file.exists() else []
    if session in known:
        return False
    file.write_text("\n".join([*known[-_MOST_REMINDED:], session, ""]), "ascii")
    return True


def _config(ctx: click.Context) -> Any:
    from spellbook.settings.config import load

    options = ctx.ensure_object(dict)
    return load(options.get("vault"), scope=options.get("scope"))


def _index(ctx: click.Context) -> AbstractContextManager[Index]:
    """Open the index of the vault if it can be read at once. Raises StorageError."""
    from spellbook.index.opened import Index

    return contextlib.closing(Index.open_ready(_config(ctx), _LOCK_SECONDS))


def _hook(data: bytes) -> dict[str, Any]:
    """Return a hook's JSON; text that is no JSON is a prompt."""
    text = data.decode("utf-8", "replace")
    try:
        hook: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {} if text.lstrip().startswith("{") else {"prompt": text}
    return hook if isinstance(hook, dict) else {"prompt": text}
