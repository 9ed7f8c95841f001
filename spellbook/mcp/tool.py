"""Shared by all toolsets: declaring, adding and running tools, their annotations, and their answers."""

from __future__ import annotations

import inspect
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import anyio.from_thread
import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spellbook.library.reader import Reader
from spellbook.mcp.arguments import signature
from spellbook.mcp.tool_names import agent_of, way_on
from spellbook.settings.translate import language_of_tools, translated
from spellbook.system.errors import Conflict, SpellbookError, shown_error
from spellbook.system.threads import computing
from spellbook.text.quoting import flat, json_of, one_line, quoted
from spellbook.verbs.declare import Verb

_TAKES_NOTHING = Verb("", "read", {})
_RUN = os.urandom(16)
"""Names of sessions are made from it and their key, which stays unknown: it admits a client."""
_log = logging.getLogger(__name__)

READ = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADD = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
CHANGE = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
"""Kinds of tools, for the client. Defaults of the protocol are left out, since each word is sent in each list."""

_BETWEEN = 0.1
"""Seconds between reports of progress: a job makes thousands of steps, and each report is a message to the client."""


def as_text(error: SpellbookError, *, is_limited: bool) -> str:
    """Return an error as one line, to the owner in SPELLBOOK_LANG's language; a difference is quoted as a note."""
    error = shown_error(error, is_limited=is_limited)
    parts = [error.message, error.hint]
    if not is_limited:
        parts = [translated(part, language_of_tools()) for part in parts]
    line = one_line(f"{error.code}: {parts[0]} {way_on(parts[1])}".rstrip())
    difference = quoted(error.difference) if isinstance(error, Conflict) else ""
    return "\n".join(filter(None, (line, difference)))


def _qualified(answer: str, book: Reader) -> str:
    """Return an answer that begins with the reason why notes are missing."""
    try:
        fields = json.loads(answer)
    except ValueError:
        return f"DEGRADED: {flat(book.complaint)}\n{answer}"
    return json_of([*map(book.qualified, fields)] if isinstance(fields, list) else book.qualified(fields))


def tool(
    title: str, annotations: ToolAnnotations, verb: Verb = _TAKES_NOTHING, **names: str
) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """
    Declare a function as the tool of its name, over a verb if it takes arguments.

    The function gets the reader, then the verb's arguments by name; `names` are those that the tool calls otherwise.
    """

    def declare(answer: Callable[..., str]) -> Callable[..., str]:
        declared = ToolForm(answer.__name__.rstrip("_"), answer, title, annotations, verb, names)
        TOOLS[declared.name] = declared
        return answer

    return declare


@dataclass(frozen=True, slots=True)
class ToolForm:
    """A tool as it was declared; see `tool`."""

    name: str
    answer: Callable[..., str]
    title: str
    annotations: ToolAnnotations
    verb: Verb
    names: Mapping[str, str]

    def add(self, mcp: MCPServer, book: Reader) -> None:
        """Add the tool over `book` to a server. It runs in a thread; an error reaches the model with code and hint."""

        async def run(**arguments: Any) -> str:
            work = partial(self.answer, book, **arguments)
            bound = computing() if self.annotations is READ else None
            try:
                # Abandoned if the client cancels or disconnects, so that a long job does not keep the server alive.
                answer = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=bound)
                return _qualified(answer, book) if book.complaint else answer
            except SpellbookError as error:
                raise ToolError(as_text(error, is_limited=book.denial is not None)) from error
            except Exception as error:
                _log.exception("%s failed", self.name)
                raise ToolError(
                    f"INTERNAL_ERROR: {type(error).__name__}. See the server's log, and please report it."
                ) from error

        parameters = signature(self.answer, self.verb, self.names)
        run.__name__, run.__signature__ = self.name, parameters  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters.parameters.values()}
        mcp.add_tool(
            run,
            title=self.title,
            description=inspect.getdoc(self.answer),  # without its indentation, which costs tokens
            annotations=self.annotations,
            structured_output=False,  # a structured copy of the answer would cost its tokens twice
        )


TOOLS: dict[str, ToolForm] = {}
"""The tools of the modules of toolsets that are imported, by name."""


def session_of(context: Context[Any, Any] | None) -> str:
    """
    Return a name for the session in which a tool is called: its agent and eight letters; "" where none can be told.

    A server on stdio has one session. Over HTTP the handshake of the older protocol begins one; the newer protocol has
    none, and several clients may use one token.
    """
    asked = context.request_context if context else None
    key = str(id(context.mcp_server)) if context else ""
    if asked and asked.request is not None:
        named = asked.request.headers.get("mcp-session-id") or asked.request.query_params.get("session_id", "")
        key = "" if asked.protocol_version in MODERN_PROTOCOL_VERSIONS else named
    return f"{agent_of(context)} {sha256(_RUN + key.encode()).hexdigest()[:8]}" if key else ""


def is_local(ctx: Context) -> bool:
    """Return whether callers are programs that read this machine's files themselves, and so may name them."""
    return getattr(ctx.mcp_server, "door", "") == "stdio"


def reporter(ctx: Context) -> Callable[[str, int, int], None]:
    """
    Return a function that reports the progress of a tool's job: its stage, how much is done, and of how much.

    It ends the job if the client has cancelled it. The numbers that the client gets only grow, as the protocol wants:
    a stage that counts from the start again is added to those before it.
    """
    before, last, last_stage, sent = 0, -1, "", 0.0

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal before, last, last_stage, sent
        anyio.from_thread.check_cancelled()
        if stage != last_stage and before + done <= last:
            before = last
        now = time.monotonic()
        if before + done > last and (stage != last_stage or now - sent >= _BETWEEN):
            last = before + done
            last_stage = stage
            sent = now
            anyio.from_thread.run(ctx.report_progress, last, before + total, stage)

    return progress


def as_json(**fields: Any) -> str:
    """Return an answer of these fields as JSON text; what is Spellbook's own advice is phrased for who reads it."""
    return json_of({key: way_on(value) if key in {"hint", "message"} else value for key, value in fields.items()})
