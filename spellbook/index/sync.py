"""
Keep the index equal to the vault.

`plan` compares, `run` acts in two stages: changed notes are read and found by words first, then texts without a vector
are embedded. Each step is one small transaction, so the next run continues after a kill. The vault is the truth:
deleting the index and running again loses nothing but time.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spellbook.index import embed, extract, reader_processes
from spellbook.index.catalog.rows import FileEntry, KnownFile
from spellbook.index.opened import Index, Progress
from spellbook.index.reindex_seal import SCANNED
from spellbook.models.base import TEMPLATE, vector_key
from spellbook.notes import dates
from spellbook.notes.files import Fault, Stamp
from spellbook.settings.config import Config
from spellbook.system.errors import StorageError
from spellbook.system.lock import held
from spellbook.system.processes import EMBEDDING, present
from spellbook.vault import obsidian
from spellbook.vault.folder import digest

if TYPE_CHECKING:
    from spellbook.index.extract import Rules

SETTLED_NS = 2_000_000_000
"""A file this young when it was read may change again without its stamp showing it (the coarsest clock is FAT's)."""

_TICK_NS = 20_000_000
"""The same for the time that no editor can set, which systems take from a clock of at most 10 ms."""

_FEW = 10
"""Notes that may always be missing at once: fewer are deleted by hand, and a drive holds more. By hand."""

_PIECE = (250, 1_000_000)
"""Files and bytes that are committed at once: few commits suit the index, but other processes wait for each."""

MANY = 3
"""Number of such pieces from which on starting processes that help is quicker."""

_TRIES = 5
"""How often a file that keeps changing is read again before it is left to the next scan."""

_WALKS = 3
"""How often the vault is listed before so many missing notes are believed; the second finds a folder that moved."""

_PATIENCE = 10.0
"""Seconds to wait while another process reads notes; then both do it, which only costs time."""


class Plan(NamedTuple):
    """Files to read, and files to forget."""

    read: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """The work of a run. `failed` lists all faults that a person should mend, `unread` the paths without a note."""

    scanned: int = 0
    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    failed: tuple[Fault, ...] = ()
    unread: tuple[str, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    pending: int = 0
    seconds: float = 0.0
    generation: int = 0

    @property
    def is_nothing(self) -> bool:
        """Say whether there was nothing to do, and nothing is left to be done or mended."""
        return self.unchanged == self.scanned and not (self.removed or self.embedded or self.pending or self.failed)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as the command line's JSON shows it."""
        return {name: value for name, value in asdict(self).items() if name not in {"pending", "unread"}}


def plan(
    disk: Mapping[str, Stamp],
    known: Mapping[str, KnownFile],
    hidden: Sequence[str] = (),
    *,
    full: bool = False,
    hinted: Container[str] = (),
) -> Plan:
    """Return the least work for `disk`: changed, `hinted` or, if `full`, all files; those in `hidden` stay."""

    def current(path: str, stamp: Stamp) -> bool:
        before = known.get(path)
        return before is not None and before.stamp == stamp and is_settled(stamp, before.read_ns)

    read = (path for path, stamp in disk.items() if full or path in hinted or not current(path, stamp))
    gone = (path for path in known.keys() - disk.keys() if not path.startswith(tuple(hidden)))
    return Plan(tuple(sorted(read)), tuple(sorted(gone)))


def is_settled(stamp: Stamp, read_ns: int) -> bool:
    """Say whether a file that was read at `read_ns` with this stamp cannot have changed since and still have it."""
    # A second write within the clock's tick leaves the stamp as it was. Whole seconds come from a coarse clock.
    tick = _TICK_NS if stamp.ctime_ns % 1_000_000_000 else SETTLED_NS
    return stamp.mtime_ns + SETTLED_NS <= read_ns and stamp.ctime_ns + tick <= read_ns


def is_unlikely(work: Plan, known: Mapping[str, KnownFile]) -> bool:
    """Say whether so much is gone at once, and nothing new in its place, that a drive may be unmounted."""
    fresh = sum(path not in known for path in work.read)
    lost = len(work.gone) - fresh
    return lost >= _FEW and lost * 2 > len(known)


def run(index: Index, *, full: bool = False, words_only: bool = False, progress: Progress | None = None) -> Report:
    """
    Bring the index up to the vault; with `words_only` the vectors stay pending.

    Raises VaultNotFound or StorageError if the vault seems to be unmounted, EmbeddingError if the embedder fails
    (search by words is up to date even then).
    """
    started = time.monotonic()
    with contextlib.ExitStack() as shown:
        embedding: list[str] = []

        def show(stage: str, done: int, total: int) -> None:
            # From the first piece on something waits; where nothing is read, no lock is needed.
            if not (words_only or embedding):
                embedding.append(stage)
                shown.enter_context(present(index.config.state, EMBEDDING))
            if progress and total:
                progress(stage, done, total)

        report = scan(index, full=full, progress=show)
        if not words_only:
            if index.catalog.counts().pending or embed.second_pending(index):
                show("embedding", 0, 0)
            report.embedded = embed.embed_texts(index, progress=progress)
            embed.maintain(index)
    return finish(index, report, started)


def scan(index: Index, *, full: bool = False, hinted: Container[str] = (), progress: Progress | None = None) -> Report:
    """First stage: read the notes that changed, and `hinted` paths; afterwards search by words is right."""
    config = index.config
    # The rules by which the catalog keeps a note: where it is cut, and what its path and its tags mean.
    decided = [dates.RULE, _formats(config), *(list(each.items()) for each in (config.scopes, config.category_rules))]
    index.catalog.notes.recut(f"{TEMPLATE}:{config.chunk_tokens}:{digest(json.dumps(decided).encode())[:8]}")
    adopt(index)
    # Of what is only read nothing is lost: another branch of a repository may hold few documents, and who makes notes
    # private wants them gone.
    may_lose = not (full or index.vault.is_only_read)
    if may_lose:
        index.vault.check_there()
    for _ in range(_WALKS):
        listing = index.vault.walk()
        known = index.catalog.notes.known()
        work = plan(listing.files, known, listing.hidden, full=full, hinted=hinted)
        unlikely = may_lose and is_unlikely(work, known)
        if unlikely:  # what a setting leaves out since is still there
            lost = tuple(path for path in work.gone if not os.path.lexists(index.vault.root / path))
            unlikely = is_unlikely(Plan(work.read, lost), known)
        # Somebody may have moved a folder during the walk, to a place that the walk had passed already.
        if not unlikely:
            break
    report = Report(scanned=len(listing.files), unchanged=len(listing.files) - len(work.read))
    complaint = ""
    if unlikely:
        complaint = f"{index.vault.root}: {len(work.gone)} of {len(known)} notes are gone. Is a drive not mounted?"
        work = Plan(work.read)
    index.catalog.notes.set_walk_faults(listing.faults, listing.left_out)
    index.vault.sweep([*listing.litter, *index.vault.litter()])
    with contextlib.ExitStack() as lock:
        # Avoids double work with another process. Transactions keep the catalog correct, so nobody waits long.
        with contextlib.suppress(OSError):
            if work.read:
                lock.enter_context(held(index.config.state / "sync.lock", _PATIENCE))
        if not full and work.read:  # another process may have read some of it meanwhile
            known = index.catalog.notes.known()
            left = plan({path: listing.files[path] for path in work.read}, known, hinted=hinted).read
            report.unchanged += len(work.read) - len(left)
            work = Plan(left, tuple(path for path in work.gone if path in known))
        _read(index, work, listing.files, known, report, full=full, progress=progress)
    index.catalog.set_read()
    with contextlib.suppress(OSError):  # where it matters that the folder cannot be written, an error says so
        # Not in the catalog: that would wait for writers, and break a seal.
        (index.config.state / SCANNED).touch()
    if complaint:
        raise StorageError(complaint, "Nothing was forgotten. If you deleted them, run `spellbook reindex --full`.")
    return report


@contextlib.contextmanager
def telling(done: str) -> Iterator[None]:
    """Say in a StorageError what was done before, as a sentence: repeating all of it would do it twice."""
    try:
        yield
    except StorageError as error:
        problem = f"{done}, but the index could not be updated: {error.message}"
        raise StorageError(problem, f"Nothing was lost. {error.hint}") from error


@telling("The files are changed")
def scan_paths(index: Index, paths: Sequence[str]) -> Report:
    """First stage for changed `paths` alone; waits for no other process. Raises the StorageError of `telling`."""
    adopt(index)
    report = Report(scanned=len(paths))
    left = list(paths)
    for _ in range(_TRIES):
        known = index.catalog.notes.known(left)
        disk = {path: stamp for path in left if (stamp := index.vault.spelled(path))}
        work = Plan(tuple(sorted(disk)), tuple(sorted(known.keys() - disk.keys())))
        left = _read(index, work, disk, known, report)
        if not left:  # else somebody wrote in between, and a caller wants to find what it has just written
            break
    return report


def _formats(config: Config) -> dates.Formats:
    return obsidian.read(config.vault).formats if config.obsidian else ()


def rules(index: Index) -> Rules:
    config, fingerprint = index.config, index.embedder.fingerprint
    own = config.chunk_tokens, config.scopes, fingerprint, index.sees, config.category_rules, _formats(config)
    return extract.Rules(*own)


def adopt(index: Index) -> None:
    """Give every chunk its key under the index's embedder, unless another process changed it meanwhile."""
    if index.followed() is not None:
        return  # rows for the old embedder would be rejected; the next scan uses the new one
    index.catalog.vectors.adopt(index.embedder.fingerprint, lambda text: vector_key(index.embedder.fingerprint, text))


def finish(index: Index, report: Report, started: float) -> Report:
    """Fill in what a report says of the whole index."""
    counts = index.catalog.counts()
    report.failed, report.unread = index.catalog.notes.faults(), index.catalog.notes.unread(left_out=False)
    report.chunks, report.pending, report.generation = counts.chunks, counts.pending, counts.generation
    report.seconds = round(time.monotonic() - started, 3)
    return report


def _read(
    index: Index,
    work: Plan,
    disk: Mapping[str, Stamp],
    known: Mapping[str, KnownFile],
    report: Report,
    *,
    full: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Read and commit `work`, add to `report`, and return the paths that changed while they were read."""
    lost = Counter(known[path].sha256 for path in work.gone if known[path].sha256)
    moved: set[str] = set()
    late: list[str] = []
    done = 0
    pieces = [{path: None if full else known.get(path) for path in piece} for piece in _pieces(work.read, disk)]
    with contextlib.ExitStack() as helpers:
        if len(pieces) < MANY:
            read: Iterable[list[FileEntry]] = (extract.entries(index.vault, rules(index), piece) for piece in pieces)
        else:
            read = helpers.enter_context(reader_processes.Readers(index.vault, rules(index))).read(pieces)
        for piece, entries in zip(pieces, read, strict=True):
            late += _commit(index, entries, {path: known.get(path) for path in piece}, lost, moved, report)
            done += len(piece)
            if progress:
                progress("reading", done, len(work.read))
    if work.gone:
        _, forgotten = index.catalog.notes.apply((), work.gone, index.vault.spelled, index.embedder.fingerprint, moved)
        report.removed += max(0, len(forgotten) - len(moved))
    return late


def _commit(
    index: Index,
    entries: Sequence[FileEntry],
    before: Mapping[str, KnownFile | None],
    lost: Counter[str],
    moved: set[str],
    report: Report,
) -> list[str]:
    """Commit entries and add to `report`; return the paths that changed meanwhile, and add moved notes to `moved`."""
    hashes = {path: known.sha256 for path, known in before.items() if known}
    same = [entry for entry in entries if entry.note is None and hashes.get(entry.path) == entry.sha256]
    if same:
        index.catalog.notes.touch(same)
        report.unchanged += len(same)
    unchanged = {entry.path for entry in same}
    news = [entry for entry in entries if entry.path not in unchanged]
    if not news:
        return []
    report.reused += len(index.catalog.vectors.has({chunk.key for entry in news for chunk in entry.chunks}))
    taken, _ = index.catalog.notes.apply(news, (), index.vault.stamp, index.embedder.fingerprint)
    accepted = set(taken)
    for entry in news:
        if entry.path not in accepted:
            continue
        if entry.path in hashes:
            report.changed += hashes[entry.path] != entry.sha256
            report.unchanged += hashes[entry.path] == entry.sha256
        elif lost[entry.sha256]:
            lost[entry.sha256] -= 1
            moved.add(entry.path)
            report.moved += 1
        else:
            report.added += 1
    return [entry.path for entry in news if entry.path not in accepted]


def _pieces(paths: Sequence[str], disk: Mapping[str, Stamp]) -> list[list[str]]:
    """Return paths, as many at a time as are committed at once."""
    pieces: list[list[str]] = []
    size = _PIECE[1]
    for path in paths:
        if size >= _PIECE[1] or len(pieces[-1]) >= _PIECE[0]:
            pieces.append([])
            size = 0
        pieces[-1].append(path)
        size += disk[path].size
    return pieces
