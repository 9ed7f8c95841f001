"""
Git hooks that keep a vault's index current, and lines in its `.gitignore` and `.gitattributes`.

Each starts a re-index in the background and returns: it fails no git command and holds none up. Hooks that are there
run as before, with the same arguments, input and exit status, and uninstalling leaves them as they were.
The lines may be committed: where the merge driver is not installed, git merges notes as any other text.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spellbook.cli.clients import changes
from spellbook.cli.clients.changes import FileChange
from spellbook.system import disk, platform
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.system.lazy import regex

HOOKS = ("post-commit", "post-merge", "post-checkout", "post-rewrite")
"""Hooks that git runs when it may have changed files of the working tree."""

ASIDE = "before-spellbook"
"""The folder beside our hooks for earlier hooks that are no shell scripts."""

_OF_THE_PERSON = regex(
    r"GIT_(CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|(AUTHOR|COMMITTER)_\w+|SSH(_\w+)?|ASKPASS|TERMINAL_PROMPT)"
)
"""Variables with a person's own settings of git, which hold for every repository; a hooks folder may be set there."""

_SHELL = regex(
    rb"#![ \t]*(?:/\S*/env[ \t]+(?:-\S+[ \t]+)*)?(?:/\S*/)?(?:sh|bash|dash|ash|zsh|ksh|mksh)(?:[ \t\r][^\n]*)?(?=\n|\Z)"
)
_SHEBANG = b"#!/bin/sh"
_END = "# <<< spellbook <<<"
_MADE = b"\n# This hook was made by Spellbook.\n"
_CHAIN = (
    f'\n# What was here before Spellbook is in {ASIDE}.\nearlier="${{0%/*}}/{ASIDE}/${{0##*/}}"\n'
    '[ -x "$earlier" ] || exit 0\n"$earlier" "$@"\n'
).encode()


@dataclass(frozen=True, slots=True)
class HookedRepository:
    """A working tree, and the folder in which git looks for its hooks."""

    top: Path
    hooks: Path


@dataclass(frozen=True, slots=True)
class Move:
    """The move of an earlier hook into the folder `ASIDE` beside it, or back."""

    source: Path
    target: Path

    def difference(self) -> str:
        """Return the move as git writes it in a difference."""
        return f"rename from {self.source}\nrename to {self.target}\n"

    def make(self) -> None:
        """Move the hook; a relative symbolic link still points to the same file. Raises StorageError."""
        with disk.explain_errors(str(self.source)):
            self.target.parent.mkdir(exist_ok=True)
            if not self.source.is_symlink():
                platform.replace(self.source, self.target)
            else:
                end = os.readlink(self.source)
                if not os.path.isabs(end):
                    is_out = self.target.parent.name == ASIDE
                    end = os.path.join("..", end) if is_out else end.removeprefix(".." + os.sep)
                os.symlink(end, self.target)
                platform.remove(self.source)
        with contextlib.suppress(OSError):  # others are in it
            self.source.parent.rmdir()


def find(vault: Path) -> HookedRepository:
    """Return the repository that holds `vault`. Raises InvalidInput if there is none, or its hooks are switched off."""
    top = Path(git(vault, "rev-parse", "--show-toplevel"))
    # Asked at the top, since a relative core.hooksPath counts from there.
    hooks = top / git(top, "rev-parse", "--git-path", "hooks")
    if os.path.lexists(hooks) and not hooks.is_dir():
        raise InvalidInput(
            f"{hooks}, where git looks for hooks, is not a folder.", "Change git's setting core.hooksPath."
        )
    return HookedRepository(top, hooks)


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints in `folder`. Raises InvalidInput if git fails, or is not installed."""
    done = start(folder, *arguments)
    if done.returncode:
        lines = os.fsdecode(done.stderr).strip().splitlines()
        if lines and "not a git repository" in lines[0]:
            raise InvalidInput(f"{folder} is not in a git repository.", "Run `git init` there first.")
        raise InvalidInput(
            f"{folder}: {lines[0] if lines else 'git failed'}.", "This needs a vault in a git repository."
        )
    return os.fsdecode(done.stdout).removesuffix("\n").removesuffix("\r")


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """
    Run git in `folder`, with `variables`, and without those that name another repository, as git sets them for hooks.

    Raises InvalidInput if git cannot be started.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or _OF_THE_PERSON.fullmatch(name)
    }
    command = ["git", "-C", str(folder), *arguments]
    try:
        return platform.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=kept | variables)
    except OSError as error:
        raise InvalidInput("There is no git on this machine.", "Install git first.") from error


def block(top: Path, vault: Path, command: Sequence[str], env: Mapping[str, str]) -> bytes:
    """Return the lines that a hook of the working tree `top` gets for `vault`, without a newline at the end."""
    started = shell_line((*command, "--vault", str(vault)), env)
    # Doubly in the background, so that a `wait` further down does not wait for it.
    return os.fsencode(f"""\
{_begin(vault)}
if [ . -ef {shlex.quote(top.as_posix())} ]; then
  (trap '' HUP; {started} reindex --quiet --queued </dev/null >/dev/null 2>&1 &)
fi
{_END}""")


