"""Memento: five tools, resources and a prompt for agents, and everything else over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from spellbook.http.served import Served
from spellbook.library.book import Spellbook
from tests.http.running import asked
from tests.mcp.agent import Agent, conversation, talk, text_of

SETS = ("memento",)


@pytest.fixture
def http(book: Spellbook) -> Iterator[TestClient]:
    """The server of the vault, asked in Korean by a program on this machine."""
    served = Served(book, ("core", "memento"))
    with asked(served, headers={"accept-language": "ko"}) as made:
        yield made


@conversation(SETS)
async def test_agents_see_five_tools(agent: Agent, book: Spellbook) -> None:
    """Tools: remember, recall, pin, unpin, forget, and nothing that administers."""
    tools = {tool.name for tool in (await agent.client.list_tools()).tools}
    assert tools == {"remember", "recall", "pin", "unpin", "forget"}


@conversation(SETS)
async def test_remember(agent: Agent, book: Spellbook) -> None:
    """remember: content alone is enough; type, importance and privacy have defaults, and the answer names what was kept."""
    kept = await agent.json("remember", content="사용자는 홍차를 좋아한다.")
    assert {"memory_id", "created_at", "type", "importance"} <= set(kept)
    assert (kept["type"], kept["importance"]) == ("episodic", 0.5)
    assert (await agent.resource(f"memory://{kept['memory_id']}"))["privacy_scope"] == "private"
    assert "INVALID_INPUT" in await agent.refused("remember", content="x", type="eternal")
    assert "INVALID_INPUT" in await agent.refused("remember", content="x", importance=2)


@conversation(SETS)
async def test_recall(agent: Agent, book: Spellbook) -> None:
    """recall: by a question, narrowed by type, tags and time, eight by default, each with its score and the reason."""
    for number in range(10):
        tags = ["tea"] if number % 2 else ["work"]
        kind = "semantic" if number % 2 else "procedural"
        await agent.json("remember", content=f"Tea note {number}: steep it {number} minutes.", type=kind, tags=tags)
    found = await agent.json("recall", query="how long to steep tea", format="json")
    assert {"items", "total_count", "query_time"} <= set(found)
    assert len(found["items"]) == 8
    wanted = {"id", "content", "type", "importance", "created_at", "last_accessed", "pinned", "score", "tags"}
    assert wanted | {"recall_reason"} <= set(found["items"][0])
    for address in ("memory://search?query=tea", "memory://search"):
        read = await agent.resource(address)
        assert wanted | {"recall_reason"} <= set(read["results"][0])
    for filters in ({"type": ["semantic"]}, {"tags": ["tea"]}, {"type": ["semantic"], "tags": ["tea"]}):
        items = (await agent.json("recall", query="tea", filters=filters, format="json"))["items"]
        assert items
        assert all(item["type"] == "semantic" and item["tags"] == ["tea"] for item in items)
    past = {"time_from": "2001-01-01", "time_to": "2001-12-31"}
    assert (await agent.json("recall", query="tea", filters=past, format="json"))["items"] == []


@conversation(SETS)
async def test_pin_unpin_and_forget(agent: Agent, book: Spellbook, vault: Path) -> None:
    """
    pin and unpin say what is so now; forget is soft by default and hard on demand, can be taken back if soft, and takes no
    note of the person's own.
    """
    kept = (await agent.json("remember", content="The lighthouse opens in May."))["memory_id"]
    for tool, pinned in (("pin", True), ("unpin", False)):
        told = await agent.json(tool, memory_id=kept)
        assert (told["success"], told["memory_id"], told["pinned"]) == (True, kept, pinned)
    told = await agent.json("forget", memory_id=kept)
    assert (told["success"], told["memory_id"]) == (True, kept)
    assert told["deleted_at"]
    assert "MEMORY_NOT_FOUND" in await agent.refused("pin", memory_id=kept)
    book.undo()
    assert (await agent.json("pin", memory_id=kept))["pinned"]
    await agent.json("forget", memory_id=kept, hard=True)
    (vault / "own.md").write_text("# Own\n\nMy note.\n")
    assert "person's own" in await agent.refused("forget", memory_id="own.md")
    assert [path.name for path in vault.rglob("*.md")] == ["own.md"]


@conversation(SETS)
async def test_resources(agent: Agent, book: Spellbook) -> None:
    """memory://{id} with its links, and memory://search with the time until which it may be kept."""
    kept = (await agent.json("remember", content="The ferry leaves at noon.", tags=["ferry"]))["memory_id"]
    read = await agent.resource(f"memory://{kept}")
    assert {"id", "content", "type", "importance", "created_at", "pinned", "tags", "privacy_scope"} <= set(read)
    assert set(read["links"]) == {"source_of", "derived_from", "duplicates", "contradicts"}
    found = await agent.resource("memory://search?query=ferry&limit=8")
    assert {"query", "results", "total_count", "query_time", "cached_at", "expires_at"} <= set(found)
    assert found["results"][0]["id"] == kept


