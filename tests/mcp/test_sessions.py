"""The REST session of a write stands in the log, and is ended in its language."""

from __future__ import annotations

import json
from functools import partial

import pytest

from spellbook.library import book as books
from tests.commands import spellbook
from tests.mcp.agent import talk

CHUNK = {"text": "The harbour opens at six.", "metadata": {"topic": "harbour", "keywords": ["harbour"]}}


def test_a_session_is_named_by_what_it_wrote(book, vault):
    """
    The entry of a `scribe` names its session, in the tool, the command and in JSON; other entries name none. The session
    survives a restart and keeps counting.
    """

    async def conversation(agent):
        session = (await agent.json("rest"))["session_id"]
        path = (await agent.json("scribe", chunk=CHUNK, session_id=session))["path"]
        await agent.call("revise", chunk_id=path, append="And closes at ten.")
        return session, (await agent.json("log"))["entries"]

    session, entries = talk(book, conversation, toolsets=["core", "desk"])
    assert [(each["verb"], each.get("session")) for each in entries] == [("revise", None), ("scribe", session)]
    assert [each.session for each in book.log()] == ["", session]
    with books.open(vault, embedder="hash") as other:
        assert talk(other, lambda agent: agent.json("rest_end", session_id=session))["scribed_count"] == 1
    told = json.loads(spellbook("--vault", vault, "log", "--json").stdout)["entries"]
    assert [each.get("session") for each in told] == [None, session]
    revised, scribed = spellbook("--vault", vault, "log").stdout.splitlines()
    assert (session in revised, scribed.endswith(session)) == (False, True)


def test_a_refusal_is_korean_where_the_person_says_so(book, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPELLBOOK_LANG decides, not the system's language: without it errors are English, as descriptions are."""
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    monkeypatch.delenv("SPELLBOOK_LANG", raising=False)
    refused = partial(talk, book, lambda agent: agent.refused("rest_end", session_id="nothing"))
    assert "is not a REST session of this vault" in refused()
    monkeypatch.setenv("SPELLBOOK_LANG", "ko")
    assert "이 보관함의 REST 세션이 아닙니다" in refused()
