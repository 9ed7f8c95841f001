"""Commands of Spellbook and git, run by tests."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from spellbook.cli import main
from tests.helpers import PATIENCE

main.list_commands(click.Context(main, help_option_names=["-h", "--help"]))  # which imports all


def spellbook(
    *args: object, stdin: str | bytes | None = None, code: int | None = 0, **environment: str | None
) -> Result:
    """Run a command in this process; `code` None allows any exit code."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin, env=environment)
    assert code in {None, result.exit_code}, f"{args}: {result.output} {result.exception!r}"
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def process(*args: object, code: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as its own process, with pipes; `code` None allows any exit code."""
    command = [sys.executable, "-m", "spellbook", *map(str, args)]
    given = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=given, timeout=PATIENCE)
    assert code in {None, done.returncode}, f"{args}: {done.stdout} {done.stderr}"
    return done


def spellbook_in(
    vault: Path, *args: object, stdin: str | None = None, code: int | None = 0, **environment: str
) -> Result:
    """Run a command in a vault with the `hash` embedder."""
    return spellbook("--vault", vault, *args, stdin=stdin, code=code, SPELLBOOK_EMBEDDER="hash", **environment)


@pytest.fixture(autouse=True)
def git_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}.items():
        monkeypatch.setenv(name, value)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.org")


def git(folder: Path, *args: object, code: int = 0) -> str:
    done = subprocess.run(["git", "-C", str(folder), *map(str, args)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def cloned(shared: Path, *clones: Path, vault: str = "", notes: dict[str, str]) -> None:
    """Clone a new bare repository, each clone with a vault and the merge driver; the first one brings the notes."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch", "main", shared], check=True)
    for place in clones:
        git(shared.parent, "clone", "--quiet", shared, place)
        if place == clones[0]:
            (place / vault).mkdir(exist_ok=True)
            for path, text in notes.items():
                (place / vault / path).write_text(text)
        spellbook("install", "git-merge", "--vault", place / vault)
        if place == clones[0]:
            git(place, "add", "--all")
            git(place, "commit", "--quiet", "-m", "first")
            git(place, "push", "--quiet", "-u", "origin", "main")


def on_a_terminal(*args: object, typed: str = "", **environment: str) -> str:
    """Run a command on a terminal, on which a person types; return what it shows."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    command = [sys.executable, "-m", "spellbook", *map(str, args)]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **environment})
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while block := os.read(ours, 65536):
            shown += block
    os.close(ours)
    assert child.wait(timeout=PATIENCE) == 0, shown.decode()
    return shown.decode()
