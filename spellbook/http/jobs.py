"""Long work: one job at a time, in a thread, which reports progress, can be cancelled and outlives its page."""

from __future__ import annotations

import datetime as dt
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from spellbook.http.faults import unforeseen
from spellbook.index.opened import Progress
from spellbook.system.errors import Conflict, MemoryNotFound, SpellbookError

State = Literal["running", "done", "failed", "cancelled"]
Work = Callable[[Progress], Any]
"""Does a job: is given the function that it reports its progress to, and returns a result that JSON can hold."""

_ENDED = 20
"""Ended jobs that can still be asked for."""


class Cancelled(BaseException):
    """The job was cancelled. Like KeyboardInterrupt it is no Exception, so that no verb takes it for a failure."""


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of long work: `done` of `total` of a `stage`; `ended` None while it runs; `error` of a failed one."""

    id: str
    kind: str
    started: dt.datetime
    state: State = "running"
    stage: str = ""
    done: int = 0
    total: int = 0
    result: Any = None
    error: dict[str, str] | None = None
    ended: dt.datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the job as JSON: times in ISO 8601, `result` and `error` only where there is one."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {
            name: value.isoformat(timespec="seconds") if isinstance(value, dt.datetime) else value
            for name, value in values
            if value is not None
        }


class Jobs:
    """The jobs of one process; verbs lock against other processes. `failed` gets kind and error of each failed job."""

    def __init__(self, failed: Callable[[str, BaseException], None] = lambda kind, error: None) -> None:
        self._failed = failed
        self._guard = threading.Lock()
        self._jobs: dict[str, Job] = {}  # only the last one may be running
        self._thread: threading.Thread | None = None
        self._cancel = threading.Event()

    def start(self, kind: str, work: Work) -> Job:
        """Begin a job; its progress function raises Cancelled, which `work` must let through. Raises Conflict."""
        with self._guard:
            if other := next((job for job in self._jobs.values() if job.state == "running"), None):
                raise Conflict(
                    f"Another job is running: {other.kind} (job {other.id}).", "Wait until it has ended, or cancel it."
                )
            job = Job(secrets.token_hex(4), kind, dt.datetime.now(dt.UTC))
            for old in list(self._jobs)[: 1 - _ENDED]:
                del self._jobs[old]
            self._cancel.clear()
            self._jobs[job.id] = job
            self._thread = threading.Thread(target=self._run, args=(job, work), name="spellbook-job", daemon=True)
            self._thread.start()
        return job

    def all(self) -> list[Job]:
        """Return the running job and those that ended last, newest first."""
        return list(self._jobs.values())[::-1]

    def job(self, id: str) -> Job:
        """Return a job. Raises MemoryNotFound for an unknown id, or one that ended long ago."""
        if (job := self._jobs.get(id)) is None:
            raise MemoryNotFound(f"There is no job {id[:40]!r}.", f"The last {_ENDED} can be asked for: GET /api/jobs.")
        return job

    def last(self, kind: str) -> Job | None:
        """Return the job of this kind that was done last, None if there is none."""
        return next((job for job in self.all() if job.kind == kind and job.state == "done"), None)

    def cancel(self, id: str) -> Job:
        """Ask a running job to stop at its next report, and return it as it is now. Raises MemoryNotFound."""
        with self._guard:
            job = self.job(id)
            if job.state == "running":
                self._cancel.set()
        return job

    def wait(self, id: str, within: float) -> Job:
        """Wait at most `within` seconds until a job has ended, and return it as it is then. Raises MemoryNotFound."""
        thread = self._thread
        if self.job(id).state == "running" and thread is not None:
            thread.join(within)
        return self.job(id)

    def close(self, within: float = 1.0) -> None:
        """Cancel the running job, and wait at most `within` seconds for it."""
        self._cancel.set()
        if self._thread is not None:
            self._thread.join(within)

    def _run(self, job: Job, work: Work) -> None:
        def report(stage: str, done: int, total: int) -> None:
            if self._cancel.is_set():
                raise Cancelled
            self._jobs[job.id] = replace(self._jobs[job.id], stage=stage, done=done, total=total)

        ended: dict[str, Any]
        try:
            report("", 0, 0)
            ended = {"state": "done", "result": work(report)}
        except Cancelled:
            ended = {"state": "cancelled"}
        except Exception as failure:
            self._failed(job.kind, failure)
            error = failure if isinstance(failure, SpellbookError) else unforeseen(failure, f"The job {job.kind}")
            ended = {"state": "failed", "error": {"code": error.code, "message": error.message, "hint": error.hint}}
        self._jobs[job.id] = replace(self._jobs[job.id], ended=dt.datetime.now(dt.UTC), **ended)
