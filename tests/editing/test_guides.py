"""Guides: the packaged ones are complete, and take the place of a guide of the vault that makes no sense."""

from __future__ import annotations

import json
import re

import pytest

from spellbook.editing import guides
from tests.mcp.agent import talk

PARTS = {"principles", "ideal_chunk_size", "examples"}


@pytest.mark.parametrize("language", guides.LANGUAGES)
def test_the_packaged_guides_say_everything(language):
    """Each language has three guides, and each list in them has one-line items."""
    notes = guides.packaged(language)
    assert set(notes) == {"chunking", "metadata", "examples"}
    chunking, rules = guides.chunking(notes), guides.metadata_rules(notes)
    assert set(chunking) == PARTS
    # Without their heading they must not read as things to keep.
    negative = "^Keep no" if language == "en" else "않습니다|만 적습니다|적고|옮기지 말고|쓰지 말고"
    assert all(re.search(negative, item) for item in chunking["principles"][-7:])
    assert 0 < chunking["ideal_chunk_size"]["min_tokens"] < chunking["ideal_chunk_size"]["max_tokens"]
    assert 0 < rules["keyword_count"]["min"] < rules["keyword_count"]["max"]
    ends = ("guidelines", "extraction", "category", "importance")
    lists = [chunking["principles"], *(value for key, value in rules.items() if key.endswith(ends))]
    assert len(lists) == 6
    assert all(lists)
    assert all(item and "\n" not in item and not item.startswith(("-", "*")) for items in lists for item in items)
    assert all(example.startswith("## ") for example in chunking["examples"])


@pytest.mark.parametrize("language", guides.LANGUAGES)
def test_what_rest_gives_has_a_size(book, write_note, language):
    """However long the guides of a vault are, principles come first and the answer has at most 3,500 letters."""
    principles = "\n".join(f"- {number}: {'keep ' * 20}" for number in range(2_000))
    names = {"en": ("Principles", "Keywords"), "ko": ("원칙", "키워드")}[language]
    write_note("a.md", f"## {names[0]}\n\n{principles}\n", category="system", guide="chunking", language=language)
    write_note("b.md", f"## {names[1]}\n\n- {'x' * 90_000}\n", category="system", guide="metadata", language=language)
    text = talk(book, lambda agent: agent.call("rest", language=language))
    assert 2_500 < len(text) <= 3_500
    given = json.loads(text)
    assert given["chunking_guide"]["principles"][0].startswith("0: keep")
    assert given["metadata_rules"]["keyword_guidelines"] == []
    assert "system" in given["status"]


def test_a_guide_that_makes_no_sense_is_passed_over(book, write_note):
    """An invalid number in a guide is ignored; if a guide disappears or breaks meanwhile, `rest` still answers."""
    packaged = book.rest()[1:]
    guide = {"category": "system", "guide": "chunking", "language": "en"}
    for value in ("many", "-3", "0", "true", "[1]"):
        file = write_note("guide.md", "text", **guide, max_tokens=value)
        assert book.rest()[1]["ideal_chunk_size"] == packaged[0]["ideal_chunk_size"]
    file.write_bytes(b"\xff\xfa" * 50)
    assert book.rest()[1:] == packaged
    file.unlink()
    assert book.rest()[1:] == packaged
