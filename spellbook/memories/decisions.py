"""
Decisions with reasons, successors and outcomes, and checkpoints of work under way.

Each is a note, whose text `notes.decision_text` composes. A decision names the one that it replaces; nothing guesses
it: a topic holds many decisions side by side, and likeness does not tell a successor from a neighbour.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spellbook.editing.scribed import Duplicate, WrittenNote
from spellbook.editing.superseding import SAME_WORK, meant, named, replacing
from spellbook.editing.write import Opened
from spellbook.index import lookup
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import conditions
from spellbook.memories import session_briefing
from spellbook.notes import decision_text as form
from spellbook.notes import labels, links
from spellbook.notes.relations import SUPERSEDES
from spellbook.notes.titles import title
from spellbook.search import newest, related
from spellbook.search.question import SearchOptions
from spellbook.settings.limits import MOST_LISTED
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import exact, flat
from spellbook.text.unicode import door

_NEAR = 0.75
"""Score from which on a living decision of the topic is named as one that may be superseded. By hand."""

_WHOLE_TOPIC = ("topic", ["topic"], ("topic",))
_MOST_NEAR = 5
"""Maximum number of such decisions."""
_MOST_LIVING = 100
"""Living decisions of a topic that are compared."""
_SESSION = "session"
"""The topic of checkpoints of a vault without a scope."""


@dataclass(frozen=True, slots=True)
class DecisionItem:
    """
    A decision or a checkpoint as an answer shows it; `similarity` is its score, None without a question.

    `superseded_by` is None, too, where the caller does not see the successor.
    """

    chunk: StoredChunk
    body: str
    similarity: float | None
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    is_superseded: bool = False

    @property
    def outcome(self) -> str | None:
        """The latest outcome; else pending, or None if a successor makes an outcome needless."""
        return _outcome(self.chunk, is_gone=self.is_superseded)

    @property
    def kind(self) -> str:
        """Its kind, decision or checkpoint."""
        return labels.CHECKPOINT if labels.CHECKPOINT in _categories(self.chunk) else labels.DECISION

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it, without the keys of the other kind."""
        meta = self.chunk.meta
        shown: dict[str, Any] = {"id": self.chunk.note, "type": self.kind, "topic": self.chunk.topic}
        if self.kind == labels.DECISION:
            read = form.read_decision(self.body)
            shown |= {
                "decision": read.decision,
                "reasoning": read.reasoning,
                "outcome": self.outcome,
                "outcome_reason": read.outcome_reason,
                "confidence": meta.get("confidence"),
                "user_involvement": meta.get("user_involvement"),
            }
        else:
            content = form.read_checkpoint(self.body)
            shown |= {
                **content.as_dict(),
                "next_steps": [step.text for step in content.steps],
                "status": "archived" if meta.get("status") == "archived" else "active",
            }
        return {
            **shown,
            "supersedes": list(self.supersedes),
            "superseded_by": self.superseded_by,
            "similarity": self.similarity,
            "created_at": newest.date_of(self.chunk),
            "updated_at": self.chunk.updated,
            "path": self.chunk.path,
        }


@dataclass(frozen=True, slots=True)
class FoundDecisions:
    """
    Result of `find`: `items`, and how many there are in all; `best` if they are the best, else the newest.

    If nothing clearly answers, `closest` are the nearest ones.
    """

    items: tuple[DecisionItem, ...]
    total: int
    best: bool
    closest: tuple[DecisionItem, ...] = ()


