"""
Turn text into keyword terms, by one rule for the full-text index and for questions.

Every word of a text finds that text. Runs of Hangul, Han and Kana, which are written without spaces or with endings
glued on, become overlapping pairs of letters; Thai, Lao, Burmese, Khmer and others pairs of clusters (a consonant with
its vowels and tones). Different spellings become one: NFC, ligatures, wide and half-wide letters, Arabic vowel signs.
Everything else is left to the index's own tokeniser (words, stemmed). So `도커` finds `도커를`, and a phrase of pairs
finds the run and nothing else.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import NamedTuple

from spellbook.system.lazy import regex

_STOP_WORD_LIST = """
a an and are as at be been being but by can could did do does for from had has have he her his how i if in into is it
its me my of on or our she should so than that the their them then there these they this those to us was we were what
when where which who whom whose why will with would you your
어떻게 무엇 무엇을 무엇이 무엇인가 무엇인가요 무슨 어떤 어디 어디서 언제 누가 누구 왜 것 것을
것이 것은 수 등 및 또는 그리고 그 이 저 때 있는 있다 있습니다 있나요 있을까요 하는 한다 합니다 하나요 할까요 해야 대한
대해 위한 위해 통해 뭐야 뭔가요 알려줘 알려주세요
"""
STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
"""Words, in lower case, that do not narrow a question, unless it has no others."""

HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
"""Ranges of letters, for a character class; so are the next two."""

HAN_KANA = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"

THAI = "\u0e00-\u0e7f"

# Lao, Tibetan, Burmese, Khmer, Tai Le, New Tai Lue, Tai Tham, Tai Viet, Javanese, Balinese: written without blanks
# between words. By Unicode's LineBreak.txt: Line_Break=SA (complex context), and Tibetan, Javanese and Balinese, which
# break at syllables.
COMPLEX = (
    "\u0e80-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9df\ua9e0-\ua9ff"
    "\uaa60-\uaadf"
)

_EMOJI = "\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff"
# A search that begins with one set of letters (and not with `[…]+`) is several times as fast as one for alternatives.
# So the alternatives are tried only in the runs of letters of the set.
_RUN = regex(f"([{HANGUL}{HAN_KANA}]+)")
_JOINT = regex(r"(?<=\w)(\w) \1(?=\w\b)")
_OTHER_RUN, _OTHERS = regex(f"[{THAI}]+|[{COMPLEX}]+|[{_EMOJI}]"), regex("[{0}][{0}]*".format(THAI + COMPLEX + _EMOJI))
_COMPLEX = regex(f"[{COMPLEX}]")
_IS_EMOJI = regex(f"[{_EMOJI}]")
_CLUSTER = regex("[\u0e40-\u0e44]?[\u0e01-\u0e2e][\u0e30-\u0e3a\u0e45\u0e47-\u0e4e]*|.")
DENSE = regex(f"[{HANGUL}{HAN_KANA}{THAI}{COMPLEX}]+")
"""Letters that are written without spaces or with endings glued on."""

# Signs that one writer sets and another leaves out: combining accents that NFC has no letter for, Hebrew and Arabic
# vowels, tatweel, joiners, the selector that colours an emoji.
_OPTIONAL = (
    "\u00ad\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8"
    "\u06ea-\u06ed\u200c\u200d\u2060\ufe00-\ufe0f\ufeff"
)
# Letters that NFKC spells otherwise: ligatures, raised and lowered digits, letterlike signs, units, half-wide letters.
# Not fractions and trade marks: `1½` would be `11⁄2`, and `Word™` no `Word`.
_COMPATIBLE = (
    "\u00aa\u00b2\u00b3\u00b9\u00ba\u0132\u0133\u0149\u017f\u01c4-\u01cc\u01f1-\u01f3\u2070-\u209c\u2100-\u211f\u2123-\u214f"
    "\u2160-\u217f\u2460-\u24ea\u2f00-\u2fd5\u3200-\u33ff\ufb00-\ufdfd\ufe70-\ufefc\uff01-\uffdc\U0001d400-\U0001d7ff"
)
_APART = regex("[\u2460-\u24ea\u3200-\u32ff\ufdf0-\ufdfd]")  # numbers in circles and whole words
_GREEK = "\u1f00-\u1fff"
# The index's tokeniser takes the accents off Latin letters alone.
_VARIANTS = {
    "ß": "ss",
    "ẞ": "SS",
    # Letters that no mark comes off, by CLDR's transform Latin-ASCII.
    **dict(zip("đĐðÐħĦıłŁøØǿǾŧŦŋŊ", "dDdDhHilLoOoOtTnN", strict=True)),
    **{"æ": "ae", "Æ": "AE", "ǽ": "ae", "Ǽ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "TH"},
    **dict(zip("أإآٱىةάέήίϊΐόύϋΰώΆΈΉΊΌΎΏёЁ", "ااااي\u0647αεηιιιουυυωΑΕΗΙΟΥΩеЕ", strict=True)),
}
# `al-`, alone or after "and", "so", "with", "as"; "for the". A word keeps it if fewer than three letters would be left.
_ARTICLE = regex("(?<![\u0620-\u064a])(?:[وفبك]?ال|لل)(?=[\u0620-\u064a]{3})")
_ODD = regex(f"(?P<unseen>[{_OPTIONAL}]+)|[{''.join(_VARIANTS)}]|[\uff01-\uffdc]+|[{_COMPATIBLE}{_GREEK}]")
_ODD_LETTERS = regex("[{0}][{0}]*".format(_OPTIONAL + "".join(_VARIANTS) + _COMPATIBLE + _GREEK))

# This must split words no finer than the index's tokeniser, which splits each word again. A sign that is part of a
# word to the tokeniser must not divide words here.
_WORD = regex(
    r"(?:[^\W_]|[^\x00-\u02ff\u0600-\u0604\u06dd\u070f\u180e\u2000-\u2bff\u3000-\u303f\ud800-\udfff\ufe10-\ufe6f\uff00-\uffff"
    r"\U000110bd\U0001d173-\U0001d17a\U000e0000-\U000e00ff])+"
)

IDENTIFIER = regex(
    r"(?=[A-Za-z0-9.])(?<![A-Za-z0-9])(?:"
    r"(?P<camel>(?![A-Z]?[a-z0-9]*+(?![A-Za-z0-9]))[A-Za-z0-9]*(?:[a-z][0-9]*[A-Z]|[A-Z]{2}[a-z]{2})[A-Za-z0-9]*)"
    r"|[vV](?P<version>\d+(?:\.\d+)+)"
    r"|(?P<language>[A-Za-z](?:\+\+|#)(?![A-Za-z0-9_+#]))"
    r"|(?<![\w.)\]}'\"])\.(?=(?P<dotted>[A-Za-z]\w*)))"
)
# A letter that each of them has, and few other words have: a search for one is several times as fast.
_HINT = regex(
    r"[A-Z+#.](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[A-Za-z]\+)(?=\+)|(?<=[A-Za-z]#)|(?<=\d\.)(?=\d)"
    r"|(?<=\.)(?<![\w.)\]}'\"]\.)(?=[A-Za-z]))"
)
_HUMP = regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")

_LATIN = regex("[A-Za-z]")
_WHITE = b" \t\r\n\f\v"
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_ASCII = bytes(range(128))
_MOST_SCRIPTS = 20_000
"""Letters whose script is cached."""

_MOST_PAIRED = 16_384
"""Runs whose pairs are cached."""

_MOST_TERMS = 64
"""Terms of one question."""

_MOST_LETTERS = 64
"""Letters of a name in camel case; a longer run is data."""


class Phrase(NamedTuple):
    """One word, or several in a row; with `is_prefix` the last one may be the beginning of a word. False if empty."""

    words: tuple[str, ...] = ()
    is_prefix: bool = False

    def __bool__(self) -> bool:
        return bool(self.words)

    def __str__(self) -> str:
        return f'"{self.text}"' + "*" * self.is_prefix if self.words else ""

    @property
    def text(self) -> str:
        """Its words, with blanks between."""
        return " ".join(self.words)


class AnyOf(NamedTuple):
    """Any of `parts`, or `all` of them."""

    parts: tuple[Expression, ...]
    all: bool = False

    def __str__(self) -> str:
        is_one = [isinstance(part, Phrase) or len(part.parts) == 1 for part in self.parts]
        inner = (str(part) if one else f"({part})" for part, one in zip(self.parts, is_one, strict=True))
        return (" AND " if self.all else " OR ").join(inner)


Expression = Phrase | AnyOf


def index_form(text: str) -> str:
    """Return `text` as the full-text index has it: one spelling a word, CJK and Thai in pairs, emoji as words."""
    return text if text.isascii() else _change_runs(text, paired)


def findable(text: str) -> str:
    """Return a label or heading as the full-text index has it: its words, then the parts of its identifiers."""
    return f"{index_form(text)} {parts(text)}".rstrip()


def parts(text: str) -> str:
    """
    Return the additional words by which identifiers in `text` are found, each once.

    `useState` by `use state`, `v1.2.3` by `1.2.3`. `C++`, `C#` and `.env`, whose marks are in no word, are `cplusplus`,
    `csharp` and `dotenv`.
    """
    lines = "\n".join(filter(_HINT.search, text.split("\n")))
    return " ".join(dict.fromkeys(filter(None, map(part, IDENTIFIER.finditer(lines)))))


def humps(name: str) -> list[str]:
    """Return the words that a name like `useState` is made of."""
    return _HUMP.split(name)


def runs(text: str) -> list[str]:
    """Return the words of `text` in order, its runs of CJK and Thai whole."""
    return _split_words(_change_runs(text, _set_apart))


def words(text: str) -> list[str]:
    """Return the words and pairs of `text` in order, as the index would have them but for case and stem."""
    return _split_words(index_form(text))


def terms(text: str) -> list[str]:
    """Return the distinct words and pairs of a question, in order and lower-cased, at most 64 of them."""
    return list(dict.fromkeys(word.lower() for word in words(text)))[:_MOST_TERMS]


def phrase(text: str) -> Phrase:
    """Return the phrase that finds `text`, empty if it holds no term; of a longer text the first 64 words."""
    text = text.strip()
    if marked := marked_name(text):
        return in_a_row(marked)
    return in_a_row(*words(text)[:_MOST_TERMS])


def marked_name(text: str) -> str:
    """Return the word in `parts` for a name like `C++` or `.env`, whose marks are part of no word, else ""."""
    match = IDENTIFIER.match(text)
    return part(match) if match and text in {match["language"], f".{match['dotted']}"} else ""


def in_a_row(*listed: str) -> Phrase:
    """Return the phrase of these words in a row. A single last letter of CJK finds all pairs that begin with it."""
    last = listed[-1] if listed else ""
    return Phrase(listed, bool(DENSE.match(last)) and len(_clusters(last)) == 1)


def readable(expression: str) -> str:
    """Return words of the index, or an expression, as people write them: `이펙 펙트` is `이펙트`."""
    return _JOINT.sub(lambda joint: joint[1] if _RUN.match(joint[1]) else joint[0], expression)


def scripts(text: str) -> dict[str, float]:
    """Return the shares, adding up to 1, that scripts have of the letters in `text`; {} if it has none."""
    if text.isascii():
        return {"latin": 1.0} if _LATIN.search(text) else {}
    data = text.encode("utf-8", "surrogatepass")
    others = data.translate(None, _LETTERS)
    # They are in the order of the text: of those with equal shares, the first is taken.
    first = _LATIN.search(text)
    counts = Counter(dict.fromkeys(map(script, text[: first.end()] if first else ""), 0))
    for letter, count in Counter(others.translate(None, _ASCII).decode("utf-8", "surrogatepass")).items():
        counts[script(letter)] += count
    counts["latin"] += len(data) - len(others)
    del counts[""]
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items() if count}


@lru_cache(maxsize=_MOST_SCRIPTS)
def script(letter: str) -> str:
    """Return the script of a letter, "" for any other character."""
    if not letter.isalpha():
        return ""
    if letter < "\u0250":
        return "latin"
    name = unicodedata.name(letter, "?").split()[0].lower()
    # Japanese is written in three, and Chinese in one of them.
    return {"cjk": "han", "hiragana": "han", "katakana": "han"}.get(name, name)


def idf(total: int, frequency: int) -> float:
    """Return the inverse document frequency as FTS5's bm25 computes it, with its lower bound."""
    return max(1e-6, math.log((total - frequency + 0.5) / (frequency + 0.5)))


