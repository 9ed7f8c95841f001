"""terms: different spellings of one word find each other, and words of scripts without blanks are found."""

import contextlib
import sqlite3
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.text import terms

PAIRS = [
    ("oﬃce ﬁle", "office"), ("H₂O", "h2o"), ("5 ㎏", "kg"), ("① 항목", "1"), ("Ⅷ", "viii"), ("ﷺ", "الله"), ("ｶﾀｶﾅ", "カタカナ"),
    ("Đặng Thị", "dang"), ("Łódź", "lodz"), ("Ørsted", "orsted"), ("Søren", "soren"), ("Straße", "strasse"), ("œuvre", "oeuvre"),
    ("ıstanbul", "istanbul"), ("Æon", "aeon"), ("Þór", "thor"), ("Ħal", "hal"), ("ǿre", "ore"), ("Ὀδυσσεύς", "Οδυσσευς"),
    ("m²", "m2"), ("㈜카카오", "주"), ("ĳs", "ijs"), ("⼀⼆", "一二"), ("Word™", "word"),
    ("မြန်မာနိုင်ငံ", "နိုင်ငံ"), ("ភាសាខ្មែរ", "ខ្មែរ"), ("ພາສາລາວ", "ລາວ"), ("བོད་ཡིག", "ཡིག"), ("ꦲꦏ꧀ꦱꦫꦗꦮ", "ꦗꦮ"),
]  # fmt: skip

APART = [("が", "か"), ("ば", "は"), ("कि", "की"), ("й", "и"), ("กา", "กำ"), ("1½", "112"), ("မာ", "မိ")]
"""Marks that make another letter or word of their script."""


def matches(text: str, asked: Any) -> Any:
    categories = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute(f'CREATE VIRTUAL TABLE t USING fts5(x, tokenize="{categories}")')
        database.execute("INSERT INTO t VALUES (?)", (terms.index_form(text),))
        return bool(database.execute("SELECT * FROM t WHERE t MATCH ?", (str(terms.phrase(asked)),)).fetchall())


@pytest.mark.parametrize(("written", "asked"), PAIRS)
def test_spellings_of_one_word_find_each_other(written: str, asked: str) -> None:
    """A word is found by its usual letters, however it is written, and itself finds it."""
    assert matches(written, asked)
    assert matches(written, written)


@pytest.mark.parametrize(("written", "asked"), APART)
def test_other_words_stay_apart(written: str, asked: str) -> None:
    """A mark that makes another letter or vowel is no accent."""
    assert not matches(written, asked)
    assert not matches(asked, written)


@given(st.text(st.characters(categories=["L", "N", "M"]), min_size=1, max_size=6))
def test_every_spelling_ends(text: str) -> None:
    """Any letters have one form, which is the same for their composed and decomposed spelling."""
    assert terms.index_form(unicodedata.normalize("NFD", text)) == terms.index_form(unicodedata.normalize("NFC", text))
