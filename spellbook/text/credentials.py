"""
Credentials: find keys, passwords and resident's numbers in a text, which a note should not hold. Pure.

The forms are rows of `credentials.toml`, each with its source: gitleaks, detect-secrets, or the issuer. Neither of the
two knows labels, the words that name a secret, in other languages than English. Placeholders of documentation are no
secrets. A text is searched as it is read: without letters that are not seen, and with plain letters for wide ones.
Patterns read a bounded number of letters around a label, so that the time is in proportion to the text.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from spellbook.text import languages
from spellbook.text.credential_values import LEAST_DIFFERENT, is_example, is_key, is_password, is_random, pattern, table
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

_SENTENCE = 3.0
"""Weight of common words from which on a dozen words are a sentence, and no recovery phrase. By hand."""

_NEAR, _SHORT = 100, 16
"""Letters before a label that are read for a secret, and for a word that says that it is a hash."""

_LINE, _PLACE = 120, 40
"""Letters around a label in which its secret may be, and around a code in which the thing is that it opens."""

_BETWEEN = 4
"""Labels between a label and its secret, plus one: a bound of the time that a text of labels takes."""

_CHOSEN, _RANDOM = {"password", "passphrase", "pin", "door"}, {"password", "key", "bearer", "aws", "codes", "totp"}
"""Kinds of labels whose secrets people choose, and whose secrets are random letters."""


def find(text: str) -> list[Secret]:
    """Return the likely secrets in `text`, in order, each place once."""
    secrets: list[Secret] = []
    end = 0
    line = 1
    text = composed(text)
    text = _plain(text, _odd_letters(text))
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
    odd = _odd_letters(text)
    plain = _plain(text, odd)
    places = (
        [at for at, letter in enumerate([*text, "."]) for _ in odd.get(letter, letter)] if odd else range(len(text) + 1)
    )
    at = 0
    for start, stop in sorted((start, stop) for start, stop, *_ in _candidates(plain, likely=likely)):
        if places[start] >= at:
            kept += [text[at : places[start]], "…"]
        at = max(at, places[stop])
    return "".join([*kept, text[at:]])


def _odd_letters(text: str) -> dict[str, str]:
    """Return the letters of a text that are read as others, each with the letters that it is read as."""
    read = {letter: _as_read(letter) for letter in set(text) if not letter.isascii()}
    return {letter: plain for letter, plain in read.items() if plain != letter}


def _plain(text: str, odd: Mapping[str, str]) -> str:
    """Return a text as it is read."""
    return re.sub(f"[{''.join(odd)}]", lambda letter: odd[letter[0]], text) if odd else text


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


_Candidates = Iterator[tuple[int, int, str, str]]
"""Possible secrets: the start of each, its end, its kind and its value."""


def _candidates(text: str, *, likely: bool = False) -> _Candidates:
    """Yield each possible secret."""
    yield from _keys(text)
    yield from _private_keys(text, likely=likely)
    yield from _numbers(text)
    yield from _labelled(text, likely=likely)


def _with_mark(mark: str, name: str, group: str, text: str) -> Iterable[re.Match[str]]:
    """Return the matches of a pattern in a text. Each has the mark: most texts lack it, and are not searched."""
    return pattern(name, group).finditer(text) if mark in text else ()


def _private_keys(text: str, *, likely: bool) -> _Candidates:
    """Yield private keys, and passwords in addresses."""
    for match in _with_mark("PRIVATE KEY", "private", "unnamed", text):
        body = pattern("encoded", "unnamed").search(match["body"])
        if likely or (body and not is_example(body[0])):
            yield *match.span(), "a private key", body[0] if body else ""
    for match in _with_mark("://", "address", "unnamed", text):
        value = match["value"]
        if value != match["user"] and not is_example(value):
            yield *match.span("value"), "a password in an address", value


def _numbers(text: str) -> _Candidates:
    """Yield resident's numbers and the numbers of cards."""
    for match in pattern("resident", "unnamed").finditer(text):
        if (match["mark"] or _is_after(match, "resident_label")) and _is_resident(match):
            yield *match.span(), "a Korean resident number", match[0]
    for match in pattern("card", "unnamed").finditer(text):
        digits = re.sub(r"\D", "", match[0])
        doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
        is_checked = sum(number - 9 * (number > 9) for number in doubled) % 10 == 0  # by its last digit
        is_grouped = match["grouped"] and len(set(digits)) >= LEAST_DIFFERENT
        if is_checked and (is_grouped or _is_after(match, "card_label")):
            yield *match.span(), "a card number", match[0]


