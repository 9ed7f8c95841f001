"""The shapes of the API's answers, as its OpenAPI document describes them. Answers may have more keys than these."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

Rows = list[dict[str, Any]]


class ErrorBody(TypedDict):
    code: str
    message: str
    details: dict[str, Any]
    timestamp: str


class Error(TypedDict):
    error: ErrorBody


class State(TypedDict):
    generation: int
    notes: int
    chunks: int
    pending: int
    degraded: bool
    reason: NotRequired[str]


class Found(TypedDict):
    query: str
    hits: Rows
    found: int
    ms: float
    index: State
    closest: NotRequired[Rows]
    unmatched: NotRequired[Rows]


class Why(TypedDict):
    query: str
    mode: str
    words: Rows
    known: float | None
    candidates: int
    rows: Rows
    index: State
    when: str


class History(TypedDict):
    id: str
    path: str
    versions: Rows
    not_read: list[str]


class Listed(TypedDict):
    notes: Rows
    total: int


class Category(TypedDict):
    id: str
    name: str
    description: str
    topic_count: int
    topics: Rows


class Contents(TypedDict):
    categories: list[Category]
    total_topics: int
    total_chunks: int
    last_updated: str | None


class Topic(TypedDict):
    topic: str
    chunks: Rows
    backlinks: Rows
    left_out: NotRequired[Rows]
    left_out_count: NotRequired[int]


class Clients(TypedDict):
    mcp: int
    events: int


class Status(TypedDict):
    version: str
    uptime_s: float
    toolsets: list[str]
    clients: Clients
    vault: str
    notes: int
    chunks: int
    pending: int
    faults: Rows


class Use(TypedDict):
    count: int
    last: str


class Note(TypedDict):
    id: str
    note: str
    path: str
    hash: str
    meta: dict[str, Any]
    text: str
    chunks: Rows
    links: Rows
    backlinks: Rows
    related: Rows
    relations: dict[str, list[str]]
    use: Use | None
    log: Rows
    fault: Rows


class Written(TypedDict):
    status: Literal["success", "warning", "not written"]
    message: str
    chunk_id: NotRequired[str]
    path: NotRequired[str]
    generation: NotRequired[int]
    duplicates: NotRequired[Rows]
    warnings: list[str]


class Revised(TypedDict):
    chunk_id: str
    path: str
    hash: str
    difference: str
    generation: int
    warnings: list[str]


class Erased(TypedDict):
    status: str
    erased: str
    chunk_ids: list[str]
    trash: list[str]
    entry: int | None
    generation: int


class Restored(TypedDict):
    status: str
    paths: list[str]
    generation: int


class Undone(TypedDict):
    entry: int
    verb: str
    what: str
    paths: list[str]
    difference: str
    generation: int
    dry_run: bool


class Moved(TypedDict):
    old: str
    new: str
    moved: list[tuple[str, str]]
    changed: Rows
    left: Rows
    generation: int
    dry_run: bool


class Merged(TypedDict):
    id: str
    path: str
    gone: str
    trash: str
    difference: str
    dry_run: bool


class Log(TypedDict):
    entries: Rows
    warning: NotRequired[str]


class Articles(TypedDict):
    categories: Rows
    articles: Rows
    total: int


class Saved(TypedDict):
    id: str
    title: str
    categories: list[str]
    content_length: int
    path: str
    status: str


class Outcome(TypedDict):
    id: str
    outcome: str
    superseded: Rows
    path: str
    hash: str
    generation: int


class Snapshots(TypedDict):
    folder: str
    snapshots: Rows


class Job(TypedDict):
    id: str
    kind: str
    state: Literal["running", "done", "failed", "cancelled"]
    stage: str
    done: int
    total: int
    started: str
    result: NotRequired[Any]
    error: NotRequired[dict[str, str]]
    ended: NotRequired[str]


class Begun(TypedDict):
    job: Job


class Jobs(TypedDict):
    jobs: list[Job]


class Health(TypedDict):
    status: Literal["ok", "degraded"]
    version: str
    api: str


class Document(TypedDict):
    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]
