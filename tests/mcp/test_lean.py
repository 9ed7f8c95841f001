"""What core's tools cost a conversation, and what was added so that they cost no more: shared words, asking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult

from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.text import terms
from tests.helpers import Write
from tests.mcp.agent import ERAS, Agent, talk

MOST_TOKENS = 3_750
"""Of the thirteen tools, as `terms.estimate_tokens` counts name, description and input schema as compact JSON."""


MOST_LETTERS = 10_000
"""Of the whole answer to `tools/list`, with titles and annotations, as compact JSON."""

AN_HOUR = 3_600_000
"""Milliseconds for which a client may keep a list."""


def seen(tool: Any) -> str:
    """Return what a client hands to a model of a tool."""
    kept = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


@ERAS
def test_core_keeps_its_size(book: Spellbook, mode: str) -> None:
    """What a model is given of core's tools and of the instructions stays within its letters and its tokens."""
    answer = talk(book, lambda agent: agent.client.list_tools(), mode)
    sizes = {tool.name: terms.estimate_tokens(seen(tool)) for tool in answer.tools}
    assert sum(sizes.values()) <= MOST_TOKENS, sizes
    whole = answer.model_dump(mode="json", exclude_none=True, by_alias=True)
    assert len(json.dumps(whole, ensure_ascii=False, separators=(",", ":"))) <= MOST_LETTERS
    assert terms.estimate_tokens(build(book, live=False).instructions or "") <= 270
    # The form of a chunk and the keys of filters are told once.
    together = "".join(map(seen, answer.tools))
    assert together.count('"organization"') == 1
    assert together.count("a path, a URL") + together.count("A path, a URL") == 1
    assert together.count("a glob") == 1


def test_lists_say_how_long_they_hold(book: Spellbook) -> None:
    """A client may keep the lists of tools, prompts, resources and templates for an hour; they change in no process."""

    async def lists(agent: Agent) -> list[Any]:
        one = agent.client
        asked = (one.list_tools, one.list_prompts, one.list_resources, one.list_resource_templates)
        return [await ask() for ask in asked]

    assert [each.ttl_ms for each in talk(book, lists, toolsets=("core", "memento"))] == [AN_HOUR] * 4


# -- asking


def erasing(
    book: Spellbook, mode: Any, action: str, really: bool, **arguments: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return what erase answers a client that can ask, and what the person was asked."""
    asked: list[str] = []

    async def ask(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=action, content={"really": really} if action == "accept" else None)

    return talk(book, lambda agent: agent.json("erase", **arguments), mode, elicitation_callback=ask), asked


@ERAS
@pytest.mark.parametrize(
    ("action", "really", "gone"),
    [("accept", True, True), ("accept", False, False), ("decline", False, False), ("cancel", False, False)],
)
@pytest.mark.parametrize("arguments", [{"topic_id": "harbour"}, {"chunk_id": "a.md", "hard": True}])
def test_the_person_is_asked_before_what_is_lost(
    book: Spellbook,
    vault: Path,
    write_note: Write,
    mode: str,
    arguments: dict[str, Any],
    action: str,
    really: bool,
    gone: bool,
) -> None:
    """Before a topic or for good, a client that can ask asks once; only yes erases."""
    write_note("a.md", "The crane lifts.\n", topic="harbour", category="knowledge")
    answer, asked = erasing(book, mode, action, really, **arguments)
    assert len(asked) == 1
    assert str(arguments.get("topic_id") or arguments["chunk_id"]) in asked[0]
    assert answer["status"] == ("erased" if gone else "kept")
    assert (vault / "a.md").exists() is not gone


@ERAS
def test_what_goes_to_the_trash_is_not_asked_about(book: Spellbook, write_note: Write, mode: str) -> None:
    """One note can be had back; nobody is asked."""
    write_note("a.md", "The crane lifts.\n")
    answer, asked = erasing(book, mode, "decline", False, chunk_id="a.md")
    assert (answer["status"], asked) == ("erased", [])
