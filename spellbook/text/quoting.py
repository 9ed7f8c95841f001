"""
Quote text of notes inside Spellbook's answers, so that the two cannot be confused. Pure.

A line that begins with `>` is a note's text, and every line of a note's text does. A note's title, path, id and topic
appear within a line of ours: on one line, bounded, and as a JSON string where they could look like other fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from spellbook.system.lazy import regex
from spellbook.text.unicode import IGNORABLE

_MOST_NAME = 300

_MOST_AGENT = 200
_OF_NO_AGENT = {"ai", "cli", "client", "mcp", "server", "vscode"}
"""Words in the name of a client that do not name its agent."""

_UNSEEN = regex(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u2800\ud800-\udfff\ufff9-\ufffb"
    rf"\U00013430-\U0001343f\U0001d159{IGNORABLE}]+"
)
"""
Letters that move the cursor, colour the terminal, break a line, turn the reading order, or that an agent reads and a
person does not see: controls, blank letters, and IGNORABLE; not tab and line feed.
"""

_EMOJI = "\xa9\xae\u203c\u2049\u2100-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINED = "\u0620-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17d3\u1820-\u18aa\ua840-\ua873\U00011000-\U000114ff"
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17d3"

_NEEDED = regex(
    "(?<=[\u2801-\u28ff])\u2800|(?<=[\U00013000-\U0001342f])[\U00013430-\U0001343f]"  # braille, hieroglyphs
    f"|(?<=[{_JOINED}])[\u200c\u200d]"  # Persian, Hindi and their like: another letter, or another word, without it
    f"|(?<=[{_UNSPACED}])\u200b"  # Thai, Lao, Burmese, Khmer: the end of a word
    f"|(?<=[{_EMOJI}])\ufe0f?\u200d(?=[{_EMOJI}])"  # one picture of several
    f"|(?<=[{_EMOJI}])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"  # a letter as a picture, or not; a key
    "|(?<=\U0001f3f4)\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)"
    "\U000e007f"  # the flags of England, Scotland and Wales
)
"""
The runs of such letters that a text cannot be read without. Any other run can hide words: a variation selector behind
a letter is a byte, two joiners are a bit.
"""

_FIELDS = regex(r'["\[\]]|\b(?:id|hash|why|index)\s*:|:\d+\)', re.I)
"""Text that a name must not hold where other fields stand beside it."""

_PLAIN = regex(r'[^\s"\[\](){}:,\\]+(?: [^\s"\[\](){}:,\\]+)*')
"""Ids and paths that no field beside them can be confused with."""


def plain(text: str) -> str:
    """Return the text of a note with letters that nobody sees spelled out, unless it cannot be read without them."""
    return _seen(text, lambda unseen: unseen.encode("unicode_escape").decode())


def _seen(text: str, spelled: Callable[[str], str]) -> str:
    def shown(run: re.Match[str]) -> str:
        needed = _NEEDED.match(text, run.start())
        return run[0] if needed and needed.end() == run.end() else spelled(run[0])

    return _UNSEEN.sub(shown, text)


def one_line(text: str) -> str:
    """Return a text as part of one line of output: a file's name may hold anything."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def quoted(text: str) -> str:
    """Return `text` with `>` in front of each of its lines, whatever ends them; "" for no text."""
    return "\n".join(f"> {plain(line)}" if line else ">" for line in text.splitlines())


def fence_of(text: str, sign: str = "`") -> str:
    """Return a fence of Markdown that is longer than any run of its sign in `text`, which so cannot close it."""
    return sign * max(3, 1 + max(map(len, re.findall(f"{sign}+", text)), default=0))


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
    return text if _PLAIN.fullmatch(text) and plain(text) == text else json_of(text)


def agent_name(actor: str) -> str:
    """Return an agent's name as a person calls it: `Claude Code` for `claude-code/2.1.0`; "agent" for no name."""
    words = re.findall(r"[^\W_]+", actor[:_MOST_AGENT].partition("/")[0])
    named = [word if word != word.lower() else word.capitalize() for word in words if word not in _OF_NO_AGENT]
    return " ".join(named)[:40] or "agent"


def counted(number: int, noun: str, several: str = "", *, of: int | None = None) -> str:
    """Return a number of things: `1 note`, `2,000 notes`; with `of` how many that is of: `1 of 3 notes`."""
    counts = number if of is None else of
    part = "" if of is None else f"{number:,} of "
    return f"{part}{counts:,} {noun if counts == 1 else several or noun + 's'}"


def filled(**fields: object) -> dict[str, Any]:
    """Return the fields of an answer that are not empty: nothing is said of the others."""
    return {name: value for name, value in fields.items() if value}


def json_of(value: Any) -> str:
    """Return `value` as one line of JSON. Letters that nobody sees are escaped, as in `plain`."""
    return _seen(json.dumps(value, ensure_ascii=False, default=str), lambda unseen: json.dumps(unseen)[1:-1])
