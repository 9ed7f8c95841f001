"""Git hooks: the index follows git in the background, and neither git nor other hooks are disturbed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from filelock import FileLock

from spellbook.cli.clients import git_hooks
from spellbook.library import book as books
from spellbook.system.git_hook_queue import LOG, turn
from spellbook.system.processes import is_locked
from tests.commands import git, spellbook
from tests.commands import git_alone as git_alone
from tests.helpers import PATIENCE, Write, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes, links and POSIX shells")


@pytest.fixture
def repository(vault: Path) -> Path:
    """The vault as a git repository with a commit."""
    git(vault, "init", "--quiet", "--initial-branch", "main")
    git(vault, "commit", "--quiet", "--allow-empty", "-m", "first")
    return vault


def install(vault: Path, *args: object, code: int = 0) -> Result:
    return spellbook("install", "git-hooks", "--vault", vault, *args, code=code)


def add(name: str, place: Path, vault: Path, *command: object) -> Path:
    """Write a hook at `place` that runs a command for the vault; return the folder of the hooks."""
    found = git_hooks.find(place)
    changes = git_hooks.add(found.hooks, name, vault, git_hooks.block(found.top, vault, list(map(str, command)), {}))
    assert changes
    for change in changes:
        change.make()
    return found.hooks


def state_of(vault: Path) -> Path:
    with books.open(vault, embedder="hash") as book:
        return book.config.state


def wait_for_log(vault: Path, count: int) -> list[str]:
    """Return the lines of the log once there are `count`."""
    log = state_of(vault) / LOG

    def lines() -> list[str]:
        return log.read_text("utf-8").splitlines() if log.exists() else []

    until(lambda: len(lines()) >= count)
    return lines()


def tree(folder: Path) -> dict[str, object]:
    """Everything that a person can see of the files under a folder."""
    return {
        str(file.relative_to(folder)): os.readlink(file)
        if file.is_symlink()
        else (file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
        for file in sorted(folder.rglob("*"))
        if file.is_symlink() or file.is_file()
    }


# -- what it is for


@pytest.mark.slow
def test_the_index_follows_git(repository: Path, write_note: Write) -> None:
    """After a commit, checkout, merge and rebase the index matches the files; core.hooksPath may be absolute."""
    git(repository, "config", "core.hooksPath", repository.parent / "elsewhere")
    assert install(repository).stderr == ""
    git(repository, "switch", "--quiet", "--create", "side")
    write_note("lantern.md", "# Lantern\n\noil\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "second")
    wait_for_log(repository, 1)

    def follows(*command: str) -> None:
        before = len(wait_for_log(repository, 1))
        git(repository, *command)
        wait_for_log(repository, before + 1)
        with books.open(repository, embedder="hash") as book:
            is_there = (repository / "lantern.md").exists()
            until(lambda: book.state().notes == is_there)

    follows("switch", "main")
    follows("merge", "side")
    follows("commit", "--amend", "--allow-empty", "-m", "third")
    assert " 1 note: " in wait_for_log(repository, 1)[-1]
    assert git(repository, "status", "--porcelain") == ""


def test_git_neither_waits_nor_fails(
    repository: Path, write_note: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A hook returns before indexing ends, even if its output is read to the end. If Spellbook, the vault or the folder of
    state is gone, git succeeds and prints nothing. The working trees of a repository share its hooks; ours runs only in
    the one with the vault.
    """

    def executable(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
        return tmp_path / name

    go, ended, ran, linked = (tmp_path / name for name in ("go", "ended", "ran", "linked"))
    loop = f"while [ ! -e '{go}' ]; do sleep 0.05; done"
    slow = executable("slow", f"#!/bin/sh\necho loud; echo loud >&2; {loop}; touch '{ended}'\n")
    folder = add("post-commit", repository, repository, slow)
    for _ in range(5):
        done = subprocess.run([folder / "post-commit"], cwd=repository, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("", "")
    assert not ended.exists()
    go.touch()
    until(ended.exists)

    git(repository, "worktree", "add", "--quiet", linked)
    program = executable("program", f"#!/bin/sh\necho x >>'{ran}'\n")
    assert add("post-commit", linked, linked, program).resolve() == repository / ".git" / "hooks"
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "here")
    git(linked, "commit", "--quiet", "--allow-empty", "-m", "there")
    until(lambda: ran.exists() and ran.read_text())
    assert ran.read_text() == "x\n"

    ours = [sys.executable, "-m", "spellbook"]
    (tmp_path / "file").write_text("no folder")
    broken = ([str(tmp_path / "gone")], repository, None), (ours, repository / "gone", None), (ours, repository, "file")
    for number, (command, vault, state) in enumerate(broken):
        if state:
            monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / state))
        for name in git_hooks.HOOKS:
            add(name, repository, vault, *command)
        write_note(f"{number}.md", "text")
        git(repository, "add", ".")
        assert git(repository, "commit", "--quiet", "-m", "second") == ""
        assert git(repository, "commit", "--quiet", "--amend", "-m", "third") == ""


