"""
Say whether a value reads like a password, a key or a passphrase, and not like code, a date or a placeholder. Pure.

The words are those of `credentials.toml`. The numbers were chosen by hand, on the sentences of the tests.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from spellbook.system.lazy import regex
from spellbook.text import languages

LEAST_DIFFERENT = 5
"""Different letters of a key, and digits of a card's number."""

_LEAST_OF_PASSWORD, _LEAST_OF_KEY, _LONG, _WORDS, _WORDS_OF_A_SENTENCE = 6, 8, 12, 3, 3.0
"""
Letters of a password, of a key with three kinds of them or two digits; words of a passphrase; and the weight of common
words from which on a dozen words are a sentence.
"""

SIGN = regex("[^\\W_][!@#$%^&*+=~?]+[^\\W_]")
"""A sign between letters, as few texts but passwords have it."""

_PLACEHOLDER = regex(
    r"(?i)example|sample|dummy|placeholder|your|change.?me|redacted|insert|fake|mysecret|p[a@]ssw[o0]rd|xxxx|\*\*\*|\.\.\.|…"
    r"|[<>{}]|^\$\w+$|^%\w+%$|\$\(|eyJzdWIiOiIxMjM0NTY3ODkw|^(?:pass|secret|user|postgres|root|admin|test|guest|token|pwd|redis)$"
)
_SEQUENCE = regex("(?i)12345|abcdef|qwerty")
# A name of code (`req.body.token`), a call, a path, an address, a price, a date or a version.
_NO_VALUE = regex(
    r"[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*)+|[\w$.]+[(\[].*|[~.]{0,2}/[\w./@-]*|\w+:/.*|[\dTZ:.,+/-]+"
    r"|v?\d+(?:\.\w+)+(?:[-+]\w+)*|[$€£¥₩]?\d[\d.,]*(?:/\w+)?"
)
_NAME = regex(r"[A-Za-z_$-]+\d{0,2}")
# Names of code again, of tickets and measures.
_NO_PASSWORD = regex(
    r"[a-z]+(?:[A-Z][a-z]+)+\d?|[a-z]+(?:_[a-z]+)+\d?|[A-Z]{2,}-\d+|[\w.+-]+@[\w-]+\.[\w.]+"
    r"|\d+(?:[-~]\d+)?[-~]?[a-z]{1,3}|\d{1,3}[-~]?[a-z]+"
)
_STRONG = regex(r"\d|[!@#$%^&*+=~]")


@cache
def table() -> Mapping[str, Any]:
    """Return the tables of `credentials.toml`."""
    return tomllib.loads(Path(__file__).with_name("credentials.toml").read_text("utf-8"))


def words(name: str) -> str:
    """Return the words of all languages in a table, as alternatives of a pattern."""
    return "|".join(table()[name].values())


@cache
def _names() -> re.Pattern[str]:
    return re.compile(rf"(?i){words('names')}")


@cache
def _talk() -> re.Pattern[str]:
    return re.compile(rf"(?i)(?<!\w)(?:{words('talk')})(?!\w)|{words('talk_within')}")


def is_placeholder(value: str) -> bool:
    """Say whether a value stands for another one, as documents and examples write it."""
    return bool(_PLACEHOLDER.search(value))


def is_sequence(value: str) -> bool:
    """Say whether a value holds letters in the order of the alphabet or of a keyboard."""
    return bool(_SEQUENCE.search(value))


def is_password(value: str) -> bool:
    """Say whether a value reads like a password: letters with digits or with signs among them, and no name of code."""
    if re.search(r"\s", value):
        return _is_phrase(value)
    if len(value) < _LEAST_OF_PASSWORD or any(form.fullmatch(value) for form in (_NO_VALUE, _NO_PASSWORD, _names())):
        return False
    if not value.isascii() and _talk().search(value):
        return False
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return (has_both or bool(SIGN.search(value))) and not is_placeholder(value)


def _is_phrase(value: str) -> bool:
    """Say whether a quoted value with blanks is a passphrase: some words that are no sentence, or words with digits."""
    if len(value) < _LEAST_OF_KEY or _talk().search(value) or is_placeholder(value):
        return False
    return bool(_STRONG.search(value)) or (len(value.split()) >= _WORDS and not languages.language(value))


def is_seed(value: str) -> bool:
    """Say whether a dozen words or more are no sentence."""
    return languages.language(value, _WORDS_OF_A_SENTENCE) in {"", "ja", "zh"}


def is_key(value: str) -> bool:
    """Say whether a value is random enough to be a key, and no placeholder."""
    if not re.fullmatch(r"[!-~]+", value) or not is_password(value) or _NAME.fullmatch(value) or is_sequence(value) or len(set(value)) < LEAST_DIFFERENT:
        return False
    kinds = sum(bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", r"\d", r"[\W_]"))
    return (len(value) >= _LEAST_OF_KEY and kinds > 2) or (len(value) >= _LONG and len(re.findall(r"\d", value)) > 1)
