"""Terms: indexed terms and query terms match in SQLite's full-text index."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spellbook.text.terms import estimate_tokens, index_form, parts, phrase, scripts, terms, token_weight
from tests.helpers import empty_catalog

anything = st.text(st.characters(exclude_categories=["Cs"]))
hangul = st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1, max_size=12)


@cache
def catalog() -> sqlite3.Connection:
    """An empty full-text table for all of these tests."""
    return empty_catalog()


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    catalog().close()


def found(text: str, asked: str) -> bool:
    """Whether the full-text table finds `text` by the expression `asked`."""
    catalog().execute("BEGIN")
    try:
        catalog().execute("INSERT INTO words (body, parts) VALUES (?, ?)", (index_form(text), parts(text)))
        return bool(catalog().execute("SELECT count(*) FROM words WHERE words MATCH ?", (str(asked),)).fetchone()[0])
    finally:
        catalog().execute("ROLLBACK")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("도커를", " 도커 커를 "),
        ("Docker를 쓴다", "Docker 를   쓴다 "),
        ("東京タワー", " 東京 京タ タワ ワー "),
        ("가", " 가 "),
        ("ภาษาไทย", " ภาษา ษาไท ไทย "),
        ("ＡＰＩ と ｱﾌﾟﾘ", "API  と   アプ プリ "),
        ("Straße", "Strasse"),
        ("كِتَــاب أحمد", "كتاب احمد"),
        ("done✅", "done u2705 "),
        ("हिन्दी", "हिन्दी"),
        ("plain words", "plain words"),
        ("도커", " 도커 "),
        ("", ""),
    ],
)
def test_index_form(text, form):
    """Runs of CJK become overlapping pairs; the rest stays."""
    assert index_form(text) == form


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Docker docker DOCKER", ["docker"]),
        ("도커 설치", ["도커", "설치"]),
        ("설치방법", ["설치", "치방", "방법"]),
        ("k8s의 v1.2", ["k8s", "의", "v1", "2"]),
        ("snake_case", ["snake", "case"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा।"]),
        ("?! ...", []),
        (" ".join(map(str, range(100))), [str(i) for i in range(64)]),
    ],
)
def test_terms(question, expected):
    """A query's terms are its distinct words and pairs in order, at most 64."""
    assert terms(question) == expected


@pytest.mark.parametrize(
    ("text", "asked", "hit"),
    [
        ("도커를 설치한다", "도커", True),
        ("도커를 설치한다", "설치", True),
        ("도커를 설치한다", "커를 설", True),
        ("도커를 설치한다", "커를 치", False),
        ("React를쓴다", "React를", True),
        ("도커를 설치한다", "도", True),
        ("도커를", "를", False),
        ("도커", "도커", True),
        ("running containers", "run", True),
        ("a-b c", "b c", True),
        ("x AND y", 'x" OR "y', False),
        ("東京タワー", "京タワ", True),
        ("ภาษาไทย", "ไทย", True),
        ("हिन्दी में", "हिन्दी", True),
        ("हिन्दी में", "हिन्दू", False),
        ("İstanbul’da", "istanbul", True),
        ("STRASSE", "Straße", True),
        ("ΟΔΟΣ", "οδός", True),
        ("tiếng Việt", "tieng viet", True),
        ("کتاب می‌خوانم", "میخوانم", True),
        ("ｱﾌﾟﾘ", "アプリ", True),
        ("a 🧙‍♂️ wizard", "🧙", True),
        ("a wizard", "🧙", False),
        ("the useState hook", "useState", True),
        ("the useState hook", "usestate hook", True),
        ("the useState hook", "use state", True),
        ("the useState hook", "state", True),
        ("class HTTPServer:", "server", True),
        ("all APIs", "AP", False),
        ("an error_boundary here", "error_boundary", True),
        ("an error_boundary here", "boundary", True),
        ("an error boundary here", "error_boundary", True),
        ("run it with --dry-run", "--dry-run", True),
        ("run it with --dry-run", "dry run", True),
        ("since v1.2.3 it works", "1.2.3", True),
        ("since v1.2.3 it works", "v1.2.3", True),
        ("since v1.2.4, of 3 parts", "1.2.3", False),
        ("connect ECONNREFUSED 127.0.0.1", "ECONNREFUSED", True),
        ("error[E0308]: mismatched", "e0308", True),
        ("ERR_MODULE_NOT_FOUND", "err_module_not_found", True),
        ("see src/app/page.tsx", "src/app/page.tsx", True),
        ("see src/app/page.tsx", "page.tsx", True),
        ("import fs from 'node:fs'", "node:fs", True),
        ("npm i @types/node", "@types/node", True),
        ("written in C++, not C", "C++", True),
        ("C++로 쓴다", "c++", True),
        ("written in C", "C++", False),
        ("C# and F#", "f#", True),
        ("put it in `.env`", ".env", True),
        ("the env", ".env", False),
        ("a #hashtag here", "#hashtag", True),
    ],
)
def test_phrase(text, asked, hit):
    """A phrase finds the text that contains it, in CJK letter by letter, and is never read as syntax."""
    assert found(text, phrase(asked)) is hit


