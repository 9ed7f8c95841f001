"""
Fetch one web page or PDF over HTTP, from the public Internet only, within bounds of time and size.

Each redirect is a new request. A name is resolved once, each of its addresses is checked, and a checked address is
dialed, so a name that answers differently the second time changes nothing. TLS still verifies the name. Everything ends
at one deadline. No cookies, no credentials, no proxy: a proxy would resolve names where nothing checks them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from spellbook import __version__
from spellbook.archive.pages.page_address import quiet
from spellbook.settings.limits import MOST_URL
from spellbook.system.errors import FetchError, InvalidInput, PermissionDenied
from spellbook.system.lazy import httpcore, httpx, regex
from spellbook.text.quoting import one_line

# -- connections to public addresses only

Allowed = Callable[[str, int], bool]
"""Says whether an address (without a zone) and a port may be connected to."""

Resolve = Callable[..., Iterable[tuple[Any, ...]]]
"""Has the form of `socket.getaddrinfo`."""

PORTS = frozenset({80, 443, 8080, 8443})
_CONNECT_SECONDS = 5.0
"""For each address: a dead one must not use up the time of the next."""

_UNICAST = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = (
    ipaddress.ip_network("2001::/23"),  # protocols' own, Teredo among them
    ipaddress.ip_network("2001:db8::/32"),
    ipaddress.ip_network("2002::/16"),  # 6to4
    ipaddress.ip_network("3fff::/20"),
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("192.88.99.0/24"),
    ipaddress.ip_network("168.63.129.16/32"),  # Azure's metadata, at a public address
)
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})


def public(address: str, port: int = 80) -> bool:
    """
    Say whether an IP address is public, and the port one of web servers.

    IPv6 is refused outside of global unicast, and where it can carry an IPv4 address. Whole networks need NAT64: there
    the IPv4 address decides. `is_global` of the standard library misses these cases, and multicast.
    """
    ip = ipaddress.ip_address(address)
    if ip in _NAT64:
        ip = ipaddress.ip_address(int(ip) & 0xFFFF_FFFF)
    if ip.version == 6 and (ip not in _UNICAST or int(ip) >> 32 & 0xFFFF_FFFF in _ISATAP):
        return False
    if any(ip in network for network in _NOT_PUBLIC):  # False for a network of the other version
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved) and port in PORTS


class AddressGuard:
    """A network backend that connects to `allowed` addresses until `until` (monotonic clock, seconds)."""

    def __init__(self, until: float, allowed: Allowed = public, resolve: Resolve = socket.getaddrinfo) -> None:
        self._until, self._allowed, self._resolve = until, allowed, resolve
        self._inner = httpcore.SyncBackend()

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _TimedStream:
        """Connect to a checked address of `host`. Raises PermissionDenied if any of them is not allowed."""
        addresses = self._addresses(host, port)
        # A zone (`fe80::1%eth0`) belongs to link-local addresses alone, which are not public.
        for address in addresses:
            if not self._allowed(address.partition("%")[0], port):
                raise PermissionDenied(
                    f"{host} (address {address}, port {port}) is not a page of the public web.",
                    "Give the text of the page instead. SPELLBOOK_FETCH_LOCAL=1 allows local addresses.",
                )
        failure: Exception = httpcore.ConnectError(f"the name {host} cannot be resolved")
        for address in addresses:
            left = min(_left(self._until), _CONNECT_SECONDS)
            try:
                return _TimedStream(self._inner.connect_tcp(address, port, left, **options), self._until)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name, none if it has none. Raises ConnectTimeout."""
        addresses: dict[str, None] = {}

        def ask() -> None:
            with contextlib.suppress(Exception):
                entries = self._resolve(host, port, type=socket.SOCK_STREAM)
                addresses.update(dict.fromkeys(str(entry[4][0]) for entry in entries))

        # The system's resolver has no timeout that we could set.
        resolver = threading.Thread(target=ask, daemon=True, name="spellbook-resolver")
        resolver.start()
        resolver.join(_left(self._until))
        if resolver.is_alive():
            raise httpcore.ConnectTimeout(f"the name {host} was not resolved in time")
        return [*addresses]


class _TimedStream:
    """A stream whose every wait ends at `until`, so that a server cannot drip, headers included."""

    def __init__(self, inner: httpcore.NetworkStream, until: float) -> None:
        self._inner, self._until = inner, until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(self._until))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(self._until))

    def start_tls(self, *, timeout: float | None = None, **options: Any) -> _TimedStream:
        return _TimedStream(self._inner.start_tls(timeout=_left(self._until), **options), self._until)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("out of time")
    return left


# -- one page

SECONDS = 20.0
"""For all of it: names, connections, redirects, body."""

MOST_HTML = 10_000_000
"""Bytes of a web page or an HTML file, unpacked: a parser needs many times as much memory."""

MOST_PDF = 50_000_000
"""Bytes of a PDF, unpacked: most of it is pictures."""

_HOPS = 5
_MOVED = frozenset({301, 302, 303, 307, 308})
_HOST = regex(rb"[A-Za-z0-9._:-]+")
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream"})
"""Content types that do not say what the body is. Then its first bytes do."""

