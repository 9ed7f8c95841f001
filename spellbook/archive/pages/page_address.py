"""Addresses of pages: when two are one page, and which a page names as its own. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from spellbook.system.lazy import regex

_TRACKING = regex(
    r"(?i)(?:utm_\w+|hsa_\w+|mtm_\w+|pk_\w+|fbclid|gclid|gclsrc|dclid|gbraid|wbraid|gad_source|msclkid|twclid|ttclid"
    r"|yclid|ysclid|igsh|igshid|li_fat_id|mc_[ce]id|mkt_tok|_hsenc|_hsmi|_ga|_gl|__twitter_impression|vero_id|wickedid"
    r"|napm|n_(?:media|query|rank|ad|ad_group|keyword(?:_id)?|campaign_type|match|network|mall_id|mall_pid))"
)
"""Parameters that name the way to a page, not the page; the last line is Naver's."""

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_SAME_SITE = regex(r"^(?:www\d?|m|mobile|amp)\.")


def normalized(url: str) -> str:
    """Return an address without the parts that do not name the page: fragment, tracking, default port, case."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, " "))
    query = (field for field in parts.query.split("&") if field and not _TRACKING.fullmatch(field.partition("=")[0]))
    return quiet(urlunsplit((parts.scheme, host, parts.path or "/", "&".join(query), "")))


def quiet(url: str) -> str:
    """Return an address for frontmatter, where `[[…]]` would be a link to a note."""
    return url.replace("[[", "%5B%5B").replace("]]", "%5D%5D")


def canonical(url: str, named: str) -> str:
    """Return the address that a page at `url` names as its own, normalized; "" if it is of another site."""
    try:
        here = urlsplit(url)
        there = urlsplit(named)
    except ValueError:
        return ""
    if there.scheme not in {"http", "https"} or not there.hostname or there.username or there.password:
        return ""
    if there.path in {"", "/"} and not there.query and here.path not in {"", "/"}:  # it names its front page
        return ""
    a = _SAME_SITE.sub("", here.hostname or "")
    b = _SAME_SITE.sub("", there.hostname)
    return normalized(named) if a and (a == b or a.endswith(f".{b}") or b.endswith(f".{a}")) else ""
