"""The differences of two texts of a note as a page shows them: by words, the properties apart, without their times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from spellbook.notes.frontmatter import header_in
from spellbook.system.lazy import regex
from spellbook.text.diff import Span, changed_spans

KEPT = ("id", "agent", "created", "updated", "modified")
"""Keys that nobody edits: what writes a note sets them."""

_AROUND = 1
"""Lines that are shown before and after a change."""

_ALIKE = 0.3
"""The least share of letters in words that stay, for two texts to be compared by words. By hand."""

_SET_LINE = regex(rf"(?:{'|'.join(KEPT)})[ \t]*[:=]")
_WORD = regex(r"\d[\d.,:]*\d|[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])\w)+|[^\w\s]")
_HUNK = regex(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class Part(NamedTuple):
    """A run of text that stays (""), or that goes ("del") or comes ("ins")."""

    kind: str
    text: str


Block = list[Part]
"""A change with the lines around it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes in a file: in its properties and in its text. `name` is its path, "" if the page names it."""

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
    """Return the differences of a unified diff, one for each file; a part of the properties alone counts as text."""
    files: list[tuple[str, list[tuple[list[str], list[str]]]]] = []
    left = [0, 0]
    for line in patch.splitlines():
        if any(left):
            for side, other in enumerate("+-"):
                if not line.startswith(other):
                    files[-1][1][-1][side].append(line[1:])
                    left[side] -= 1
        elif hunk := _HUNK.match(line):
            left = [int(count or 1) for count in hunk.groups()]
            files[-1][1].append(([], []))
        elif line.startswith("+++ "):
            files.append((re.sub("^[ab]/", "", line[4:]), []))
    return [_together(name, hunks) for name, hunks in files]


def _together(name: str, hunks: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Difference:
    found = [compared("\n".join(old), "\n".join(new)) for old, new in hunks]
    properties = [block for each in found for block in each.properties]
    return Difference(name, properties, [block for each in found for block in each.text])


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
    return [Part("", _joined(lines))] if lines else []


def _by_words(old: str, new: str) -> Block:
    """Return what goes, comes and stays between two texts; if few words stay, the one and then the other."""
    was, now = ([*_WORD.finditer(text)] for text in (old, new))
    spans: list[Span] = []
    for span in changed_spans([word[0] for word in was], [word[0] for word in now]):
        between = now[spans[-1][3] : span[2]] if spans else []
        if spans and not any(word[0][0].isalnum() for word in between):  # signs alone belong to the changes beside them
            span = (spans[-1][0], span[1], spans[-1][2], span[3])
            spans.pop()
        spans.append(span)
    staying = sum(map(_letters, now)) - sum(map(_letters, chain(*(now[start:stop] for _, _, start, stop in spans))))
    if not spans or staying < _ALIKE * max(sum(map(_letters, was)), sum(map(_letters, now))):
        return [part for part in (Part("del", old), Part("ins", new)) if part.text]
    parts, at = list[Part](), 0
    for first, last, start, stop in spans:
        gone, come = old[_end(was, first) : _end(was, last)], new[_end(now, start) : _end(now, stop)]
        space = gone[: len(gone) - len(gone.lstrip())]
        lead = space if come.startswith(space) else ""
        stays = new[at : _end(now, start)] + lead
        parts += [Part("", stays), Part("del", gone[len(lead) :]), Part("ins", come[len(lead) :])]
        at = _end(now, stop)
    return [part for part in (*parts, Part("", new[at:])) if part.text]


def _letters(word: re.Match[str]) -> int:
    return len(word[0])


def _end(words: Sequence[re.Match[str]], count: int) -> int:
    """Return where the first words of a text end."""
    return words[count - 1].end() if count else 0
