"""
Health: the state that a vault and its index are in, and what a person should mend. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spellbook.errors import EmbeddingError, StorageError
from spellbook.index.metrics import Meter
from spellbook.index.opened import Index
from spellbook.index.vectors import follow
from spellbook.notes.note import Fault
from spellbook.system.disk import eventless
from spellbook.system.processes import is_elected, is_embedding, is_silent, is_watched, processes

if TYPE_CHECKING:
    from spellbook.archive.snapshots import Snapshots

_MOST_OPENED = 5
_MOST_LISTED = 20


class Remark(str):
    """Something that a check tells a person and that is no fault: a link to a note that is still to be written, say."""

    __slots__ = ()


def figures(index: Index, meter: Meter) -> dict[str, Any]:
    """Return counts and sizes, the chunks of each category, how long verbs took, and what was opened most."""
    catalog = index.catalog
    with catalog.reading():  # one state: else a run in another process makes sums that are none
        counts, topics, sizes = catalog.counts(), catalog.topics(), catalog.sizes()
    categories: dict[str, int] = {}
    for topic in topics:
        categories[topic.category or "(none)"] = categories.get(topic.category or "(none)", 0) + topic.chunks
    timings, counted = meter.read()
    return {
        **asdict(counts),
        "categories": categories,
        **sizes,
        "timings": {verb: asdict(timing) for verb, timing in timings.items()},
        "embedded": counted.get("embedded", 0),
        "reused": counted.get("reused", 0),
        "opened": {note: use.count for note, use in catalog.usage.most(_MOST_OPENED).items()},
    }


def unseen(index: Index) -> str:
    """Say which folders the process that watches the vault cannot watch, why, and what to do; "" if it sees all, or if there is none."""
    told = index.catalog.unseen
    return told if told and is_elected(index.config.state) else ""


def _unwatched(index: Index) -> str:
    """Say why a process that watches the vault is not relied upon."""
    if is_silent(index.config.state):
        return "the process that watches gives no sign of life; is it stopped?"
    kind = eventless(index.config.vault)
    return unseen(index) or (f"a {kind} drive does not tell of changes made elsewhere" if kind else "")


def places(index: Index) -> dict[str, Any]:
    """Return where the vault and its index are, which embedder they have, and who watches or has them open."""
    why_not = _unwatched(index)
    return {
        "vault": str(index.config.vault),
        "state": str(index.config.state),
        "embedder": index.embedder.name,
        **({"engine": told} if (told := index.embedder.describe()) else {}),
        "fingerprint": index.embedder.fingerprint,
        "watched": is_watched(index.config.state),
        **({"unwatched": why_not} if why_not else {}),
        "embedding": is_embedding(index.config.state),
        "chroma": chroma(index),
        "processes": [asdict(each) for each in processes(index.config.state)],
    }


def chroma(index: Index) -> dict[str, Any]:
    """Return where Chroma keeps the vectors ("" if nowhere yet), how many it has and how many it is behind."""
    return {"place": index.chroma.place, "vectors": index.chroma.rows, "behind": follow.behind(index)}


def faults(index: Index) -> tuple[Fault, ...]:
    """Return what a person should mend in the vault's files."""
    return (*index.catalog.notes.faults(), *index.catalog.notes.twins())


def checks(index: Index, snapshots: Snapshots, complaint: str) -> Iterator[tuple[str, list[str]]]:
    """
    Check one thing after another; yield its name and what is wrong with it, or worth a `Remark`.

    `complaint` is what the last look at the vault met.
    """
    yield "the vault can be read and the index is up to it", [complaint] if complaint else []
    silent = ["the process that watches gives no sign of life: end it, or let it go on"] if is_silent(index.config.state) else []
    yield "whoever watches the vault sees every folder", [*filter(None, [unseen(index)]), *silent]
    yield "every note can be read as it is written", [_fault(fault) for fault in index.catalog.notes.faults()]
    yield "no two notes have one id", [_fault(fault) for fault in index.catalog.notes.twins()]
    yield "no link was broken by a rename", _links(index)
    yield "nothing was left half done", _unfinished(index, snapshots)
    yield "the catalog is sound", _sound(index.catalog.verify)
    yield "what was changed can be undone", _sound(lambda: [lost] if (lost := index.vault.journal.lost) else [])
    yield "the embedder works", _embedder(index)
    pending = index.catalog.counts().pending
    if pending and is_embedding(index.config.state):  # nothing that a person should do
        yield f"every text has its vector, but {pending} that are being embedded now", []
    else:
        yield "every text has its vector", [f"{pending} texts wait for theirs: run `spellbook reindex`"] if pending else []


def _links(index: Index) -> list[str]:
    from spellbook.editing import repair_links

    offer = repair_links.offered(index)
    count = sum(each.links for each in offer.changed)
    said = [f"{count} link{'s' * (count != 1)} can be mended: `spellbook doctor --fix links` shows how"] if count else []
    said += [f"{left.path}: {left.reason}" for left in offer.left]
    unknown = [guess for guess in offer.guesses if guess.path is None]
    for guess in unknown[:_MOST_LISTED]:
        like = f"; did you mean {' or '.join(guess.perhaps)}?" if guess.perhaps else ""
        said.append(Remark(f"{guess.source}, line {guess.line}: {guess.target} leads nowhere, and what it means is not known{like}"))
    if len(unknown) > _MOST_LISTED:
        said.append(Remark(f"{len(unknown) - _MOST_LISTED} more such links: `spellbook doctor --fix links` lists all"))
    return said


def _unfinished(index: Index, snapshots: Snapshots) -> list[str]:
    from spellbook.archive import importer

    half = [importer.INTERRUPTED] if importer.is_interrupted(index.config.state) else []
    restoring = snapshots.interrupted
    if restoring:
        name, before = restoring
        half.append(f"restoring {name} was cut short: `spellbook snapshot restore {name}` goes on, `… restore {before}` goes back")
    return half


def _sound(verify: Callable[[], list[str]]) -> list[str]:
    try:
        return verify()
    except StorageError as error:
        return [str(error)]


def _embedder(index: Index) -> list[str]:
    import numpy as np

    try:
        vector = index.embedder.embed_query("안녕, Spellbook")
    except EmbeddingError as error:
        return [str(error)]
    length = float(np.linalg.norm(vector))
    wrong = vector.ndim != 1 or not 0.99 < length < 1.01
    return [f"{index.embedder.name} gave a vector of shape {vector.shape} and length {length:.3f}"] if wrong else []


def _fault(fault: Fault) -> str:
    place = f"{fault.path}, line {fault.line}" if fault.line else fault.path
    return f"{place!r}: {fault.reason}" if "\n" in fault.path else f"{place}: {fault.reason}"
