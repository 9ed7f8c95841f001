"""
Common methods of all readers of a vault: find, list, show, and the state of the vault.

There are two readers: `book` reads a vault with its files and also changes it, `limited` the part that a token sees. A
reader without a method for something cannot do it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

from spellbook.archive import snapshots as taken
from spellbook.editing import memory, write
from spellbook.index import lookup
from spellbook.index.catalog.rows import StoredChunk, Topic
from spellbook.index.filters import NO_GUIDES, Filter, conditions
from spellbook.index.metrics import Meter
from spellbook.index.opened import Index
from spellbook.library import status
from spellbook.memories import memories
from spellbook.models.base import answering, unhurried
from spellbook.models.onnx import lazy_engine
from spellbook.search import cited_code, explain, newest, question, related, searcher, toc
from spellbook.settings.config import Config
from spellbook.system import children
from spellbook.system.errors import PermissionDenied, SpellbookError
from spellbook.system.processes import unseen
from spellbook.text.unicode import door
from spellbook.vault.pictures import Picture, embedded_pictures, read_picture

if TYPE_CHECKING:
    from spellbook.editing.scribed import Duplicate
    from spellbook.search.explain import Explanation
    from spellbook.search.question import Answer, SearchOptions
    from spellbook.vault.entries import Entry


@door()
class Reader:
    """
    The reading verbs on an index; use it as a context manager, or call `close`. Invalid Unicode raises InvalidInput.

    A subclass says how the index is kept up to date, by `refresh` and `follow`.
    """

    def __init__(self, settings: Config, index: Index) -> None:
        self.config = settings
        self.index = index
        self.meter = Meter(index.catalog.usage)
        self.complaint = ""  # why the last scan of the vault failed, "" if it did not
        self.opening = threading.Lock()  # held while what is beside this book is opened, so that each is opened once
        self.searches: dict[tuple[object, ...], tuple[float, str]] = {}  # see `mcp.toolsets.memento`
        self.loaded: searcher.Searcher | None = None
        """The searcher, once a search has loaded the vectors and while they are still in memory."""

    @property
    def searcher(self) -> searcher.Searcher:
        """The searcher, with the vectors in memory once a search needed them."""
        self.loaded = self.loaded or searcher.Searcher(self.index)
        return self.loaded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close files and connections."""
        self.meter.flush()
        self.index.close()

    # -- what it is

    @property
    def denial(self) -> PermissionDenied | None:
        """Why nothing can be changed here, None where it can."""
        return None

    def is_watched(self) -> bool:
        """Return whether nothing here can be out of date: a process watches all that is read."""
        return True

    def refresh(self, *, embed: bool = False, scans: bool = True) -> None:
        """Take over changes, with a scan if one is due and `scans` is set; `embed` some new texts."""

    def follow(self) -> None:
        """Switch to the embedding model that another process has migrated the vault to, if it has."""

    def use(self, index: Index) -> None:
        """Go on with this form of the index, which shares the catalog."""
        before, self.index, self.config, self.loaded = self.index, index, index.config, None
        before.chroma.close()

    @property
    def memories(self) -> memories.Memories:
        """Memories, decisions and articles, as they are now. See `memories.memories`."""
        self.refresh()
        return memories.Memories(self)

    # -- finding

    def search(self, query: str, **options: Unpack[SearchOptions]) -> Answer:
        """
        Search by meaning and by words.

        `options` are `also` (up to 3 further texts), `limit` (1 to 100 hits, 5), `filter` (see docs/reference.md),
        `min_score` (0..1), `max_tokens` (of texts, 2,000), `as_of` (a date). Raises InvalidInput for what is none.
        """
        return self.ask("search", query, **options)

    def memorize(self, query: str, **options: Unpack[SearchOptions]) -> Answer:
        """Search by meaning alone; `options` as for `search`."""
        return self.ask("memorize", query, **options)

    def find(self, keywords: str | Sequence[str], match: str = "any", **options: Unpack[SearchOptions]) -> Answer:
        """Search by words: each keyword is a phrase, `match` is `any` or `all` of them; `options` as for `search`."""
        return self.ask("find", keywords, match, **options)

    def why(
        self, query: str, id: str | None = None, verb: str = "search", **options: Unpack[SearchOptions]
    ) -> Explanation:
        """
        Explain what `search`, `memorize` or `find` makes of `query`, or what became of the chunk or note `id` in it.

        `options` as for `search`. Raises MemoryNotFound for an unknown id.
        """
        request = question.question(verb, query, **options)
        self.refresh(embed=request.mode != "keyword")
        return explain.why(self.index, self.searcher, request, id)

    def ask(
        self,
        verb: str,
        query: str | Sequence[str],
        match: str = "any",
        *,
        scans: bool = True,
        **options: Unpack[SearchOptions],
    ) -> Answer:
        """Answer one of the verbs `search`, `memorize` and `find`; without `scans` no scan of the vault is due."""
        request = question.question(verb, query, match, **options)
        is_by_words = request.mode == "keyword"
        with answering(), self.meter.timed(verb) as taken:
            self.refresh(embed=not is_by_words, scans=scans)
            loaded = self.searcher
            answer = loaded.ask(request)
        self.meter.searched(answer.is_cached, request.text, taken.ms, is_warm=is_by_words in loaded.warm)
        loaded.warm.add(is_by_words)
        reason = self._degraded(answer.index.reason)
        state = answer.index._replace(degraded=answer.index.degraded or bool(reason), reason=reason)
        hits, closest = (cited_code.compared(each, self.config.projects) for each in (answer.hits, answer.closest))
        return replace(answer, hits=hits, closest=closest, index=state, ms=round(taken.ms, 1))

    def _degraded(self, *reasons: str) -> str:
        """Return what keeps answers from being complete, "" if nothing does."""
        return "; ".join(filter(None, (*reasons, self.complaint, unseen(self.config.state))))

    def recent(self, limit: int = 20, offset: int = 0, filter: Filter | None = None) -> newest.Recent:
        """Return the first chunk of each note, newest first by its date (filter key `when`). Raises InvalidInput."""
        self.refresh()
        return newest.recent(self.index, limit, offset, filter)

    def show(self, id: str, as_of: str = "") -> list[StoredChunk]:
        """Return the chunk, or the chunks of the note, of this id, path or title, as it held. Raises MemoryNotFound."""
        self.refresh()
        chunks = related.named(self.index, id, as_of)
        if self.config.count_use:
            with contextlib.suppress(SpellbookError):  # reading works even if counting fails
                self.index.catalog.usage.opened(chunk.note for chunk in chunks)
        return chunks

    def resolve(self, id: str, as_of: str = "") -> StoredChunk:
        """Return the first of the chunks that `show` returns. Raises MemoryNotFound."""
        self.refresh()
        return related.named(self.index, id, as_of)[0]

    def alike(
        self, id: str, filter: Filter | None = None, *, limit: int = 5, least: float = 0.75
    ) -> list[tuple[StoredChunk, float]]:
        """Return the chunks of other notes that say nearly what a note says, each with its score, best first."""
        return self.searcher.alike(lookup.resolve(self.index, id).path, conditions(filter), limit, least)

    def pictures(self, id: str) -> dict[str, str]:
        """Return the targets of the pictures that a note embeds, each with its path, "" if none is there."""
        return embedded_pictures(self.index.vault, lookup.resolve(self.index, id).path)

    def picture(self, id: str, path: str) -> Picture:
        """Return a picture that a note embeds. Raises MemoryNotFound, UnreadableNote for what is not shown."""
        return read_picture(self.index.vault, self.resolve(id).path, path)

    def around(self, id: str) -> related.Around:
        """Return links, backlinks and related notes of a note (id, path or a chunk's id). Raises MemoryNotFound."""
        self.refresh()
        return related.around(self.index, lookup.resolve(self.index, id).path)

    def vault_graph(self, most: int) -> related.VaultGraph:
        """Return the notes of the vault, at most the `most` linked ones, and the links between them."""
        self.refresh()
        return related.vault_graph(self.index, most)

    def adjacent(self, id: str) -> related.Adjacent:
        """Return the notes before and after a note in its folder, by name. Raises MemoryNotFound."""
        return related.adjacent(self.index, self.resolve(id).path)

    def backlinks(self, paths: Collection[str]) -> tuple[related.Backlink, ...]:
        """Return the other notes that link to one of the notes at `paths`."""
        return related.backlinks(self.index, paths)

    def superseded(self, chunks: Collection[StoredChunk]) -> dict[str, dict[str, str]]:
        """Return which notes of these chunks are superseded, by path, and by what: path, id, title; {} if hidden."""
        return related.standing(self.index, chunks)

    def topics(self, filter: Filter | None = None) -> list[Topic]:
        """Return every topic with its counts, sorted by category."""
        self.refresh()
        return self.index.catalog.topics((*conditions(filter), *self.index.visible))

    def contents(self, scope: str = "", filter: Filter | None = None) -> tuple[toc.Category, ...]:
        """Return the table of contents: categories with their topics, of all notes or of a scope as in `topics_of`."""
        return toc.categories(
            self.index, self.topics_of(scope) if scope else self.topics(filter), self.config.categories
        )

    def folders(self) -> Mapping[str, int]:
        """Return how many notes each folder holds, with the folders in it; under "" those that are in no folder."""
        self.refresh()
        return toc.folders(self.index)

    def tags(self, most: int = 100) -> list[tuple[str, int]]:
        """Return the `most` commonest tags with their numbers of notes, most used first."""
        self.refresh()
        return self.index.catalog.commonest("tags", (NO_GUIDES, *self.index.visible), most)

    def about(self, topic: Topic) -> toc.TopicSummary:
        """Return a topic's title and a one-line summary, from its main note."""
        return toc.about(self.index, topic)

    def topics_of(self, scope: str) -> list[Topic]:
        """Return the topics of one scope: a frontmatter `scope`, a category, or a folder. Raises MemoryNotFound."""
        self.refresh()
        return toc.topics_of(self.index, scope)

    def topic(self, topic: str) -> list[StoredChunk]:
        """Return all chunks of a topic (`topic` or `category/topic`) in reading order. Raises MemoryNotFound."""
        self.refresh()
        return toc.chunks_of(self.index, topic)

    def validate(
        self, chunk: object, *, source: str | None = None, category: str | None = None
    ) -> tuple[memory.Findings, list[Duplicate]]:
        """Check a chunk without writing it; return errors, warnings, and the chunks it would repeat."""
        return write.validate(self.index, self.searcher, chunk, source, category)

    # -- state

    def log(self, most: int | None = 20, path: str = "") -> list[Entry]:
        """Return the changes that tools and commands made in the vault, or at a `path`, newest first."""
        return self.index.vault.journal.entries(most, path)

    def qualified(self, fields: Any) -> Any:
        """Return an answer's fields for JSON, first why the notes may not all be there, if anything keeps them away."""
        is_incomplete = self.complaint and isinstance(fields, Mapping)
        return {"degraded": self.complaint, **fields} if is_incomplete else fields

    def state(self) -> question.State:
        """Return the state of the index, as answers carry it."""
        now: question.State = question.state(self.index, self.index.catalog.counts(), self._degraded())
        return now

    def warm_up(self) -> None:
        """Load the model and the vectors before the first search needs them."""
        with unhurried():
            self.searcher.ask(question.Question("spellbook", limit=1))

    def release(self, before: float) -> None:
        """Free the model, Chroma and vectors in memory, each if unused since `before` (monotonic clock, seconds)."""
        if any((lazy_engine.release(before), self._release(before))):
            children.trim()

    def _release(self, before: float) -> bool:
        """Free what is this reader's own and unused since `before`; return whether there was any."""
        if is_idle := self.loaded is not None and self.loaded.used <= before:
            self.loaded = None  # a running search keeps its own reference
        return self.index.chroma.release(before) or is_idle

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes, chunks by category, response times, and the notes opened most."""
        return status.figures(self.index, self.meter)

    def status(self) -> dict[str, Any]:
        """Return paths, counts, sizes, processes, and the faults that a person should fix."""
        return status.status(self.index, self.meter, self.snapshots, self.complaint)

    @cached_property
    def snapshots(self) -> taken.Snapshots:
        """The snapshots of the vault; see `archive.snapshots`."""
        return taken.Snapshots(self.index.vault, self.config.snapshot_folder)
