"""Errors as HTTP answers: a status and one JSON object, never a stack trace."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.system import package_files
from spellbook.system.errors import Conflict, EmbeddingError, InvalidInput, SpellbookError, Updated, shown_error
from spellbook.text.quoting import json_of, one_line

STATUS = {
    "INVALID_INPUT": 400,
    "PATH_OUTSIDE_VAULT": 400,
    "AUTHENTICATION_ERROR": 401,
    "PERMISSION_DENIED": 403,
    "MEMORY_NOT_FOUND": 404,
    "VAULT_NOT_FOUND": 404,
    "CONFLICT": 409,
    "REST_REQUIRED": 409,
    "REST_INVALID": 409,
    "REST_EXPIRED": 409,
    "RATE_LIMIT_EXCEEDED": 429,
    "FETCH_ERROR": 502,
    "EMBEDDING_ERROR": 503,
}
"""The status of each code; all others are 500."""

MOST_PATH = 200
MOST_FIELDS = 20
"""Fields with a fault that an answer names."""

_log = logging.getLogger(__name__)


class InvalidFields(InvalidInput):
    """
    Fields of a request that are not valid: the fault of each, by name; `kinds` has them without any value, for counts.
    """

    def __init__(self, fields: Mapping[str, str], kinds: str = "") -> None:
        message = "; ".join(f"{name}: {wrong}" for name, wrong in fields.items())
        super().__init__(f"{message}.", "The fields of each endpoint are in /api/openapi.json.")
        self.fields = fields
        self.kinds = f"fields: {kinds or 'repeated'}"


def fault(
    status: int, code: str, message: str, details: Mapping[str, Any] = {}, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as every door of HTTP gives it. `details` may have hint, difference, fields."""
    error = {
        "code": code,
        "message": message,
        "details": {key: value for key, value in details.items() if value},
        "timestamp": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    return Response(json_of({"error": error}), status, headers, "application/json")


def of_error(request: Request, error: Exception) -> Response:
    """Return an error by its code, also one that nobody foresaw, or of a request that did not arrive whole."""
    if isinstance(error, ClientDisconnect):  # its client is gone, or the guard answers instead
        return fault(400, "INVALID_INPUT", "The request did not arrive whole.")
    error = shown(request, error)
    details = {
        "hint": error.hint,
        "difference": error.difference if isinstance(error, Conflict) else "",
        "fields": error.fields if isinstance(error, InvalidFields) else {},
    }
    return fault(status_of(error), error.code, error.message, details)


def shown(request: Request, error: Exception) -> SpellbookError:
    """Return an error as the caller of a request may know it."""
    if not isinstance(error, SpellbookError):
        error = unforeseen(error, f"{request.method} {request.url.path}")
    return shown_error(error, is_limited=request.scope["spellbook.caller"].is_limited)


def status_of(error: SpellbookError) -> int:
    """Return the status of an answer that is this error."""
    return 503 if isinstance(error, EmbeddingError | Updated) else STATUS.get(error.code, 500)


def of_http(request: Request, error: Exception) -> Response:
    """Return an error that Starlette raises: no such route, no such method."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 404:
        message = f"This server has no address {one_line(request.url.path[:MOST_PATH])}."
        hint = "The addresses of the API are in /api/openapi.json, and MCP is at /mcp."
        return fault(404, "MEMORY_NOT_FOUND", message, {"hint": hint}, headers)
    if error.status_code == 405:  # the router knows the methods of the first route of several
        path = request.url.path
        there = [each for each in request.app.routes if isinstance(each, Route) and each.path_regex.match(path)]
        headers["Allow"] = ", ".join(sorted(set().union(*(each.methods or () for each in there))))
    return fault(error.status_code, "INVALID_INPUT", error.detail, {}, headers)


def unforeseen(error: Exception, doing: str) -> SpellbookError:
    """Return an error that nobody foresaw, by its class alone; the log has the rest, unless the code was updated."""
    if package_files.are_replaced():
        updated = Updated("Spellbook was updated while this server was running.", "Start the server again.")
        _log.warning("%s failed with %s. %s", doing, type(error).__name__, updated)
        return updated
    _log.error("%s failed", doing, exc_info=error)
    return SpellbookError(f"Spellbook failed with {type(error).__name__}.")