def is_short(text: str) -> bool:
    """Say whether `text` has fewer than eight words; two letters of Hangul, Han, Kana or Thai count as one."""
    start = unicodedata.normalize("NFC", text[:1_000])
    rest, dense = DENSE.sub(" ", start), sum(map(len, DENSE.findall(start)))
    return (dense + 1) // 2 + sum(any(map(str.isalnum, word)) for word in rest.split()) < 8


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a language model, or an embedder, makes of `text`."""
    return round(token_weight(text))


def token_weight(text: str) -> float:
    """
    Return the estimate of `estimate_tokens` unrounded, so that parts may be added up.

    Linear in the UTF-8 bytes of ASCII letters, digits, punctuation and all other letters; fitted on 700 Korean and
    English pieces of technical notes, where 90 % fall within 8 % of the tokeniser of multilingual-e5. It needs no
    model, so that chunks do not depend on one.
    """
    data = text.encode("utf-8", "surrogatepass")
    others = data.translate(None, _LETTERS)
    marks = others.translate(None, _WHITE)  # punctuation, digits, everything beyond ASCII
    beyond = marks.translate(None, _ASCII)
    letters, digits = len(data) - len(others), len(marks) - len(marks.translate(None, _DIGITS))
    return 0.27 * letters + 0.55 * digits + 0.95 * (len(marks) - digits - len(beyond)) + 0.22 * len(beyond)


def _change_runs(text: str, change: Callable[[str], str]) -> str:
    """Return `text` in one spelling, with `change` applied to each of its runs and each emoji."""
    usual = text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)
    usual = _ODD_LETTERS.sub(lambda letters: _ODD.sub(_usual_spelling, letters[0]), usual)
    pieces = _RUN.split(_ARTICLE.sub("", usual) if "\u0644" in usual else usual)
    pieces[1::2] = map(change, pieces[1::2])
    return _OTHERS.sub(lambda others: _OTHER_RUN.sub(lambda run: change(run[0]), others[0]), "".join(pieces))


def _usual_spelling(odd: re.Match[str]) -> str:
    first = odd[0][0]
    if odd["unseen"] or first in _VARIANTS:
        return _VARIANTS.get(first, "")
    usual = unicodedata.normalize("NFKD" if "\u1f00" <= first <= "\u1fff" else "NFKC", odd[0])
    if usual == odd[0]:
        return usual
    usual = _ODD.sub(_usual_spelling, usual)
    return f" {usual} " if _APART.match(first) else usual


def _split_words(text: str) -> list[str]:
    # A character that Python's Unicode tables do not know yet may be a letter in SQLite's; a mark is, but for some.
    return [
        word
        for word in _WORD.findall(text)
        if any(unicodedata.category(letter)[0] in "LNCM" and not "\u0300" <= letter <= "\u0331" for letter in word)
    ]


def _set_apart(run: str) -> str:
    return f" u{ord(run):x} " if _IS_EMOJI.match(run) else f" {run} "


@lru_cache(maxsize=_MOST_PAIRED)
def paired(run: str) -> str:
    """Return a run of CJK, Thai or an emoji as the index has it: in overlapping pairs, apart from its neighbours."""
    if len(run) == 1:
        return _set_apart(run)
    clusters = _clusters(run)
    return f" {' '.join(map(add, clusters, clusters[1:])) or run} "


def _clusters(run: str) -> Sequence[str]:
    """Return the letters of a run; those of Thai and complex scripts each with its vowels and tones."""
    if "\u0e00" <= run[0] <= "\u0e7f":
        return _CLUSTER.findall(run)
    if not _COMPLEX.match(run):
        return run
    starts = [at for at, letter in enumerate(run) if at == 0 or unicodedata.category(letter)[0] != "M"]
    return [run[start:end] for start, end in pairwise([*starts, len(run)])]


def part(identifier: re.Match[str]) -> str:
    """Return the words by which an identifier is found, "" if it is none."""
    text = identifier[0]
    match identifier.lastgroup:
        case "camel":
            return " ".join(humps(text)) if len(text) <= _MOST_LETTERS else ""
        case "version":
            return identifier["version"].replace(".", " ")
        case "language":
            return text[0].lower() + ("sharp" if text[1] == "#" else "plusplus")
        case _:
            return f"dot{identifier['dotted']}"
