"""The admin API: each endpoint with the figures that it promises."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from spellbook.http.guard import AccessRules
from spellbook.http.served import Served
from spellbook.index import metrics
from spellbook.library import book as books
from spellbook.library.book import Spellbook

from .running import asked


def alerts(api, **headers):
    """The alerts that there are, by id."""
    listed = api.get("/admin/alerts/performance", headers=headers).json()["alerts"]
    return {each["id"]: each for each in listed}


def test_slow_searches(api, book, write_note):
    """The alert is about warm searches, enough of them, and the list that its hint names has them first."""

    def alerted() -> bool:
        return "slow_search" in alerts(api)

    def listed() -> list[str]:
        told = api.get("/admin/stats/performance", params={"includeDetails": True}).json()["result"]
        return [each["query"] for each in told["database"]["queryPerformance"]["slowQueries"]]

    for number in range(30):
        book.meter.searched(False, f"cold {number}", 9_000.0)
    assert not alerted()
    for number in range(19):
        book.meter.searched(False, f"slow {number}", 900.0 + number, is_warm=True)
    assert not alerted()
    book.meter.searched(False, "slow 19", 919.0, is_warm=True)
    assert alerted()
    assert listed() == [f"slow {number}" for number in range(19, 9, -1)]
    for _ in range(400):
        book.meter.searched(True, "quick", 5.0, is_warm=True)
    assert not alerted()


def test_what_a_search_has_to_load_does_not_count(book, write_note):
    """The first search of a process is no warm one, nor is the first one after the model was let go."""
    write_note("a.md", "# Keys\n\nRotated every ninety days.\n")
    for verb in (book.find, book.search, book.search, book.find):
        verb("keys")
    assert len(book.meter.warm(60)) == 2
    book.release(time.monotonic())
    book.search("keys")
    assert len(book.meter.warm(60)) == 2


def test_what_is_written_and_dropped(api, book, write_note):
    """A review date stands in the note; undo takes a cleanup back; a pattern drops the queries in which it is found."""
    made = api.post("/api/notes", json={"text": "A draft of today.", "metadata": {"topic": "x", "type": "working"}})
    path = made.json()["path"]
    done = api.post("/admin/memory/review", json={"memory_id": path, "days": 0}).json()
    assert f"review: {done['review']}" in (book.config.vault / path).read_text()
    told = api.post("/admin/memory/cleanup", json={"working_days": 0}).json()
    assert told["forgotten"][0]["trash"]
    assert not (book.config.vault / path).exists()
    api.post("/api/undo", json={"entry": told["entry"]})
    assert (book.config.vault / path).exists()
    for query in ("keys", "doors", "keys"):
        api.get("/api/search", params={"q": query})
    told = api.get("/admin/stats/cache", params={"cacheType": "embedding"}).json()["result"]
    assert (told["hits"], told["misses"], told["size"]) == (1, 2, 2)
    for pattern in ("(a+)+$", "(", "(a|a)*b", r"(a)\1", "a*a*b", "x" * 201):
        assert api.post("/admin/cache/clear", json={"pattern": pattern}).status_code == 400, pattern
    cleared = api.post("/admin/cache/clear", json={"pattern": "^ke"}).json()["result"]
    assert cleared == {"clearedCount": 1, "remainingCount": 1}
    for path in ("/nowhere", "/static/none.js", "/api/a%0ab"):
        answer = api.get(path)
        assert (answer.status_code, "\n" in answer.json()["error"]["message"]) == (404, False)


def test_what_was_counted_survives_a_restart(book, vault):
    """Calls, errors and times are those of all servers of this vault."""
    with asked(Served(book)) as first:
        for query in ("keys", "doors"):
            first.get("/api/search", params={"q": query})
        first.get("/api/notes/nothing")
        first.get("/health")
        before = first.get("/admin/stats/performance").json()["result"]
    book.close()
    with (
        books.open(vault, embedder="hash") as again,
        asked(Served(again)) as second,
    ):
        after = second.get("/admin/stats/performance").json()["result"]
        assert after["search"]["totalSearches"] == before["search"]["totalSearches"] == 2
        assert after["database"]["queryPerformance"]["p95"] == before["database"]["queryPerformance"]["p95"]
        assert [each["code"] for each in second.get("/admin/stats/errors").json()["errors"]] == ["MEMORY_NOT_FOUND"]
        assert again.meter.read(1)[1]["calls"] >= 7  # health and the admin's own calls, too


def test_alerts_say_since_when(api, book, monkeypatch):
    """As long as one holds, it is the same; texts without a vector are no alert until an hour has passed."""
    (book.config.vault / "a.md").write_text("---\ntitle: [\n---\nbroken", "utf-8")
    book.reindex(words_only=True)
    first = alerts(api)
    assert "pending" not in first
    assert dt.datetime.fromisoformat(first["faults"]["since"]).timestamp() == pytest.approx(time.time(), abs=5)
    monkeypatch.setattr(Spellbook, "refresh", lambda *_, **__: None)  # which would embed the text
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3_700)
    later = alerts(api)
    assert later["faults"]["since"] == first["faults"]["since"]
    assert later["pending"]["value"] == 1


def test_what_a_caller_did_wrong_is_no_failing_call(api, book):
    """Typing errors of agents raise no alert, however many; Spellbook's own failures do, if there are enough calls."""

    def failing() -> list[str]:
        return [each["what"] for name, each in alerts(api).items() if name == "errors"]

    book.meter.count(f"{metrics.ERRORS} STORAGE_ERROR", 14)
    assert failing() == [], "of a few calls"
    book.meter.count(metrics.CALLS, 95)
    assert failing() == ["14% of the calls of the last hour failed."]
    for code in ("INVALID_INPUT", "MEMORY_NOT_FOUND", "CONFLICT", "REST_REQUIRED", "PERMISSION_DENIED"):
        book.meter.count(f"{metrics.ERRORS} {code}", 5)
    assert failing() == ["14% of the calls of the last hour failed."]


