"""
Say messages in the person's language: English as the code has them, or Korean by the table `ko.toml`.

A template of the table is an English message in which each value is a slot: `{0}`, `{1}` … A message is compared
with the templates, most literal text first, and its values are put into the Korean one. `{0:t}` translates a value that
is itself a message; `{0:을}` adds the particle that fits its last letter. What no template matches stays English.
The table is read only when the language is Korean.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cache

VARIABLES = ("SPELLBOOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
_MAC_SETTINGS = "~/Library/Preferences/.GlobalPreferences.plist"
"""Where macOS keeps the languages that a person chose. Programs that are not started from a shell have no LANG."""

_SLOT = re.compile(r"\{(\d+)(?::([^{}]+))?\}")
_COUNTED = re.compile(r"\{(\d+)\}개")
_PREFIX = "spellbook: "

_PARTICLES = {"은": "는", "이": "가", "을": "를", "과": "와", "으로": "로", "이라": "라", "이나": "나"}
"""The form after a closed syllable: the form after an open one."""

_CLOSED = frozenset("013678lmnLMN")
"""Digits that are read with a final consonant, as 일, and Latin letters that words read so end with."""


def language() -> str:
    """Return "ko" or "en": what SPELLBOOK_LANG says, else the language of the system."""
    said = next((value for name in VARIABLES if (value := os.environ.get(name))), "")
    if not said and sys.platform == "win32":
        import locale

        said = locale.getlocale()[0] or ""
    elif not said and sys.platform == "darwin":
        said = _mac_language(os.path.expanduser(_MAC_SETTINGS))
    return "ko" if re.split(r"[-_.@]", said.lower())[0] in {"ko", "korean"} else "en"


@cache
def _mac_language(settings: str) -> str:
    """Return the first language of a person on macOS, such as `ko-KR`, from their `settings`; "" if it is not there."""
    import plistlib

    try:
        with open(settings, "rb") as file:
            return str(plistlib.load(file)["AppleLanguages"][0])
    except Exception:  # whatever that file holds, a command still runs
        return ""


def translated(text: str, to: str = "") -> str:
    """
    Return a message of one or more lines in the person's language, or in `to` ("ko" or "en").

    One that is not in the table stays as it is.
    """
    return text if (to or language()) == "en" else "\n".join(map(_line, text.split("\n")))


def fill(template: str, values: Sequence[object]) -> str:
    """Return a template with its values: `{0}` is the first, and a Korean one may ask for a particle, `{0:을}`."""
    return _SLOT.sub(lambda slot: filled(str(values[int(slot[1])]), slot[2]), template) if values else template


@cache
def table() -> dict[str, str]:
    """Return the Korean of each English template."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(__package__).joinpath("ko.toml").read_text("utf-8"))


@cache
def _templates() -> list[tuple[list[str], str, list[int]]]:
    """
    Return the literal texts between the slots of each template, its Korean, and the slots that it counts by.

    Most literal text comes first.
    """
    cut = [
        (re.split(r"\{\d+\}", english), korean, [int(slot) for slot in _COUNTED.findall(korean)])
        for english, korean in table().items()
        if _SLOT.search(english)
    ]
    return sorted(cut, key=lambda each: -sum(map(len, each[0])))


def _line(line: str) -> str:
    text = line.strip()
    if not text:
        return line
    prefix = _PREFIX if text.startswith(_PREFIX) else ""
    before, _, after = line.partition(text)
    return before + prefix + (_found(text[len(prefix) :]) or text[len(prefix) :]) + after


def shape(text: str) -> str:
    """Return an English message with `…` for its values, "" if the table has none with some words of its own."""
    if text in table():
        return text
    found = "…".join(next((pieces for pieces, *_ in _templates() if _values(pieces, text) is not None), ()))
    return found if re.search("[a-z]{3}", found) else ""


def _found(text: str) -> str | None:
    if exact := table().get(text):
        return exact
    for pieces, korean, counted in _templates():
        values = _values(pieces, text)
        # "lacks questions" is no number of questions.
        if values is not None and all(values[slot][:1].isdigit() for slot in counted):
            return _SLOT.sub(lambda slot, values=values: filled(values[int(slot[1])], slot[2]), korean)  # type: ignore[misc]
    return None


def _values(pieces: list[str], text: str) -> list[str] | None:
    """Return what stands between the literal `pieces` in `text`; None if it does not have them in this order."""
    first, *middle, last = pieces
    place, end = len(first), len(text) - len(last)
    if place > end or not text.startswith(first) or not text.endswith(last):
        return None
    values = []
    for piece in middle:
        at = text.find(piece, place, end)
        if at < 0:
            return None
        values.append(text[place:at])
        place = at + len(piece)
    return [*values, text[place:end]]


def filled(value: str, how: str | None) -> str:
    if how == "t":
        return _parts(value)
    return value + (_particle(value, how) if how else "")


def _parts(text: str) -> str:
    """Translate a message in a message, or the messages that are listed in it."""
    core = text.strip().lstrip(",; ")
    if not core:
        return text
    before, _, after = text.partition(core)
    if whole := _listed(core):
        return before + whole + after
    for pattern in (r"(; )", r"(?<=[.?!])( +)"):
        parts = re.split(pattern, core)
        if len(parts) > 1:
            done = [part if part.isspace() or part == "; " else _found(part) or part for part in parts]
            return before + "".join(done) + after
    return text


def _listed(text: str) -> str | None:
    """Return the Korean of a message, or of a list of messages if each of them is one."""
    for separator in ("; ", " and ", ", "):
        done = [_listed(part) for part in text.split(separator)] if separator in text else []
        if done and all(done):
            return (", " if separator == " and " else separator).join(filter(None, done))
    return _found(text)


def _particle(value: str, closed: str) -> str:
    """Return the particle that fits the last letter of `value`: `closed`, or its form after an open syllable."""
    opened = _PARTICLES[closed]
    last = value.rstrip("'\"`)]}”’…. ")[-1:]
    if "가" <= last <= "힣":
        final = (ord(last) - ord("가")) % 28
        return opened if not final or (closed == "으로" and final == 8) else closed
    if last == "%":  # read 퍼센트
        return opened
    if not last.isascii() or not last.isalnum():
        return f"{closed}({opened})"
    is_closed = last in _CLOSED and not (closed == "으로" and last in "178lL")
    return closed if is_closed else opened
