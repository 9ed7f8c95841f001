"""The text of an article's note, composed and read: its summary as a callout at the top, then the article. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from spellbook.notes.splitter import sentences
from spellbook.system.lazy import regex

CATEGORY = "article"

_CALLOUT = regex(r"\s*> ?\[!summary\][^\n]*\n(?P<quoted>(?:>[^\n]*(?:\n|\Z))*)", re.I)


class Article(NamedTuple):
    """The content of an article's note: its summary, "" if it has none, and the text below."""

    summary: str
    text: str


def composed(summary: str, text: str) -> str:
    """Return the body of an article's note. Both are Markdown."""
    lines = [f"> {line}".rstrip() for line in summary.strip().splitlines()]
    callout = "\n".join(["> [!summary]", *lines]) if lines else ""
    return "\n\n".join(filter(None, (callout, text.strip("\n"))))


def read(body: str) -> Article:
    """Return the content of an article's note by its body."""
    if not (match := _CALLOUT.match(body)):
        return Article("", body.strip("\n"))
    lines = (line.removeprefix(">").removeprefix(" ") for line in match["quoted"].splitlines())
    return Article("\n".join(lines).strip(), body[match.end() :].strip("\n"))


def with_summary(body: str, summary: str) -> tuple[str, str]:
    """Return a change of an article's body that gives it a summary: a unique old text, and the new one."""
    if match := _CALLOUT.match(body):
        return match[0].strip("\n"), composed(summary, "")
    first = ""
    for line in body.strip("\n").splitlines(keepends=True):
        first += line
        if body.count(first.rstrip("\n")) == 1:
            break
    first = first.rstrip("\n")
    return first, composed(summary, first)


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, at most `most` letters, to the end of a sentence if one ends in its last half."""
    if len(text) <= most:
        return text
    *whole, (start, _) = [*sentences(text[:most])] or [(0, most)]
    # The last sentence may be incomplete.
    end = whole[-1][1] if whole and whole[-1][1] * 2 >= most else start if start * 2 >= most else most
    return text[:end]
