"""
Unicode: validity of texts from outside, and the forms in which texts are compared.

One rule checks texts of tools, commands and Python programs: half of a character (an unpaired surrogate, which JSON can
spell, or a byte of an argument that is not UTF-8) is in no file and no index, so a call that holds one is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Set
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex
from spellbook.text.markdown_endings import ENDINGS

C = TypeVar("C", bound=type)

BROKEN, _HALF = regex("[\x00\ud800-\udfff]"), regex("[\ud800-\udfff]")
"""NUL and half letters, which no YAML and no UTF-8 holds; and half letters alone."""

IGNORABLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Letters that nobody sees, which Unicode calls default ignorable: a set for regular expressions."""

MOST_MARKS = 32
"""Most combining letters that are followed back to the letter they belong to."""

_IN_ANCHORS = regex(r"[\w\-\s]*")


def is_markdown(path: str) -> bool:
    """Say whether a path ends as a Markdown file's does, whatever its case."""
    return path[-3:] == ".md" or path.lower().endswith(ENDINGS)


def without_ending(path: str) -> str:
    """Return a path without the ending of a Markdown file, any other path as it is."""
    return path[: path.rindex(".")] if is_markdown(path) else path


def is_whole(text: str) -> bool:
    """Say whether a text can be written as UTF-8."""
    return text.isascii() or not _HALF.search(text)


def mended(text: str) -> str:
    """Return a text that can be written as UTF-8: a blank for each NUL, and `?` for half of a character."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def digest_of(text: str, letters: int) -> str:
    """Return the first `letters` of the SHA-256 of a text, in hexadecimal, whatever the text holds."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:letters]


def composed(text: str) -> str:
    """Return a text in NFC, in which a letter with its marks is one."""
    return unicodedata.normalize("NFC", text)


def folded(name: str) -> str:
    """Return a name in the form in which links and case-insensitive disks compare it: NFC, without case."""
    return composed(name).casefold()


def joined_at(text: str, at: int) -> bool:
    """Say whether the letters around `at` form one grapheme, by an approximation of Unicode's rules without tables."""
    before, after = text[at - 1], text[at : at + 1]
    if not after:
        return False
    if unicodedata.category(after)[0] == "M" or after in "\u200d\u0e33\u0eb3" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\U000e0020" <= after <= "\U000e007f" or before == "\u200d" or (before, after) == ("\r", "\n"):
        return True
    if "\u1100" <= before <= "\u11ff" and "\u1160" <= after <= "\u11ff":  # Hangul as it is decomposed
        return True
    if _is_flag(before) and _is_flag(after):
        run = next((i for i in range(MOST_MARKS) if at - 1 - i < 0 or not _is_flag(text[at - 1 - i])), MOST_MARKS)
        return run % 2 == 1
    return unicodedata.combining(before) == 9 and after.isalpha()  # a virama binds the consonant that follows


def _is_flag(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


def check(value: object, name: str = "") -> None:
    """Raise InvalidInput, which names the place, if a text in `value` (lists, mappings) is not whole."""
    todo = [(name, value)]
    while todo:
        place, one = todo.pop()
        if isinstance(one, str):
            if not is_whole(one):
                raise InvalidInput(*_refusal(place, one))
        elif isinstance(one, Mapping):
            for key, held in one.items():
                if isinstance(key, str) and not is_whole(key):
                    raise InvalidInput(*_refusal(f"A key of {place}" if place else "The name of an argument", key))
                todo.append((f"{place}.{key}" if place else str(key), held))
        elif isinstance(one, list | tuple | Set):
            todo += [(f"{place}[{number}]", held) for number, held in enumerate(one)]


def _refusal(place: str, text: str) -> tuple[str, str]:
    at, letter = next((half.start(), ord(half[0])) for half in _HALF.finditer(text))
    what = f"the byte 0x{letter - 0xDC00:02x}" if 0xDC80 <= letter <= 0xDCFF else f"half a character, \\u{letter:04x},"
    where = f"{place or 'The text'} is not valid Unicode: {what} is at position {at}."
    return where, "Give it as UTF-8; nothing was done."


def door(**paths: str) -> Callable[[C], C]:
    """Check the arguments of all public methods; `paths` names, by method, one that is a path of any bytes."""

    def decorate(cls: C) -> C:
        for name, function in list(vars(cls).items()):
            if name[0] != "_" and isinstance(function, FunctionType):
                setattr(cls, name, _check_arguments(function, paths.get(name, "")))
        return cls

    return decorate


def _check_arguments(function: FunctionType, path: str) -> Callable[..., Any]:
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]

    @wraps(function)
    def run(self: object, *args: object, **kwargs: object) -> object:
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        place = arguments.pop(path, None)
        check(arguments)
        if isinstance(place, str | os.PathLike):
            try:
                os.fsencode(place)
            except UnicodeEncodeError:
                check(os.fspath(place), path)
                raise
        return function(self, *args, **kwargs)

    return run


def slug(text: str) -> str:
    """Return the GitHub-style anchor of a heading, Unicode kept; `section` if nothing is left."""
    folded = composed(text).lower()
    if not _IN_ANCHORS.fullmatch(folded):
        # Vowel signs of Thai and Indic scripts are marks. So is the selector that colours an emoji; it has no meaning.
        folded = "".join(
            c
            for c in folded
            if re.match(r"[\w\-\s]", c) or (unicodedata.category(c)[0] == "M" and not "\ufe00" <= c <= "\ufe0f")
        )
    return re.sub(r"\s", "-", folded.strip()) or "section"