def shell_line(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Return a command with the variables `env` as a line for a POSIX shell, which git and Claude Code bring along."""
    settings = "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())
    return settings + " ".join(shlex.quote(part.replace("\\", "/") if os.name == "nt" else part) for part in command)


def _begin(vault: Path) -> str:
    return f"# >>> spellbook >>> {json.dumps(str(vault), ensure_ascii=False)}"


def add(hooks: Path, name: str, vault: Path, lines: bytes) -> list[FileChange | Move]:
    """Return the changes that put `lines` into the hook `name`; none if they are there. Raises Conflict."""
    file = hooks / name
    aside = hooks / ASIDE / name
    before = changes.read(file)
    added = b"\n" + lines
    span = _span(before, vault) if before else None
    is_run = os.access(file, os.X_OK) and not file.is_symlink()
    if before and span is None and is_run and (shebang := _SHELL.match(before)):
        place = len(shebang[0].rstrip(b"\r"))
        span = (place, place)
    if before and span is not None:
        after = before[: span[0]] + added + before[span[1] :]
        return [] if after == before else [FileChange(file, before, after)]
    is_there = os.path.lexists(file)
    is_kept = os.path.lexists(aside)
    if is_kept and is_there:
        raise Conflict(
            f"{aside}: there is one already, and {file} is another.", "Combine them in one, and delete the other."
        )
    end = _CHAIN if is_there or is_kept else _MADE
    made = FileChange(file, None, _SHEBANG + added + end, is_program=True)
    return [Move(file, aside), made] if is_there else [made]


def take_out(hooks: Path, name: str, vault: Path) -> list[FileChange | Move]:
    """Return the changes that remove the lines for `vault` from the hook `name`; none if they are not in it."""
    file = hooks / name
    aside = hooks / ASIDE / name
    before = changes.read(file)
    span = _span(before, vault) if before else None
    if not before or not span:
        return []
    after = before[: span[0]] + before[span[1] :]
    if after == _SHEBANG + _MADE:
        return [FileChange(file, before, None)]
    if after == _SHEBANG + _CHAIN and os.path.lexists(aside):
        return [FileChange(file, before, None), Move(aside, file)]
    return [FileChange(file, before, after)]


def _span(data: bytes, vault: Path) -> tuple[int, int] | None:
    """Return where the lines for `vault` stand, with the newline before them."""
    start = data.find(b"\n" + os.fsencode(_begin(vault)) + b"\n")
    end = data.find(_END.encode(), start)
    return None if start < 0 or end < 0 else (start, end + len(_END))


# -- git's files in the vault, and the merge driver

IGNORE, TRASH = ".gitignore", ".trash/"
"""The file, and the line in it that keeps what is erased from all who have the repository."""

ATTRIBUTES, NOTES = ".gitattributes", "*.md merge=spellbook"
"""The file, and the line in it that names the driver for notes."""

_SECTION = "merge.spellbook"


def is_trash_shared(vault: Path) -> bool:
    """Say whether `vault` is in a git repository that does not ignore its trash; git knows all ignore rules."""
    with contextlib.suppress(InvalidInput):
        # 128 outside of a repository
        return start(vault, "check-ignore", "--quiet", "--no-index", f"{TRASH}note.md").returncode == 1
    return False


def with_line(file: Path, line: str) -> FileChange:
    """Return the change that appends a line to one of git's files. Raises InvalidInput, StorageError."""
    if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
        raise InvalidInput(
            f"{file} is not a regular file, and git reads no other.", f"Add the line {line} where your rules are."
        )
    before = changes.read(file)
    end = b"\r\n" if before and b"\r\n" in before else b"\n"
    begun = end if before and not before.endswith(b"\n") else b""
    return FileChange(file, before, (before or b"") + begun + line.encode() + end)


@dataclass(frozen=True, slots=True)
class DriverSetting:
    """The change of a repository's settings after which `command` merges notes; none does if it is ""."""

    top: Path
    command: str

    def difference(self) -> str:
        """Return the setting as a line."""
        return f"{_SECTION}.driver = {self.command}\n"

    def make(self) -> None:
        """Write the setting, or remove it. Raises InvalidInput if git fails."""
        if self.command:
            git(self.top, "config", "--local", f"{_SECTION}.name", "Notes, by Spellbook")
            git(self.top, "config", "--local", f"{_SECTION}.driver", self.command)
        else:
            git(self.top, "config", "--local", "--remove-section", _SECTION)


def merging(vault: Path, command: Sequence[str]) -> list[FileChange | DriverSetting]:
    """Return the changes after which `command`, which starts Spellbook, merges the notes; without one, git does."""
    top = find(vault).top
    file = vault / ATTRIBUTES
    driver = f"{shell_line(command, {})} merge-driver %O %A %B --path %P --ours %X --theirs %Y" if command else ""
    rows = (before := changes.read(file) or b"").splitlines(keepends=True)
    others = [row for row in rows if row.strip() != NOTES.encode()]
    planned: list[FileChange | DriverSetting] = []
    if bool(command) == (others == rows):
        planned.append(with_line(file, NOTES) if command else FileChange(file, before, b"".join(others) or None))
    if _configured(top) != driver:
        planned.append(DriverSetting(top, driver))
    return planned


def _configured(folder: Path) -> str:
    """Return the driver in the repository's settings, "" if there is none."""
    return git(folder, "config", "--local", "--default", "", "--get", f"{_SECTION}.driver")


def is_merged(vault: Path) -> bool:
    """Say whether git merges the vault's notes by the driver."""
    attribute = ("check-attr", "merge", "--", f"{vault}{os.sep}note.md")
    return git(vault, *attribute).endswith(": spellbook") and bool(_configured(vault))
