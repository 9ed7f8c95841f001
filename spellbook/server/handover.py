"""
Writes on a server over published vaults: they are handed to the machine that has the vault's files.

The operator names the machines; an address is never read from the database, where whoever writes could collect tokens.
A caller needs the right to write, and the vault among those that it sees here: this is asked before, as for any write.
The answer is that machine's own, with ids as they are here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from spellbook.settings.config import is_local
from spellbook.system import errors
from spellbook.system.errors import Conflict, FetchError, InvalidInput, PermissionDenied, SpellbookError
from spellbook.system.lazy import httpx
from spellbook.text.quoting import exact, json_of, one_line

if TYPE_CHECKING:
    import httpx

    from spellbook.library.published import PublishedReader

TOKEN = "SPELLBOOK_WRITES_TOKEN"
HANDED = "x-spellbook-handed"
"""A header of writes that were handed over: the machine that gets them does not hand them on."""

HEADER = "x-spellbook-vault"
"""Names the vault of a request of the API, where several could be meant."""

KEPT = frozenset({"rebuild_index", "snapshot", "snapshots", "log", "export", "import", "wiki_index"})
"""Tools that are about a machine and its files, not about notes; they are not handed over."""

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 60.0
"""Saving an article fetches a page first, which may take 20 s."""

VISIBLE_SECONDS = 3.0
"""Seconds that an answer waits until this server finds the written note: publishers look every second."""

_LOOK_SECONDS = 0.05
"""Between two looks whether it is found."""

_PROTOCOL = "2026-07-28"
"""The version of MCP that tools are handed over in."""

_ID = frozenset(
    {"id", "chunk_id", "memory_id", "article_id", "note", "path", "old", "new", "a", "b", "name", "supersedes"}
)
"""Arguments that hold an id or a path, or several. Topics of several vaults are one, so they have none before them."""

_LISTS = frozenset({"paths", "chunk_ids", "trash", "moved", "supersedes"})
"""Fields of answers that hold lists of ids or paths."""

_FIELDS = frozenset({"gone"}) | _LISTS | _ID - {"name", "a", "b"}
"""Fields of answers that hold an id or a path, or several."""

_GENERATION = re.compile(r"\bgeneration (\d+)")
_ERRORS: dict[str, type[SpellbookError]] = {
    error.code: error
    for error in (
        errors.StorageError,
        errors.SearchError,
        errors.PathOutsideVault,
        errors.VaultNotFound,
        errors.MemoryNotFound,
        errors.RestRequired,
        errors.RestInvalid,
        errors.RestExpired,
        Conflict,
        FetchError,
        InvalidInput,
    )
}
"""Errors of the vault's machine that are the caller's here too, by code; all others are a FetchError."""

_LOOK = "Search for it, or look at the log there, before you write it again."
_EXAMPLE = "For example --writes-to notes=https://notes.example.org:17950."

arguments: ContextVar[Mapping[str, Any]] = ContextVar("arguments")
"""The arguments of a tool, as the client sent them."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The vault that a write goes to, and `head`, which begins its ids on this server: "NAME/", or "" for one vault."""

    vault: str
    head: str

    @property
    def shown(self) -> str:
        """The vault's name in a message."""
        return repr(self.vault[:100])

    def inside(self, value: Any) -> Any:
        """Return an id or a path, or a list of them, as the vault's own machine knows it."""
        if isinstance(value, list):
            return [self.inside(item) for item in value]
        return value.removeprefix(self.head) if isinstance(value, str) else value

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with the ids of the vault's machine."""
        return {name: self.inside(value) if name in _ID else value for name, value in values.items()}

    def outside(self, value: Any, key: str = "") -> Any:
        """Return an answer of the vault's machine, or its field `key`, with ids as they are here."""
        if isinstance(value, str):
            return f"{self.head}{value}" if value and key in _FIELDS else value
        if isinstance(value, Mapping):
            return {name: self.outside(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self.outside(item, key if key in _LISTS else "") for item in value]
        return value

    def text(self, answer: str, ids: Iterable[str]) -> str:
        """Return an answer in words. The `ids` that were sent get their head; a first line explains the other ids."""
        if not self.head:
            return answer
        lines = answer.splitlines()
        for id in filter(None, dict.fromkeys(ids)):
            word = re.compile(rf"(?<![\w/.#-]){re.escape(exact(id))}(?![\w/#-]|\.\w)")
            shown = exact(f"{self.head}{id}").replace("\\", r"\\")
            lines = [line if line.startswith(">") else word.sub(shown, line) for line in lines]
        return "\n".join([f"In the vault {exact(self.vault)}; other ids here begin with {exact(self.head)}", *lines])


class Writers:
    """The machines that write into published vaults, by the names of the vaults."""

    def __init__(
        self, urls: Mapping[str, str], environment: Mapping[str, str] = os.environ, *, seconds: float = ANSWER_SECONDS
    ) -> None:
        """An answer may take `seconds`. Raises InvalidInput for a wrong address, or if no token is set."""
        self._seconds = seconds
        self._urls = {name: _check_address(url) for name, url in urls.items()}
        self._token = environment.get(TOKEN, "").strip()
        if urls and not (self._token and self._token.isascii() and self._token.isprintable()):
            raise InvalidInput(
                "SPELLBOOK_WRITES_TOKEN is not set.",
                "Make a token where the files are: spellbook token add reader --may write.",
            )

    @classmethod
    def of(cls, pairs: Sequence[str]) -> Writers:
        """Return the writers for pairs of `NAME=URL`. Raises InvalidInput."""
        urls: dict[str, str] = {}
        for pair in pairs:
            name, equals, url = pair.rpartition("=http")
            if not equals or not name or name in urls:
                raise InvalidInput(f"--writes-to {pair[:100]!r} is not NAME=URL, once for a vault.", _EXAMPLE)
            urls[name] = f"http{url}"
        return cls(urls)

    # -- the two doors

    def api(
        self,
        book: PublishedReader,
        method: str,
        path: str,
        id: str,
        values: Mapping[str, Any],
        named: str,
        tag: str = "",
    ) -> tuple[Any, int]:
        """
        Hand a request of the API over and return what it answers, and the status; `{id}` in `path` is `id`.

        `named` is the vault that the caller named, "" for none; `tag` an If-Match. Raises what the machine answers,
        and FetchError where it is away.
        """
        place = self._place(book, named, [id, *_ids(values)])
        sent = place.arguments(values)
        address = path.replace("{id}", quote(place.inside(id), safe=""))
        content: dict[str, Any] = {"content": json_of(sent)}
        if method == "DELETE":
            content = {"params": {key: json.dumps(value) for key, value in sent.items()}}
        answer, status = self._ask(place, method, address, {"if-match": tag} if tag else {}, **content)
        return self._show_here(book, place, answer), status

    def tool(self, book: PublishedReader, name: str, values: Mapping[str, Any], named: str) -> str:
        """Hand the call of a tool over, by its full name, and return its answer. Raises as `api` does."""
        place = self._place(book, named, list(_ids(values)))
        params = {
            "name": name,
            "arguments": place.arguments(values),
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": _PROTOCOL,
                "io.modelcontextprotocol/clientInfo": {"name": "spellbook", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": _PROTOCOL,
            "mcp-method": "tools/call",
            "mcp-name": name,
        }
        request = json_of({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        answer, _ = self._ask(place, "POST", "/mcp", headers, content=request)
        try:
            result = answer["result"]
            text = "\n".join(str(part["text"]) for part in result["content"])
        except (TypeError, KeyError) as error:
            if isinstance(answer, dict) and "error" in answer:  # of the protocol: no tool was run
                message = one_line(str(answer["error"]))[:200]
                raise FetchError(
                    f"The machine of the vault {place.shown} does not know this tool ({message}). Nothing was written."
                ) from error
            raise _strange(place) from error
        if result.get("isError"):
            raise _tool_error(place, text)
        try:
            return json_of(self._show_here(book, place, json.loads(text)))
        except ValueError:
            generation = _GENERATION.search(text)
        shown = place.text(text, map(place.inside, _ids(values)))
        is_visible = self._is_visible(book, place, int(generation[1]) if generation else 0)
        return shown if is_visible else f"{shown}\n(It is not published yet; this server finds it later.)"

    # -- where

    def _place(self, book: PublishedReader, named: str, ids: Sequence[str]) -> _Target:
        """Return the vault that is meant. Raises InvalidInput if that is not clear, PermissionDenied if none is."""
        there = [vault.name for vault in book.vaults]
        if not there:
            raise PermissionDenied("There is no vault to write into. Nothing was written.", "Use another token.")
        if named and named not in there:
            raise InvalidInput(
                f"There is no vault {named[:100]!r}. Nothing was written.", f"There are {', '.join(there[:20])}."
            )
        meant = {named} if named else set()
        if len(there) > 1:
            meant |= {name for name in there if any(id.startswith(f"{name}/") for id in ids)}
        elif not meant:
            meant = {there[0]}
        if len(meant) != 1:
            several = "Ids of several vaults are given. Nothing was written."
            unclear = "It is not clear into which vault. Nothing was written."
            raise InvalidInput(
                several if meant else unclear,
                f"There are {', '.join(there[:20])}. Name one as the argument vault of a tool, in the header "
                "X-Spellbook-Vault, or before an id.",
            )
        (vault,) = meant
        if vault not in self._urls:
            raise PermissionDenied(
                f"This server has no files, and knows no machine of the vault {vault[:100]!r}. Nothing was written.",
                "Write where the vault's files are, or start this server with --writes-to.",
            )
        return _Target(vault, f"{vault}/" if len(there) > 1 else "")

    def _show_here(self, book: PublishedReader, place: _Target, answer: Any) -> Any:
        """Return an answer with the ids of this server; rows that are not published yet get `visible` false."""
        answer = place.outside(answer) if place.head else answer
        rows = [row for row in (answer if isinstance(answer, list) else [answer]) if isinstance(row, dict)]
        generations = [row["generation"] for row in rows if isinstance(row.get("generation"), int)]
        if not self._is_visible(book, place, max(generations, default=0)):
            for row in rows:
                row["visible"] = False
        return answer

    def _is_visible(self, book: PublishedReader, place: _Target, generation: int) -> bool:
        """Wait until a generation of the vault is published, and return whether it is; of 0 nothing is waited for."""
        until = time.monotonic() + VISIBLE_SECONDS
        published = 0
        while generation:
            try:
                published = next((vault.generation for vault in book.vaults if vault.name == place.vault), 0)
            except SpellbookError:  # it was written, whatever the database does now
                return False
            if published >= generation or time.monotonic() >= until:
                break
            time.sleep(_LOOK_SECONDS)
        return published >= generation

    # -- the connection

    def _ask(
        self, place: _Target, method: str, path: str, headers: Mapping[str, str], **content: Any
    ) -> tuple[Any, int]:
        """Send a request; return the answer and its status. Raises what the machine answers, and FetchError."""
        who, url = place.shown, self._urls[place.vault]
        own = {HANDED: "1", "authorization": f"Bearer {self._token}"}
        headers = {"content-type": "application/json", **headers, **own}
        timeout = httpx.Timeout(self._seconds, connect=CONNECT_SECONDS)
        try:
            # No proxy stands before this machine itself.
            answer = httpx.request(
                method, f"{url}{path}", headers=headers, timeout=timeout, trust_env=not is_local(url), **content
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            if "CERTIFICATE" in str(error).upper():
                raise FetchError(
                    f"The certificate of the machine of the vault {who} is not valid. Nothing was written.",
                    "Give it a valid one, or name the one who vouches for it in SSL_CERT_FILE.",
                ) from error
            raise FetchError(
                f"The machine of the vault {who} does not answer. Nothing was written.",
                "Start it, or correct --writes-to.",
            ) from error
        except httpx.TimeoutException as error:
            raise FetchError(
                f"The machine of the vault {who} did not answer within {self._seconds:g} s. "
                "It is not known whether it was written.",
                _LOOK,
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise FetchError(
                f"The machine of the vault {who} broke off ({type(error).__name__}). "
                "It is not known whether it was written.",
                _LOOK,
            ) from error
        if answer.status_code == 401:
            raise FetchError(
                f"The machine of the vault {who} does not know the token of this server. Nothing was written.",
                "Set SPELLBOOK_WRITES_TOKEN to a token of that machine.",
            )
        if answer.status_code == 421 or 300 <= answer.status_code < 400:
            raise FetchError(
                f"The machine of the vault {who} goes by another address. Nothing was written.",
                "Correct --writes-to, or name the address in SPELLBOOK_ALLOWED_HOSTS there.",
            )
        try:
            decoded = answer.json()
        except (ValueError, RecursionError) as error:
            raise _strange(place) from error
        if answer.status_code >= 400:
            raise _error(place, decoded, answer.status_code)
        return decoded, answer.status_code


def _check_address(url: str) -> str:
    """Return the address of a machine. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        is_address = (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
        )
        _ = parts.port
    except ValueError:
        is_address = False
    if not is_address or parts.username or parts.password is not None:
        raise InvalidInput(f"--writes-to {url[:100]!r} is not an address of a server.", _EXAMPLE)
    if parts.scheme == "http" and not is_local(url):
        raise InvalidInput(f"--writes-to {url[:100]!r} would send a token in the clear.", "Use https.")
    return url.rstrip("/")


def vault_of(headers: Mapping[str, str]) -> str:
    """Return the vault that a request of the API names, "" for none: in UTF-8, or percent-encoded."""
    name = headers.get(HEADER, "")
    with contextlib.suppress(ValueError):
        name = name.encode("latin-1").decode()
    return unquote(name).strip()


def _ids(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield the ids and paths among arguments."""
    for name, value in values.items():
        if name in _ID:
            yield from (id for id in (value if isinstance(value, list) else [value]) if isinstance(id, str))


def _strange(place: _Target) -> FetchError:
    return FetchError(
        f"The machine of the vault {place.shown} answered as no Spellbook does. "
        "It is not known whether it was written.",
        "Correct --writes-to.",
    )


def _error(place: _Target, answer: Any, status: int) -> SpellbookError:
    """Return an error of the vault's machine as one of this server."""
    try:
        error = answer["error"]
        code, message, details = str(error["code"]), str(error["message"]), dict(error.get("details") or {})
    except (TypeError, KeyError, ValueError):
        return _strange(place)
    if code == PermissionDenied.code:
        return FetchError(
            f"The machine of the vault {place.shown} refused: {message} Nothing was written.",
            "Give the token of this server the right to write there.",
        )
    kind, hint = _ERRORS.get(code, FetchError), str(details.get("hint") or (_LOOK if status >= 500 else ""))
    if place.head:
        message = f"In the vault {exact(place.vault)}: {message}"
    if kind is Conflict:
        return Conflict(message, hint, str(details.get("difference") or ""))
    return kind(message, hint)


def _tool_error(place: _Target, text: str) -> SpellbookError:
    """Return the error that a tool of the vault's machine ended with."""
    first, _, difference = text.partition("\n")
    refusal = re.match(r"(?:Error executing tool \S+: )?([A-Z_]+): (.*)", first)
    if not refusal:
        return FetchError(f"The machine of the vault {place.shown} answered: {one_line(first)[:300]}", _LOOK)
    body = {"code": refusal[1], "message": refusal[2], "details": {"difference": difference}}
    return _error(place, {"error": body}, 400)
