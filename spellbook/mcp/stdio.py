"""Answer requests over stdin that the SDK cannot parse with an error, instead of ignoring them."""

from __future__ import annotations

import json
from typing import Any

from anyio.abc import ObjectReceiveStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_PARAMS, INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest
from pydantic import ValidationError

from spellbook.system.errors import InvalidInput
from spellbook.text import unicode


async def serve(server: Server[Any]) -> None:
    """Serve on stdin and stdout until the client closes them."""
    async with stdio_server() as (read, write):
        await server.run(_Answering(read, write), write, server.create_initialization_options())


class _Answering(ObjectReceiveStream[SessionMessage | Exception]):
    """The messages of `read`; an invalid request is answered with an error on `write`."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._write = write

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent."""
        return self._read.last_context

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._read.receive()
            message = _request(item) if isinstance(item, ValidationError) else None
            if isinstance(message, JSONRPCError):
                await self._write.send(SessionMessage(message))
            else:
                return SessionMessage(message) if message else item

    async def aclose(self) -> None:
        await self._read.aclose()


def _request(error: ValidationError) -> JSONRPCRequest | JSONRPCError | None:
    """
    Return a line that the SDK refused as a request, whose arguments the tool refuses by name, or as an error.

    None for what nobody waits for an answer to, or whose sender cannot be told apart.
    """
    try:
        sent = json.loads(error.errors()[0]["input"])
    except (ValueError, TypeError, RecursionError):
        return None
    id, method = (sent.get("id"), sent.get("method")) if isinstance(sent, dict) else (None, None)
    if type(id) not in (int, str) or not isinstance(method, str):
        return None
    params = sent.get("params")
    arguments = params.pop("arguments", None) if isinstance(params, dict) else None
    try:
        unicode.check({**sent, "jsonrpc": "2.0"})
    except InvalidInput as refusal:
        whole = id if not isinstance(id, str) or unicode.is_whole(id) else None
        return _error(whole, INVALID_PARAMS, str(refusal))
    if method == "tools/call" and isinstance(arguments, dict) and all(map(unicode.is_whole, arguments)):
        params["arguments"] = arguments
        return JSONRPCRequest.model_construct(jsonrpc="2.0", id=id, method=method, params=params)
    try:
        unicode.check(arguments, "params.arguments")
    except InvalidInput as refusal:
        return _error(id, INVALID_PARAMS, str(refusal))
    return _error(id, INVALID_REQUEST, "This is not a request of the protocol: see its jsonrpc, id, method and params.")


def _error(id: int | str | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message))
