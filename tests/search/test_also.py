"""A question of several texts: the question itself, and what its note may say."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from spellbook.search.scores import fuse
from spellbook.system.errors import InvalidInput
from tests.mcp.agent import talk
from tests.search.candidates import candidate

NOTES = {
    "owl.md": "The owl of the archive sleeps behind the third shelf.",
    "boat.md": "We paint the boat blue in April.",
    "bread.md": "Rye bread needs nine hours of rest.",
    "harbour.md": "The harbour closes at ten in winter.",
}
ASKED = "where is our bird"
GUESS = "The owl sleeps behind the shelf."


@pytest.fixture
def filled(book, write_note):
    for path, text in NOTES.items():
        write_note(path, text)
    book.reindex()
    return book


def paths(answer):
    return [hit.path for hit in answer.hits]


def test_a_guess_finds_what_the_question_does_not(filled):
    """
    The note that holds the guessed sentence is found, and the answer says which texts were asked and what each gave; `why`
    takes the same texts.
    """
    assert paths(filled.search(ASKED)) == []
    answer = filled.search(ASKED, also=[GUESS, "부엉이 책장 뒤"])
    assert paths(answer)[:1] == ["owl.md"]
    assert answer.also == (GUESS, "부엉이 책장 뒤")
    texts = answer.hits[0].why["texts"]
    assert [text["text"] for text in texts] == [ASKED, GUESS, "부엉이 책장 뒤"]
    assert max(texts, key=lambda text: text["score"])["text"] == GUESS
    assert [row.verdict for row in filled.why(ASKED, "owl.md", also=[GUESS]).rows] == ["hit 1"]


def test_the_best_two_texts_count(filled):
    """The score is the mean of the best two, so that one wrong guess costs little, and the shares add up to it."""
    right, wrong = "paint the boat blue", "rye bread needs nine hours"
    alone, helped, misled = (
        filled.search("the blue boat", also=also, min_score=0.0) for also in ((), [right], [right, wrong])
    )
    for answer in (alone, helped, misled):
        assert paths(answer)[0] == "boat.md"
        for hit in answer.hits:
            shares = sum(hit.why[leg]["share"] for leg in ("semantic", "keyword") if leg in hit.why)
            assert shares + sum(one["share"] for one in hit.why["adjustments"]) == pytest.approx(hit.score, abs=1e-3)
    first = helped.hits[0]
    assert first.score == pytest.approx(sum(text["score"] for text in first.why["texts"]) / 2, abs=0.02)
    assert misled.hits[0].score == pytest.approx(first.score, abs=0.02)


def test_evidence_is_the_mean_of_the_best_two():
    """One text alone cannot make a chunk sure."""
    low, middle, high = (candidate(semantic=score, keyword=score).matches[0] for score in (0.0, 0.1, 0.9))
    one = candidate()
    one.matches = [middle, high, low]
    assert one.evidence() == pytest.approx((middle.evidence() + high.evidence()) / 2)
    fuse([one], "both")
    assert one.score == pytest.approx((0.1 + 0.9) / 2, abs=1e-3)


def test_one_text_is_asked_as_ever(filled):
    """Nothing, blanks, and the question once more are no further text."""
    plain = filled.search("the blue boat")
    for also in ((), "", ["  "], "the blue boat", ["the blue boat ", ""]):
        answer = filled.search("the blue boat", also=also)
        assert (answer.hits, answer.also) == (plain.hits, ())


def test_quotes_and_filters_are_the_questions(filled, write_note):
    """A quoted phrase in a guess is no demand, one in the question is."""
    assert "boat.md" in paths(filled.search("the blue boat", also=['they said "purple unicorn" once']))
    assert paths(filled.search('"rye bread"', also=[NOTES["boat.md"]])) == ["bread.md"]
    assert paths(filled.search("the blue boat", also=[NOTES["owl.md"]], filter={"path": "boat.md"})) == ["boat.md"]


def test_words_of_time_are_the_questions(filled, write_note):
    """A guess that says "yesterday" prefers no note of yesterday."""
    write_note("boat.md", NOTES["boat.md"], created=(dt.date.today() - dt.timedelta(days=1)).isoformat())
    own = filled.search("what did we paint yesterday", min_score=0.0)
    guessed = filled.search("what did we paint", also=["what did we paint yesterday"], min_score=0.0)
    reasons = [str([hit.why["adjustments"] for hit in answer.hits]) for answer in (own, guessed)]
    assert ["yesterday" in reason for reason in reasons] == [True, False]


@pytest.mark.parametrize(
    ("also", "message"),
    [
        (["a", "b", "c", "d"], "4 further texts; the maximum is 3"),
        (["a", 7], "`also` holds 7, which is not a text"),
        (["x" * 20_001], "20,001 characters"),
    ],
)
def test_bad_input_is_named(filled, also, message):
    """What makes no sense is refused before anything is searched."""
    with pytest.raises(InvalidInput, match=message):
        filled.search("the blue boat", also=also)


def test_over_mcp(filled):
    """search, recall and memory_injection take it, and an answer without a sure hit tells an agent to use it."""

    async def conversation(agent):
        for tool in ("search", "recall"):
            assert "Ask again with also" in await agent.call(tool, query=ASKED)
            for also in ([GUESS], GUESS, json.dumps([GUESS])):
                assert "owl.md" in await agent.call(tool, query=ASKED, also=also)
            assert "Ask again" not in await agent.call(tool, query="zebra", also=["quagga"])
        given = await agent.client.get_prompt("memory_injection", {"query": ASKED, "also": f"{GUESS}\nthe bird"})
        assert "owl of the archive" in given.messages[0].content.text

    talk(filled, conversation, toolsets=("core", "memento"))
