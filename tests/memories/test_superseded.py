"""A decision that something supersedes waits for no outcome, whoever asks, and no confidence is made up."""

from __future__ import annotations

import pytest

from spellbook.memories import briefing
from spellbook.notes.note import parse
from tests.server.agent import talk

HOW = {
    "a later decision": ("", 'supersedes: "[[old]]"'),
    "its own status": ("status: Superseded", ""),
    "its own key": ('superseded_by: "[[new]]"', ""),
}
"""Lines in the frontmatter of the old decision, and of the new one."""


@pytest.mark.parametrize("how", HOW)
def test_what_is_superseded_waits_for_no_outcome(book, vault, how):
    """Neither the list, nor a question, nor the filter, nor the start of a session asks for it."""
    for name, lines in zip(("old", "new"), HOW[how], strict=True):
        text = f"---\ncategory: decision\ntopic: db\n{lines}\n---\nThe {name} database keeps the logins.\n"
        (vault / f"{name}.md").write_text(text, "utf-8")
    book.reindex()
    for query in ("", "which database keeps the logins?"):
        found = book.memories.decisions.find(query, outcome="pending")
        assert [each.chunk.path for each in found.items] == ["new.md"]
        assert found.total == 1
        outcomes = {each.chunk.path: each.outcome for each in book.memories.decisions.find(query).items}
        assert outcomes == {"old.md": None, "new.md": "pending"}
    started = briefing.briefing(book.index)
    assert ([chunk.path for chunk in started.open], started.open_total) == (["new.md"], 1)
    answer = talk(book, lambda agent: agent.answer("mama_search", format="json"), toolsets=("decisions",))
    assert {each["path"]: each["outcome"] for each in answer["items"]} == {"old.md": None, "new.md": "pending"}


def test_what_turned_out_is_told_though_it_is_superseded(book, vault):
    """Its outcome is part of its history; one that is recorded afterwards counts as well."""
    decisions = book.memories.decisions
    old = decisions.save("db", "Use SQLite for the logins.")
    decisions.save("db", "Use PostgreSQL for the logins.", supersedes=[old["id"]])
    assert decisions.update(old["id"], supersedes=[decisions.save("x", "Use files.")["id"]])["outcome"] is None
    assert decisions.update(old["id"], "failed", "It locked.")["outcome"] == "failed"
    assert [each.outcome for each in decisions.find(outcome="failed").items] == ["failed"]


def test_a_confidence_that_nobody_gave_is_not_made_up(book, vault):
    """It is neither in the file nor in an answer; one that was given is in both, also the middle one."""
    for topic, given in (("none", None), ("middle", 0.5)):
        done = book.memories.decisions.save(topic, f"Use {topic}.", confidence=given)
        assert parse(done["path"], (vault / done["path"]).read_bytes()).meta.get("confidence") == given
    found = {each.chunk.topic: each.as_dict()["confidence"] for each in book.memories.decisions.find().items}
    assert found == {"none": None, "middle": 0.5}
