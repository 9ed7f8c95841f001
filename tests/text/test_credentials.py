"""Text that looks like a secret is found, and hardly any other; `secrets.tesh` says that it is written only with force."""

from __future__ import annotations

import hashlib
import string
import time
import unicodedata
from pathlib import Path

import pytest

from spellbook.text import credentials


def random(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Random letters that no rule takes for a word, generated so that secret scanners find nothing in this file."""
    numbers = hashlib.shake_256(b"harbour").digest(length)
    return "".join(letters[number % len(letters)] for number in numbers)


UPPER = string.ascii_uppercase + "234567"
PEM = f"-----BEGIN {'RSA '}PRIVATE KEY-----\n{random(64)}\n{random(64)}\n-----END {'RSA '}PRIVATE KEY-----"
PASSWORD = "Qz7" + random(11)


PEOPLE = ("900101-1234567", "900101 - 2234567", "900101–1234567", "001231-3123456", "850615-5123456", "051230-8123456")
PEOPLE += ("주민등록번호: 9001011234567", "외국인등록번호 8506156123456", "RRN 9001011234567", "rrn=900101-1234567")
NOBODY = ("901301-1234567", "900230-1234567", "900101-9234567")  # no such month, day, sex digit
NOBODY += ("991231-3234567", "240315-1000234")  # not born yet; an order's: of 1924 it would fail the checksum
NOBODY += ("900101-1******", "9001011234567", "1711223344556")  # hidden, without a label, milliseconds since 1970
NOBODY += ("010-1234-5678, 02-123-4567, 070-1234-5678", "2026-11-25, 20261125-1234567")  # phones, dates
NOBODY += ("v1.900101-1234567", "/posts/900101-1234567", "A900101-1234567, 900101-1234567-8, 900101-1234567.5")
NOBODY += ("550e8400-e29b-41d4-a716-446655440000", "4242 4242 4242 4242, 1234 5678 9012 3456", "4539 1488 0343 6468")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sk-ant-" + "api03-" + random(60), "an Anthropic key"),
        ("sk-" + random(48), "an API key (sk-…)"),
        ("ghp_" + random(36), "a GitHub token"),
        ("github_pat_" + random(22) + "_" + random(59), "a GitHub token"),
        ("xoxb-" + random(12, string.digits) + "-" + random(24), "a Slack token"),
        ("https://hooks.slack.com/" + "services/T" + random(9, UPPER) + "/B" + random(24), "a Slack webhook"),
        ("AIza" + random(35), "a Google API key"),
        ("hf_" + random(34), "a Hugging Face token"),
        ("sk_live_" + random(24), "a Stripe key"),
        ("AGE-SECRET-KEY-1" + random(58, UPPER), "a key of age"),
        ("eyJ" + random(20) + ".eyJ" + random(40) + "." + random(43), "a JSON Web Token"),
        (PEM, "a private key"),
        (f"postgres://app:{PASSWORD}@db.internal/lantern", "a password in an address"),
        (f"password={PASSWORD}", "a secret after 'password'"),
        (f"DB_PASSWORD = '{PASSWORD}'", "a secret after 'password'"),
        (f"**token**: `{PASSWORD}`", "a secret after 'token'"),
        (f"| password | {PASSWORD} |", "a secret after 'password'"),
        (f"The password is {PASSWORD}.", "a secret after 'password'"),
        (f"비밀번호: {PASSWORD}", "a secret after '비밀번호'"),
        (f"관리자 비밀번호는 {PASSWORD} 입니다.", "a secret after '비밀번호'"),
        ("카드 4539 1488 0343 6467", "a card number"),
        *((f"고객 정보는 {number}입니다.", "a Korean resident number") for number in PEOPLE),
    ],
)
def test_what_is_a_secret(text: str, kind: str) -> None:
    """
    Keys by their prefixes, private keys, and random values after a label are reported by kind and line. Numbers of
    Koreans and foreigners are told by date and sex digit, without a hyphen only after their label; those of cards are
    digits in groups that pass Luhn's check.
    """
    [found] = credentials.find(f"# Notes\n\nSome words, then {text}\nand more.")
    assert (found.kind, found.line) == (kind, 3)
    assert found.value not in repr(found) + credentials.masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "password=changeme",
        "api_key: <your-key>",
        "token: ${GITHUB_TOKEN_2}",
        "export OPENAI_API_KEY=sk-your-key-here-1234567890",
        "sk-ant-" + "x" * 40,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dBjftJeZ4CVPmB92K27uhbUJU1p1r",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "postgres://user:password@localhost/db",
        "https://host:8080/path@v2",
        "token = req.body.token1",
        "private_key: /etc/ssl/key-2026.pem",
        "token expires: 2026-11-21T20:15:00+09:00",
        "The tokens: 5,400 a second, 8 times what the engine does.",
        "password: string; // at least 12 letters",
        "토큰: 관계형데이터베이스에보관한다1234",
        "xai-grok-code-and-its-many-friends, pypi-attestations-0.0.28-py3-none-any.whl",
        "sha512-" + "z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP",
        *(f"그 값은 {number} 이다. See {number}." for number in NOBODY),
    ],
)
def test_what_is_none(text: str) -> None:
    """
    Placeholders, names in code, paths, dates and prose are no secrets, nor are phone numbers, versions, ids, examples of
    cards, and numbers of no possible birth.
    """
    assert credentials.find(f"Words before: {text}\nand after.") == []


SENTENCES = Path(__file__).parent / "secrets"


@pytest.mark.parametrize("half", [0, 1])  # the patterns were chosen on the first half
@pytest.mark.parametrize(("file", "least", "most"), [("told.txt", 18, 20), ("harmless.txt", 0, 1)])
def test_secrets_as_people_say_them(file: str, least: int, most: int, half: int) -> None:
    """At least 9 of 10 sentences that tell a secret are found, and at most 1 of 100 harmless ones."""
    sentences = (SENTENCES / file).read_text("utf-8").splitlines()[half::2]
    found = [sentence for sentence in sentences if credentials.find(sentence)]
    assert least <= len(found) <= most, set(sentences) ^ set(found)
    assert not any(secret.value in credentials.masked(each) for each in found for secret in credentials.find(each))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("비밀번호:\nkestrel!2024", "kestrel!2024"),
        ("> **wifi password:**\r\n> `kestrel!2024`", "kestrel!2024"),
        ("the password we use at the office is Lantern-55-oak", "Lantern-55-oak"),
        (unicodedata.normalize("NFD", "비밀번호는 kestrel2024 입니다"), "kestrel2024"),
        ("여권 번호: M123A4567", "M123A4567"),
        ("amqp://svc:plainword@mq:5672", "plainword"),
        ("sk-proj-" + "a" * 28, "sk-proj-" + "a" * 28),
        ("otpauth://totp/a?" + "secret=JBSWY3DPEHPK3PXP&issuer=a", "JBSWY3DPEHPK3PXP"),
    ],
)
def test_the_forms_of_a_sentence(text: str, value: str) -> None:
    """A label and its value may be in a table, on two lines, apart by words, decomposed, or have a form of their own."""
    assert [each.value for each in credentials.find(f"Words.\n\n{text}\nMore.")] == [value]


def test_generated_numbers() -> None:
    """Of ids made of a date and a count few look like a resident's number, and of phone numbers none."""
    digits = random(40_000, string.digits)
    pairs = [digits[i : i + 13] for i in range(0, 39_000, 13)]
    assert sum(bool(credentials.find(f"id {each[:6]}-{each[6:]} x")) for each in pairs) < len(pairs) * 0.04
    assert not any(credentials.find(f"id {each} x") for each in pairs)
    assert not any(credentials.find(f"010-{each[:4]}-{each[4:8]}") for each in pairs)


REPEATED = ("password", "sk-", "eyJ", "eyJaaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----\n", "://a:", "token ", "a" * 9)
REPEATED += ("900101-", "4539 ", "password is is is ", "pw is a1a1a1a1", "seed phrase is aaa bbb ccc ddd ", "id/")


@pytest.mark.parametrize("part", REPEATED)
def test_it_takes_time_in_proportion(part: str) -> None:
    """Repeated labels, prefixes and beginnings of keys take linear time."""
    began = time.process_time()
    credentials.find(part * (200_000 // len(part)))
    assert time.process_time() - began < 3


def test_only_what_is_new_counts() -> None:
    """
    A secret that was already there is not reported for an edit elsewhere; a new one has its line in the whole text.
    """
    old = "words\n" * 500 + f"password={PASSWORD}\n" + "words\n" * 500
    for new in (old, old.replace("words", "other", 1), f"{old}again {PASSWORD}"):
        assert credentials.new(old, new) == []
    lines = old.splitlines(keepends=True)
    [found] = credentials.new(old, "".join([*lines[:300], f"token: {random(30)}\n", *lines[300:]]))
    assert (found.line, found.kind) == (301, "a secret after 'token'")
