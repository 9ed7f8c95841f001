"""Text that looks like a secret is found, and hardly any other; `secrets.tesh` says that it is written only with force."""

import hashlib
import re
import string
import time
import unicodedata
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.text import credentials
from spellbook.text.credential_values import table


def random(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Random letters that no rule takes for a word, generated so that secret scanners find nothing in this file."""
    numbers = hashlib.shake_256(b"harbour").digest(length)
    return "".join(letters[number % len(letters)] for number in numbers)


UPPER = string.ascii_uppercase + "234567"
LOWER = string.ascii_lowercase + string.digits
PEM = f"-----BEGIN {'RSA '}PRIVATE KEY-----\n{random(64)}\n{random(64)}\n-----END {'RSA '}PRIVATE KEY-----"
PASSWORD = "Qz7" + random(11)


PEOPLE: tuple[str, ...] = (
    "900101-1234567",
    "900101 - 2234567",
    "900101–1234567",
    "001231-3123456",
    "850615-5123456",
    "051230-8123456",
)
PEOPLE += ("주민등록번호: 9001011234567", "외국인등록번호 8506156123456", "RRN 9001011234567", "rrn=900101-1234567")
NOBODY: tuple[str, ...] = ("901301-1234567", "900230-1234567", "900101-9234567")  # no such month, day, sex digit
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


@pytest.mark.parametrize(
    ("file", "halves", "least", "most"),
    [
        ("told.txt", (0, 1), 18, 20),  # the patterns were chosen on the first half
        ("harmless.txt", (0, 1), 0, 1),
        ("told-in-languages.txt", (None,), 75, 80),
        ("harmless-in-languages.txt", (None,), 0, 2),
    ],
)
def test_secrets_as_people_say_them(file: str, halves: tuple[int | None, ...], least: int, most: int) -> None:
    """
    At least 9 of 10 sentences that tell a secret are found, and at most 1 of 100 harmless ones; in eight languages
    at most 5 of 80 are missed.
    """
    for half in halves:
        sentences = (SENTENCES / file).read_text("utf-8").splitlines()[half :: 1 if half is None else 2]
        found = [sentence for sentence in sentences if credentials.find(sentence)]
        assert least <= len(found) <= most, set(sentences) ^ set(found)
        assert not any(secret.value in credentials.masked(each) for each in found for secret in credentials.find(each))


VALUE, OTHER = "Marten-482-fog", "Kestrel$7712x"
AWS_SECRET = "wJ4lrXUtn" + "FEMIk7MDENGbPxRfiCYk2mQz8TpLs9d"
MARKUP = (
    f"<password>{VALUE}</password>",
    f'<property name="password" value="{VALUE}"/>',
    f"<tr><th>Passwort</th>\n  <td>{VALUE}</td></tr>",
    f"<key>password</key>\n<string>{VALUE}</string>",
    f'<password encrypted="no"><![CDATA[{VALUE}]]></password>',
    f"| Service | User | Password |\n| --- | --- | --- |\n| NAS | minsu | {VALUE} |\n| DB | app | {OTHER} |",
    f"| 서비스 | 비밀번호 |\n|---|---|\n| 위키 | `{VALUE}` |",
    f"서비스 | 비밀번호\n--- | ---\n위키 | {VALUE}",
    f"| **パスワード** | {VALUE} |",
)
COMMANDS = (
    f"CREATE USER bob IDENTIFIED BY '{VALUE}';",
    f"ALTER USER 'root'@'localhost' IDENTIFIED WITH mysql_native_password BY '{VALUE}';",
    f"ALTER USER bob WITH PASSWORD '{VALUE}';",
    f"SET PASSWORD FOR 'bob'@'%' = PASSWORD('{VALUE}');",
    f"CREATE LOGIN bob WITH PASSWORD = N'{VALUE}';",
    f"docker login -u bob -p {VALUE} registry.internal",
    f"mysql -u root -p{VALUE} shop",
    f"curl -u bob:{VALUE} https://x.internal/y",
    f"tool --db-password={VALUE} go",
    f"PGPASSWORD={VALUE} psql -h db",
    f"redis-cli -h cache -a {VALUE}",
    f"sqlcmd -S db -U sa -P {VALUE}",
    f"7z x -p{VALUE} a.7z",
    f"openssl rsa -passin pass:{VALUE} -in key",
    f"net use \\\\srv\\share /user:bob {VALUE}",
    f"smbclient //a/b -U bob%{VALUE}",
    f"htpasswd -bc file bob {VALUE}",
    f"ldapsearch -x -D cn=a -w {VALUE}",
    f"requirepass {VALUE}",
    f"rabbitmqctl add_user bob {VALUE}",
    f"net user bob {VALUE} /add",
    f"echo 'bob:{VALUE}' | chpasswd",
    f"ssh-keygen -N '{VALUE}' -f k",
    f"rclone config create r sftp user bob pass {VALUE}",
    f"snmp-server community {VALUE}",
)
SETTINGS = (
    f'{{"user": "bob", "password": "{VALUE}"}}',
    f"[db]\npassword = {VALUE}",
    f"Server=db;User Id=sa;Password={VALUE};",
    f"redis://:{VALUE}@cache:6379",
    f"jdbc:postgresql://h/d?user=a&password={VALUE}",
    f"- name: DB_PASSWORD\n  value: {VALUE}",
    f"password_prod = '{VALUE}'",
    f"setPassword('{VALUE}')",
    f'{{"user": "bob", "pass": "{VALUE}"}}',
    f"{{'pwd': '{VALUE}'}}",
    f"pass: {VALUE}",
    f'psk="{VALUE}"',
    f"db.internal:5432:shop:bob:{VALUE}",
    f"*:*:*:bob:{VALUE}",
    f"machine x.internal\n  login bob\n  password {VALUE}",
    f"[client]\npassword = {VALUE}",
    f"bob:$apr1${random(8)}${random(22)}",
    f"root:$6${random(12)}${random(86)}:19700:0:99999:7:::",
    f"smb://bob%{VALUE}@nas/share",
    f'{{"auths": {{"x.internal": {{"auth": "{random(24)}"}}}}}}',
    f"_auth={random(24)}",
    f"WIFI:S:Kessler;T:WPA;P:{VALUE};;",
    f"WIFI:T:WPA;P:{VALUE};S:Kessler;;",
    f"Authorization: Basic {random(24)}",
    f"Cookie: theme=dark; sessionid={random(24)}",
    f"Set-Cookie: JSESSIONID={random(24)}; Path=/",
    f"https://chat.internal/hooks/7{random(25, LOWER)}",
    "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "https://open.feishu.cn/open-apis/bot/v2/hook/7c9e6679-7425-40de-944b-e07fc1f90ae7",
    f"https://maker.ifttt.com/trigger/door/with/key/{random(22)}",
    "429473-105248-693120-275308-518452-660913-301752-487619",
    f"aws secret {AWS_SECRET}",
    "AKIA" + f"Z3QW5TRXN7KLM2PA {AWS_SECRET}",
)
LETTERS = (
    'password: "pa,ss 77; fox"',
    'pw is "it\'s 4 lanterns"',
    "Passphrase: 'copper meadow lantern eleven'",
    "合言葉は「copper meadow lantern eleven」です",
    "ｐａｓｓｗｏｒｄ：Ｍａｒｔｅｎ４８２ｆｏｇ",
    "ﾊﾟｽﾜｰﾄﾞ：Marten482fog",
    "𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝: 𝐌𝐚𝐫𝐭𝐞𝐧𝟒𝟖𝟐",
    "pass\u200bword: Mar\u200bten\u2060482\ufefffog",
    "p\xada\xads\xads\xadword is Marten\u200d482",
    "비밀\u200b번호는 Marten\u200b482 이야",
    "password: Marten482!!",
    "password: Marten482,fog;sea",
    "card 4539 1488 0343 6467 CVC 442",
    "recovery codes:\n- a1b2c-3d4e5\n- f6g7h-8i9j0\n",
    "Seed-Phrase: ripple salmon anchor violet canyon mosaic gravity tunnel obscure fabric lumber orient",
    "助记词：的 一 是 在 不 了 有 和 人 这 中 大",
)


@pytest.mark.parametrize("text", [*MARKUP, *COMMANDS, *SETTINGS, *LETTERS])
def test_the_forms_of_files_and_commands(text: str) -> None:
    """A secret in markup, a table, SQL, a command, settings or odd letters is found. A mask leaves no half of it."""
    found = credentials.find(f"Words.\n\n{text}\n")
    assert found
    for kept in (credentials.masked(text), credentials.masked(text, likely=True)):
        plain = unicodedata.normalize("NFKC", re.sub("[\xad\u200b-\u200d\u2060\ufeff]", "", kept))
        assert not any(part in plain for secret in found for part in re.findall(r"[^\W_]{3,}", secret.value))
        assert not re.search(r"!!|;sea", kept)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password: correct horse battery staple", "password: …"),
        ("passphrase = wind, sea and 3 more words", "passphrase = …"),
        ("비밀번호: 고양이", "비밀번호: …"),
        ("パスワード：さくら", "パスワード：…"),
        ("密码：月亮", "密码：…"),
        ("Passwort: Katze", "Passwort: …"),
        ("пароль: кот", "пароль: …"),
        ("TOKEN='it\"s;me,too'", "TOKEN='…'"),
        ("password=wind,sea;sun", "password=…"),
        ("curl -u bob:simple https://x.internal", "curl -u bob:… https://x.internal"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "…"),
        ("The password is required.", "The password is required."),
    ],
)
def test_all_that_is_likely_is_masked(text: str, kept: str) -> None:
    """A mask of all that is likely takes the whole value after a sign, in each language, also one that could be a word."""
    assert credentials.masked(text, likely=True) == kept


ALNUM, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
ISSUED = {
    **{"ghp_": (36, ALNUM), "glpat-": (20, ALNUM), "xoxb-": (40, ALNUM), "sk_live_": (24, ALNUM), "npm_": (36, ALNUM)},
    **{
        "sk-proj-": (60, ALNUM),
        "sk-ant-api03-": (90, ALNUM),
        "AIza": (35, ALNUM),
        "AKIA": (16, UPPER),
        "SK": (32, HEX),
    },
    **{"key-": (32, HEX), "pypi-AgEIcHlwaS5vcmc": (80, ALNUM), "dckr_pat_": (27, ALNUM), "dop_v1_": (64, HEX)},
    **{"HRKU-AA": (58, ALNUM), "shpat_": (32, HEX), "sq0atp-": (22, ALNUM), "figd_": (40, ALNUM), "ntn_": (46, ALNUM)},
    **{"lin_api_": (40, ALNUM), "ATATT3": (186, ALNUM), "dapi": (32, HEX), "hvs.": (95, ALNUM), "glc_": (60, ALNUM)},
    **{"NRAK-": (27, ALNUM), "hf_": (34, ALNUM), "r8_": (37, ALNUM), "sntryu_": (64, HEX), "sbp_": (40, HEX)},
    **{
        "nfp_": (40, ALNUM),
        "pscale_tkn_": (43, ALNUM),
        "LTAI": (20, ALNUM),
        "rubygems_": (48, HEX),
        "oy2": (43, LOWER),
    },
    **{"cio": (32, ALNUM), "CCIPAT_": (40, ALNUM), "sgp_": (40, HEX), "tskey-auth-": (40, ALNUM), "tfp_": (59, ALNUM)},
    **{"CFPAT-": (43, ALNUM), "gsk_": (52, ALNUM), "xai-": (80, ALNUM), "pplx-": (48, ALNUM), "": (30, ALNUM)},
}
"""Beginnings, lengths and letters of keys, as their issuers document them; and a random word that is none."""
AROUND = [("", ""), ("Mine: ", "."), ("`", "`"), ("키는 ", " 이야"), ("这是", "。"), ("\u200b", "\u200b")]


@pytest.mark.parametrize("around", AROUND)
def test_keys_with_random_values(around: tuple[str, str]) -> None:
    """A key of each issuer is found wherever it stands; the beginning of one, or a random word, is none."""
    chance = Random(str(around))
    for begin, (length, letters) in ISSUED.items():
        key = begin + "7" + "".join(chance.choices(letters, k=length - 1))
        text = key.join(around)
        found = [secret.value.rstrip(".") for secret in credentials.find(text)]  # some issuers use dots
        assert found == ([key] if begin else [])
        assert not begin or key not in credentials.masked(text)
        assert not credentials.find(key[: len(begin) + 5].join(around))


LABELS = [row for rows in table()["labels"].values() for row in rows.values()]


@given(st.data())
def test_no_row_is_skipped(data: st.DataObject) -> None:
    """A row of labels is tried wherever one of its words is: each word of its pattern holds one of its texts."""
    *texts, form = data.draw(st.sampled_from(LABELS))
    word = data.draw(st.from_regex(form))
    assert any(text in word for text in texts)


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
    orders = "\n".join(f"id {each[:6]}-{each[6:]} x" for each in pairs)
    assert len(credentials.find(orders)) < len(pairs) * 0.04
    numbers = "\n".join(f"id {each} x\n010-{each[:4]}-{each[4:8]}" for each in pairs)
    assert credentials.find(numbers) == []


REPEATED: tuple[str, ...] = (
    "password",
    "sk-",
    "eyJ",
    "eyJaaaaaaaaaaa.",
    "-----BEGIN PRIVATE KEY-----\n",
    "://a:",
    "token ",
    "a" * 9,
)
REPEATED += ("password|\n--|\n", "password of the ", "a1b2c3 is the password ", "密码是", "пароль ", "mysql -p", "id/")
REPEATED += (
    "AKIAZ3QW5TRXN7KLM2PA ",
    "recovery codes: a1b2 ",
    "password <b> ",
    '"password" ',
    "password\u200b",
    "ﾊﾟ",
    "| ",
)
REPEATED += ("curl -u a", "900101-", "4539 ", "password is is is ", "pw is a1a1a1a1", "seed phrase is aaa bbb ccc ddd ")
BETWEEN = (" ", "\n", '"', "'", "`", ":", "=", "|", " is ", "는 ", "は", "<b>", "- ", "a1", "Marten482", "$", "(", "\\")


@pytest.mark.parametrize("part", REPEATED)
def test_it_takes_time_in_proportion(part: str) -> None:
    """Repeated labels, prefixes and beginnings of keys take linear time."""
    began = time.process_time()
    credentials.find(part * (60_000 // len(part)))
    assert time.process_time() - began < 3


@given(st.lists(st.sampled_from([*REPEATED, *BETWEEN]), min_size=2, max_size=6).map("".join), st.booleans())
def test_any_mixture_takes_bounded_time(part: str, likely: bool) -> None:
    """Labels, signs, quotes and values in any mixture, repeated, take time in proportion to the text."""
    began = time.process_time()
    credentials.masked(part * (10_000 // len(part)), likely=likely)
    assert time.process_time() - began < 5


def test_only_what_is_new_counts() -> None:
    """A secret that was there is not reported for an edit elsewhere; a new one has its line in the whole text."""
    old = "words\n" * 500 + f"password={PASSWORD}\n" + "words\n" * 500
    for new in (old, old.replace("words", "other", 1), f"{old}again {PASSWORD}"):
        assert credentials.new(old, new) == []
    lines = old.splitlines(keepends=True)
    [found] = credentials.new(old, "".join([*lines[:300], f"token: {random(30)}\n", *lines[300:]]))
    assert (found.line, found.kind) == (301, "a secret after 'token'")