# -- beside other hooks


EARLIER = {
    "sh": ("#!/bin/sh\nread line\necho \"$0 $# $1 $line\" | sed 's,.*/,,'\nexit 3\n", 0o755),
    "bash that waits": ('#!/usr/bin/env bash\nset -euo pipefail\nwait\necho "$1"; cat\nfalse', 0o700),
    "sh -e, no newline": ("#!/bin/sh -e", 0o755),
    "a line of Windows": ("#!/bin/sh\n\r\n", 0o755),
    "python": (f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:], sys.stdin.read())\nsys.exit(4)\n", 0o755),
    "no first line": ('echo "$1"; cat; exit 5\n', 0o755),
    "switched off": ("#!/bin/sh\necho never\n", 0o644),
    "not text": ("#!" + sys.executable + "\n# é\n", 0o755),
}


@pytest.mark.parametrize(("text", "mode"), EARLIER.values(), ids=EARLIER)
def test_hooks_that_were_there(repository: Path, text: str, mode: int) -> None:
    """
    Existing hooks run as before, with arguments, input and exit code, and are unchanged after uninstalling. --dry-run
    shows diffs and changes nothing.
    """
    folder = repository / ".git" / "hooks"
    for name in git_hooks.HOOKS[:3]:
        (folder / name).write_bytes(text.encode("latin-1"))
        (folder / name).chmod(mode)
    before = tree(folder)

    def ran(name: str) -> tuple[str, int]:
        if not os.access(folder / name, os.X_OK):
            return "", 0  # as git does it
        shell = ["sh"] if not text.startswith("#!") and text in (folder / name).read_text("latin-1") else []
        command = [*shell, str(folder / name), "one two", "3"]
        done = subprocess.run(command, cwd=repository, input="old new\n", capture_output=True, text=True)
        return done.stdout, done.returncode

    expected = [ran(name) for name in git_hooks.HOOKS]
    assert install(repository, "--dry-run").stdout.count("+if [ . -ef ") == 4
    assert tree(folder) == before
    install(repository)
    assert [ran(name) for name in git_hooks.HOOKS] == expected
    assert all(b"reindex --quiet --queued" in (folder / name).read_bytes() for name in git_hooks.HOOKS)
    installed = tree(folder)
    assert "already" in install(repository).stdout
    assert tree(folder) == installed
    install(repository, "--uninstall")
    assert tree(folder) == before


def test_hooks_of_others(repository: Path) -> None:
    """
    A hook that is a link to a script is called by its own name, never written through, and is the same link after
    uninstalling. If installing is killed after a hook was moved aside, the next attempt finishes it. If another tool
    replaced our hook, it is not mixed up with the hook set aside; nothing is changed. Lines that someone adds to our
    hook stay when ours are removed.
    """
    folder = repository / ".git" / "hooks"
    hook, aside = folder / "post-merge", folder / git_hooks.ASIDE / "post-merge"

    def executable(file: Path, text: str) -> None:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def there_and_back(expected: str) -> None:
        install(repository)
        done = subprocess.run([hook, "0"], cwd=repository, capture_output=True, text=True, check=True)
        assert done.stdout == expected
        install(repository, "--uninstall")
        assert tree(folder) == before

    script = repository / "tools" / "dispatch.sh"
    executable(script, '#!/bin/sh\necho "$(basename "$0") $1"\n')
    hook.symlink_to("../../tools/dispatch.sh")
    before, written = tree(folder), script.read_bytes()
    there_and_back("post-merge 0\n")
    assert script.read_bytes() == written
    hook.unlink()
    executable(hook, f"#!{sys.executable}\nprint('ran')\n")
    before = tree(folder)
    aside.parent.mkdir()
    hook.rename(aside)
    there_and_back("ran\n")
    executable(aside, f"#!{sys.executable}\n")
    before = tree(folder)
    assert "another" in install(repository, code=1).stderr
    assert tree(folder) == before
    aside.unlink()
    hook.unlink()
    install(repository)
    hook.write_bytes(hook.read_bytes() + b"echo mine\n")
    install(repository, "--uninstall")
    assert hook.read_bytes().startswith(b"#!/bin/sh\n")
    assert hook.read_bytes().endswith(b"echo mine\n")
    assert b"reindex" not in hook.read_bytes()
    assert not (folder / "post-commit").exists()


