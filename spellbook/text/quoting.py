"""
Quote text of notes inside Spellbook's answers, so that the two cannot be confused. Pure.

A line that begins with `>` is a note's text, and every line of a note's text does. A note's title, path, id and topic
appear within a line of ours: on one line, bounded, and as a JSON string where they could look like other fields.
"""

from __future__ import annotations

import json
import re
from typing import Any

from spellbook.system.lazy import regex

_MOST_NAME = 300

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff\U000e0000-\U000e007f"
_CONTROL = regex(f"[{_CONTROLS}]")
"""
Letters that move the cursor, colour the terminal, break a line, turn the reading order, or that an agent reads and a
person does not see (Unicode's tags); not tab and line feed.
"""

_IN_NAMES = regex(f"[{_CONTROLS}\xad\u180e\u200b\u200e\u200f\u2060-\u2064\u3164\ufeff\uffa0]")
"""Also invisible letters in names; joiners stay, which scripts and emoji need."""

_FIELDS = regex(r'["\[\]]|\b(?:id|hash|why|index)\s*:|:\d+\)', re.I)
"""Text that a name must not hold where other fields stand beside it."""

_PLAIN = regex(r'[^\s"\[\](){}:,\\]+(?: [^\s"\[\](){}:,\\]+)*')
"""Ids and paths that no field beside them can be confused with."""


def plain(text: str) -> str:
    """Return the text of a note, without letters that command a terminal."""
    return _CONTROL.sub(_escaped, text)


def _escaped(letter: re.Match[str]) -> str:
    return letter[0].encode("unicode_escape").decode()


def one_line(text: str) -> str:
    """Return a text as part of one line of output: a file's name may hold anything."""
    return _IN_NAMES.sub(_escaped, text).replace("\n", "\\n").replace("\t", "\\t")


def quoted(text: str) -> str:
    """Return `text` with `>` in front of each of its lines, whatever ends them; "" for no text."""
    return "\n".join(f"> {plain(line)}" if line else ">" for line in text.splitlines())


def shortened(text: str, most: int, *, to_a_word: bool = False) -> str:
    """Return a text, or the beginning of a longer one and `…`: at most `most` letters, whole words if `to_a_word`."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    end = cut.rfind(" ") if to_a_word else -1
    return f"{(cut[:end] if end > most // 2 else cut).rstrip(' ,;:' if to_a_word else None)}…"


def flat(text: str) -> str:
    """Return a note's own words about itself (title, topic …) on one line, at most 300 letters."""
    line = shortened(one_line(" ".join(text.split())), _MOST_NAME)
    return json_of(line) if _FIELDS.search(line) else line


def exact(text: str) -> str:
    """Return an id or a path on one line, letter for letter: as it is, else as a JSON string."""
    return text if _PLAIN.fullmatch(text) and not _IN_NAMES.search(text) else _as_json(text, _IN_NAMES)


def counted(number: int, noun: str, several: str = "", *, of: int | None = None) -> str:
    """Return a number of things: `1 note`, `2,000 notes`; with `of` how many that is of: `1 of 3 notes`."""
    counts = number if of is None else of
    part = "" if of is None else f"{number:,} of "
    return f"{part}{counts:,} {noun if counts == 1 else several or noun + 's'}"


def json_of(value: Any) -> str:
    """Return `value` as one line of JSON. Letters that end a line or command a terminal are escaped too."""
    return _as_json(value, _CONTROL)


def _as_json(value: Any, escaped: re.Pattern[str]) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return escaped.sub(lambda letter: json.dumps(letter[0])[1:-1], text)
