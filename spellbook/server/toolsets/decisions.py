"""
The decisions toolset: decisions with their reasons, what replaced them and how they turned out, and checkpoints.

Each is a note, whose text is that of `notes.decisions`. What replaces a decision is said, never guessed: a topic holds
many decisions side by side, and likeness does not tell a successor from a neighbour.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer

from spellbook.book import Spellbook
from spellbook.errors import InvalidInput
from spellbook.server.base import ADD, CHANGE, READ, adder, as_json
from spellbook.system.lazy import lazy
from spellbook.text.quoting import exact, flat, quoted, shortened
from spellbook.verbs import memories

if TYPE_CHECKING:
    from spellbook.editing.write import Duplicate, Scribed
    from spellbook.index import lookup
    from spellbook.index.catalog.schema import StoredChunk
    from spellbook.notes import decisions as form
    from spellbook.notes import links, note, relations
    from spellbook.search import briefing, newest, related
else:  # Imported at the first call: an idle server stays small.
    (lookup,) = lazy("spellbook.index", "lookup")
    (form,) = lazy("spellbook.notes", "decisions")
    links, note, relations = lazy("spellbook.notes", "links", "note", "relations")
    briefing, newest, related = lazy("spellbook.search", "briefing", "newest", "related")

INSTRUCTIONS = (
    "- mama_checkpoint() at the start of work, mama_save when something is decided, mama_update when it has turned out."
)

DECISION, CHECKPOINT = "decision", "checkpoint"
_OF_DECISION = ("topic", "decision", "reasoning", "confidence", "supersedes", "user_involvement")
_OF_CHECKPOINT = ("summary", "next_steps", "open_files")

_NEAR = 0.75
"""Score from which on a living decision of the topic is named as one that may be superseded. By hand."""

_SAME_WORK = 0.5
"""
Score by meaning from which on a checkpoint is about the same work as an earlier one of its topic. Of 36 checkpoints of
12 pieces of work 88 % reach it with the one before, and 3 % with one of other work.
"""

_MOST_NEAR = 5
_MOST_LIVING = 100
_SESSION = "session"
"""The topic of checkpoints of a server without a scope."""


def register(mcp: MCPServer, book: Spellbook) -> None:
    """Add the tools for decisions over `book` to a server."""

    def mama_save(type: str, session_id: str, force: bool, **given: Any) -> str:
        """
        Save a decision with its reason (topic, decision), or a checkpoint of work under way (summary, next_steps).

        Nothing is superseded unless supersedes says so; the answer names living decisions of the topic that are near.
        """
        foreign = [name for name in (_OF_CHECKPOINT if type == DECISION else _OF_DECISION) if given[name]]
        if foreign:
            raise InvalidInput(f"A {type} has no {', '.join(foreign)}.", "Nothing was written.")
        if type == CHECKPOINT:
            steps, files = given["next_steps"] or (), given["open_files"] or ()
            return as_json(**save_checkpoint(book, given["summary"], steps, files, session=session_id, force=force))
        topic, decision, reasoning, confidence, replaced, involvement = (given[name] for name in _OF_DECISION)
        extra = {"confidence": confidence, "user_involvement": involvement or None}
        options: Any = {"session": session_id, "force": force}
        return as_json(**save_decision(book, topic, decision, reasoning, replaced, extra, **options))

    def mama_search(type: str, max_tokens: int, format: str, **asked: Any) -> str:
        """
        Find decisions and checkpoints by a question, best first; without a query the newest ones.

        Each with its reason, its outcome, and what replaced it. Look here before deciding again.
        """
        found = look_up(book, kind=type, max_tokens=max_tokens, **asked)
        if format == "json":
            return as_json(items=[each.as_dict() for each in found.items], total_count=found.total)
        return _listed(found, max_tokens)

    def mama_update(**given: Any) -> str:
        """
        Record how a decision turned out, or which older decisions it replaces.

        Earlier outcomes stay in the note as its history.
        """
        return as_json(**update(book, **given))

    def mama_checkpoint() -> str:
        """Load the newest checkpoint: where the work stands, the steps with their boxes, and decisions since."""
        return _checkpoint(book)

    add = adder(mcp)
    add(mama_save, "Save a decision or a checkpoint", ADD, memories.SAVE_DECISION)
    add(mama_search, "Search decisions", READ, memories.SEARCH_DECISIONS)
    add(mama_update, "Record an outcome", CHANGE, memories.UPDATE_DECISION)
    add(mama_checkpoint, "Load the last checkpoint", READ)


@dataclass(frozen=True, slots=True)
class Item:
    """A decision or a checkpoint as an answer shows it; `similarity` is its score, None where nothing was asked."""

    chunk: StoredChunk
    body: str
    similarity: float | None
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None

    @property
    def kind(self) -> str:
        """Which of the two it is."""
        return CHECKPOINT if CHECKPOINT in _categories(self.chunk) else DECISION

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it, without the keys of the other kind."""
        meta = self.chunk.meta
        shown: dict[str, Any] = {"id": self.chunk.note, "type": self.kind, "topic": self.chunk.topic}
        if self.kind == DECISION:
            read = form.read_decision(self.body)
            shown |= {
                "decision": read.decision,
                "reasoning": read.reasoning,
                "outcome": meta.get("outcome") or "pending",
                "outcome_reason": read.outcome_reason,
                "confidence": meta.get("confidence", 0.5),
                "user_involvement": meta.get("user_involvement"),
            }
        else:
            told = form.read_checkpoint(self.body)
            steps = [each.text for each in told.steps]
            shown |= {"summary": told.summary, "next_steps": steps, "open_files": list(told.files)}
        shown |= {"supersedes": list(self.supersedes), "superseded_by": self.superseded_by}
        return {
            **shown,
            "similarity": self.similarity,
            "created_at": newest.said(self.chunk),
            "path": self.chunk.path,
        }


