"""
From 0.2.0, the first version that was published, to this one, by the code that it had, from this repository's history.

Nothing is embedded again, a state that is too new is refused by name and left alone, and two versions at once lose nothing.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spellbook.system.errors import StorageError
from spellbook.system.sqlite import Database
from tests.helpers import PATIENCE, held

ROOT = Path(__file__).resolve().parents[2]
OLD = "0.2.0"
COMMIT = "ef691005"
"""The commit of 0.2.0."""

NOTES = {
    f"n{number}.md": f"---\ntitle: Note {number}\n---\n# Note {number}\n\nWe keep sessions {number} in PostgreSQL, "
    f"세션은 Postgres에.\n\n## More {number}\n\nEvery night a dump is made.\n"
    for number in (1, 2, 3)
} | {"d.md": "---\nid: d1\ncategory: decision\ntitle: PostgreSQL로 옮긴다\n---\n\nPostgreSQL로 옮긴다.\n"}

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the code of 0.2.0."""
    archive = ["git", "archive", "--format=tar", COMMIT, "spellbook", "vault", "pyproject.toml"]
    made = subprocess.run(archive, cwd=ROOT, capture_output=True)
    if made.returncode:
        pytest.skip("needs the history of the repository")
    target = tmp_path_factory.mktemp("code")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as files:
        files.extractall(target, filter="data")
    return target


@pytest.fixture
def run(code: Path, vault: Path, tmp_path: Path) -> Program:
    """Run the program on a vault with notes and the bundled model, as `run(OLD, "reindex")` for that of 0.2.0."""
    for path, text in NOTES.items():
        (vault / path).write_text(text, "utf-8")
    (home := tmp_path / "home").mkdir()

    def run(version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "SPELLBOOK_EMBEDDER"}
        environment |= {"HOME": str(home), "PYTHONPATH": str(code if version else ROOT), "SPELLBOOK_VAULT": str(vault)}
        command = [sys.executable, "-m", "spellbook", *arguments]
        return subprocess.run(command, cwd=vault, env=environment, capture_output=True, text=True, timeout=PATIENCE)

    return run


def test_two_versions_lose_nothing(run: Program, vault: Path, tmp_path: Path) -> None:
    """
    Nothing is embedded again, and what the earlier version changed is undone. The older one refuses what the newer one
    wrote, says so and changes nothing; the newer one finds what was written meanwhile.
    """

    def answer(version: str, *arguments: str) -> dict[str, Any]:
        done = run(version, *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    assert answer(OLD, "reindex")["embedded"] == 7
    before = held(vault)
    assert run(OLD, "erase", "n1").returncode == 0
    assert run("", "undo").returncode == 0
    assert answer("", "reindex")["embedded"] == 0
    assert {path: held(vault)[path] for path in before} == before
    found = answer("", "search", "어디에 세션을 두나")
    assert found["index"]["pending"] == 0
    assert found["hits"][0]["path"] in NOTES
    (vault / "new.md").write_text("# Lighthouse\n\nThe lamp of the tower is lit.\n")
    state = {path: data for path, data in held(tmp_path / "state").items() if path.endswith("catalog.db")}
    for command in ("reindex", "search sessions"):
        done = run(OLD, *command.split())
        assert done.returncode
        assert "written by a newer Spellbook" in done.stderr
    assert state
    assert state.items() <= held(tmp_path / "state").items()
    assert [hit["path"] for hit in answer("", "find", "lighthouse")["hits"]] == ["new.md"]


def test_a_program_that_runs_says_that_it_is_the_older_one(tmp_path: Path) -> None:
    """A file that was rebuilt under it is neither written nor misread: it names the process to restart. A reading goes on."""

    def build(connection: sqlite3.Connection, version: int) -> None:
        connection.execute("DROP TABLE IF EXISTS notes")
        connection.execute("CREATE TABLE notes (path)" if version < 1 else "CREATE TABLE notes (path, title)")

    file = tmp_path / "catalog.db"
    with (
        contextlib.closing(Database(file, 1, build, {})) as older,
        contextlib.closing(Database(file, 2, build, {})) as newer,
    ):
        with older.transaction() as connection:
            connection.execute("INSERT INTO notes VALUES ('a.md')")
        with older.reading():
            assert older.rows("SELECT * FROM notes") == [("a.md",)]
            with newer.transaction() as connection:
                connection.execute("INSERT INTO notes VALUES ('b.md', 'B')")
            assert older.rows("SELECT * FROM notes") == [("a.md",)]
        with pytest.raises(StorageError, match="a newer Spellbook has rebuilt it") as caught, older.transaction():
            raise AssertionError("the older program wrote")
        assert f"(process {os.getpid()})" in caught.value.hint
        with pytest.raises(StorageError, match="a newer Spellbook has rebuilt it"):
            older.rows("SELECT kind FROM notes")
        assert newer.rows("SELECT * FROM notes") == [("b.md", "B")]
