"""Memories: a sentence or text kept as one note, found again, pinned and forgotten; also notes of a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spellbook.editing.write import Opened, superseding_fields
from spellbook.index import lookup
from spellbook.index.catalog.rows import StoredChunk
from spellbook.memories import articles as pages
from spellbook.memories.decisions import Decisions
from spellbook.notes import labels
from spellbook.notes.frontmatter import IMPORTANCE
from spellbook.search import cited_code, newest
from spellbook.search.newest import Recent
from spellbook.search.question import Answer
from spellbook.system.errors import InvalidInput
from spellbook.text.unicode import door

if TYPE_CHECKING:
    from spellbook.editing.erase import Erased

TYPES = ("working", "episodic", "semantic", "procedural")
PLAIN = "semantic"
"""The type of a note that names none."""

_KEPT = "A note says this already, word for word; nothing was written."
_REPEATS = (
    "Nothing was written: a note says nearly this. Give its id in supersedes if this replaces it, or repeat with "
    "force=true. revise(id) changes that note instead."
)


@door()
class Memories(Opened):
    """The memories of a vault, which are all its notes, and among them its decisions and articles."""

    @property
    def decisions(self) -> Decisions:
        """Decisions and checkpoints: save, checkpoint, update, find."""
        return Decisions(self.book)

    @property
    def articles(self) -> pages.Articles:
        """Web pages, PDFs and given texts: save, find, list, read, ask, delete."""
        return pages.Articles(self.book)

    def remember(
        self,
        content: str,
        type: str = "semantic",
        tags: Sequence[str] | None = None,
        importance: str | float = IMPORTANCE,
        privacy_scope: str = "private",
        *,
        source: str = "",
        project_id: str = "",
        supersedes: Sequence[str] | None = None,
        title: str = "",
        topic: str = "",
        keywords: Sequence[str] | None = None,
        questions: Sequence[str] | None = None,
        valid_from: str = "",
        valid_until: str = "",
        sources: Sequence[object] = (),
        force: bool = False,
    ) -> dict[str, Any]:
        """
        Write a memory and return its id; defaults are not written. A memory that it would repeat is named instead.

        `topic` defaults to the first tag, the project or the scope, `keywords` to words of the text. `supersedes` are
        ids or titles of notes that it replaces; older ones it may overturn are named. It holds from `valid_from` until
        `valid_until`. `sources` are lines of the project's files that it rests on; see `search.cited_code`. Raises
        InvalidInput for an invalid label or a likely secret, unless `force`, and MemoryNotFound.
        """
        named_tags = labels.tags(tags) if tags else []
        rests_on, project = cited_code.cite(sources, self.index.config.projects) if sources else ([], "")
        meta: dict[str, Any] = {
            "topic": topic or next(iter(named_tags), "") or project_id or self.index.scope,
            "type": type,
            "tags": named_tags,
            "importance": "" if importance in {IMPORTANCE, "medium"} else importance,
            "privacy_scope": "" if privacy_scope == "private" else privacy_scope,
            **{"title": title, "source": source, "scope": project_id or project, "supersedes": supersedes},
            "sources": rests_on,
            **{"keywords": keywords, "questions": questions, "valid_from": valid_from, "valid_until": valid_until},
        }
        chunk = {"text": content, "metadata": {key: value for key, value in meta.items() if value or value == 0}}
        done = self._scribe(chunk, force=force)
        same = next((twin for twin in done.duplicates[0] if twin.how == "words"), None)
        repeats = [*map(asdict, done.duplicates[0])]
        if not done.written and same:
            return {"status": "exists", "memory_id": lookup.resolve(self.index, same.id).note, "hint": _KEPT}
        if not done.written:
            return {"status": "warning", "memory_id": None, "duplicates": repeats, "hint": _REPEATS}
        (written,) = done.written
        first = self.index.catalog.at(written.path)[0]
        return {
            "memory_id": first.note,
            "created_at": first.created,
            "type": type,
            "importance": first.importance,
            "path": written.path,
            **({"duplicates": repeats} if repeats else {}),
            **superseding_fields(done),
            "generation": written.generation,
        }

    def recall(
        self,
        query: str,
        filters: object = None,
        limit: int = 8,
        max_tokens: int = 2_000,
        also: Sequence[str] | None = None,
        min_score: float | None = None,
        explain: bool = False,
        as_of: str = "",
    ) -> Answer:
        """
        Search for memories, one hit a note; `as_of` is as for `search`.

        `filters` are those of a search, and type, tags, project_id, time_from and time_to. Raises InvalidInput for
        invalid ones.
        """
        return self._answer(
            "search",
            query,
            filter=filter_of(filters),
            per_note=1,
            explain=explain,
            also=also or (),
            limit=limit,
            min_score=min_score,
            max_tokens=max_tokens,
            as_of=as_of,
        )

    def newest(self, limit: int = 8, filters: object = None) -> Recent:
        """Return the newest memories; `filters` as for `recall`."""
        return newest.recent(self.index, limit, filter=filter_of(filters))

    def pin(self, memory_id: str, *, on: bool = True) -> dict[str, Any]:
        """Pin the note that an id names, or take its pin off; nothing else of it changes. Raises MemoryNotFound."""
        chunk = lookup.resolve(self.index, memory_id)
        if is_pinned(chunk) is not on:
            self._revise(chunk.note, metadata={"pinned": True if on else None})
        return {"success": True, "memory_id": chunk.note, "pinned": on}

    def forgettable(self, memory_id: str) -> StoredChunk:
        """Return the first chunk of a memory. Raises InvalidInput for a person's own note, and MemoryNotFound."""
        chunk = lookup.resolve(self.index, memory_id)
        if not chunk.meta.get("id"):
            raise InvalidInput("This is a note of the person's own.", "erase(id) takes it if it should really go.")
        return chunk

    def forget(self, memory_id: str, *, hard: bool = False) -> Erased:
        """Move a memory to the trash; `hard` deletes it. Raises as `forgettable`."""
        return self._erase(self.forgettable(memory_id).note, hard=hard)


def is_pinned(chunk: StoredChunk) -> bool:
    """Say whether a note is pinned."""
    return chunk.meta.get("pinned") is True


def type_of(chunk: StoredChunk) -> str:
    """Return the type of a note, as memories have it."""
    type = chunk.meta.get("type")
    return type if type in TYPES else PLAIN


def filter_of(filters: object) -> dict[str, Any] | None:
    """Return the search filter for the `filters` of `recall`. Raises InvalidInput."""
    if filters is None:
        return None
    if not isinstance(filters, Mapping):
        raise InvalidInput("filters must be an object.", 'For example {"type": ["working"], "tags": ["deploy"]}.')
    left = {str(key): value for key, value in filters.items() if value not in (None, "", [])}
    filter: dict[str, Any] = {}
    if "type" in left:
        types = left.pop("type")
        named = [str(type).strip().lower() for type in (types if isinstance(types, list) else [types])]
        if unknown := [type for type in named if type not in TYPES]:
            raise InvalidInput(f"There is no type {unknown[0]!r:.40}.", f"Types are {', '.join(TYPES)}.")
        others = [type for type in TYPES if type not in named]
        if PLAIN not in named:
            filter["type"] = named
        elif others:  # a note without a type counts as semantic, so the other types are left out
            filter["type!"] = others
    if "project_id" in left:
        filter["scope"] = left.pop("project_id")
    times = [str(left.pop(key, "")) for key in ("time_from", "time_to")]
    if any(times):
        filter["when"] = "..".join(times)
    return {**left, **filter} or None