@door()
class Decisions(Opened):
    """The decisions and checkpoints of a vault."""

    def save(
        self,
        topic: str,
        decision: str,
        reasoning: str = "",
        *,
        supersedes: Sequence[str] | None = None,
        confidence: float | None = None,
        user_involvement: str = "",
        valid_from: str = "",
        valid_until: str = "",
        session: str = "",
        force: bool = False,
    ) -> dict[str, Any]:
        """
        Write a decision as a note; return its id, its path, the notes it supersedes, and living decisions that are
        near.

        `supersedes` are ids or titles of any notes, or "topic" for all living decisions of its topic.
        `user_involvement` is requested, approved or rejected. It holds from `valid_from` until `valid_until`. The log
        names the `session`. Raises InvalidInput for an invalid label and a likely secret unless `force`, and
        MemoryNotFound.
        """
        topic = topic.strip()
        if not topic or not decision.strip():
            raise InvalidInput("A decision needs topic and decision.", "Nothing was written.")
        living, supersedes = self.living(topic), supersedes or ()
        replaced = living if supersedes in _WHOLE_TOPIC else meant(self.index, supersedes)
        meta = {"confidence": confidence, "user_involvement": user_involvement or None, **replacing(replaced)}
        meta |= {"valid_from": valid_from or None, "valid_until": valid_until or None}
        chunk = {
            "text": form.decision_text(decision, reasoning),
            "metadata": {"title": title(decision), "topic": topic, **meta},
        }
        paths = {decision.path for decision in living}
        done = self._write(chunk, labels.DECISION, session=session, force=force, unless=paths)
        if isinstance(done, Duplicate):
            there = {"id": self.index.catalog.at(done.path)[0].note, "path": done.path}
            return {**there, "status": "exists", "superseded": [], "may_supersede": []}
        near: list[dict[str, Any]] = []
        if not supersedes:
            limits = conditions({"category": labels.DECISION, "topic": topic})
            alike = self.book.searcher.alike(done.path, limits, _MOST_NEAR, _NEAR)
            near = [{**named(other), "score": round(score, 2)} for other, score in alike if other.path in paths]
        return {
            "id": self.index.catalog.at(done.path)[0].note,
            "path": done.path,
            "superseded": [*map(named, replaced)],
            "may_supersede": near,
            "generation": done.generation,
        }

    def checkpoint(
        self,
        summary: str,
        next_steps: Sequence[str] | None = None,
        open_files: Sequence[str] | None = None,
        *,
        session: str = "",
        force: bool = False,
    ) -> dict[str, Any]:
        """Write a checkpoint as a note, which supersedes the latest about the same work; return its id and its path."""
        if not summary.strip():
            raise InvalidInput("A checkpoint needs a summary.", "Nothing was written.")
        steps = labels.listed(next_steps or (), r"\n")
        files = labels.listed(open_files or ())
        now = dt.datetime.now().astimezone()
        topic = self.index.scope or _SESSION
        own: dict[str, Any] = {"category": labels.CHECKPOINT, "topic": topic, "status!": "archived"}
        near = self._answer("memorize", summary, filter=own, min_score=SAME_WORK).hits
        # All checkpoints name the same questions: one of them says nothing about the work.
        before = [hit for hit in near if "question" not in hit.why.get("semantic", {}).get("parts", ())][:1]
        chunk = {
            "text": form.checkpoint_text(summary, steps, files),
            "metadata": {
                "title": f"{now:%Y-%m-%d %H:%M} {title(summary)}"[:300],
                "topic": topic,
                "questions": [*form.QUESTIONS],
                **replacing([hit.chunk for hit in before]),
            },
        }
        done = self._write(chunk, labels.CHECKPOINT, session=session, force=force)
        assert isinstance(done, WrittenNote), "what repeats a checkpoint is written"
        return {"id": self.index.catalog.at(done.path)[0].note, "path": done.path, "generation": done.generation}

    def update(
        self, id: str, outcome: str = "", reason: str = "", *, supersedes: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Record a decision's outcome or predecessors. Raises InvalidInput, MemoryNotFound and Conflict."""
        if not outcome and not supersedes:
            raise InvalidInput("Give outcome, or supersedes, or both.", "outcome is success, partial or failed.")
        chunk = lookup.resolve(self.index, id)
        if labels.DECISION not in _categories(chunk):
            other = f"{flat(chunk.title)} ({exact(chunk.path)})"
            raise InvalidInput(f"{other} is not a decision.", "Its category is not decision. Nothing was changed.")
        replaced = meant(self.index, supersedes)
        if any(decision.path == chunk.path for decision in replaced):
            raise InvalidInput("A decision cannot supersede itself.", "Nothing was changed.")
        meta: dict[str, Any] = {}
        if replaced:
            new_ones = (links.wikilink(decision.path) for decision in replaced)
            meta["supersedes"] = list(dict.fromkeys([*labels.texts(chunk.meta.get("supersedes")), *new_ones]))
        old = new = ""
        if outcome:
            if outcome not in form.RESULTS:
                raise InvalidInput(f"There is no outcome {outcome!r:.40}.", f"It is one of {', '.join(form.RESULTS)}.")
            meta["outcome"] = outcome
            old, new = form.with_outcome(lookup.body(self.index, chunk.path), outcome, reason, dt.date.today())
        done = self._revise(
            chunk.note,
            metadata=meta,
            append=new if new and not old else None,
            replace=(old, new) if old and old != new else None,
        )
        return {
            "id": chunk.note,
            "outcome": outcome or _outcome(chunk, is_gone=bool(related.standing(self.index, [chunk]))),
            "superseded": [*map(named, replaced)],
            "path": done.path,
            "hash": done.hash,
            "generation": done.generation,
        }

    def find(
        self,
        query: str = "",
        kind: str = "all",
        limit: int = 10,
        topic: str = "",
        outcome: str = "",
        max_tokens: int = 2_000,
        min_score: float | None = None,
    ) -> FoundDecisions:
        """
        Return decisions and checkpoints, one entry a note: the best for a question, without one the newest.

        `kind` is decision, checkpoint or all. The `outcome` pending is that of living decisions without one.
        """
        filter: dict[str, Any] = {"category": [labels.DECISION, labels.CHECKPOINT] if kind == "all" else [kind]}
        if topic:
            filter["topic"] = topic
        is_pending = outcome == "pending"
        if is_pending:
            filter |= form.PENDING
        elif outcome:
            filter["outcome"] = outcome
        rows: list[tuple[StoredChunk, float | None]]
        near: list[tuple[StoredChunk, float | None]] = []
        if query:
            most = MOST_LISTED if is_pending else limit
            options = SearchOptions(filter=filter, limit=most, max_tokens=max_tokens, min_score=min_score, per_note=1)
            answer = self._answer("search", query, **options)
            hits = [hit for hit in answer.hits if not (is_pending and "superseded_by" in hit.why)]
            rows = [(hit.chunk, hit.score) for hit in hits[:limit]]
            near = [(hit.chunk, hit.score) for hit in answer.closest]
            gone = {
                hit.path: hit.why["superseded_by"] for hit in (*hits, *answer.closest) if "superseded_by" in hit.why
            }
            total = len(hits) if is_pending else max(answer.found, len(rows))
        else:
            listed = (newest.living if is_pending else newest.recent)(self.index, limit, filter=filter)
            rows, total = [(chunk, None) for chunk in listed.notes], listed.total
            gone = related.standing(self.index, listed.notes)

        def item(chunk: StoredChunk, score: float | None) -> DecisionItem:
            leading, by = related.links(self.index.catalog.links, chunk.path), gone.get(chunk.path)
            paths = [to.path for to in leading if to.relation == SUPERSEDES and to.path]
            replaced = tuple(self.index.catalog.at(path)[0].note for path in paths)
            return DecisionItem(
                chunk,
                lookup.body(self.index, chunk.path),
                score,
                replaced,
                superseded_by=(by or {}).get("id"),
                is_superseded=by is not None,
            )

        items, closest = (tuple(item(*row) for row in some) for some in (rows, near))
        return FoundDecisions(items, total, bool(query), closest)

    def newest_checkpoint(self) -> session_briefing.NewestCheckpoint | None:
        """Return the newest checkpoint with the decisions since, None if there is none."""
        return session_briefing.checkpoint(self.index)

    def living(self, topic: str) -> list[StoredChunk]:
        """Return the decisions of a topic that nothing supersedes, the newest first, at most a hundred."""
        return list(newest.living(self.index, _MOST_LIVING, {"category": labels.DECISION, "topic": topic}).notes)

    def _write(
        self, chunk: Mapping[str, Any], category: str, *, session: str, force: bool, unless: Collection[str] = ()
    ) -> WrittenNote | Duplicate:
        """
        Write a chunk, also if it repeats another one, unless a note at one of the paths `unless` has the same words:
        then return that. Raises InvalidInput for a likely secret unless `force`.
        """
        done = self._scribe(chunk, category=category, session=session, force=force)
        if not done.written:
            for twin in done.duplicates[0]:
                if twin.how == "words" and twin.path in unless:
                    return twin
            done = self._scribe(chunk, category=category, session=session, force=True, again=force)
        return done.written[0]


def _outcome(chunk: StoredChunk, *, is_gone: bool) -> str | None:
    outcome = chunk.meta.get("outcome")
    return str(outcome) if outcome else None if is_gone else "pending"


def _categories(chunk: StoredChunk) -> list[str]:
    return labels.texts(chunk.meta.get("category") or chunk.category)
