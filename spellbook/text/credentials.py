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

from spellbook.system.lazy import regex
from spellbook.text import labelled, passwords
from spellbook.text.unicode import composed

HINT = "Leave it out, or say where it is kept. If it is not a secret, repeat with force=true. Nothing was written."
"""The hint of a refusal. An argument is named as tools and the API take it; see `cli.app.as_typed`."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that looks like a secret: its kind and its line, counted from 1. Its `value` is never shown."""

    kind: str
    line: int
    value: str = field(repr=False)


_PRIVATE = regex(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LETTERS = 4_000
"""The most letters of a private key."""

_RESIDENT = regex(r"(?a)(?<![\w/-])(?<!\d\.)(?P<born>\d{6})(?P<mark> ?[-–—−] ?)?(?P<sex>[1-8])\d{6}(?![\w-]|[.,:/]\d)")
_RESIDENT_LABEL = regex(r"(?i)(?:주민|외국인) ?(?:등록)? ?번호|(?:resident|alien) registration|\brrn\b")
_BEFORE = 30
"""Letters before a number without a hyphen in which its label must be."""

_BORN_SINCE = 1930
"""Year of birth from which a number is a resident's: that of an order, such as 240315-1000234, reads older. By hand."""

_CARD = regex(
    r"(?a)(?<![\w-])(?:(?P<grouped>[2-6]\d{3}(?:(?:[ -]\d{4}){3}|[ -]\d{6}[ -]\d{5}))|\d(?:[ -]?\d){12,18})(?![\w-])"
)
_CARD_LABEL = regex(
    r"(?i)카드|カード|卡|\bcard ?(?:number|no\b|is|[:=#])|visa|master ?card|\bamex"
    r"|karte |kartennummer|\bcarte|tarjeta|cartão|\bcarta|карт[аыу]"
)
_ENCODED = regex(r"[A-Za-z0-9+/=]{40,}")
_IN_ADDRESS = regex(r"://(?P<user>[^\s/:@]{0,64}):(?P<value>[^\s/@]{2,100})@[\w\[]")

_RUN = regex(r"(?a)[\w./+=~$|:%-]{20,}")
"""Letters of a key: the shortest has twenty."""

_BLOCK = regex(r"(?s)-----BEGIN [A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----.*?(?:-----END[^\n]*|\Z)")

_WIDE = regex("[\u3000\ufe50-\ufe6b\uff01-\uff9d\uffe0-\uffe6\xa0\u1680\u2000-\u200a\u202f\u205f\U0001d400-\U0001d7ff]")
"""Letters of another width or face, and blanks, which NFKC makes one plain letter."""

_HIDDEN = regex(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uff9e-\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""
Letters that are not seen: Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt). And the two marks of
half-width kana.
"""

_QUOTES = {**dict.fromkeys("“”„‟«»「」『』《》【】〝〞", '"'), **dict.fromkeys("‘’‚‛‹›", "'"), "⇒": "→"}


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
    hidden = [(start, stop) for start, stop, *_ in _candidates(plain, likely=likely)]
    if likely:
        hidden += [match.span() for match in _BLOCK.finditer(plain)]
    at = 0
    for start, stop in sorted(hidden):
        if places[start] >= at:
            kept += [text[at : places[start]], "…"]
        at = max(at, places[stop])
    return "".join([*kept, text[at:]])


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """Return a text as it is read, and for each of its letters, and its end, the place in `text`."""
    read = {letter: _as_read(letter) for letter in set(text) if not letter.isascii()}
    if all(len(plain) == 1 for plain in read.values()):
        return text.translate(str.maketrans(read)), range(len(text) + 1)
    plain = [read.get(letter, letter) for letter in text]
    return "".join(plain), [place for place, letters in enumerate([*plain, "."]) for _ in letters]


def _as_read(letter: str) -> str:
    """Return a letter as it is read: "" if it is not seen, a plain one for a wide one, a straight quote for a curved."""
    if _HIDDEN.match(letter):
        return ""
    return unicodedata.normalize("NFKC", letter) if _WIDE.match(letter) else _QUOTES.get(letter, letter)


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
    for match in _PRIVATE.finditer(text) if "PRIVATE KEY" in text else ():
        block = text[match.end() : match.end() + _KEY_LETTERS].partition("-----END")[0]
        body = _ENCODED.search(block)
        if body and not passwords.is_example(body[0]):
            yield match.start(), match.end() + len(block), "a private key", body[0]
    for match in _IN_ADDRESS.finditer(text) if "://" in text else ():
        value = match["value"]
        if value != match["user"] and not passwords.is_example(value):
            yield *match.span("value"), "a password in an address", value
    for match in _RESIDENT.finditer(text):
        label = match["mark"] or _RESIDENT_LABEL.search(text, max(0, match.start() - _BEFORE), match.start())
        if label and _is_resident(match):
            yield *match.span(), "a Korean resident number", match[0]
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        label = _CARD_LABEL.search(text, max(0, match.start() - _BEFORE), match.start())
        doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
        is_checked = sum(number - 9 * (number > 9) for number in doubled) % 10 == 0  # by its last digit
        if (label or (match["grouped"] and len(set(digits)) >= passwords.LEAST_DIFFERENT)) and is_checked:
            yield *match.span(), "a card number", match[0]
    yield from labelled.found(text, likely=likely)


def _keys(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield the keys of issuers, as `_candidates` does."""
    runs = " ".join(_RUN.findall(text))  # most texts have few
    for row in passwords.table()["keys"]:
        for begin in row.get("begins", row.get("has")):
            # Not inside a longer word: else `eyJeyJeyJ…` would be read anew from each of its letters.
            form = row.get("form") or rf"(?<![\w-]){re.escape(begin)}{row['rest']}"
            if begin not in runs or not re.search(form, runs, re.A):
                continue
            for match in re.finditer(form, text, re.A):
                group = "value" if match.groupdict() else 0
                key = match[group].removeprefix(begin)
                if not (passwords.is_example(key) or passwords.is_sequence(key)):
                    yield *match.span(group), row.get("kind") or f"a key of {row['of']}", match[group]


def _is_resident(match: re.Match[str]) -> bool:
    """Say whether a number of the form of a Korean resident's or foreigner's begins with a day of birth until today."""
    century = 1900 if match["sex"] in "1256" else 2000
    try:
        born = dt.date(century + int(match["born"][:2]), int(match["born"][2:4]), int(match["born"][4:]))
    except ValueError:
        return False
    return born.year >= _BORN_SINCE and born <= dt.date.today()
