"""
Lines in a vault's `.gitignore` and `.gitattributes`, and the merge driver in the repository's settings, on request.

The lines may be committed: where the driver is not installed, git merges notes as any other text.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from spellbook.cli.clients import changes, hooks
from spellbook.cli.clients.changes import FileChange
from spellbook.system.errors import InvalidInput

IGNORE, TRASH = ".gitignore", ".trash/"
"""The file, and the line in it that keeps what is erased from all who have the repository."""

ATTRIBUTES, NOTES = ".gitattributes", "*.md merge=spellbook"
"""The file, and the line in it that names the driver for notes."""

_SECTION = "merge.spellbook"
DRIVER = f"{_SECTION}.driver"


def is_trash_shared(vault: Path) -> bool:
    """Say whether `vault` is in a git repository that does not ignore its trash; git knows all ignore rules."""
    command = ["git", "-C", str(vault), "check-ignore", "--quiet", "--no-index", f"{TRASH}note.md"]
    try:
        done = subprocess.run(command, capture_output=True, env=hooks.environment(), check=False)
    except OSError:
        return False  # there is no git
    return done.returncode == 1  # 128 outside of a repository


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


def merging(vault: Path, *, is_wanted: bool) -> FileChange | None:
    """Return the change that adds the line for notes, or removes it; None if nothing is to be done."""
    file = vault / ATTRIBUTES
    rows = (before := changes.read(file) or b"").splitlines(keepends=True)
    others = [row for row in rows if row.strip() != NOTES.encode()]
    if is_wanted == (others != rows):
        return None
    return with_line(file, NOTES) if is_wanted else FileChange(file, before, b"".join(others) or None)


def driver(command: Sequence[str]) -> str:
    """Return the driver as git's settings name it; `command` starts Spellbook."""
    return f"{hooks.shell_line(command, {})} merge-driver %O %A %B --path %P --ours %X --theirs %Y"


def configured(top: Path) -> str:
    """Return the driver in the repository's settings, "" if there is none."""
    return hooks.git(top, "config", "--local", "--default", "", "--get", DRIVER)


def configure(top: Path, driver: str) -> None:
    """Write the driver into the repository's settings, or remove it if it is ""."""
    if driver:
        hooks.git(top, "config", "--local", f"{_SECTION}.name", "Notes, by Spellbook")
        hooks.git(top, "config", "--local", DRIVER, driver)
    else:
        hooks.git(top, "config", "--local", "--remove-section", _SECTION)


def is_merged(vault: Path) -> bool:
    """Say whether git merges the vault's notes by the driver."""
    answer = hooks.git(vault, "check-attr", "merge", "--", f"{vault}{os.sep}note.md")
    return answer.endswith(": spellbook") and bool(configured(vault))
