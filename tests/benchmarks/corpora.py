"""
Vaults and questions: public question sets and documentation.

Everything comes from a folder that the caller names, or from `tests/quality`, and nothing is kept; seeds are fixed, so that two
runs ask the same.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spellbook.notes.note import Block, Note, parse

LANGUAGES = ("en", "ar", "de", "el", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
HALF = 120
"""How many of XQuAD's paragraphs make a half."""

OTHER, SAME = "other language", "same language"


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


def sampled(items: Iterable[Asked], most: int, seed: int = 7) -> list[Asked]:
    """Return at most `most` questions, the same in every run."""
    listed = list(items)
    return listed if len(listed) <= most else random.Random(seed).sample(listed, most)


def _spread(count: int, *names: str) -> list[str]:
    """Assign one of `names` to each of `count` items, evenly and shuffled."""
    given = [names[i % len(names)] for i in range(count)]
    random.Random(3).shuffle(given)
    return given


# -- XQuAD


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


# -- React's documentation, Korean and English pages side by side


@dataclass(frozen=True, slots=True)
class React:
    """
    Pages in both languages with as many headings, and the Korean headings of their `##` sections by page and number, "" where
    one asks for nothing.
    """

    pages: Mapping[str, tuple[Note, Note]]
    sections: Mapping[tuple[str, int], str]

    @classmethod
    def read(cls, folder: Path) -> React | None:
        """
        Read `folder`, or None if it is not there.

        A heading asks for its section if it is in Korean and no other section has it (Usage, Troubleshooting).
        """
        pages: dict[str, tuple[Note, Note]] = {}
        for page in sorted(file.relative_to(folder / "en") for file in (folder / "en").rglob("*.md")):
            if (folder / "ko" / page).is_file():
                korean, english = (parse(page.name, (folder / at / page).read_bytes()) for at in ("ko", "en"))
                if [b.level for b in _headings(korean)] == [b.level for b in _headings(english)]:
                    pages[page.as_posix()] = korean, english
        headings = [
            (page, number, re.sub(r"\{/\*.*?\*/\}", "", block.text).strip())  # without its English anchor
            for page, (note, _) in pages.items()
            for number, block in enumerate(_tops(note), 1)
        ]
        often = Counter(text for *_, text in headings)
        sections = {
            (page, number): text if often[text] == 1 and len(re.findall("[가-힣]", text)) >= 4 else ""
            for page, number, text in headings
        }
        return cls(pages, sections) if pages else None

    def one(self, language: str) -> Set:
        """
        Korean headings ask for the section in one language.

        English pages are as they are; Korean sections lose the text of their headings, whose words would give them away.
        """
        return self._set(f"React ko heading → {language} section", dict.fromkeys(self.sections, language))

    def mixed(self) -> Set:
        """Half the sections only in Korean, without their headings, and half only in English, as they are."""
        languages = _spread(len(self.sections), "ko", "en")
        return self._set("React mixed ko + en", dict(zip(self.sections, languages, strict=True)))

    def _set(self, name: str, language_of: Mapping[tuple[str, int], str]) -> Set:
        notes: dict[str, str] = {}
        starts: dict[str, list[tuple[int, int]]] = {}
        for language, side in (("ko", 0), ("en", 1)):
            for page, pair in self.pages.items():
                kept = {number for (of, number), given in language_of.items() if (of, given) == (page, language)}
                if kept:
                    path = f"{language}/{page}"
                    notes[path], starts[path] = _with_sections(pair[side], kept, headless=language == "ko")

        def unit(path: str, line: int) -> str:
            return f"{path}#{next((number for first, number in reversed(starts[path]) if first <= line), 0)}"

        parts = {"ko": SAME, "en": OTHER} if len(set(language_of.values())) > 1 else {}
        asked = [
            Asked(text, "ko", frozenset({f"{at}/{page}#{number}"}), parts.get(at, ""))
            for (page, number), at in language_of.items()
            if (text := self.sections[page, number])
        ]
        return Set(name, Vault(notes, unit), asked)


def _headings(note: Note) -> list[Block]:
    return [block for block in note.blocks if block.kind == "heading"]


def _tops(note: Note) -> list[Block]:
    return [block for block in _headings(note) if block.level == 2]


def _with_sections(note: Note, kept: set[int], *, headless: bool) -> tuple[str, list[tuple[int, int]]]:
    """Return a page with the `kept` sections, and the line where each begins."""
    source = note.text.split("\n")
    firsts = [note.body_line - 1 + block.start for block in _tops(note)]
    rows = source[: firsts[0]] if firsts else source
    starts = []
    for number, (first, last) in enumerate(zip(firsts, [*firsts[1:], len(source)], strict=True), 1):
        if number in kept:
            starts.append((len(rows) + 1, number))
            rows = [*rows, "##" if headless else source[first], *source[first + 1 : last]]
    return "\n".join(rows), starts
