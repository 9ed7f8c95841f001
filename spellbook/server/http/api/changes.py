"""Routes that change the vault as a whole, or list its changes: log, undo, restore, move, merge, articles, jobs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from spellbook.config import model_path
from spellbook.errors import InvalidInput, MemoryNotFound
from spellbook.server import jobs
from spellbook.server.http.api import answers, events, notes
from spellbook.server.http.endpoints import Call, Endpoint, Given, Reply

Name = Annotated[str, Field(min_length=1, max_length=4_000)]


class Listing(Given):
    """Which entries."""

    limit: Annotated[int, Field(ge=1, le=200)] = 20
    path: Annotated[str, Field(max_length=4_000, description="Only changes of this note.")] = ""


class Erased(Given):
    """A path in .trash, or the id, path or topic that was erased."""

    name: Name


class Undo(Given):
    """An entry of the log; without one, the latest."""

    entry: Annotated[int | None, Field(ge=1, le=2**53)] = None
    dry_run: bool = False


class Move(Given):
    """A note or a folder, and its new path. Only previews the change unless `dry_run` is false."""

    old: Name
    new: Name
    dry_run: bool = True


class Merge(Given):
    """Two similar notes. Only previews the change unless `dry_run` is false."""

    a: Name
    b: Name
    keep: Literal["", "a", "b", "both"] = ""
    dry_run: bool = True


class ArticleList(Given):
    """Which articles."""

    category: Annotated[str, Field(max_length=200)] = ""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0


class Article(Given):
    """An address, or text and where it is from, and what it is filed under, as the tool save takes it."""

    source: Annotated[str, Field(min_length=1, max_length=2_000)]
    categories: Annotated[list[Annotated[str, Field(min_length=1, max_length=60)]], Field(min_length=1, max_length=10)]
    metadata: notes.Metadata | None = None
    text: Annotated[str, Field(max_length=notes.MOST_TEXT)] = ""
    force: bool = False


class Outcome(Given):
    """How a decision turned out."""

    outcome: Literal["success", "partial", "failed"]
    reason: Annotated[str, Field(max_length=20_000)] = ""


class Migrate(Given):
    """The embedder to switch to, as `spellbook migrate` takes it."""

    to: Annotated[str, Field(min_length=1, max_length=500)]


class Import(Given):
    """A file of the folder for exports beside the snapshots, by its name, and what becomes of notes that differ."""

    file: Name
    on_conflict: Literal["skip", "overwrite", "rename"] = "skip"


class Reindex(Given):
    """Whether to read every note again."""

    full: bool = False


def log(call: Call, asked: Listing) -> dict[str, Any]:
    """The changes that tools and commands made, newest first."""
    lost = call.book.index.vault.journal.lost
    return {"entries": notes.entries(call.book, asked.limit, asked.path), **({"warning": lost} if lost else {})}


def restore(call: Call, given: Erased) -> dict[str, Any]:
    """Restore erased notes or sections from the trash."""
    paths = list(call.book.restore(given.name))
    return {"status": "restored", "paths": paths, "generation": call.book.state().generation}


def undo(call: Call, given: Undo) -> dict[str, Any]:
    """Undo the latest change or one entry of the log; undoing an undo redoes. 409 if the place was edited since."""
    done = call.book.undo(given.entry, dry_run=given.dry_run)
    entry = {"entry": done.entry.id, "verb": done.entry.verb, "what": done.entry.what}
    changed = {"paths": list(done.paths), "difference": done.difference, "generation": done.generation}
    return {**entry, **changed, "dry_run": given.dry_run}


def move(call: Call, given: Move) -> dict[str, Any]:
    """Move a note or a folder, and update every link to it and in it."""
    return {**asdict(call.book.move(given.old, given.new, dry_run=given.dry_run)), "dry_run": given.dry_run}


def merge(call: Call, given: Merge) -> dict[str, Any]:
    """Merge two similar notes without losing a sentence; the other note goes to the trash."""
    done = call.book.merge(given.a, given.b, keep=given.keep, apply=not given.dry_run)
    return {**asdict(done), "dry_run": given.dry_run}


def articles(call: Call, asked: ArticleList) -> dict[str, Any]:
    """Articles, newest first, and the categories of all of them."""
    from spellbook.server.articles import listed

    return listed(call.book, asked.category, asked.limit, asked.offset)


def save(call: Call, given: Article) -> dict[str, Any]:
    """Save a web page, a PDF or given text as an article."""
    article = (given.source, given.categories, given.metadata, given.text)
    return call.book.memories.articles.save(*article, files=False, force=given.force)


def outcome(call: Call, given: Outcome) -> dict[str, Any]:
    """Record how a decision turned out."""
    return call.book.memories.decisions.update(call.id, given.outcome, given.reason)


def snapshots(call: Call, _: Given) -> dict[str, Any]:
    """The snapshots of the vault, newest first."""
    kept = call.book.snapshots
    return {"folder": str(kept.folder), "snapshots": [each.as_dict() for each in kept.all()]}


def snapshot(call: Call, _: Given) -> Reply:
    """Take a snapshot, as a job."""
    return _begun(call, "snapshot", jobs.snapshotting(call.book))


def reindex(call: Call, given: Reindex) -> Reply:
    """Update the index, as a job."""
    return _begun(call, "reindex", jobs.reindexing(call.book, full=given.full))


def check(call: Call, _: Given) -> Reply:
    """Ask every note its own questions and compare all texts, as a job."""
    return _begun(call, "check", jobs.checking(call.book))


def migrate(call: Call, given: Migrate) -> Reply:
    """Switch to another embedder, as a job; search goes on meanwhile."""
    if model_path(given.to):
        raise InvalidInput("Over HTTP no folder of a model is named.", "Run `spellbook migrate` where it is.")
    call.book.estimate(given.to)  # raises for an embedder that this vault cannot use
    return _begun(call, "migrate", jobs.migrating(call.book, given.to))


def import_(call: Call, given: Import) -> Reply:
    """Import a file that export wrote, as a job: all of it, or nothing."""
    from spellbook.server.toolsets import backup

    file = backup.within(backup.exports(call.book), given.file)
    return _begun(call, "import", jobs.importing(call.book, file, given.on_conflict))


def checked(call: Call, _: Given) -> dict[str, Any]:
    """The last check that was done, its result and its time."""
    if (job := call.served.jobs.last("check")) is None:
        raise MemoryNotFound("No check was done yet.", "POST /api/check starts one.")
    return events.shown(job, call.caller)


def _begun(call: Call, kind: str, work: jobs.Work) -> Reply:
    job = call.served.jobs.start(kind, work)
    return Reply({"job": events.shown(job, call.caller)}, 202, {"Location": f"/api/jobs/{job.id}"})


ENDPOINTS = (
    Endpoint("POST", "/api/restore", restore, {200: answers.Restored}, Erased, "write", needs="vault"),
    Endpoint("POST", "/api/undo", undo, {200: answers.Undone}, Undo, "write", needs="vault"),
    Endpoint("POST", "/api/move", move, {200: answers.Moved}, Move, "write", needs="vault"),
    Endpoint("POST", "/api/merge", merge, {200: answers.Merged}, Merge, "write", needs="vault"),
    Endpoint("GET", "/api/log", log, {200: answers.Log}, Listing, needs="files"),
    Endpoint("GET", "/api/articles", articles, {200: answers.Articles}, ArticleList),
    Endpoint("POST", "/api/articles", save, {201: answers.Saved}, Article, "write", waits=True, needs="vault"),
    Endpoint("POST", "/api/decisions/{id}/outcome", outcome, {200: answers.Outcome}, Outcome, "write", needs="vault"),
    Endpoint("GET", "/api/snapshots", snapshots, {200: answers.Snapshots}, needs="files"),
    Endpoint("POST", "/api/snapshots", snapshot, {202: answers.Begun}, right="write", needs="files"),
    Endpoint("POST", "/api/reindex", reindex, {202: answers.Begun}, Reindex, "write", needs="files"),
    Endpoint("POST", "/api/migrate", migrate, {202: answers.Begun}, Migrate, "admin", needs="files"),
    Endpoint("POST", "/api/import", import_, {202: answers.Begun}, Import, "admin", needs="files"),
    Endpoint("POST", "/api/check", check, {202: answers.Begun}, right="write", needs="files"),
    Endpoint("GET", "/api/check", checked, {200: answers.Job}, needs="files"),
)