@dataclass(frozen=True, slots=True)
class Found:
    """What `look_up` found: `items`, and how many there are in all; `best` if they are the best, else the newest."""

    items: tuple[Item, ...]
    total: int
    best: bool


def save_decision(
    book: Spellbook,
    topic: str,
    decision: str,
    reasoning: str = "",
    supersedes: Sequence[str] | None = None,
    meta: Mapping[str, Any] | None = None,
    *,
    session: str = "",
    force: bool = False,
) -> dict[str, Any]:
    """
    Write a decision as a note, and return its id, its path, what it supersedes, and living ones that are near.

    The log names the client's `session`.
    Raises InvalidInput for what no decision has, or if `supersedes` names something else, and MemoryNotFound.
    """
    topic = topic.strip()
    if not topic or not decision.strip():
        raise InvalidInput("A decision needs topic and decision.", "Nothing was written.")
    living = living_of(book, topic)
    replaced = living if supersedes and list(supersedes) == ["topic"] else _decisions(book, supersedes or ())
    chunk = {
        "text": form.decision_text(decision, reasoning),
        "metadata": {
            "title": form.title(decision),
            "topic": topic,
            **(meta or {}),
            **_replacing(replaced),
        },
    }
    unless = {each.path for each in living}
    done, repeats = _written(book, chunk, DECISION, session=session, force=force, unless=unless)
    if repeats:
        path = repeats[0].path
        return {"id": _note_of(book, path), "path": path, "status": "exists", "superseded": [], "may_supersede": []}
    near: list[dict[str, Any]] = []
    if not supersedes:
        left = {each.path: each for each in living}
        alike = book.alike(done.path, {"category": DECISION, "topic": topic}, limit=_MOST_NEAR, least=_NEAR)
        near = [{**_named(each), "score": round(score, 2)} for each, score in alike if each.path in left]
    return {
        "id": _note_of(book, done.path),
        "path": done.path,
        "superseded": [_named(each) for each in replaced],
        "may_supersede": near,
        "generation": done.generation,
    }


def save_checkpoint(
    book: Spellbook,
    summary: str,
    steps: Sequence[str] = (),
    files: Sequence[str] = (),
    *,
    session: str = "",
    force: bool = False,
) -> dict[str, Any]:
    """Write a checkpoint as a note, which supersedes the latest about the same work; return its id and its path."""
    if not summary.strip():
        raise InvalidInput("A checkpoint needs a summary.", "Nothing was written.")
    now = dt.datetime.now().astimezone()
    topic = book.index.scope or _SESSION
    own: dict[str, Any] = {"category": CHECKPOINT, "topic": topic, "status!": "archived"}
    before = book.memorize(summary, limit=1, filter=own, min_score=_SAME_WORK).hits
    chunk = {
        "text": form.checkpoint_text(summary, steps, files),
        "metadata": {
            "title": f"{now:%Y-%m-%d %H:%M} {form.title(summary)}"[:300],
            "topic": topic,
            **_replacing([hit.chunk for hit in before]),
        },
    }
    done, _ = _written(book, chunk, CHECKPOINT, session=session, force=force, unless=())
    return {"id": _note_of(book, done.path), "path": done.path, "generation": done.generation}


