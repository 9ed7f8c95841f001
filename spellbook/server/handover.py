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
import threading
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
"""Is sent with a write that was handed over, which is not handed on."""

HEADER = "x-spellbook-vault"
"""Names the vault of a request of the API, where several could be meant."""

KEPT = frozenset({"rebuild_index", "snapshot", "snapshots", "log", "export", "import", "wiki_index"})
"""Tools that are about a machine and its files, not about notes; they are not handed over."""

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 60.0
"""Saving an article fetches a page first, which may take 20 s."""

VISIBLE_SECONDS = 3.0
"""How long an answer waits until what was written is found here: publishers look every second."""

_LOOK_SECONDS = 0.05
_PROTOCOL = "2026-07-28"
_ID = frozenset({"id", "chunk_id", "memory_id", "article_id", "note", "path", "old", "new", "a", "b", "name"})
"""Arguments that hold an id or a path. Topics have no vault before them: those of several vaults are one."""

_TOLD = frozenset({"gone", "trash"}) | _ID - {"name", "a", "b"}
"""Fields of answers that do."""

_LISTS = frozenset({"paths", "chunk_ids", "trash", "moved", "supersedes"})
_GENERATION = re.compile(r"\bgeneration (\d+)")
_CODES: dict[str, type[SpellbookError]] = {
    each.code: each
    for each in (
        *(
            errors.StorageError,
            errors.SearchError,
            errors.PathOutsideVault,
            errors.VaultNotFound,
            errors.MemoryNotFound,
            Conflict,
        ),
        *(errors.RestRequired, errors.RestInvalid, errors.RestExpired, FetchError, InvalidInput),
    )
}
_LOOK = "Search for it, or look at the log there, before you write it again."

