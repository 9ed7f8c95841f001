"""sample: the parallel texts of spellbook/models/sample.json say the same in every language, each in its own script."""

from __future__ import annotations

import json
import re
import unicodedata
from importlib.resources import files

SAMPLE = json.loads(files("spellbook.models").joinpath("sample.json").read_text("utf-8"))
SCRIPTS = {
    "ko": "\uac00-\ud7a3",
    "ja": "\u3005\u3040-\u30ff\u4e00-\u9fff",
    "zh": "\u4e00-\u9fff",
    "ru": "\u0400-\u052f",
    "uk": "\u0400-\u052f",
    "ar": "\u0600-\u06ff",
    "el": "\u0370-\u03ff",
    "hi": "\u0900-\u097f",
    "th": "\u0e00-\u0e7f",
}
"""What each language is written in, as a class of characters; Latin letters for the languages not named."""


def share(text: str, script: str) -> float:
    """The share of the letters of `text`, vowel signs among them, that are of `script`."""
    letters = [char for char in text if unicodedata.category(char)[0] in "LM"]
    return len(re.findall(f"[{script}]", "".join(letters))) / len(letters)


def test_texts():
    """
    There are 24 items in 21 languages, each text once, composed, on one line, with single spaces. Latin texts are
    Latin all through, the others in their script but for names and code. A text has the same numbers in every language.
    """
    assert (len(SAMPLE["languages"]), len(SAMPLE["items"])) == (21, 24)
    seen = set()
    for sides in SAMPLE["items"]:
        for side in ("question", "passage"):
            assert list(sides[side]) == SAMPLE["languages"]
            assert len({str(sorted(map(int, re.findall(r"\d+", text)))) for text in sides[side].values()}) == 1
            for language, text in sides[side].items():
                least, script = (
                    (0.4, SCRIPTS[language]) if language in SCRIPTS else (1, "A-Za-z\u00aa-\u024f\u1e00-\u1eff")
                )
                assert share(text, script) >= least, text
                assert text == unicodedata.normalize("NFC", " ".join(text.split()))
                seen.add(text)
    assert len(seen) == 24 * 2 * 21
