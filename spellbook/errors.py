"""
Every error that Spellbook raises on purpose, worded for the person who can fix it.

    SpellbookError
    ├── InvalidInput        INVALID_INPUT         an argument, filter or setting that makes no sense
    │   └── UnreadableNote  INVALID_INPUT         bytes that are no Markdown note (encoding, binary, size)
    ├── PathOutsideVault    PATH_OUTSIDE_VAULT    a path that would leave the vault
    ├── VaultNotFound       VAULT_NOT_FOUND       no such folder, or not readable
    ├── MemoryNotFound      MEMORY_NOT_FOUND      no note, chunk or topic of that name
    ├── Conflict            CONFLICT              the file changed underneath; nothing was written
    ├── RestRequired        REST_REQUIRED         a write without a REST session
    ├── RestInvalid         REST_INVALID          a session id that nobody gave out
    ├── RestExpired         REST_EXPIRED          a session past its hour, or ended
    ├── StorageError        STORAGE_ERROR         the disk or the catalog
    └── EmbeddingError      EMBEDDING_ERROR       the embedder or the reranker
        ├── AuthenticationError  AUTHENTICATION_ERROR  a service refuses the key
        └── RateLimited          RATE_LIMIT_EXCEEDED   a service wants to be asked less often

A message says what and where, the hint what to do next. Doors translate
once: MCP to ToolError, the command line to an exit code.
"""

from __future__ import annotations

from typing import ClassVar


class SpellbookError(Exception):
    """Base of everything Spellbook raises on purpose."""

    code: ClassVar[str] = "INTERNAL_ERROR"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InvalidInput(SpellbookError):
    """An argument, filter or setting that makes no sense."""

    code = "INVALID_INPUT"


class UnreadableNote(InvalidInput):
    """Bytes that cannot be read as a note; `line` is 1-based where one is known."""

    def __init__(self, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(message, hint)
        self.line = line


class PathOutsideVault(SpellbookError):
    """A path that would leave the vault, or that no system could store."""

    code = "PATH_OUTSIDE_VAULT"


class VaultNotFound(SpellbookError):
    """No vault folder there, or it cannot be read."""

    code = "VAULT_NOT_FOUND"


class MemoryNotFound(SpellbookError):
    """No note, chunk or topic has that id."""

    code = "MEMORY_NOT_FOUND"


class Conflict(SpellbookError):
    """The file is not what the caller last saw; nothing was written. `difference` shows what changed, where that is known."""

    code = "CONFLICT"

    def __init__(self, message: str, hint: str = "", difference: str = "") -> None:
        super().__init__(message, hint)
        self.difference = difference

    def __str__(self) -> str:
        return "\n".join(filter(None, (super().__str__(), self.difference)))


class RestRequired(SpellbookError):
    """A write came without a REST session."""

    code = "REST_REQUIRED"


class RestInvalid(SpellbookError):
    """The session id was never given out for this vault."""

    code = "REST_INVALID"


class RestExpired(SpellbookError):
    """The session is past its hour, or was ended."""

    code = "REST_EXPIRED"


class StorageError(SpellbookError):
    """The disk or the catalog failed."""

    code = "STORAGE_ERROR"


class EmbeddingError(SpellbookError):
    """The embedder or the reranker is missing or failed."""

    code = "EMBEDDING_ERROR"


class AuthenticationError(EmbeddingError):
    """A service refuses the key, or misses one."""

    code = "AUTHENTICATION_ERROR"


class RateLimited(EmbeddingError):
    """A service wants to be asked less often."""

    code = "RATE_LIMIT_EXCEEDED"
