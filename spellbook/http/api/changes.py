"""Routes that change the vault as a whole, list its changes, or show and cancel long work."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from spellbook.http.endpoints import Call, Endpoint, Reply
from spellbook.http.jobs import Job, Work
from spellbook.mcp.toolsets import desk
from spellbook.mcp.toolsets.articles import listed
from spellbook.system.errors import MemoryNotFound
from spellbook.verbs import memories, table
from spellbook.verbs.declare import verb


def log(call: Call, limit: int, path: str) -> dict[str, Any]:
    """The changes that tools and commands made, newest first."""
    lost = call.book.index.vault.journal.lost
    return {"entries": [each.as_dict() for each in call.book.log(limit, path)], **({"warning": lost} if lost else {})}


def restore(call: Call, name: str) -> dict[str, Any]:
    """Restore erased notes or sections from the trash."""
    return {
        "status": "restored",
        "paths": list(call.book.whole.restore(name)),
        "generation": call.book.state().generation,
    }


def undo(call: Call, entry: int | None, dry_run: bool) -> dict[str, Any]:
    """Undo the latest change or one entry of the log; undoing an undo redoes. 409 if the place was edited since."""
    done = call.book.whole.undo(entry, dry_run=dry_run)
    return {
        "entry": done.entry.id,
        "verb": done.entry.verb,
        "what": done.entry.what,
        "paths": list(done.paths),
        "difference": done.difference,
        "generation": done.generation,
        "dry_run": dry_run,
    }


def move(call: Call, old: str, new: str, dry_run: bool) -> dict[str, Any]:
    """Move a note or a folder, and update every link to it and in it."""
    return {**asdict(call.book.whole.move(old, new, dry_run=dry_run)), "dry_run": dry_run}


def mend_links(call: Call, dry_run: bool) -> dict[str, Any]:
    """Repair broken links to files that were moved."""
    done = call.book.whole.mend_links(dry_run=dry_run)
    return {
        "links": sum(note.links for note in done.changed),
        "changed": [asdict(note) for note in done.changed],
        "left": [asdict(fault) for fault in done.left],
        "generation": done.generation,
        "dry_run": dry_run,
    }


def merge(call: Call, a: str, b: str, keep: Any, dry_run: bool) -> dict[str, Any]:
    """Merge two similar notes without losing a sentence; the other note goes to the trash."""
    return {**asdict(call.book.whole.merge(a, b, keep=keep, apply=not dry_run)), "dry_run": dry_run}


def articles(call: Call, **page: Any) -> dict[str, Any]:
    """Articles, newest first, and the categories of all of them."""
    return listed(call.book, **page)


def save(call: Call, **article: Any) -> dict[str, Any]:
    """Save a web page, a PDF or given text as an article."""
    return call.book.memories.articles.save(**article, files=False)


def outcome(call: Call, **fields: Any) -> dict[str, Any]:
    """Record how a decision turned out."""
    return call.book.memories.decisions.update(call.id, **fields)


def snapshots(call: Call) -> dict[str, Any]:
    """The snapshots of the vault, newest first."""
    kept = call.book.snapshots
    folder = {} if call.caller.is_limited else {"folder": str(kept.folder)}
    return {**folder, "snapshots": [each.as_dict() for each in kept.all()]}


def snapshot(call: Call) -> Reply:
    """Take a snapshot, as a job."""
    # Cancelled, none is listed; the contents that it has stored serve the next one.
    return _start(call, "snapshot", lambda report: call.book.whole.snapshots.create(report).as_dict())


def reindex(call: Call, full: bool) -> Reply:
    """Update the index, as a job."""
    # Cancelled, it keeps what was read and embedded by then.
    return _start(call, "reindex", lambda report: call.book.whole.reindex(full=full, progress=report).as_dict())


def check(call: Call) -> Reply:
    """Compare all texts with each other, as a job: duplicates and contradictions."""
    return _start(call, "check", lambda report: asdict(call.book.whole.check(progress=report)))


def migrate(call: Call, to: str) -> Reply:
    """Switch to another embedder, as a job; search goes on meanwhile."""
    book = call.book.whole
    book.estimate(to)  # raises for an embedder that this vault cannot use
    # Cancelled, the next call goes on.
    return _start(call, "migrate", lambda report: asdict(book.migrate(to, progress=report)))


def import_(call: Call, file: str, on_conflict: str) -> Reply:
    """Import a file that export wrote, as a job: all of it, or nothing."""
    place = desk.within(desk.exports(call.book), file)
    book = call.book.whole
    # Cancelled, it has imported nothing.
    return _start(
        call, "import", lambda report: book.import_(place, on_conflict=on_conflict, progress=report).as_dict()
    )


def checked(call: Call) -> dict[str, Any]:
    """The last check that was done, its result and its time."""
    if (job := call.jobs.last("check")) is None:
        raise MemoryNotFound("No check was done yet.", "POST /api/check starts one.")
    return job.as_dict()


def _start(call: Call, kind: str, work: Work) -> Reply:
    """Start a job, and answer that it was started."""
    return begun(call, call.served.jobs.start(kind, work))


def begun(call: Call, job: Job) -> Reply:
    """Return the answer to a request whose job still runs."""
    return Reply({"job": job.as_dict()}, 202, {"Location": f"/api/jobs/{job.id}"})


def jobs(call: Call) -> dict[str, Any]:
    """The running job and those that ended last, newest first, without their results."""
    return {"jobs": [replace(each, result=None).as_dict() for each in call.jobs.all()]}


def job(call: Call) -> dict[str, Any]:
    """One job."""
    return call.jobs.job(call.id).as_dict()


def cancel(call: Call) -> Reply:
    """Ask a job to stop. 202 while it still runs, 200 once it has ended."""
    asked = call.jobs.cancel(call.id)
    return Reply(asked.as_dict(), 202 if asked.state == "running" else 200)


ENDPOINTS = (
    Endpoint("POST", "/api/restore", restore, table.RESTORE),
    Endpoint("POST", "/api/undo", undo, table.UNDO),
    Endpoint("POST", "/api/move", move, table.MOVE),
    Endpoint("POST", "/api/links/mend", mend_links, table.MEND_LINKS),
    Endpoint("POST", "/api/merge", merge, table.MERGE),
    Endpoint("GET", "/api/log", log, table.LOG),
    Endpoint("GET", "/api/articles", articles, memories.LIST_ARTICLES.without("format")),
    Endpoint("POST", "/api/articles", save, memories.SAVE, (201,), waits=True),
    Endpoint("POST", "/api/decisions/{id}/outcome", outcome, memories.RECORD_OUTCOME),
    Endpoint("GET", "/api/snapshots", snapshots, table.SNAPSHOTS),
    Endpoint("POST", "/api/snapshots", snapshot, table.SNAPSHOT, (202,)),
    Endpoint("POST", "/api/reindex", reindex, table.REINDEX, (202,)),
    Endpoint("POST", "/api/migrate", migrate, table.MIGRATE, (202,)),
    Endpoint("POST", "/api/import", import_, table.IMPORT, (202,), {"file": "source"}),
    Endpoint("POST", "/api/check", check, table.CHECK, (202,)),
    Endpoint("GET", "/api/check", checked, table.CHECKED),
    Endpoint("GET", "/api/jobs", jobs, verb("jobs")),
    Endpoint("GET", "/api/jobs/{id}", job, verb("job")),
    Endpoint("DELETE", "/api/jobs/{id}", cancel, verb("cancel", "write"), (200, 202)),
)
