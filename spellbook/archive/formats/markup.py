"""
HTML as tags and text, in time that grows with its length alone, however broken it is. Pure.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Protocol

_TAG = re.compile(r"<(/?)([A-Za-z][^\s<>/\"'=]{0,100})")
_STOP = re.compile(r"[<>\"']")
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?""")
_LONG_NUMBER = re.compile(r"&(?=#[xX]?[0-9a-fA-F]{8})")
_RAW = {tag: re.compile(f"</{tag}", re.I) for tag in ("script", "style", "title")}


class TagHandler(Protocol):
    """What takes tags and text."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take a tag that opens, in lower case, with its attributes."""

    def end(self, tag: str) -> None:
        """Take a tag that closes."""

    def data(self, data: str) -> None:
        """Take text."""


def read(text: str, tree: TagHandler) -> None:
    """
    Feed a tree with tags and text.

    What is no whole tag is text. The standard library's parser takes quadratic time for unfinished tags; here each
    search that found nothing is not made again, and tags that break off cost a few times the text at most.
    """
    missing: set[str] = set()
    wasted, at = 0, 0

    def after(sign: str, start: int) -> int:
        """Return the position behind the next `sign`, -1 if there is none."""
        position = -1 if sign in missing else text.find(sign, start)
        missing.update([sign] if position < 0 else [])
        return position + len(sign) if position >= 0 else -1

    while at < len(text):
        opened = text.find("<", at) if wasted <= 4 * len(text) else -1
        opened = len(text) if opened < 0 else opened
        if opened > at:
            tree.data(_unescape(text[at:opened]))
        if opened == len(text):
            return
        name = _TAG.match(text, opened)
        end = -1
        if name:
            end = _tag_end(text, name.end())
            wasted += -end - opened if end < 0 else 0
        elif text[opened : opened + 2] in {"<!", "<?"}:
            is_text = text.startswith("<![CDATA[", opened)
            sign = "-->" if text.startswith("<!--", opened) else "]]>" if is_text else ">"
            end = after(sign, opened + 2)
            if is_text and end > 0:
                tree.data(text[opened + 9 : end - 3])
        if end < 0:
            tree.data("<")
            at = opened + 1
            continue
        at = end
        if not name:
            continue
        tag = name[2].lower()
        if name[1]:
            tree.end(tag)
            continue
        inner = text[name.end() : end - 1]
        tree.start(tag, {key.lower(): _unescape(a or b or c) for key, a, b, c in _ATTRIBUTE.findall(inner)})
        if inner.endswith("/"):
            tree.end(tag)
        elif tag in _RAW and tag not in missing:
            close = _RAW[tag].search(text, at)
            missing.update([] if close else [tag])
            if close:
                tree.data(text[at : close.start()])
                at = close.start()


def _tag_end(text: str, at: int) -> int:
    """Return the position behind a tag of which `at` is in; if it breaks off, the negative of where."""
    while sign := _STOP.search(text, at):
        at = sign.end()
        if sign[0] == ">":
            return at
        if sign[0] == "<":
            return -at
        if text[max(0, at - 20) : at - 1].rstrip().endswith("="):  # else the quote is a letter of a name
            close = text.find(sign[0], at)
            if close < 0:
                return -at
            at = close + 1
    return -len(text)


def _unescape(text: str) -> str:
    # Python refuses to read numbers of thousands of digits.
    return html.unescape(_LONG_NUMBER.sub("&amp;", text)) if "&" in text else text
