"""
Check every request before its route: host, origin, size, rate and token.

A memory must never be read by a web page that its owner happens to visit, by a stranger in the network, or with a token
that was given for less.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from spellbook.http.faults import fault
from spellbook.http.headers import Body, Sent, over
from spellbook.http.oauth.addresses import AUTHORIZE, FOR_PROGRAMS, OPEN, STREAMABLE, challenge
from spellbook.http.oauth.grants import Grants
from spellbook.http.proxies import proxy_of
from spellbook.http.request_counts import Bounded
from spellbook.http.tokens import Caller, Tokens, is_random
from spellbook.settings.config import is_loopback
from spellbook.system.errors import StorageError, shown_error
from spellbook.system.lazy import regex

MOST_BYTES = 24_000_000
"""Most bytes of a request: a note of 10 MB, escaped."""

SSE, MESSAGES = "/sse", "/messages/"

COOKIE = "spellbook"
OURS = "x-spellbook"
"""The header that a write by cookie needs: a page of another origin cannot send it."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
RATE = 10_000
"""Requests an hour and token; SPELLBOOK_RATE."""

_MOST_HEAD = 64_000
"""Most bytes of the head of a request."""

_OPEN_HEAD = 32_000
_OPEN_BYTES = 32_000
"""The same, and most bytes of the body, of a request without a token. By hand: what an app asks may have some KB."""

_MOST_PLACE = 8_000
"""Letters of an address that a login leads back to: it is sent with the login, thrice as long."""

_MOST_OPEN = 200
"""Requests without a token at once: a stranger must leave room for those with one."""

_MOST_OPEN_EACH = 50
"""Such requests at once of one address."""

_MOST_FAILURES = 10
"""Wrong tokens of one address within a minute; then it has to wait."""

_MOST_WRONG = 100
"""Wrong tokens of all addresses within a minute; then everybody has to wait whom the server does not know."""

_OPEN = ("/health", "/login")
_WELL_KNOWN = "/.well-known/"
_CLOSE = {"connection": "close"}
_BEARER = {"www-authenticate": 'Bearer realm="spellbook"'}
AGAIN = '<!doctype html><meta http-equiv="refresh" content="0"><title>Spellbook</title>'
"""A page that asks for itself again: its own request has the cookie that a link of another page does not send."""

_PORT = regex(r":\d{1,5}\Z", re.A)
_MOST_ACCEPTED = 1_000
_READS = {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True, slots=True)
class AccessRules:
    """
    Rules of access: `hosts` are the names by which a server may be asked, `name` or `name:port`.

    `is_local` is whether it listens at this machine alone, behind no proxy: then programs of this machine need no token
    until there is one. With `is_open` (SPELLBOOK_AUTH=none) they never need one. `is_contained` is whether it runs in a
    container, whose engine hides who asks. `rate` is a token's requests an hour, 0 without a bound. `public` is the
    address of the server on the internet, `https://name`, if apps may connect over OAuth there.
    """

    hosts: tuple[str, ...] = LOOPBACK
    is_local: bool = True
    is_open: bool = False
    is_contained: bool = False
    rate: int = RATE
    public: str = ""

    @property
    def others(self) -> list[str]:
        """The names beside loopback. A server that has one may be behind a tunnel that adds no header."""
        return [host for host in self.hosts if not _is_own(host)]


class _Refused(Exception):
    """A request that ends with this answer."""

    def __init__(self, answer: Response) -> None:
        self.answer = answer


def _refusal(status: int, code: str, message: str, hint: str = "", headers: Mapping[str, str] = {}) -> _Refused:
    return _Refused(fault(status, code, message, {"hint": hint}, headers))


