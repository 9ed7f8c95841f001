"""
Credentials: find keys, passwords and resident's numbers in a text, which a note should not hold. Pure.

The prefixes are those that the issuers publish, as the rules of gitleaks and detect-secrets list them. The library
detect-secrets knows fewer of them, and only English labels. Placeholders of documentation are no secrets. Every pattern
takes time in proportion to the text.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spellbook.system.lazy import regex
from spellbook.text.unicode import composed

HINT = "Leave it out, or say where it is kept. If it is not a secret, repeat with force=true. Nothing was written."
"""The hint of a refusal. An argument is named as tools and the API take it; see `cli.app.as_typed`."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that looks like a secret: its kind and its line, counted from 1. Its `value` is never shown."""

    kind: str
    line: int
    value: str = field(repr=False)


_OTHER_PREFIXES = (
    *("AGE-SECRET-KEY-1", "ATATT3xFfGF0", "GOCSPX-", "PMAK-", "dapi", "doo_v1_", "dop_v1_", "dor_v1_", "gsk_"),
    *("hvs.", "lin_api_", "ntn_", "pplx-", "r8_", "sbp_", "shpat_", "shpca_", "shppa_", "shpss_", "sk-or-v1-"),
    *("pypi-AgEIcHlwaS5vcmc", "tskey-", "xai-", "ya29."),
)
"""How the keys of further issuers begin."""

