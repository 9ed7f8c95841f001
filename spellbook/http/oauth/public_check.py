"""`spellbook doctor --public`: ask a server by its public name as hosted apps do, and say which answer is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from spellbook.http.oauth.addresses import RESOURCE, SERVERS, STREAMABLE, challenge, public_url
from spellbook.models.services.exchange import Remote
from spellbook.system.errors import EmbeddingError
from spellbook.system.lazy import httpx
from spellbook.text.quoting import one_line

_SECONDS = 15.0
_MOST_BYTES = 64_000
_HEADERS = {"User-Agent": "Claude-User (spellbook doctor)", "Content-Type": "application/json", "Accept": "*/*"}
"""Services that block the agents of AI do so by this name."""


def checks(public: str, transport: httpx.BaseTransport | None = None) -> Iterator[tuple[str, list[str]]]:
    """
    Yield each request of a hosted app with its problems, none if the answer is right.

    No redirect is followed, and nothing is sent but empty requests. Raises InvalidInput for an address that is none.
    """
    issuer = public_url(public)
    server = Remote(issuer, issuer, lambda: _HEADERS, transport=transport)
    way = challenge(issuer, STREAMABLE)["www-authenticate"]
    yield f"POST {STREAMABLE}", _problems(server, STREAMABLE, b"{}", 401, {}, way)
    of = {"resource": f"{issuer}{STREAMABLE}", "authorization_servers": [issuer]}
    rows: dict[str, dict[str, Any]] = {f"{RESOURCE}{STREAMABLE}": of, **{each: {"issuer": issuer} for each in SERVERS}}
    for path, fields in rows.items():
        yield f"GET {path}", _problems(server, path, None, 200, fields)


def _problems(
    server: Remote, path: str, data: bytes | None, status: int, fields: dict[str, Any], way: str = ""
) -> list[str]:
    """Return why an answer is not that of this server with OAuth, as one sentence with the next step."""
    try:
        answer, body = server.exchange(path, data, time.monotonic() + _SECONDS, connect=5.0, most=_MOST_BYTES)
    except EmbeddingError:
        return ["The answer is not Spellbook's: it is far too long. Does the tunnel lead to `spellbook serve`?"]
    except (httpx.TransportError, httpx.InvalidURL, OSError, ValueError) as error:
        return [
            f"It cannot be reached ({one_line(str(error)[:200])}). Is the tunnel running, and does the name lead to it?"
        ]
    headers = answer.headers
    is_page = answer.status_code in {403, 429, 503} and "text/html" in headers.get("content-type", "")
    if is_page or headers.get("cf-mitigated"):
        return ["A page for people came. In Cloudflare, switch off Block AI bots, and AI Crawl Control's Claude-User."]
    if answer.is_redirect:
        place = one_line(headers.get("location", "")[:200])
        return [f"It leads on to {place}. Give the apps, and --public-url, the name at its end."]
    if answer.status_code == 421:
        return ["The server has another name. Start it with this --public-url; the tunnel must keep the header Host."]
    if answer.status_code != status:
        return [
            f"HTTP {answer.status_code} came, not {status}. The tunnel must lead all paths, also /.well-known, here."
        ]
    try:
        is_ours = json.loads(body).items() >= fields.items() if fields else headers.get("www-authenticate") == way
    except (ValueError, AttributeError, TypeError, RecursionError):
        is_ours = False
    return [] if is_ours else ["Another server answers, or this one without OAuth. Start it with this --public-url."]
