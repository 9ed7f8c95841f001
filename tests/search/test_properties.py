"""A note's own properties are found by words; `properties.tesh` says how they are shown, and what they filter."""

from pathlib import Path
from typing import Any

import pytest

from spellbook.index import sync
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.helpers import Counting, opened, rows

MINJI = "---\ntopic: Minji\nbirthday: 1990-05-12\ndue: 2026-12-20\nstatus: active\n생일: 1990-05-12\n---\n# Minji\n\nOrnithologist.\n\n## Work\n\nBirds of Minji.\n"
TASKS = """# Plans

## Rent

- [ ] Pay the rent 📅 2026-11-27
- [x] Call the bank ✅ 2026-11-20

## Garden

- [ ] Plant a tree [due:: 2027-03-01]
- **Owner**:: [[Minji]]

## Reading

- [x] Read a book
mood:: good
"""


@pytest.fixture
def notes(vault: Path) -> Any:
    (vault / "Minji.md").write_text(MINJI, "utf-8")
    (vault / "Plans.md").write_text(TASKS, "utf-8")
    (vault / "Other.md").write_text("# Other\n\nBirthday parties are loud.\n", "utf-8")
    (vault / "Card.md").write_text("---\nphone: 010-1234\n---\n# Card\n", "utf-8")
    return vault


FOUND = {"1990-05-12": "Minji#", "birthday 1990-05-12": "Minji#", "생일": "Minji#", "010-1234": "Card#"}


def test_they_are_found_by_words(notes: Any) -> None:
    """
    A key with its value, a value, a key: the note is found by its first chunk, also one without any text. A property
    that is added or changed changes words alone; a note of properties alone has no vector. Nine thousand of them, or one
    that is huge, are cut; what comes first is found and shown.
    """
    embedder = Counting()
    with opened(notes, embedder) as index:
        sync.run(index)

        def found(words: Any) -> Any:
            return Searcher(index).ask(Question(words, "keyword", keywords=(words,))).hits

        assert {words: [hit.id for hit in found(words)] for words in FOUND} == {
            word: [id] for word, id in FOUND.items()
        }
        assert not [text for text in embedder.texts if "1990" in text or "010" in text]
        (notes / "Minji.md").write_text(MINJI.replace("active", "retired"), "utf-8")
        assert sync.run(index).embedded == 0
        assert [len(found(words)) for words in ("retired", "status active")] == [1, 0]
        many = "\n".join(f"k{number}: v{number}" for number in range(9_000))
        (notes / "many.md").write_text(f"---\n{many}\n---\nwords\n", "utf-8")
        (notes / "huge.md").write_text(f"---\nk: {'first ' + 'x' * 250_000}\n---\nwords\n", "utf-8")
        sync.run(index)
        for word, path in (("v7", "many.md"), ("first", "huge.md")):
            [hit] = found(word)
            assert (hit.path, len(hit.marks.properties)) == (path, 200)
        assert max(len(labels) for (labels,) in rows(index.catalog, "SELECT labels FROM notes")) < 500_000
        assert index.catalog.upkeep.verify() == []
