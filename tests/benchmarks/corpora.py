"""Vaults and questions of XQuAD, from a folder that the caller names; seeds are fixed, so that two runs ask the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

LANGUAGES = ("en", "ar", "de", "el", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
HALF = 120
"""How many of XQuAD's paragraphs make a half."""

OTHER, SAME = "other language", "same language"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in `language`; `right` are the units of a vault that answer it, `part` the share of the set it counts for."""

    text: str
    language: str
    right: frozenset[str]
    part: str = ""


@dataclass(frozen=True, slots=True)
class Vault:
    """Notes by path, `LANGUAGE/…`; `unit` says what a place (path, line) in them is judged as."""

    notes: Mapping[str, str]
    unit: Callable[[str, int], str] = lambda path, line: path


@dataclass(frozen=True, slots=True)
class Set:
    """A vault and its questions."""

    name: str
    vault: Vault
    asked: Sequence[Asked]


def sampled(items: Iterable[_T], most: int, seed: int = 7) -> list[_T]:
    """Return at most `most` questions, the same in every run."""
    listed = list(items)
    return listed if len(listed) <= most else random.Random(seed).sample(listed, most)


def _spread(count: int, *names: str) -> list[str]:
    """Assign one of `names` to each of `count` items, evenly and shuffled."""
    given = [names[i % len(names)] for i in range(count)]
    random.Random(3).shuffle(given)
    return given


@dataclass(frozen=True, slots=True)
class Xquad:
    """Paragraphs, five an article, and questions (text, number of the paragraph), parallel in every language."""

    paragraphs: Mapping[str, Sequence[str]]
    questions: Mapping[str, Sequence[tuple[str, int]]]

    @classmethod
    def read(cls, folder: Path) -> Xquad | None:
        """Read `folder`, or None if a language is missing."""
        files = {language: folder / f"xquad.{language}.json" for language in LANGUAGES}
        if not all(file.is_file() for file in files.values()):
            return None
        paragraphs: dict[str, list[str]] = {}
        questions: dict[str, list[tuple[str, int]]] = {}
        for language, file in files.items():
            data = json.loads(file.read_text("utf-8"))["data"]
            listed = [paragraph for article in data for paragraph in article["paragraphs"]]
            paragraphs[language] = [each["context"] for each in listed]
            questions[language] = [(qa["question"], i) for i, each in enumerate(listed) for qa in each["qas"]]
        return cls(paragraphs, questions)

    def pair(self, asked: str, told: str) -> Set:
        """Questions in one language, paragraphs in another or the same."""
        name = f"XQuAD {asked}" if asked == told else f"XQuAD {asked} → {told}"
        return self._set(name, [told] * len(self.paragraphs["en"]), self._asked_in(asked))

    def mixed(self, one: str, other: str) -> Set:
        """Half the paragraphs only in `one`, half only in `other`; questions in `one`."""
        languages = _spread(len(self.paragraphs["en"]), one, other)
        return self._set(f"XQuAD mixed {one} + {other}", languages, self._asked_in(one))

    def twelve(self) -> Set:
        """Each paragraph in one of the twelve languages; questions in every language in turn."""
        turns = [LANGUAGES[(number * 5) % len(LANGUAGES)] for number in range(len(self.questions["en"]))]
        asked = [(language, *self.questions[language][number]) for number, language in enumerate(turns)]
        return self._set("XQuAD mixed, 12 languages", _spread(len(self.paragraphs["en"]), *LANGUAGES), asked)

    def half(self, told: str, asked: str) -> tuple[Set, list[str]]:
        """The first half of the articles in `told` with its questions in `asked`, and the other half's questions, off topic."""
        on = [row for row in self._asked_in(asked) if row[2] < HALF]
        off = [text for _, text, i in self._asked_in(asked) if i >= HALF]
        return self._set(f"half of XQuAD {told}, asked in {asked}", [told] * HALF, on), off

    def _asked_in(self, language: str) -> list[tuple[str, str, int]]:
        return [(language, text, i) for text, i in self.questions[language]]

    def _set(self, name: str, languages: Sequence[str], asked: Iterable[tuple[str, str, int]]) -> Set:
        """Make a set of the first paragraphs, each in its language, and questions: language, text, number of the paragraph."""
        paths = [f"{language}/{i:03}.md" for i, language in enumerate(languages)]
        notes = {path: f"{self.paragraphs[path[:2]][i]}\n" for i, path in enumerate(paths)}
        parts = {True: SAME, False: OTHER} if len(set(languages)) > 1 else {}
        rows = [
            Asked(text, at, frozenset({paths[i]}), parts.get(languages[i] == at, "")) for at, text, i in asked
        ]  # fmt: skip
        return Set(name, Vault(notes), rows)
