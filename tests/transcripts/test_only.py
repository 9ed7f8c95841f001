"""What `$ only` shows of answers, and that it shows something."""

from __future__ import annotations

import json

import pytest

from tests.transcripts.only import Only

HITS = json.dumps({"hits": [{"path": "a.md", "why": {"words": ["sea"]}, "line": 3}, {"path": "b.md"}], "found": 2})
PAGE = "Saved.\n[Undo]\nThe sea"


@pytest.mark.parametrize(
    ("words", "answer", "shown"),
    [
        ("", "a\n\nb", ["a", "", "b"]),
        (".hits[].path", HITS, ['{"hits": [{"path": "a.md"}, {"path": "b.md"}]}']),
        (".found .hits[].why.words", HITS, ['{"hits": [{"why": {"words": ["sea"]}}, {}], "found": 2}']),
        (".hits[].path", '{"hits": []}', ['{"hits": []}']),
        (".found|.lost", HITS, ['{"found": 2}']),
        (".[].a", '[{"a": null, "b": 1}]', ['[{"a": null}]']),
        (".found", f"200\netag: x\n{HITS}", ["200", "etag: x", '{"found": 2}']),
        (". Saved", '{"a": 1}', ['{"a": 1}']),
        ("Saved sea$", PAGE, ["Saved.", "The sea"]),
        (r'"\[Undo\].."', PAGE, ["[Undo]", "The sea"]),
        (r"Saved..Undo", PAGE, ["Saved.", "[Undo]"]),
        (".found", PAGE, PAGE.splitlines()),
        ("Saved", "", []),
    ],
)
def test_only_shows_what_its_words_select(words: str, answer: str, shown: list[str]) -> None:
    """Paths select values of JSON, patterns select lines of texts, and an answer without a word for it is whole."""
    assert Only(words).of_answer(answer, None) == shown


@pytest.mark.parametrize(("words", "answer"), [(".hit[].path", HITS), (".found.x", HITS), ("Gone", PAGE)])
def test_a_filter_that_selects_nothing_is_an_error(words: str, answer: str) -> None:
    """A misspelt path or pattern cannot make a transcript that holds whatever is answered."""
    with pytest.raises(LookupError):
        Only(words).of_answer(answer, None)


def test_a_word_that_selects_nothing_is_an_error() -> None:
    """Each word of a filter selects something while the filter holds."""
    only = Only(".found .lost")
    only.of_answer(HITS, None)
    with pytest.raises(LookupError, match="lost selected nothing"):
        only.close()


@pytest.mark.parametrize(
    ("words", "before", "now", "shown"),
    [
        ("changes", "a\nb\nc\nd", "a\nx\nc\nd", ["-b", "+x"]),
        ("changes", "a\nb\nc", "a\nb\nc", ["(as before)"]),
        ("changes", "a\nb", "x\ny", ["x", "y"]),
        ("changes", None, "a", ["a"]),
        ("changes .a[]", '{"a": ["b"], "c": 1}', '{"a": ["b"], "c": 2}', ['{"a": ["b"]}']),
    ],
)
def test_changes_are_of_the_same_answer_before(words: str, before: str | None, now: str, shown: list[str]) -> None:
    """Lines that came and went are shown, or the whole answer where it is as short."""
    assert Only(words).of_answer(now, before) == shown


def test_what_is_wrong_is_shown_whole_or_in_part() -> None:
    """A filter that selects nothing of a refusal hides nothing of it."""
    refusal = '404\n{"error": {"code": "MEMORY_NOT_FOUND", "timestamp": "now"}}'
    assert Only(".hits[].path").of_failed(refusal) == refusal.splitlines()
    assert Only(".error.code").of_failed(refusal) == ["404", '{"error": {"code": "MEMORY_NOT_FOUND"}}']
