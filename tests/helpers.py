"""Small helpers of several tests: embedders that count or fail, and an index as plain data."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import BaseFileLock

from spellbook.index import sync
from spellbook.index.catalog.catalog import FUNCTIONS, Catalog
from spellbook.index.catalog.tables import TABLES
from spellbook.index.opened import Index
from spellbook.library.book import Spellbook
from spellbook.models.base import Bytes, Embedder, Vectors
from spellbook.models.embedders import HashEmbedder
from spellbook.notes.links import find
from spellbook.notes.note import parse
from spellbook.notes.where_links_lead import Files
from spellbook.settings import config
from spellbook.system import processes
from spellbook.system.errors import EmbeddingError
from spellbook.system.lock import take
from spellbook.system.sqlite import Database

Write = Callable[..., Path]
"""What writes a note by its path, as the fixture `write_note` does."""

PATIENCE = 600
"""Seconds after which what was waited for counts as hung. No limit of time is about speed: benchmarks measure that."""


def until(holds: Callable[[], object], seconds: float = PATIENCE) -> float:
    """Poll until something holds, and return after how many seconds it did."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < seconds, "it did not come about in time"
        time.sleep(0.02)
    return time.monotonic() - started


def watched(book: Spellbook) -> BaseFileLock:
    """Announce that a process watches the vault: no question of `book` scans it, until the lock is released."""
    lock = take(book.config.state / processes.ELECTED)
    assert lock is not None
    processes.announce(book.config.state, "")
    _locks.append(lock)  # else it would be free at once
    return lock


_locks: list[BaseFileLock] = []


Heard = Callable[[str, tuple[Any, ...]], object]
"""What is called with the name of an audit event, such as `os.rename`, and its arguments."""
_listening: list[Heard] = []


@contextlib.contextmanager
def audited(heard: Heard) -> Iterator[None]:
    """Call `heard` for each audit event of this process, in the thread that causes it, before it happens."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(lambda event, given: [each(event, given) for each in _listening] and None)
    _listening.append(heard)
    try:
        yield
    finally:
        _listening.remove(heard)


_hooked: list[bool] = []  # a hook stays as long as its process


@dataclass
class Counting(HashEmbedder):
    """
    The hash embedder, which records what it embedded, with `asked` also titles and questions, which are embedded as
    these are; another `fingerprint` makes another model.
    """

    texts: list[str] = field(default_factory=list)
    asked: bool = False

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return HashEmbedder.embed_passages(self, texts)

    def embed_query(self, text: str) -> Vectors:
        self.texts += [text] * self.asked
        vector: Vectors = HashEmbedder.embed_passages(self, [text])[0]
        return vector

    def taken(self) -> int:
        """Return how many texts were embedded since the last call."""
        count = len(self.texts)
        self.texts.clear()
        return count


@dataclass
class Failing(HashEmbedder):
    """An embedder that always fails."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingError("The embedder is down.", "Start it.")


@contextlib.contextmanager
def opened(
    vault: Path, embedder: Embedder | None = None, *, state: Path | None = None, **settings: Any
) -> Iterator[Index]:
    """An index of `vault` with this embedder and these settings."""
    index = Index.open(replace(config.load(vault, state=state, embedder="hash"), **settings), embedder)
    try:
        yield index
    finally:
        index.close()


def note_writer(vault: Path) -> Callable[..., Path]:
    """A function that writes notes into `vault`; `age` is how many seconds ago."""

    def write(path: str, body: str = "", *, age: float = 0, **meta: object) -> Path:
        file = vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        header = "".join(f"{key}: {value}\n" for key, value in meta.items())
        file.write_text(f"---\n{header}---\n{body}" if header else body, "utf-8", newline="")
        if age:
            when = file.stat().st_mtime_ns - int(age * 1e9)
            os.utime(file, ns=(when, when))
        return file

    return write


