"""terms: what is indexed and what is asked for meet in SQLite's full-text index."""

from __future__ import annotations

import sqlite3
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.terms import estimate_tokens, index_form, phrase, terms, token_weight

anything = st.text(st.characters(exclude_categories=["Cs"]))
hangul = st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1, max_size=12)


def found(text: str, asked: str) -> bool:
    """Whether FTS5 finds `text` by the phrase `asked`."""
    db = sqlite3.connect(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE t USING fts5(body, tokenize='porter unicode61')")
        db.execute("INSERT INTO t VALUES (?)", (index_form(text),))
        return bool(db.execute("SELECT count(*) FROM t WHERE t MATCH ?", (asked,)).fetchone()[0])
    finally:
        db.close()


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("도커를", " 도커 커를 "),
        ("Docker를 쓴다", "Docker 를   쓴다 "),
        ("東京タワー", " 東京 京タ タワ ワー "),
        ("가", " 가 "),
        ("plain words", "plain words"),
        ("도커", " 도커 "),
        ("", ""),
    ],
)
def test_index_form(text, form):
    """Runs of CJK become overlapping pairs, the rest stays."""
    assert index_form(text) == form


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Docker docker DOCKER", ["docker"]),
        ("도커 설치", ["도커", "설치"]),
        ("설치방법", ["설치", "치방", "방법"]),
        ("k8s의 v1.2", ["k8s", "의", "v1", "2"]),
        ("?! ...", []),
        (" ".join(map(str, range(100))), [str(i) for i in range(64)]),
    ],
)
def test_terms(question, expected):
    """A question's terms are its distinct words and pairs in order, at most 64."""
    assert terms(question) == expected


@pytest.mark.parametrize(
    ("text", "asked", "hit"),
    [
        ("도커를 설치한다", "도커", True),
        ("도커를 설치한다", "설치", True),
        ("도커를 설치한다", "커를 설", False),
        ("도커를 설치한다", "도", True),
        ("도커를", "를", False),
        ("도커", "도커", True),
        ("running containers", "run", True),
        ("a-b c", "b c", True),
        ("x AND y", 'x" OR "y', False),
        ("東京タワー", "京タワ", True),
        ("ภาษาไทย", "ไทย", True),
    ],
)
def test_phrase(text, asked, hit):
    """A phrase finds the text that holds it, letter by letter in CJK, and nothing in it is taken for syntax."""
    assert found(text, phrase(asked)) is hit


@given(hangul, st.integers(0, 11), st.integers(2, 12))
@settings(max_examples=50)
def test_every_part_of_a_run_is_found(run, start, length):
    """Any two letters or more of a run of Hangul find it."""
    part = run[start : start + length]
    if len(part) > 1:
        assert found(f"앞 {run} 뒤", phrase(part))


@given(anything)
def test_phrase_is_never_a_syntax_error(text):
    """Whatever is asked, FTS5 takes the phrase, or there is none."""
    asked = phrase(text)
    assert asked == "" or found("x", asked) in {True, False}


@given(anything)
def test_normal_forms_are_one(text):
    """NFC and NFD of a text are indexed and asked for alike."""
    nfd = unicodedata.normalize("NFD", text)
    assert index_form(nfd) == index_form(text)
    assert terms(nfd) == terms(text)


@given(anything, anything)
def test_weights_add_up(a, b):
    """The weight of two texts is the sum of theirs, and the estimate is it, rounded."""
    assert token_weight(a + b) == pytest.approx(token_weight(a) + token_weight(b))
    assert estimate_tokens(a) == round(token_weight(a))


@pytest.mark.parametrize(
    ("text", "low", "high"), [("word " * 100, 90, 120), ("한글 문장을 쓴다 " * 20, 70, 130), ("1234 " * 50, 80, 130), ("", 0, 0)]
)
def test_estimate(text, low, high):
    """The estimate is of the size that the tokeniser gives."""
    assert low <= estimate_tokens(text) <= high
