"""The state of a vault and its index: figures, processes, and the faults of notes. Changes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spellbook.index.catalog.usage import local
from spellbook.index.filters import day_of
from spellbook.index.metrics import Meter, brief
from spellbook.index.opened import Index
from spellbook.index.vectors import follow
from spellbook.notes.files import Fault
from spellbook.search import newest
from spellbook.system.disk import eventless
from spellbook.system.errors import StorageError
from spellbook.system.processes import is_embedding, is_silent, is_watched, processes, unseen
from spellbook.text.sentences import MOSTLY

if TYPE_CHECKING:
    from spellbook.archive.snapshots import Snapshots

_MOST_OPENED = 5
"""Notes that are listed as opened most."""


def figures(index: Index, meter: Meter) -> dict[str, Any]:
    """Return counts and sizes, chunks by category, response times, and the notes opened most."""
    catalog = index.catalog
    with catalog.reading():  # one state, so that the sums are consistent
        counts, categories, sizes = catalog.counts(), catalog.by_category(), catalog.sizes()
    timings, totals = meter.read()
    scanned_at = index.scanned_at()
    return {
        **{name: count for name, count in counts._asdict().items() if name != "second_pending"},
        "categories": {name or "(none)": chunks for name, chunks in categories.items()},
        **sizes,
        "timings": {verb: asdict(timing) for verb, timing in timings.items()},
        "day": brief(*meter.read(hours=24)),
        "looked_at": local(scanned_at) if scanned_at else None,
        "embedded": totals.get("embedded", 0),
        "reused": totals.get("reused", 0),
        "opened": {note: use.times for note, use in catalog.usage.most(_MOST_OPENED).items()},
    }


def _unwatched(index: Index) -> str:
    """Return why the vault is scanned although there is a watcher, "" if it is not."""
    if is_silent(index.config.state):
        return "the process that watches gives no sign of life; is it stopped?"
    if index.config.polls:
        return "SPELLBOOK_WATCH=poll: the vault is scanned every 2 seconds"
    kind = eventless(index.config.vault)
    return unseen(index.config.state) or (f"a {kind} drive does not tell of changes made elsewhere" if kind else "")


def status(index: Index, meter: Meter, snapshots: Snapshots, complaint: str) -> dict[str, Any]:
    """Return paths, counts, sizes, processes, and faults to fix; `complaint` is why the last scan failed."""
    state, engine, why_not = index.config.state, index.embedder.describe(), _unwatched(index)
    second: dict[str, Any] = {}
    if encoder := index.second:
        pending = index.catalog.second.pending(encoder)  # None before its first vector
        second = {"name": encoder.name, "engine": encoder.describe(), "pending": pending}
    return {
        "vault": str(index.config.vault),
        "state": str(state),
        "embedder": index.embedder.name,
        **({"engine": engine} if engine else {}),
        "fingerprint": index.embedder.fingerprint,
        **({"second_encoder": second} if second else {}),
        "watched": is_watched(state),
        **({"unwatched": why_not} if why_not else {}),
        "embedding": is_embedding(state),
        "chroma": chroma(index),
        "processes": [process._asdict() for process in processes(state)],
        "snapshots": snapshots.state(),
        **figures(index, meter),
        "waiting": dict(zip(("notes", "since"), newest.waiting(index), strict=True)),
        "faults": [
            asdict(fault) for fault in (*index.catalog.notes.faults(), *index.catalog.notes.twins(), *held_again(index))
        ],
        "unread": len(index.catalog.notes.unread(left_out=True)),
        **({"warning": complaint} if complaint else {}),
    }


def held_again(index: Index) -> list[Fault]:
    """Return a fault for each note that holds what was erased: files of a person's own, and what came by git."""
    if not index.vault.has_tombstones:
        return []
    tombstones = index.vault.tombstones
    chunks = (chunk for path in index.catalog.paths(index.visible) for chunk in index.catalog.at(path))
    try:
        first = tombstones.first_day()
        texts = ((chunk.path, day, chunk.text) for chunk in chunks if (day := day_of(chunk.mtime_ns)) >= first)
        held = dict.fromkeys(tombstones.among(texts, MOSTLY))
        return [Fault(path, 0, "it holds what was erased before") for path in held]
    except StorageError as error:
        return [Fault("", 0, error.message)]


def chroma(index: Index) -> dict[str, Any]:
    """Return where Chroma keeps the vectors ("" if nowhere yet), how many, how many it lacks, and what is `doubted`."""
    state = {"place": index.chroma.place, "vectors": index.chroma.rows, "behind": follow.behind(index)}
    return state | ({"doubted": index.chroma.doubted} if index.chroma.doubted else {})
