"""The addresses of OAuth on a server, and the challenge that leads a client to them. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from spellbook.http.oauth.clients import READ, SCOPES
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex

STREAMABLE = "/mcp"
AUTHORIZE, TOKEN, REGISTER, REVOKE = "/authorize", "/token", "/register", "/revoke"
RESOURCE = "/.well-known/oauth-protected-resource"
SERVERS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
FOR_PROGRAMS = frozenset({TOKEN, REGISTER, REVOKE, RESOURCE, f"{RESOURCE}{STREAMABLE}", *SERVERS})
"""Addresses that any program may ask, also one in a page of another origin; no cookie counts there."""

OPEN = FOR_PROGRAMS | {AUTHORIZE}
"""Addresses that need no token of their caller."""

_NAME = regex(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_OF_THIS_MACHINE = ("localhost", "localdomain")


def public_url(given: str) -> str:
    """Return the address of a server as `https://name`. Raises InvalidInput for one that hosted apps cannot use."""
    try:
        parts = urlsplit(given.strip())
        host = (parts.hostname or "").lower()
        port = parts.port
    except ValueError:
        parts = urlsplit("")
        host = ""
        port = None
    is_bare = parts.path in {"", "/"} and not any((parts.query, parts.fragment, parts.username, parts.password))
    is_named = len(host) <= 253 and _NAME.fullmatch(host) and host.rpartition(".")[2] not in _OF_THIS_MACHINE
    if parts.scheme != "https" or port not in {None, 443} or not is_bare or not is_named:
        raise InvalidInput(
            f"--public-url {given[:100]}: hosted apps reach only https://NAME, a name of the internet on port 443.",
            "Give the name of your tunnel or proxy, for example https://notes.example.org.",
        )
    return f"https://{host}"


def resources(issuer: str) -> frozenset[str]:
    """Return the names of this server as a resource of OAuth (RFC 8707): MCP answers at /mcp and at /."""
    return frozenset({f"{issuer}{STREAMABLE}", f"{issuer}{STREAMABLE}/", issuer, f"{issuer}/"})


def challenge(issuer: str, path: str, error: str = "") -> dict[str, str]:
    """Return the header that tells a client of MCP at `path` where to get a token (RFC 9728, 5.1), and of an error."""
    named = f'error="{error}", ' if error else ""
    place = f"{issuer}{RESOURCE}{'' if path == '/' else STREAMABLE}"
    scope = " ".join(SCOPES) if error == "insufficient_scope" else READ
    return {"www-authenticate": f'Bearer {named}resource_metadata="{place}", scope="{scope}"'}
