"""
The errors that Spellbook raises, and the code of each; a class without one has that of its base.

The message says what is wrong and where; the hint says what to do next. The MCP server turns an error into a
ToolError, the command line into an exit code.
"""

from __future__ import annotations

from typing import ClassVar


class SpellbookError(Exception):
    """The base class of all errors that Spellbook raises on purpose."""

    code: ClassVar[str] = "INTERNAL_ERROR"

    def __init_subclass__(cls, code: str = "") -> None:
        cls.code = code or cls.code

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InvalidInput(SpellbookError, code="INVALID_INPUT"):
    """An argument, filter or setting is not valid."""


class UnreadableNote(InvalidInput):
    """A file cannot be read as a note. `line` counts from 1; None if the line is not known."""

    def __init__(self, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(message, hint)
        self.line = line


class HeldBack(UnreadableNote):
    """The bytes of a file are not on this machine; a scan leaves its note as it is in the index."""


class PathOutsideVault(SpellbookError, code="PATH_OUTSIDE_VAULT"):
    """A path leads out of the vault, or no file system could store it."""


class VaultNotFound(SpellbookError, code="VAULT_NOT_FOUND"):
    """The vault folder does not exist or cannot be read."""


class MemoryNotFound(SpellbookError, code="MEMORY_NOT_FOUND"):
    """No note, chunk or topic has that id."""


class Conflict(SpellbookError, code="CONFLICT"):
    """The file has changed since the caller read it; nothing was written. `difference` shows the change, if known."""

    def __init__(self, message: str, hint: str = "", difference: str = "") -> None:
        super().__init__(message, hint)
        self.difference = difference

    def __str__(self) -> str:
        return "\n".join(filter(None, (super().__str__(), self.difference)))


class RestRequired(SpellbookError, code="REST_REQUIRED"):
    """A tool that writes was called without a REST session."""


class RestInvalid(SpellbookError, code="REST_INVALID"):
    """This vault has no session of that id."""


class RestExpired(SpellbookError, code="REST_EXPIRED"):
    """The session is older than an hour, or was ended."""


class StorageError(SpellbookError, code="STORAGE_ERROR"):
    """The disk or the catalog failed."""


class SearchError(StorageError, code="SEARCH_ERROR"):
    """The full-text index cannot answer, because it is damaged or incomplete."""


class PermissionDenied(SpellbookError, code="PERMISSION_DENIED"):
    """A file or an address that may not be read: not public, hidden, or of another kind."""


class FetchError(SpellbookError, code="FETCH_ERROR"):
    """A page could not be fetched, or has no article. `status` is that of HTTP, None without an answer."""

    def __init__(self, message: str, hint: str = "", status: int | None = None) -> None:
        super().__init__(message, hint)
        self.status = status


class EmbeddingError(SpellbookError, code="EMBEDDING_ERROR"):
    """The embedder or the reranker is missing, or it failed."""


class AuthenticationError(EmbeddingError, code="AUTHENTICATION_ERROR"):
    """A service refused the key, or needs one."""


class RateLimited(EmbeddingError, code="RATE_LIMIT_EXCEEDED"):
    """A service received too many requests and asks for a pause."""


class Updated(SpellbookError):
    """The package's files are no longer those that a server runs."""


_OF_CALLERS = (InvalidInput, MemoryNotFound, PermissionDenied)
"""Errors about what was asked for; the others may name a folder or a service of the machine."""


def shown_error(error: SpellbookError, *, is_limited: bool) -> SpellbookError:
    """Return an error as its caller may know it: one that sees a part of the notes learns nothing of the machine."""
    if not is_limited or isinstance(error, _OF_CALLERS):
        return error
    return type(error)("The notes cannot be read now.", "Try again later.")
