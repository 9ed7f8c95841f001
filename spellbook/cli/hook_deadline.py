"""The time limits of a command that hooks of clients run, and its end in time, whatever holds it up or is wrong."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, NoReturn

import click

from spellbook.cli import output
from spellbook.cli.app import Command
from spellbook.system.children import age
from spellbook.system.errors import SpellbookError
from spellbook.text.quoting import one_line

SECONDS = 1.0
"""Seconds after the start of its process at which the command ends, whatever holds it up: a client waits for hooks."""

PATIENCE = 0.6
"""Seconds after that start until which it waits for the note of a session that was just left. By hand."""
LATELY = 10
"""Seconds after which the job of a session that was left counts as stuck."""

STDIN_SECONDS = 0.1
"""After this time nobody is expected to write a hook's JSON any more."""
LOCK_SECONDS = 0.05
"""How long the command waits for a database that another process locks."""


class Deadline:
    """Ends this process when its time is over, and prints the text that was gathered until then."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_printed = False
        self.gathered = ""

    def start(self) -> None:
        """Begin to wait, in a thread of its own."""
        waiting = threading.Timer(max(0.0, SECONDS - age()), self._give_up)
        waiting.daemon = True
        waiting.start()

    def echo(self) -> None:
        """Print the text that was gathered; the deadline prints nothing from now on."""
        with self._guard:
            self._is_printed = True
            click.echo(self.gathered)

    def _give_up(self) -> None:
        with self._guard:
            if self._is_printed:
                return
            with contextlib.suppress(OSError):
                click.echo(self.gathered, nl=bool(self.gathered))
                more = f"spellbook: no more context within {SECONDS:g} s."
                output.say(more if self.gathered else f"spellbook: no context within {SECONDS:g} s.", err=True)
            os._exit(0)


class HookCommand(Command):
    """Ends with 0 and one line on stderr, whatever is wrong, also with its own options; it is given a Deadline."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.ClickException as error:
            _leave(error.format_message())

    def invoke(self, ctx: click.Context) -> Any:
        ctx.params["deadline"] = deadline = Deadline()
        deadline.start()
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except (SpellbookError, click.ClickException) as error:
            _leave(error.message)
        except Exception as error:  # a hook that fails would stop the client
            _leave(f"{type(error).__name__}: {error}")


def _leave(why: str) -> NoReturn:
    output.say(f"spellbook: {one_line(' '.join(why.split()))}", err=True)
    raise click.exceptions.Exit(0)
