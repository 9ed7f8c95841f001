"""
Answer requests over stdin that the SDK cannot parse with an error, instead of ignoring them.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_PARAMS, INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest
from pydantic import ValidationError

from spellbook.errors import InvalidInput
from spellbook.text import unicode


async def serve(server: Server[Any]) -> None:
    """Serve on stdin and stdout until the client closes them."""
    async with stdio_server() as (read, write):
        await server.run(_Answering(read, write), write, server.create_initialization_options())


class _Answering:
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
            found = _request(item) if isinstance(item, ValidationError) else None
            if isinstance(found, JSONRPCError):
                await self._write.send(SessionMessage(found))
            else:
                return SessionMessage(found) if found else item

    async def aclose(self) -> None:
        await self._read.aclose()

    def __aiter__(self) -> _Answering:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Answering:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _request(error: ValidationError) -> JSONRPCRequest | JSONRPCError | None:
    """
    Return a line that the SDK refused as a request, whose arguments the tool refuses by name, or as an error.

    None for what nobody waits for an answer to, or whose sender cannot be told apart.
    """
    try:
        sent = json.loads(error.errors()[0]["input"])
    except (ValueError, TypeError, RecursionError):
        return None
    if (
        not isinstance(sent, dict)
        or type(id := sent.get("id")) not in (int, str)
        or not isinstance(sent.get("method"), str)
    ):
        return None
    params = sent.get("params")
    arguments = params.pop("arguments", None) if isinstance(params, dict) else None
    try:
        unicode.check({**sent, "jsonrpc": "2.0"})
    except InvalidInput as refusal:
        whole = id if not isinstance(id, str) or unicode.is_whole(id) else None
        return _refused(whole, INVALID_PARAMS, str(refusal))
    if (
        sent["method"] == "tools/call"
        and isinstance(params, dict)
        and isinstance(arguments, dict)
        and all(map(unicode.is_whole, arguments))
    ):
        return JSONRPCRequest.model_construct(
            jsonrpc="2.0", id=id, method="tools/call", params={**params, "arguments": arguments}
        )
    try:
        unicode.check(arguments, "params.arguments")
    except InvalidInput as refusal:
        return _refused(id, INVALID_PARAMS, str(refusal))
    return _refused(id, INVALID_REQUEST, "This is no request of the protocol: see its jsonrpc, id, method and params.")


def _refused(id: int | str | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message))