class Guard:
    """Refuses requests that must not reach a route, and adds the caller to all others."""

    body_seconds = 30.0
    """Seconds in which the body of a request must arrive, however it comes."""

    open_seconds = 10.0
    """The same, of a request without a token."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        rules: AccessRules,
        refused: Callable[[int], object] = lambda status: None,
        grants: Grants | None = None,
    ) -> None:
        """`refused` is called with the status of each refused request. With `grants`, connected apps may ask MCP."""
        self.app = app
        self._refused = refused
        self._tokens, self._grants = tokens, grants
        self._rules = rules
        self._accepted: set[bytes] = set()
        self._failures = Bounded(_MOST_FAILURES, 60)
        self._all_failures = Bounded(_MOST_WRONG, 60)
        self._requests = Bounded(rules.rate, 3_600)
        self._open: Counter[str] = Counter()
        """Requests without a token that are being answered, by address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            scope["spellbook.caller"] = self._caller(scope, Headers(scope=scope))
        except _Refused as refused:
            self._refused(refused.answer.status_code)
            await refused.answer(scope, receive, Sent(scope, send))
            return
        is_open = self._is_open(scope)
        address = _address(scope)
        bounds = (_OPEN_BYTES, self.open_seconds) if is_open else (MOST_BYTES, self.body_seconds)
        body = Body(receive, *bounds)
        sent = Sent(scope, send, body, partial(self._is_known, scope))
        self._open[address] += is_open
        try:
            await self.app(scope, body, sent)
        except ClientDisconnect:
            pass  # nobody is there to be answered, and the log needs no stack trace
        finally:
            self._open[address] -= is_open
            if not self._open[address]:
                del self._open[address]
            await sent.refuse()

    def _is_known(self, scope: Scope) -> bool:
        """Say whether the token or cookie of a request is still let in."""
        who: Caller = scope["spellbook.caller"]
        try:
            return not who.name or self._holder(scope, *_credentials(Headers(scope=scope))) == who
        except StorageError:
            return False

    def _caller(self, scope: Scope, headers: Headers) -> Caller:
        """Return the caller. Raises _Refused for callers and requests that are not let in."""
        self._check_host(headers)
        path = scope["path"]
        is_open = self._is_open(scope)
        if not (self._rules.public and path in FOR_PROGRAMS):
            _check_origin(scope, headers)
        _check_size(scope, headers, is_open)
        if path.startswith(_WELL_KNOWN) and not (self._rules.public and path in OPEN):
            # A plain 404, else clients try OAuth and forget the header that they were given.
            raise _refusal(404, "MEMORY_NOT_FOUND", "There is no OAuth here: send Authorization: Bearer TOKEN.")
        if is_open:
            if self._open[_address(scope)] >= _MOST_OPEN_EACH or self._open.total() >= _MOST_OPEN:
                raise _refusal(
                    503,
                    "RATE_LIMIT_EXCEEDED",
                    "Too many requests without a token are under way.",
                    "Try again in a moment.",
                    {"retry-after": "1", **_CLOSE},
                )
            return Caller("", "read", "public")
        caller = self._known(scope, headers)
        if caller is None:
            raise self._unknown(scope, headers)
        if caller.name and self._rules.rate:
            self._requests.add(caller.id)
            if seconds := self._requests.wait(caller.id, 1):
                raise _too_many(
                    f"This token has made {self._rules.rate:,} requests in this hour.",
                    seconds,
                    f"Wait {seconds} s, or set SPELLBOOK_RATE.",
                )
        return caller

    def _check_host(self, headers: Headers) -> None:
        """Refuse a request that names this server by another name than its own."""
        named = headers.getlist("host")
        host = named[0].lower() if len(named) == 1 else ""
        if not {_PORT.sub("", host), host} & set(self._rules.hosts):
            raise _refusal(
                421,
                "PERMISSION_DENIED",
                f"This server is not known by the name {host[:100]!r}.",
                "Name it in SPELLBOOK_ALLOWED_HOSTS if it is yours, and start the server again.",
            )

    def _unknown(self, scope: Scope, headers: Headers) -> _Refused:
        """Return the refusal of a caller whom the server does not know: a page for a browser, else how to get in."""
        is_other = scope["path"].startswith(("/api/", "/admin/")) or is_mcp(scope)
        if scope["method"] in {"GET", "POST"} and "text/html" in headers.get("accept", "") and not is_other:
            return _Refused(to_login(scope, headers))
        hint = "Send Authorization: Bearer TOKEN; `spellbook token add NAME` makes a token."
        if name := proxy_of(headers):
            hint = f"{hint} The header {name[:100]} is one that proxies add: name yours with --trusted-proxy."
        way = _BEARER
        if self._rules.public and is_mcp(scope):
            way = challenge(self._rules.public, scope["path"], "invalid_token" if _credentials(headers)[0] else "")
        return _refusal(401, "AUTHENTICATION_ERROR", "The token is missing or wrong.", hint, way)

    def _known(self, scope: Scope, headers: Headers) -> Caller | None:
        token, cookie = _credentials(headers)
        digest = sha256((token or cookie).encode("utf-8", "replace")).digest()
        try:
            if self._is_owner(scope, headers):
                return Caller()
            if not (token or cookie):
                return None
            # Others' mistakes do not lock out who was let in before.
            if digest not in self._accepted and (seconds := self.wait(scope, token or cookie)):
                raise _too_many("Too many wrong tokens came.", seconds, f"Wait {seconds} s.")
            caller = self._holder(scope, token, cookie)
        except StorageError as error:
            shown = shown_error(error, is_limited=bool(self._rules.public))
            raise _refusal(500, shown.code, shown.message, shown.hint) from error
        if caller is None:
            self._accepted.discard(digest)
            self.count_wrong(scope)
            return None
        if len(self._accepted) >= _MOST_ACCEPTED:
            self._accepted.clear()
        self._accepted.add(digest)
        # The route of a page's form checks that the page was ours; see `pages.view`.
        is_action = scope["path"] in {"/logout", "/look"} or scope["path"].startswith("/do/")
        if caller.by_cookie and scope["method"] not in _READS and OURS not in headers and not is_action:
            raise _refusal(403, "PERMISSION_DENIED", "A page must send the header X-Spellbook: 1 with this.")
        return caller

    def _is_owner(self, scope: Scope, headers: Headers) -> bool:
        """
        Say whether a request needs no token: one that a program of this machine sends to this machine, by its own name.

        Raises StorageError. In a container each address is the engine's: SPELLBOOK_AUTH=none there means everybody.
        """
        rules = self._rules
        needs_none = rules.is_open or (rules.is_local and self._tokens.is_empty)
        if not needs_none or rules.others or proxy_of(headers):
            return False
        if rules.is_open and rules.is_contained:
            return True
        host = headers["host"].lower()
        bound, port = scope["server"]
        named = host if _PORT.search(host) else f"{host}:{443 if scope['scheme'] == 'https' else 80}"
        return _is_own(host) and named.endswith(f":{port}") and is_loopback(bound) and is_loopback(_address(scope))

    def _holder(self, scope: Scope, token: str, cookie: str) -> Caller | None:
        """Return who has a token or cookie; an app's token is for MCP alone. Raises StorageError."""
        caller = self._tokens.caller(token, cookie)
        if caller is None and self._grants and token and is_mcp(scope):
            caller = self._grants.caller(token)
        return caller

    def _is_open(self, scope: Scope) -> bool:
        """Return whether a request needs no token."""
        path = scope["path"]
        is_of_oauth = bool(self._rules.public) and path in OPEN
        return is_of_oauth or path in _OPEN or path.startswith(("/static/", _WELL_KNOWN))

    def wait(self, scope: Scope, secret: str) -> int:
        """
        Return for how many seconds a request with a token or cookie must wait, because of wrong ones that came before.

        A tunnel gives all requests one address: there a secret that nobody can guess never waits.
        """
        if self._rules.public and is_random(secret):
            return 0
        return max(self._failures.wait(_address(scope)), self._all_failures.wait(""))

    def count_wrong(self, scope: Scope) -> None:
        """Count a wrong token or cookie."""
        self._failures.add(_address(scope))
        self._all_failures.add("")


