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

Path = Sequence[str | int]
"""Where a value stands: the names of members and the numbers of items, from the root."""

_BOM = "\ufeff"
_BLANK = " \t\r\n"

_STRING = r'"(?:[^"\\]|\\.)*+"'
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.S)
_ASIDE = re.compile(rf"{_STRING}|(?P<comment>{_COMMENT.pattern})|(?P<constant>NaN|-?Infinity)", re.S)
_TRAILING = re.compile(rf'(?:{_STRING}|[^\s",:\[{{]++)(?:\s*+(?P<comma>,)(?=\s*[}}\]]))?', re.S)
"""The end of a value, with the comma behind it if a closing bracket follows."""
_NAME = re.compile(rf"\s*(?P<name>{_STRING})\s*:\s*", re.S)
_ITEM = re.compile(r"\s*(?P<name>)(?=[^\s\]])", re.S)
_COMMA = re.compile(r"\s*(?P<comma>,)")
_BEHIND = re.compile(r"(?:[ \t]*/\*.*?\*/)*(?:[ \t]*//[^\r\n]*)?", re.S)
"""Comments that begin behind something, on its line."""

_REASONS = {
    "Expecting value": "a value should stand here, not {0}",
    "Expecting ',' delimiter": "a comma or a closing bracket should stand here, not {0}",
    "Expecting ':' delimiter": "a colon should stand here, not {0}",
    "Expecting property name enclosed in double quotes": "a name in double quotes should stand here, not {0}",
    "Extra data": "nothing should follow the last bracket, and {0} does",
}
"""What Python's reader finds wrong, in our words; anything else is wrong in a text."""

# Python refuses to make an integer of more digits.
_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 4_000 else float(digits))


class Malformed(ValueError):
    """The text is no JSON, or not of the shape that was asked for; `line` is 1-based."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it stands in a text, from `start` to `end`, and what it says."""

    start: int
    end: int
    data: Any


