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
    """The entry of a `scribe` names its session, in the tool, the command and in JSON; other entries name none."""

    async def conversation(agent):
        session = (await agent.json("rest"))["session_id"]
        path = (await agent.json("scribe", chunk=CHUNK, session_id=session))["path"]
        await agent.call("revise", chunk_id=path, append="And closes at ten.")
        return session, (await agent.json("log"))["entries"]

    session, entries = talk(book, conversation, toolsets=["core", "desk"])
    assert [(each["verb"], each.get("session")) for each in entries] == [("revise", None), ("scribe", session)]
    assert [each.session for each in book.log()] == ["", session]
    told = json.loads(spellbook("--vault", vault, "log", "--json").stdout)["entries"]
    assert [each.get("session") for each in told] == [None, session]
    revised, scribed = spellbook("--vault", vault, "log").stdout.splitlines()
    assert (session in revised, scribed.endswith(session)) == (False, True)


def test_a_session_survives_a_restart_and_ends_in_its_language(vault):
    """A session stays open and keeps counting; `rest_end` answers in the language that `rest` was asked for."""

    async def begin(agent):
        return [(await agent.json("rest", language=language))["session_id"] for language in ("ko", "en")]

    async def end(agent):
        await agent.json("scribe", chunk={**CHUNK, "text": "The quay is long."}, session_id=ids[0])
        return [await agent.json("rest_end", session_id=id) for id in ids]

    with books.open(vault, embedder="hash") as book:
        ids = talk(book, begin)
        talk(book, lambda agent: agent.json("scribe", chunk=CHUNK, session_id=ids[0]))
    with books.open(vault, embedder="hash") as book:
        said = talk(book, end)
    assert [(each["status"], each["scribed_count"]) for each in said] == [
        ("REST 세션이 끝났습니다. 가이드는 잊어도 됩니다.", 2),
        ("The REST session has ended; you may forget the guides.", 0),
    ]


def test_a_refusal_is_korean_where_the_person_says_so(book, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPELLBOOK_LANG decides, not the system's language: without it errors are English, as descriptions are."""
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    monkeypatch.delenv("SPELLBOOK_LANG", raising=False)
    refused = partial(talk, book, lambda agent: agent.refused("rest_end", session_id="nothing"))
    assert "is not a REST session of this vault" in refused()
    monkeypatch.setenv("SPELLBOOK_LANG", "ko")
    assert "이 보관함의 REST 세션이 아닙니다" in refused()
