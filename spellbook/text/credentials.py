"""
Credentials: what in a text looks like a key, a password or a resident's number, which a note should not hold.

The prefixes are those that the issuers publish, as the rules of gitleaks and detect-secrets list them. This is a table
instead of the library detect-secrets. The last release of that library is of May 2024. It needs an HTTP client. It
knows no keys of Anthropic, Google or Hugging Face, no fine-grained tokens of GitHub, and only English labels.
Placeholders of documentation are no secrets. Pure; every pattern takes time in proportion to the text.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

HINT = "Leave it out, or say where it is kept. If it is not a secret, repeat with force=true. Nothing was written."
"""What to do after a refusal. An argument is named as tools and the API take it; see `cli.app.as_typed`."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that looks like a secret: its kind and its line, counted from 1. Its `value` is never shown."""

    kind: str
    line: int
    value: str = field(repr=False)


_KEYS: tuple[tuple[str, str, str], ...] = (
    ("an Anthropic key", "sk-ant-", r"[\w-]{20,}"),
    ("an OpenAI key", "sk-proj-", r"[\w-]{20,}"),
    ("an OpenAI key", "sk-svcacct-", r"[\w-]{20,}"),
    ("an OpenAI key", "sk-admin-", r"[\w-]{20,}"),
    ("an OpenRouter key", "sk-or-v1-", r"[0-9a-f]{40,}"),
    ("an API key (sk-…)", "sk-", r"[A-Za-z0-9]{20,}"),
    *(("a GitHub token", f"gh{kind}_", r"[A-Za-z0-9]{36,}") for kind in "pousr"),
    ("a GitHub token", "github_pat_", r"\w{30,}"),
    *(("a GitLab token", f"gl{kind}-", r"[\w-]{20,}") for kind in ("pat", "dt", "rt", "ptt", "soat")),
    *(("a Slack token", f"xox{kind}-", r"[A-Za-z0-9-]{20,}") for kind in "abeoprs"),
    ("a Slack token", "xapp-", r"\d-[A-Za-z0-9-]{20,}"),
    ("a Slack webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[\w/]{30,}"),
    *(("an AWS access key", kind, r"[A-Z2-7]{16}(?![A-Za-z0-9])") for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("a Google API key", "AIza", r"[\w-]{35}"),
    ("a Google client secret", "GOCSPX-", r"[\w-]{28}"),
    ("a Google access token", "ya29.", r"[\w-]{20,}"),
    ("an npm token", "npm_", r"[A-Za-z0-9]{36}"),
    ("a PyPI token", "pypi-AgEIcHlwaS5vcmc", r"[\w-]{50,}"),
    ("a Hugging Face token", "hf_", r"[A-Za-z0-9]{30,}"),
    *(("a Stripe key", f"{kind}_live_", r"[A-Za-z0-9]{16,}") for kind in ("sk", "rk")),
    ("a Stripe webhook secret", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    ("a SendGrid key", "SG.", r"[\w-]{22}\.[\w-]{43}"),
    ("a Groq key", "gsk_", r"[A-Za-z0-9]{40,}"),
    ("an xAI key", "xai-", r"[A-Za-z0-9]{60,}"),
    ("a Replicate token", "r8_", r"[A-Za-z0-9]{37}"),
    ("a Perplexity key", "pplx-", r"[A-Za-z0-9]{40,}"),
    *(("a DigitalOcean token", f"do{kind}_v1_", r"[0-9a-f]{64}") for kind in "opr"),
    *(("a Shopify token", f"shp{kind}_", r"[0-9a-fA-F]{32}") for kind in ("at", "ca", "pa", "ss")),
    ("a Databricks token", "dapi", r"[0-9a-f]{32}"),
    ("a Vault token", "hvs.", r"[\w-]{24,}"),
    ("a Linear key", "lin_api_", r"[A-Za-z0-9]{40}"),
    ("a Notion token", "ntn_", r"[A-Za-z0-9]{40,}"),
    ("a Supabase token", "sbp_", r"[0-9a-f]{40}"),
    ("a Tailscale key", "tskey-", r"[A-Za-z0-9-]{20,}"),
    ("a Postman key", "PMAK-", r"[0-9a-f-]{50,}"),
    ("an Atlassian token", "ATATT3xFfGF0", r"[\w=-]{60,}"),
    ("an age key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    ("a JSON Web Token", "eyJ", r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
)
"""Kinds of keys: how each begins, and what follows, as a pattern."""

_PRIVATE = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LETTERS = 4_000
"""The most letters of a private key."""

_RESIDENT = re.compile(
    r"(?<![\dA-Za-z_/-])(?<!\d\.)(?P<born>\d{6})(?P<mark> ?[-–—−] ?)?(?P<sex>[1-8])\d{6}(?![\dA-Za-z_-]|[.,:/]\d)"
)
_RESIDENT_LABEL = re.compile(r"(?i)(?:주민|외국인) ?(?:등록)? ?번호|(?:resident|alien) registration|\brrn\b")
_BEFORE = 30
"""Letters before a number without a hyphen in which its label must be."""

_WEIGHTS = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
"""Weights of the old checksum of resident numbers; those since October 2020 have none."""

_CHECKED_UNTIL = 1930
"""
Year of birth before which the checksum must hold: few so old have a number without it, and that of an order, such as
240315-1000234, reads like theirs. By hand.
"""

_CARD = re.compile(r"(?<![\dA-Za-z_-])(?:[2-6]\d{3}(?:[ -]\d{4}){3}|3[47]\d\d[ -]\d{6}[ -]\d{5})(?![\dA-Za-z_-])")
_LEAST_OF_CARD = 2.3
"""Bits a digit that a card's number has at least: those of documentation, such as 4242 4242 …, have fewer. By hand."""

_ENCODED = re.compile(r"[A-Za-z0-9+/=]{40,}")
_IN_ADDRESS = re.compile(r"://[^\s/:@]{0,64}:(?P<value>[^\s/@]{6,100})@[\w\[]")

_LABEL = (
    r"pass(?:word|wd|phrase|code)|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|token|credential"
    r"|(?:api|access|private|auth|account)[_ -]?key"
    "|비밀번호|비번|암호|패스워드|토큰|시크릿|인증 ?키|(?:api|접근|액세스|비밀) ?키|パスワード|密码|密碼"
)
_VALUE = re.compile(
    r"""s?["'`\])*_]{0,4}[ \t]{0,8}(?:(?:은|는|이|가)?[ \t]{0,8}(?::=|=>|[:=：|])|(?:은|는|이|가)[ \t]|[ \t]is[ \t])"""
    r"""[ \t]{0,8}["'`*(]{0,4}(?P<value>[^\s"'`|,;<>]{8,200})"""
)
_PLACEHOLDER = re.compile(
    r"(?i)example|sample|dummy|placeholder|your|change.?me|redacted|insert|fake|mysecret|p[a@]ssw[o0]rd|xxxx|\*\*\*|\.\.\.|…|[<>{}$%]"
    r"|12345|abcdef|qwerty|(.)\1{4}"
)
_SAMPLE_JWT = "eyJzdWIiOiIxMjM0NTY3ODkw"  # {"sub":"1234567890…: the example token that documentation shows
# A name of code (`nextToken2`, `req.body.token`), a call, a path, an address, a date or a version.
_NO_VALUE = re.compile(
    r"[A-Za-z_$-]+\d{0,2}|[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*)+|[\w$.]+[(\[].*|[~.]{0,2}/[\w./@-]*|\w+:/.*|[\dTZ:.,+/-]+|v?\d+(?:\.\w+)+"
)
_LEAST_ENTROPY = 3.0
"""Bits a letter that a secret has at least. By hand."""

_SHORT = 12
"""Letters below which a value is a secret only if it holds three kinds of them."""

_LEAST_SHORT = 2.75
"""Bits a letter that such a short secret has at least. By hand."""


def find(text: str) -> list[Secret]:
    """Return what in `text` looks like a secret, in order, each place once."""
    secrets: list[Secret] = []
    end = -1
    for start, stop, kind, value in sorted(_candidates(text), key=lambda candidate: (candidate[0], -candidate[1])):
        if start >= end:
            secrets.append(Secret(kind, text.count("\n", 0, start) + 1, value))
            end = stop
    return secrets


def masked(text: str) -> str:
    """Return `text` with `…` in place of what looks like a secret."""
    kept: list[str] = []
    at = 0
    for start, stop, _, _ in sorted(_candidates(text)):
        if start >= at:
            kept += [text[at:start], "…"]
        at = max(at, stop)
    return "".join([*kept, text[at:]])


def in_note(text: str, meta: Mapping[str, Any]) -> list[str]:
    """Say, a sentence each, what in a text and in its frontmatter looks like a secret."""
    held = [(key, secret) for key, value in meta.items() for part in _texts(value) for secret in find(f"{key}: {part}")]
    is_line = "\n" not in text.strip()
    return [
        *(
            f"the text looks like it holds {secret.kind}"
            if is_line
            else f"line {secret.line} of the text looks like it holds {secret.kind}"
            for secret in find(text)
        ),
        *(f"metadata.{key} looks like it holds {secret.kind}" for key, secret in held),
    ]


def new(before: str, after: str) -> list[Secret]:
    """Return what looks like a secret in `after` and was not in `before`; only where they differ is looked at."""
    same = _count_shared(before, after)
    end = _count_shared(before[same:], after[same:], from_end=True)
    # Whole lines, and as many lines around them as a private key may have.
    start = after.rfind("\n", 0, max(0, same - _KEY_LETTERS)) + 1
    end = max(0, end - _KEY_LETTERS)
    stop = after.find("\n", len(after) - end) if end else -1
    secrets = find(after[start : stop if stop >= 0 else len(after)])
    known = {secret.value for secret in find(before)} if secrets else set()
    above = after.count("\n", 0, start)
    return [replace(secret, line=secret.line + above) for secret in secrets if secret.value not in known]


def _count_shared(a: str, b: str, *, from_end: bool = False) -> int:
    """Return how many letters two texts share at the start or the end. Bisects: comparing slices is fast."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        is_same = a[-middle:] == b[-middle:] if from_end else a.startswith(b[:middle])
        low, high = (middle, high) if is_same else (low, middle - 1)
    return low


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (f"{key}: {text}" for text in _texts(item))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _texts(item)


def _candidates(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield each possible secret: its start, its end, its kind and its value."""
    data = text.encode("utf-8", "surrogatepass")
    for kind, prefix, rest in _KEYS:
        if prefix.encode() not in data:  # a cheap check, above all in bytes
            continue
        # Not inside a longer word: else `eyJeyJeyJ…` would be read anew from each of its letters.
        for match in re.finditer(rf"(?<![\w-]){re.escape(prefix)}{rest}", text, re.A):
            key = match[0][len(prefix) :]
            if _entropy(key) >= _LEAST_ENTROPY and not _PLACEHOLDER.search(key) and _SAMPLE_JWT not in key:
                yield *match.span(), kind, match[0]
    for match in _PRIVATE.finditer(text) if "PRIVATE KEY" in text else ():
        block = text[match.end() : match.end() + _KEY_LETTERS].partition("-----END")[0]
        body = _ENCODED.search(block)
        if body and _entropy(body[0]) >= _LEAST_ENTROPY:
            yield match.start(), match.end() + len(block), "a private key", body[0]
    for match in _IN_ADDRESS.finditer(text) if "://" in text else ():
        if _is_secret(match["value"]):
            yield *match.span("value"), "a password in an address", match["value"]
    for match in _RESIDENT.finditer(text):
        label = match["mark"] or _RESIDENT_LABEL.search(text, max(0, match.start() - _BEFORE), match.start())
        if label and _is_resident(match):
            yield *match.span(), "a Korean resident number", match[0]
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if _entropy(digits) >= _LEAST_OF_CARD and _passes_luhn(digits):
            yield *match.span(), "a card number", match[0]
    lowered = text.lower()  # twice as fast as a search that ignores case
    for label in re.finditer(_LABEL, lowered if len(lowered) == len(text) else text):  # `İ` becomes two letters
        assigned = _VALUE.match(text, label.end())
        if assigned and _is_secret(value := assigned["value"].rstrip(").]*_:!?")):
            yield *assigned.span("value"), f"a secret after {label[0].casefold()!r}", value


def _is_resident(match: re.Match[str]) -> bool:
    """Say whether a number of the form of a Korean resident's or foreigner's begins with a day of birth until today."""
    century = 1900 if match["sex"] in "1256" else 2000
    try:
        born = dt.date(century + int(match["born"][:2]), int(match["born"][2:4]), int(match["born"][4:]))
    except ValueError:
        return False
    digits = [int(digit) for digit in match[0] if digit.isdigit()]
    check = (11 - sum(map(operator.mul, _WEIGHTS, digits)) % 11) % 10
    if match["sex"] in "5678":  # a foreigner's
        check = (check + 2) % 10
    return born <= dt.date.today() and (born.year >= _CHECKED_UNTIL or check == digits[-1])


def _passes_luhn(digits: str) -> bool:
    """Say whether the last digit of a card's number checks the others."""
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0


def _is_secret(value: str) -> bool:
    """Say whether a value is random enough to be a secret, and no placeholder."""
    if _NO_VALUE.fullmatch(value) or _PLACEHOLDER.search(value):
        return False
    digits, letters = (sum(map(kind, value)) for kind in (str.isdigit, str.isalpha))
    if not digits or not letters or not value.isascii():
        return False
    if len(value) >= _SHORT and digits > 1:
        return _entropy(value) >= _LEAST_ENTROPY
    kinds = [
        any(map(kind, value)) for kind in (str.islower, str.isupper, str.isdigit, lambda letter: not letter.isalnum())
    ]
    return sum(kinds) >= 3 and _entropy(value) >= _LEAST_SHORT


def _entropy(value: str) -> float:
    """Bits a letter, after Shannon, by how often the letters of `value` are in it."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