def session_writer(vault: Path) -> Callable[..., Path]:
    """A function that writes a captured session into `vault`: `said` and the answer of each exchange, by turns."""
    write = note_writer(vault)

    def session(name: str, *said: str, **meta: object) -> Path:
        quoted = [text.replace("\n", "\n> ") for text in (*said, "Done.")]
        body = "".join(
            f"## 1{at}:05 {' '.join(words.split()[:5])}\n<!-- {at} -->\n\n**You:**\n\n> {asked}\n\n"
            f"**Claude Code:**\n\n> {answer}\n\n"
            for at, (words, asked, answer) in enumerate(zip(said[::2], quoted[::2], quoted[1::2], strict=False))
        )
        labels: dict[str, object] = {"id": f"session-{name}", "session": name, "title": said[0][:80]}
        labels |= {
            "category": "session",
            "type": "episodic",
            "importance": "low",
            "trust": "agent",
            "privacy_scope": "private",
        }
        labels |= {"scope": "shop", "source": "claude-code", "created": "2026-11-20T10:05:00"}
        labels |= {"updated": "2026-11-20T12:05:00", "removed": 0}
        return write(f"sessions/2026-11-20-shop-{name}.md", body, **(labels | meta))

    return session


def raw(file: Path | str) -> sqlite3.Connection:
    """A connection of its own to a catalog's file, with the functions that the catalog's views use."""
    connection = sqlite3.connect(file, isolation_level=None)
    for name, (arguments, function) in FUNCTIONS.items():
        connection.create_function(name, arguments, function, deterministic=True)
    return connection


def empty_catalog() -> sqlite3.Connection:
    """The tables of a catalog, in memory."""
    connection = raw(":memory:")
    connection.executescript(TABLES)
    return connection


def rows(catalog: Catalog | Path, sql: str, *values: object) -> list[Any]:
    """Run a query on the tables of a catalog, or of its file."""
    with contextlib.closing(raw(catalog if isinstance(catalog, Path) else catalog.file)) as connection:
        return connection.execute(sql, values).fetchall()


def as_before(file: Path) -> None:
    """Turn a catalog into one of form 24, as 0.2.0 left it: it also kept how many tokens a chunk has."""
    with contextlib.closing(raw(file)) as old:
        old.executescript(
            """
            CREATE TABLE counted (chunk INTEGER PRIMARY KEY, tokeniser TEXT NOT NULL, tokens INTEGER NOT NULL);
            CREATE TRIGGER chunk_uncounted AFTER DELETE ON chunks BEGIN
                DELETE FROM counted WHERE chunk = old.chunk; END;
            INSERT INTO counted SELECT chunk, 'a tokeniser', 9 FROM chunks;
            UPDATE meta SET value = 24 WHERE key = 'read_as';
            PRAGMA user_version = 24;
            """
        )


SHARED = "SELECT declared FROM notes GROUP BY 1 HAVING count(*) > 1"
TOLD = {
    "files": "SELECT path, sha256 FROM files ORDER BY 1",
    "notes": "SELECT path, declared, title, topic, category, kind, importance, created, updated, meta FROM notes ORDER BY 1",
    # Which of several notes with one id carries it is a matter of who came first.
    "ids": f"SELECT path, id FROM notes WHERE declared IS NULL OR declared NOT IN ({SHARED} AND declared NOTNULL) ORDER BY 1",
    "holders": f"SELECT id FROM notes WHERE id IN ({SHARED}) ORDER BY 1",
    "fields": "SELECT coalesce(path, '?'), key, value, ordinal FROM fields LEFT JOIN notes USING (note) ORDER BY 1, 2, 3, 4",
    "links": "SELECT path, ordinal, links.name, target, fragment, markdown, line, relation FROM links JOIN notes USING (note) "
    "ORDER BY 1, 2",
    "chunks": "SELECT path, ordinal, suffix, chunks.heading, line, end_line, text, above, same, key, checksum, words.title, "
    "words.heading, words.keywords, words.questions, words.body, words.parts "
    "FROM chunks JOIN notes USING (note) JOIN words ON words.rowid = chunk ORDER BY 1, 2",
    "words": "SELECT count(*) FROM words_docsize",
    "missing": "SELECT count(*) FROM chunks WHERE key NOT IN (SELECT key FROM vectors)",
    "vectors": "SELECT key, vector FROM vectors WHERE key IN (SELECT key FROM chunks UNION SELECT key FROM labels) ORDER BY 1",
    "stray": "SELECT chunk FROM chunks WHERE note NOT IN (SELECT note FROM notes)",
}


