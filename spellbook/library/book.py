"""
Spellbook: a vault opened with its files and its index, and all verbs on it, for every door and any thread.

The index is updated before a question is answered, within a short time. One rule decides about a scan: none is needed
while a process watches the vault and has scanned it lately (`processes.is_watched`), or for a second after a scan that
found no change.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, Unpack

from spellbook.archive import export, importer, open_knowledge
from spellbook.editing import (
    erase,
    keep,
    merge,
    moves,
    repair_links,
    repair_properties,
    rest_guides,
    revise,
    scribed,
    undo,
    write,
)
from spellbook.index import sync
from spellbook.index.catalog.usage import Session
from spellbook.index.filters import Filter, conditions
from spellbook.index.opened import BEING_READ, Index, Progress
from spellbook.library import doctor, model_switch
from spellbook.library.reader import Reader
from spellbook.library.scanning import LastScan, embed_briefly, is_being_read, scan
from spellbook.memories import claude_memory
from spellbook.memories import project_documentation as documents
from spellbook.models.base import Embedder
from spellbook.search import duplicates, toc
from spellbook.settings import config
from spellbook.system import processes
from spellbook.system.errors import InvalidInput, MemoryNotFound, StorageError, VaultNotFound
from spellbook.system.lock import tell, waiting
from spellbook.system.sqlite import Damaged
from spellbook.text.unicode import door

if TYPE_CHECKING:
    from spellbook.archive.restore import Restored
    from spellbook.editing.erase import Erased
    from spellbook.editing.joining import Keep
    from spellbook.editing.keep import KeptNote
    from spellbook.editing.revise import Revised
    from spellbook.library.model_switch import Estimate, Migrated
    from spellbook.vault.entries import Entry

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

    With `scope`, searches and lists see that scope only. `wikis` are folders of documents beside the vault, see
    `memories.project_documentation`. Raises VaultNotFound, InvalidInput for senseless settings, StorageError.
    """
    return Spellbook(config.load(vault, embedder=embedder, state=state, scope=scope, wikis=wikis))


