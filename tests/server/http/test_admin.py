"""The admin API: each endpoint with the figures that it promises."""

from __future__ import annotations

import pytest


def test_figures(api, book, write_note):
    write_note("a.md", "---\ntype: working\npinned: true\n---\n# Keys\n\nRotated every ninety days.\n")
    api.get("/api/search", params={"q": "keys"})
    told = api.get("/admin/stats/performance", params={"includeDetails": True}).json()["result"]
    assert told["database"]["memoryByType"] == {"working": 1, "none": 0}
    assert told["search"]["totalSearches"] == 1
    assert told["database"]["queryPerformance"]["slowQueries"][0]["query"] == "keys"
    hidden = api.get("/admin/stats/performance").json()["result"]
    assert hidden["database"]["queryPerformance"]["slowQueries"] == []
    told = api.get("/admin/stats/forgetting").json()
    assert (told["working"], told["pinned"]) == (1, 1)


def test_errors_are_resolved(api):
    api.get("/api/notes/nothing")
    (error,) = api.get("/admin/stats/errors").json()["errors"]
    body = {"errorId": error["errorId"], "resolvedBy": "admin", "reason": "fixed"}
    done = api.post("/admin/errors/resolve", json=body, headers={"accept-language": "ko-KR,ko;q=0.9,en;q=0.5"})
    assert done.json()["message"] == "에러 해결 완료"
    assert api.post("/admin/errors/resolve", json=body).status_code == 404
    assert api.get("/admin/stats/errors", params={"resolved": True}).json()["errors"][0]["resolvedBy"] == "admin"
    api.get("/api/notes/nothing")
    again = [each for each in api.get("/admin/stats/errors").json()["errors"] if each["verb"] == "note"]
    assert [each["count"] for each in again] == [1]


def test_cleanup_reviews_alerts(api, book):
    made = api.post("/api/notes", json={"text": "A draft of today.", "metadata": {"topic": "x", "type": "working"}})
    path = made.json()["path"]
    assert api.post("/admin/memory/cleanup", json={"dry_run": True, "working_days": 0}).json()["forgotten"]
    done = api.post("/admin/memory/review", json={"memory_id": path, "days": 0}).json()
    assert f"review: {done['review']}" in (book.config.vault / path).read_text()
    assert [each["path"] for each in api.get("/admin/memory/reviews?due=true").json()["reviews"]] == [path]
    told = api.post("/admin/memory/cleanup", json={"working_days": 0}).json()
    assert told["forgotten"][0]["trash"]
    assert not (book.config.vault / path).exists()
    api.post("/api/undo", json={"entry": told["entry"]})
    assert (book.config.vault / path).exists()
    assert "snapshot" in {each["id"] for each in api.get("/admin/alerts/performance").json()["alerts"]}


def test_optimize_and_caches(api, book, write_note):
    write_note("a.md", "# Keys\n\nRotated every ninety days.\n")
    for query in ("keys", "doors", "keys"):
        api.get("/api/search", params={"q": query})
    told = api.get("/admin/stats/cache", params={"cacheType": "embedding"}).json()["result"]
    assert (told["hits"], told["misses"], told["size"]) == (1, 2, 2)
    cleared = api.post("/admin/cache/clear", json={"pattern": "^ke"}).json()["result"]
    assert cleared == {"clearedCount": 1, "remainingCount": 1}
    done = api.post("/admin/database/optimize", json={"actions": ["all"]})
    assert done.status_code == 200
    assert done.json()["optimizedTables"] > 3


@pytest.mark.parametrize("pattern", ["(a+)+$", "(", "(a|a)*b", r"(a)\1", "a*a*b", "x" * 201])
def test_patterns_that_are_refused(api, pattern):
    assert api.post("/admin/cache/clear", json={"pattern": pattern}).status_code == 400
