"""
The MCP server: it offers a Spellbook's verbs as tools, in toolsets of one module each.

A toolset's module is imported only if the toolset is asked for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.to_thread
from anyio.abc import ObjectReceiveStream
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.runner import ServerRunner, serve_dual_era_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    ErrorData,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCRequest,
    Tool,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from spellbook import __version__
from spellbook.editing.memory import AGENT
from spellbook.index.metrics import CALLS
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.mcp import first_answer, instructions
from spellbook.mcp.arguments import lean
from spellbook.mcp.debug_log import Write
from spellbook.mcp.tool import TOOLS, as_text, session_of
from spellbook.mcp.tool_names import DEFAULT, Names, actor_of, toolsets_of, way_on
from spellbook.settings.config import Config
from spellbook.system import children, disk
from spellbook.system.errors import InvalidInput, PermissionDenied, SpellbookError
from spellbook.system.lazy import regex
from spellbook.text import unicode
from spellbook.text.json_values import mapping_of, parsed
from spellbook.text.quoting import one_line
from spellbook.vault.journal import CALLER
from spellbook.verbs import aliases
from spellbook.watch.background import Background

_CODE = regex(r"\b[A-Z]+(?:_[A-Z]+)+\b")
MOST_CLIENTS = 50
_MOST_NAME = 64
"""Most letters of a tool's name."""

_MODULES = {"spellbook": "desk", "backup": "desk", "zyflow": "wiki"}
"""The module that has the tools of a toolset, unless it is called as the toolset; `core` has the others."""

_LISTS: tuple[CacheableMethod, ...] = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_CHANGING = NotificationOptions(tools_changed=True)
_FRESH = CacheHint(ttl_ms=3_600_000)
"""How long a client may keep these lists, which never change in a process."""


def build(
    book: Reader,
    toolsets: Sequence[str] = (DEFAULT,),
    *,
    live: bool = True,
    door: str = "stdio",
    called: threading.Event | None = None,
    may_write: bool = True,
    log: Write | None = None,
    clients: dict[str, float] | None = None,
) -> SpellbookServer:
    """
    Return an MCP server over `book` with `toolsets`.

    A `live` server watches the vault, and loads the model in the background after the first call. `door` is how it is
    reached, for counting errors; `called` is set by the first call. One that may not write has reading tools alone.
    `log` is told of each call; `clients` gets when each client called last, in seconds since 1970.
    Raises InvalidInput for an unknown toolset.
    """
    toolsets = toolsets_of(",".join(toolsets))

    @contextlib.asynccontextmanager
    async def lifespan(_: MCPServer) -> AsyncIterator[dict[str, Any]]:
        background = Background(book, mcp.called) if live and isinstance(book, Spellbook) else None
        try:
            yield {}
        finally:
            if background:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(background.stop)

    mcp = SpellbookServer(
        "spellbook",
        title="Spellbook",
        version=__version__,
        instructions=instructions.instructions(toolsets, may_write=may_write),
        lifespan=lifespan,
        log_level="WARNING",
        cache_hints=dict.fromkeys(_LISTS, _FRESH),
    )
    mcp.names = Names(toolsets)
    mcp.book = book
    mcp.door = door
    mcp.may_write = may_write
    mcp.log = log
    mcp.called = called or threading.Event()
    mcp.clients = {} if clients is None else clients
    for name in dict.fromkeys(_MODULES.get(each, each) for each in (DEFAULT, "spellbook", *toolsets)):
        if add_resources := getattr(import_module(f"spellbook.mcp.toolsets.{name}"), "add_resources", None):
            add_resources(mcp, book)
    for name in sorted(mcp.names.answered):
        form = TOOLS[name]
        if name == "remember" and "memento" in toolsets:  # whose document says so
            form = replace(form, verb=form.verb.defaulting(type="episodic"))
        form.add(mcp, book)
    return mcp


