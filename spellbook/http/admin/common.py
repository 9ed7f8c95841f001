"""What the routes of the admin API share."""

from __future__ import annotations

from starlette.requests import Request

from spellbook.http.endpoints import Call
from spellbook.settings import translate


def say(call: Call, message: str) -> str:
    """Return a message in Korean or English, as the request asks; English if it does not."""
    return translate.translated(message, language(call.request))


def language(request: Request) -> str:
    """Return "ko" or "en": what a person chose in this browser, else what its Accept-Language likes best."""
    if (chosen := request.cookies.get("spellbook-lang", "")) in {"en", "ko"}:
        return chosen
    liked: dict[str, float] = {}
    for each in request.headers.get("accept-language", "")[:1_000].split(","):
        name, _, quality = each.strip().lower().partition(";")
        try:
            share = float(quality.partition("=")[2] or 1)
        except ValueError:
            share = 0.0
        code = name.strip().partition("-")[0]
        liked[code] = max(share, liked.get(code, 0.0))
    return "ko" if liked.get("ko", 0.0) > liked.get("en", 0.0) else "en"
