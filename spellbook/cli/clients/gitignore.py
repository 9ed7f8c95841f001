"""
The line that keeps the trash of a vault out of the git repository that holds it.

What is erased is moved into `.trash/`; committed, it would be there for all who
have the repository. Nothing is written unless somebody asks for it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from spellbook.cli.clients import changes
from spellbook.cli.clients.changes import FileChange
from spellbook.cli.clients.hooks import environment
from spellbook.system.errors import InvalidInput

FILE = ".gitignore"
LINE = ".trash/"


def is_missing(vault: Path) -> bool:
    """Say whether `vault` is in a git repository that does not ignore its trash; git knows all ignore rules."""
    command = ["git", "-C", str(vault), "check-ignore", "--quiet", "--no-index", f"{LINE}note.md"]
    try:
        done = subprocess.run(command, capture_output=True, env=environment(), check=False)
    except OSError:
        return False  # there is no git
    return done.returncode == 1  # 128 outside of a repository


def with_line(file: Path, line: str) -> FileChange:
    """
    Return what adds a line at the end of one of git's files, every byte before as it is.

    Raises InvalidInput where that is no file that git reads, StorageError if it cannot be read.
    """
    if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
        raise InvalidInput(
            f"{file} is not a regular file, and git reads no other.", f"Add the line {line} where your rules are."
        )
    before = changes.read(file)
    end = b"\r\n" if before and b"\r\n" in before else b"\n"
    begun = end if before and not before.endswith(b"\n") else b""
    return FileChange(file, before, (before or b"") + begun + line.encode() + end)
