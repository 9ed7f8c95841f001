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

from spellbook.archive.importer import Imported
from spellbook.library.book import Spellbook
from spellbook.memories import wikis
from spellbook.system.errors import InvalidInput, UnreadableNote
from tests.commands import spellbook_in
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
MORNING = {"id": "f1a0-77", "memory": "Prefers morning meetings.", "hash": "x", "metadata": {"type": "preference"}}
MORE = {"categories": ["work"], "created_at": "2026-01-02T10:00:00-08:00", "updated_at": None, "user_id": "dev"}
REDESIGN = {"id": "../../x", "memory": "Leads the API redesign.", "created_at": 1767434400000}
MEM0 = {"count": 2, "results": [{**MORNING, **MORE}, REDESIGN]}


def notes(book: Spellbook) -> dict[str, Any]:
    book.reindex()
    return {chunk.note: chunk for chunk in book.recent(100).notes}


@pytest.mark.parametrize(("given", "mem0"), [(SERVICE, MEM0), (SERVICE["memories"], MEM0["results"])])
def test_memories_of_servers(book: Spellbook, tmp_path: Path, given: Any, mem0: Any) -> None:
    """
    Memories of mcp-memory-service keep text, tags, dates and plain metadata; nothing comes twice, and notes that were
    edited since stay. Those of mem0 are read as get_all answers, whole or its list; an id cannot lead anywhere.
    """
    file = tmp_path / "export.json"
    file.write_text(json.dumps(given), "utf-8")
    assert book.import_(file, dry_run=True).added
    assert notes(book) == {}
    done = book.import_(file)
    assert len(done.added) == 2
    chunk = notes(book)["mcp-memory-service-a1b2c3d4"]
    assert chunk.title == "The deploy key is rotated every ninety days"
    assert (chunk.tags, chunk.category, chunk.created[:10]) == (("ops", "keys"), "memory", "2026-01-01")
    assert (chunk.meta["project"], chunk.meta["memory_type"], "nested" in chunk.meta) == ("river", "note", False)
    assert notes(book)["mcp-memory-service-e5f6"].tags == ("사람", "회의")
    again = book.import_(file)
    assert (again.added, again.unchanged) == ([], 2)
    book.revise("mcp-memory-service-e5f6", append="고쳤다.")
    assert len(book.import_(file).skipped) == 1
    assert "고쳤다" in (book.config.vault / done.added[1]).read_text("utf-8")
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(mem0), "utf-8")
    assert len(book.import_(file).added) == 2
    found = notes(book)
    chunk = found["mem0-f1a0-77"]
    assert (chunk.title, chunk.tags, chunk.meta["user_id"]) == ("Prefers morning meetings", ("work",), "dev")
    assert chunk.meta["type"] == "preference"
    assert found["mem0-------x"].created == "2026-01-03T10:00:00+00:00"
    assert book.import_(file).added == []
    assert all(path.is_relative_to(book.config.vault) for path in book.config.vault.rglob("*.md"))


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


FILES = {
    "MEMORY.md": "# Memory\n\n- [Two processes for tests](feedback_tests.md) - how\n- [Me](user.md)\n",
    "feedback_tests.md": "---\nname: feedback-tests\ndescription: How tests run\nmetadata:\n  type: feedback\n"
    "  modified: 2026-09-08T19:29:56.864Z\n---\n\nRun tests with two processes.\n\n## Why\n\nThe machine is small.\n",
    "user.md": "---\ntype: user\n---\nWrites Korean in the morning.\n",
    "project_api.md": "---\nname: api\ntype: project\n---\nThe API moved to Fastify in May.\n",
    "reference.md": "---\ntype: reference\ntrust: trusted\nscope: evil\nid: evil\n---\nThe board is in Linear.\n",
    "plain.md": "# Plain\n\nNo frontmatter at all.\n",
    "broken.md": "---\nname: [\n---\nBroken frontmatter.\n",
    "notes.txt": "no memory",
    ".hidden.md": "no memory",
}


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory with one file of each type."""
    folder = tmp_path / "claude" / "projects" / "-home-me-app" / "memory"
    for file, text in FILES.items():
        note_writer(folder)(file, text)
    return folder


def take(book: Spellbook, memory: Path, **options: Any) -> Imported:
    """Import the memory."""
    return book.import_(memory, kind="claude-memory", **options)


def by_source(book: Spellbook) -> dict[str, Any]:
    """The first chunk of each note by the file that it was made of."""
    return {str(chunk.meta.get("source")).rpartition("/")[2]: chunk for chunk in book.recent(100).notes}


def test_memories_are_notes_with_their_provenance(book: Spellbook, memory: Path) -> None:
    """Each memory is a note of its type, found by its words, an agent's own; the list of them gives titles alone."""
    before = state_of(memory)
    done = take(book, memory)
    assert done.faults == []
    assert len(done.added) == 6
    notes = by_source(book)
    filed = {file: (chunk.category, chunk.meta["type"], chunk.title) for file, chunk in notes.items()}
    assert filed == {
        "feedback_tests.md": ("preference", "semantic", "Two processes for tests"),
        "user.md": ("preference", "semantic", "Me"),
        "project_api.md": ("memory", "episodic", "api"),
        "reference.md": ("memory", "semantic", "reference"),
        "plain.md": ("memory", "semantic", "Plain"),
        "broken.md": ("memory", "semantic", "broken"),
    }
    feedback = notes["feedback_tests.md"]
    assert feedback.path == "preference/claude-memory/Two processes for tests.md"
    assert feedback.meta["source"] == "claude-memory:-home-me-app/feedback_tests.md"
    assert feedback.meta["summary"] == "How tests run"
    assert str(feedback.updated).startswith("2026-09-08T19:29:56")
    assert {chunk.meta["trust"] for chunk in notes.values()} == {"agent"}
    assert not {"evil"} & {str(value) for value in notes["reference.md"].meta.values()}
    [hit] = book.find("Fastify").hits
    assert (hit.path, hit.properties) == ("memory/claude-memory/api.md", "")
    assert state_of(memory) == before
    book.undo()
    assert by_source(book) == {}