def is_mcp(scope: Scope) -> bool:
    """Say whether a request is for MCP; at / that is a POST, a DELETE, and a GET that asks for a stream of events."""
    path, method = scope["path"], scope["method"]
    if path == "/":
        accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
        return method in {"POST", "DELETE"} or (method == "GET" and b"text/event-stream" in accepted)
    return path in {STREAMABLE, f"{STREAMABLE}/", SSE} or path.startswith(MESSAGES)


def _check_origin(scope: Scope, headers: Headers) -> None:
    """Refuse requests from pages of other origins; they may only link to a page."""
    origins = headers.getlist("origin")
    if scope["path"] == AUTHORIZE and origins == ["null"] and headers.get("sec-fetch-site") == "same-origin":
        return  # that page sends no referrer, and so no origin
    try:
        is_own = all(urlsplit(each).netloc.lower() == headers["host"].lower() for each in origins)
    except ValueError:
        is_own = False
    site = headers.get("sec-fetch-site", "none")
    # A link opens a page of its own: a frame, which says "navigate" too, would show it in the other page.
    to = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest", "document")
    is_link = scope["method"] == "GET" and to == ("navigate", "document")
    if not is_own or len(origins) > 1 or (site not in {"none", "same-origin"} and not is_link):
        raise _refusal(403, "PERMISSION_DENIED", "Pages of other origins may not ask this server.")