def test_alerts_are_sentences_in_both_languages(api, book, vault):
    """With their values and units in them. Of a vault that went away they say so; its disk is not looked for."""
    for name in "ab":
        (vault / f"{name}.md").write_text("---\ntitle: [\n---\nbroken", "utf-8")
    for _ in range(20):
        book.meter.searched(False, "slow", 25_500.0, is_warm=True)
    told = {}
    for language in ("en", "ko"):
        told[language] = {id: each["what"] for id, each in alerts(api, **{"accept-language": language}).items()}
    assert told["en"]["slow_search"] == "Searches are slow: 95 % took up to 25.5 s."
    assert told["ko"]["slow_search"] == "검색이 느립니다. 95%가 25.5초 안에 끝났습니다."
    assert told["en"]["faults"] == "2 notes need fixing."
    assert told["ko"]["faults"] == "고칠 노트가 2개 있습니다."
    assert told["ko"]["snapshot"] == "아직 스냅샷을 만든 적이 없습니다."
    vault.rename(vault.with_name("away"))
    assert alerts(api)["degraded"]["severity"] == "critical"


def test_a_rate_that_is_met_is_an_alert(book):
    """It is counted where requests are refused."""
    served = Served(book)
    token = served.tokens.add("me", "admin")
    served.tokens.add("watcher", "admin")
    headers = {"authorization": f"Bearer {token}"}
    with asked(served, AccessRules(is_local=False, rate=3), headers=headers) as client:
        assert [client.get("/api/recent").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    with asked(Served(book), AccessRules(is_open=True)) as client:
        assert alerts(client)["rate"]["value"] == 2


def test_optimize_that_takes_long_goes_on_as_a_job(api, monkeypatch):
    """The answer is 202 with the job."""
    monkeypatch.setattr("spellbook.http.admin.upkeep._WAIT", 0.0)
    done = api.post("/admin/database/optimize", json={"actions": ["vacuum"]})
    assert done.status_code in {200, 202}  # it may be quicker than no time at all
    if done.status_code == 202:
        job = api.app_served.jobs.wait(done.json()["job"]["id"], 30)
        assert done.headers["location"].endswith(job.id)
        assert (job.kind, job.state) == ("optimize", "done")