def told(index: Index) -> dict[str, Any]:
    """Return what an index says of a vault, without numbers that depend on its history."""
    catalog = index.catalog
    faults = sorted((fault.path, fault.line, fault.reason) for fault in catalog.notes.faults())
    found = {name: rows(catalog, sql) for name, sql in TOLD.items()}
    return {**found, "faults": faults, "pending": catalog.counts().pending, "unsound": catalog.upkeep.verify()}


def from_scratch(vault: Path, state: Path, **settings: Any) -> dict[str, Any]:
    """Return what an index that is built now says of `vault`."""
    with opened(vault, state=state, **settings) as index:
        sync.run(index)
        return told(index)


def python(code: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start a Python that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def finished(*children: subprocess.Popen[str]) -> list[str]:
    """Wait for children that must succeed, and return what they printed."""
    outputs = [child.communicate(timeout=PATIENCE) for child in children]
    for child, (_, errors) in zip(children, outputs, strict=True):
        assert child.returncode == 0, errors
    return [output.strip() for output, _ in outputs]


def held(vault: Path) -> dict[str, bytes]:
    """All files of a vault."""
    return {path.relative_to(vault).as_posix(): path.read_bytes() for path in vault.rglob("*") if path.is_file()}


def leads(vault: Path) -> dict[tuple[str, int], str]:
    """Return where every link of every note leads, by note and position of the link; the trash is no part of it."""
    files = {path: data for path, data in held(vault).items() if not path.startswith(".")}
    all_files = Files(files)
    return {
        (path, number): reached.path
        for path, data in files.items()
        if path.endswith(".md")
        for number, link in enumerate(find(parse(path, data)))
        if (reached := all_files.follow(path, link.target, link.is_markdown))
    }


@dataclass
class Small:
    """A second encoder by hashed words; `log` holds what it is given, and whether as questions."""

    log: list[tuple[str, bool]] = field(default_factory=list)
    fingerprint: str = "small:1"
    name: str = "small"
    scale: tuple[tuple[float, float], ...] = ((0.0, 0.0), (1.0, 1.0))
    is_down: bool = False

    def vectors(self, texts: Sequence[str], query: bool = False) -> Bytes:
        if self.is_down:
            raise EmbeddingError("The small one is down.", "Start it.")
        self.log += [(text, query) for text in texts]
        return np.rint(HashEmbedder().embed_passages(texts) * 127).astype(np.int8)

    def describe(self) -> str:
        return "small"

    def taken(self) -> int:
        """How many texts it was given since the last call."""
        count = len(self.log)
        self.log.clear()
        return count


def stored(index: Index) -> set[str]:
    """The texts of chunks and labels that have a vector of the second encoder, under the key they have now."""
    return {
        text
        for (text,) in rows(
            index.catalog,
            "SELECT embedded_text(above, lead, text, tail) FROM chunks JOIN second USING (key) "
            "UNION ALL SELECT text FROM labels JOIN second USING (key)",
        )
    }


def steps(action: Callable[[], object]) -> int:
    """Return how many steps of SQLite's machine a call takes in this thread, in tens."""
    counted, made, connection = [0], [], Database.connection

    def watched(self: Database) -> sqlite3.Connection:
        made.append(connection(self))
        made[-1].set_progress_handler(lambda: counted.append(0), 10)
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "connection", watched)
        action()
    for each in made:
        each.set_progress_handler(None, 0)
    return len(counted) - 1
