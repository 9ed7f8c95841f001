"""
Vaults and questions: public question sets, documentation, and edited copies of their texts.

Everything comes from a folder that the caller names, or from `tests/quality`, and nothing is kept; seeds are fixed, so that two
runs ask the same.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spellbook.notes.note import Block, Note, parse

LANGUAGES = ("en", "ar", "de", "el", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
SEEN = 120
"""The shipped calibration has seen the first half of XQuAD's paragraphs; the others tell whether that matters."""

OTHER, SAME, UNSEEN = "other language", "same language", "unseen half"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in `language`; `right` are the units of a vault that answer it, `parts` the shares of the set it counts for."""

    text: str
    language: str
    right: frozenset[str]
    parts: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Vault:
    """Notes by path, `LANGUAGE/…`; `unit` says what a place (path, line) in them is judged as."""

    notes: Mapping[str, str]
    unit: Callable[[str, int], str] = lambda path, line: path


@dataclass(frozen=True, slots=True)
class Set:
    """A vault and its questions; with `apart`, a question searches only notes in other languages."""

    name: str
    vault: Vault
    asked: Sequence[Asked]
    apart: bool = False


def sampled(items: Iterable[Asked], most: int, seed: int = 7) -> list[Asked]:
    """Return at most `most` questions, the same in every run."""
    listed = list(items)
    return listed if len(listed) <= most else random.Random(seed).sample(listed, most)


# -- XQuAD


@dataclass(frozen=True, slots=True)
class Xquad:
    """Paragraphs, five an article, and questions (text, number of the paragraph, answer), parallel in every language."""

    paragraphs: Mapping[str, Sequence[str]]
    questions: Mapping[str, Sequence[tuple[str, int, str]]]

    @classmethod
    def read(cls, folder: Path) -> Xquad | None:
        """Read `folder`, or None if a language is missing."""
        files = {language: folder / f"xquad.{language}.json" for language in LANGUAGES}
        if not all(file.is_file() for file in files.values()):
            return None
        paragraphs: dict[str, list[str]] = {}
        questions: dict[str, list[tuple[str, int, str]]] = {}
        for language, file in files.items():
            data = json.loads(file.read_text("utf-8"))["data"]
            listed = [paragraph for article in data for paragraph in article["paragraphs"]]
            paragraphs[language] = [each["context"] for each in listed]
            questions[language] = [
                (qa["question"], number, qa["answers"][0]["text"])
                for number, each in enumerate(listed)
                for qa in each["qas"]
            ]
        return cls(paragraphs, questions)

    def vault(self, language_of: Callable[[int], Iterable[str]]) -> Vault:
        """Return the paragraphs as notes, each in the languages that `language_of` returns."""
        return Vault(
            {
                _paragraph(at, i): f"{self.paragraphs[at][i]}\n"
                for i in range(len(self.paragraphs["en"]))
                for at in language_of(i)
            }
        )

    def one(self, language: str) -> Set:
        """Questions and paragraphs in one language."""
        return self.pair(language, language)

    def pair(self, asked: str, told: str) -> Set:
        """Questions in one language, paragraphs in another."""
        questions = [
            Asked(text, asked, frozenset({_paragraph(told, i)}), _parts(i < SEEN or asked == told), answer)
            for text, i, answer in self.questions[asked]
        ]
        return Set(
            f"XQuAD {asked}" if asked == told else f"XQuAD {asked} → {told}", self.vault(lambda i: (told,)), questions
        )

    def others(self) -> Set:
        """Questions in every language in turn, each limited to the paragraphs in all others: eleven are right."""
        questions = []
        for number in range(len(self.questions["en"])):
            language = LANGUAGES[number % len(LANGUAGES)]
            text, i, answer = self.questions[language][number]
            right = frozenset(_paragraph(at, i) for at in LANGUAGES if at != language)
            questions.append(Asked(text, language, right, _parts(i < SEEN), answer))
        return Set("XQuAD, each → the 11 others", self.vault(lambda i: LANGUAGES), questions, apart=True)

    def mixed(self, one: str, other: str) -> Set:
        """Half the paragraphs only in `one`, half only in `other`; questions in `one`."""
        languages = _halves(len(self.paragraphs["en"]), one, other)
        questions = [
            Asked(
                text, one, frozenset({_paragraph(languages[i], i)}), _mixed_parts(i < SEEN, languages[i] == one), answer
            )
            for text, i, answer in self.questions[one]
        ]
        return Set(f"XQuAD mixed {one} + {other}", self.vault(lambda i: (languages[i],)), questions)

    def twelve(self) -> Set:
        """Each paragraph in one of the twelve languages; questions in every language in turn."""
        order = _halves(len(self.paragraphs["en"]), *LANGUAGES)
        questions = []
        for number in range(len(self.questions["en"])):
            language = LANGUAGES[(number * 5) % len(LANGUAGES)]
            text, i, answer = self.questions[language][number]
            questions.append(
                Asked(
                    text,
                    language,
                    frozenset({_paragraph(order[i], i)}),
                    _mixed_parts(i < SEEN, order[i] == language),
                    answer,
                )
            )
        return Set("XQuAD mixed, 12 languages", self.vault(lambda i: (order[i],)), questions)

    def half(self, told: str, asked: str) -> tuple[Set, list[str]]:
        """The first half of the articles in `told` with its questions in `asked`, and the other half's questions, off topic."""
        on = [
            Asked(text, asked, frozenset({_paragraph(told, i)}), (), answer)
            for text, i, answer in self.questions[asked]
            if i < SEEN
        ]
        off = [text for text, i, _ in self.questions[asked] if i >= SEEN]
        name = f"half of XQuAD {told}, asked in {asked}"
        return Set(name, self.vault(lambda i: (told,) if i < SEEN else ()), on), off

    def articles(self, language: str) -> Set:
        """The five paragraphs of an article make one long note."""
        texts = self.paragraphs[language]
        notes = {
            f"{language}/article {i // 5:02}.md": "\n\n".join(texts[i : i + 5]) + "\n" for i in range(0, len(texts), 5)
        }
        questions = [
            Asked(text, language, frozenset({f"{language}/article {i // 5:02}.md"}), (), answer)
            for text, i, answer in self.questions[language]
        ]
        return Set(f"XQuAD {language} as long notes", Vault(notes), questions)