@dataclass(frozen=True, slots=True)
class Member:
    """
    A member of an object, or an item of a list, whose name is its number: where it begins, and where the comma behind
    it is, if there is one.
    """

    name: str | int
    start: int
    value: Value
    comma: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its value; `bare` has blanks in place of comments, `plain` also in place of trailing commas."""

    text: str
    bare: str
    plain: str
    root: Value

    def members(self, holder: Value) -> Iterator[Member]:
        """Yield the members of an object or the items of a list."""
        at, pattern = holder.start + 1, _NAME if isinstance(holder.data, dict) else _ITEM
        for number in count():
            if not (name := pattern.match(self.plain, at)):
                return
            data, end = _DECODER.raw_decode(self.plain, name.end())
            comma = _COMMA.match(self.bare, end)
            value = Value(name.end(), end, data)
            called = json.loads(name["name"]) if pattern is _NAME else number
            start = name.start("name") if pattern is _NAME else name.end()
            yield Member(called, start, value, comma and comma.start("comma"))
            at = comma.end() if comma else end

    def member(self, holder: Value, name: str | int) -> Member | None:
        """Return a member by its name, or an item by its number. Raises Malformed if `holder` has none of that kind."""
        if isinstance(name, str) and not isinstance(holder.data, dict):
            reason = f"an object in braces should stand here, to hold {json.dumps(name)}"
            raise Malformed(_line(self.text, holder.start), reason)
        if isinstance(name, int) and not isinstance(holder.data, list):
            raise Malformed(_line(self.text, holder.start), "a list in brackets should stand here")
        # Of two with one name, the last is the one that counts.
        return next((member for member in reversed([*self.members(holder)]) if member.name == name), None)


def parse(text: str, *, comments: bool = True) -> Document:
    """Return what `text` holds. Without `comments`, these and trailing commas are Malformed too."""
    bare = _ASIDE.sub(lambda match: re.sub(r"[^\r\n]", " ", match[0]) if match["comment"] else match[0], text)
    bare = bare.replace(_BOM, " ", 1) if bare.startswith(_BOM) else bare
    plain = _TRAILING.sub(lambda match: f"{match[0][:-1]} " if match["comma"] else match[0], bare)
    if not comments:
        if (place := _first(_ASIDE, "comment", text)) is not None:
            raise Malformed(_line(text, place), "a comment, which is not allowed in this file")
        if (place := _first(_TRAILING, "comma", bare)) is not None:
            closing = bare[place + 1 :].lstrip()[0]
            raise Malformed(_line(text, place), f"a comma before {closing}, which is not allowed in this file")
    try:
        if (place := _first(_ASIDE, "constant", bare)) is not None:  # Python would read it as a number
            raise json.JSONDecodeError("Expecting value", plain, place)
        data = _DECODER.decode(plain)
    except RecursionError as error:
        raise Malformed(1, "too deeply nested") from error
    except json.JSONDecodeError as error:
        shown = plain[error.pos : error.pos + 10].split("\n")[0].rstrip()
        reason = _REASONS.get(error.msg, "this text does not end on its line, or has a wrong escape in it")
        wrong = reason.replace("{0}", repr(shown) if plain[error.pos :].strip() else "the end of the file")
        raise Malformed(_line(text, error.pos), wrong) from error
    return Document(text, bare, plain, Value(len(plain) - len(plain.lstrip()), len(plain.rstrip()), data))


def get(text: str, path: Path) -> Any:
    """Return what stands at `path`, names and numbers from the root; None if nothing does. Raises Malformed."""
    if is_blank(text):
        return None
    document = parse(text)
    value = document.root
    for name in path:
        member = document.member(value, name)
        if member is None:
            return None
        value = member.value
    return value.data


def put(text: str, path: Path, data: Any) -> str:
    """
    Return `text` with `data` at `path` and nothing else changed.

    Objects that are not there yet are made; an item whose number is past the end of its list is added to it; what says
    so already is left as it is written. Raises Malformed if the text is no JSON, or if something on the way is no
    object and no list.
    """
    if is_blank(text):
        mark, blank = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
        return mark + _render(_nest(path, data), _newline(text), "", "  ") + (blank or "\n")
    document = parse(text)
    value = document.root
    for depth, name in enumerate(path):
        member = document.member(value, name)
        if member is None:
            return _insert(document, value, name, _nest(path[depth + 1 :], data))
        value = member.value
    if value.data == data:
        return text
    shown = _render(data, _newline(text), _indent(text, value.start), _unit(document))
    return text[: value.start] + shown + text[value.end :]


def remove(text: str, path: Path) -> str:
    """Return `text` without what stands at `path`, and with nothing else changed. Raises Malformed as `put` does."""
    document = parse(text)
    holder, member = document.root, None
    for name in path:
        holder = member.value if member else holder
        member = document.member(holder, name)
        if member is None:
            return text
    assert member is not None
    members = [*document.members(holder)]
    number = members.index(member)
    before = members[number - 1] if number else None
    comma = before.comma if before and member.comma is None else member.comma
    start = len(text[: member.start].rstrip(_BLANK))
    rest = member.value.end if member.comma is None else member.comma + 1
    behind = text[rest:].lstrip(" \t")[:1]
    comments = _COMMENT.findall(text, before.comma + 1 if before and before.comma else holder.start + 1, start)
    in_comment = comments and comments[-1].startswith("//") and behind not in {"\r", "\n"}
    if "\n" in text[start : member.start] and (behind == "/" or in_comment):
        start = member.start  # what follows on its line must not come to stand behind, or in, the comment of another
    cuts = [(start, member.value.end), *([(comma, comma + 1)] if comma is not None else [])]
    shorter = text
    for place, end in sorted(cuts, reverse=True):
        shorter = shorter[:place] + shorter[end:]
    end = holder.end - (len(text) - len(shorter))
    if not shorter[holder.start + 1 : end - 1].strip(_BLANK):
        return shorter[: holder.start + 1] + shorter[end - 1 :]
    return shorter


def is_blank(text: str) -> bool:
    """Say whether `text` is empty or blank, as in a settings file that a program has just created."""
    return not text.removeprefix(_BOM).strip(_BLANK)


def _nest(path: Path, data: Any) -> Any:
    for name in reversed(path):
        data = {name: data} if isinstance(name, str) else [data]
    return data


def _insert(document: Document, holder: Value, name: str | int, data: Any) -> str:
    """Add a member or an item to `holder`, as its last."""
    text, newline, unit = document.text, _newline(document.text), _unit(document)
    named = f"{json.dumps(name, ensure_ascii=False)}: " if isinstance(name, str) else ""
    in_line = named + json.dumps(data, ensure_ascii=False)

    def on_lines(indent: str) -> str:
        return newline + indent + named + _render(data, newline, indent, unit)

    if holder.data:
        *_, last = document.members(holder)
        end = last.value.end if last.comma is None else last.comma + 1
        comma, trailing = (",", "") if last.comma is None else ("", ",")
        added = f" {in_line}"
        if _begins_its_line(text, last.start):
            behind = _BEHIND.match(text, end)
            end = behind.end() if behind else end
            added = on_lines(_indent(text, last.start))
        return text[: last.value.end] + comma + text[last.value.end : end] + added + trailing + text[end:]

    inside = text[holder.start + 1 : holder.end - 1]
    kept = inside.rstrip(_BLANK)
    if document.root.data and "\n" not in text.strip(_BLANK):
        added = in_line
    else:
        indent, blank = _indent(text, holder.start), inside[len(kept) :]
        added = on_lines(indent + unit) + (blank if "\n" in blank else newline + indent)
    return text[: holder.start + 1] + kept + added + text[holder.end - 1 :]


def _render(data: Any, newline: str, indent: str, unit: str) -> str:
    return json.dumps(data, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(document: Document) -> str:
    """How far the text indents, by its first member."""
    text, first = document.text, next(document.members(document.root), None)
    if first and _begins_its_line(text, first.start):
        return _indent(text, first.start).removeprefix(_indent(text, document.root.start)) or "  "
    return "  "


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_its_line(text: str, place: int) -> bool:
    newline = text.rfind("\n", 0, place)
    return newline >= 0 and not text[newline:place].strip(_BLANK)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _first(pattern: re.Pattern[str], group: str, text: str) -> int | None:
    """Return where the first match that has `group` has it."""
    return next((match.start(group) for match in pattern.finditer(text) if match[group]), None)