# -- where hooks are


@pytest.mark.parametrize(
    "given",
    [
        {"GIT_DIR": "{}/.git", "GIT_WORK_TREE": "{}", "GIT_INDEX_FILE": "{}/.git/index", "GIT_PREFIX": ""},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "{}/elsewhere"},
        {"GIT_CONFIG_PARAMETERS": "'core.hooksPath'='{}/elsewhere'"},
        {"GIT_CEILING_DIRECTORIES": "{}/../vault"},
    ],
    ids=["as in a hook", "settings of one call", "settings handed on", "no looking upwards"],
)
def test_the_callers_repository_is_none_of_the_vaults(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    """Run inside a hook of another repository, the hooks still go into the vault's repository."""
    other, deep = tmp_path / "other", repository / "notes"
    git(tmp_path, "init", "--quiet", other)
    before = tree(other)
    deep.mkdir()
    for name, value in given.items():
        monkeypatch.setenv(name, value.format(other))
    for option, is_there in ((), True), (("--uninstall",), False):
        install(deep, *option)
        assert (repository / ".git" / "hooks" / "post-commit").exists() is is_there
    assert tree(other) == before


# -- turns


def test_one_runs_and_one_waits(vault: Path, write_note: Write) -> None:
    """While one run works, a second waits and a third ends at once; in the end everything is in the index."""
    state = state_of(vault)
    command = [sys.executable, "-m", "spellbook", "--vault", str(vault), "reindex", "--quiet", "--queued"]
    with FileLock(state / "queue.lock"):
        waiting = subprocess.Popen(command)
        next_turn = state / "queue-next.lock"
        until(lambda: next_turn.exists() and is_locked(next_turn))
        subprocess.run(command, check=True, timeout=PATIENCE)
        assert not (state / LOG).exists()
        write_note("late.md", "late")
    assert waiting.wait(PATIENCE) == 0
    assert len(wait_for_log(vault, 1)) == 1
    with books.open(vault, embedder="hash") as book:
        assert book.state().notes == 1


def test_the_log_tells_of_failures(vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Faults and errors of a hook are in its log; stdout and stderr are as without it. The log and its predecessor stay
    below half a megabyte together.
    """
    write_note("bad.md", "---\na: [\n---\n")
    command = ("--vault", vault, "reindex", "--queued")
    spellbook(*command, "--quiet")
    assert "bad.md, line " in wait_for_log(vault, 1)[-1]
    write_note("good.md", "text")
    assert "bad.md, line " in spellbook(*command, "--quiet").stderr
    assert "bad.md" not in wait_for_log(vault, 2)[-1], "it is told when it is new"
    (vault / "bad.md").unlink()
    assert json.loads(spellbook(*command, "--json").stdout)["removed"] == 1
    write_note("new.md", "text")
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "ollama:none@http://127.0.0.1:9")
    spellbook(*command, "--quiet", code=1)
    assert "127.0.0.1:9" in wait_for_log(vault, 4)[-1]
    state = state_of(vault)
    with turn(state) as log:
        assert log
        for number in range(2000):
            log(f"{number} {'x' * 500}")
    assert sum(file.stat().st_size for file in state.glob(f"{LOG}*")) < 500_000
    assert (state / LOG).read_text().splitlines()[-1].split()[2] == "1999"
