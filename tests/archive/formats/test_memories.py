"""Exports of other memories, a project, a database and the memory of Claude Code: what comes of them, nothing twice."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, UnreadableNote
from tests.helpers import note_writer
from tests.trees import grow, state_of

ROTATED = {"content": "The deploy key is rotated every ninety days.\n\n# Why\n\nAudit.", "content_hash": "a1b2c3d4"}
ABOUT = {"project": "river", "nested": {"x": 1}, "id": "evil", "bad key!": 1}
DATES = {"created_at": 1767225600.0, "updated_at": 1767312000.0}
SERVICE: dict[str, Any] = {
    "export_metadata": {"source_machine": "laptop", "total_memories": 2, "exporter_version": "8"},
    "memories": [
        {**ROTATED, "tags": ["ops", "keys"], **DATES, "memory_type": "note", "metadata": ABOUT},
        {
            "content": "민수는 오후 회의를 좋아한다.",
            "content_hash": "e5f6",
            "tags": "사람, 회의",
            "created_at": 1767225600,
        },
    ],
}


def notes(book: Spellbook) -> dict[str, Any]:
    book.reindex()
    return {chunk.note: chunk for chunk in book.recent(100).notes}


PROJECT = {
    "specs/SPEC-1 Search: words.md": "---\ntitle: 'SPEC-1: Search / words'\ntype: note\npermalink: main/specs/spec-1-search\ntags:\n- spec\n---\n\n"
    "# Search\n\n## Observations\n- [decision] BM25F it is #ranking (measured)\n\n## Relations\n- relates_to [[Coffee]]\n- part_of [[gone]]\n",
    "Coffee.md": "---\r\ntitle: Coffee\r\ntype: note\r\npermalink: coffee\r\n---\r\n\r\n- implements [[SPEC-1: Search / words]]\r\n"
    "- see [[main/specs/spec-1-search|the spec]] and memory://coffee\r\n",
    "copy.md": "---\ntitle: Copy\ntype: note\npermalink: coffee\n---\nby hand\n",
    "page.md": "---\nlayout: x\ntitle: P\ntype: a\npermalink: search\n---\nof a web site\n",
    "bad.md": "---\ntitle: [\npermalink: x\ntype: y\n---\nno YAML\n",
    "own.md": "---\nid: mine\ntitle: Own\ntype: note\npermalink: own\n---\nx\n",
    "plain.md": "text\n",
}


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_project_of_basic_memory(book: Spellbook, tmp_path: Path, is_zip: bool) -> None:
    """Permalinks become ids, links by title and permalink lead on, and all other bytes stay."""
    place = grow(tmp_path / "project", {name: text.encode() for name, text in PROJECT.items()})
    if is_zip:
        place = tmp_path / "project.zip"
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in PROJECT.items():
                archive.writestr(f"./{name}", text)
    assert len(book.import_(place, into="basic").added) == 7
    found = notes(book)
    assert {"main/specs/spec-1-search", "coffee", "mine", "basic/copy", "basic/page", "basic/plain"} <= found.keys()
    spec, coffee = found["main/specs/spec-1-search"], found["coffee"]
    assert set(spec.tags) == {"spec", "ranking"}
    assert {link.id for link in book.around(coffee.note).links} == {spec.note}
    assert coffee.note in {link.id for link in book.around(spec.note).links}
    assert book.show("coffee")[0].path == "basic/Coffee.md"
    written = (book.config.vault / "basic/Coffee.md").read_bytes()
    assert written == PROJECT["Coffee.md"].replace("---\r\n", "---\r\nid: coffee\r\n", 1).encode()
    for name in ("copy.md", "page.md", "bad.md", "own.md", "plain.md"):
        assert (book.config.vault / "basic" / name).read_bytes() == PROJECT[name].encode()
    assert book.import_(place, into="basic").added == []
    book.move("basic/Coffee.md", "drinks/Coffee.md")
    assert book.import_(place, into="basic").added == []


SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL, content TEXT NOT NULL, tags TEXT,
    memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT,
    deleted_at REAL DEFAULT NULL
);
CREATE TRIGGER told AFTER INSERT ON memories BEGIN SELECT 1; END;
CREATE INDEX idx_deleted_at ON memories(deleted_at);
"""


