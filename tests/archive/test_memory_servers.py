"""Memories of mem0, mcp-memory-service and basic-memory, by the script that makes notes of them: all or nothing."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scripts import import_memories
from spellbook.library.book import Spellbook
from spellbook.notes.note import parse
from spellbook.system.errors import InvalidInput
from tests.trees import grow

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


def converted(source: Path, out: Path, *options: object) -> Path:
    """Return the folder of notes that the script makes of a source."""
    assert import_memories.main([str(source), str(out), *map(str, options)]) == 0
    return out


def refused(source: Path, capsys: pytest.CaptureFixture[str], out: Path) -> str:
    """Return why the script makes nothing of a source; assert that it left nothing behind."""
    before = sorted(out.parent.iterdir())
    assert import_memories.main([str(source), str(out)]) == 1
    assert sorted(out.parent.iterdir()) == before
    written = capsys.readouterr().err
    assert "Nothing was written." in written
    return written


def test_a_project_of_basic_memory(book: Spellbook, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Permalinks become ids, links by title and permalink lead on, and all other bytes stay; an import without the script
    says once that it is there. Of a project that has grown, only what is new is taken, also after a move.
    """
    place = grow(tmp_path / "project", {name: text.encode() for name, text in PROJECT.items()})
    hints = [each for each in book.import_(place, dry_run=True).warnings if "import_memories.py" in each.reason]
    assert len(hints) == 1
    if os.name != "nt":
        (place / "linked.md").symlink_to(tmp_path / "outside.md")
    grow(place, {".hidden/x.md": b"hidden", "picture.png": b"\x89PNG"})
    notes_of = converted(place, tmp_path / "out")
    assert ("linked.md: a link" in capsys.readouterr().err) is (os.name != "nt")
    done = book.import_(notes_of, into="basic")
    assert len(done.added) == 8
    assert [each.path for each in done.warnings] == ["bad.md"]  # whose frontmatter is no YAML
    found = notes(book)
    assert {"main/specs/spec-1-search", "coffee", "mine", "basic/copy", "basic/page", "basic/plain"} <= found.keys()
    spec, coffee = found["main/specs/spec-1-search"], found["coffee"]
    assert set(spec.tags) == {"spec", "ranking"}
    assert {link.id for link in book.around(coffee.note).links} == {spec.note}
    assert coffee.note in {link.id for link in book.around(spec.note).links}
    assert book.show("coffee")[0].path == "basic/Coffee.md"
    written = (book.config.vault / "basic/Coffee.md").read_bytes()
    assert written == PROJECT["Coffee.md"].replace("---\r\n", '---\r\nid: "coffee"\r\n', 1).encode()
    for name in ("copy.md", "page.md", "bad.md", "own.md", "plain.md"):
        assert (book.config.vault / "basic" / name).read_bytes() == PROJECT[name].encode()
    book.move("basic/Coffee.md", "drinks/Coffee.md")
    grow(place, {"Tea.md": b"---\ntitle: Tea\ntype: note\npermalink: tea\n---\ngreen\n"})
    again = converted(place, tmp_path / "again", "--not-in", book.config.vault)
    assert book.import_(again, into="basic").added == ["basic/Tea.md"]


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


def test_memories_of_mcp_memory_service(book: Spellbook, tmp_path: Path) -> None:
    """
    The database is read while the service writes it, nothing is left beside it, and its JSON export is the same
    memories. Text, tags, dates and plain metadata are kept. A second export brings only what the vault has not.
    """
    place = tmp_path / "sqlite_vec.db"
    with contextlib.closing(database(place)):
        assert (tmp_path / "sqlite_vec.db-wal").stat().st_size
        before = {file.name: file.read_bytes() for file in tmp_path.glob("sqlite_vec*")}
        made = converted(place, tmp_path / "made")
        assert {file.name: file.read_bytes() for file in tmp_path.glob("sqlite_vec*")} == before
    assert len(book.import_(made, into="memories").added) == 2
    found = notes(book)
    rotated = found["mcp-memory-service-a1b2c3d4"]
    assert (rotated.tags, rotated.created[:10], rotated.title) == (
        ("ops", "keys"),
        "2026-01-01",
        "The deploy key is rotated every ninety days",
    )
    text = (book.config.vault / rotated.path).read_text("utf-8")
    assert 'project: "river"' in text
    assert text.endswith("\n\nThe deploy key is rotated every ninety days.\n\n# Why\n\nAudit.\n")
    assert not any(word in text for word in ("evil", "nested", "bad key"))
    assert "민수는 오후 회의를 좋아한다" in found["mcp-memory-service-e5f6"].path
    file = tmp_path / "export.json"
    file.write_text(json.dumps(SERVICE), "utf-8")
    assert book.import_(converted(file, tmp_path / "json"), into="memories").unchanged == 2
    book.move(rotated.path, "elsewhere.md")
    file.write_text(json.dumps([*SERVICE["memories"], {"content": "New.", "content_hash": "n1"}]), "utf-8")
    fresh = converted(file, tmp_path / "new", "--not-in", book.config.vault)
    assert book.import_(fresh, into="memories").added == ["memories/mcp-memory-service/New.md"]


MEM0: list[dict[str, Any]] = [
    {
        **{"id": "f1a0-77", "memory": "Prefers morning meetings.", "metadata": {"type": "preference"}, "hash": "x"},
        **{"categories": ["work"], "created_at": "2026-01-02T10:00:00-08:00", "updated_at": None, "user_id": "dev"},
    },
    {"id": "../../x", "memory": "Leads the API redesign.", "created_at": 1767434400000},
]


