"""
Connections to public addresses of the Internet only, until a deadline.

A name is resolved once, each of its addresses is checked, and a checked address is dialed, so a name that answers
differently the second time changes nothing.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from spellbook.system.errors import PermissionDenied
from spellbook.system.lazy import httpcore

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
