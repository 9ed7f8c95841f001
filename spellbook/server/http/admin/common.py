"""What the routes of the admin API share."""

from __future__ import annotations

from spellbook.server.http.endpoints import Call
from spellbook.settings import translate


def say(call: Call, message: str) -> str:
    """Return a message in Korean or English, as the request's Accept-Language asks; English without one."""
    return translate.translated(message, language(call.request.headers.get("accept-language", "")))


def language(header: str) -> str:
    """Return "ko" or "en": the one that an Accept-Language header likes best."""
    liked: dict[str, float] = {}
    for each in header[:1_000].split(","):
        name, _, quality = each.strip().lower().partition(";")
        try:
            share = float(quality.partition("=")[2] or 1)
        except ValueError:
            share = 0.0
        code = name.strip().partition("-")[0]
        liked[code] = max(share, liked.get(code, 0.0))
    return "ko" if liked.get("ko", 0.0) > liked.get("en", 0.0) else "en"
