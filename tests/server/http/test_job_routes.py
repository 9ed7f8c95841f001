"""The routes of jobs, against the app itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from spellbook.library.book import Spellbook
from spellbook.server import jobs as work
from spellbook.server.http.served import Served
from spellbook.system.errors import InvalidInput
from tests.helpers import PATIENCE

from .running import asked


@pytest.fixture
def served(book: Spellbook) -> Iterator[Served]:
    """A served book."""
    made = Served(book)
    yield made
    made.jobs.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a job waits for."""
    made = threading.Event()
    yield made
    made.set()


def waiting(gate: threading.Event) -> work.Work:
    """Work that reports, waits, and reports again."""

    def run(report: Callable[[str, int, int], None]) -> dict[str, str]:
        report("reading", 1, 2)
        assert gate.wait(PATIENCE)
        report("reading", 2, 2)
        return {"path": "secret.md"}

    return run


def ended(served: Served) -> None:
    """Wait until no job runs."""
    if running := served.jobs.running:
        assert served.jobs.wait(running.id, 10).state != "running"


def test_jobs_are_asked_for_and_cancelled(served: Served, gate: threading.Event) -> None:
    """A job is listed, shown with its result, and cancelled once; unknown ids are 404."""
    client = asked(served)
    assert client.get("/api/jobs").json() == {"jobs": []}
    job = served.jobs.start("reindex", waiting(gate))
    shown = client.get(f"/api/jobs/{job.id}").json()
    assert (shown["kind"], shown["state"], "result" in shown, "error" in shown) == ("reindex", "running", False, False)
    gate.set()
    ended(served)
    shown = client.get(f"/api/jobs/{job.id}").json()
    assert (shown["state"], shown["stage"], shown["done"], shown["total"]) == ("done", "reading", 2, 2)
    assert shown["result"] == {"path": "secret.md"}
    (listed,) = client.get("/api/jobs").json()["jobs"]
    assert listed == {key: value for key, value in shown.items() if key != "result"}
    assert client.delete(f"/api/jobs/{job.id}").json() == shown
    missing = client.get("/api/jobs/x")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "MEMORY_NOT_FOUND")

    gate.clear()
    job = served.jobs.start("check", waiting(gate))
    told = client.delete(f"/api/jobs/{job.id}")
    assert (told.status_code, told.json()["state"]) == (202, "running")
    gate.set()
    ended(served)
    assert client.delete(f"/api/jobs/{job.id}").json()["state"] == "cancelled"


def test_rights(served: Served, gate: threading.Event) -> None:
    """A token that only reads cancels nothing, and one that sees less learns the kind and state alone."""
    client = asked(served)
    client.headers["authorization"] = f"Bearer {served.tokens.add('ann', 'read', 'team')}"
    job = served.jobs.start("check", waiting(gate))
    assert client.get(f"/api/jobs/{job.id}").json() == {"id": job.id, "kind": "check", "state": "running"}
    refused = client.delete(f"/api/jobs/{job.id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    gate.set()
    ended(served)
    assert served.jobs.job(job.id).state == "done"

    def fails(report: object) -> None:
        raise InvalidInput("secret.md: no.", "secret")

    failed = served.jobs.start("import", fails)
    ended(served)
    assert client.get(f"/api/jobs/{failed.id}").json() == {"id": failed.id, "kind": "import", "state": "failed"}
    for path in (job.id, failed.id, ""):
        answer = client.get(f"/api/jobs/{path}".rstrip("/"))
        assert answer.status_code == 200
        assert "secret" not in answer.text
