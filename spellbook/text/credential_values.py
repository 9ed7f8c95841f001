"""
Say whether a value reads like a password, a key or a passphrase, and not like code, a date or a placeholder. Pure.

The patterns and words are those of `credentials.toml`. The numbers were chosen by hand, on the sentences of the tests.
"""

from __future__ import annotations

import re
from functools import cache, partial

from spellbook.system.lazy import regex, toml_in
from spellbook.text import languages

LEAST_DIFFERENT = 5
"""Different letters of a key, and digits of a card's number."""

_LEAST_OF_PASSWORD, _LEAST_OF_KEY, _LONG = 6, 8, 12
"""Letters of a password, and of a key with three kinds of them or two digits."""

_RANDOM, _PIECE = 16, 3
"""Letters of a random value without groups, and of the mean piece of a name: a word, capitals or a number."""

_PART = regex(r"\{([a-z_]+)\}")

table = partial(toml_in, __file__, "credentials.toml")
"""Returns the forms of keys, passwords and other secrets, and the words that name them in each language."""


@cache
def pattern(name: str, group: str = "patterns") -> re.Pattern[str]:
    """Return a pattern of `credentials.toml` from a group of them, compiled at its first use."""
    return re.compile(_filled(table()[group][name]))


def _filled(form: str) -> str:
    """Return a pattern with the text of each `{name}` in it: another pattern, or the words of all languages."""
    return _PART.sub(lambda part: _filled(_named(part[1])), form)


def _named(name: str) -> str:
    if name.startswith("label_"):
        return "|".join(row[-1] for row in table()["labels"][name.removeprefix("label_")].values())
    if name in table():
        return "|".join(table()[name].values())
    return str((table()["values"] | table()["patterns"] | table()["forms"])[name])


def is_example(value: str) -> bool:
    """Say whether a value stands for another one, as documents and examples write it."""
    return bool(pattern("placeholder", "values").search(value))


def is_password(value: str) -> bool:
    """Say whether a value reads like a password: letters with digits or with signs among them, and no name of code."""
    if is_example(value):
        return False
    is_phrase = bool(re.search(r"\s", value))
    if (is_phrase or not value.isascii()) and pattern("talk", "values").search(value):
        return False
    if is_phrase:  # some words that are no sentence, or words with digits or signs
        # Japanese and Chinese sentences have no blanks between words.
        is_sentence = not pattern("several", "values").search(value) or languages.language(value) not in {
            "",
            "ja",
            "zh",
        }
        return bool(pattern("strong", "values").search(value)) or not is_sentence
    if len(value) < _LEAST_OF_PASSWORD or pattern("no_password", "values").fullmatch(value):
        return False
    return bool(pattern("mixed", "values").search(value))


def is_key(value: str) -> bool:
    """Say whether a value is random enough to be a key, and no placeholder."""
    if pattern("no_key", "values").fullmatch(value) or len(set(value)) < LEAST_DIFFERENT or not is_password(value):
        return False
    kinds = sum(bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", r"\d", r"[\W_]"))
    return (len(value) >= _LEAST_OF_KEY and kinds > 2) or (len(value) >= _LONG and len(re.findall(r"\d", value)) > 1)


def is_random(value: str) -> bool:
    """Say whether a value can only be generated: one in groups or a long one, of more and shorter pieces than names."""
    if is_example(value) or pattern("not_random", "values").fullmatch(value) or len(set(value)) <= LEAST_DIFFERENT:
        return False
    if pattern("random", "values").fullmatch(value):
        return True
    runs = pattern("run", "values").findall(value) if len(value) >= _RANDOM and re.search(r"\d", value) else []
    return any(len(run) < _PIECE * len(pattern("piece", "values").findall(run)) for run in runs)
