"""
Spellbook: a vault opened with its index, and the verbs on it.

The command line, the MCP tools, the watcher and Python programs all use it. Verbs may be called from any thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, Unpack

from spellbook.index import lookup, sync
from spellbook.index.catalog.schema import StoredChunk, Topic
from spellbook.index.catalog.sessions import Session
from spellbook.index.embed import Progress
from spellbook.index.filters import Filter, conditions
from spellbook.index.metrics import Meter
from spellbook.index.opened import Index
from spellbook.library import doctor, upkeep
from spellbook.models.base import Embedder
from spellbook.settings import config
from spellbook.system import processes
from spellbook.system.errors import MemoryNotFound, SpellbookError
from spellbook.system.lazy import lazy
from spellbook.system.sqlite import Damaged
from spellbook.text.unicode import door

if TYPE_CHECKING:
    from spellbook.archive import export, importer
    from spellbook.archive import snapshots as taken
    from spellbook.archive.restore import Restored
    from spellbook.editing import cleanup, memory, merge, moves, repair_links, revise, sessions, undo, write
    from spellbook.editing.revise import Erased, Revised
    from spellbook.library import evaluate, migrate
    from spellbook.library.migrate import Estimate, Migrated
    from spellbook.memories import memories
    from spellbook.memories import wikis as documents
    from spellbook.search import explain, newest, question, related, searcher, toc
    from spellbook.search.explain import Explanation
    from spellbook.search.question import Answer, Options
    from spellbook.vault.journal import Entry
else:  # Imported at their first use: `import spellbook` and a reindex with nothing to do stay light.
    export, importer, taken = lazy("spellbook.archive", "export", "importer", "snapshots")
    cleanup, merge, moves, repair_links = lazy("spellbook.editing", "cleanup", "merge", "moves", "repair_links")
    revise, sessions, undo, write = lazy("spellbook.editing", "revise", "sessions", "undo", "write")
    evaluate, migrate = lazy("spellbook.library", "evaluate", "migrate")
    memories, documents = lazy("spellbook.memories", "memories", "wikis")
    names = ("explain", "newest", "question", "related", "searcher", "toc")
    explain, newest, question, related, searcher, toc = lazy("spellbook.search", *names)

T = TypeVar("T")


def open(
    vault: str | Path | None = None,
    *,
    embedder: str | None = None,
    state: str | Path | None = None,
    scope: str | None = None,
    wikis: Sequence[str | Path] | None = None,
) -> Spellbook:
    """
    Open a vault: the given folder, or else the one that `config.find_vault` finds.

    With `scope`, searches and lists see that scope only; see `index.scopes`. `wikis` are folders of documents beside
    it; see `memories.wikis`. Raises VaultNotFound, InvalidInput for settings that make no sense, StorageError.
    """
    return Spellbook(config.load(vault, embedder=embedder, state=state, scope=scope, wikis=wikis))


@door(import_="source", export="file", restore_snapshot="into")
class Spellbook:
    """A vault and its index; use it as a context manager, or call `close`. Invalid Unicode raises InvalidInput."""

    def __init__(self, settings: config.Config, models: Embedder | Index | None = None) -> None:
        self.config = settings
        self.index = Index.open(settings, models)
        self.meter = Meter(self.index.catalog.usage)
        self.watched = processes.Watched()  # what a watcher in this process last reported
        self.complaint = ""  # why the last scan of the vault failed, "" if it did not
        self.loaded: searcher.Searcher | None = None
        """The searcher, once a search has loaded the vectors and while they are still in memory."""
        self.beside: list[Spellbook] = []
        """Books that use this book's models and end with it: of folders of documents, of a part, of an earlier time."""

    @property
    def _searcher(self) -> searcher.Searcher:
        self.loaded = self.loaded or searcher.Searcher(self.index)
        return self.loaded

    def __enter__(self) -> Spellbook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close files and connections."""
        for each in self.beside:
            each.close()
        self.meter.flush()
        self.index.close()

    @property
    def memories(self) -> memories.Memories:
        """What is kept on purpose: memories, decisions and articles, as they are now. See `memories.memories`."""
        self.refresh()
        return memories.Memories(self.index, self._searcher, self.meter, partial(self._ask, look=False))

    @property
    def wikis(self) -> documents.Wikis:
        """Folders of documents beside the vault: search, index, status. See `memories.wikis`."""
        return documents.Wikis(self, Spellbook)

    # -- finding

    def search(self, query: str, **options: Unpack[Options]) -> Answer:
        """
        Search by meaning and by words.

        `options` are `also` (up to 3 further texts), `limit` (1 to 100 hits, 5), `filter` (see docs/reference.md),
        `min_score` (0..1), `max_tokens` (of the answer's texts, 2,000). Raises InvalidInput for what makes no sense.
        """
        return self._ask("search", query, **options)

    def memorize(self, query: str, **options: Unpack[Options]) -> Answer:
        """Search by meaning alone; `options` as for `search`."""
        return self._ask("memorize", query, **options)

    def find(self, keywords: str | Sequence[str], match: str = "any", **options: Unpack[Options]) -> Answer:
        """Search by words: each keyword is a phrase, `match` is `any` or `all` of them; `options` as for `search`."""
        return self._ask("find", keywords, match, **options)

    def why(self, query: str, id: str | None = None, verb: str = "search", **options: Unpack[Options]) -> Explanation:
        """
        Explain what `search`, `memorize` or `find` makes of `query`, or what became of the chunk or note `id` in it.

        `options` as for `search`. Raises MemoryNotFound for an unknown id.
        """
        asked = question.question(verb, query, **options)
        self.refresh(embed=asked.mode != "keyword")
        return explain.why(self.index, self._searcher, asked, id)

    def _ask(
        self, verb: str, query: str | Sequence[str], match: str = "any", look: bool = True, **options: Unpack[Options]
    ) -> Answer:
        asked = question.question(verb, query, match, **options)
        is_by_words = asked.mode == "keyword"
        with self.meter.timed(verb) as taken:
            self.refresh(embed=not is_by_words, look=look)
            loaded = self._searcher
            answer = loaded.ask(asked)
        self.meter.searched(answer.is_cached, asked.text, taken.ms, is_warm=is_by_words in loaded.warm)
        loaded.warm.add(is_by_words)
        reason = self._degraded(answer.index.reason)
        state = replace(answer.index, degraded=answer.index.degraded or bool(reason), reason=reason)
        return replace(answer, index=state, ms=round(taken.ms, 1))

    def _degraded(self, *reasons: str) -> str:
        """Return what keeps answers from being complete, "" if nothing does."""
        return "; ".join(filter(None, (*reasons, self.complaint, doctor.unseen(self.index))))

    def recent(self, limit: int = 20, offset: int = 0, filter: Filter | None = None) -> newest.Recent:
        """Return the first chunk of each note, newest first by its date (filter key `when`). Raises InvalidInput."""
        self.refresh()
        return newest.recent(self.index, limit, offset, filter)

    def show(self, id: str) -> list[StoredChunk]:
        """Return the chunk with this id, or all chunks of the note with this id or path. Raises MemoryNotFound."""
        self.refresh()
        found = lookup.chunks_of(self.index, id)
        if self.config.count_use:
            with contextlib.suppress(SpellbookError):  # reading works even if counting fails
                self.index.catalog.usage.opened(each.note for each in found)
        return found

    def resolve(self, id: str) -> StoredChunk:
        """Return the chunk with this id, or the first of the note with this id or path. Raises MemoryNotFound."""
        self.refresh()
        return lookup.resolve(self.index, id)

    def alike(
        self, id: str, filter: Filter | None = None, *, limit: int = 5, least: float = 0.75
    ) -> list[tuple[StoredChunk, float]]:
        """Return the chunks of other notes that say nearly what a note says, each with its score, best first."""
        return self._searcher.alike(lookup.resolve(self.index, id).path, conditions(filter), limit, least)

    def around(self, id: str) -> related.Around:
        """Return links, backlinks and related notes of a note (id, path or a chunk's id). Raises MemoryNotFound."""
        self.refresh()
        return related.around(self.index, lookup.resolve(self.index, id).path)

    def backlinks(self, paths: Collection[str]) -> tuple[related.Backlink, ...]:
        """Return the other notes that link to one of the notes at `paths`."""
        return related.backlinks(self.index, paths)

    def topics(self, filter: Filter | None = None) -> list[Topic]:
        """Return every topic with its counts, sorted by category."""
        self.refresh()
        return self.index.catalog.topics((*conditions(filter), *self.index.visible))

    def contents(self, scope: str = "", filter: Filter | None = None) -> tuple[toc.Category, ...]:
        """Return the table of contents: categories with their topics, of all notes or of a scope as in `topics_of`."""
        return toc.categories(
            self.index, self.topics_of(scope) if scope else self.topics(filter), self.config.categories
        )

    def about(self, topic: Topic) -> toc.About:
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

    # -- keeping up

    def reindex(self, *, full: bool = False, words_only: bool = False, progress: Progress | None = None) -> sync.Report:
        """Update the index: `full` reads every note again, `words_only` embeds nothing."""
        self.follow()
        upkeep.finish_move(self.index)
        report = sync.run(self.index, full=full, words_only=words_only, progress=progress)
        self.meter.count("embedded", report.embedded)
        self.meter.count("reused", report.reused)
        self.complaint = ""
        return report

    def refresh(self, *, embed: bool = False, look: bool = True) -> None:
        """Scan the vault for changes, unless a watcher does so or it was done (`look`); `embed` some new texts."""
        self.follow()
        found = upkeep.refresh(self.index, watching=self.watched.is_current, embed=embed, look=look)
        self.complaint = found if look else self.complaint

    def follow(self) -> None:
        """Switch to the embedding model that another process has migrated the vault to, if it has."""
        with contextlib.suppress(Damaged):
            if (followed := self.index.followed()) is not None:
                self.use(followed)

    def use(self, index: Index) -> None:
        """Go on with this form of the index, which shares the catalog."""
        before, self.index, self.config, self.loaded = self.index, index, index.config, None
        before.chroma.close()

    def hand_over(self, watched: processes.Watched) -> None:
        """Take over what a watcher in this process knows of the vault."""
        self.watched, self.complaint = watched, watched.complaint

    def is_watched(self) -> bool:
        """Return whether a process watches every folder of this vault."""
        return processes.is_watched(self.config.state)

    # -- writing

    def scribe(self, chunk: object, **options: Unpack[write.Options]) -> write.Scribed:
        """Save one finished chunk `{"text", "metadata"}` as a note, as `scribe_all` does."""
        return self.scribe_all([chunk], **options)

    def scribe_all(self, given: Sequence[object], **options: Unpack[write.Options]) -> write.Scribed:
        """
        Save finished chunks, each as one note; the options are those of `write.Options`. Search finds them at once.

        All are checked first: raises InvalidInput; if one repeats a chunk, nothing is written unless `force` is set.
        """
        self.index.vault.check_there()
        self.follow()
        with self.meter.timed("scribe"):
            return write.scribe(self.index, self._searcher, given, **options)

    def validate(
        self, chunk: object, *, source: str | None = None, category: str | None = None
    ) -> tuple[memory.Findings, list[write.Duplicate]]:
        """Check a chunk without writing it; return errors, warnings, and the chunks it would repeat."""
        return write.validate(self.index, self._searcher, chunk, source, category)

    def revise(
        self,
        chunk_id: str,
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_hash: str | None = None,
        *,
        append: str | None = None,
        replace: tuple[str, str] | None = None,
        every: bool = False,
        dry_run: bool = False,
        force: bool = False,
    ) -> Revised:
        """
        Change a section's text, frontmatter keys, or both. The options are the fields of `editing.revise.Revision`.

        Raises MemoryNotFound, InvalidInput, and Conflict if the note changed since `expected_hash`.
        """
        revision = revise.Revision(content, append, replace, every, metadata, expected_hash, dry_run, force)
        return self._known(lambda: revise.revise(self.index, chunk_id, revision))

    def erase(self, id: str, *, hard: bool = False, whole: bool = False) -> Erased:
        """Move a note (its id or path) or a section (its id; `whole`: its note) to the trash; `hard` deletes it."""
        return self._known(lambda: revise.erase(self.index, id, hard=hard, whole=whole))

    def _known(self, change: Callable[[], T]) -> T:
        """Run `change`; if the note is not where the index has it, scan the vault and try again."""
        self.index.vault.check_there()
        self.follow()
        try:
            return change()
        except MemoryNotFound:
            self.refresh()
            return change()

    def forget_working(self, days: float | None = None) -> Erased | None:
        """Move working memories to the trash that nobody touched for `days` (`working_days`); undo takes it back."""
        self.index.vault.check_there()
        self.refresh()
        return cleanup.forget(self.index, days)

    def erase_topic(self, topic: str, *, hard: bool = False) -> Erased:
        """Move every note of a topic to the trash."""
        self.index.vault.check_there()
        self.topic(topic)  # raises MemoryNotFound, with similar names
        category, name = toc.category_and_topic(self.index, topic)
        return revise.erase_topic(self.index, name, category, hard=hard)

    def merge(self, a: str, b: str, *, keep: merge.Keep = "", apply: bool = False) -> merge.Merged:
        """Merge two similar notes into one; writes nothing unless `apply` is set. See `editing.merge.merge`."""
        return self._known(lambda: merge.merge(self.index, a, b, keep=keep, apply=apply))

    def restore(self, name: str) -> tuple[str, ...]:
        """Restore what was erased: name its path in the trash, or the id, path or topic. See `editing.undo.restore`."""
        self.index.vault.check_there()
        return undo.restore(self.index, name)

    def log(self, most: int | None = 20) -> list[Entry]:
        """Return the changes that tools and commands made in the vault, newest first."""
        return self.index.vault.journal.entries(most)

    def undo(self, entry: int | None = None, *, dry_run: bool = False) -> undo.Undone:
        """Undo the latest change, or the one with this number in the log; see `editing.undo.undo`."""
        self.index.vault.check_there()
        self.refresh()
        return undo.undo(self.index, entry, dry_run=dry_run)

    def move(self, old: str, new: str, *, dry_run: bool = False) -> moves.Moved:
        """Move the note or folder `old` to `new`, and update the links to it and in it. See `editing.moves.move`."""
        self.index.vault.check_there()
        return moves.move(self.index, old, new, dry_run=dry_run)

    # -- backups

    def export(
        self,
        file: str | Path | BinaryIO,
        format: str | None = None,
        *,
        filter: Filter | None = None,
        attachments: bool = True,
    ) -> export.Exported:
        """Write the vault, or the notes that meet `filter`, to a file or an open stream; see `archive.export.run`."""
        if filter:
            self.refresh()
        only = set(self.index.catalog.paths(conditions(filter))) if filter else None
        return export.run(self.index.vault, file, format, only=only, attachments=attachments)

    def import_(
        self,
        source: str | Path | None = None,
        *,
        on_conflict: str = "skip",
        dry_run: bool = False,
        into: str = "",
        attachments: bool = True,
        drop: bool = False,
        progress: Progress | None = None,
    ) -> importer.Imported:
        """
        Import an export, a folder, a zip or a note: all of it, or nothing; without a source, go on with an earlier one.

        The options are those of `archive.importer.Asked`. Search by words finds the notes when this returns.
        An import that was cut short goes on, or with `drop` ends, when it is called without a source; until then, a
        source raises Conflict.
        """
        self.index.vault.check_there()
        self.refresh()  # the catalog knows where earlier imports put their notes
        given = None if source is None else Path(source).expanduser()
        return importer.run(self.index, given, importer.Asked(on_conflict, dry_run, into, attachments, drop), progress)

    @cached_property
    def snapshots(self) -> taken.Snapshots:
        """The snapshots of the vault; see `archive.snapshots`."""
        return taken.Snapshots(self.index.vault, self.config.snapshot_folder)

    def restore_snapshot(
        self, name: str, into: str | Path | None = None, *, skip_damaged: bool = False, progress: Progress | None = None
    ) -> Restored:
        """Restore a snapshot, over the vault or into the empty folder `into`; see `Snapshots.restore`."""
        folder = Path(into).expanduser() if into else None
        done = self.snapshots.restore(name, folder, progress, skip_damaged=skip_damaged)
        if into is None:
            sync.scan(self.index, full=True)  # many notes may be gone, as the caller asked
        return done

    # -- REST sessions

    def rest(self, language: str = "en") -> tuple[Session, dict[str, Any], dict[str, Any]]:
        """Start a REST session for writing; return it with the chunking guide and the metadata rules (en, ko)."""
        sessions.check_language(language)
        self.refresh()  # the vault may have guides of its own
        return sessions.begin(self.index, language)

    def rest_end(self, session_id: str | None) -> Session:
        """End a session. Raises RestRequired, RestInvalid, RestExpired."""
        return sessions.end(self.index, session_id)

    def require_session(self, session_id: str | None) -> Session:
        """Return a session that is still open. Raises RestRequired, RestInvalid, RestExpired."""
        return sessions.live(self.index, session_id)

    # -- state

    def state(self) -> question.State:
        """Return the state of the index, as answers carry it."""
        return question.state_of(self.index, self._degraded())

    def warm_up(self) -> None:
        """Load the model and the vectors before the first search needs them."""
        self._searcher.ask(question.Question("spellbook", limit=1))

    def release(self, before: float) -> None:
        """Free the model, Chroma and vectors in memory, each if unused since `before` (monotonic clock, seconds)."""
        freed = []
        for book in (self, *self.beside):
            if idle := book.loaded is not None and book.loaded.used <= before:
                book.loaded = None  # a running search keeps its own reference
            freed += [idle, not book.config.sees and book.index.chroma.release(before)]  # a limited one has none
        upkeep.release(before, is_freed=any(freed))

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes, chunks by category, response times, and the notes opened most."""
        return doctor.figures(self.index, self.meter)

    def status(self) -> dict[str, Any]:
        """Return paths, counts, sizes, processes, and the faults that a person should fix."""
        return doctor.status(self.index, self.meter, self.snapshots, self.complaint)

    def check(
        self,
        *,
        filter: Filter | None = None,
        min_recall5: float = 0.0,
        min_mrr: float = 0.0,
        all_notes: bool = False,
        progress: Progress | None = None,
    ) -> evaluate.Checked:
        """Ask every note its own questions, and compare all texts; options and errors are `evaluate.Standard`'s."""
        standard = evaluate.Standard(filter, min_recall5, min_mrr, all_notes)
        self.refresh(embed=True)
        checked = evaluate.run(self.index, self._searcher, standard, progress)
        return replace(checked, failures=(*checked.failures, self.complaint)) if self.complaint else checked

    def estimate(self, to: str) -> Estimate:
        """Estimate the time and space that `migrate` to the embedder `to` will take. Raises as `migrate` does."""
        return migrate.estimate(migrate.beside(self.index, to))

    def migrate(self, to: str, *, progress: Progress | None = None, checked: bool = True) -> Migrated:
        """
        Switch to the embedder `to` without search downtime; with `checked`, run `check` before and after.

        The new vectors are built beside those in use; an interrupted migration goes on with the next call. Raises
        InvalidInput for an embedder that does not fit, Conflict if another process migrates, EmbeddingError.
        """
        self.index.vault.check_there()
        if self.index.catalog.fingerprint == self.index.embedder.fingerprint:  # else it would switch at once
            self.refresh()
        check = partial(self.check, progress=progress) if checked else None
        return migrate.run(self.index, to, self.use, check, progress)

    def migrate_back(self, *, progress: Progress | None = None) -> Migrated:
        """Switch back to the embedder before the last migration. Raises InvalidInput if there was none."""
        return self.migrate(migrate.left(self.index), progress=progress, checked=False)

    def doctor(self) -> Iterator[tuple[str, list[str]]]:
        """Run the health checks one by one; yield each one's name and the problems it found, if any."""
        self.refresh(embed=True)
        yield from doctor.checks(self.index, self.snapshots, self.complaint)

    def mend_links(self, *, dry_run: bool = False) -> repair_links.Offer:
        """Repair broken links whose target is known; see `editing.repair_links.mend`."""
        self.index.vault.check_there()
        return repair_links.mend(self.index, dry_run=dry_run)
