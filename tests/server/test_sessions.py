"""The REST session of a write stands in the log, and is ended in its language."""

from __future__ import annotations

import json

from spellbook.library import book as books
from tests.commands import spellbook
from tests.server.agent import talk

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


def test_a_session_ends_in_its_language(book):
    """`rest_end` answers in the language that `rest` was asked for, also from another process."""

    async def conversation(agent):
        return [(await agent.json("rest", language=language))["session_id"] for language in ("ko", "en")]

    ids = talk(book, conversation)
    with books.open(book.config.vault, embedder="hash") as other:
        said = [talk(other, lambda agent, id=id: agent.json("rest_end", session_id=id))["status"] for id in ids]
    assert said == [
        "REST 세션이 끝났습니다. 가이드는 잊어도 됩니다.",
        "The REST session has ended; you may forget the guides.",
    ]