_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/pdf;q=0.9",
    "Accept-Encoding": "gzip",
    "User-Agent": f"Mozilla/5.0 (compatible; Spellbook/{__version__}; saves single pages for a person)",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """
    A page or a file: `url` is where the redirects ended, "" for a file; `content_type` is that of HTML or PDF.

    `charset` is the header's encoding, `canonical` the address that the header names as the page's own; "" for none.
    """

    body: bytes = field(repr=False)
    content_type: str
    url: str
    charset: str = ""
    canonical: str = ""


def fetch(
    url: str, *, seconds: float = SECONDS, allowed: Allowed | None = None, resolve: Resolve = socket.getaddrinfo
) -> Fetched:
    """
    Return the page at `url`. `allowed` says which addresses may be connected to: by default the public ones.

    Raises InvalidInput if that is no address of a page, PermissionDenied if it or a redirect leads elsewhere than to
    the public web, FetchError if nothing useful comes in time.
    """
    if allowed is None:
        allowed = public if os.environ.get("SPELLBOOK_FETCH_LOCAL") != "1" else lambda address, port: True
    backend: Any = AddressGuard(time.monotonic() + seconds, allowed, resolve)
    try:
        with httpcore.ConnectionPool(httpx.create_ssl_context(), network_backend=backend) as pool:
            return _follow(pool, url)
    except httpcore.TimeoutException as error:
        raise FetchError(f"{url} did not answer within {seconds:.0f} s.", "Try again later.") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise FetchError(f"{url} cannot be fetched ({reason}).", "Check the address, or try again later.") from error


def checked(url: str) -> str:
    """Return a web address that may be fetched, and stand in frontmatter. Raises InvalidInput or PermissionDenied."""
    return quiet(str(_parse(url)))


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url) if len(url) <= MOST_URL else None
        _ = parsed and parsed.host  # is decoded only now, and may be no name
    except (httpx.InvalidURL, ValueError):
        parsed = None
    is_web = parsed is not None and parsed.scheme in {"http", "https"}
    if parsed is None or (is_web and not _HOST.fullmatch(parsed.raw_host)):
        raise InvalidInput(f"{one_line(url[:100])} is not a web address.", "Give one such as https://example.com/page.")
    if not is_web:
        raise PermissionDenied(f"{one_line(url[:100])} is not a web address.", "Only http and https are fetched.")
    if parsed.userinfo:
        raise PermissionDenied(f"The address of {parsed.host} holds a name or a password.", "Leave it out.")
    return parsed


def _follow(pool: httpcore.ConnectionPool, url: str) -> Fetched:
    parsed = _parse(url)
    for _ in range(_HOPS + 1):
        with pool.stream("GET", str(parsed), headers=list(_HEADERS.items())) as got:
            answer = httpx.Response(got.status, headers=got.headers)
            target = answer.headers.get("location", "")
            if not target or got.status not in _MOVED:
                return _body(quiet(str(parsed)), answer, got.iter_stream())
        try:
            parsed = _parse(urljoin(str(parsed), target))
        except (InvalidInput, ValueError) as error:
            raise FetchError(f"{url} leads to {target[:100]!r}, which is not a web address.") from error
    raise FetchError(f"{url} leads on more than {_HOPS} times.", "Give the address where the page really is.")


def _body(url: str, answer: httpx.Response, pieces: Iterable[bytes]) -> Fetched:
    status = answer.status_code
    if status != 200:
        raise FetchError(f"{url} answered HTTP {status}.", _hint(status), status)
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _HTML | _VAGUE | {"application/pdf"}:
        raise FetchError(f"{url} is {kind}, neither a web page nor a PDF.", "Give its text instead.", status)
    body = bytearray()
    is_pdf = kind == "application/pdf"
    for piece in _unpack(url, answer.headers.get("content-encoding", "").strip().lower(), pieces):
        body += piece
        if kind in _VAGUE:
            is_pdf = body.startswith(b"%PDF-")
        most = MOST_PDF if is_pdf else MOST_HTML
        if len(body) > most:
            raise FetchError(f"{url} is over {most // 1_000_000} MB.", "Give the text that matters instead.", status)
    named = ""
    with contextlib.suppress(InvalidInput, PermissionDenied, ValueError, KeyError):
        named = checked(urljoin(url, answer.links["canonical"]["url"]))
    charset = answer.charset_encoding or ""
    return Fetched(bytes(body), "application/pdf" if is_pdf else "text/html", url, charset, named)


def _unpack(url: str, coding: str, pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Yield the body as it comes, in pieces of bounded size, with one layer of gzip unpacked."""
    if coding in {"", "identity"}:
        yield from pieces
        return
    if coding not in {"gzip", "x-gzip"}:
        raise FetchError(f"{url} is packed as {coding[:40]}, which was not asked for.", "Give its text instead.")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        for piece in pieces:
            while piece and not inflate.eof:
                yield inflate.decompress(piece, 1_000_000)
                piece = inflate.unconsumed_tail
    except zlib.error as error:
        raise FetchError(f"{url} sends gzip that is damaged.", "Try again later.") from error
    if not inflate.eof:
        raise FetchError(f"{url} broke off.", "Try again later.")


def _hint(status: int) -> str:
    if status in {401, 402, 403}:
        return "It wants a login, a payment or a person. Give the text of the page instead."
    if status in {404, 410}:
        return "There is no such page; check the address."
    return "Wait, and try again later." if status == 429 or status >= 500 else "Give the text of the page instead."