def update(
    book: Spellbook, id: str, outcome: str = "", reason: str = "", supersedes: Sequence[str] | None = None
) -> dict[str, Any]:
    """
    Record an outcome of a decision, or what it supersedes, as one revision of its note.

    Raises InvalidInput if it is no decision or would supersede itself, MemoryNotFound and Conflict.
    """
    if not outcome and not supersedes:
        raise InvalidInput("Give outcome, or supersedes, or both.", "outcome is success, partial or failed.")
    (chunk,) = _decisions(book, [id])
    replaced = _decisions(book, supersedes or ())
    if any(each.path == chunk.path for each in replaced):
        raise InvalidInput("A decision cannot supersede itself.", "Nothing was changed.")
    meta: dict[str, Any] = {}
    if replaced:
        given = chunk.meta.get("supersedes")
        there = given if isinstance(given, list) else [given] if given else []
        meta["supersedes"] = list(dict.fromkeys([*map(str, there), *(links.wikilink(each.path) for each in replaced)]))
    old = new = ""
    if outcome:
        if outcome not in form.RESULTS:
            raise InvalidInput(f"There is no outcome {outcome!r:.40}.", f"It is one of {', '.join(form.RESULTS)}.")
        meta["outcome"] = outcome
        old, new = form.with_outcome(lookup.body(book.index, chunk.path), outcome, reason, dt.date.today())
    done = book.revise(
        chunk.note,
        metadata=meta,
        append=new if new and not old else None,
        replace=(old, new) if old and old != new else None,
    )
    return {
        "id": chunk.note,
        "outcome": outcome or chunk.meta.get("outcome") or "pending",
        "superseded": [_named(each) for each in replaced],
        "path": done.path,
        "hash": done.hash,
        "generation": done.generation,
    }


def look_up(
    book: Spellbook,
    query: str = "",
    kind: str = "all",
    limit: int = 10,
    topic: str = "",
    outcome: str = "",
    max_tokens: int = 2_000,
    min_score: float | None = None,
) -> Found:
    """Return decisions and checkpoints: by a question the best, one entry a note; without one the newest."""
    filter: dict[str, Any] = {"category": [DECISION, CHECKPOINT] if kind == "all" else [kind]}
    if topic:
        filter["topic"] = topic
    is_pending = outcome == "pending"  # and not superseded
    if is_pending:
        filter |= {"outcome!": ["success", "partial", "failed"], "category": [DECISION]}
    elif outcome:
        filter["outcome"] = outcome
    found: list[tuple[StoredChunk, float | None, str | None]]
    if query:
        most = newest.MOST if is_pending else limit
        answer = book.search(query, limit=most, filter=filter, max_tokens=max_tokens, per_note=1, min_score=min_score)
        hits = [hit for hit in answer.hits if not (is_pending and "superseded_by" in hit.why)]
        found = [(hit.chunk, hit.score, hit.why.get("superseded_by", {}).get("id")) for hit in hits[:limit]]
        total = len(hits) if is_pending else max(answer.found, len(found))
    else:
        book.refresh()
        listed = newest.living(book.index, limit, filter) if is_pending else book.recent(limit, filter=filter)
        above = related.superseded(book.index, {chunk.path for chunk in listed.notes}, book.index.visible)
        by = {path: known.by[1] for path, known in above.items() if known.by}
        found, total = [(chunk, None, by.get(chunk.path)) for chunk in listed.notes], listed.total
    items = [
        Item(chunk, lookup.body(book.index, chunk.path), score, _superseding(book, chunk.path), successor)
        for chunk, score, successor in found
    ]
    return Found(tuple(items), total, bool(query))


