"""
JSON with comments, edited as text: what an edit does not name keeps its every byte.

Comments, trailing commas, order, indentation, line ends and a byte order mark
stay, and what is put in is written as its neighbours are. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from spellbook.notes.note import newline
from spellbook.system.lazy import regex

Path = Sequence[str | int]
"""Where a value stands: the names of members and the numbers of items, from the root."""

_BOM = "\ufeff"
_BLANK = " \t\r\n"

_STRING = r'"(?:[^"\\]|\\.)*+"'
_COMMENT = regex(rf"{_STRING}|(?P<aside>//[^\r\n]*|/\*.*?\*/|\A{_BOM})", re.S)
_TRAILING = regex(rf"{_STRING}|(?P<aside>,)(?=\s*[}}\]])", re.S)
_NAME = regex(rf"\s*(?P<name>{_STRING})\s*:\s*", re.S)
_ITEM = regex(r"\s*(?P<name>)(?=[^\s\]])")
_COMMA = regex(r"\s*,")
_BEHIND = regex(r"(?:[ \t]*/\*.*?\*/)*(?:[ \t]*//[^\r\n]*)?", re.S)
"""Comments that begin behind something, on its line."""
_INDENTED = regex(r"\n([ \t]+)\S")


class Malformed(ValueError):
    """The text is no JSON, or not of the shape that was asked for; `line` is 1-based."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Member:
    """
    A member of an object, an item of a list, whose name is its number, or the root of a text.

    `begin` is where its name begins; its value stands from `start` to `end`, and `stop` is behind the comma that
    follows, or `end` if none does.
    """

    name: str | int
    begin: int
    start: int
    end: int
    stop: int
    data: Any


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its value; `bare` has blanks in place of comments, `plain` also in place of trailing commas."""

    text: str
    bare: str
    plain: str
    root: Member

    def members(self, holder: Member) -> Iterator[Member]:
        """Yield the members of an object or the items of a list."""
        at = holder.start + 1
        pattern = _NAME if isinstance(holder.data, dict) else _ITEM
        for number in count():
            if not (name := pattern.match(self.plain, at)):
                return
            data, end = _DECODER.raw_decode(self.plain, name.end())
            comma = _COMMA.match(self.bare, end)
            at = comma.end() if comma else end
            called = json.loads(name["name"]) if pattern is _NAME else number
            begin = name.start("name") if pattern is _NAME else name.end()
            yield Member(called, begin, name.end(), end, at, data)

    def way(self, path: Path) -> list[Member]:
        """Return the root and the members on `path`, as far as they are there. Raises Malformed for another shape."""
        way = [self.root]
        for name in path:
            if not isinstance(way[-1].data, dict if isinstance(name, str) else list):
                wanted = f"an object in braces should stand here, to hold {json.dumps(name)}"
                wanted = wanted if isinstance(name, str) else "a list in brackets should stand here"
                raise Malformed(self.text.count("\n", 0, way[-1].start) + 1, wanted)
            # Of two with one name, the last is the one that counts.
            found = [member for member in self.members(way[-1]) if member.name == name]
            if not found:
                break
            way.append(found[-1])
        return way


def parse(text: str, *, comments: bool = True) -> Document:
    """Return what `text` holds. Without `comments`, these and trailing commas are Malformed too."""
    bare = _COMMENT.sub(_blank, text) if comments else text.replace(_BOM, " ", 1)
    plain = _TRAILING.sub(_blank, bare) if comments else bare
    try:
        data = _DECODER.decode(plain)
    except RecursionError as error:
        raise Malformed(1, "too deeply nested") from error
    except ValueError as error:
        reason = getattr(error, "msg", error)
        raise Malformed(getattr(error, "lineno", 1), f"this is not JSON ({reason})") from error
    end = len(plain.rstrip())
    return Document(text, bare, plain, Member("", 0, len(plain) - len(plain.lstrip()), end, end, data))


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\r\n]", " ", match[0]) if match["aside"] else match[0]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def get(text: str, path: Path) -> Any:
    """Return what stands at `path`, names and numbers from the root; None if nothing does. Raises Malformed."""
    way = [] if is_blank(text) else parse(text).way(path)
    return way[-1].data if len(way) > len(path) else None


def put(text: str, path: Path, data: Any) -> str:
    """
    Return `text` with `data` at `path` and no other change; an equal value stays as it is written.

    Missing objects are made; an item with a number past the end of its list is appended. Raises Malformed if the text
    is no JSON, or if something on the path is neither object nor list.
    """
    if is_blank(text):
        mark, blank = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
        return mark + _render(text, nest(path, data), "") + (blank or "\n")
    document = parse(text)
    way = document.way(path)
    if len(way) <= len(path):
        return _insert(document, way[-1], path[len(way) - 1], nest(path[len(way) :], data))
    there = way[-1]
    if there.data == data:
        return text
    return text[: there.start] + _render(text, data, _indent(text, there.start)) + text[there.end :]


def remove(text: str, path: Path) -> str:
    """Return `text` without what stands at `path`, and with nothing else changed. Raises Malformed as `put` does."""
    document = parse(text)
    way = document.way(path)
    if len(way) <= len(path):
        return text
    holder, member = way[-2:]
    start = len(text[: member.begin].rstrip(_BLANK))
    comments = [match["aside"] or "" for match in _COMMENT.finditer(text[:start]) if match.end() == start]
    follows = text[member.stop :].lstrip(" \t")[:1]
    if any(comment.startswith("//") for comment in comments) and follows not in {"\r", "\n"}:
        start = member.begin  # what follows on its line must not come to stand in the comment of another
    before = [each for each in document.members(holder) if each.stop <= member.begin]
    if before and member.stop == member.end:  # the last, and the one before it has a comma
        comma = before[-1].stop - 1
        return text[:comma] + text[comma + 1 : start] + text[member.end :]
    return text[:start] + text[member.end : member.stop - 1] + text[member.stop :]


def is_blank(text: str) -> bool:
    """Say whether `text` is empty or blank, as in a settings file that a program has just created."""
    return not text.removeprefix(_BOM).strip(_BLANK)


def nest(path: Path, data: Any) -> Any:
    """Return `data` in the objects and lists that `path` names."""
    for name in reversed(path):
        data = {name: data} if isinstance(name, str) else [data]
    return data


def _insert(document: Document, holder: Member, name: str | int, data: Any) -> str:
    """Add a member or an item to `holder`, as its last."""
    text = document.text
    line_end = newline(document.text)
    named = f"{json.dumps(name, ensure_ascii=False)}: " if isinstance(name, str) else ""
    in_line = named + json.dumps(data, ensure_ascii=False)
    if holder.data:
        *_, last = document.members(holder)
        end = last.stop
        added = f" {in_line}"
        line = text[text.rfind("\n", 0, last.begin) + 1 : last.begin]
        if not line.strip(_BLANK) and "\n" in text[: last.begin]:
            behind = _BEHIND.match(text, end)
            end = behind.end() if behind else end
            added = f"{line_end}{line}{named}{_render(text, data, line)}"
        comma, trailing = (",", "") if last.stop == last.end else ("", ",")
        return text[: last.end] + comma + text[last.end : end] + added + trailing + text[end:]
    kept = text[: holder.end - 1].rstrip(_BLANK)
    if document.root.data and "\n" not in text.strip(_BLANK):
        return kept + in_line + text[holder.end - 1 :]
    indent = _indent(text, holder.start)
    inner = indent + _unit(text)
    return f"{kept}{line_end}{inner}{named}{_render(text, data, inner)}{line_end}{indent}{text[holder.end - 1 :]}"


def _render(text: str, data: Any, indent: str) -> str:
    return json.dumps(data, ensure_ascii=False, indent=_unit(text)).replace("\n", newline(text) + indent)


def _unit(text: str) -> str:
    """Return the indentation of the first indented line."""
    first = _INDENTED.search(text)
    return first[1] if first else "  "


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]