def database(place: Path, schema: str = SCHEMA) -> sqlite3.Connection:
    """Return a connection to a new database with the memories of `SERVICE`, and one that was deleted."""
    connection = sqlite3.connect(place, isolation_level=None)
    connection.executescript(schema)
    for each in SERVICE["memories"]:
        tags = each["tags"] if isinstance(each["tags"], str) else ",".join(each["tags"])
        about = json.dumps(each.get("metadata", {}))
        connection.execute(
            "INSERT INTO memories (content_hash, content, tags, memory_type, metadata, created_at, updated_at)"
            " VALUES (:content_hash, :content, :tags, :memory_type, :metadata, :created_at, :updated_at)",
            {"memory_type": None, "updated_at": None, **each, "tags": tags, "metadata": about},
        )
    connection.execute(
        "INSERT INTO memories (content_hash, content, metadata, deleted_at) VALUES ('gone', 'secret', 'no JSON', 1.0)"
    )
    return connection


def test_the_database_of_mcp_memory_service(book: Spellbook, tmp_path: Path) -> None:
    """It is read while the service writes it, nothing is left beside it, and its JSON export is the same memories."""
    place = tmp_path / "sqlite_vec.db"
    with contextlib.closing(database(place)):
        assert (tmp_path / "sqlite_vec.db-wal").stat().st_size
        before = {file.name: file.read_bytes() for file in tmp_path.glob("sqlite_vec*")}
        assert len(book.import_(place, dry_run=True).added) == 2
        assert len(book.import_(place).added) == 2
        assert {file.name: file.read_bytes() for file in tmp_path.glob("sqlite_vec*")} == before
    found = notes(book)
    assert found["mcp-memory-service-a1b2c3d4"].tags == ("ops", "keys")
    assert found["mcp-memory-service-a1b2c3d4"].created[:10] == "2026-01-01"
    assert "secret" not in (book.config.vault / found["mcp-memory-service-e5f6"].path).read_text("utf-8")
    file = tmp_path / "export.json"
    file.write_text(json.dumps(SERVICE), "utf-8")
    assert book.import_(file).unchanged == 2
    assert book.import_(place).unchanged == 2


COMPUTED = SCHEMA.replace("content TEXT NOT NULL", "content TEXT AS (hex(zeroblob(9)))")
VIEW = "CREATE TABLE other (content, content_hash); CREATE VIEW memories AS SELECT content, content_hash FROM other;"
VIRTUAL = "CREATE VIRTUAL TABLE memories USING fts5(content, content_hash);"


def test_databases_of_others(book: Spellbook, tmp_path: Path) -> None:
    """
    What is no table of memories is not read; no view, virtual table or computed column is run. Of a file that is cut,
    memories or database, nothing is written.
    """
    schemas = (VIEW, VIRTUAL, COMPUTED, "CREATE TABLE other (x);", "CREATE TABLE memories (x);")
    for number, schema in enumerate(schemas):
        with contextlib.closing(sqlite3.connect(tmp_path / f"{number}.db")) as connection:
            connection.executescript(schema)
        with pytest.raises(InvalidInput, match="no memories"):
            book.import_(tmp_path / f"{number}.db")
    with contextlib.closing(database(tmp_path / "db")) as connection:
        connection.executescript("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;")
    whole = {"json": json.dumps(SERVICE).encode(), "db": (tmp_path / "db").read_bytes()}
    for form, size in (("json", 20), ("json", 300), ("json", -10), ("db", 100), ("db", 4096), ("db", 6000)):
        (tmp_path / f"export.{form}").write_bytes(whole[form][:size])
        with pytest.raises(InvalidInput):
            book.import_(tmp_path / f"export.{form}")
    assert list(book.config.vault.rglob("*")) == []


def test_what_is_left_out_is_named(book: Spellbook, tmp_path: Path) -> None:
    """
    Of Claude Code's own memory, large files are not imported, nor what a link leads to outside; each is named. A folder
    that holds the vault is refused; with a file that is no text, which is named, nothing is imported.
    """
    memory = tmp_path / "claude/projects/-home-me-app/memory"
    for file, text in (("plain.md", "Kept."), ("large.md", "x" * 2_097_153), ("../outside.md", "Not of Claude Code.")):
        note_writer(memory)(file, text)
    if os.name != "nt":
        (memory / "linked.md").symlink_to(memory.parent / "outside.md")
        os.mkfifo(memory / "pipe.md")
    before = state_of(memory)
    done = book.import_(memory, kind="claude-memory")
    assert done.added == ["memory/claude-memory/plain.md"]
    assert {fault.path for fault in done.faults} == {"large.md", *(("linked.md", "pipe.md") if os.name != "nt" else ())}
    assert state_of(memory) == before
    book.undo()
    (memory / "x.md").write_bytes(b"\x89PNG\xff\x00\xff")
    with pytest.raises(UnreadableNote, match=r"x\.md"):
        book.import_(memory, kind="claude-memory")
    assert notes(book) == {}
    with pytest.raises(InvalidInput, match="lie in one another"):
        book.import_(memory.parents[3], kind="claude-memory")
