"""sample: the parallel texts of spellbook/models/sample.json say the same in every language, each in its own script."""

from __future__ import annotations

import json
import re
import unicodedata
from importlib.resources import files

import pytest

SAMPLE = json.loads(files("spellbook.models").joinpath("sample.json").read_text("utf-8"))
LANGUAGES = [
    "en",
    "ko",
    "ja",
    "zh",
    "de",
    "es",
    "fr",
    "it",
    "pt",
    "ro",
    "nl",
    "pl",
    "tr",
    "vi",
    "id",
    "ru",
    "uk",
    "ar",
    "el",
    "hi",
    "th",
]
SIDES = ["question", "passage"]

LATIN = "A-Za-z\u00aa-\u024f\u1e00-\u1eff"
CYRILLIC = "\u0400-\u052f"
SCRIPTS = {
    "ko": "\uac00-\ud7a3",
    "ja": "\u3005\u3040-\u30ff\u4e00-\u9fff",
    "zh": "\u4e00-\u9fff",
    "ru": CYRILLIC,
    "uk": CYRILLIC,
    "ar": "\u0600-\u06ff",
    "el": "\u0370-\u03ff",
    "hi": "\u0900-\u097f",
    "th": "\u0e00-\u0e7f",
}
"""What each language is written in, as a class of characters; Latin letters for the languages not named."""

UNSPACED = {"ja", "zh", "th"}
LENGTHS = {"question": ((4, 15), (8, 60)), "passage": ((15, 42), (40, 160))}
"""Fewest and most words of a text, and characters where words are not spaced."""


def texts(side: str, language: str) -> list[str]:
    """One side of every item, in one language."""
    return [item[side][language] for item in SAMPLE["items"]]


def share(text: str, script: str) -> float:
    """The share of the letters of `text`, vowel signs among them, that are of `script`."""
    letters = [char for char in text if unicodedata.category(char)[0] in "LM"]
    return len(re.findall(f"[{script}]", "".join(letters))) / len(letters)


def numbers(text: str) -> list[int]:
    """The numbers in `text`, whatever digits they are written in, in order of size."""
    return sorted(map(int, re.findall(r"\d+", text)))


def test_shape():
    """There are 24 items, each with every language on both sides, in one order."""
    assert (SAMPLE["version"], SAMPLE["languages"], len(SAMPLE["items"])) == (1, LANGUAGES, 24)
    assert all(list(item) == SIDES for item in SAMPLE["items"])
    assert all(list(item[side]) == LANGUAGES for item in SAMPLE["items"] for side in SIDES)


def test_distinct():
    """No text stands there twice."""
    everything = [text for side in SIDES for language in LANGUAGES for text in texts(side, language)]
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts(language, side):
    """
    Every text is composed, of one line, with single spaces inside and none around, and written in the script of its
    language: Latin all through, the others but for names and code. Questions are short, passages a sentence or two. A
    text has the same numbers in every language.
    """
    least = 0.4 if language in SCRIPTS else 1.0
    words, characters = LENGTHS[side]
    low, high = characters if language in UNSPACED else words
    for text, english in zip(texts(side, language), texts(side, "en"), strict=True):
        assert text == unicodedata.normalize("NFC", " ".join(text.split()))
        assert share(text, SCRIPTS.get(language, LATIN)) >= least, text
        assert low <= (len(text) if language in UNSPACED else len(text.split())) <= high, text
        assert numbers(text) == numbers(english), text


@pytest.mark.parametrize(
    ("language", "foreign"),
    [
        pytest.param("zh", "\u3040-\u30ff", id="no kana in Chinese"),
        pytest.param("ru", "іїєґ", id="no Ukrainian letters in Russian"),
        pytest.param("uk", "ыэъё", id="no Russian letters in Ukrainian"),
        pytest.param("ro", "şţ", id="Romanian commas, not Turkish cedillas"),
    ],
)
def test_letters_of_a_neighbour(language, foreign):
    """Languages that share a script do not share the letters that tell them apart."""
    found = [text for side in SIDES for text in texts(side, language) if re.search(f"[{foreign}]", text.lower())]
    assert found == []


def test_japanese_has_kana():
    """No Japanese text could be taken for Chinese."""
    assert [text for side in SIDES for text in texts(side, "ja") if not re.search("[\u3040-\u30ff]", text)] == []
