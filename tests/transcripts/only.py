"""
Which parts of an answer a transcript shows: the words of its last line `$ only …`, or of `$ once …` for one.

| Word | Shown |
| --- | --- |
| `.hits[].path` | of JSON: this value of each hit, and the objects and lists that lead to it; `.id|.path`, those that are there |
| `.error.message` | of JSON that says what is wrong: this value |
| `changes` | lines that the last answer of the same kind has not, after `+`, and those that only that one has, after `-`, unless the whole answer is as short |
| any other | of a text or a page: the lines in which this regular expression is found; of `A..B`, the lines from A to B |

An answer for which the filter has no word is whole. It is an error if a filter selects nothing of an answer for which it
has words, and if a word selects nothing at all: neither could fail. What is refused, and stderr, may be whole.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

WIDTH = 110
"""Letters of a line up to which a value of JSON stays on one line."""

CHANGES = "changes"


class Only:
    """The filter that `words` describe; without words everything is shown."""

    def __init__(self, words: str = "") -> None:
        self.words = words
        self.changes = CHANGES in shlex.split(words)
        self.unused = {word for word in shlex.split(words) if word != CHANGES}
        self.patterns = {word for word in self.unused if not word.startswith(".")}
        paths = {path for word in self.unused - self.patterns for path in word.split("|")}
        self.errors = {path for path in paths if f"{path}.".startswith(".error.")}
        self.paths = paths - self.errors

    def of_answer(self, answer: str, before: str | None) -> list[str]:
        """Return the lines that are shown of `answer`; `before` is the last answer of the same kind. Raises LookupError."""
        lines = self._selected(answer, self.paths)
        if not lines and answer.strip():
            raise LookupError(f"$ only {self.words}: it selects nothing of this answer:\n{answer}")
        if not self.changes or before is None:
            return lines
        changed = list(changes(self._selected(before, self.paths), lines)) or ["(as before)"]
        return min(lines, changed, key=len)

    def of_failed(self, answer: str) -> list[str]:
        """Return the lines that are shown of stderr and of what is refused: all, if the filter selects nothing of them."""
        return self._selected(answer, self.paths | self.errors) or answer.splitlines()

    def close(self) -> None:
        """Raise LookupError if a word selected nothing while the filter held."""
        if self.unused:
            raise LookupError(f"$ only {self.words}: {' '.join(sorted(self.unused))} selected nothing.")

    def _selected(self, answer: str, paths: set[str]) -> list[str]:
        lines = answer.splitlines()
        begin, value = _json(lines)
        if value is not None:
            used: set[str] = set()
            shown = _pruned(value, "", paths, used) if paths else value
            self.unused -= {word for word in self.unused if used & {*word.split("|")}}
            return [*lines[:begin], *laid(shown).splitlines()] if used or not paths else []
        if not self.patterns:
            return lines
        chosen = {pattern: _found(pattern, lines) for pattern in self.patterns}
        self.unused -= {pattern for pattern, numbers in chosen.items() if numbers}
        return [lines[number] for number in sorted(set().union(*chosen.values()))]


def laid(value: Any, indent: str = "") -> str:
    """
    Return JSON in lines that can be compared: a value that is too wide has a line for each of its parts. A part that is
    alone stands on the line of the value that holds it.
    """
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + len(indent) <= WIDTH or not isinstance(value, dict | list) or not value:
        return short
    named = (
        [(f"{json.dumps(key, ensure_ascii=False)}: ", value[key]) for key in value]
        if isinstance(value, dict)
        else [("", each) for each in value]
    )
    begin, end = short[0], short[-1]
    if len(named) == 1 and isinstance(named[0][1], dict | list):
        return f"{begin}{named[0][0]}{laid(named[0][1], indent)}{end}"
    deeper = f"{indent}  "
    parts = ",\n".join(f"{deeper}{name}{laid(each, deeper)}" for name, each in named)
    return f"{begin}\n{parts}\n{indent}{end}"


def _found(pattern: str, lines: list[str]) -> set[int]:
    """Return the numbers of the lines that `pattern` selects; `A..B` selects from A through the next B, or to the end."""
    first, to, last = pattern.partition("..")
    found: set[int] = set()
    for number, line in enumerate(lines):
        if re.search(first, line) and number not in found:
            ends = [end for end in range(number + 1, len(lines)) if last and re.search(last, lines[end])] if to else []
            found.update(range(number, (ends[0] if ends else len(lines) - 1) + 1) if to else {number})
    return found


def _pruned(value: Any, at: str, paths: set[str], used: set[str]) -> Any:
    """Return `value`, which stands at the path `at`, with no other values than those of `paths`; `used` gets these."""
    if (at or ".") in paths:
        used.add(at or ".")
        return value
    below = {path for path in paths if re.match(rf"{re.escape(at)}[.\[]", path)}
    if isinstance(value, list):
        if not value:
            used |= below
        return [_pruned(each, f"{at or '.'}[]", below, used) for each in value]
    if not isinstance(value, dict):
        return None
    keys = [key for key in value if any(f"{path}.".startswith((f"{at}.{key}.", f"{at}.{key}[")) for path in below)]
    return {key: _pruned(value[key], f"{at}.{key}", below, used) for key in keys}


def changes(old: list[str], new: list[str]) -> Iterator[str]:
    """Return the lines that only `old` has, after `-`, and those that only `new` has, after `+`."""
    for kind, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if kind != "equal":
            yield from (f"-{line}" for line in old[old_from:old_to])
            yield from (f"+{line}" for line in new[new_from:new_to])


def _json(lines: list[str]) -> tuple[int, Any]:
    """Return the JSON with which an answer ends, and the number of lines before it; its value is None if there is none."""
    for number, line in enumerate(lines):
        if line.startswith(("{", "[")):
            try:
                return number, json.loads("\n".join(lines[number:]))
            except ValueError:
                return 0, None
    return 0, None