_KEYS: tuple[tuple[str, str, str], ...] = (
    ("an Anthropic key", "sk-ant-", r"[\w-]{20,}"),
    *(("an OpenAI key", f"sk-{kind}-", r"[\w-]{20,}") for kind in ("proj", "svcacct", "admin")),
    ("an API key (sk-…)", "sk-", r"[A-Za-z0-9]{20,}"),
    *(("a GitHub token", f"gh{kind}_", r"[A-Za-z0-9]{36,}") for kind in "pousr"),
    ("a GitHub token", "github_pat_", r"\w{30,}"),
    *(("a GitLab token", f"gl{kind}-", r"[\w-]{20,}") for kind in ("pat", "dt", "rt", "ptt", "soat")),
    *(("a Slack token", f"xox{kind}-", r"[A-Za-z0-9-]{20,}") for kind in "abeoprs"),
    ("a Slack token", "xapp-", r"\d-[A-Za-z0-9-]{20,}"),
    ("a Slack webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[\w/]{30,}"),
    *(("an AWS access key", kind, r"[A-Z2-7]{16}(?![A-Za-z0-9])") for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("a Google API key", "AIza", r"[\w-]{35}"),
    ("an npm token", "npm_", r"[A-Za-z0-9]{36}"),
    ("a Hugging Face token", "hf_", r"[A-Za-z0-9]{30,}"),
    *(("a Stripe key", f"{kind}_live_", r"[A-Za-z0-9]{16,}") for kind in ("sk", "rk")),
    ("a Stripe webhook secret", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    ("a SendGrid key", "SG.", r"[\w-]{22}\.[\w-]{43}"),
    *(("an API key", prefix, r"(?=(?:[A-Za-z_=-]{0,99}\d){2})[\w=-]{28,300}") for prefix in _OTHER_PREFIXES),
    ("a JSON Web Token", "eyJ", r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
)
"""Kinds of keys: the beginning of each, and a pattern of the rest."""

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
_CARD_LABEL = regex(r"(?i)카드|\bcard ?(?:number|no\b|is|[:=#])|visa|master ?card|\bamex")
_ENCODED = regex(r"[A-Za-z0-9+/=]{40,}")
_IN_ADDRESS = regex(r"://(?P<user>[^\s/:@]{0,64}):(?P<value>[^\s/@]{2,100})@[\w\[]")

_LABELS = {
    "totp": r"(?:2fa|mfa|t?otp|authenticator)[ \w]{0,12}(?:secret|seed|key|시크릿|키)|[?&]secret(?==)",
    "phrase": "(?:recovery|seed|backup|wallet)[ -](?:phrase|words?)|mnemonic|(?:복구|시드|니모닉) ?(?:문구|구문|단어)",
    "passport": "passport|여권",
    "password": r"pass(?:word|wd|phrase|code|(?=\s?[=:]\s?[\"']?\w*[a-z]))|(?<![a-z])p(?:wd?|sw)(?![a-z])"
    "|비밀 ?번호|비번|암호(?!화|문)|패스워드|パスワード|密码|密碼|passwort|пароль|mot de passe|contraseña",
    "pin": r"(?<![a-z])(?:pin|otp|cvc|cvv)(?: ?(?:code|number))?(?![a-z])|(?:핀|인증) ?(?:번호|코드)"
    r"|(?:door|gate|alarm|entry|access|unlock|lock|safe|security|verification|authentication|garage|building) code",
    "bearer": "bearer|authorization: basic",
    "key": r"secret(?:[_-]?(?:access[_-]?)?key)?|token|credential|(?:api|access|private|auth|account)[_ -]?key"
    "|토큰|시크릿|인증 ?키|(?:api|접근|액세스|비밀) ?키",
    "login": r"(?<![a-z])(?:log-?in|router|nas|account|admin\w{0,10}|root|user(?:name)?|id)(?![a-z])"
    "|계정|아이디|로그인|공유기|관리자",
}
"""Words before a secret, by the form of the secret; the first that fits counts."""

_LABEL = "|".join(f"(?P<{kind}>{label})" for kind, label in _LABELS.items())
_CLOSING = r"""s?["'`\])*_”’]{0,4}(?:[ \t]{0,4}\([^()\n]{0,40}\))?"""
_OF = (
    r"(?:,?[ \t]{1,4}(?:of|for|to|on|in|at|from|that|which|we|you|I|he|she|they|here)"
    r"(?:[ \t]{1,4}[^\s=:：→|]{0,29}[^\s=:：→|.!?;]){1,8}?|(?:[ \t][가-힣]{1,6}){1,2})?"
)
_PARTICLE = "(?:은|는|이|가|は|是)"
_IS = (
    rf"{_PARTICLE}?[ \t]{{0,8}}(?::=|=>|->|=(?![=>])|[:：|→]|[-–—](?=[ \t]))(?:[ \t*_]{{0,8}}\r?\n)?"
    rf"|{_PARTICLE}[ \t]|['’]s[ \t]|[ \t](?:is|was|to)[ \t](?:(?:still|now|just|set to|changed to)[ \t]){{0,2}}"
)
_WORD = r"[!#-&(-+\--:=?-_a-z{}~]"  # ASCII letters, without blanks, quotes and signs that end a word
_VALUE = (
    r"""[ \t>*_(]{0,8}(?:["'`“‘「](?P<quoted>[^\s"'`“”‘’「」]{4,100})["'`”’」]"""
    rf"""|["'`]{{0,2}}(?P<value>{_WORD}{{4,200}})(?P<rest>[ \t]?\w{{0,4}}))"""
)
_AFTER = regex(rf"(?i){_CLOSING}{_OF}[ \t]{{0,8}}(?:{_IS}){_VALUE}")
_BESIDE = regex(rf"{_CLOSING}{_PARTICLE}?[ \t]{{1,8}}(?P<between>(?:[가-힣]{{1,8}}[ \t]{{1,4}}){{0,3}}){_VALUE}")
_EACH = r"[\s,]{1,3}(?:\d{1,2}[.)] ?)?(?:[a-z]{3,8}|[가-힣]{2,5})"
_FORMS = {
    "passport": regex(r"[^\n!?]{0,40}?(?<!\w)(?P<value>[A-Z]{1,2}\d{7,8}|[A-Z]\d{3}[A-Z]\d{4}|\d{9})(?![\w-])"),
    "totp": regex(r"[^\n]{0,40}?(?<!\w)(?P<value>[A-Z2-7]{4}(?:[ -]?[A-Z2-7]{4}){3,15})(?!\w)"),
    "phrase": regex(rf"[^\n]{{0,40}}?(?:[:=→]|is\b|은|는)(?P<value>(?:{_EACH}){{12,24}})(?!\w)"),
    "login": regex(rf"[^\n/]{{0,30}}?[/:][ \t]{{0,2}}(?P<value>{_WORD}{{6,100}})"),
}
"""Patterns of secrets that have a form of their own."""

_SIGN = regex("[A-Za-z0-9][!@#$%^&*+=~?]+[A-Za-z0-9]")
_NUMBER = regex(r"\d{4,12}[#*]?")
_ENDING = regex(r"[^가-힣]|$|이(?!상|하|후|전|내)|예요|입니|야|임|인데|다|로|으로|라고|래|였|를|을|니까")
"""Text that may directly follow a value: of Korean only particles and the verb to be."""
_UNIT = regex(
    r"(?i)\s?(?:bit|byte|char|lett|digit|word|day|hour|minu|seco|week|mont|year|time|entr|user|won|px|[mgk]b|ms)|\s?[자회일번개분명건원년]"
)
_PLACEHOLDER = regex(
    r"(?i)example|sample|dummy|placeholder|your|change.?me|redacted|insert|fake|mysecret|p[a@]ssw[o0]rd|xxxx|\*\*\*|\.\.\.|…"
    r"|[<>{}]|^\$\w+$|^%\w+%$|\$\(|eyJzdWIiOiIxMjM0NTY3ODkw|^(?:pass|secret|user|postgres|root|admin|test|guest|token|pwd|redis)$"
)
_SEQUENCE = regex("(?i)12345|abcdef|qwerty")
# A name of code (`req.body.token`), a call, a path, an address, a date or a version.
_NO_VALUE = regex(
    r"[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*)+|[\w$.]+[(\[].*|[~.]{0,2}/[\w./@-]*|\w+:/.*|[\dTZ:.,+/-]+|v?\d+(?:\.\w+)+"
)
_NAME = regex(r"[A-Za-z_$-]+\d{0,2}")
# Names of code again, of tickets, of algorithms, and measures.
_NO_PASSWORD = regex(
    r"[a-z]+(?:[A-Z][a-z]+)+\d{0,2}|[a-z]+(?:_[a-z]+)+\d?|[A-Z]{2,}-\d+|[\w.+-]+@[\w-]+\.[\w.]+|\d+(?:[-~]\d+)?[-~]?[a-z]{1,3}|\d{1,3}[-~]?[a-z]+"
    r"|(?i:(?:sha|md|aes|rsa|argon|pbkdf|oauth|base|utf|ed|hmac|tls|http|webauthn|scrypt|bcrypt|id|v)[-_]?\d+\w{0,4}(?:-\w+)*)"
)
_LIKELY = regex(
    r"""(?:(?i:\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?(?:bearer|basic|token)\s{1,3})"""
    r"""|(?i:\bcookie:\s{0,3}|(?<!\S)(?:-u|--user)[ =]\S{1,60}?:|\bsshpass\s+-p\s{0,3}["']?|\bmysql\b[^\n]{0,60}\s-p)"""
    r"""|(?i:(?<![a-z0-9_])[a-z0-9_]{0,60}(?:pass(?:word|wd|phrase)?|pwd|secret|token|_key)["']?\s?[=:]\s?)["']?)"""
    r"""(?P<value>(?![$<{%])(?:(?<=["'])[^"'\n]{4,}|[^\s"'`,;]{4,}))"""
)
"""A value in a header of a request, of a variable that is named after a secret, or of an option of common programs."""
_BLOCK = regex(r"(?s)-----BEGIN [A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----.*?(?:-----END[^\n]*|\Z)")
_LEAST_OF_PASSWORD, _LEAST_OF_KEY, _LONG, _DIFFERENT = 6, 8, 12, 5
"""Letters of a password, of a key with three kinds of them or two digits, and different ones of a key. By hand."""


def find(text: str) -> list[Secret]:
    """Return the likely secrets in `text`, in order, each place once."""
    secrets: list[Secret] = []
    text, end, line = composed(text), 0, 1
    for start, stop, kind, value in sorted(_candidates(text), key=lambda candidate: (candidate[0], -candidate[1])):
        if start >= end:
            line += text.count("\n", end, start)
            secrets.append(Secret(kind, line, value))
            line, end = line + text.count("\n", start, stop), stop
    return secrets


def masked(text: str, *, likely: bool = False) -> str:
    """Return `text` with `…` for each likely secret; with `likely`, for everything in the place of one."""
    kept: list[str] = []
    text, at = composed(text), 0
    places = {(start, stop) for start, stop, *_ in _candidates(text)}
    if likely:
        places |= {match.span("value") for match in _LIKELY.finditer(text)}
        places |= {match.span() for match in _BLOCK.finditer(text)}
    for start, stop in sorted(places):
        if start >= at:
            kept += [text[at:start], "…"]
        at = max(at, stop)
    return "".join([*kept, text[at:]])


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


def _candidates(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield each possible secret: its start, its end, its kind and its value."""
    data = text.encode("utf-8", "surrogatepass")
    for kind, prefix, rest in _KEYS:
        if prefix.encode() not in data:  # a cheap check, above all in bytes
            continue
        # Not inside a longer word: else `eyJeyJeyJ…` would be read anew from each of its letters.
        for match in re.finditer(rf"(?<![\w-]){re.escape(prefix)}{rest}", text, re.A):
            key = match[0][len(prefix) :]
            if not (_PLACEHOLDER.search(key) or _SEQUENCE.search(key)):
                yield *match.span(), kind, match[0]
    for match in _PRIVATE.finditer(text) if "PRIVATE KEY" in text else ():
        block = text[match.end() : match.end() + _KEY_LETTERS].partition("-----END")[0]
        body = _ENCODED.search(block)
        if body and not _PLACEHOLDER.search(body[0]):
            yield match.start(), match.end() + len(block), "a private key", body[0]
    for match in _IN_ADDRESS.finditer(text) if "://" in text else ():
        value = match["value"]
        if value != match["user"] and not _PLACEHOLDER.search(value):
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
        if (label or (match["grouped"] and len(set(digits)) >= _DIFFERENT)) and is_checked:
            yield *match.span(), "a card number", match[0]
    yield from _labelled(text)


def _labelled(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield each secret after a word that names it, as `_candidates` does."""
    lowered = text.lower()  # twice as fast as a search that ignores case
    end = 0
    for label in re.finditer(_LABEL, lowered if len(lowered) == len(text) else text):  # `İ` becomes two letters
        if label.start() < end:
            continue
        for form in (_FORMS.get(str(label.lastgroup), _AFTER), _BESIDE):
            found = form.match(text, label.end())
            group = "quoted" if found and found.groupdict().get("quoted") else "value"
            value = found[group].rstrip(").]*_:!?") if found else ""
            if found and _is_secret_of(label, found, value, is_beside=form is _BESIDE):
                start, end = found.start(group), found.start(group) + len(value)
                yield start, end, f"a secret after {label[0].casefold()!r}", value
                break


def _is_secret_of(label: re.Match[str], found: re.Match[str], value: str, *, is_beside: bool) -> bool:
    """Say whether the text `found` after a label, or right beside it without a verb or a sign, is its secret."""
    kind, parts = label.lastgroup, found.groupdict()
    if "rest" not in parts:  # a form of its own
        return kind != "login" or (bool(_SIGN.search(value)) and _is_password(value))
    is_plain = label[0].isascii() and not parts["quoted"]
    if not _ENDING.match(parts["rest"] or ""):
        return False
    if kind in {"key", "bearer", "totp"}:
        return is_beside is (kind == "bearer") and _is_secret(value)
    if _NUMBER.fullmatch(value):
        is_near = not is_beside or (not parts["between"] and (kind == "pin" or not is_plain))
        return is_near and not _UNIT.match(parts["rest"] or "")
    is_sure = not (is_beside and is_plain) or _SIGN.search(value) or re.search(r"\d\D*\d", value)
    return kind == "password" and bool(is_sure) and _is_password(value)


def _is_resident(match: re.Match[str]) -> bool:
    """Say whether a number of the form of a Korean resident's or foreigner's begins with a day of birth until today."""
    century = 1900 if match["sex"] in "1256" else 2000
    try:
        born = dt.date(century + int(match["born"][:2]), int(match["born"][2:4]), int(match["born"][4:]))
    except ValueError:
        return False
    return born.year >= _BORN_SINCE and born <= dt.date.today()


def _is_password(value: str) -> bool:
    """Say whether a value reads like a password: letters with digits or with signs among them, and no name of code."""
    if len(value) < _LEAST_OF_PASSWORD or any(form.fullmatch(value) for form in (_NO_VALUE, _NO_PASSWORD)):
        return False
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return (has_both or bool(_SIGN.search(value))) and not _PLACEHOLDER.search(value)


def _is_secret(value: str) -> bool:
    """Say whether a value is random enough to be a key, and no placeholder."""
    if not _is_password(value) or _NAME.fullmatch(value) or _SEQUENCE.search(value) or len(set(value)) < _DIFFERENT:
        return False
    kinds = sum(bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", r"\d", r"[\W_]"))
    return (len(value) >= _LEAST_OF_KEY and kinds > 2) or (len(value) >= _LONG and len(re.findall(r"\d", value)) > 1)