class SpellbookServer(MCPServer):
    """
    An MCPServer that signals its first call, counts calls and errors, and gives invalid arguments their code.

    `build` says what each attribute is.
    """

    names: Names
    book: Reader
    door: str
    called: threading.Event
    may_write: bool
    log: Write | None
    clients: dict[str, float]

    async def list_tools(self) -> list[Tool]:
        """Return the tools with lean schemas: what a server says of itself is read at every start of a session."""
        tools = {tool.name: tool for tool in await super().list_tools() if self.may_write or _only_reads(tool)}
        self.names.answer()
        listed = {name: tools[called] for name in self.names.listed if (called := self.names.called(name)) in tools}
        for name, tool in listed.items():
            about = {"input_schema": lean(tool.input_schema), "description": way_on(tool.description or "")}
            listed[name] = tool.model_copy(update={"name": name, **about})
        return [*listed.values()]

    def writes(self, name: str) -> bool:
        """Say whether a tool of this name may change notes."""
        tool = self._tool_manager.get_tool(self.names.called(name))
        return tool is not None and not _only_reads(tool)

    async def serve(self, wire: first_answer.Wire) -> None:
        """Answer the lines of a client until it leaves."""
        server = self._lowlevel_server
        file = anyio.wrap_file(cast("Any", wire))
        if wire.file:
            wire.take_over(await self.first_answers())
        async with stdio_server(file, file) as (read, write), write, server.lifespan(server) as state:
            messages = _Answering(read, write)
            while messages.is_open:
                options = server.create_initialization_options(_CHANGING)
                await serve_dual_era_loop(server, messages, write.clone(), lifespan_state=state, init_options=options)

    async def first_answers(self) -> first_answer.Answers:
        """Return what this server answers to the requests that list; see `first_answer.Answers`."""
        server, prefix = self._lowlevel_server, first_answer.PREFIX
        options = server.create_initialization_options(_CHANGING)
        nobody: Any = SimpleNamespace(message_metadata=None, request_id=None)
        answers: first_answer.Answers = {}
        for version in (first_answer.OTHER, *HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS):
            is_modern = version in MODERN_PROTOCOL_VERSIONS
            connection = Connection.from_envelope(version, None, {}) if is_modern else Connection.for_loop(nobody)
            runner = ServerRunner(server, connection, {}, init_options=options)
            meta = {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
            client = {"capabilities": {}, "clientInfo": {"name": "", "version": ""}}
            rows = answers[prefix * is_modern + version] = {}
            for method in first_answer.MODERN if is_modern else first_answer.HANDSHAKE:
                params = {"_meta": meta, "protocolVersion": version, **client}
                rows[method] = await runner.on_request(nobody, method, params)
        return answers

    async def _find(self, refusal: Callable[[str], Exception]) -> None:
        """Open a vault that is awaited. Raise a refusal with the reason if it cannot be opened."""
        if not isinstance(self.book, Reader):
            try:
                await anyio.to_thread.run_sync(getattr, self.book, "meter")
            except SpellbookError as error:
                raise refusal(as_text(error, is_limited=False)) from error

    async def read_resource(self, uri: Any, context: Context[Any, Any] | None = None) -> Any:
        await self._find(partial(MCPError, INVALID_PARAMS))
        return await super().read_resource(uri, context)

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Return a prompt; what its message says of itself in `_meta` is said of the whole."""
        await self._find(partial(MCPError, INVALID_PARAMS))
        prompt = await super().get_prompt(name, arguments, context)
        about = prompt.messages[0].content.meta if isinstance(prompt, GetPromptResult) and prompt.messages else None
        return prompt.model_copy(update={"meta": about}) if about else prompt

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        if self.log is None:
            return await self._call(name, arguments, context)
        started = time.perf_counter()
        text = ""
        code = ""
        try:
            answer = await self._call(name, arguments, context)
            text = "".join(getattr(part, "text", "") for part in getattr(answer, "content", answer) or ())
            return answer
        except Exception as error:
            named = _CODE.search(text := str(error))
            code = named[0] if named else type(error).__name__
            raise
        finally:
            ms = 1_000 * (time.perf_counter() - started)
            tool = self._tool_manager.get_tool(self.names.called(name))
            await anyio.to_thread.run_sync(self.log, tool.name if tool else "", ms, text, code)

    async def _call(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None) -> Any:
        self.called.set()
        if context and (client := context.session.client_params):
            named = one_line(f"{client.client_info.name} {client.client_info.version}"[:_MOST_NAME])
            self.clients.pop(named, None)  # the latest is the last
            self.clients[named] = time.time()
            if len(self.clients) > MOST_CLIENTS:
                del self.clients[next(iter(self.clients))]
        name = self.names.called(name)
        self.names.answer()
        AGENT.set(actor_of(context))
        CALLER.set(session_of(context))
        await self._find(ToolError)
        if self.book.meter.add(CALLS):
            await anyio.to_thread.run_sync(self.book.meter.flush)
        try:
            self.names.check(name)
            unicode.check(arguments)
            if tool := self._tool_manager.get_tool(name):
                if not self.may_write and not _only_reads(tool):
                    raise PermissionDenied(f"This token may only read, and {name} is not for reading.")
                arguments = aliases.own(arguments, tool.parameters["properties"].keys(), name)
        except SpellbookError as error:
            await self._count_failure(name, error)
            raise ToolError(as_text(error, is_limited=self.book.denial is not None)) from error
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                await self._count_failure(name, error)
                # The SDK puts the tool's name before each error; whoever called the tool knows it.
                raise ToolError(str(error).removeprefix(f"Error executing tool {name}: ")) from error.__cause__
            faults = error.__cause__.errors(include_url=False)
            wrong = [one_line(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") for fault in faults]
            kinds = ", ".join(sorted({fault["type"] for fault in faults}))
            await self._count_failure(name, error, code=InvalidInput.code, message=f"arguments: {kinds}")
            raise ToolError(f"INVALID_INPUT: {'; '.join(wrong)}.") from error.__cause__

    async def _count_failure(self, name: str, error: BaseException | None, **known: str) -> None:
        """Count what a tool failed with; a tool that is not there has no cause. Whoever calls may give any name."""
        while isinstance(error, ToolError):
            error = error.__cause__
        if error is not None:
            verb = name if name.isidentifier() and len(name) <= _MOST_NAME else ""
            await anyio.to_thread.run_sync(partial(self.book.meter.failed, verb, self.door, error, **known))


class AwaitedBook:
    """A vault that could not be opened: the first use that can opens it. Until then each raises why it cannot."""

    def __init__(self, opens: Callable[[], Spellbook]) -> None:
        self._open = opens

    @cached_property
    def _book(self) -> Spellbook:
        return self._open()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._book, name)


def _only_reads(tool: Any) -> bool:
    return bool(tool.annotations and tool.annotations.read_only_hint)


class _Answering(ObjectReceiveStream[SessionMessage | Exception]):
    """
    The messages of `read`. A request that the SDK cannot parse is answered with an error on `write`, not ignored.

    The SDK serves one era of the protocol, that of the first request. A client may only try `server/discover`, and then
    begin with `initialize`: there these messages end, and begin again with it.
    """

    def __init__(self, read: Any, write: Any) -> None:
        self.is_open = True
        self._read = read
        self._write = write
        self._is_trying: bool | None = None
        self._next: SessionMessage | None = None

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent."""
        return self._read.last_context

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = self._next or await self._read.receive()
            self._next = None
            message = _request(item) if isinstance(item, ValidationError) else None
            if isinstance(message, JSONRPCError):
                await self._write.send(SessionMessage(message))
                continue
            item = SessionMessage(message) if message else item
            if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
                if self._is_trying and item.message.method == "initialize":
                    self._is_trying, self._next = False, item
                    raise anyio.EndOfStream
                self._is_trying = self._is_trying is not False and item.message.method == "server/discover"
            return item

    async def aclose(self) -> None:
        self.is_open = self._next is not None
        if not self.is_open:
            await self._read.aclose()


def _request(refused: ValidationError) -> JSONRPCRequest | JSONRPCError | None:
    """
    Return a line that the SDK refused as a request, whose arguments the tool refuses by name, or as an error.

    None for what nobody waits for an answer to, or whose sender cannot be told apart.
    """
    sent = mapping_of(parsed(refused.errors()[0]["input"]))
    id, method = map(sent.get, ("id", "method"))
    if type(id) not in (int, str) or not isinstance(method, str):
        return None
    params: Any = sent.get("params")
    arguments = params.pop("arguments", None) if isinstance(params, dict) else None
    try:
        unicode.check({**sent, "jsonrpc": "2.0"})
        if method == "tools/call" and isinstance(arguments, dict) and all(map(unicode.is_whole, arguments)):
            params["arguments"] = arguments
            return JSONRPCRequest.model_construct(jsonrpc="2.0", id=id, method=method, params=params)
        unicode.check(arguments, "params.arguments")
        error = ErrorData(
            code=INVALID_REQUEST,
            message="This is not a request of the protocol: see its jsonrpc, id, method and params.",
        )
    except InvalidInput as refusal:
        error = ErrorData(code=INVALID_PARAMS, message=str(refusal))
    return JSONRPCError(jsonrpc="2.0", id=id if unicode.is_whole(str(id)) else None, error=error)


def keep_first_answers(toolsets: tuple[str, ...], settings: Config) -> None:
    """Keep the first answers of a server with these toolsets and settings, so that its first start is quick, too."""
    server = build(cast("Reader", None), toolsets, live=False)  # nothing is called
    disk.restrict(settings.state, settings.vault)
    first_answer.write(first_answer.place(toolsets, settings), anyio.run(server.first_answers))


def run_stdio(mcp: SpellbookServer, wire: first_answer.Wire) -> None:
    """Serve on stdin and stdout until the client closes them, or until SIGINT or SIGTERM; then end within 2 s."""
    try:
        anyio.run(mcp.serve, wire)
    except BaseException as error:
        wire.close()
        raise first(error) from None
    children.leave_threads()


def first(error: BaseException) -> BaseException:
    """Return the first error out of the exception groups that tasks raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