@conversation(SETS)
async def test_the_prompt(agent: Agent, book: Spellbook) -> None:
    """memory_injection: memories for a question within a budget of tokens, with what it used."""
    await agent.json("remember", content="The ferry leaves at noon.")
    made = await agent.client.get_prompt("memory_injection", {"query": "when does the ferry leave"})
    assert "The ferry leaves at noon." in text_of(made.messages[0].content)
    assert {"memories_used", "token_count", "search_time"} <= set(made.meta or {})
    small = await agent.client.get_prompt("memory_injection", {"query": "ferry", "token_budget": "100"})
    assert (small.meta or {})["token_count"] <= 100


def remembered(book: Spellbook, content: str, **more: Any) -> str:
    async def script(agent: Agent) -> str:
        return str((await agent.json("remember", content=content, **more))["memory_id"])

    return str(talk(book, script, toolsets=SETS))


def test_memories_are_cleaned_up_over_http(book: Spellbook, http: TestClient) -> None:
    """POST /admin/memory/cleanup: old working memories go to the trash, after a preview, in the person's language."""
    remembered(book, "A scratch of today.", type="working")
    kept = remembered(book, "The lighthouse opens in May.", type="semantic")
    preview = http.post("/admin/memory/cleanup", json={"dry_run": True, "working_days": 0}).json()
    assert len(preview["forgotten"]) == 1
    done = http.post("/admin/memory/cleanup", json={"working_days": 0}).json()
    assert done["message"] == "메모리 정리 완료"
    assert http.get("/admin/stats/forgetting").json()["trash"]["files"] == 1
    assert http.get(f"/api/notes/{kept}").status_code == 200


def test_reviews_are_planned_over_http(book: Spellbook, http: TestClient) -> None:
    """POST /admin/memory/review sets a date in the memory; what is due is listed."""
    kept = remembered(book, "The lighthouse opens in May.")
    http.post("/admin/memory/review", json={"memory_id": kept, "days": 0})
    (due,) = http.get("/admin/memory/reviews?due=true").json()["reviews"]
    assert due["id"] == kept


def test_performance_over_http(book: Spellbook, http: TestClient) -> None:
    """GET /admin/stats/performance: database, searches, memory and system, for a range of time; no query's text."""
    remembered(book, "The lighthouse opens in May.", type="semantic")
    http.get("/api/search", params={"q": "lighthouse"})
    for hours in ("1h", "24h", "7d", "30d"):
        told = http.get("/admin/stats/performance", params={"timeRange": hours}).json()
        result = told["result"]
        assert told["success"]
        assert result["database"]["totalMemories"] == 1
        assert result["database"]["memoryByType"]["semantic"] == 1
        assert result["search"]["totalSearches"] == 1
        assert result["database"]["queryPerformance"]["slowQueries"] == []
        assert result["memory"]["rss"] > 0
        assert result["system"]["uptime"] >= 0
    assert http.get("/admin/stats/performance", params={"timeRange": "1y"}).status_code == 400


def test_alerts_and_errors_over_http(book: Spellbook, http: TestClient) -> None:
    """GET /admin/alerts/performance has a next step each; errors are counted, and resolved with a reason."""
    alerts = http.get("/admin/alerts/performance").json()["alerts"]
    assert {"id", "severity", "what", "value", "threshold", "hint"} <= set(alerts[0])
    assert http.get("/api/notes/nothing").status_code == 404
    errors = http.get("/admin/stats/errors").json()
    assert errors["byCode"] == {"MEMORY_NOT_FOUND": 1}
    done = http.post(
        "/admin/errors/resolve",
        json={"errorId": errors["errors"][0]["errorId"], "resolvedBy": "admin", "reason": "a typo"},
    ).json()
    assert done["message"] == "에러 해결 완료"
    assert http.get("/admin/stats/errors").json()["total"] == 0


def test_caches_and_the_database_over_http(book: Spellbook, http: TestClient) -> None:
    """GET /admin/stats/cache, POST /admin/cache/clear and POST /admin/database/optimize answer with their figures."""
    remembered(book, "The lighthouse opens in May.")
    for _ in range(2):
        http.get("/api/search", params={"q": "lighthouse"})
    stats = http.get("/admin/stats/cache", params={"cacheType": "all"}).json()["result"]
    assert {"hits", "misses", "totalRequests", "hitRate", "size", "memoryUsage"} <= set(stats)
    assert http.post("/admin/cache/clear", json={"cacheType": "all"}).json()["result"]["remainingCount"] == 0
    for letters, status in ((200, 200), (201, 400)):
        assert http.post("/admin/cache/clear", json={"pattern": "x" * letters}).status_code == status
    done = http.post("/admin/database/optimize", json={"actions": ["analyze", "index", "vacuum"]}).json()["result"]
    assert {"analyzedQueries", "createdIndexes", "optimizedTables", "recommendations"} <= set(done)


def test_errors_have_one_form(http: TestClient) -> None:
    """오류 형식: code, message, details and timestamp; the API's version stands in every answer."""
    answer = http.get("/api/notes/nothing")
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "details", "timestamp"}
    assert (answer.status_code, error["code"]) == (404, "MEMORY_NOT_FOUND")
    assert answer.headers["x-spellbook-api"] == "v1.0.0"
    assert http.get("/api/search", params={"q": "x", "limit": 1_000}).json()["error"]["code"] == "INVALID_INPUT"
