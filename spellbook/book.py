"""
Spellbook: a vault opened with its index, and the verbs on it.

Every door (tools, command line, watcher) and every Python program goes through
here. Verbs may be called from any thread.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from spellbook import config
from spellbook.config import Config
from spellbook.errors import EmbeddingError, InvalidInput, MemoryNotFound, SpellbookError, StorageError, VaultNotFound
from spellbook.index import sync
from spellbook.index.catalog.schema import Found, Topic
from spellbook.index.catalog.sessions import Session
from spellbook.index.embed import Progress, embed_texts, maintain
from spellbook.index.filters import Filter, conditions
from spellbook.index.metrics import Meter
from spellbook.index.opened import Index
from spellbook.index.sync import Report
from spellbook.maintenance import doctor
from spellbook.models.base import Embedder
from spellbook.system import processes
from spellbook.system.sqlite import Damaged
from spellbook.text.unicode import door
from spellbook.vault.vault import UNDER_WAY

if TYPE_CHECKING:
    from spellbook.archive.export import Exported
    from spellbook.archive.importer import Imported
    from spellbook.archive.restore import Restored as RestoredSnapshot
    from spellbook.archive.snapshots import Snapshots
    from spellbook.editing import memory, write
    from spellbook.editing.merge import Keep, Merged
    from spellbook.editing.moves import Moved
    from spellbook.editing.repair_links import Offer
    from spellbook.editing.scribe import Scribed
    from spellbook.editing.undo import Undone
    from spellbook.maintenance.evaluate import Checked
    from spellbook.maintenance.migrate import Estimate, Migrated
    from spellbook.search.explain import Explanation
    from spellbook.search.related import Around, Backlink
    from spellbook.search.searcher import Answer, Searcher, State
    from spellbook.search.toc import About, Category
    from spellbook.vault.journal import Entry

T = TypeVar("T")

_AT_ONCE = 64
"""Texts that a search embeds by itself before it answers; more wait for a reindex or a watcher."""

_PATIENCE = 2.0
"""Seconds after which it begins no further batch of them: clients give up on a server that is slow to answer."""


def open(
    vault: str | Path | None = None, *, embedder: str | None = None, state: str | Path | None = None, scope: str | None = None
) -> Spellbook:
    """
    Open a vault: the folder given, else the one that `config.find_vault` finds; with `scope`, see `scopes`, as that one sees it.

    Raises VaultNotFound, InvalidInput for settings that make no sense, StorageError.
    """
    return Spellbook(config.load(vault, embedder=embedder, state=state, scope=scope))


@door(import_="source", export="file", restore_snapshot="into")
class Spellbook:
    """A vault and its index; use it as a context manager, or call `close`. Text that is no valid Unicode raises InvalidInput."""

    def __init__(self, settings: Config, embedder: Embedder | None = None) -> None:
        self.config = settings
        self.index = Index.open(settings, embedder)
        self._meter = Meter(self.index.catalog.usage)
        self.watched = processes.Watched()
        """What a watcher in this process last handed over."""
        self.complaint = ""
        """Why the last look at the vault could not be finished, "" if it could."""
        self._loaded: Searcher | None = None

    @property
    def _searcher(self) -> Searcher:
        if self._loaded is None:
            from spellbook.search.searcher import Searcher

            self._loaded = Searcher(self.index)
        return self._loaded

    def __enter__(self) -> Spellbook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and connections."""
        self._meter.flush()
        self.index.close()

    # -- finding

    def search(self, query: str, **asked: Any) -> Answer:
        """Search by meaning and by words; `asked` are the fields of `search.searcher.Question`: limit, filter, min_score, max_tokens."""
        return self._ask("search", query, **asked)

    def memorize(self, query: str, **asked: Any) -> Answer:
        """Search by meaning alone."""
        return self._ask("memorize", query, **asked)

    def find(self, keywords: str | Sequence[str], match: str = "any", **asked: Any) -> Answer:
        """Search by words: each keyword is a phrase; `match` is `any` or `all` of them."""
        words = (keywords,) if isinstance(keywords, str) else tuple(keywords)
        if match not in {"any", "all"}:
            raise InvalidInput(f"match={match!r:.80} makes no sense.", "It is any or all.")
        return self._ask("find", " ".join(words), keywords=words, match_all=match == "all", **asked)

    def why(self, query: str, id: str | None = None, verb: str = "search", **asked: Any) -> Explanation:
        """
        Explain what `search`, `memorize` or `find` makes of `query`, or what became of the chunk or note `id` in it.

        Raises MemoryNotFound for an unknown id.
        """
        from spellbook.search import explain
        from spellbook.search.searcher import VERBS, Question

        if verb not in VERBS:
            raise InvalidInput(f"There is no search {verb!r:.80}.", f"It is {', '.join(VERBS)}.")
        keywords = (query,) if verb == "find" else ()
        question = Question(query, VERBS[verb], keywords=keywords, **asked)
        self.refresh(embed=verb != "find")
        return explain.why(self.index, self._searcher, question, id)

    def _ask(self, verb: str, query: str, **asked: Any) -> Answer:
        from spellbook.search.searcher import VERBS, Question

        question = Question(query, VERBS[verb], **asked)
        with self._meter.timed(verb):
            self.refresh(embed=verb != "find")
            answer = self._searcher.ask(question)
        told = "; ".join(filter(None, (answer.index.reason, self.complaint, doctor.unseen(self.index))))
        return replace(answer, index=replace(answer.index, degraded=answer.index.degraded or bool(told), reason=told))

    def show(self, id: str) -> list[Found]:
        """Return the chunk with this id, or all chunks of the note with this id or path. Raises MemoryNotFound."""
        from spellbook.index import lookup

        self.refresh()
        found = lookup.chunks_of(self.index, id)
        self._opened(found)
        return found

    def around(self, id: str) -> Around:
        """Return what is around the note with this id or path, or of this chunk: links, backlinks, related. Raises MemoryNotFound."""
        from spellbook.index import lookup
        from spellbook.search import related

        self.refresh()
        return related.around(self.index, lookup.resolve(self.index, id).path)

    def backlinks(self, paths: Collection[str]) -> tuple[Backlink, ...]:
        """Return the notes, other than those at `paths`, that link to one of these."""
        from spellbook.search import related

        return related.backlinks(self.index, paths)

    def _opened(self, found: Sequence[Found]) -> None:
        if self.config.count_use:
            with contextlib.suppress(SpellbookError):  # to count is no reason not to read
                self.index.catalog.usage.opened(each.note for each in found)

    def topics(self, filter: Filter | None = None) -> list[Topic]:
        """Return every topic with its counts, by category."""
        self.refresh()
        return self.index.catalog.topics((*conditions(filter), *self.index.visible))

    def contents(self, scope: str = "", filter: Filter | None = None) -> tuple[Category, ...]:
        """Return the table of contents: categories with their topics, of all or of a scope as `topics_of` takes it."""
        from spellbook.search import toc

        topics = self.topics_of(scope) if scope else self.topics(filter)
        return toc.categories(self.index, topics, self.config.categories)

    def about(self, topic: Topic) -> About:
        """Return what a topic is called by the note that stands for it, and one line of what it is about."""
        from spellbook.search import toc

        return toc.about(self.index, topic)

    def topics_of(self, scope: str) -> list[Topic]:
        """Return the topics of one scope: a frontmatter `scope`, a category, or a folder. Raises MemoryNotFound."""
        from spellbook.search import toc

        self.refresh()
        return toc.topics_of(self.index, scope)

    def topic(self, topic: str) -> list[Found]:
        """Return all chunks of a topic, named as `topic` or `category/topic`, in reading order. Raises MemoryNotFound."""
        from spellbook.search import toc

        self.refresh()
        return toc.chunks_of(self.index, topic)

    # -- keeping up

    def reindex(self, *, full: bool = False, words_only: bool = False, progress: Progress | None = None) -> Report:
        """Bring the index up to the vault, everything anew with `full`, without vectors with `words_only`."""
        self.follow()
        self._finish_move()
        report = sync.run(self.index, full=full, words_only=words_only, progress=progress)
        self._meter.count("embedded", report.embedded)
        self._meter.count("reused", report.reused)
        self.complaint = ""
        return report

    def refresh(self, *, embed: bool = False) -> None:
        """Look at the vault before answering, unless a watcher does so all the time; with `embed`, new texts get their vectors."""
        self.follow()
        try:
            self._finish_move()
            # An index that was begun anew is filled at once, whoever watches.
            looked = self._looked()
            if looked is not None and (self.watched.is_current or self.is_watched()):
                self.complaint = looked
                return
            self._look()
            self.complaint = ""
        except (StorageError, VaultNotFound, InvalidInput) as error:
            self.complaint = str(error)  # what is known already can still be found
            return
        if embed:
            until = time.monotonic() + _PATIENCE
            with contextlib.suppress(EmbeddingError):
                embed_texts(self.index, most=_AT_ONCE, stop=lambda: time.monotonic() > until)

    def follow(self) -> None:
        """Go over to the embedder that another process has migrated the vault to, if one has."""
        with contextlib.suppress(Damaged):
            if (followed := self.index.followed()) is not None:
                self._go_over(followed)

    def _go_over(self, index: Index) -> None:
        before, self.index, self.config = self.index, index, index.config
        self._loaded = None
        before.chroma.close()

    def hand_over(self, watched: processes.Watched) -> None:
        """Take from a watcher in this process what it knows of the vault."""
        self.watched, self.complaint = watched, watched.complaint

    def _finish_move(self) -> None:
        if (self.config.state / UNDER_WAY).exists():
            from spellbook.editing import moves

            moves.finish(self.index)

    def _looked(self) -> str | None:
        with contextlib.suppress(Damaged):
            return self.index.catalog.looked
        return None

    def _look(self) -> None:
        try:
            sync.scan(self.index)
        except Damaged:  # its next use begins a new catalog
            sync.scan(self.index)

    def is_watched(self) -> bool:
        """Say whether some process watches this vault and sees every folder of it."""
        return processes.is_watched(self.config.state)

    # -- writing

    def scribe(self, chunk: object, **options: Any) -> Scribed:
        """Keep one finished chunk `{"text", "metadata"}`; `options` as for `scribe_all`."""
        return self.scribe_all([chunk], **options)

    def scribe_all(
        self,
        given: Sequence[object],
        *,
        source: str | None = None,
        category: str | None = None,
        force: bool = False,
        session: str | None = None,
    ) -> Scribed:
        """
        Keep finished chunks, each as one note; findable when this returns.

        All are checked first. Raises InvalidInput if one of them is no chunk;
        if one repeats what is there already, nothing is written unless `force`.
        """
        from spellbook.editing import scribe

        self.follow()
        with self._meter.timed("scribe"):
            done = scribe.scribe(self.index, self._searcher, given, source, category, force=force)
        if session and done.written:
            self.index.catalog.sessions.count(session, len(done.written))
        return done

    def validate(
        self, chunk: object, *, source: str | None = None, category: str | None = None
    ) -> tuple[memory.Findings, list[write.Duplicate]]:
        """Check a chunk without writing it; return what was found and what it would repeat."""
        from spellbook.editing import scribe

        return scribe.validate(self.index, self._searcher, chunk, source, category)

    def revise(
        self,
        chunk_id: str,
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_hash: str | None = None,
        **asked: Any,
    ) -> write.Revised:
        """Change a section's text, frontmatter keys, or both; `asked` are the other fields of `write.Revision`: append, replace …"""
        from spellbook.editing import write

        revision = write.Revision(content, metadata=metadata, expected_hash=expected_hash, **asked)
        return self._known(lambda: write.revise(self.index, chunk_id, revision))

    def erase(self, id: str, *, hard: bool = False) -> write.Erased:
        """Erase a note, by its id or path, or one section, by its own id, into the trash; see `editing.write.erase`."""
        from spellbook.editing import write

        return self._known(lambda: write.erase(self.index, id, hard=hard))

    def _known(self, change: Callable[[], T]) -> T:
        """Change a note; only if it is not where the index has it, look at the vault first."""
        self.follow()
        try:
            return change()
        except MemoryNotFound:
            self.refresh()
            return change()

    def erase_topic(self, topic: str, *, hard: bool = False) -> write.Erased:
        """Erase every note of a topic into the trash."""
        from spellbook.editing import write
        from spellbook.search import toc

        self.topic(topic)  # raises, and names topics that are spelled alike
        category, name = toc.category_and_topic(self.index, topic)
        return write.erase_topic(self.index, name, category, hard=hard)

    def merge(self, a: str, b: str, *, keep: Keep = "", apply: bool = False) -> Merged:
        """Make one note of two that say much the same; only shown unless `apply`. See `editing.merge.merge`."""
        from spellbook.editing.merge import merge

        return self._known(lambda: merge(self.index, a, b, keep=keep, apply=apply))

    def restore(self, name: str) -> tuple[str, ...]:
        """Bring back what was erased, named by its path in the trash or by what it was erased by; see `editing.undo.restore`."""
        from spellbook.editing import undo

        return undo.restore(self.index, name)

    def log(self, most: int | None = 20) -> list[Entry]:
        """Return what tools and commands changed in the vault, the newest first."""
        return self.index.vault.journal.entries(most)

    def undo(self, entry: int | None = None, *, dry_run: bool = False) -> Undone:
        """Undo the latest change, or the one with this number in the log; see `editing.undo.undo`."""
        from spellbook.editing import undo

        self.refresh()
        return undo.undo(self.index, entry, dry_run=dry_run)

    def move(self, old: str, new: str, *, dry_run: bool = False) -> Moved:
        """Give the note or folder `old` the path `new`, and mend the links to it and in it; see `editing.moves.move`."""
        from spellbook.editing import moves

        return moves.move(self.index, old, new, dry_run=dry_run)

    # -- backups

    def export(
        self, file: str | Path | BinaryIO, format: str | None = None, *, filter: Filter | None = None, attachments: bool = True
    ) -> Exported:
        """
        Write the vault, or the notes that `filter` leaves, into a file or an open stream; see `archive.export.into_file`.

        `format` is json or markdown (a zip); unless it is given, the file's ending says it, and JSON is it without one.
        """
        from spellbook.archive import export

        only = None
        if filter:
            self.refresh()
            only = set(self.index.catalog.paths(conditions(filter)))
        vault, form = self.index.vault, export.form_of(str(file), format)
        if isinstance(file, str | Path):
            return export.into_file(vault, Path(file), form, only=only, attachments=attachments)
        return export.write(vault, file, form, only=only, attachments=attachments)

    def import_(self, source: str | Path | None = None, *, progress: Progress | None = None, **asked: Any) -> Imported:
        """
        Take what an export, a folder, a zip or a note holds into the vault, all of it or nothing; `asked`: see `archive.importer.Asked`.

        What was imported is findable by words when this returns. Without a source, an import that was cut short is finished.
        """
        from spellbook.archive import importer

        self.refresh()  # where notes are that were imported before
        if source is None:
            done = importer.finish(self.index)
        else:
            done = importer.run(self.index, Path(source).expanduser(), importer.Asked(**asked), progress)
        if not done.dry_run:
            sync.scan(self.index)
        return done

    @cached_property
    def snapshots(self) -> Snapshots:
        """The vault as it was on earlier days; see `archive.snapshots`."""
        from spellbook.archive.snapshots import Snapshots

        return Snapshots(self.index.vault, self.config.snapshot_folder)

    def restore_snapshot(
        self, name: str, into: str | Path | None = None, *, skip_damaged: bool = False, progress: Progress | None = None
    ) -> RestoredSnapshot:
        """Bring back the vault of a snapshot, over the one that is there or into an empty folder; see `Snapshots.restore`."""
        done = self.snapshots.restore(name, Path(into).expanduser() if into else None, progress, skip_damaged=skip_damaged)
        if into is None:
            sync.scan(self.index, full=True)  # many may be gone, as was asked for
        return done

    # -- REST sessions

    def rest(self, language: str = "en") -> tuple[Session, dict[str, Any], dict[str, Any]]:
        """Open a session for writing; return it with the chunking guide and the metadata rules in `language` (en, ko)."""
        from spellbook.editing import sessions

        sessions.check_language(language)
        self.refresh()  # for the guides that the vault may hold
        return sessions.begin(self.index, language)

    def rest_end(self, session_id: str | None) -> Session:
        """End a session. Raises RestRequired, RestInvalid, RestExpired."""
        from spellbook.editing import sessions

        return sessions.end(self.index, session_id)

    def require_session(self, session_id: str | None) -> Session:
        """Return a live session. Raises RestRequired, RestInvalid, RestExpired, each saying what to do."""
        from spellbook.editing import sessions

        return sessions.live(self.index, session_id)

    # -- state

    def state(self) -> State:
        """Return the state of the index, as answers carry it."""
        from spellbook.search import searcher

        told = "; ".join(filter(None, (self.complaint, doctor.unseen(self.index))))
        return searcher.state(self.index, self.index.catalog.counts(), told)

    def warm_up(self) -> None:
        """Load what the first search would load."""
        from spellbook.search.searcher import Question

        self._searcher.ask(Question("spellbook", "both", limit=1))

    def release(self, before: float) -> None:
        """Release the model, Chroma and the vectors in memory, each if unused since `before` by the monotonic clock."""
        from spellbook.models.onnx.lazy_engine import release
        from spellbook.notes import markdown
        from spellbook.system import heap

        searcher = self._loaded
        is_idle = searcher is not None and searcher.used <= before
        if is_idle:
            self._loaded = None  # a search under way keeps the one it has
        if any((release(before), self.index.chroma.release(before), markdown.forget(), is_idle)):
            heap.trim()

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes, the chunks of each category, how long verbs took, and what was opened most."""
        return doctor.figures(self.index, self._meter)

    def status(self) -> dict[str, Any]:
        """Return where things are, what state they are in, and what a person should mend."""
        return {
            **doctor.places(self.index),
            "snapshots": self.snapshots.state(),
            **self.stats(),
            "faults": [asdict(fault) for fault in doctor.faults(self.index)],
            **({"warning": self.complaint} if self.complaint else {}),
        }

    def check(self, *, progress: Progress | None = None, **held_to: Any) -> Checked:
        """
        Ask every note its own questions and compare all texts; `held_to` are the fields of `maintenance.evaluate.Standard`.

        Raises InvalidInput for a filter, a share or golden queries that make no sense.
        """
        from spellbook.maintenance import evaluate

        standard = evaluate.Standard(**held_to)
        self.refresh(embed=True)
        checked = evaluate.run(self.index, self._searcher, standard, progress)
        return replace(checked, failures=(*checked.failures, self.complaint)) if self.complaint else checked

    def estimate(self, to: str) -> Estimate:
        """Return what `migrate` to the embedder `to` will take, measured on a few texts. Raises as `migrate` does."""
        from spellbook.maintenance import migrate

        return migrate.estimate(migrate.beside(self.index, to))

    def migrate(self, to: str, *, progress: Progress | None = None, checked: bool = True) -> Migrated:
        """
        Go over to the embedder `to`: build its vectors beside those in use, then switch; with `checked`, `check` before and after.

        Searching goes on meanwhile; what was ended goes on with the next call.
        Raises InvalidInput for an embedder that cannot be the vault's, Conflict
        if another process is at a migration, EmbeddingError if the embedder fails.
        """
        from spellbook.maintenance import migrate

        with migrate.alone(self.index):
            aside = migrate.beside(self.index, to)
            old = self.index.catalog.fingerprint
            if old == self.index.embedder.fingerprint:
                self.refresh()
            before = self.check(progress=progress) if checked and old == self.index.embedder.fingerprint else None
            embedded = migrate.build(aside, progress)
            migrate.switch(self.index, aside)
            self._go_over(aside)
            maintain(aside, embedded)
            after = self.check(progress=progress) if checked else None
        return migrate.Migrated(aside.embedder.name, old != aside.embedder.fingerprint, embedded, before, after)

    def migrate_back(self, *, progress: Progress | None = None) -> Migrated:
        """Go back to the embedder before the last migration. Raises InvalidInput if there was none."""
        from spellbook.maintenance import migrate

        return self.migrate(migrate.left(self.index), progress=progress, checked=False)

    def doctor(self) -> Iterator[tuple[str, list[str]]]:
        """Check one thing after another; yield its name and what is wrong with it, nothing if it is well."""
        self.refresh(embed=True)
        yield from doctor.checks(self.index, self.snapshots, self.complaint)

    def mend_links(self, *, dry_run: bool = False) -> Offer:
        """Mend the links that lead nowhere and whose meaning is known; see `editing.repair_links.mend`."""
        from spellbook.editing import repair_links

        return repair_links.mend(self.index, dry_run=dry_run)