@given(hangul, st.integers(0, 11), st.integers(2, 12))
@settings(max_examples=50)
def test_every_part_of_a_run_is_found(run, start, length):
    """Any two or more letters of a run of Hangul find it."""
    part = run[start : start + length]
    if len(part) > 1:
        assert found(f"앞 {run} 뒤", phrase(part))


@given(anything)
@example("0:\u0dcf:0 0:\u0dd2:0 0:\u0301:0 0:\ufe0f:0 0:\u064b:0 0:\u0941:0 0:\u20dd:0 0:\u3099:0")
# The same texts each time: of signs that came into Unicode lately, SQLite's table and Python's do not say the same.
@settings(derandomize=True)
def test_every_word_of_a_text_finds_it(text):
    """Each word of a text finds it, in any script and Unicode form."""
    for word in text.split():
        for form in ("NFC", "NFD"):
            asked = phrase(unicodedata.normalize(form, word))
            assert not asked or found(text, asked), (word, asked)


@given(st.from_regex(r"[a-zA-Z0-9_.+#/:@-]{1,12}( [a-zA-Z0-9_.+#/:@-]{1,12})?", fullmatch=True))
def test_every_identifier_finds_itself(text):
    """An identifier of any letters, digits and marks is found as written, in any case."""
    for word in text.split():
        for form in (word, word.lower(), word.upper()):
            asked = phrase(form)
            assert not asked or found(text, asked), (form, asked)


@pytest.mark.parametrize("text", ["1A", "A.b", "aA", "a", "1.", ".", "A+", "é"])
def test_parts_take_linear_time(text):
    """A megabyte of any text takes seconds at most, and binary data is no identifier."""
    assert len(parts("v" + text * (1_000_000 // len(text)))) <= 1_000_001


@given(anything, anything)
def test_weights_add_up(a, b):
    """The weight of two texts is the sum of their weights, and the estimate, near to the tokeniser's, is the rounded."""
    assert token_weight(a + b) == pytest.approx(token_weight(a) + token_weight(b))
    assert estimate_tokens(a) == round(token_weight(a))
    for text, low, high in (("word ", 0.9, 1.2), ("한글 문장을 쓴다 ", 3.5, 6.5), ("1234 ", 1.6, 2.6)):
        assert 100 * low <= estimate_tokens(text * 100) <= 100 * high


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Docker 설정", {"latin": 0.75, "hangul": 0.25}),
        ("カタかな漢字", {"han": 1.0}),
        ("Привет", {"cyrillic": 1.0}),
        ("123 …", {}),
        ("", {}),
    ],
)
def test_scripts(text, expected):
    """Letters count by their script, Japanese as one; digits and signs do not count."""
    assert scripts(text) == pytest.approx(expected)