def _paragraph(language: str, number: int) -> str:
    return f"{language}/{number:03}.md"


def _parts(is_seen: bool) -> tuple[str, ...]:
    return () if is_seen else (UNSEEN,)


def _mixed_parts(is_seen: bool, is_same: bool) -> tuple[str, ...]:
    return (SAME,) if is_same else (OTHER, *(f"{OTHER}, {part}" for part in _parts(is_seen)))


def _halves(count: int, *names: str) -> list[str]:
    """Assign one of `names` to each of `count` items, evenly and shuffled."""
    given = [names[i % len(names)] for i in range(count)]
    random.Random(3).shuffle(given)
    return given


# -- React's documentation, Korean and English pages side by side


@dataclass(frozen=True, slots=True)
class Section:
    """
    A `##` section of a page that is in both languages: its place among them, and its Korean heading, "" if it asks for nothing.

    The shipped calibration has seen every second page.
    """

    page: str
    number: int
    asks: str
    is_seen: bool


@dataclass(frozen=True, slots=True)
class React:
    """Pages in both languages with as many headings, and their sections."""

    pages: Mapping[str, tuple[Note, Note]]
    sections: Sequence[Section]

    @classmethod
    def read(cls, folder: Path) -> React | None:
        """
        Read `folder`, or None if it is not there.

        A heading asks for its section if it is in Korean and no other section has it (Usage, Troubleshooting).
        """
        pages: dict[str, tuple[Note, Note]] = {}
        listed = sorted(file.relative_to(folder / "en") for file in (folder / "en").rglob("*.md"))
        for page in listed:
            if (folder / "ko" / page).is_file():
                korean, english = (
                    parse(page.name, (folder / language / page).read_bytes()) for language in ("ko", "en")
                )
                if [b.level for b in _headings(korean)] == [b.level for b in _headings(english)]:
                    pages[page.as_posix()] = korean, english
        seen = {page.as_posix() for page in listed[::2]}
        headings = [
            (page, number, _said(block))
            for page, (note, _) in pages.items()
            for number, block in enumerate(_tops(note), 1)
        ]
        often = Counter(text for *_, text in headings)
        asking = [often[text] == 1 and len(re.findall("[가-힣]", text)) >= 4 for *_, text in headings]
        sections = [
            Section(page, number, text if asks else "", page in seen)
            for (page, number, text), asks in zip(headings, asking, strict=True)
        ]
        return cls(pages, sections) if pages else None

    def english(self) -> Set:
        """Korean headings ask for the English section; the English pages are as they are."""
        return self._set("React ko heading → en section", {section: "en" for section in self.sections})

    def korean(self) -> Set:
        """Korean headings ask for the Korean section, whose heading is taken out: its words would give it away."""
        return self._set("React ko heading → ko section", {section: "ko" for section in self.sections})

    def mixed(self) -> Set:
        """Half the sections only in Korean, without their headings, and half only in English, as they are."""
        languages = _halves(len(self.sections), "ko", "en")
        return self._set("React mixed ko + en", dict(zip(self.sections, languages, strict=True)))

    def _set(self, name: str, language_of: Mapping[Section, str]) -> Set:
        notes: dict[str, str] = {}
        starts: dict[str, list[tuple[int, int]]] = {}
        for language, side in (("ko", 0), ("en", 1)):
            for page, pair in self.pages.items():
                kept = {s.number for s, given in language_of.items() if s.page == page and given == language}
                if kept:
                    path = f"{language}/{page}"
                    notes[path], starts[path] = _with_sections(pair[side], kept, headless=language == "ko")

        def unit(path: str, line: int) -> str:
            return f"{path}#{next((number for first, number in reversed(starts[path]) if first <= line), 0)}"

        is_mixed = len(set(language_of.values())) > 1
        asked = [
            Asked(
                section.asks,
                "ko",
                frozenset({f"{at}/{section.page}#{section.number}"}),
                _mixed_parts(section.is_seen, at == "ko") if is_mixed else _parts(section.is_seen or at == "ko"),
            )
            for section, at in language_of.items()
            if section.asks
        ]
        return Set(name, Vault(notes, unit), asked)


