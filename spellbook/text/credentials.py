"""
Credentials: find keys, passwords and resident's numbers in a text, which a note should not hold. Pure.

The forms are rows of `credentials.toml`, each with its source: gitleaks, detect-secrets, or the issuer. Neither of the
two knows labels in other languages than English. Placeholders of documentation are no secrets. A text is searched as it
is read: without letters that are not seen, and with plain letters for wide ones. Every pattern takes time in proportion
to the text.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spellbook.text import labelled, passwords
from spellbook.text.passwords import pattern, table
from spellbook.text.unicode import composed

HINT = "Leave it out, or say where it is kept. If it is not a secret, repeat with force=true. Nothing was written."
"""The hint of a refusal. An argument is named as tools and the API take it; see `cli.app.as_typed`."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that looks like a secret: its kind and its line, counted from 1. Its `value` is never shown."""

    kind: str
    line: int
    value: str = field(repr=False)


_BEFORE = 30
"""Letters before a number without a hyphen in which its label must be."""

_BORN_SINCE = 1930
"""Year of birth from which a number is a resident's: that of an order, such as 240315-1000234, reads older. By hand."""


def find(text: str) -> list[Secret]:
    """Return the likely secrets in `text`, in order, each place once."""
    secrets: list[Secret] = []
    end = 0
    line = 1
    text, _ = _plain(composed(text))
    for start, stop, kind, value in sorted(_candidates(text), key=lambda candidate: (candidate[0], -candidate[1])):
        if start >= end:
            line += text.count("\n", end, start)
            secrets.append(Secret(kind, line, value))
            line, end = line + text.count("\n", start, stop), stop
    return secrets


def masked(text: str, *, likely: bool = False) -> str:
    """Return `text` with `…` for each likely secret; with `likely`, for everything in the place of one."""
    kept: list[str] = []
    text = composed(text)
    plain, places = _plain(text)
    at = 0
    for start, stop in sorted((start, stop) for start, stop, *_ in _candidates(plain, likely=likely)):
        if places[start] >= at:
            kept += [text[at : places[start]], "…"]
        at = max(at, places[stop])
    return "".join([*kept, text[at:]])


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """Return a text as it is read, and for each of its letters, and its end, the place in `text`."""
    read = {letter: _as_read(letter) for letter in set(text) if not letter.isascii()}
    if all(len(plain) == 1 for plain in read.values()):
        return text.translate({ord(letter): plain for letter, plain in read.items()}), range(len(text) + 1)
    plain = [read.get(letter, letter) for letter in text]
    return "".join(plain), [place for place, letters in enumerate([*plain, "."]) for _ in letters]


def _as_read(letter: str) -> str:
    """Return a letter as it is read: "" if it is not seen, a plain one for a wide one, a straight quote for others."""
    if pattern("wide", "letters").match(letter):
        return unicodedata.normalize("NFKC", letter)
    return next((plain for plain, form in table()["letters"]["plain"].items() if re.match(form, letter)), letter)


_MOST_TAG = 300  # letters


def in_note(text: str, meta: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each likely secret in a text and its frontmatter."""
    held = [(key, secret) for key, value in meta.items() for part in _texts(value) for secret in find(f"{key}: {part}")]
    return [
        *(f"line {secret.line} of the text looks like it holds {secret.kind}" for secret in find(text)),
        *dict.fromkeys(f"metadata.{key} looks like it holds {secret.kind}" for key, secret in held),
    ]


def new(before: str, after: str) -> list[Secret]:
    """Return the likely secrets in `after` that were not in `before`."""
    secrets = find(after) if after != before else []
    known = {secret.value for secret in find(before)} if secrets else set()
    return [secret for secret in secrets if secret.value not in known]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if len(value) <= _MOST_TAG and not re.search(r"\s", value):  # the blanks of a tag became hyphens
            yield from (value[at.end() :] for at in re.finditer("-", value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (f"{key}: {text}" for text in _texts(item))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _texts(item)


def _candidates(text: str, *, likely: bool = False) -> Iterator[tuple[int, int, str, str]]:
    """Yield each possible secret: its start, its end, its kind and its value."""
    yield from _keys(text)
    for match in pattern("private", "unnamed").finditer(text) if "PRIVATE KEY" in text else ():
        body = pattern("encoded", "unnamed").search(match["body"])
        if likely or (body and not passwords.is_example(body[0])):
            yield *match.span(), "a private key", body[0] if body else ""
    for match in pattern("address", "unnamed").finditer(text) if "://" in text else ():
        value = match["value"]
        if value != match["user"] and not passwords.is_example(value):
            yield *match.span("value"), "a password in an address", value
    for match in pattern("resident", "unnamed").finditer(text):
        near = max(0, match.start() - _BEFORE)
        label = match["mark"] or pattern("resident_label", "unnamed").search(text, near, match.start())
        if label and _is_resident(match):
            yield *match.span(), "a Korean resident number", match[0]
    for match in pattern("card", "unnamed").finditer(text):
        digits = re.sub(r"\D", "", match[0])
        label = pattern("card_label", "unnamed").search(text, max(0, match.start() - _BEFORE), match.start())
        doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
        is_checked = sum(number - 9 * (number > 9) for number in doubled) % 10 == 0  # by its last digit
        if (label or (match["grouped"] and len(set(digits)) >= passwords.LEAST_DIFFERENT)) and is_checked:
            yield *match.span(), "a card number", match[0]
    yield from labelled.found(text, likely=likely)


def _keys(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield the keys of issuers, as `_candidates` does."""
    runs = " ".join(pattern("run", "unnamed").findall(text))  # most texts have few
    rows = ((row, begin) for row in table()["keys"] for begin in row.get("begins", row.get("has")) if begin in runs)
    for row, begin in rows:
        # Not inside a longer word: else `eyJeyJeyJ…` would be read anew from each of its letters.
        form = row.get("form") or rf"(?<![\w-]){re.escape(begin)}{row['rest']}"
        for match in re.finditer(form, text, re.A) if re.search(form, runs, re.A) else ():
            group = "value" if match.groupdict() else 0
            key = match[group].removeprefix(begin)
            if not (passwords.is_example(key) or pattern("sequence", "values").search(key)):
                yield *match.span(group), row.get("kind") or f"a key of {row['of']}", match[group]


def _is_resident(match: re.Match[str]) -> bool:
    """Say whether a number of the form of a Korean resident's or foreigner's begins with a day of birth until today."""
    century = 1900 if match["sex"] in "1256" else 2000
    try:
        born = dt.date(century + int(match["born"][:2]), int(match["born"][2:4]), int(match["born"][4:]))
    except ValueError:
        return False
    return born.year >= _BORN_SINCE and born <= dt.date.today()
