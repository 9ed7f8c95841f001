"""Routes of long work: list the jobs, show one, cancel one."""

from __future__ import annotations

from typing import Any

from spellbook.http.callers import Caller
from spellbook.http.endpoints import Call, Endpoint, Reply
from spellbook.http.jobs import Job
from spellbook.verbs.declare import verb


def shown(job: Job, who: Caller) -> dict[str, Any]:
    """Return a job as JSON. The rest tells of notes that a limited caller may not see."""
    return {"id": job.id, "kind": job.kind, "state": job.state} if who.is_limited else job.as_dict()


def jobs(call: Call) -> dict[str, Any]:
    """The running job and those that ended last, newest first, without their results."""
    rows = [shown(each, call.caller) for each in call.served.jobs.all()]
    return {"jobs": [{key: value for key, value in row.items() if key != "result"} for row in rows]}


def job(call: Call) -> dict[str, Any]:
    """One job."""
    return shown(call.served.jobs.job(call.id), call.caller)


def cancel(call: Call) -> Reply:
    """Ask a job to stop. 202 while it still runs, 200 once it has ended."""
    job = call.served.jobs.cancel(call.id)
    return Reply(shown(job, call.caller), 202 if job.state == "running" else 200)


ENDPOINTS = (
    Endpoint("GET", "/api/jobs", jobs, verb("jobs")),
    Endpoint("GET", "/api/jobs/{id}", job, verb("job")),
    Endpoint("DELETE", "/api/jobs/{id}", cancel, verb("cancel", "write"), (200, 202)),
)