def test_memories_of_mem0(book: Spellbook, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The answer of `get_all` is read whole or as its list, by a Python that has no package; an id leads nowhere. What has
    no text is named. An import of the file itself says where the script is.
    """
    whole, listed = tmp_path / "mem0.json", tmp_path / "list.json"
    whole.write_text(json.dumps({"count": 2, "results": [*MEM0, {"id": "y", "memory": " "}]}), "utf-8")
    listed.write_text(json.dumps(MEM0), "utf-8")
    script: list[str | Path] = [sys.executable, "-I", "-S", import_memories.__file__, whole, tmp_path / "out"]
    done = subprocess.run(script, capture_output=True, text=True, check=True, encoding="utf-8")
    assert "left out: memory 3: it has no text, or no id\n" in done.stderr
    assert "2 notes. Next: spellbook import" in done.stderr
    text = (tmp_path / "out/mem0/Prefers morning meetings.md").read_text("utf-8")
    assert text == (
        '---\ntype: "preference"\nuser_id: "dev"\nid: "mem0-f1a0-77"\ntitle: "Prefers morning meetings"\n'
        'category: "memory"\ntopic: "mem0"\ntags: ["work"]\ncreated: "2026-01-02T18:00:00+00:00"\n---\n\n'
        "Prefers morning meetings.\n"
    )
    assert book.import_(tmp_path / "out", into="memories").faults == []
    assert notes(book)["mem0-------x"].created[:10] == "2026-01-03"
    assert book.import_(converted(listed, tmp_path / "again"), into="memories").unchanged == 2
    for file in (whole, listed, tmp_path / "db"):
        if not file.exists():
            database(file).close()
        with pytest.raises(InvalidInput) as raised:
            book.import_(file)
        assert "scripts/import_memories.py" in str(raised.value)
    assert "is there already" in refused(whole, capsys, tmp_path / "out")
    listed.write_text(json.dumps([*MEM0, {**MEM0[0], "memory": "Another."}]), "utf-8")
    assert "in it twice" in refused(listed, capsys, tmp_path / "twice")


TEXTS = st.text(max_size=60) | st.sampled_from(
    ("CON", "a.md", "../x", "# ", "x\u2028y", "\ud800", "---\nid: z\n---", "\x00\x85")
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.lists(TEXTS, max_size=3)
MEMORIES = st.fixed_dictionaries(
    {"id": TEXTS, "memory": TEXTS},
    optional={
        "metadata": st.dictionaries(TEXTS | st.just("aliases"), VALUES, max_size=3),
        "tags": VALUES,
        "created_at": VALUES,
    },
)


@settings(max_examples=60)
@given(st.lists(MEMORIES | VALUES, max_size=4))
@example([{"id": "1", "memory": "Same."}, {"id": "2", "memory": "same."}, {"id": "3", "memory": "SAME!"}])
@example([{"id": "1", "memory": "a/../../out"}, {"id": "2", "memory": "CON"}, {"id": "3", "memory": "\\..\\x\x00.md"}])
def test_whatever_an_export_holds(tmp_path_factory: pytest.TempPathFactory, exported: list[Any]) -> None:
    """Of any JSON either nothing is written, or notes in one folder below OUT, each with the id and category it was given."""
    place = tmp_path_factory.mktemp("any")
    (place / "x.json").write_text(json.dumps(exported), "utf-8")
    is_written = import_memories.main([str(place / "x.json"), str(place / "out")]) == 0
    assert sorted(file.name for file in place.iterdir()) == (["out", "x.json"] if is_written else ["x.json"])
    for file in (place / "out").rglob("*.md"):
        note = parse(file.name, file.read_bytes())
        assert file.parent == place / "out" / "mem0"
        assert note.meta["id"].startswith("mem0-")
        assert (note.meta["category"], note.meta["topic"]) == ("memory", "mem0")
        assert note.body.strip()


COMPUTED = SCHEMA.replace("content TEXT NOT NULL", "content TEXT AS (hex(zeroblob(9)))")
VIEW = "CREATE TABLE other (content, content_hash); CREATE VIEW memories AS SELECT content, content_hash FROM other;"
VIRTUAL = "CREATE VIRTUAL TABLE memories USING fts5(content, content_hash);"


def test_databases_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    What is no table of memories is not read; no view, virtual table or computed column is run. Of a file that is cut,
    memories or database, nothing is written; nor of one that is no file, or nothing.
    """
    out = tmp_path / "results/out"
    out.parent.mkdir()
    schemas = (VIEW, VIRTUAL, COMPUTED, "CREATE TABLE other (x);", "CREATE TABLE memories (x);")
    for number, schema in enumerate(schemas):
        with contextlib.closing(sqlite3.connect(tmp_path / f"{number}.db")) as connection:
            connection.executescript(schema)
        assert "no memories" in refused(tmp_path / f"{number}.db", capsys, out)
    with contextlib.closing(database(tmp_path / "db")) as connection:
        connection.executescript("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;")
    whole = {"json": json.dumps(SERVICE).encode(), "db": (tmp_path / "db").read_bytes()}
    for form, size in (("json", 20), ("json", 300), ("json", -10), ("db", 100), ("db", 4096), ("db", 6000)):
        (tmp_path / f"export.{form}").write_bytes(whole[form][:size])
        refused(tmp_path / f"export.{form}", capsys, out)
    for name, data in (("deep", b"[" * 200_000), ("digits", b"1" * 5_000), ("words", b"[1, {}]"), ("latin", b"\xff")):
        (tmp_path / name).write_bytes(data)
        refused(tmp_path / name, capsys, out)
    assert "cannot be read" in refused(tmp_path / "absent", capsys, out)
    if os.name != "nt":
        os.mkfifo(tmp_path / "pipe")
        assert "no regular file" in refused(tmp_path / "pipe", capsys, out)
    assert "lies in" in refused(tmp_path, capsys, out)
