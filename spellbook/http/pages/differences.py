"""The differences of two texts of a note as a page shows them: by words, the properties apart, without their times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spellbook.notes.frontmatter import header_in
from spellbook.system.lazy import regex
from spellbook.text.diff import Span, changed_spans

KEPT = ("id", "agent", "generated", "verified", "claimed", "created", "updated", "modified")
"""Keys that nobody edits: what writes a note sets them."""

_AROUND = 1
"""Lines that are shown before and after a change."""

_ALIKE = 0.3
"""The least share of letters in words that stay, for two texts to be compared by words. By hand."""

_SET_LINE = regex(rf"(?:{'|'.join(KEPT)})[ \t]*[:=]")
_WORD = regex(
    r"\n\s*|\A\s+|(?:\d[\d.,:]*\d|[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])\w)+|[^\w\s])[^\S\n]*"
)
"""A word with the space behind it, or the end of a line. A letter of Chinese or Japanese is a word."""

_FILE = regex(r"^--- .*\n\+{3} (.*)\n(?=@@ )", re.M)
_HUNK = regex(r"^@@ .*\n", re.M)


class WordRun(NamedTuple):
    """A run of text that stays (""), or that goes ("del") or comes ("ins")."""

    kind: str
    text: str


Block = list[WordRun]
"""A change with the lines around it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes of a file: of its properties and of its text. `name` is its path, "" if the page names it."""

    name: str
    properties: list[Block]
    text: list[Block]


def compared(before: str, after: str, name: str = "") -> Difference:
    """Return the difference of two texts of a note."""
    headers = [header_in(text) for text in (before, after)]
    bodies = [text[header.end() if header else 0 :] for text, header in zip((before, after), headers, strict=True)]
    lines = [header[1].splitlines() if header else [] for header in headers]
    properties = [[line for line in each if not _SET_LINE.match(line)] for each in lines]
    return Difference(name, [*_blocks(*properties)], [*_blocks(*(body.splitlines() for body in bodies))])


def of_patch(patch: str) -> list[Difference]:
    """Return the differences of a unified diff, hunk by hunk; properties are known where the first line is shown."""
    found = []
    files = _FILE.split(patch)
    for name, hunks in zip(files[1::2], files[2::2], strict=True):
        for hunk in _HUNK.split(hunks)[1:]:
            lines = hunk.splitlines()
            old, new = ("\n".join(line[1:] for line in lines if line[:1] in (" ", sign)) for sign in "-+")
            found.append(compared(old, new, name.removeprefix("b/")))
    return found


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[Block]:
    """Yield the changes between lines, each with a line before and after it; near ones are one."""
    block: Block = []
    done = 0
    for first, last, start, stop in changed_spans(old, new):
        if block and start - done > 2 * _AROUND:
            yield [*block, *_same(new[done : done + _AROUND])]
            block = []
        block += _same(new[done if block else max(0, start - _AROUND) : start])
        block += _by_words(_joined(old[first:last]), _joined(new[start:stop]))
        done = stop
    if block:
        yield [*block, *_same(new[done : done + _AROUND])]


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _same(lines: Sequence[str]) -> Block:
    return [WordRun("", _joined(lines))] if lines else []


def _by_words(old: str, new: str) -> Block:
    """Return the words that go, come and stay between two texts; if few stay, one text and then the other."""
    was = _WORD.findall(old)
    now = _WORD.findall(new)
    spans: list[Span] = []
    for first, last, start, stop in changed_spans([*map(str.rstrip, was)], [*map(str.rstrip, now)]):
        if spans and not any(word[0].isalnum() for word in now[spans[-1][3] : start]):
            first, _, start, _ = spans.pop()  # signs alone belong to the changes beside them
        spans.append((first, last, start, stop))
    staying = len(now) - sum(stop - start for _, _, start, stop in spans)
    if not spans or staying < _ALIKE * max(len(was), len(now)):
        return [part for part in (WordRun("del", old), WordRun("ins", new)) if part.text]
    parts: list[WordRun] = []
    at = 0
    for first, last, start, stop in spans:
        runs = {"": now[at:start], "del": was[first:last], "ins": now[start:stop]}
        parts += [WordRun(kind, "".join(words)) for kind, words in runs.items() if words]
        at = stop
    return [*parts, WordRun("", "".join(now[at:]))]