def _is_after(number: re.Match[str], label: str) -> bool:
    """Say whether a label stands shortly before a number."""
    near = max(0, number.start() - _BEFORE)
    return pattern(label, "unnamed").search(number.string, near, number.start()) is not None


def _keys(text: str) -> _Candidates:
    """Yield the keys of issuers, as `_candidates` does."""
    runs = " ".join(pattern("run", "unnamed").findall(text))  # most texts have few
    rows = ((row, begin) for row in table()["keys"] for begin in row.get("begins", row.get("has")) if begin in runs)
    for row, begin in rows:
        # Not inside a longer word: else `eyJeyJeyJ…` would be read anew from each of its letters.
        form = row.get("form") or rf"(?<![\w-]){re.escape(begin)}{row['rest']}"
        if not re.search(form, runs, re.A):
            continue
        for match in re.finditer(form, text, re.A):
            group = "value" if match.groupdict() else 0
            key = match[group].removeprefix(begin)
            if not (is_example(key) or pattern("sequence", "values").search(key)):
                yield *match.span(group), row.get("kind") or f"a key of {row['of']}", match[group]


def _is_resident(match: re.Match[str]) -> bool:
    """Say whether a number of the form of a Korean resident's or foreigner's begins with a day of birth until today."""
    century = 1900 if match["sex"] in "1256" else 2000
    try:
        born = dt.date(century + int(match["born"][:2]), int(match["born"][2:4]), int(match["born"][4:]))
    except ValueError:
        return False
    return born.year >= _BORN_SINCE and born <= dt.date.today()


def _labelled(text: str, *, likely: bool = False) -> _Candidates:
    """
    Yield each secret of a text that a word or an option names: its start and end, its kind and its value. With
    `likely`, also all that stands in the place of one.
    """
    for label, start, stop, value in (*_in_tables(text), *_in_sentences(text)):
        yield start, stop, f"a secret after {label[0].casefold()!r}", value
    for command in _there(table()["commands"], text, set(text)):
        for option in re.finditer(rf"(?i:{command}){pattern('option').pattern}", text):
            start, stop, value = _place(option)
            if likely or is_password(value):
                yield start, stop, "a password of a command", value
    if likely:
        yield from ((*held.span(str(held.lastgroup)), "", "") for held in pattern("likely").finditer(text))


def _there(rows: Iterable[Sequence[str]], text: str, letters: set[str]) -> list[str]:
    """Return the patterns of the rows of which a text is there: the others, most of them, need not be tried."""
    return [form for *texts, form in rows if any(letters.issuperset(each) and each in text for each in texts)]


def _labels(text: str) -> list[re.Match[str]]:
    """Return the labels in a text, in order; the last group of each is its kind."""
    # In lower case it is twice as fast as a search that ignores case; but `İ` becomes two letters.
    lowered = text.lower() if len(text.lower()) == len(text) else text
    letters = set(lowered)
    labels: list[re.Match[str]] = []
    for kind, rows in table()["labels"].items():
        if there := _there(rows.values(), lowered, letters):
            labels += re.finditer(rf"(?P<{kind}>{'|'.join(there)})", lowered)
    return sorted(filter(_is_label, labels), key=lambda label: label.start())


def _is_label(label: re.Match[str]) -> bool:
    """Say whether a word names a secret: the word "code" alone does where a thing that is locked is near."""
    start, text = label.start(), label.string
    return label.lastgroup != "door" or bool(
        pattern("place").search(text, max(0, start - _PLACE), label.end() + _PLACE)
        and not pattern("other").search(text, max(0, start - _SHORT), start)
    )


def _in_tables(text: str) -> Iterator[tuple[re.Match[str], int, int, str]]:
    """Yield the secrets in the cells of Markdown tables whose column has a label, each with the label and its place."""
    for each in _with_mark("--", "table", "patterns", text):
        columns = {each["head"].count("|", 0, label.start()): label for label in reversed(_labels(each["head"]))}
        if not columns:
            continue
        for row in re.finditer(r"[^\n]+", each["rows"]):
            at = each.start("rows") + row.start()
            for column, cell in enumerate(row[0].split("|")):
                value = cell.strip(" \t*_`\"'")
                label = columns.get(column)
                if label and value and _fits(str(label.lastgroup), value):
                    start = at + cell.index(value)
                    yield label, start, start + len(value), value
                at += len(cell) + 1