def living_of(book: Spellbook, topic: str) -> list[StoredChunk]:
    """Return the decisions of a topic that nothing supersedes, the newest first, at most a hundred."""
    book.refresh()
    return list(newest.living(book.index, _MOST_LIVING, {"category": DECISION, "topic": topic}).notes)


def _decisions(book: Spellbook, ids: Sequence[str]) -> list[StoredChunk]:
    """Return the notes that ids name. Raises MemoryNotFound, and InvalidInput for one that is no decision."""
    found = [book.resolve(id) for id in dict.fromkeys(ids)]
    wrong = [chunk for chunk in found if DECISION not in _categories(chunk)]
    if wrong:
        named = f"{flat(wrong[0].title)} ({exact(wrong[0].path)})"
        raise InvalidInput(f"{named} is no decision.", "Its category is not decision. Nothing was changed.")
    return list({chunk.path: chunk for chunk in found}.values())


def _replacing(chunks: Sequence[StoredChunk]) -> dict[str, Any]:
    named = [links.wikilink(each.path) for each in chunks]
    return {"supersedes": named if len(named) > 1 else named[0]} if named else {}


def _written(
    book: Spellbook,
    chunk: Mapping[str, Any],
    category: str,
    *,
    session: str,
    force: bool,
    unless: Sequence[str] | set[str],
) -> tuple[Any, tuple[Duplicate, ...]]:
    """
    Write a chunk, also if it repeats another one; but if a note at one of the paths `unless` has the same words, return
    which, and write nothing. Raises InvalidInput for what looks like a secret unless `force`.
    """
    done: Scribed = book.scribe(chunk, category=category, labels="derived", session=session, force=force)
    if not done.written:
        same = tuple(each for each in done.duplicates[0] if each.how == "words" and each.path in unless)
        if same:
            return None, same
        done = book.scribe(chunk, category=category, labels="derived", session=session, force=True)
    return done.written[0], ()


def _categories(chunk: StoredChunk) -> Sequence[object]:
    given = chunk.meta.get("category", chunk.category)
    return given if isinstance(given, list) else [given]


def _superseding(book: Spellbook, path: str) -> tuple[str, ...]:
    """Return the ids of the notes that the note at `path` supersedes."""
    return tuple(
        _note_of(book, each.path)
        for each in related.links(book.index.catalog.links, path)
        if each.relation == relations.SUPERSEDES and each.path
    )


def _note_of(book: Spellbook, path: str) -> str:
    """Return the id of the note at `path`."""
    return next((chunk.note for chunk in book.index.catalog.at(path)), path)


def _named(chunk: StoredChunk) -> dict[str, Any]:
    return {"id": chunk.note, "title": flat(chunk.title)}


def _listed(found: Found, max_tokens: int) -> str:
    """Return what was found as text, as much of each as fits."""
    order = "best first" if found.best else "newest first"
    if not found.items:
        return "Nothing found. mama_save(type='decision', topic, decision) keeps one."
    lines = [f"{len(found.items)} of {found.total:,} found, {order}."]
    room = max_tokens * 3 // max(1, len(found.items))  # letters of each: a token has about three
    for number, each in enumerate(found.items, 1):
        told = each.as_dict()
        score = f"[{each.similarity:.2f}] " if each.similarity is not None else ""
        sure = f", confidence {told['confidence']}" if each.chunk.meta.get("confidence") is not None else ""
        facts = f"({flat(each.chunk.topic)}, {told['created_at'][:10]}{sure})"
        turned = f" outcome: {told['outcome']}" if each.kind == DECISION and told["outcome"] != "pending" else ""
        by = f" superseded by {exact(each.superseded_by)}" if each.superseded_by else ""
        replaces = f" replaces {', '.join(map(exact, each.supersedes))}" if each.supersedes else ""
        lines.append(f"{number}. {score}{flat(each.chunk.title)} {facts}{turned}{by}")
        lines.append(f"   id: {exact(each.chunk.note)}{replaces}")
        lines.append(quoted(shortened(each.body.strip(), room)))
    return "\n".join(lines)


def _checkpoint(book: Spellbook) -> str:
    book.refresh()
    found = briefing.checkpoint(book.index)
    return "\n".join(found.lines()) if found else "No checkpoint yet: mama_save(type='checkpoint', …) makes one."
