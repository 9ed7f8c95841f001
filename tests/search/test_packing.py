"""Packing: an answer stays within its budget, shows most of the best hits, and names what is left out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.index.catalog.rows import StoredChunk
from spellbook.search import note_marks, packing
from spellbook.search.packing import by_words, excerpt, pack, sentences
from spellbook.search.presentation import beside, head, pointer
from spellbook.search.scores import Hit
from spellbook.text.quoting import quoted
from spellbook.text.terms import estimate_tokens

BESIDE = {"before": {"id": "a#b", "line": "도커 " * 30}, "after": {"id": "a#c", "line": "abc"}}


def hit(text: str, score: float = 0.5, line: int = 1, title: str = "t") -> Any:
    chunk = StoredChunk(0, "id", "a.md", line, line, title, "", text, "", "", "", 0.5, None, None, 0, 0, (), (), {})
    return Hit(chunk, score, {}, text, note_marks.of(chunk), neighbours=BESIDE)


def words(*given: Any) -> Any:
    return by_words(dict.fromkeys(given, 1.0))


TEXT = st.text(alphabet="abc 도커。\n.,0", max_size=3000)


@given(st.lists(TEXT, max_size=30), st.integers(50, 4000))
def test_an_answer_is_within_its_budget(texts: Sequence[str], most: int) -> None:
    """Names, texts and marks are within `max_tokens`, and each hit says how much of it is shown."""
    packed = pack([hit(text) for text in texts], most, words("a", "도커"))
    named = [each for each in packed if each.why["text"] != "unnamed"]
    texts_shown = ("\n   ".join((f"{head(each)}\n{quoted(each.text)}", *beside(each))) for each in named if each.text)
    shown = [*texts_shown, *(pointer(each) for each in named if not each.text)]
    assert sum(map(estimate_tokens, shown)) <= most
    for each, text in zip(packed, texts, strict=True):
        match each.why["text"]:
            case "whole":
                assert each.text == text.strip()
            case "excerpt":
                for row in each.text.splitlines():
                    number, colon, said = row.partition(": ")
                    assert row == "…" or (said if colon and number.isdigit() else row).strip() in text
            case "pointer" | "unnamed":
                assert each.text == ""
            case other:
                pytest.fail(other)


@pytest.mark.parametrize("most", [200, 300, 500, 2_000])
def test_the_best_have_text_however_many_follow(most: int) -> None:
    """In any budget the first hit has text, whole or in part, before others get pointers; those without room count."""
    packed = pack([hit("The crane lifts the copper. " * 40) for _ in range(100)], most, words("crane"))
    forms = [each.why["text"] for each in packed]
    assert ("pointer" in forms or most < 500, forms[-1]) == (True, "unnamed")
    assert forms[:3] == (["whole"] * 3 if most == 2_000 else forms[:3])
    assert estimate_tokens(packed[0].text) > 60


def test_an_excerpt_without_a_word_of_the_question_is_the_beginning() -> None:
    """If text and question share no word, the excerpt is the beginning of the text without gaps."""
    longer = "A second one is much longer than all the others that stand around it here. " * 3
    shown = excerpt(f"The first sentence stands here. {longer}Short.", 1, 20, words("없는"))
    assert shown.splitlines() == ["1: The first sentence stands here.", "…"]


def test_what_an_excerpt_shows_of_a_line_is_as_it_is_written() -> None:
    """
    A sentence that is too long is cut between its words, or within a long word, and the parts are joined as before.
    Where there is room for a name but for no letter of the text, the passage is empty.
    """
    for most in range(50, 120):
        for near in packing.closest([hit("The crane lifts the copper.")] * 3, most, words("crane"))[1:]:
            assert near.text == "" or near.text.startswith(("1: ", "…"))
    line = (
        f"See https://example.org/{'x' * 120} and, 정한 것은   이것이다, the crane: 노트를 고쳐 쓰거나 지우지 않는다."
    )
    [shown] = excerpt(line, 1, 110, words("crane")).splitlines()
    assert shown == f"1: {line}"


def test_an_excerpt_is_the_sentences_that_answer() -> None:
    """An excerpt has the sentences with the question's words, in order, with line numbers and marked gaps."""
    nothing = "".join(f"line {i} of nothing\n" for i in range(200))
    text = f"\n\n{nothing}The xylophone is here. It is not for sale.\n{nothing}Who plays the xylophone? Ann.\n{nothing}"
    shown = excerpt(text, 13, 60, words("xylophone"))
    rows = shown.splitlines()
    assert "213: The xylophone is here. It is not for sale." in rows
    assert any(row.startswith("414: Who plays the xylophone?") for row in rows)
    assert (rows[0], rows[-1], estimate_tokens(shown) <= 60) == ("…", "…", True)
    assert excerpt("x" * 10_000, 1, 60, words("x")).endswith("…")
    assert excerpt(" \n", 1, 60, words("x")) == ""


def test_a_part_is_shown_with_its_frame() -> None:
    """A part of a table is shown with its header, a part of code with its fence, whole or as an excerpt."""
    rows = "\n".join(f"| part{i} | the keeper number {i} reads the barometer |" for i in range(60))
    for lead, tail in (("| name | task |\n| --- | --- |\n", ""), ("```python\n", "```\n")):
        found = hit(rows)
        framed = replace(found, chunk=found.chunk._replace(lead=lead, tail=tail), neighbours={})
        for most in (300, 4_000):
            [shown] = pack([framed], most, words("part41"))
            assert shown.why["text"] == ("whole" if most == 4_000 else "excerpt")
            assert (shown.text.startswith(lead), shown.text.endswith(tail.strip()), "part41" in shown.text) == (
                True,
            ) * 3


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("One. Two!\nThree", 4, [("One.", 4), ("Two!", 4), ("Three", 5)]),
        ("\n\nOne", 7, [("One", 7)]),
        ("도커를 켠다. 볼륨을 만든다。그리고", 1, [("도커를 켠다.", 1), ("볼륨을 만든다。", 1), ("그리고", 1)]),
        ("v1.2.3 is out", 1, [("v1.2.3 is out", 1)]),
        ("\r\nOne\r\nTwo\r\n", 2, [("One", 2), ("Two", 3)]),
        ("", 1, []),
    ],
)
def test_sentences(text: str, line: int, expected: list[tuple[Any, ...]] | list[Any]) -> None:
    """A text is cut at line ends and sentence ends, and each piece knows its line."""
    assert [(each.text, each.line) for each in sentences(text, line)] == expected
