"""`why`: what a question searched for, and why a chunk is missing."""

from __future__ import annotations

import pytest

from spellbook.system.errors import InvalidInput, MemoryNotFound


@pytest.fixture
def filled(book, write_note):
    write_note(
        "keys.md",
        "# Keys\n\nThe harbour keys are rotated every Monday.\n\n## Spare\n\nSpare harbour keys hang in the office.",
        category="decision",
    )
    write_note("cat.md", "# Cat\n\nThe cat slept on the windowsill.", pinned="true")
    for i in range(12):
        write_note(f"log/{i}.md", f"Harbour log number {i}: nothing happened, the keys were there.", category="log")
    book.reindex()
    return book


def shares(row):
    return sum(leg["share"] for leg in row.legs.values()) + sum(each["share"] for each in row.adjustments)


@pytest.mark.parametrize("verb", ["search", "memorize", "find"])
def test_the_rows_are_those_of_the_answer(filled, verb):
    """Hits have the order and scores of the search, and each row's shares add up."""
    given = filled.why("harbour keys", verb=verb, limit=3)
    hits = getattr(filled, verb)("harbour keys", limit=3).hits
    assert [(row.id, row.score) for row in given.rows if row.place] == [(hit.id, hit.score) for hit in hits]
    assert [row.verdict for row in given.rows[: len(hits)]] == [f"hit {place}" for place in range(1, len(hits) + 1)]
    assert len(hits) >= 2
    for row in given.rows:
        assert shares(row) == pytest.approx(row.score)


def test_the_words_asked_for_are_told(filled):
    """
    Each word comes with the number of chunks that contain it; words that no chunk contains are marked, and one that
    matches by its stem counts as matched.
    """
    given = filled.why("harbour kraken")
    assert [(word.text, word.chunks) for word in given.words] == [('"harbour"', 14), ('"krake"*', 0)]
    assert 0 < given.known < 1
    assert [(row.words, row.lacks) for row in given.rows[:1]] == [(("harbour",), ("krake*",))]
    [row] = [row for row in filled.why("rotating key").rows if row.id == "keys#"]
    assert (row.words, row.lacks) == (("rotating", "key"), ())


def test_what_the_question_says_of_time_is_told(filled):
    """`why` says which days a question means, also where no note is of then; of no other question."""
    assert filled.why("harbour keys in May 2011").when == "from 2011-05-01 to 2011-05-31: in May 2011"
    assert filled.why("harbour keys").when == ""


def test_words_are_told_as_people_write_them(book, write_note):
    """Korean words are asked for in pairs of letters and told as they were typed, synonyms too."""
    write_note("a.md", "# 정리\n\n이펙트를 정리한다. 상태 끌어올리기와 같다.\n")
    [row] = book.why("effect 끌어올리기 정리").rows
    assert set(row.words) == {"이펙트", "끌어올리기", "정리"}
    assert book.search("effect 정리").hits[0].why["keyword"]["synonyms"] == ["effect = 이펙트"]


@pytest.mark.parametrize(
    ("id", "asked", "expected"),
    [
        ("keys.md", {"filter": {"category": "log"}}, "excluded by the filter category"),
        ("log/3.md", {"limit": 1}, "beyond the limit of 1"),
        ("log/3.md", {"min_score": 0.999}, "its score is below 0.999"),
        ("cat.md", {}, "its evidence 0."),
        ("log/3.md", {"query": '"spare harbour keys" in the office'}, "it does not contain the quoted text"),
        ("cat.md", {"verb": "find"}, "neither its meaning nor its words match"),
    ],
)
def test_what_is_missed_is_told_why(filled, id, asked, expected):
    """A note that is no hit has the reason that kept it out."""
    [row, *_] = filled.why(asked.pop("query", "harbour keys"), id, **asked).rows
    assert (row.path, row.place) == (id, None)
    assert row.verdict.startswith(expected)


def test_every_chunk_of_a_note_is_told_and_one_alone_if_asked(filled):
    """A note's id explains all its chunks, a chunk's id only that one."""
    assert {row.id for row in filled.why("harbour keys", "keys.md").rows} == {"keys#", "keys#spare"}
    assert [row.id for row in filled.why("harbour keys", "keys#spare").rows] == ["keys#spare"]


def test_what_makes_no_sense_is_refused(filled):
    """An unknown id or verb is an error that says so."""
    with pytest.raises(MemoryNotFound):
        filled.why("harbour", "nowhere.md")
    with pytest.raises(InvalidInput, match="no search verb 'guess'"):
        filled.why("harbour", verb="guess")
