"""Merging two notes: no sentence is lost, and contradictions are decided by the caller."""

import re
from pathlib import Path
from typing import Any

import pytest

from spellbook.editing.joining import Keep, join
from spellbook.editing.merge import metadata
from spellbook.index.extract import folded
from spellbook.library.book import Spellbook
from spellbook.notes.note import Note, parse
from spellbook.search.duplicates import DUPLICATE
from tests.editing.author import Author, written

OLD = "2024-01-01T00:00:00+00:00"
NEW = "2025-01-01T00:00:00+00:00"


def note(text: str, path: str = "a.md") -> Note:
    return parse(path, text.encode())


def joined(first: str, other: str, keep: Keep = "") -> str:
    return join(note(first), note(other, "b.md"), keep).text


# -- texts


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ("One. Three.\n", "One. Two. Three.\n", "One. Three.\n\nTwo.\n"),
        ("One.\n\nTwo.\n", "One.\n\nNew.\n\nTwo.\n", "One.\n\nTwo.\n\nNew.\n"),
        ("One.\nTwo.\n", "one  two.\n\nONE.\n", "One.\nTwo.\n\none  two.\n"),  # case and blanks say nothing
        ("- a\n- c\n", "* a\n* b\n* c\n", "- a\n- c\n\n* b\n"),
        ("1. a\n2. c\n", "1. a\n2. b\n   more\n3. c\n", "1. a\n2. c\n\n2. b\n   more\n"),
        ("## A\nx.\n\n## B\ny.\n", "## A\n\nz.\n\n## B\n\nw.\n", "## A\nx.\n\nz.\n\n## B\ny.\n\nw.\n"),
        ("## A\n\nx.\n", "## B\n\ny.\n", "## A\n\nx.\n\n## B\n\ny.\n"),
        ("## A\n\nx.\n\n## C\n\nz.\n", "## A\n\n### B\n\ny.\n", "## A\n\nx.\n\n### B\n\ny.\n\n## C\n\nz.\n"),
        ("## A\n\nx.\n", "before.\n", "before.\n\n## A\n\nx.\n"),
        ("x.\n", "## B\n\nx.\n", "x.\n"),  # a heading over what is there already
        ("x.\n", "x.\n\n## Decided\n", "x.\n\n## Decided\n"),  # a heading alone says something
        ("", "x.\n\n## B\n\ny.\n", "x.\n\n## B\n\ny.\n"),
        ("x.", "y.", "x.\n\ny."),
        ("x.\r\n\r\n## A\r\n", "x. y.\n\n## A\n\n- 1\n- 2\n", "x.\r\n\r\ny.\r\n\r\n## A\r\n\r\n- 1\r\n- 2\r\n"),
        ("x.\n\n```\nls -a\n```\n", "x.\n\n```\nls -A\n```\n", "x.\n\n```\nls -a\n```\n\n```\nls -A\n```\n"),
        ("# T\n\nx.\n", "# U\n\nx. y.\n", "# T\n\nx.\n\ny.\n"),  # a title is no text
        ("한글이다. 끝.\n", "한글이다. 새 문장이다. 끝.\n", "한글이다. 끝.\n\n새 문장이다.\n"),
        ("no mark\n", "no mark\nsecond line.\n", "no mark\n\nno mark\nsecond line.\n"),
        ("See [x].\n", "See [x].\n\n[x]: https://e.org\n", "See [x].\n\n[x]: https://e.org\n"),
    ],
)
def test_what_only_the_other_says_goes_where_it_belongs(first: str, other: str, expected: str) -> None:
    """The first text stays unchanged; what only the other says is inserted at the end of its section."""
    assert joined(first, other) == expected


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("end_of_line", ["\n", "\r\n"])
def test_no_sentence_is_lost(end_of_line: str) -> None:
    """Every line of both notes is in the union, and the first loses no letter; with itself a text is itself."""
    for seed in range(150):
        author = Author(seed)
        base = author.note()
        first, other = (note(written(author.edit(base))).body for _ in range(2))
        assert joined(first, first) == first
        text = joined(first.replace("\n", end_of_line), other, "both" if seed % 2 else "")
        said = flat(text).casefold()
        for line in [*first.splitlines(), *other.splitlines()]:
            if line.startswith("#") or not re.search(r"\w", line):
                continue
            for sentence in re.split(r"(?<=[.!?]) ", re.sub(r"^\s*(?:[-*>|]|\d+\.)\s", "", line)):
                assert flat(sentence).casefold().strip(" .!?|") in said, (line, text)
        rest = iter(text)
        assert all(letter in rest for letter in first.replace("\n", end_of_line)), text
        assert text.count("\n") == text.count(end_of_line)


# -- what contradicts


