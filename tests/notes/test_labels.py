"""Labels as one text: where they are divided, by the names that Unicode gives to punctuation."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.notes import labels
from spellbook.notes.frontmatter import dump
from spellbook.notes.note import parse

MARKS = {"COMMA", "SEMICOLON"}
NAMED = [letter for letter in map(chr, range(sys.maxunicode + 1)) if MARKS & {*unicodedata.name(letter, "").split()}]
COMMAS = [letter for letter in NAMED if unicodedata.category(letter) == "Po"]
NO_COMMAS = [letter for letter in NAMED if unicodedata.category(letter) in {"Lu", "Ll", "Lm"}]
"""Letters whose name has the word: ș and ț of Romanian, the apostrophe of Hawaiian."""
NEIGHBOURS = "·・‧･/|&+.:!?'’«»…—–。．¿።"
"""Punctuation that stands within a name, or ends a sentence."""

WORDS = st.text(st.sampled_from("a한字ج1" + "".join(NO_COMMAS)), min_size=1, max_size=4)


def test_each_comma_of_unicode_divides() -> None:
    """What Unicode of this Python names a comma or semicolon of punctuation divides; letters and other marks do not."""
    assert {*labels.COMMA} >= {*COMMAS}
    assert not {*labels.COMMA} & {*NO_COMMAS, *NEIGHBOURS}


@given(st.lists(WORDS, min_size=1, max_size=5, unique=True), st.data())
def test_labels_of_one_text(words: list[str], data: st.DataObject) -> None:
    """Words with any commas between them are so many tags at every door and in a file; with neighbours they are one."""
    between = [data.draw(st.sampled_from(COMMAS)) + data.draw(st.sampled_from(["", " "])) for _ in words]
    text = "".join(word + comma for word, comma in zip(words, between, strict=True))
    assert labels.tags(text) == words
    assert labels.listed(text, labels.COMMAS) == words
    meta = f"---\ntags: {dump(text)}\nkeywords: {dump(text)}\n---\n"
    note = parse("a.md", meta.encode())
    composed = tuple(dict.fromkeys(unicodedata.normalize("NFC", word) for word in words))
    assert note.tags == note.keywords == composed
    one = data.draw(st.sampled_from(NEIGHBOURS)).join(words)
    assert labels.tags(one) == [one]


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ("#a #b", ["a", "b"]),
        ("#a b", ["a-b"]),
        ("a #b, #c #d", ["a-#b", "c", "d"]),
        (["#a  #b", "two words"], ["a", "b", "two-words"]),
        ("#", []),
        (["", None, "\t", "#"], []),
        (None, None),
        (7, 7),
    ],
)
def test_blanks_divide_tags_with_their_hash_alone(value: object, tags: object) -> None:
    """A blank is part of a name, which is written with `-`, unless each word has its `#`; empty ones are no tags."""
    assert labels.tags(value) == tags