arguments: ContextVar[Mapping[str, Any]] = ContextVar("arguments")
"""What a tool was called with, as the client sent it."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The vault that a write is for, and what stands before its ids here."""

    vault: str
    head: str

    @property
    def shown(self) -> str:
        """The vault's name in a message."""
        return repr(self.vault[:100])

    def inside(self, id: str) -> str:
        """Return an id or a path as the vault's own machine knows it."""
        return id.removeprefix(self.head) if self.head else id

    def given(self, value: Any, key: str = "") -> Any:
        """Return what a caller gives with ids of the vault's machine."""
        if isinstance(value, str):
            return self.inside(value) if key in _ID or key == "supersedes" else value
        if isinstance(value, list) and key == "supersedes":
            return [self.given(each, key) for each in value]
        if isinstance(value, Mapping) and not key:
            return {name: self.given(each, name) for name, each in value.items()}
        return value

    def told(self, value: Any, key: str = "") -> Any:
        """Return an answer of the vault's machine with ids as they are here."""
        if not self.head:
            return value
        if isinstance(value, str):
            return f"{self.head}{value}" if value and key in _TOLD | _LISTS else value
        if isinstance(value, Mapping):
            return {name: self.told(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.told(each, key if key in _LISTS else "") for each in value]
        return value

    def text(self, said: str, sent: Iterable[str]) -> str:
        """Return an answer in words; ids that were sent are named as they are here, and the vault of all others."""
        if not self.head:
            return said
        lines = said.splitlines()
        for id in filter(None, dict.fromkeys(sent)):
            inside, shown = exact(id), exact(f"{self.head}{id}")
            word = re.compile(rf"(?<![\w/.#-]){re.escape(inside)}(?![\w/#-]|\.\w)")
            shown = shown.replace("\\", r"\\")
            lines = [line if line.startswith(">") else word.sub(shown, line) for line in lines]
        return "\n".join([f"In the vault {exact(self.vault)}; other ids here begin with {exact(self.head)}", *lines])


class Writers:
    """The machines that write into published vaults, by the names of the vaults."""

    def __init__(
        self, urls: Mapping[str, str], environment: Mapping[str, str] = os.environ, *, seconds: float = ANSWER_SECONDS
    ) -> None:
        """`seconds` is how long an answer may take. Raises InvalidInput for what is no address, or without a token."""
        self._seconds = seconds
        self._urls = {name: _checked(url) for name, url in urls.items()}
        self._token = environment.get(TOKEN, "").strip()
        if urls and not (self._token and self._token.isascii() and self._token.isprintable()):
            raise InvalidInput(
                "SPELLBOOK_WRITES_TOKEN is not set.",
                "Make a token where the files are: spellbook token add reader --may write.",
            )
        self._guard = threading.Lock()
        self._http: dict[bool, httpx.Client] = {}

    @classmethod
    def of(cls, pairs: Sequence[str]) -> Writers:
        """Return what `NAME=URL` names. Raises InvalidInput."""
        urls: dict[str, str] = {}
        for each in pairs:
            name, equals, url = each.rpartition("=http")
            if not equals or not name or name in urls:
                raise InvalidInput(f"--writes-to {each[:100]!r} is not NAME=URL, once for a vault.", _EXAMPLE)
            urls[name] = f"http{url}"
        return cls(urls)

    def close(self) -> None:
        """Close connections."""
        for each in self._http.values():
            each.close()

    # -- the two doors

    def api(
        self,
        book: PublishedReader,
        method: str,
        path: str,
        id: str,
        given: Mapping[str, Any],
        named: str,
        tag: str = "",
    ) -> tuple[Any, int]:
        """
        Hand a request of the API over and return what it answers, and the status; `{id}` in `path` is `id`.

        `named` is the vault that the caller named, "" for none; `tag` an If-Match. Raises what the machine answers,
        and FetchError where it is away.
        """
        place = self._place(book, named, [id, *_ids(given)])
        sent = place.given(given)
        address = path.replace("{id}", quote(place.inside(id), safe=""))
        headers = {"if-match": tag} if tag else {}
        if method == "DELETE":
            query = {key: json.dumps(value) for key, value in sent.items()}
            answer = self._asked(place, method, address, headers, params=query)
        else:
            answer = self._asked(place, method, address, headers, content=json_of(sent))
        told, status = _decoded(place, answer), answer.status_code
        if status >= 400:
            raise _error(place, told, status)
        told = place.told(told)
        if not self._is_visible(book, place, told.get("generation") if isinstance(told, dict) else None):
            told["visible"] = False
        return told, status

    def tool(self, book: PublishedReader, name: str, given: Mapping[str, Any], named: str) -> str:
        """Hand the call of a tool over, by its full name, and return its answer. Raises as `api` does."""
        place = self._place(book, named, list(_ids(given)))
        params = {
            "name": name,
            "arguments": place.given(given),
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
        body = json_of({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        answer = self._asked(place, "POST", "/mcp", headers, content=body)
        told = _decoded(place, answer)
        if answer.status_code >= 400:
            raise _error(place, told, answer.status_code)
        try:
            result = told["result"]
            text = "\n".join(str(part["text"]) for part in result["content"])
        except (TypeError, KeyError) as error:
            if isinstance(told, dict) and "error" in told:  # of the protocol: no tool was run
                message = one_line(str(told["error"]))[:200]
                raise FetchError(
                    f"The machine of the vault {place.shown} does not know this tool ({message}). Nothing was written."
                ) from error
            raise _strange(place) from error
        if result.get("isError"):
            raise _tool_error(place, text)
        try:
            found = json.loads(text)
        except ValueError:
            seen = _GENERATION.search(text)
            ids = [place.inside(each) for each in _ids(given)]
            said = place.text(text, ids)
            is_visible = self._is_visible(book, place, int(seen[1]) if seen else None)
            return said if is_visible else f"{said}\n(It is not published yet; this server finds it later.)"
        found = place.told(found)
        rows = found if isinstance(found, list) else [found]
        last = max((each.get("generation") or 0 for each in rows if isinstance(each, dict)), default=0)
        if not self._is_visible(book, place, last or None):
            for each in rows:
                if isinstance(each, dict):
                    each["visible"] = False
        return json_of(found)

    # -- where

    def _place(self, book: PublishedReader, named: str, ids: Sequence[str]) -> _Target:
        """Return the vault that is meant. Raises InvalidInput if that is not clear, PermissionDenied if none is."""
        there = [each.name for each in book.vaults]
        if not there:
            raise PermissionDenied("There is no vault to write into. Nothing was written.", "Use another token.")
        if named and named not in there:
            raise InvalidInput(
                f"There is no vault {named[:100]!r}. Nothing was written.", f"There are {', '.join(there[:20])}."
            )
        found = {named} if named else set()
        if len(there) > 1:
            found |= {each for each in there if any(id.startswith(f"{each}/") for id in ids)}
        elif not found:
            found = {there[0]}
        if len(found) != 1:
            said = (
                "Ids of several vaults are given. Nothing was written."
                if found
                else "It is not clear into which vault. Nothing was written."
            )
            raise InvalidInput(
                said,
                f"There are {', '.join(there[:20])}. Name one as the argument vault of a tool, in the header "
                "X-Spellbook-Vault, or before an id.",
            )
        (vault,) = found
        if vault not in self._urls:
            raise PermissionDenied(
                f"This server has no files, and knows no machine of the vault {vault[:100]!r}. Nothing was written.",
                "Write where the vault's files are, or start this server with --writes-to.",
            )
        return _Target(vault, f"{vault}/" if len(there) > 1 else "")

    def _is_visible(self, book: PublishedReader, place: _Target, generation: object) -> bool:
        """Wait until a generation of the vault is published; say whether it is."""
        if not isinstance(generation, int):
            return True
        until = time.monotonic() + VISIBLE_SECONDS
        while True:
            try:
                published = next((each.generation for each in book.vaults if each.name == place.vault), 0)
            except SpellbookError:  # it was written, whatever the database does now
                return False
            if published >= generation or time.monotonic() >= until:
                return published >= generation
            time.sleep(_LOOK_SECONDS)

    # -- the connection

    def _asked(self, place: _Target, method: str, path: str, headers: Mapping[str, str], **what: Any) -> httpx.Response:
        who, url = place.shown, self._urls[place.vault]
        own = {HANDED: "1", "authorization": f"Bearer {self._token}"}
        headers = {"content-type": "application/json", **headers, **own}
        try:
            answer = self._connected(httpx, is_local(url)).request(method, f"{url}{path}", headers=headers, **what)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as error:
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
        return answer

    def _connected(self, httpx: Any, local: bool) -> httpx.Client:
        with self._guard:
            if local not in self._http:
                timeout = httpx.Timeout(self._seconds, connect=CONNECT_SECONDS)
                # No proxy stands before this machine itself.
                self._http[local] = httpx.Client(timeout=timeout, trust_env=not local)
            return self._http[local]


_EXAMPLE = "For example --writes-to notes=https://notes.example.org:17950."


def _checked(url: str) -> str:
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
        raise InvalidInput(f"--writes-to {url[:100]!r} is no address of a server.", _EXAMPLE)
    if parts.scheme == "http" and not is_local(url):
        raise InvalidInput(f"--writes-to {url[:100]!r} would send a token in the clear.", "Use https.")
    return url.rstrip("/")


def vault_of(headers: Mapping[str, str]) -> str:
    """Return the vault that a request of the API names, "" for none: in UTF-8, or percent-encoded."""
    given = headers.get(HEADER, "")
    with contextlib.suppress(ValueError):
        given = given.encode("latin-1").decode()
    return unquote(given).strip()


def _ids(given: Mapping[str, Any]) -> Iterable[str]:
    for key, value in given.items():
        if isinstance(value, str) and (key in _ID or key == "supersedes"):
            yield value
        elif key == "supersedes" and isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))


def _strange(place: _Target) -> FetchError:
    return FetchError(
        f"The machine of the vault {place.shown} answered as no Spellbook does. "
        "It is not known whether it was written.",
        "Correct --writes-to.",
    )


def _decoded(place: _Target, answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except (ValueError, RecursionError) as error:
        raise _strange(place) from error


def _error(place: _Target, told: Any, status: int) -> SpellbookError:
    """Return an error of the vault's machine as one of this server."""
    try:
        found = told["error"]
        code, message, details = str(found["code"]), str(found["message"]), dict(found.get("details") or {})
    except (TypeError, KeyError, ValueError):
        return _strange(place)
    if code == PermissionDenied.code:
        return FetchError(
            f"The machine of the vault {place.shown} refused: {message} Nothing was written.",
            "Give the token of this server the right to write there.",
        )
    kind, hint = _CODES.get(code, FetchError), str(details.get("hint") or (_LOOK if status >= 500 else ""))
    if place.head:
        message = f"In the vault {exact(place.vault)}: {message}"
    if kind is Conflict:
        return Conflict(message, hint, str(details.get("difference") or ""))
    return kind(message, hint)


def _tool_error(place: _Target, text: str) -> SpellbookError:
    """Return the error that a tool of the vault's machine ended with."""
    first, _, difference = text.partition("\n")
    found = re.match(r"(?:Error executing tool \S+: )?([A-Z_]+): (.*)", first)
    if not found:
        return FetchError(f"The machine of the vault {place.shown} answered: {one_line(first)[:300]}", _LOOK)
    body = {"code": found[1], "message": found[2], "details": {"difference": difference}}
    return _error(place, {"error": body}, 400)
