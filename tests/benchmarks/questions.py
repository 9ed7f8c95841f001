"""
Questions written by hand, as people type who half remember, and the notes that they are asked of: `tests/quality`.

Half of each set is for choosing, the other half only for reporting.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from spellbook.editing import memory

QUALITY = Path(__file__).parents[1] / "quality"
HALVES = ("choosing", "reporting")
_ANCHORED = re.compile(r"(#{1,6}) +(.*?)\s*\{/\*\s*(.*?)\s*\*/\}")


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a note that answer a question, from 1, both ends included; `heading` is what stands above them."""

    path: str
    first: int
    last: int
    heading: str


@dataclass(frozen=True, slots=True)
class Loose:
    """
    A question in `language`; `accept` names what would content the person who asks it, `half` is one of `HALVES`.

    `as_of` is the day, month or year whose state it asks for, "" if it is asked without one.
    """

    text: str
    language: str
    half: str
    accept: tuple[str, ...]
    as_of: str = ""


def loose(name: str) -> list[Loose]:
    """Read the questions of `tests/quality/loose-NAME.yaml`."""
    return _loose(_read(f"loose-{name}"))


def _read(name: str) -> Any:
    return yaml.safe_load((QUALITY / f"{name}.yaml").read_text("utf-8"))


def _loose(rows: Iterable[Mapping[str, Any]], ending: str = "") -> list[Loose]:
    """Return questions as they stand in a file; `ending` makes paths of what they accept."""
    return [
        Loose(row["question"], row["language"], row["half"], tuple(f"{id}{ending}" for id in row["accept"]))
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Helped:
    """
    A question as agents ask it, with the texts that a language model guessed which saw nothing but the question.

    `wrong` are the guesses for another question; `accept` are the places that answer it.
    """

    text: str
    half: str
    also: tuple[str, ...]
    wrong: tuple[str, ...]
    accept: frozenset[str] = frozenset()


_ANOTHER = 7
"""So many places on in the list is the question whose guess serves as a wrong one. By hand."""


def helped(name: str, halves: Mapping[str, str], accept: Mapping[str, frozenset[str]]) -> list[Helped]:
    """
    Return the questions of `tests/quality/also-NAME.yaml`, with the half of each and the places that answer it.

    Beside each question stand the sentence that an agent expects in the note, and words of a note in the other language.
    """
    rows = _read(f"also-{name}")
    also = [tuple(row["also"]) for row in rows]
    others = [also[(i + _ANOTHER) % len(also)] for i in range(len(also))]
    texts = [row["question"] for row in rows]
    return [
        Helped(text, halves.get(text, HALVES[1]), own, other, accept.get(text, frozenset()))
        for text, own, other in zip(texts, also, others, strict=True)
    ]


def react_pages(folder: Path) -> dict[str, str] | None:
    """Return React's documentation as it is, Korean and English pages by path, or None if it is not there."""
    files = [file for language in ("en", "ko") for file in sorted((folder / language).rglob("*.md"))]
    return {file.relative_to(folder).as_posix(): file.read_text("utf-8") for file in files} or None


def places(notes: Mapping[str, str], accept: str) -> list[Place]:
    """Return where `page` or `page#anchor` is in the notes, in each language that has it; a section ends with its subsections."""
    page, _, anchor = accept.partition("#")
    paths = [path for language in ("en", "ko") if (path := f"{language}/{page}.md") in notes]
    return [at for path in paths if (at := _sections(path, notes[path]).get(anchor))]


@lru_cache(maxsize=512)
def _sections(path: str, text: str) -> dict[str, Place]:
    """Sections of a page by the anchor in their heading; "" is the whole page. Only headings have anchors, so none is parsed for."""
    rows = text.split("\n")
    title = next((row.partition(":")[2].strip() for row in rows if row.startswith("title:")), "")
    headings = [(line, found) for line, row in enumerate(rows, 1) if (found := _ANCHORED.match(row))]
    sections = {"": Place(path, 1, len(rows), title)}
    for i, (line, found) in enumerate(headings):
        after = next((other for other, below in headings[i + 1 :] if len(below[1]) <= len(found[1])), len(rows) + 1)
        sections.setdefault(found[3], Place(path, line, after - 1, found[2]))
    return sections


@lru_cache(maxsize=1)
def memories() -> dict[str, tuple[str, str]]:
    """Return the memories of `tests/quality/memories.yaml` as `scribe` writes them: path and text of a note, by its id."""
    notes = {}
    for row in _read("memories"):
        meta = {key: value for key, value in row.items() if key not in {"id", "when", "text"}}
        found = memory.check({"text": row["text"], "metadata": meta})
        if found.memory is None or found.secrets:
            raise ValueError(f"memories.yaml, {row['id']}: {'; '.join(found.errors + found.secrets)}")
        when = dt.datetime.fromisoformat(f"{row['when']}T09:00:00+09:00")
        folder = "{category}/{topic}".format(**found.memory.meta)
        notes[row["id"]] = f"{folder}/{found.memory.name} {row['id']}.md", found.memory.note(row["id"], when)
    return notes


@dataclass(frozen=True, slots=True)
class Dated:
    """Dated notes by path, questions that say when, and the day they are asked; `accept` names paths."""

    today: dt.date
    notes: Mapping[str, str]
    questions: Sequence[Loose]


def dated() -> Dated:
    """Read `tests/quality/dated.yaml`."""
    given = _read("dated")
    notes = {
        f"{row['id']}.md": f"---\ntitle: '{row['title']}'\ncreated: {row['when']}\n---\n\n{row['text']}\n"
        for row in given["notes"]
    }
    return Dated(dt.date.fromisoformat(given["today"]), notes, _loose(given["questions"], ".md"))


def validity() -> Dated:
    """Read `tests/quality/validity.yaml`: facts that changed, a note for each state, and questions for one state each."""
    given = _read("validity")
    notes, questions = {}, []
    for fact in given["facts"]:
        for number, state in enumerate(fact["states"], 1):
            head = "".join(f"{key}: {value}\n" for key, value in state.items() if key != "text")
            notes[f"{fact['id']}-{number}.md"] = f"---\n{head}---\n\n{state['text']}\n"
        for row in fact["questions"]:
            right = (f"{fact['id']}-{row['state']}.md",)
            questions.append(Loose(row["question"], row["language"], fact["half"], right, row.get("as_of", "")))
    return Dated(dt.date.fromisoformat(given["today"]), notes, questions)


def sessions() -> Dated:
    """Read `tests/quality/sessions.yaml`: dated conversations, a note each, and who said what when."""
    given = _read("sessions")
    notes = {}
    for row in given["sessions"]:
        turns = "\n\n".join(f"{turn['who']}: {turn['text']}" for turn in row["turns"])
        head = f"title: '{', '.join(row['people'])}, {row['date']}'\ncreated: {row['date'].replace(' ', 'T')}:00"
        notes[f"{row['id']}.md"] = f"---\n{head}\n---\n\n{turns}\n"
    return Dated(dt.date.fromisoformat(given["today"]), notes, _loose(given["questions"], ".md"))
