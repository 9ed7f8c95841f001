"""
From 0.2.0, the first version that was published, to this one, by the code that it had, from this repository's history.

Nothing is embedded again, a state that is too new is refused by name and left alone, two versions at once lose
nothing, and what an older `install` wrote is brought up to date and undone byte for byte.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
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
    home = tmp_path / "home"
    home.mkdir()

    def run(version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "HOME": str(home),
            "PYTHONPATH": str(code if version else ROOT),
            "SPELLBOOK_VAULT": str(vault),
            "SPELLBOOK_STATE": str(tmp_path / "state"),
        }
        environment.pop("SPELLBOOK_EMBEDDER", None)
        command = [sys.executable, "-m", "spellbook", *arguments]
        return subprocess.run(command, cwd=vault, env=environment, capture_output=True, text=True, timeout=PATIENCE)

    return run


def reindexed(run: Program, version: str) -> dict[str, Any]:
    """Run `reindex` of a version and return what it counted."""
    done = run(version, "reindex", "--json")
    assert done.returncode == 0, done.stderr
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts


def test_the_state_of_an_earlier_version_is_used(run: Program, vault: Path) -> None:
    """Nothing is embedded again, and what the earlier version changed is undone."""
    assert reindexed(run, OLD)["embedded"] == 7
    before = held(vault)
    assert run(OLD, "erase", "n1").returncode == 0
    assert run("", "undo").returncode == 0
    assert reindexed(run, "")["embedded"] == 0
    assert {path: held(vault)[path] for path in before} == before
    answer = json.loads(run("", "search", "어디에 세션을 두나", "--json").stdout)
    assert answer["index"]["pending"] == 0
    assert answer["hits"][0]["path"] in NOTES


def test_an_older_version_refuses_what_is_too_new(run: Program, tmp_path: Path) -> None:
    """It says that a newer version wrote it, and changes nothing."""
    reindexed(run, "")
    before = held(tmp_path / "state")
    for command in (["reindex"], ["search", "sessions"]):
        done = run(OLD, *command)
        assert done.returncode
        assert "written by a newer Spellbook" in done.stderr
    kept = {path: data for path, data in held(tmp_path / "state").items() if path.endswith("catalog.db")}
    assert kept
    assert kept.items() <= before.items()


def test_two_versions_at_once_lose_nothing(run: Program, vault: Path) -> None:
    """In turns, the older one says that it is older, and the newer one finds what was written meanwhile."""
    reindexed(run, OLD)
    for number, version in enumerate(["", OLD, "", OLD]):
        (vault / f"new{number}.md").write_text(f"# Lighthouse {number}\n\nThe lamp of tower {number} is lit.\n")
        assert ("written by a newer Spellbook" in run(version, "reindex", "--json").stderr) is bool(version)
    paths = {hit["path"] for hit in json.loads(run("", "find", "lighthouse", "--json").stdout)["hits"]}
    assert paths == {f"new{number}.md" for number in range(4)}


def test_a_program_that_runs_says_that_it_is_the_older_one(tmp_path: Path) -> None:
    """A file that was rebuilt under it is neither written nor misread: it names the process to restart."""

    def build(connection: Any, version: int) -> None:
        connection.execute("DROP TABLE IF EXISTS notes")
        connection.execute("CREATE TABLE notes (path)" if version < 1 else "CREATE TABLE notes (path, title)")

    file = tmp_path / "catalog.db"
    with (
        contextlib.closing(Database(file, 1, build, {})) as older,
        contextlib.closing(Database(file, 2, build, {})) as newer,
    ):
        with older.transaction() as connection:
            connection.execute("INSERT INTO notes VALUES ('a.md')")
        with newer.transaction() as connection:
            connection.execute("INSERT INTO notes VALUES ('b.md', 'B')")
        with pytest.raises(StorageError, match="a newer Spellbook has rebuilt it") as caught, older.transaction():
            raise AssertionError("the older program wrote")
        assert f"(process {os.getpid()})" in caught.value.hint
        with pytest.raises(StorageError, match="a newer Spellbook has rebuilt it"):
            older.rows("SELECT kind FROM notes")
        assert newer.rows("SELECT * FROM notes") == [("b.md", "B")]


INSTALLS = (
    ("cursor",),
    ("vscode", "--project", "."),
    ("claude-code", "--project", "."),
    ("claude-code", "--hooks", "--recall"),
    ("git-hooks",),
    ("git-merge",),
)


def test_what_an_older_install_wrote_is_brought_up_to_date(run: Program, vault: Path, tmp_path: Path) -> None:
    """After `install` again everything is as if today's had written it, and after --uninstall as it was before both."""
    home = tmp_path / "home"
    files = {
        home / ".cursor/mcp.json": '{\n    "mcpServers": {"other": {"command": "x"}}\n}\n',
        home / ".claude/settings.json": '{"permissions": {"allow": ["Bash"]}}\n',
        home / ".claude.json": '{"numStartups": 3}\n',
        vault / ".vscode/mcp.json": '{\n\t// mine\n\t"servers": {}\n}\n',
        vault / ".git/hooks/post-commit": "#!/bin/sh\necho mine\n",
    }
    subprocess.run(["git", "init", "-q", vault], check=True)
    shutil.rmtree(vault / ".git/hooks")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (vault / ".git/hooks/post-commit").chmod(0o755)

    def texts() -> dict[str, str]:
        """What clients and git read, without the backups that `install` keeps."""
        places = (*home.rglob("*"), *vault.rglob("*"))
        return {
            str(file): file.read_text("utf-8")
            for file in places
            if file.is_file() and ".bak" not in file.name and "objects" not in file.parts
        }

    def install(version: str, *options: str) -> list[int]:
        return [run(version, "install", *arguments, *options).returncode for arguments in INSTALLS]

    before = texts()
    assert install("") == [0] * len(INSTALLS)
    wanted = texts()
    assert install("", "--uninstall") == [0] * len(INSTALLS)
    assert texts() == before
    older = install(OLD)
    assert older.count(0) >= 4
    assert install("") == [0] * len(INSTALLS)
    assert texts() == wanted
    assert install("", "--uninstall") == [0] * len(INSTALLS)
    assert texts() == before
