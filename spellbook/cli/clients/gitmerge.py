"""
The merge driver for notes: a line in the vault's `.gitattributes`, and a command in the repository's settings.

The line may be committed. Where somebody has not installed the driver, git merges notes as any other text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from spellbook.cli.clients import changes, gitignore, hooks
from spellbook.cli.clients.changes import FileChange

FILE = ".gitattributes"
LINE = "*.md merge=spellbook"
_SECTION = "merge.spellbook"
DRIVER = f"{_SECTION}.driver"


def line(vault: Path, *, is_wanted: bool) -> FileChange | None:
    """Return what adds the line to the vault's `.gitattributes`, or takes it out; None if nothing is to be done."""
    file = vault / FILE
    before = changes.read(file) or b""
    rows = before.splitlines(keepends=True)
    others = [row for row in rows if row.strip() != LINE.encode()]
    if is_wanted:
        return gitignore.with_line(file, LINE) if len(others) == len(rows) else None
    if len(others) == len(rows):
        return None
    return FileChange(file, before, b"".join(others) or None)


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


def is_used(vault: Path) -> bool:
    """Say whether git merges the vault's notes by the driver."""
    answer = hooks.git(vault, "check-attr", "merge", "--", f"{vault}{os.sep}note.md")
    return answer.endswith(": spellbook") and bool(configured(vault))
