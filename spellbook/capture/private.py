"""
Secrets and private parts are taken out of a message. A person marks a private part by `<private>…</private>`.

Other spellings are marks too: blanks, capitals, attributes, square or full-width brackets, brackets as entities,
invisible letters between. A part that is not closed reaches to the end. Pure.
"""

from __future__ import annotations

from spellbook.system.lazy import regex
from spellbook.text import credentials
from spellbook.text.unicode import IGNORABLE, composed

OMITTED = "\0"
"""Stands in a text for each private part."""

_LEFT = r"(?:[<＜﹤〈‹⟨]|&(?:amp;)*(?:lt|#0*60|#x0*3c);?)"
_RIGHT = r"(?:[>＞﹥〉›⟩]|&(?:amp;)*(?:gt|#0*62|#x0*3e);?)"
_SLASHES = r"/／∕⁄\\"
_NAME = f"[{IGNORABLE}]*".join(f"[{letter}{chr(ord(letter) + 0xFEE0)}]" for letter in "private") + r"\b"
_MARK = regex(
    # Attributes may follow. Without a blank before the name, no bracket need follow.
    rf"(?i){_LEFT}(?P<angle>[\s{_SLASHES}{IGNORABLE}]{{0,60}}){_NAME}[^<>＜＞]{{0,200}}?{_RIGHT}"
    rf"|{_LEFT}(?P<torn>[{_SLASHES}{IGNORABLE}]{{0,60}}){_NAME}"
    # `[private repository]` is the text of a link.
    rf"|[\[［【〔](?P<square>[\s{_SLASHES}{IGNORABLE}]{{0,60}}){_NAME}[\s{IGNORABLE}]{{0,60}}"
    r"(?:[^\[\]=:：]{0,100}[=:：][^\[\]]{0,200})?[\]］】〕]"
)
_SLASH = regex(f"[{_SLASHES}]")


def without_private(text: str) -> str:
    """Return a text with OMITTED in place of each private part."""
    kept = list[str]()
    depth = 0
    at = 0
    for mark in _MARK.finditer(text):
        is_end = _SLASH.search(mark["angle"] or mark["torn"] or mark["square"] or "")
        if not depth:
            kept += (text[at : mark.start()], "" if is_end else OMITTED)
        depth = max(0, depth + (-1 if is_end else 1))
        at = mark.end()
    return "".join(kept) + ("" if depth else text[at:])


def taken_out(text: str, most: int) -> tuple[str, int]:
    """Return at most so many letters of a text without secrets and OMITTED, and how many of these there were."""
    masked = credentials.masked(text, likely=True)
    count = masked.count("…") - composed(text).count("…") + text.count(OMITTED)
    kept = masked.replace(OMITTED, "").strip()
    return kept if len(kept) <= most else f"{kept[: most - 2]} …", count