def _in_sentences(text: str) -> Iterator[tuple[re.Match[str], int, int, str]]:
    """Yield the first secret after, beside or before each label, with the label and its place."""
    end = 0
    labels = _labels(text)
    for at, label in enumerate(labels):
        if label.start() < end:  # within another label, or within a secret
            continue
        end = label.end()
        if (kind := str(label.lastgroup)) in table()["forms"]:
            matches = [("form", pattern(kind, "forms").match(text, end))]
        else:
            matches = [(way, pattern(way).match(text, end)) for way in ("after", "beside")]
        if pattern("closed").match(text, end):
            matches.append(("before", pattern("before").search(text, max(0, label.start() - _NEAR), label.start())))
        low = labels[at - _BETWEEN].end() if at >= _BETWEEN else 0
        high = labels[at + _BETWEEN].start() if at + _BETWEEN < len(labels) else len(text)
        close = (match for way, match in matches if match and _is_secret(label, match, way))
        apart = (match for match in _in_line(label, text, low, high) if _is_meant(label, match))
        if found := next(chain(close, apart), None):
            yield label, *_place(found)
            end = max(end, found.end())


def _in_line(label: re.Match[str], text: str, low: int, high: int) -> Iterator[re.Match[str]]:
    """Yield what may be a secret in the line of a label, from `low` to `high`: first after the label."""
    start, end = label.span()
    stop = min(high, end + _LINE)
    line_end = text.find("\n", end, stop)
    begin = max(low, start - _LINE, text.rfind("\n", low, start) + 1)
    for first, last in ((end, stop if line_end < 0 else line_end), (begin, start)):
        if pattern("hint").search(text, first, last):
            yield from pattern("spot").finditer(text, first, last)


def _place(match: re.Match[str]) -> tuple[int, int, str]:
    """Return where the secret of a match stands, with all that is joined to it, and the secret."""
    if match.groupdict().get("quoted"):
        return *match.span("quoted"), match["quoted"]
    start, end = match.span("value")
    value = match["value"].rstrip(").]*_:!?")
    joined = pattern("whole").match(match.string, end)
    whole = match.string[start : joined.end() if joined else end].rstrip(".,;:)]")
    return start, start + max(len(value), len(whole)), value


def _fits(kind: str, value: str) -> bool:
    """Say whether a value is a secret of a kind, wherever it stands."""
    if kind in {"key", "bearer", "aws"}:
        return is_key(value)
    if kind == "login":
        return bool(pattern("sign", "values").search(value)) and is_password(value)
    if kind == "phrase":
        return languages.language(value, _SENTENCE) in {"", "ja", "zh"}
    if kind in _CHOSEN:
        return bool(pattern("number").fullmatch(value)) or (kind.startswith("pass") and is_password(value))
    return any(map(str.isdigit, value))


def _is_secret(label: re.Match[str], match: re.Match[str], way: str) -> bool:
    """Say whether the text `match` after a label, beside it without a verb or a sign, or before it, is its secret."""
    kind = str(label.lastgroup)
    start, _, value = _place(match)
    text, end = match.string, start + len(value)
    if way == "form" or not _fits(kind, value):
        return way == "form" and _fits(kind, value)
    if not match["quoted"] and way != "before" and not pattern("ending").match(text, end):
        return False
    if pattern("hash").fullmatch(value) and pattern("hashed").search(text, max(0, label.start() - _SHORT), start):
        return False
    is_plain = label[0].isascii() and not match["quoted"]
    if kind in {"key", "bearer"}:
        return way == "before" or (way == "beside") is (kind == "bearer")
    if pattern("number").fullmatch(value):
        is_far = way != "after" and (match.groupdict().get("between") or (kind != "pin" and is_plain))
        return not (is_far or pattern("unit").match(text, end))
    return way == "after" or not is_plain or bool(pattern("sure", "values").search(value))


def _is_meant(label: re.Match[str], match: re.Match[str]) -> bool:
    """
    Say whether a text in the line of a label is its secret.

    The more random a value, the freer the words between. A number needs a verb or a particle beside it, and is no year.
    """
    kind = str(label.lastgroup)
    start, _, value = _place(match)
    text, end = match.string, start + len(value)
    if is_random(value):
        is_secret = kind in _RANDOM
    elif kind not in _CHOSEN or start < label.end() or not _fits(kind, value):
        return False
    else:
        led = pattern("lead").fullmatch(text, label.end(), start)
        shown = pattern("trail").match(text, end) or (led and pattern("ended").match(text, end))
        is_number = pattern("number").fullmatch(value)
        is_sure = is_number or match["quoted"] or pattern("sure", "values").search(value)
        is_secret = bool(shown if is_number else is_sure and (led or shown or kind == "passphrase"))
        is_counted = is_number and pattern("counted").match(text, start)
        is_secret = is_secret and not (is_counted or pattern("stop").search(text, label.end(), start))
    return is_secret and not pattern("other").search(text, max(0, min(label.start(), start) - _SHORT), start)
