"""The admin API: its figures and alerts."""

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
    """
    The alert is about warm searches, enough of them, and the list that its hint names has them first.

    The first search of a process is no warm one, nor is the first one after the model was let go.
    """

    def is_slow(*queries: str, ms: float = 900.0, is_warm: bool = True) -> bool:
        for at, query in enumerate(queries):
            book.meter.searched(False, query, ms + at, is_warm=is_warm)
        return "slow_search" in alerts(api)

    assert not is_slow(*(f"cold {number}" for number in range(30)), ms=9_000.0, is_warm=False)
    assert not is_slow(*(f"slow {number}" for number in range(19)))
    assert is_slow("slow 19", ms=919.0)
    told = api.get("/admin/stats/performance", params={"includeDetails": True}).json()["result"]
    slowest = [each["query"] for each in told["database"]["queryPerformance"]["slowQueries"]]
    assert slowest == [f"slow {number}" for number in range(19, 9, -1)]
    assert not is_slow(*["quick"] * 400, ms=5.0)
    write_note("a.md", "# Keys\n\nRotated every ninety days.\n")
    before = len(book.meter.warm(60))
    for verb in (book.find, book.search, book.search, book.find):
        verb("keys")
    book.release(time.monotonic())
    book.search("keys")
    assert len(book.meter.warm(60)) - before == 2


def test_what_was_counted_survives_a_restart(book, vault):
    """Calls, errors and times are those of all servers of this vault. A refused rate is counted, and is an alert."""
    served = Served(book)
    token = served.tokens.add("me", "admin")
    headers = {"authorization": f"Bearer {token}"}
    with asked(served, AccessRules(is_local=False, rate=4), headers=headers) as client:
        for query in ("keys", "doors"):
            client.get("/api/search", params={"q": query})
        client.get("/api/notes/nothing")
        before = client.get("/admin/stats/performance").json()["result"]
        assert [client.get("/api/recent").status_code for _ in range(2)] == [429, 429]
    book.close()
    with books.open(vault, embedder="hash") as again, asked(Served(again), AccessRules(is_open=True)) as client:
        after = client.get("/admin/stats/performance").json()["result"]
        assert after["search"]["totalSearches"] == before["search"]["totalSearches"] == 2
        assert after["database"]["queryPerformance"]["p95"] == before["database"]["queryPerformance"]["p95"]
        counted = client.get("/admin/stats/errors").json()["byCode"]
        assert counted == {"MEMORY_NOT_FOUND": 1, "RATE_LIMIT_EXCEEDED": 2}
        assert alerts(client)["rate"]["value"] == 2
        assert again.meter.read(1)[1]["calls"] >= 7  # the admin's own calls, too


def test_alerts(api, book, vault, monkeypatch):
    """
    They are sentences in both languages, with values and units, and say since when they hold.

    Texts without a vector are no alert until an hour has passed. Of a vault that went away the alerts say so.
    """
    for name in "ab":
        (vault / f"{name}.md").write_text("---\ntitle: [\n---\nbroken", "utf-8")
    book.reindex(words_only=True)
    for _ in range(20):
        book.meter.searched(False, "slow", 25_500.0, is_warm=True)
    first, korean = alerts(api), alerts(api, **{"accept-language": "ko"})
    assert "pending" not in first
    assert first["slow_search"]["what"] == "Searches are slow: 95 % took up to 25.5 s."
    assert korean["slow_search"]["what"] == "검색이 느립니다. 95%가 25.5초 안에 끝났습니다."
    assert first["faults"]["what"] == "2 notes need fixing."
    assert korean["faults"]["what"] == "고칠 노트가 2개 있습니다."
    assert korean["snapshot"]["what"] == "아직 스냅샷을 만든 적이 없습니다."
    assert dt.datetime.fromisoformat(first["faults"]["since"]).timestamp() == pytest.approx(time.time(), abs=5)
    with monkeypatch.context() as later:
        later.setattr(Spellbook, "refresh", lambda *_, **__: None)  # which would embed the texts
        now = time.time()
        later.setattr(time, "time", lambda: now + 3_700)
        shown = alerts(api)
    assert shown["faults"]["since"] == first["faults"]["since"]
    assert shown["pending"]["value"] == 1  # equal texts are one
    vault.rename(vault.with_name("away"))
    assert alerts(api)["degraded"]["severity"] == "critical"


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


def test_optimize_that_takes_long_goes_on_as_a_job(api, monkeypatch):
    """The answer is 202 with the job."""
    monkeypatch.setattr("spellbook.http.admin._WAIT", 0.0)
    done = api.post("/admin/database/optimize", json={"actions": ["vacuum"]})
    assert done.status_code in {200, 202}  # it may be quicker than no time at all
    if done.status_code == 202:
        job = api.app_served.jobs.wait(done.json()["job"]["id"], 30)
        assert done.headers["location"].endswith(job.id)
        assert (job.kind, job.state) == ("optimize", "done")
