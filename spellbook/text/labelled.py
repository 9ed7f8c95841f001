"""
Find secrets beside a word that names them: in sentences, assignments, tables, markup and commands. Pure.

The words are those of `credentials.toml`. Every pattern reads a bounded number of letters after a label, or before it, so
that the time is in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from spellbook.system.lazy import regex
from spellbook.text import passwords
from spellbook.text.passwords import table, words

_CLOSING = (
    r"s?(?:_(?!hash|digest|id|len|name|count|type|path|file|url|uri|ttl|exp|field|policy|regex|salt|hint|min|max)\w{1,20})?"
    r"""["'`\])*_]{0,4}(?:[ \t]{0,4}\([^()\n]{0,40}\))?"""
)
_SIGNS = r":=|=>|->|=(?![=>])|[:|→]|[-–—](?=[ \t])"
# `<password>`, `<th>Password</th><td>`, `key="password" value=`, and `name: PASSWORD` above `value:`.
_MARKUP = (
    r"""["']?(?:[ \t]+[\w:-]{1,30}=["'][^"'<>\n]{0,40}["']){0,3}>\s{0,20}(?:<!\[CDATA\[)?|(?:</?[\w-]{1,20}[^<>\n]{0,40}>\s{0,8}){1,4}"""
    r"""|[ \t]{1,4}(?:[\w:-]{1,20}=["'][^"'\n]{0,40}["'][ \t]{0,4}){0,2}value=|,?\s{1,40}["']?value["']?[ \t]?[:=]"""
)
_WORD = "[!#-&(-+\\--:=?-_a-z{}~\u00c0-\u024f\u0400-\u04ff]"  # without blanks, quotes and signs that end a word
_HAN = "[\u3040-\u30ff\u3400-\u9fff가-힣]"
_QUOTED = r"""(?P<quote>["'`]{1,3})(?P<quoted>(?:(?!(?P=quote))[^\n]){3,120})(?P=quote)"""
_VALUE = (
    rf"""[ \t>*_(\[]{{0,8}}(?:n?{_QUOTED}"""
    rf"""|["'`]{{0,2}}(?P<value>{_WORD}{{3,200}}|{_HAN}\w{{1,20}}\d{{2,8}}[!@#$%^&*?]{{0,4}}))"""
)
_EACH = r"""[\s,"'`*_]{1,3}(?:\d{1,2}[.)] ?)?[^\W\d_]{1,12}"""
_CODE = r"(?:(?=[a-z-]*\d|[a-z]{4,10}-[a-z]{4})[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){0,5}(?![a-z0-9.]))"
_PASSPORT = (
    r"[A-Z]{1,2}\d{7,8}|[A-Z]\d{3}[A-Z]\d{4}|\d{9}|[A-Z]{3}\d{6}|\d{2}[A-Z]{2}\d{5}|\d{2} ?\d{2} (?:№ ?)?\d{6}"
    r"|[CFGHJK](?=[A-Z]{0,7}\d)[A-Z0-9]{8}"
)

_NUMBER = regex(r"[AB]?\d{4,12}[#*]?|\d{4,6}[AB]")
_ENDING = regex(r"[^가-힣]|$|이(?!상|하|후|전|내)|예요|입니|야|임|인데|다|로|으로|라고|래|였|를|을|니까|고|네|에서|요")
"""Text that may directly follow a value: of Korean only particles and the verb to be."""
_WHOLE = regex("[!#-;=?-_a-z{}~\u00c0-\u024f\u0400-\u04ff]{1,200}", re.I)
_HASHED = regex("(?i)hash|digest|checksum|md5|sha\\d|해시|ハッシュ|哈希|散列|хеш|хэш|sum")
_HASH = regex(r"[0-9a-fA-F]{32,128}|\$\w{1,12}\$.+|[A-Za-z0-9+/]{43}=")
_UNDER = regex(r"[^\n]{0,400}\n[ \t>]*\|?[ \t]*:?-{2,}[ |:\t-]*(?P<rows>(?:\n[^\n|]{0,500}\|[^\n]{0,500}){1,200})")
_HELD = ("codes", "totp", "phrase", "cvc", "password", "pin")
"""Kinds of labels after which a sign leads to a secret, if all that is likely one is asked for."""

