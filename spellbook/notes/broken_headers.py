"""
Frontmatter that is no YAML: its cause in plain words, and quotes where only one reading of a value is possible. Pure.

Which characters cannot begin a plain value, and which end one, say sections 7.3.3 and 5.3 of YAML 1.2.2
(https://yaml.org/spec/1.2.2/#plain-style, #indicator-characters).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from spellbook.system.lazy import regex

COLON = "a colon inside the text: put it in quotes"
QUOTE = "a quote inside the text: put all of the text in quotes"
OPEN = "a quote that is not closed: close it"
TAB = "a tab in front of the line: use spaces"
SIGN = "a sign in front of the text that YAML reserves (@ ` % * & !): put the text in quotes"
BRACKET = "a bracket in front of the text: put it in quotes, or close the list"
BLANK = "no blank after the colon: write `key: value`"

PLACEHOLDER = "the frontmatter cannot be read: put the {{…}} of a template into quotes"
"""The fault of a header that a template has not filled in yet: nothing that a person should mend."""

IS_PLACEHOLDER = regex(r"\{\{.*\}\}|<%.*%>|\bYYYY\b|\bgggg\b")
"""Matches what Obsidian's Templates and Templater replace; formats of dates are those of Moment."""

CAUSES = (COLON, QUOTE, OPEN, TAB, SIGN, BRACKET, BLANK)
"""The causes that are told for many notes at once."""

_LINE = regex(
    r"(?P<head>(?P<key>[^\s\-?:,\[\]{}#&*!|>'\"%@`][^:#\"'\r\n]*):[ ]+|[ ]*-[ ]+)(?P<value>[^\s#].*?)(?P<rest>[ \t]*)"
)
_GLUED = regex(r"[^\W\d][\w-]*:[^\s/:].*")
_BLOCK = regex(r"(?:.*:|[ ]*-)[ ]+[|>][-+0-9]{0,2}(?:[ ]+#.*)?[ \t]*")
_ONE_BRACKET = regex(r"\[{1,2}[^\[\],{}]+\]{1,2}(?![ ]*,)[^\[\]{}]+")
_ONE_QUOTE = regex(r"\"[^\"]*\"[^\"]*[^\"\s]|'[^']*'[^']*[^'\s]")


class Quoted(NamedTuple):
    """A value that gets quotes: its 0-based line, its key ("" of an item of a list), its text, and the new line."""

    line: int
    key: str
    text: str
    new: str


def cause(header: str, line: int) -> tuple[str, int] | None:
    """Return why a header is no YAML and the 0-based line, seen from where the parser stopped; None if unknown."""
    source = header.splitlines()
    # A quote or a line without a blank is noticed on a later line.
    near = [line, *range(line - 1, -1, -1)]
    for at in (each for each in near if each < len(source)):
        if IS_PLACEHOLDER.search(source[at]) and at == line:
            return PLACEHOLDER, at
        if re.match(r"[ ]*\t\s*\S", source[at]):
            return TAB, at
        if _GLUED.fullmatch(source[at]) and ": " not in source[at]:
            return BLANK, at
        match = _LINE.fullmatch(source[at])
        if match and (found := _cause_of(match["value"], at == line)) and (at == line or found in {OPEN, BRACKET}):
            return found, at
    return None


def _cause_of(value: str, is_here: bool) -> str:
    """Return the cause that a value of one line gives, "" if none. `is_here`: the parser stopped in this line."""
    first = value[0]
    if first in "\"'":
        return OPEN if first not in value[1:] else "" if _is_closed(value) else QUOTE
    if first in "[{":
        is_open = value.count("[") != value.count("]") or value.count("{") != value.count("}")
        return SIGN if re.search(r"[\[,][ ]*[@`%]", value) else BRACKET if is_here or is_open else ""
    if first in "@`%*&!":
        return SIGN
    return COLON if re.search(r":(?:\s|$)", value) else ""


def _is_closed(value: str) -> bool:
    return bool(re.fullmatch(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'", value))


def quoted(header: str, is_yaml: Callable[[str], bool]) -> tuple[Quoted, ...]:
    """
    Return the values to put in quotes, none if any line of the header has two readings.

    `is_yaml` says if a text is YAML by itself. The caller reads the new header: only then is it certain.
    """
    source = header.splitlines(keepends=True)
    found: list[Quoted] = []
    for at, line in _lines(source):
        match = _LINE.fullmatch(line)
        if match is None or is_yaml(line):
            continue
        goes_on = at + 1 < len(source) and re.match(r"[ \t]+[^\s#-]", source[at + 1])
        if goes_on or not _is_certain(match["value"], match["key"] or "", header):
            return ()
        value = match["value"]
        text = f"'{value.replace(chr(39), chr(39) * 2)}'" if re.search(r'["\\]', value) else f'"{value}"'
        found.append(Quoted(at, match["key"] or "", value, f"{match['head']}{text}{match['rest']}"))
    return tuple(found)


def _lines(source: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines without their ends, but not those of a text of several lines (`|`, `>`)."""
    depth = -1
    for at, line in enumerate(source):
        text = line.rstrip("\r\n")
        indent = len(text) - len(text.lstrip())
        if depth >= 0 and (indent > depth or not text.strip()):
            continue
        depth = indent if _BLOCK.fullmatch(text) else -1
        yield at, text


def _is_certain(value: str, key: str, header: str) -> bool:
    """Return whether a value that is no YAML can only be the text that stands there."""
    if not value.isprintable() or re.search(r"\s#", value) or IS_PLACEHOLDER.search(value):
        return False
    if not key and re.search(r":(?:\s|$)", value):  # a mapping in a list, or a text
        return False
    if value[0] in "\"'":
        return _ONE_QUOTE.fullmatch(value) is not None
    if value[0] == "[":
        return _ONE_BRACKET.fullmatch(value) is not None
    if value[0] == "*":
        return "&" not in header
    if value[0] == "!":  # a tag of another program
        return not re.match(r"![\w!]*\w", value)
    return value[0] in "@`%&" or (value[0] not in "{|>-?" and re.search(r":(?:\s|$)", value) is not None)