def _check_size(scope: Scope, headers: Headers, is_open: bool) -> None:
    """Refuse a request whose head, or body as announced, has too many bytes; fewer are allowed where none is known."""
    most_head, most = (_OPEN_HEAD, _OPEN_BYTES) if is_open else (_MOST_HEAD, MOST_BYTES)
    names = sum(len(name) + len(value) for name, value in scope["headers"])
    if len(scope["path"]) + len(scope.get("query_string", b"")) + names > most_head:
        raise _refusal(431, "INVALID_INPUT", over(most_head, "The head of the request"), headers=_CLOSE)
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise _refusal(413, "INVALID_INPUT", over(most))


def _too_many(message: str, wait: int, hint: str) -> _Refused:
    return _refusal(429, "RATE_LIMIT_EXCEEDED", message, hint, {"retry-after": str(wait)})


def _is_own(host: str) -> bool:
    """Say whether a host, `name` or `name:port`, is this machine by a loopback name."""
    return _PORT.sub("", host) in LOOPBACK


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("", 0))[0])


def to_login(scope: Scope, headers: Headers) -> Response:
    """Return the answer to a browser that has not logged in, or whose cookie is too old; then it comes back."""
    place = scope["path"] + (f"?{scope['query_string'].decode('ascii', 'replace')}" if scope["query_string"] else "")
    if headers.get("sec-fetch-site") == "cross-site" and COOKIE not in cookie_parser(headers.get("cookie", "")):
        # The browser keeps a strict cookie from a page that another one links to. The page asks again by itself.
        return HTMLResponse(AGAIN, 401)
    is_kept = scope["method"] == "GET" and place != "/" and len(place) <= _MOST_PLACE
    to = f"/login?{urlencode({'to': place})}" if is_kept else "/login"
    gone = {"set-cookie": f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"}
    if "hx-request" in headers:
        return Response(status_code=401, headers={"hx-redirect": "/login", **gone})
    return RedirectResponse(to, 303, gone)


def _credentials(headers: Headers) -> tuple[str, str]:
    """Return token and cookie, "" for what was not sent. Credentials of another kind are a token that nobody has."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    return token.strip() if not token or kind.lower() == "bearer" else f"{kind} {token}", cookie


def hosts(bound: str, named: Collection[str]) -> tuple[str, ...]:
    """Return the host names that requests to a server bound to an address may use."""
    own = [f"[{bound}]" if ":" in bound else bound] if bound not in {"0.0.0.0", "::", ""} else []
    return tuple(dict.fromkeys([*LOOPBACK, *map(str.lower, own), *named]))
