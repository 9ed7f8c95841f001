"""get_index, get_topic and show in JSON: the same as their texts, within the same room."""

from __future__ import annotations

import json

import pytest

from spellbook.text.terms import estimate_tokens
from tests.mcp.agent import talk


def ask(book, tool, **arguments):
    return talk(book, lambda agent: agent.json(tool, format="json", **arguments))


def test_many_topics_within_the_room(book, write_note):
    """Ids and counts come before summaries, totals are those of all topics, and the answer stays within its tokens."""
    for number in range(60):
        if number == 18:
            some = ask(book, "get_index")["categories"][0]["topics"]
        write_note(f"{number}.md", f"# Title {number}\n\n{'Words and words. ' * 20}", topic=f"t{number}", category="c")
    assert len(some) == 18
    assert 0 < sum("summary" in topic for topic in some) < 18
    small, large = ask(book, "get_index"), ask(book, "get_index", max_tokens=20_000)
    for told, most in ((small, 800), (large, 20_000)):
        assert estimate_tokens(json.dumps(told, ensure_ascii=False)) <= most * 1.1
        assert (told["total_topics"], told["categories"][0]["topic_count"]) == (60, 60)
    assert 20 < len(small["categories"][0]["topics"]) < 60
    assert all(topic["chunk_count"] == 1 for topic in small["categories"][0]["topics"])
    assert all(topic["summary"] for topic in large["categories"][0]["topics"])
    assert (small["truncated"], "truncated" in large) == (True, False)
    assert small["left_out"]["topics"] == 60 - len(small["categories"][0]["topics"])


def test_each_category_has_its_share(book, write_note):
    """A large category leaves room to the small ones, and very many categories do to their topics."""
    for number in range(40):
        write_note(f"a/{number}.md", f"Words and words, {number}. " * 20, topic=f"t{number}", category="large")
    for name in ("b", "c", "d"):
        write_note(f"{name}.md", f"About {name} there is little to say.", topic=name, category=name)
    told = ask(book, "get_index")
    shown = {each["name"]: len(each["topics"]) for each in told["categories"]}
    assert shown["large"] > 20
    assert {name: count for name, count in shown.items() if name != "large"} == {"b": 1, "c": 1, "d": 1}
    for number in range(300):
        write_note(f"k/{number}.md", f"Only {number} things here.", topic="k", category=f"kind {number}")
    told = ask(book, "get_index")
    assert estimate_tokens(json.dumps(told, ensure_ascii=False)) <= 880
    assert told["left_out"]["categories"] == 304 - len(told["categories"]) > 0
    assert all(each["topics"] for each in told["categories"][:2])


@pytest.mark.parametrize(("tool", "name"), [("show", "id"), ("get_topic", "topic_id")])
def test_what_does_not_fit_is_named(book, write_note, tool, name):
    """The first chunks that do not fit are listed with their ids; all are counted, and the frontmatter has its share."""
    text = "".join(f"## Part {number}\n\n{'words and more ' * 60}\n\n" for number in range(30))
    write_note("long.md", text, topic="long", summary="x" * 40_000)
    told = ask(book, tool, max_tokens=1_000, **{name: "long"})
    assert estimate_tokens(json.dumps(told["chunks"], ensure_ascii=False)) <= 1_100
    assert len(told["chunks"]) + told["left_out_count"] == 30
    assert [each["id"] for each in told["left_out"]][:2] == [f"long#part-{len(told['chunks']) + n}" for n in range(2)]
    assert told.get("meta", {}) in ({}, {"topic": "long"})
