"""
Erasing for good: the places that repeat a note's text or have its vectors, in one list.

The file itself, its text in the journal and its rows in the catalog are gone before. Snapshots and git's history are
left, and the answer says so.
"""

from __future__ import annotations

import contextlib
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.opened import Index
from spellbook.index.vectors.chroma import Chroma, Unavailable
from spellbook.index.vectors.server import Server
from spellbook.notes.files import MOST_BYTES
from spellbook.notes.note import parse
from spellbook.system import disk, platform
from spellbook.system.errors import StorageError, UnreadableNote
from spellbook.system.lazy import shutil
from spellbook.system.sqlite import BUSY_SECONDS
from spellbook.text.sentences import MOSTLY, ways
from spellbook.text.unicode import is_markdown
from spellbook.vault.names import TRASH

_COPIES = ("chroma-[0-9]*", "sees-*/chroma-[0-9]*", "sees-*/*.damaged-*", "*.damaged-*", "*seal")
"""Files and folders of the state folder that repeat text of notes, and are made anew."""

_LOGS = "*.log*"
"""Files of the state folder that may name a note."""


@dataclass(slots=True)
class Traces:
    """Names (path, id) and texts of what was erased, to be found again, and the keys of its vectors."""

    names: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def add(self, index: Index, chunks: Sequence[StoredChunk]) -> None:
        """Add chunks that are about to be erased."""
        for chunk in chunks:
            self.names |= {chunk.path, str(chunk.meta.get("id") or chunk.path)}
            self.texts.append(chunk.text)
        self.keys |= index.catalog.vectors.keys_of({chunk.path for chunk in chunks})

    def is_in(self, text: str) -> bool:
        """Say whether a text names what was erased, or holds it."""
        held = [each.strip() for each in self.texts if each.strip()]
        as_json = [json.dumps(each, ensure_ascii=is_ascii)[1:-1] for each in held for is_ascii in (True, False)]
        return any(each in text for each in (*self.names, *held, *as_json))


def forget(index: Index, traces: Traces) -> None:
    """Take the steps of `STEPS`. Each is taken whatever becomes of another one. Raises StorageError for the first."""
    failed: list[StorageError] = []
    for step in STEPS:
        try:
            with disk.explain_errors(str(index.config.state)):
                step(index, traces)
        except StorageError as error:
            failed.append(error)
        except Unavailable as error:
            failed.append(StorageError(f"Chroma still has vectors: {error}.", "Try again in a moment."))
    if failed:
        problem = f"The state folder may still hold text that was erased: {failed[0].message}"
        raise StorageError(problem, f"{failed[0].hint} Then repeat the command, even if it finds nothing.")


def _trash(index: Index, traces: Traces) -> None:
    """Delete copies in the vault's trash: what an import, a restore or an erased section left there."""
    ours = [frozenset().union(*each) for each in zip(*map(ways, traces.texts), strict=True)]
    for path in filter(is_markdown, index.vault.files(TRASH) if ours else ()):
        with contextlib.suppress(UnreadableNote):
            note = parse(path, (index.vault.root / path).read_bytes())
            pairs = zip(ways(note.body), ours, strict=True)
            is_copy = any(way and len(way & own) >= MOSTLY * len(way) for way, own in pairs)
            if is_copy or note.declared_id in traces.names:
                platform.discard(index.vault.root / path)


def _journal(index: Index, traces: Traces) -> None:
    """Write the journal anew, without deleted texts."""
    index.vault.journal.compact()


def _catalog(index: Index, traces: Traces) -> None:
    """Write the catalog anew: rows, words, metrics, and the vectors of both encoders, old ones too."""
    index.catalog.upkeep.forget()


def _server(index: Index, traces: Traces) -> None:
    """Delete vectors that no other note has from a Chroma server, which several machines share."""
    if isinstance(index.chroma, Server) and (gone := traces.keys - index.catalog.vectors.of([*traces.keys]).keys()):
        index.chroma.forget(sorted(gone))


def _copies(index: Index, traces: Traces) -> None:
    """Delete Chroma's files, rows of indexes for limited tokens, damaged files and seals: they are made anew."""
    chroma = index.chroma.locked(BUSY_SECONDS) if isinstance(index.chroma, Chroma) else contextlib.nullcontext()
    with chroma:
        index.chroma.close()
        for folder in index.config.state.glob("sees-*"):
            # It may be open in a server, and Windows deletes no such file.
            with contextlib.closing(Catalog.open(folder)) as catalog:
                catalog.upkeep.begin_anew()
        for copy in chain(*map(index.config.state.glob, _COPIES)):
            shutil.rmtree(copy) if copy.is_dir() else platform.discard(copy)


def _logs(index: Index, traces: Traces) -> None:
    """Delete the lines of logs that name a note."""
    for log in index.config.state.glob(_LOGS):
        text = log.read_text("utf-8", "surrogateescape")
        left = "".join(line for line in text.splitlines(keepends=True) if not traces.is_in(line))
        if left != text:
            disk.put(log, left.encode("utf-8", "surrogateescape"))


def _exports(index: Index, traces: Traces) -> None:
    """Delete the exports that an agent made beside the snapshots, if they hold it."""
    for place in index.config.snapshot_folder.glob("exports/*"):
        if place.is_file() and any(map(traces.is_in, _texts_in(place))):
            platform.discard(place)


def _texts_in(export: Path) -> list[str]:
    try:
        with zipfile.ZipFile(export) as archive:
            names = [name for name in archive.namelist() if is_markdown(name)]
            return [*names, *(archive.read(name)[:MOST_BYTES].decode("utf-8", "replace") for name in names)]
    except zipfile.BadZipFile:
        return [export.read_text("utf-8", "replace")]
    except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise StorageError(f"{export}: this export cannot be read ({error}).", "Delete it.") from error


STEPS: tuple[Callable[[Index, Traces], None], ...] = (_trash, _journal, _catalog, _server, _copies, _logs, _exports)
"""The steps of `erase --hard` after the file is gone, in their order."""