@pytest.mark.parametrize(
    ("first", "other", "both"),
    [
        ("- We deploy on Friday.", "We do not deploy on Friday.", "- We do not deploy on Friday."),
        ("포트는 5432를 쓴다.", "포트는 5433을 쓴다.", None),
        ("Redis를 쓴다.", "Redis를 쓰지 않는다.", "Redis를 쓰지 않는다."),
        ("Keys: 3\nLocks: 4", "Keys: 3\nLocks: 5", "Keys: 3\nLocks: 5"),
        ("The tide rises.", "The crane lifts 3 tons.", None),
    ],
)
def test_negations_contradict_too(first: str, other: str, both: str | None) -> None:
    """A negation is a contradiction, in Korean and English, across items and paragraphs; other differences are not."""
    done = join(note(first), note(other), "b")
    assert (done.text == both) if both else not done.changed


# -- frontmatter


def test_labels_are_united() -> None:
    """Lists are joined, the higher importance and the older date win, missing keys are added, differences are named."""
    first = note(f"---\nid: A\ntopic: sea\nkeywords: [Keys, tide]\nquestions: 'When?'\nentities: [Anna, {{name: Docker, type: technology}}]\nimportance: 0.4\ncreated: {NEW}\n---\n# Keys\n")  # fmt: skip
    other = note(f"---\nid: B\ntopic: port\nkeywords: keys, 도커\nquestions: [When?, Who?]\nentities: [docker, Bob]\nimportance: high\ntags: [ops]\npinned: true\ncreated: {OLD}\nupdated: {NEW}\nmerged: [C]\n---\n# Locks\n", "deep/b.md")  # fmt: skip
    wanted, differs = metadata(first, other)
    assert wanted == {
        "keywords": ["Keys", "tide", "도커"],
        "questions": ["When?", "Who?"],
        "entities": ["Anna", {"name": "Docker", "type": "technology"}, "Bob"],
        "tags": ["ops"],
        "aliases": ["Locks"],
        "importance": "high",
        "created": other.meta["created"],
        "pinned": True,
        "merged": ["B", "deep/b", "C"],
    }
    assert differs == {"topic": ("sea", "port")}
    assert "importance" not in metadata(other, first)[0]
    assert "created" not in metadata(other, first)[0]


# -- scribe says what it repeats

GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma"
WHOLE = f"{GREEK} tau upsilon"
CRANE = "The crane on the northern quay of the old harbour lifts as much as {} tons in a minute, whatever wind and weather say of it to those who wait below with their carts."
LABELS = {"topic": "letters", "keywords": ["greek", "order"], "entities": ["Homer"]}


def chunk(text: str, **labels: object) -> dict[str, Any]:
    return {"text": text, "metadata": {**LABELS, **labels}}


def test_a_repetition_in_other_numbers_names_them(book: Spellbook, vault: Path) -> None:
    """
    A repetition in other numbers is written and names what it may supersede, but for what is superseded. In the same
    ones, in any script, it is refused, unless it supersedes a note; equal words are refused even then.
    """
    book.scribe(chunk(CRANE.format(3)))
    done = book.scribe(chunk(CRANE.format(5)))
    [older] = done.may_supersede[0]
    assert (len(done.written), done.duplicates) == (1, ((),))
    assert older.score >= DUPLICATE
    [same] = book.validate(chunk(CRANE.format(3).replace("The crane", "THE CRANE").replace(".", "!")))[1]
    assert (same.how, same.score, same.changed) == ("words", 1.0, ())
    turned = CRANE.format(3).replace("wind and weather", "weather and wind")
    assert "Give its id in supersedes" in book.memories.remember(turned)["hint"]
    assert book.memories.remember(turned, supersedes=[same.id])["superseded"]
    other = book.scribe(chunk("Carts wait at the southern gate.")).written[0].chunk_id
    assert book.memories.remember(turned, supersedes=[other])["status"] == "exists"
    assert book.memories.remember(f"{turned} (again)", supersedes=[other])["superseded"]
    for one, alike in (("도커, 컨테이너!", "「도커컨테이너」"), ("Cafe\u0301 नम!", "CAFÉ\u3000नम"), ("a\udc80", "A")):
        assert folded(one) == folded(alike) != folded(f"{one}다")
    book.revise(done.written[0].chunk_id, metadata={"supersedes": older.id})
    assert older.path not in {each.path for each in book.scribe(chunk(CRANE.format(7))).may_supersede[0]}


@pytest.mark.parametrize(
    ("labels", "is_told"),
    [
        pytest.param({}, True, id="the same labels"),
        pytest.param({"keywords": ["GREEK", "alphabet"]}, True, id="half of them"),
        pytest.param({"keywords": ["alphabet", "list"]}, False, id="one of three"),
        pytest.param({"topic": "words"}, False, id="another topic"),
    ],
)
def test_what_may_be_a_repetition_is_written_and_told(book: Spellbook, labels: dict[str, Any], is_told: bool) -> None:
    """A memory that may repeat another (near in meaning, same topic and labels) is written, and names the other."""
    [first] = book.scribe(chunk(f"{WHOLE}.")).written
    done = book.scribe(chunk(f"{GREEK} phi chi.", **labels))
    assert len(done.written) == 1
    assert [(each.id, each.how) for each in done.duplicates[0]] == (
        [(f"{first.chunk_id}#", "labels")] if is_told else []
    )
