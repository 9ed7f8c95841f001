"""Routes of long work: list the jobs, show one, cancel one."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.http.callers import Caller
from spellbook.http.jobs import Job
from spellbook.http.served import caller_of, served_of
from spellbook.text.quoting import json_of


def shown(job: Job, who: Caller) -> dict[str, Any]:
    """Return a job as JSON. The rest tells of notes that a limited caller may not see."""
    return {"id": job.id, "kind": job.kind, "state": job.state} if who.is_limited else job.as_dict()


async def jobs(request: Request) -> Response:
    """GET: the running job and those that ended last, newest first, without their results."""
    who = caller_of(request)
    who.require("read")
    rows = [shown(each, who) for each in served_of(request).jobs.all()]
    return _json({"jobs": [{key: value for key, value in row.items() if key != "result"} for row in rows]})


async def job(request: Request) -> Response:
    """GET: one job."""
    who = caller_of(request)
    who.require("read")
    return _json(shown(served_of(request).jobs.job(request.path_params["id"]), who))


async def cancel(request: Request) -> Response:
    """DELETE: ask a job to stop. 202 while it still runs, 200 once it has ended."""
    who = caller_of(request)
    who.require("write")
    job = served_of(request).jobs.cancel(request.path_params["id"])
    return _json(shown(job, who), 202 if job.state == "running" else 200)


def _json(value: object, status: int = 200) -> Response:
    return Response(json_of(value), status, media_type="application/json")


ROUTES = [
    Route("/api/jobs", jobs),
    Route("/api/jobs/{id}", job),
    Route("/api/jobs/{id}", cancel, methods=["DELETE"]),
]
