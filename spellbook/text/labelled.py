"""
Find secrets beside a word that names them: in sentences, assignments, tables, markup and commands. Pure.

The words are those of `credentials.toml`. Every pattern reads a bounded number of letters after a label, or before it,
so that the time is in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from spellbook.text import languages, passwords
from spellbook.text.passwords import pattern, table

_SENTENCE = 3.0
"""Weight of common words from which on a dozen words are a sentence, and no recovery phrase. By hand."""

_NEAR, _SHORT = 100, 16
"""Letters before a label that are read for a secret, and for a word that says that it is a hash."""


def found(text: str, *, likely: bool = False) -> Iterator[tuple[int, int, str, str]]:
    """
    Yield each secret of a text that a word or an option names: its start and end, its kind and its value. With
    `likely`, also all that stands in the place of one.
    """
    for label, start, stop, value in (*_in_tables(text), *_in_sentences(text)):
        yield start, stop, f"a secret after {label[0].casefold()!r}", value
    for command in _there(table()["commands"], text):
        for option in re.finditer(rf"(?i:{command}){pattern('option').pattern}", text):
            start, stop, value = _place(option)
            if likely or passwords.is_password(value):
                yield start, stop, "a password of a command", value
    for held in pattern("likely").finditer(text) if likely else ():
        yield *held.span(str(held.lastgroup)), "", ""


def _there(rows: Iterable[Sequence[str]], text: str) -> list[str]:
    """Return the patterns of the rows of which a text is there: the others, most of them, need not be tried."""
    return [form for *texts, form in rows if any(each in text for each in texts)]


def _labels(text: str) -> list[re.Match[str]]:
    """Return the labels in a text, in order; the last group of each is its kind."""
    lowered = text.lower()  # twice as fast as a search that ignores case
    lowered = lowered if len(lowered) == len(text) else text  # `İ` becomes two letters
    labels: list[re.Match[str]] = []
    for kind, rows in table()["labels"].items():
        if there := _there(rows.values(), lowered):
            labels += re.finditer(rf"(?P<{kind}>{'|'.join(there)})", lowered)
    return sorted(labels, key=lambda label: label.start())


def _in_tables(text: str) -> Iterator[tuple[re.Match[str], int, int, str]]:
    """Yield the secrets in the cells of Markdown tables whose column has a label, each with the label and its place."""
    for each in pattern("table").finditer(text) if "--" in text else ():
        columns = {each["head"].count("|", 0, label.start()): label for label in reversed(_labels(each["head"]))}
        for row in re.finditer(r"[^\n]+", each["rows"]) if columns else ():
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
    for label in _labels(text):
        if label.start() < end:  # within another label, or within a secret
            continue
        end = label.end()
        if (kind := str(label.lastgroup)) in table()["forms"]:
            matches = [("form", pattern(kind, "forms").match(text, end))]
        else:
            matches = [(way, pattern(way).match(text, end)) for way in ("after", "beside")]
        near = max(0, label.start() - _NEAR)
        if pattern("closed").match(text, end) and re.search(r"[\d\"'`!@#$%^&*]", text[near : label.start()]):
            matches.append(("before", pattern("before").search(text, near, label.start())))
        for way, match in matches:
            if match and _is_secret(label, match, way):
                yield label, *_place(match)
                end = max(end, match.end())
                break


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
        return passwords.is_key(value)
    if kind == "login":
        return passwords.has_sign(value) and passwords.is_password(value)
    if kind == "phrase":
        return languages.language(value, _SENTENCE) in {"", "ja", "zh"}
    if kind in {"password", "pin"}:
        return bool(pattern("number").fullmatch(value)) or (kind == "password" and passwords.is_password(value))
    return any(map(str.isdigit, value))


def _is_secret(label: re.Match[str], match: re.Match[str], way: str) -> bool:
    """Say whether the text `match` after a label, beside it without a verb or a sign, or before it, is its secret."""
    kind, parts = str(label.lastgroup), match.groupdict()
    start, _, value = _place(match)
    text, end = match.string, start + len(value)
    if way == "form" or not _fits(kind, value):
        return way == "form" and _fits(kind, value)
    if not parts["quoted"] and way != "before" and not pattern("ending").match(text, end):
        return False
    if pattern("hash").fullmatch(value) and pattern("hashed").search(text, max(0, label.start() - _SHORT), start):
        return False
    is_plain = label[0].isascii() and not parts["quoted"]
    if kind in {"key", "bearer"}:
        return way == "before" or (way == "beside") is (kind == "bearer")
    if pattern("number").fullmatch(value):
        is_near = way == "after" or (not parts.get("between") and (kind == "pin" or not is_plain))
        return is_near and not pattern("unit").match(text, end)
    return way == "after" or not is_plain or bool(passwords.has_sign(value) or re.search(r"\d\D*\d", value))
