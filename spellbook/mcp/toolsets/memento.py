"""
The memento toolset: recall memories, pin and forget them; and memories as resources. `core` has `remember`.

See `memories.memories`.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.prompts.base import Message
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, TextContent

from spellbook.editing.revise import LEFT
from spellbook.index.catalog.usage import local
from spellbook.library.reader import Reader
from spellbook.mcp import consent, searches
from spellbook.mcp.base import CHANGE, READ, as_json, tool
from spellbook.mcp.layouts import remembered, render
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.verbs import memories

_JSON = "application/json"
_CACHE_SECONDS = 300.0
_LEAST_BUDGET = 100
_MOST_BUDGET = 20_000
"""Tokens of the prompt."""

_CONTEXTS = ("general", "task", "conversation")


@tool("Recall", READ, memories.RECALL)
def recall(book: Reader, format: str, explain: bool, **question: Any) -> str:
    """
    Find memories by a question, one entry a note: what agents remembered, and what the person wrote.

    It takes type, tags, project and time as filters.
    """
    answer = book.memories.recall(explain=explain, **question)
    if format == "text":
        return render.answer(answer, takes_also=True, explain=explain)
    items = remembered.items(book, answer, explain=explain)
    return as_json(items=items, total_count=answer.found, query_time=answer.ms)


@tool("Pin a memory", CHANGE, memories.PIN)
def pin(book: Reader, memory_id: str) -> str:
    """Pin a memory: it ranks a little higher and never fades."""
    return as_json(**book.memories.pin(memory_id))


@tool("Unpin a memory", CHANGE, memories.PIN)
def unpin(book: Reader, memory_id: str) -> str:
    """Take a pin off a memory: it ranks and fades as others do."""
    return as_json(**book.memories.pin(memory_id, on=False))


@tool("Forget a memory", CHANGE, memories.FORGET)
def forget(book: Reader, memory_id: str, hard: bool, *, sure: consent.Forgetting) -> str:
    """
    Forget a whole memory: it goes to the vault's .trash folder. undo() brings the last one back. restore(name) does
    so by its name.

    Notes that the person wrote are not forgotten by this. erase(id) takes them.
    """
    memory = book.memories.forgettable(memory_id)
    if not consent.agreed(sure):
        return as_json(success=False, memory_id=memory.note, message=consent.DECLINED)
    path = book.memories.forget(memory.note, hard=hard)
    deleted_at = dt.datetime.now().astimezone().isoformat(timespec="seconds")
    trash = {"trash": path} if path else {"hint": LEFT}
    return as_json(success=True, memory_id=memory.note, deleted_at=deleted_at, **trash)


def add_resources(mcp: MCPServer, book: Reader) -> None:
    """Add memories as resources, and the prompt that injects them, to a server over `book`."""

    def search(query: str = "", filters: str = "", limit: int = 8) -> str:
        """Memories for a question, as recall finds them; without one the newest."""
        book.refresh()
        key = (query, filters, limit, book.index.scope, book.index.catalog.generation)
        now = time.time()
        until, text = book.searches.get(key, (0.0, ""))
        book.meter.cached("searches", until > now)
        if until > now:
            return text
        try:
            text = json.dumps(_search(book, query, filters, limit, now), ensure_ascii=False)
        except InvalidInput as error:
            raise MCPError(INVALID_PARAMS, f"{error.code}: {error}") from error
        searches.put(book, key, now + _CACHE_SECONDS, text)
        return text

    def memory(id: str) -> str:
        """One memory, by its id or its path, or by the id of a chunk of it; reading counts as opening."""
        try:
            return json.dumps(remembered.memory(book, id), ensure_ascii=False)
        except MemoryNotFound as error:
            raise ResourceNotFoundError(str(error)) from error

    mcp.resource("memory://search{?query,filters,limit}", title="Search memories", mime_type=_JSON)(search)
    mcp.resource("memory://{+id}", title="A memory", mime_type=_JSON)(memory)
    _add_prompt(mcp, book)


def _search(book: Reader, query: str, filters: str, limit: int, now: float) -> dict[str, Any]:
    try:
        filter = json.loads(filters) if filters.strip() else None
    except ValueError as error:
        raise InvalidInput("filters must be JSON.", "Percent-encode it in the address.") from error
    if not 1 <= limit <= 100:
        raise InvalidInput(f"limit={limit} is out of range.", "Ask for 1 to 100 memories.")
    if query:
        answer = book.memories.recall(query, filter, limit)
        results, total, ms = remembered.items(book, answer), answer.found, answer.ms
    else:
        begin = time.monotonic()
        listed = book.memories.newest(limit, filter)
        results = [
            {"id": each.note, "chunk_id": each.id, "content": each.text, **remembered.about(each)}
            for each in listed.notes
        ]
        total, ms = listed.total, round(1_000 * (time.monotonic() - begin), 1)
    stamps = {"cached_at": local(now), "expires_at": local(now + _CACHE_SECONDS)}
    return {"query": query, "results": results, "total_count": total, "query_time": ms, **stamps}


def _add_prompt(mcp: MCPServer, book: Reader) -> None:
    def memory_injection(
        query: str = "", token_budget: str = "1200", context_type: str = "general", also: str = ""
    ) -> Any:
        """Memories that are related to a question, and to guesses `also` (a line each), within a token budget."""
        wrong = ""
        if not query.strip():
            wrong = "memory_injection needs a query: say what the task or the conversation is about"
        elif not token_budget.strip().isdecimal() or not _LEAST_BUDGET <= int(token_budget) <= _MOST_BUDGET:
            wrong = f"token_budget is a number from {_LEAST_BUDGET} to {_MOST_BUDGET:,}, not {token_budget!r:.40}"
        elif context_type not in _CONTEXTS:
            wrong = f"context_type is general, task or conversation, not {context_type!r:.40}"
        if wrong:
            raise MCPError(INVALID_PARAMS, f"{InvalidInput.code}: {wrong}.")
        try:
            text, meta = remembered.injection(book, query, int(token_budget), context_type, also.splitlines())
        except InvalidInput as error:
            raise MCPError(INVALID_PARAMS, f"{error.code}: {error}") from error
        return Message(TextContent(type="text", text=text, _meta=meta), role="user")

    mcp.prompt(name="memory_injection", title="Memories for a question")(memory_injection)
