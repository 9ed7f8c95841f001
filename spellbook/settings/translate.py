"""
Translate messages: English as the code has them, or Korean by the table `ko.toml`.

A template of the table is an English message in which each value is a slot: `{0}`, `{1}` … A message is compared with
the templates, and its values are put into the Korean one. It is text, since many come from the catalog, from another
process, from a server elsewhere or from click.

A slot may have a kind in the English, so that no value is taken for a part of the message: `{0:n}` is a number, `{0:c}`
a count, `{0:w}` a word, `{0:q}` a `repr`. In the Korean, `{0:t}` translates a value that is itself a message, or
several in a row; `{0:을}` adds the particle that fits how the value is read, `{0:t을}` does both. A message without a
template stays English. The table is read only when the language is Korean.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from operator import itemgetter

from spellbook.text.korean import particle

VARIABLES = ("SPELLBOOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
_MAC_SETTINGS = "~/Library/Preferences/.GlobalPreferences.plist"
"""Where macOS keeps the languages that a person chose. Programs that are not started from a shell have no LANG."""

_LABEL = re.compile(r"[^{](?:[^{]|\{\d:[ncwq]\})*: \{")
"""The beginning of a template such as `Backup: {0}.`, which is tried first: its value may look like another message."""

_SLOT = re.compile(r"\{(\d+)(?::([^{}]+))?\}")
_KINDS = {
    "": r"\S(?:.*?\S)??",
    ":": r"\S(?:(?!: |, line \d).)*?",
    "t": ".*?",
    "n": r"[-+]?\d(?:[\d,.:]*\d)?%?(?: \(#\d+\))?",
    "c": r"\d[\d,]*(?: of \d[\d,]*)? [a-z][a-z ]*",
    "w": r"\S+",
    "q": r"""'(?:[^'\\]|\\.)*'(?: / '[^']*')*|"(?:[^"\\]|\\.)*"|[^\s'"]+|\w*[\[{(].*?[\]})]|"""
    r"""'(?:[^'\\]|\\.){30,}|"[^"]{30,}|[\[{(].{30,}?""",
}
"""
Patterns of values: any text, such before `: `, a message or nothing; a number, or one with its rank; a count, as `3
notes`; a word; a `repr`, whole or cut.
"""

_PREFIX = "spellbook: "

_SEPARATORS = (("; ", "; "), (" and ", ", "), (", ", ", "), (r"(?<=[.?!]) +(?![a-z])", " "))
"""Separators of messages in a row, and of their translations."""


def language() -> str:
    """Return "ko" or "en": the value of SPELLBOOK_LANG, else the language of the system."""
    code = next((value for name in VARIABLES if (value := os.environ.get(name))), "")
    if not code and sys.platform == "win32":
        import locale

        code = locale.getlocale()[0] or ""
    elif not code and sys.platform == "darwin":
        code = _mac_language(os.path.expanduser(_MAC_SETTINGS))
    return "ko" if re.split(r"[-_.@]", code.lower())[0] in {"ko", "korean"} else "en"


def language_of_tools() -> str:
    """Return "ko" or "en": the language of answers to agents, English unless SPELLBOOK_LANG is set."""
    return language() if os.environ.get(VARIABLES[0]) else "en"


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
    """Return a message of one or more lines in the person's language, or in `to` ("ko" or "en"); unknown ones stay."""
    return text if (to or language()) == "en" else "\n".join(map(_translate_line, text.split("\n")))


def fill(template: str, values: Sequence[object]) -> str:
    """Return a template with its values: `{0}` is the first, and a Korean one may ask for a particle, `{0:을}`."""
    return _SLOT.sub(lambda slot: filled(str(values[int(slot[1])]), slot[2]), template) if values else template


@cache
def table(package: str = __package__) -> dict[str, str]:
    """Return the Korean of each English template, by the `ko.toml` of a package."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(package).joinpath("ko.toml").read_text("utf-8"))


@cache
def _templates() -> list[tuple[list[str], str]]:
    """Return the literal texts between the slots of each template, and the template: first labels, then the longest."""
    cut = [(_SLOT.split(english)[::3], english) for english in table() if _SLOT.search(english)]
    return sorted(cut, key=lambda template: (not _LABEL.match(template[1]), -sum(map(len, template[0]))))


@cache
def _pattern(english: str) -> re.Pattern[str]:
    """Return a pattern of the messages of this template, with a group for each slot."""
    messages = {slot for slot, how in _SLOT.findall(table()[english]) if how.startswith("t")}
    first, *rest = _SLOT.split(english)
    regex = re.escape(first)
    for slot, kind, text in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        kind = kind or ("t" if slot in messages else ":" if text.startswith(": ") else "")
        regex += f"({_KINDS[kind]}){re.escape(text)}"
    return re.compile(regex, re.DOTALL)


def _translate_line(line: str) -> str:
    text = line.strip()
    prefix = _PREFIX if text.startswith(_PREFIX) else ""
    before, _, after = line.partition(text) if text else (line, "", "")
    return before + prefix + _translate_message(text[len(prefix) :]) + after


def shape(text: str) -> str:
    """Return an English message with `…` for its values, "" if the table has none with some words of its own."""
    match = _match(text)
    form = _SLOT.sub("…", match[0]) if match else ""
    return form if re.search("[a-z]{3}", form) else ""


def _translate_message(text: str) -> str:
    """Return the Korean of a message, or of several in a row; the text itself if one of them is not known."""
    core = text.strip().lstrip(",; ")
    if not core:
        return text
    before, _, after = text.partition(core)
    return before + _read(core)[1] + after


@lru_cache
def _read(text: str) -> tuple[int, str]:
    """Return how many letters of a text are literal text of messages, and its Korean: the reading with most of them."""
    known, korean, literals = _read_one(text)
    lists = (_read_list(text, pattern, between) for pattern, between in _SEPARATORS if not re.search(pattern, literals))
    return max([(known, korean), *lists], key=itemgetter(0))


def _read_list(text: str, separator: str, between: str) -> tuple[int, str]:
    parts = re.split(separator, text)
    if len(parts) == 1:
        return 0, text
    known, done = 0, list[str]()
    for part in parts:
        letters, korean = _read(part)
        if not letters:
            return 0, text
        known, done = known + letters, [*done, korean]
    return known, between.join(done)


def _read_one(text: str) -> tuple[int, str, str]:
    """Return the result of `_read` for one message, and the literal text of its template."""
    match = _match(text)
    if not match:
        return 0, text, ""
    english, values, stops = match
    korean = fill(table()[english], values)
    korean = korean.removesuffix(".") if stops < 0 else korean + "." * stops
    messages = {int(slot) for slot, how in _SLOT.findall(table()[english]) if how.startswith("t")}
    free = sum(len(value) - (_read(value)[0] if number in messages else 0) for number, value in enumerate(values))
    return (len(text) - free if korean != text else 0), korean, _SLOT.sub("", english)


def _match(text: str) -> tuple[str, Sequence[str], int] | None:
    """Return a message's template, its values, and how many more full stops it has (1 to -1); None without one."""
    bare = text.removesuffix(".")
    if exact := next((candidate for candidate in (text, bare, f"{bare}.") if candidate in table()), ""):
        return exact, (), len(text) - len(exact)
    for pieces, english in _templates():
        has_end = pieces[-1] or english.endswith((":n}", ":c}", ":q}"))
        ended = f"{bare}." if pieces[-1].endswith(".") else bare if has_end else text
        if ended.startswith(pieces[0]) and ended.endswith(pieces[-1]) and all(piece in ended for piece in pieces):
            match = _pattern(english).fullmatch(ended)
            if match:
                return english, match.groups(), len(text) - len(ended)
    return None


def filled(value: str, how: str | None) -> str:
    """Return a value as a Korean template asks for it: itself, translated (`t`), with a particle, or both."""
    form = how or ""
    text = _translate_message(value) if form.startswith("t") else value
    closed = form.removeprefix("t")
    return text + particle(text, closed) if closed else text