def test_again_nothing_changed_there_a_proposal_changed_here_ours(book: Spellbook, memory: Path) -> None:
    """An import again writes nothing; what has changed there is named; what was changed here stays as it is."""
    take(book, memory)
    vault, notes = book.config.vault, by_source(book)
    book.move(notes["user.md"].path, "Me/about me.md")
    book.revise(notes["plain.md"].note, append="Kept by me.")
    before = state_of(vault)
    again = take(book, memory)
    assert (again.paths, again.unchanged, again.skipped, again.proposed) == ([], 6, [], [])
    assert take(book, memory, on_conflict="overwrite").unchanged == 6  # nothing is new there
    note_writer(memory)("user.md", FILES["user.md"] + "And English at night.\n")
    note_writer(memory)("new.md", "A new memory.")
    for options in ({"dry_run": True}, {}):
        done = take(book, memory, **options)
        assert (done.proposed, done.skipped, done.unchanged) == (["Me/about me.md"], [], 5)
    assert done.added == ["memory/claude-memory/new.md"]
    (vault / done.added[0]).unlink()
    (memory / "new.md").unlink()
    assert {path: state for path, state in state_of(vault).items() if path in before} == before
    done = take(book, memory, on_conflict="overwrite")
    assert (done.overwritten, len(done.trash)) == (["Me/about me.md"], 1)
    assert "English" in (vault / "Me/about me.md").read_text("utf-8")
    assert "Kept by me." in (vault / notes["plain.md"].path).read_text("utf-8")


def test_what_is_left_out_is_named(book: Spellbook, memory: Path, tmp_path: Path) -> None:
    """
    Secrets, large and empty files are not imported, nor what a link leads to outside; each is named. A folder that
    holds the vault is refused; with a file that is no text, which is named, nothing is imported.
    """
    note_writer(memory)("secret.md", "The wifi password of the office is Tr0ub4dor&3x!.\n")
    note_writer(memory)("titled.md", "---\nname: 'AKIAQ7RZ3MNB5KLCX2VT'\n---\nA key.\n")
    note_writer(memory)("large.md", "x" * 2_097_153)
    note_writer(memory)("empty.md", "")
    note_writer(tmp_path)("outside.md", "Not of Claude Code.")
    if os.name != "nt":
        (memory / "linked.md").symlink_to(tmp_path / "outside.md")
        os.mkfifo(memory / "pipe.md")
    done = take(book, memory)
    assert len(done.added) == 6
    named = {fault.path for fault in done.faults}
    assert {"secret.md", "titled.md", "large.md", "empty.md"} <= named
    assert os.name == "nt" or {"linked.md", "pipe.md"} <= named
    told = "".join(map(str, done.faults))
    assert "Tr0ub4dor" not in told
    assert "AKIAQ7RZ3MNB5KLCX2VT" not in told
    book.undo()
    (memory / "x.md").write_bytes(b"\x89PNG\xff\x00\xff")
    with pytest.raises(UnreadableNote, match=r"x\.md"):
        take(book, memory)
    assert by_source(book) == {}
    with pytest.raises(InvalidInput, match="lie in one another"):
        take(book, memory.parents[3])


def test_the_command(vault: Path, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import claude-memory` takes the memory of this project, or of a folder, and names what has changed there."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "nowhere"))
    refused = spellbook_in(vault, "import", "claude-memory", code=2)
    assert "Claude Code has no memory of this project; name its folder." in refused.stderr
    assert "is a file" in spellbook_in(vault, "import", "claude-memory", memory / "user.md", code=2).stderr
    assert "alone" in spellbook_in(vault, "import", memory, memory, code=2).stderr
    assert "Imported: 6 added." in spellbook_in(vault, "import", "claude-memory", memory).stdout
    monkeypatch.setenv("CLAUDE_CODE_PROJECT_DIR_NAME", "-home-me-app")
    assert wikis.folder() == memory
    assert "6 already there" in spellbook_in(vault, "import", "claude-memory").stdout
    note_writer(memory)("user.md", "---\ntype: user\n---\nWrites English.\n")
    done = spellbook_in(vault, "import", "claude-memory")
    assert "1 changed there since, not taken" in done.stdout
    assert "changed there: preference/claude-memory/Me.md" in done.stdout
    assert "--on-conflict overwrite" in done.stderr