def _headings(note: Note) -> list[Block]:
    return [block for block in note.blocks if block.kind == "heading"]


def _tops(note: Note) -> list[Block]:
    return [block for block in _headings(note) if block.level == 2]


def _said(heading: Block) -> str:
    """Return a heading without its English anchor."""
    return re.sub(r"\{/\*.*?\*/\}", "", heading.text).strip()


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


# -- pairs that say the same, or do not


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of texts: duplicates by kind, and different ones."""

    name: str
    same: Mapping[str, Sequence[tuple[str, str]]]
    different: Sequence[tuple[str, str]] = field(default_factory=list)


def klue(file: Path) -> Pairs | None:
    """Read KLUE-STS: a label of 4.5 and more means the same, one below 2 does not; None if it is not there."""
    if not file.is_file():
        return None
    rows = [
        (each["sentence1"], each["sentence2"], each["labels"]["label"]) for each in json.loads(file.read_text("utf-8"))
    ]
    same = [(a, b) for a, b, label in rows if label >= 4.5]
    return Pairs("KLUE-STS", {"": same}, [(a, b) for a, b, label in rows if label < 2])


def edited(texts: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return each text with its edited copy, by kind of edit; kinds that do not apply are left out."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for seed, text in enumerate(texts):
        for kind, edit in EDITS.items():
            changed = edit(text, random.Random(seed))
            if changed and changed != text:
                pairs.setdefault(kind, []).append((text, changed))
    return pairs


def with_another_number(text: str, seed: int) -> str:
    """Return `text` with one number changed; "" if it has none."""
    found = list(re.finditer(r"(?<![\w.,/-])[1-9]\d{0,3}(?![\w/-]|[.,]\d)", text))
    if not found:
        return ""
    chosen = random.Random(seed).choice(found)
    return text[: chosen.start()] + str(int(chosen[0]) * 3 + 1) + text[chosen.end() :]


_APPENDED = {
    "ko": " 이 부분은 다음 회의 때 다시 확인하기로 했다.",
    "en": " We will look at this again at the next meeting.",
}


def _language(text: str) -> str:
    return "ko" if re.search("[가-힣]", text) else "en"


def _typos(text: str, dice: random.Random) -> str:
    """Swap two neighbouring letters in three places."""
    letters = list(text)
    places = [
        i
        for i in range(len(letters) - 1)
        if letters[i].isalpha() and letters[i + 1].isalpha() and letters[i] != letters[i + 1]
    ]
    for i in dice.sample(places, min(3, len(places))):
        letters[i], letters[i + 1] = letters[i + 1], letters[i]
    return "".join(letters)


def _word(text: str, dice: random.Random) -> str:
    """Replace one word by another word of the text."""
    words = list(re.finditer(r"[^\W\d_]{3,}", text))
    if len(words) < 8:
        return ""
    out, by = dice.sample(words, 2)
    return text[: out.start()] + by[0] + text[out.end() :]


def _appended(text: str, dice: random.Random) -> str:
    return text.rstrip() + _APPENDED[_language(text)]


def _reordered(text: str, dice: random.Random) -> str:
    """Move the last sentence to the front."""
    parts = re.split(r"(?<=[.!?。])\s+", text.strip())
    return " ".join([parts[-1], *parts[:-1]]) if len(parts) >= 3 else ""


def _blanks(text: str, dice: random.Random) -> str:
    return "  " + text.upper().replace("\n", " \n").replace(". ", ".  ")


def _shortened(text: str, dice: random.Random) -> str:
    """Remove one line from the middle, or one sentence of a single line."""
    by_line = len(text.strip().split("\n")) >= 4
    parts = text.strip().split("\n") if by_line else re.split(r"(?<=[.!?。])\s+", text.strip())
    inner = [i for i in range(1, len(parts) - 1) if parts[i].strip()]
    if len(parts) < 4 or not inner:
        return ""
    del parts[dice.choice(inner)]
    return ("\n" if by_line else " ").join(parts)


EDITS: Mapping[str, Callable[[str, random.Random], str]] = {
    "typos": _typos,
    "a word replaced": _word,
    "a sentence appended": _appended,
    "sentences reordered": _reordered,
    "blanks and case": _blanks,
    "a line removed": _shortened,
}
