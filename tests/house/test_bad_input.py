"""Bad input gets an answer or an error with a hint, and the vault does not change."""

from __future__ import annotations

import pytest

from spellbook.system.errors import SpellbookError
from tests.helpers import held

ODD = [
    *("", " ", "\0", "\ud800", "../../etc/passwd", "/etc/passwd", "C:\\x", "a" * 100_000, "#" * 10_000),
    *("~", "#", "x'; DROP TABLE notes; --", "%", "🧙‍♂️", "null", "a#b~9"),
]
GOOD = {"text": "A finished thought about the lighthouse.", "metadata": {"topic": "sea", "keywords": ["lighthouse"]}}

VERBS = {
    "show": lambda book, odd: book.show(odd),
    "topic": lambda book, odd: book.topic(odd),
    "revise": lambda book, odd: book.revise(odd, "new"),
    "revise metadata": lambda book, odd: book.revise(odd, metadata={"topic": "x"}),
    "erase": lambda book, odd: book.erase(odd),
    "erase hard": lambda book, odd: book.erase(odd, hard=True),
    "erase_topic": lambda book, odd: book.erase_topic(odd),
    "restore": lambda book, odd: book.restore(odd),
    "session": lambda book, odd: book.require_session(odd),
    "rest": lambda book, odd: book.rest(odd),
    "match": lambda book, odd: book.find("x", match=odd),
}


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_an_odd_name_is_an_error_with_a_message(book, vault, write_note, verb):
    """An unknown name is a SpellbookError with message and hint, and no file changes."""
    write_note("a.md", "# A\n\ntext\n\n## B\n\nmore", topic="t")
    before = held(vault)
    for odd in ODD:
        with pytest.raises(SpellbookError) as caught:
            VERBS[verb](book, odd)
        assert caught.value.message
        assert caught.value.hint
        assert len(str(caught.value)) < 2_000
    assert held(vault) == before


@pytest.mark.parametrize(
    "chunk",
    [
        None, "text", [], {}, {"text": ""}, {"text": "x"}, {"text": 5, "metadata": {}}, {**GOOD, "text": "a\0b"}, {**GOOD, "text": "\ud800"},
        {**GOOD, "text": "x" * 10_000_001}, {**GOOD, "metadata": None}, {**GOOD, "metadata": []}, {**GOOD, "metadata": {"topic": "t"}},
        *({**GOOD, "metadata": {**GOOD["metadata"], **wrong}} for wrong in (
            {"topic": ""}, {"topic": 5}, {"topic": "a\nb"}, {"keywords": [1]}, {"keywords": [""]}, {"importance": "huge"}, {"importance": 2},
            {"importance": True}, {"entities": [{"type": "person"}]}, {"category": "x" * 301}, {"bad: key": 1}, {"x": object()}, {"x": "a\0"},
        )),
    ],
    ids=lambda chunk: repr(chunk)[:40],
)  # fmt: skip
def test_a_bad_chunk_spoils_the_whole_batch(book, vault, chunk):
    """An invalid chunk is named by its number, and nothing of the batch is written; an empty batch is INVALID_INPUT."""
    with pytest.raises(SpellbookError, match=r"chunk 2|chunks\[1\]") as caught:
        book.scribe_all([GOOD, chunk])
    assert (caught.value.code, held(vault)) == ("INVALID_INPUT", {})
    with pytest.raises(SpellbookError, match="no chunk"):
        book.scribe_all([])


def test_a_memory_lands_in_the_vault_whatever_its_topic(book, vault, tmp_path):
    """Whatever topic, category and title are, a new note is inside the vault and found."""
    for topic in (
        *("../../up", "/abs", "C:\\win", "a/../../b", "~root", "con", "..", ".hidden", "a\\..\\..\\b"),
        *("x" * 300, "가" * 150, "a/b/c/d"),
    ):
        metadata = {**GOOD["metadata"], "topic": topic, "category": topic[:200], "title": topic}
        [written] = book.scribe({**GOOD, "metadata": metadata}, force=True).written
        file = vault / written.path
        assert file.resolve().is_relative_to(vault)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "vault"]
        assert [hit.path for hit in book.find("lighthouse").hits] == [written.path]
        assert all(len(part.encode()) <= 120 for part in written.path.split("/"))
        file.unlink()