_NEAR, _SHORT = 100, 16
"""Letters before a label that are read for a secret, and for a word that says that it is a hash."""


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The patterns of labelled secrets."""

    after: re.Pattern[str]
    beside: re.Pattern[str]
    before: re.Pattern[str]
    closed: re.Pattern[str]
    unit: re.Pattern[str]
    likely: re.Pattern[str]
    forms: dict[str, re.Pattern[str]]


@cache
def _grammar() -> _Grammar:
    """Build the patterns from the words of all languages."""
    of, before, joined = table()["of"], table()["before"], words("joined")
    prepositions = "|".join(each for name, each in of.items() if name != "names")
    opened = (
        rf"(?:,?[ \t]{{1,4}}(?:{prepositions})(?:[ \t]{{1,4}}[^\s=:→|]{{0,29}}[^\s=:→|.!?;]){{0,8}}?|(?:[ \t][가-힣]{{1,6}}){{1,2}}"
        rf"|(?:[ \t](?:{of['names']})){{1,3}}|(?:[ \t][а-яё-]{{2,15}}){{1,3}})?"
    )
    verb = rf"[ \t]{{1,4}}(?:{words('verbs')})(?:[ \t]{{1,4}}(?:{words('adverbs')})){{0,2}}"
    says = (
        rf"(?:{joined})?[ \t]{{0,8}}(?:{_SIGNS})(?:[ \t*_]{{0,8}}\r?\n)?|[ \t]?(?:{joined})[ \t,、:]{{0,3}}"
        rf"|['’]s[ \t]|{verb}(?:[ \t]{{0,4}}[:→—-][ \t*_]{{0,8}}\r?\n?|(?=[ \t]))|{_MARKUP}"
    )
    follows = rf"{_CLOSING}{opened}[ \t]{{0,8}}(?:{says})"
    apart = r"(?:[ \t]|(?<=[^\x00-\x7f])|(?=\([\"']))[ \t]{0,8}"
    between = r"(?P<between>(?:[가-힣]{1,8}[ \t]{1,4}){0,3})"
    led = (
        rf"(?:[ \t]{before['latin']}[ \t](?:[\w'-]{{1,20}}[ \t]){{0,3}}[\w-]{{0,20}}"
        rf"|[ \t]{before['ru']}[ \t](?:[\w-]{{1,20}}[ \t]){{0,3}}|[ \t]?{before['ko']}[ \t]?(?:[가-힣]{{1,8}}[ \t]){{0,3}}"
        rf"|[ \t]?{before['ja']}[^\s\x00-\x7f]{{0,12}}|[ \t]?{before['zh']}[^\s\x00-\x7f]{{0,12}})"
    )
    sign = "|".join(row[-1] for kind in _HELD for row in table()["labels"][kind].values())
    held = r"""(?![$<{%])(?:(?P<quote>["'`])(?P<quoted>(?:\\.|(?!(?P=quote))[^\n\\]){4,2000})|(?P<value>[^\s"'`]{4,}))"""
    return _Grammar(
        after=regex(rf"(?i){follows}{_VALUE}"),
        beside=regex(rf"(?i){_CLOSING}(?:{joined})?{apart}{between}{_VALUE}"),
        before=regex(rf"(?i)(?<![^\s\"'(*`])(?:{_QUOTED}|(?P<value>{_WORD}{{4,60}}+))\*{{0,2}}{led}$"),
        closed=regex(
            rf"(?i)s?[\"'`*)]{{0,3}}[ \t]{{0,3}}(?:[^\w\s]|$|\n|(?:{prepositions}|{words('adverbs')}|and|but|und|et|y|и)[ \t.]"
            r"|야|이|입|예|로|를|으로|인|에|です|だ|に|と|。|了|吧|哦|啦|呢|的?$)"
        ),
        unit=regex(rf"(?i)[ \t-]?(?:{words('units')})"),
        likely=regex(
            rf"(?i)(?:\bauthorization[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?:bearer|basic|token)\s{{1,3}}|\bcookie:\s{{0,3}}"
            rf"|(?:pass(?:word|wd|phrase)?|pwd|secret|token|_key|{sign})[\"'*_]{{0,3}}[ \t]?[=:][ \t*_]{{0,3}}){held}"
        ),
        forms={
            "aws": regex(r"[^\n]{0,60}?(?<![A-Za-z0-9/+])(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"),
            "codes": regex(
                rf"(?i){follows}[\s*_\"'`-]{{0,8}}(?:\d{{1,2}}[.)] )?(?P<value>{_CODE}(?:[\s,、;|*\"'`-]{{1,8}}(?:\d{{1,2}}[.)] )?{_CODE}){{0,19}})"
            ),
            "cvc": regex(
                rf"(?i){_CLOSING}(?:[ \t]{{0,8}}(?:{says})|[ \t]|(?<=[^\x00-\x7f]))[ \t\"'`*|]{{0,4}}(?P<value>\d{{3,4}})(?![a-z0-9,%-]|\.\d)"
            ),
            "login": regex(rf"(?i)[^\n/]{{0,30}}?[/:][ \t]{{0,2}}(?P<value>(?:(?!/){_WORD}){{6,100}})(?!/)"),
            "passport": regex(rf"[^\n!?]{{0,40}}?(?<![A-Za-z0-9])(?P<value>{_PASSPORT})(?![A-Za-z0-9-])"),
            "phrase": regex(rf"(?i)[^\n]{{0,40}}?(?:[:=→—]|{joined}|[ \t](?:{words('verbs')}))(?P<value>(?:{_EACH}){{12,25}})(?!\w)"),
            "totp": regex(r"[^\n]{0,40}?(?<![A-Za-z0-9])(?P<value>[A-Z2-7]{4}(?:[ -]?[A-Z2-7]{4}){3,15})(?![A-Za-z0-9])"),
        },
    )


def found(text: str, *, likely: bool = False) -> Iterator[tuple[int, int, str, str]]:
    """
    Yield each secret of a text that a word or an option names: its start and end, its kind and its value. With `likely`,
    also whatever stands in the place of one.
    """
    lowered = text.lower()  # twice as fast as a search that ignores case
    end = 0
    for label in _labels(lowered if len(lowered) == len(text) else text):  # `İ` becomes two letters
        if label.start() < end:
            continue
        end = label.end()
        for start, stop, value in _of_label(text, label):
            yield start, stop, f"a secret after {label[0].casefold()!r}", value
            end = max(end, stop)
    for command in _there(table()["commands"], text):
        for option in re.finditer(rf"(?i:{command})(?:{_QUOTED}|[\"']?(?P<value>[^\s\"'`|<>]{{4,200}}))", text):
            start, end, value = _place(option)
            if likely or passwords.is_password(value):
                yield start, end, "a password of a command", value
    for held in _grammar().likely.finditer(text) if likely else ():
        yield *held.span("quoted" if held["quoted"] else "value"), "", ""


def _there(rows: Iterable[Sequence[str]], text: str) -> list[str]:
    """Return the patterns of the rows of which a text is there: the others, most of them, need not be tried."""
    return [form for *texts, form in rows if any(each in text for each in texts)]


def _labels(text: str) -> list[re.Match[str]]:
    """Return the labels in a text in lower case, in order; the last group of each is its kind."""
    labels: list[re.Match[str]] = []
    for kind, rows in table()["labels"].items():
        if there := _there(rows.values(), text):
            labels += re.finditer(rf"(?P<{kind}>{'|'.join(there)})", text)
    return sorted(labels, key=lambda label: label.start())


def _of_label(text: str, label: re.Match[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the secrets of a label: those of its column, or the first one after, beside or before it."""
    grammar, kind = _grammar(), str(label.lastgroup)
    cells = list(_cells(text, label))
    yield from cells
    for way in () if cells else ("form", "after", "beside", "before"):
        if way == "form":
            match = kind in grammar.forms and grammar.forms[kind].match(text, label.end())
        elif way == "before":
            match = grammar.closed.match(text, label.end()) and _before(text, label)
        else:
            match = kind not in grammar.forms and getattr(grammar, way).match(text, label.end())
        if match and _is_secret(label, match, way):
            yield _place(match)
            return


def _before(text: str, label: re.Match[str]) -> re.Match[str] | None:
    near = max(0, label.start() - _NEAR)
    has_value = re.search(r"[\d\"'`!@#$%^&*]", text[near : label.start()])
    return _grammar().before.search(text, near, label.start()) if has_value else None


def _place(match: re.Match[str]) -> tuple[int, int, str]:
    """Return where the secret of a match stands, with all that is joined to it, and the secret."""
    group = "quoted" if match.groupdict().get("quoted") else "value"
    (start, end), value = match.span(group), match[group]
    if group == "quoted":
        return start, end, value
    value = value.rstrip(").]*_:!?")
    whole = _WHOLE.match(match.string, end)
    run = match.string[start : whole.end() if whole else end]
    return start, start + max(len(value), len(run.rstrip(".,;:)]"))), value


def _cells(text: str, label: re.Match[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the secrets in the cells under a label in the first row of a Markdown table."""
    if not (under := _UNDER.match(text, label.end())):
        return
    begin = text.rfind("\n", 0, label.start()) + 1
    column = text[begin : label.start()].lstrip(" \t>").removeprefix("|").count("|")
    cell = rf"(?m)^[ \t>]*\|?(?:[^|\n]*\|){{{column}}}[ \t*_`\"']*(?P<value>[^|\n]{{3,120}}?)[ \t*_`\"']*(?:\||$)"
    for row in re.finditer(cell, text[under.start("rows") : under.end("rows")]):
        value, start = row["value"], under.start("rows") + row.start("value")
        if _fits(str(label.lastgroup), value):
            yield start, start + len(value), value


def _fits(kind: str, value: str) -> bool:
    """Say whether a value is a secret of a kind, wherever it stands."""
    if kind in {"key", "bearer", "aws", "totp"}:
        return passwords.is_key(value)
    if kind in {"pin", "cvc"}:
        return bool(_NUMBER.fullmatch(value))
    if kind == "phrase":
        return passwords.is_seed(value)
    return kind in {"codes", "passport"} or (kind != "login" and (_NUMBER.fullmatch(value) is not None or passwords.is_password(value)))


def _is_secret(label: re.Match[str], match: re.Match[str], way: str) -> bool:
    """Say whether the text `match` after a label, beside it without a verb or a sign, or before it, is its secret."""
    kind, (start, _, value), parts = str(label.lastgroup), _place(match), match.groupdict()
    if way == "form":
        return _fits(kind, value) or kind in {"totp", "cvc"} or (kind == "login" and bool(passwords.SIGN.search(value)) and passwords.is_password(value))
    text, end = match.string, start + len(value)
    is_plain = label[0].isascii() and not parts["quoted"]
    is_beside = way != "after"
    if way != "before" and not parts["quoted"] and not _ENDING.match(text, end):
        return False
    if _HASH.fullmatch(value) and _HASHED.search(text, max(0, label.start() - _SHORT), start):
        return False
    if kind in {"key", "bearer"}:
        return (way == "before" or is_beside is (kind == "bearer")) and passwords.is_key(value)
    if _NUMBER.fullmatch(value):
        is_near = not is_beside or (not parts.get("between") and (kind == "pin" or not is_plain))
        return is_near and not _grammar().unit.match(text, end)
    is_sure = not (is_beside and is_plain) or passwords.SIGN.search(value) or re.search(r"\d\D*\d", value)
    return kind == "password" and bool(is_sure) and passwords.is_password(value)