@door(import_="source", export="file", restore_snapshot="into")
class Spellbook(Reader):
    """A vault with its files: what a reader can do, changes to notes, and what keeps the index in order."""

    def __init__(self, settings: config.Config, models: Embedder | Index | None = None) -> None:
        super().__init__(settings, Index.open(settings, models))
        self.last_scan = LastScan()
        self.beside: list[Reader] = []
        """Readers of a part of the vault, which use this book's models and end with it."""
        self.documents: list[Spellbook] = []
        """The same of folders of documents; see `memories.project_documentation`."""

    def close(self) -> None:
        """Close files and connections."""
        for reader in (*self.beside, *self.documents):
            reader.close()
        super().close()

    @property
    def whole(self) -> Spellbook:
        """This book, which can do everything."""
        return self

    @property
    def wikis(self) -> documents.Wikis:
        """Folders of documents beside the vault: search, index, status. See `memories.project_documentation`."""

        def open_beside(settings: config.Config, index: Index) -> Spellbook:
            self.documents.append(book := Spellbook(settings, index))
            return book

        return documents.Wikis(self, self.documents, open_beside)

    # -- keeping up

    def reindex(self, *, full: bool = False, words_only: bool = False, progress: Progress | None = None) -> sync.Report:
        """Update the index: `full` reads every note again, `words_only` embeds nothing."""
        self.follow()
        report = sync.run(self.index, full=full, words_only=words_only, progress=progress)
        self.meter.count("embedded", report.embedded)
        self.meter.count("reused", report.reused)
        self.complaint = ""
        return report

    def refresh(self, *, embed: bool = False, scans: bool = True, whole: bool = False) -> None:
        """
        Scan the vault for changes, unless a process watches it or the last scan will do; then `embed` some new texts.

        Without `scans` there is no scan. With `whole` the last scan does not do, and a first one by another process is
        not left to it. `complaint` says that the scan failed, or that the first one is under way: then nothing is
        embedded, and search still answers from the index as it is.
        """
        self.follow()
        index, complaint = self.index, ""
        try:
            is_read = False
            with contextlib.suppress(Damaged):
                is_read = index.catalog.is_read
            # A new index is filled at once, even if a watcher runs; so is one that was migrated, beside an older one.
            if is_read and self.is_watched():
                embed = False  # the watcher does it
            elif not (is_read or whole) and is_being_read(index):
                complaint = BEING_READ
                tell(BEING_READ)
            elif scans and (whole or not (is_read and self.last_scan.is_believed(index))):
                began, self.last_scan.began = time.monotonic(), -math.inf
                with waiting("the notes that changed are read first"):
                    if scan(index):
                        self.last_scan.began, self.last_scan.generation = began, index.catalog.generation
        except (StorageError, VaultNotFound, InvalidInput) as error:
            complaint = str(error)
        self.complaint = complaint if scans else self.complaint
        if embed and not complaint:
            embed_briefly(index)

    def follow(self) -> None:
        """Switch to the embedding model that another process has migrated the vault to, if it has."""
        with contextlib.suppress(Damaged):
            if (followed := self.index.followed()) is not None:
                self.use(followed)

    def is_watched(self) -> bool:
        """Return whether a process watches every folder of this vault."""
        return processes.is_watched(self.config.state)

    # -- writing

    def scribe(self, chunk: object, **options: Unpack[scribed.ScribeOptions]) -> scribed.Scribed:
        """Save one finished chunk `{"text", "metadata"}` as a note, as `scribe_all` does."""
        return self.scribe_all([chunk], **options)

    def scribe_all(self, chunks: Sequence[object], **options: Unpack[scribed.ScribeOptions]) -> scribed.Scribed:
        """
        Save finished chunks, each as one note; `options` as `ScribeOptions` says. Search finds them at once.

        All are checked first: raises InvalidInput; if one repeats a chunk, nothing is written unless `force` is set.
        """
        self.index.vault.check_there()
        self.follow()
        if not self.index.catalog.is_read:
            self.refresh()  # an existing note may be a duplicate
        with self.meter.timed("scribe"):
            return write.scribe(self.index, self.searcher, chunks, **options)

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
        claude_memory.refuse(self.config.vault, chunk_id)
        revision = revise.Revision(content, append, replace, every, metadata, expected_hash, dry_run, force)
        return self._change(lambda: revise.revise(self.index, chunk_id, revision))

    def keep(self, id: str) -> KeptNote:
        """Say for the person that a note is right; see `editing.keep.keep`. No agent may call it unasked."""
        claude_memory.refuse(self.config.vault, id)
        return self._change(lambda: keep.keep(self.index, id))

    def erase(self, id: str, *, hard: bool = False, whole: bool = False) -> Erased:
        """Move a note (its id or path) or a section (its id; `whole`: its note) to the trash; `hard` deletes it."""
        claude_memory.refuse(self.config.vault, id)
        return self._change(lambda: erase.erase(self.index, id, hard=hard, whole=whole))

    def _change(self, change: Callable[[], T]) -> T:
        """Run `change`; if the note is not where the index has it, scan the vault and try again."""
        self.index.vault.check_there()
        self.follow()
        try:
            return change()
        except MemoryNotFound:
            self.refresh(whole=True)  # somebody may have just saved it
            return change()

    def forget_working(self, days: float | None = None) -> Erased | None:
        """Move working memories to the trash that nobody touched for `days` (`working_days`); undo takes it back."""
        self.index.vault.check_there()
        self.refresh(whole=True)
        return erase.forget_working(self.index, days)

    def erase_topic(self, topic: str, *, hard: bool = False) -> Erased:
        """Move every note of a topic to the trash."""
        self.index.vault.check_there()
        self.refresh(whole=True)
        self.topic(topic)  # raises MemoryNotFound, with similar names
        category, name = toc.category_and_topic(self.index, topic)
        return erase.erase_topic(self.index, name, category, hard=hard)

    def merge(self, a: str, b: str, *, keep: Keep = "", apply: bool = False) -> merge.Merged:
        """Merge two similar notes into one; writes nothing unless `apply` is set. See `editing.merge.merge`."""
        return self._change(lambda: merge.merge(self.index, a, b, keep=keep, apply=apply))

    def restore(self, name: str) -> tuple[str, ...]:
        """Restore what was erased: name its path in the trash, or the id, path or topic. See `editing.undo.restore`."""
        self.index.vault.check_there()
        return undo.restore(self.index, name)

    def undo(self, entry: int | None = None, *, dry_run: bool = False) -> undo.Undone:
        """Undo the latest change, or the one with this number in the log; see `editing.undo.undo`."""
        self.index.vault.check_there()
        self.refresh(whole=True)
        return undo.undo(self.index, entry, dry_run=dry_run)

    def undo_all(self, since: str = "", *, dry_run: bool = False) -> list[Entry]:
        """
        Undo all changes since a time (`10m`, `2h`, `3d`, ISO 8601), else those of the last session, newest first.

        All or none: what cannot be undone is an error as in `undo`. Returns the changes. Raises InvalidInput.
        """
        self.index.vault.check_there()
        self.refresh()
        entries = undo.chosen(self.index, since)
        return entries if dry_run else [done.entry for done in undo.undo_all(self.index, entries)]

    def move(self, old: str, new: str, *, dry_run: bool = False) -> moves.Moved:
        """Move the note or folder `old` to `new`, and update the links to it and in it. See `editing.moves.move`."""
        self.index.vault.check_there()
        return moves.move(self.index, old, new, dry_run=dry_run)

    # -- backups

    def export_bundle(self, place: str | Path, *, private: bool = False) -> tuple[export.Exported, int]:
        """Write the notes as a bundle of the Open Knowledge Format; see `archive.open_knowledge.export`."""
        return open_knowledge.export(self.index.vault, Path(place), private=private)

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
            self.refresh(whole=True)
        only = set(self.index.catalog.paths(conditions(filter))) if filter else None
        return export.run(self.index.vault, file, format, only=only, attachments=attachments)

    def import_(
        self,
        source: str | Path,
        *,
        on_conflict: str = "skip",
        dry_run: bool = False,
        into: str = "",
        attachments: bool = True,
        keep_trust: bool = False,
        kind: str = "",
        progress: Progress | None = None,
    ) -> importer.Imported:
        """
        Import an export, a folder, a zip or a note: all of it, or nothing.

        The options are those of `archive.importer.ImportOptions`. Search by words finds the notes when this returns.
        """
        self.index.vault.check_there()
        self.refresh(whole=True)  # the catalog knows where earlier imports put their notes
        options = importer.ImportOptions(on_conflict, dry_run, into, attachments, keep_trust, kind)
        return importer.run(self.index, Path(source).expanduser(), options, progress)

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

    def rest(self, language: str = "") -> tuple[Session, dict[str, Any], dict[str, Any]]:
        """
        Start a REST session for writing; return it with the chunking guide and the metadata rules.

        They are in `language` (en, ko), by default in that of SPELLBOOK_LANG, else in English.
        """
        self.refresh()  # the vault may have guides of its own
        return rest_guides.begin(self.index, language)

    def rest_end(self, session_id: str | None) -> Session:
        """End a session. Raises RestRequired, RestInvalid, RestExpired."""
        return rest_guides.session(self.index, session_id, ends=True)

    def require_session(self, session_id: str | None) -> Session:
        """Return a session that is still open. Raises RestRequired, RestInvalid, RestExpired."""
        return rest_guides.session(self.index, session_id)

    # -- keeping in order

    def _release(self, before: float) -> bool:
        return any([super()._release(before), *(reader._release(before) for reader in (*self.beside, *self.documents))])

    def check(self, *, progress: Progress | None = None) -> duplicates.Repeated:
        """Compare all texts with each other: duplicates and contradictions."""
        self.refresh(embed=True, whole=True)
        return duplicates.repeated(self.index, progress)

    def estimate(self, to: str) -> Estimate:
        """Estimate the time and space that `migrate` to the embedder `to` will take. Raises as `migrate` does."""
        return model_switch.estimate(model_switch.beside(self.index, to))

    def migrate(self, to: str, *, progress: Progress | None = None) -> Migrated:
        """
        Switch to the embedder `to` without search downtime.

        The new vectors are built beside those in use; an interrupted migration goes on with the next call. Raises
        InvalidInput for an embedder that does not fit, Conflict if another process migrates, EmbeddingError.
        """
        self.index.vault.check_there()
        if self.index.catalog.fingerprint == self.index.embedder.fingerprint:  # else it would switch at once
            self.refresh(whole=True)
        return model_switch.run(self.index, to, self.use, progress)

    def migrate_back(self, *, progress: Progress | None = None) -> Migrated:
        """Switch back to the embedder before the last migration. Raises InvalidInput if there was none."""
        return self.migrate(model_switch.previous(self.index), progress=progress)

    def doctor(self) -> Iterator[tuple[str, list[str]]]:
        """Run the health checks one by one; yield each one's name and the problems it found, if any."""
        self.refresh(embed=True, whole=True)
        yield from doctor.checks(self.index, self.complaint)

    def broken_links(self) -> tuple[repair_links.BrokenLink, ...]:
        """Return the links that lead nowhere."""
        self.refresh(whole=True)
        return repair_links.broken(self.index)

    def mend_links(self, *, dry_run: bool = False) -> repair_links.Offer:
        """Repair broken links to files that moved; see `editing.repair_links.mend`."""
        self.index.vault.check_there()
        return repair_links.mend(self.index, dry_run=dry_run)

    def mend_properties(self, *, dry_run: bool = False) -> repair_links.Offer:
        """Put quotes around values of broken frontmatter; see `editing.repair_properties.mend`."""
        self.index.vault.check_there()
        return repair_properties.mend(self.index, dry_run=dry_run)
