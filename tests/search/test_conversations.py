"""Ranking in conversations: their turns, and who speaks."""

from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.search.choice import choose
from spellbook.search.ranking import weigh_turns
from spellbook.search.scores import fuse
from tests.helpers import Write
from tests.search.candidates import candidate

TURNS = (
    "## Ann\n\nThe tide took my kayak.\n\n## 지민\n\nThe tide took my kayak too.\n\n## User\n\nThe tide took a kayak.\n"
)
SPOKEN = ["Ann", "지민", "User"]


@pytest.mark.parametrize(
    ("ids", "meta", "expected"),
    [
        (("a#ann", "a#bo", "a#ann-2"), {"type": "chat"}, "aaab"),
        (("a#ann", "a#ann~2", "a#ann~3"), {"type": "chat"}, "aaba"),
        (("a#ann", "a#bo", "a#ann-2"), {"type": "trip"}, "aaba"),
    ],
    ids=["turns", "parts of a turn", "sections"],
)
def test_turns_crowd_nobody(ids: tuple[str, ...], meta: dict[str, Any], expected: str) -> None:
    """Each turn of a conversation takes a place of its own; parts of one turn, and sections of a note, lose score."""
    found = [candidate("a.md", 0.9 - 0.01 * at, key=id, **meta) for at, id in enumerate(ids)]
    found = [each._replace(chunk=each.chunk._replace(id=id)) for each, id in zip(found, ids, strict=True)]
    chosen = choose(fuse([*found, candidate("b.md", 0.85)], "semantic"), 4)
    assert "".join(each.chunk.path[0] for each in chosen) == expected
    # A bound of one note holds for conversations as well.
    assert [each.chunk.path for each in choose(fuse(found, "semantic"), 4, 1)] == ["a.md"]


@pytest.mark.parametrize(
    ("asked", "category", "lifted"),
    [
        ("what did ann's tide take?", "conversation", ["Ann"]),
        ("지민이가 타던 kayak", "chat", ["지민"]),
        ("which user has a kayak", "conversation", []),
        ("what did Ann's tide take?", "project", []),
        ("whose kayak?", "conversation", []),
    ],
)
def test_who_speaks(book: Spellbook, write_note: Write, asked: str, category: str, lifted: list[str]) -> None:
    """A question that names a speaker lifts what this person says, in a note that is a conversation, and says so."""
    write_note("a.md", TURNS, category=category)
    book.reindex()
    hits = book.search(asked, min_score=0.0).hits
    assert sorted(hit.heading for hit in hits) == sorted(SPOKEN)
    reasons = {hit.heading: [one["reason"] for one in hit.why["adjustments"]] for hit in hits}
    assert [name for name in SPOKEN if f"the question names {name}" in reasons[name]] == lifted


def test_stop_words_name_nobody() -> None:
    """Somebody called Will is not named by each question that begins with that word."""
    (each,) = fuse([candidate(semantic=0.5, type="chat")], "both")
    each = each._replace(chunk=each.chunk._replace(heading="Will"))
    assert weigh_turns([each], "Will it rain?") == [each]


@pytest.mark.parametrize(
    ("answering", "is_lower"), [("Assistant", True), ("ChatGPT", True), ("어시스턴트", True), ("Ann", False)]
)
def test_a_person_stands_above_the_assistant(
    book: Spellbook, write_note: Write, answering: str, is_lower: bool
) -> None:
    """Of two turns that say the same, the person's comes first; an assistant's loses, and says so."""
    said = "The ferry to Lissavik leaves at dawn."
    write_note("a.md", f"## {answering}\n\n{said}\n\n## User\n\nSo {said}\n", category="conversation")
    book.reindex()
    hits = book.search("when does the ferry leave?", min_score=0.0).hits
    reasons = {hit.heading: [one["reason"] for one in hit.why["adjustments"]] for hit in hits}
    assert ("an assistant's answer" in reasons[answering]) is is_lower
    assert "an assistant's answer" not in reasons["User"]
    assert not is_lower or hits[0].heading == "User"
