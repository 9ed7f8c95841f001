"""
The results of verbs in JSON, as the OpenAPI document describes them. They may have more keys than these.

It is imported when somebody asks for the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from spellbook.editing import moves, revise
from spellbook.editing.revise import Revised as Revised
from spellbook.notes.note import Fault
from spellbook.search.explain import ExplainedChunk
from spellbook.search.related import Backlink, Leading, Related

Rows = list[dict[str, Any]]


class ErrorBody(TypedDict):
    code: str
    message: str
    details: dict[str, Any]
    timestamp: str


class Error(TypedDict):
    error: ErrorBody


class PlaceResult(TypedDict):
    id: str
    path: str
    line: int
    title: str
    heading: str


class Filed(PlaceResult):
    text: str
    topic: str
    category: str
    hash: str


class HitResult(Filed):
    score: float
    why: dict[str, Any]
    keywords: list[str]
    tags: list[str]
    importance: str
    created: str | None
    updated: str | None
    backlinks: int


class Closest(PlaceResult):
    score: float
    text: str


class RecentResult(Filed):
    chunk_id: str
    when: str
    keywords: list[str]
    tags: list[str]
    importance: float


class ChunkResult(Filed):
    end_line: int
    importance: float
    created: str | None
    updated: str | None


class File(TypedDict):
    path: str
    change: Literal["added", "changed", "removed"]


class EntryResult(TypedDict):
    entry: int
    at: str
    verb: str
    what: str
    undoes: int | None
    state: str
    session: NotRequired[str]
    files: list[File]


class StateResult(TypedDict):
    generation: int
    notes: int
    chunks: int
    pending: int
    degraded: bool
    reason: NotRequired[str]


class Found(TypedDict):
    query: str
    hits: list[HitResult]
    found: int
    ms: float
    index: StateResult
    closest: NotRequired[list[Closest]]
    unmatched: NotRequired[Rows]


class History(TypedDict):
    id: str
    path: str
    versions: Rows
    not_read: list[str]


class Listed(TypedDict):
    notes: list[RecentResult]
    total: int


class CategoryResult(TypedDict):
    id: str
    name: str
    description: str
    topic_count: int
    topics: Rows


class Contents(TypedDict):
    categories: list[CategoryResult]
    total_topics: int
    total_chunks: int
    last_updated: str | None
    truncated: NotRequired[bool]
    left_out: NotRequired[dict[str, int]]


class Why(TypedDict):
    query: str
    mode: str
    words: Rows
    known: float | None
    candidates: int
    rows: list[ExplainedChunk]
    index: StateResult
    when: str


class GraphNote(TypedDict):
    path: str
    id: str
    title: str


GraphEdge = TypedDict("GraphEdge", {"from": int, "to": int, "kind": str})


class Graph(TypedDict):
    notes: list[GraphNote]
    edges: list[GraphEdge]


class VaultNote(GraphNote):
    category: str
    topic: str
    untrusted: bool
    links: int


class WholeGraph(TypedDict):
    notes: list[VaultNote]
    edges: list[GraphEdge]
    total: int


class TopicResult(TypedDict):
    topic: str
    chunks: list[ChunkResult]
    backlinks: list[Backlink]
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
    faults: list[Fault]


class UseResult(TypedDict):
    count: int
    last: str


class NoteResult(TypedDict):
    id: str
    note: str
    path: str
    hash: str
    meta: dict[str, Any]
    text: str
    chunks: list[ChunkResult]
    links: list[Leading]
    backlinks: list[Backlink]
    related: list[Related]
    relations: dict[str, list[str]]
    use: UseResult | None
    log: list[EntryResult]
    fault: list[Fault]


class Written(TypedDict):
    status: Literal["success", "warning", "not written"]
    message: str
    chunk_id: NotRequired[str]
    path: NotRequired[str]
    generation: NotRequired[int]
    duplicates: NotRequired[Rows]
    may_supersede: NotRequired[Rows]
    hint: NotRequired[str]
    warnings: list[str]


@dataclass(frozen=True)
class ErasedResult(revise.Erased):
    """What was erased, and the entry of the log that undoes it; None if it is gone for good."""

    status: str
    entry: int | None


@dataclass(frozen=True)
class MovedResult(moves.Moved):
    dry_run: bool


class MendedResult(TypedDict):
    links: int
    changed: list[moves.RelinkedNote]
    left: list[Fault]
    generation: int
    dry_run: bool


class MergedResult(TypedDict):
    id: str
    path: str
    gone: str
    trash: str
    difference: str
    dry_run: bool


class RestoredResult(TypedDict):
    status: str
    paths: list[str]
    generation: int


class UndoneResult(TypedDict):
    entry: int
    verb: str
    what: str
    paths: list[str]
    difference: str
    generation: int
    dry_run: bool


class Log(TypedDict):
    entries: list[EntryResult]
    warning: NotRequired[str]


class ArticlesResult(TypedDict):
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


class SnapshotsResult(TypedDict):
    folder: str
    snapshots: Rows


class JobResult(TypedDict):
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


class BegunResult(TypedDict):
    job: JobResult


class JobsResult(TypedDict):
    jobs: list[JobResult]


class Told(TypedDict):
    """An answer for a person, with its figures beside the message."""

    message: str


class Result(TypedDict):
    """An answer as the tools of monitoring had it."""

    success: bool
    message: str
    result: dict[str, Any]


class Health(TypedDict):
    status: Literal["ok", "degraded"]
    version: str
    api: str
    reason: NotRequired[str]


class DocumentResult(TypedDict):
    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]
