"""
JSON with comments, edited as text: what an edit does not name keeps its every byte.

Comments, trailing commas, order, indentation, line ends and a byte order mark
stay, and what is put in is written as its neighbours are. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

_BOM = "\ufeff"
_BLANK = " \t\r\n"
_MOST_NESTED = 200

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.S)
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.S)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"(?:true|false|null)(?!\w)")
_BEHIND = re.compile(r"(?:[ \t]*/\*.*?\*/)*(?:[ \t]*//[^\r\n]*)?", re.S)
"""Comments that begin behind something, on its line."""


class Malformed(ValueError):
    """The text is no JSON, or not of the shape that was asked for; `line` is 1-based."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it stands in a text, from `start` to `end`: what it says, and its members if it is an object."""

    start: int
    end: int
    data: Any
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object: where its name begins, and where the comma behind it is, if there is one."""

    name: str
    start: int
    value: Value
    comma: int | None


def parse(text: str, *, comments: bool = True) -> Value:
    """
    Return the value that `text` holds.

    Without `comments` there must be none, nor a comma before a closing
    bracket. Raises Malformed.
    """
    return _Reader(text, comments).whole()


def get(text: str, path: Sequence[str]) -> Any:
    """Return what stands at `path`, the names of members from the root; None if nothing does. Raises Malformed."""
    if is_blank(text):
        return None
    value = parse(text)
    for name in path:
        member = _member(text, value, name)
        if member is None:
            return None
        value = member.value
    return value.data


def put(text: str, path: Sequence[str], data: Any) -> str:
    """
    Return `text` with `data` at `path` and nothing else changed.

    Objects that are not there yet are made; what says so already is left as
    it is written. Raises Malformed if the text is no JSON, or if something on
    the way is no object.
    """
    if is_blank(text):
        mark, blank = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
        return mark + _rendered(_nested(path, data), _newline(text), "", "  ") + (blank or "\n")
    root = value = parse(text)
    for depth, name in enumerate(path):
        member = _member(text, value, name)
        if member is None:
            return _insert(text, root, value, name, _nested(path[depth + 1 :], data))
        value = member.value
    if value.data == data:
        return text
    return (
        text[: value.start]
        + _rendered(data, _newline(text), _indent(text, value.start), _unit(text, root))
        + text[value.end :]
    )


def remove(text: str, path: Sequence[str]) -> str:
    """Return `text` without what stands at `path`, and with nothing else changed. Raises Malformed as `put` does."""
    *above, name = path
    holder = parse(text)
    for step in above:
        member = _member(text, holder, step)
        if member is None:
            return text
        holder = member.value
    member = _member(text, holder, name)
    if member is None:
        return text
    number = holder.members.index(member)
    before = holder.members[number - 1] if number else None
    comma = before.comma if before and member.comma is None else member.comma
    start = len(text[: member.start].rstrip(_BLANK))
    rest = member.value.end if member.comma is None else member.comma + 1
    behind = text[rest:].lstrip(" \t")[:1]
    comments = _COMMENT.findall(text, before.comma + 1 if before and before.comma else holder.start + 1, start)
    in_comment = comments and comments[-1].startswith("//") and behind not in {"\r", "\n"}
    if "\n" in text[start : member.start] and (behind == "/" or in_comment):
        start = member.start  # what follows on its line must not come to stand behind, or in, the comment of another
    cuts = [(start, member.value.end), *([(comma, comma + 1)] if comma is not None else [])]
    shorter = _without(text, cuts)
    end = holder.end - (len(text) - len(shorter))
    if not shorter[holder.start + 1 : end - 1].strip(_BLANK):
        return shorter[: holder.start + 1] + shorter[end - 1 :]
    return shorter


def is_blank(text: str) -> bool:
    """Say whether `text` is empty or blank, as in a settings file that a program has just created."""
    return not text.removeprefix(_BOM).strip(_BLANK)


def _member(text: str, holder: Value, name: str) -> Member | None:
    if not isinstance(holder.data, dict):
        raise Malformed(_line(text, holder.start), f"an object in braces should stand here, to hold {json.dumps(name)}")
    # Of two with one name, the last is the one that counts.
    return next((member for member in reversed(holder.members) if member.name == name), None)


def _nested(path: Sequence[str], data: Any) -> Any:
    for name in reversed(path):
        data = {name: data}
    return data


def _without(text: str, cuts: Sequence[tuple[int, int]]) -> str:
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def _insert(text: str, root: Value, holder: Value, name: str, data: Any) -> str:
    """Add a member to `holder`, as its last."""
    newline, unit = _newline(text), _unit(text, root)
    in_line = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(data, ensure_ascii=False)}"

    def on_lines(indent: str) -> str:
        return newline + indent + f"{json.dumps(name, ensure_ascii=False)}: {_rendered(data, newline, indent, unit)}"

    if holder.members:
        last = holder.members[-1]
        end = last.value.end if last.comma is None else last.comma + 1
        comma, trailing = (",", "") if last.comma is None else ("", ",")
        if not _begins_its_line(text, last.start):
            return text[: last.value.end] + comma + text[last.value.end : end] + " " + in_line + trailing + text[end:]
        behind = _BEHIND.match(text, end)
        place = behind.end() if behind else end
        return (
            text[: last.value.end]
            + comma
            + text[last.value.end : place]
            + on_lines(_indent(text, last.start))
            + trailing
            + text[place:]
        )

    inside = text[holder.start + 1 : holder.end - 1]
    kept = inside.rstrip(_BLANK)
    if root.members and "\n" not in text.strip(_BLANK):
        added = in_line
    else:
        indent, blank = _indent(text, holder.start), inside[len(kept) :]
        added = on_lines(indent + unit) + (blank if "\n" in blank else newline + indent)
    return text[: holder.start + 1] + kept + added + text[holder.end - 1 :]


def _rendered(data: Any, newline: str, indent: str, unit: str) -> str:
    return json.dumps(data, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str, root: Value) -> str:
    """How far the text indents, by its first member."""
    if root.members and _begins_its_line(text, root.members[0].start):
        return _indent(text, root.members[0].start).removeprefix(_indent(text, root.start)) or "  "
    return "  "


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_its_line(text: str, place: int) -> bool:
    newline = text.rfind("\n", 0, place)
    return newline >= 0 and not text[newline:place].strip(_BLANK)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


class _Reader:
    """Reads one value after another, from left to right."""

    def __init__(self, text: str, comments: bool) -> None:
        self._text = text
        self._comments = comments
        self._place = 1 if text.startswith(_BOM) else 0

    def whole(self) -> Value:
        self._skip()
        value = self._value(0)
        self._skip()
        if self._place < len(self._text):
            raise self._fault(f"nothing should follow the last bracket, and {self._shown()} does")
        return value

    def _value(self, depth: int) -> Value:
        start = self._place
        data: Any
        if depth > _MOST_NESTED:
            raise self._fault("too deeply nested")
        match self._letter():
            case "{":
                pairs = self._elements("}", lambda: self._pair(depth + 1))
                members = tuple(Member(name, place, value, comma) for (name, place, value), comma in pairs)
                return Value(start, self._place, {member.name: member.value.data for member in members}, members)
            case "[":
                data = [value.data for value, _ in self._elements("]", lambda: self._value(depth + 1))]
            case '"':
                data = self._string()
            case letter if letter and letter in "-0123456789":
                number = self._take(_NUMBER, "this is no number")
                data = int(number) if len(number) < 20 and number.lstrip("-").isdigit() else float(number)
            case _:
                data = _WORDS[self._take(_WORD, f"a value should stand here, not {self._shown()}")]
        return Value(start, self._place, data)

    def _elements(self, closing: str, read: Callable[[], T]) -> Iterator[tuple[T, int | None]]:
        """Read what stands between brackets, each with the place of the comma behind it."""
        self._place += 1
        self._skip()
        while self._letter() != closing:
            element, comma = read(), None
            self._skip()
            if self._letter() == ",":
                comma = self._place
                self._place += 1
                self._skip()
                if self._letter() == closing and not self._comments:
                    raise self._fault(f"a comma before {closing}, which is not allowed in this file", comma)
            elif self._letter() != closing:
                raise self._fault(f"a comma or {closing} should stand here, not {self._shown()}")
            yield element, comma
        self._place += 1

    def _pair(self, depth: int) -> tuple[str, int, Value]:
        start = self._place
        if self._letter() != '"':
            raise self._fault(f"a name in double quotes should stand here, not {self._shown()}")
        name = self._string()
        self._skip()
        if self._letter() != ":":
            raise self._fault(f"a colon should stand here, not {self._shown()}")
        self._place += 1
        self._skip()
        return name, start, self._value(depth)

    def _string(self) -> str:
        return str(json.loads(self._take(_STRING, "this text does not end on its line, or has a wrong escape in it")))

    def _take(self, form: re.Pattern[str], fault: str) -> str:
        found = form.match(self._text, self._place)
        if found is None:
            raise self._fault(fault)
        self._place = found.end()
        return found[0]

    def _skip(self) -> None:
        found = _SKIPPED.match(self._text, self._place)
        end = found.end() if found else self._place
        comment = self._text.find("/", self._place, end)
        if comment >= 0 and not self._comments:
            raise self._fault("a comment, which is not allowed in this file", comment)
        self._place = end

    def _letter(self) -> str:
        return self._text[self._place : self._place + 1]

    def _shown(self) -> str:
        return (
            repr(self._text[self._place : self._place + 10].split("\n")[0].rstrip())
            if self._letter()
            else "the end of the file"
        )

    def _fault(self, reason: str, place: int | None = None) -> Malformed:
        return Malformed(_line(self._text, self._place if place is None else place), reason)
