"""
Parse what strangers made in a process of its own, with limits of time and memory.

A hostile page or PDF can take minutes and gigabytes, or crash the parser. Then the child ends and the caller gets an
error. The child gets the bytes on stdin, answers JSON on stdout, and has no API keys in its environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from spellbook.archive.pages import html, pdf, safe_markdown
from spellbook.settings.environment import variables
from spellbook.system import children
from spellbook.system.errors import FetchError, InvalidInput, SpellbookError, StorageError

_MOST_MARKDOWN = 9_900_000
"""Bytes of UTF-8 that are saved of a page: what a note may hold, without its frontmatter."""


SECONDS = {"html": 30.0, "pdf": 60.0, "text": 30.0}
"""How long a parser may take, by hand."""

_MOST_MEMORY = 1_500_000_000
"""Bytes of address space, where the system limits it; a page of 10 MB and a PDF of 50 MB take less than half."""

_ALIVE_SECONDS = 0.2
"""How often `alive` is called."""

_PARSERS: Mapping[str, Callable[..., Mapping[str, str]]] = {
    "html": html.extract,
    "pdf": pdf.extract,
    "text": lambda body: {"markdown": safe_markdown.safe(body.decode())},
}
_RAISED: dict[str, type[SpellbookError]] = {"InvalidInput": InvalidInput, "FetchError": FetchError}


def parse(
    kind: str,
    body: bytes,
    what: str,
    *,
    seconds: float | None = None,
    memory: int = _MOST_MEMORY,
    alive: Callable[[], object] | None = None,
    **about: str,
) -> dict[str, str]:
    """
    Return what the parser of this `kind` makes of `body`; `about` goes to the parser.

    `what` names it in messages. `alive` is called now and then; if it raises, the child is killed. Raises InvalidInput
    or FetchError as the parser does, and InvalidInput if it needs too much.
    """
    seconds = seconds or SECONDS[kind]
    about |= {"what": what} if kind == "pdf" else {}
    head = {"kind": kind, "about": about, "memory": memory, "seconds": int(seconds) + 1}
    hidden = {*variables("secret")}
    try:
        child = children.child(__name__, {name: value for name, value in os.environ.items() if name not in hidden})
    except OSError as error:
        raise StorageError(f"No process could be started to read {what} ({error}).", "Is there memory left?") from error
    with child:
        try:
            output = _ask(child, json.dumps(head).encode() + b"\n" + body, time.monotonic() + seconds, alive)
        except subprocess.TimeoutExpired:
            output = b""  # as of a child that crashed
        finally:
            child.kill()
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        raise InvalidInput(
            f"{what} cannot be read: it is damaged, or needs more than {seconds:.0f} s or {memory // 1_000_000:,} MB.",
            "Give its text instead.",
        ) from None
    if raised := answer.get("raised"):
        raise _RAISED[raised](answer["message"], answer["hint"])
    if len(answer["markdown"].encode()) > _MOST_MARKDOWN:
        raise InvalidInput(f"{what} has more than {_MOST_MARKDOWN / 1e6:.1f} MB of text.", "Save it in parts.")
    return answer


def _ask(
    child: subprocess.Popen[bytes], question: bytes | None, until: float, alive: Callable[[], object] | None
) -> bytes:
    """Return what a child prints. Raises TimeoutExpired, and what `alive` raises."""
    while True:
        try:
            return child.communicate(question, timeout=max(0.0, min(_ALIVE_SECONDS, until - time.monotonic())))[0]
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until:
                raise
            question = None  # `communicate` goes on where it was
            if alive:
                alive()


def serve() -> None:
    """Answer `parse` on stdin and stdout, once."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not print into the answer
    head = json.loads(sys.stdin.buffer.readline())
    if sys.platform != "win32":  # bounded where the system can; the parent's clock bounds it everywhere
        import resource

        for limit, most in (("AS", head["memory"]), ("CPU", head["seconds"]), ("CORE", 0), ("FSIZE", 0)):
            with contextlib.suppress(OSError, ValueError):  # macOS knows no bound of the address space
                resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (most, most))
    try:
        answer = _PARSERS[head["kind"]](sys.stdin.buffer.read(), **head["about"])
    except (InvalidInput, FetchError) as error:
        answer = {"raised": type(error).__name__, "message": error.message, "hint": error.hint}
    answers.write(json.dumps(answer).encode())
    answers.flush()
