"""The three manners in which editors save a note."""

import os
from pathlib import Path


def plain(file: Path, data: bytes) -> None:
    """Truncate and write, as simple editors do."""
    file.write_bytes(data)


def atomic(file: Path, data: bytes) -> None:
    """Write a temporary file beside and rename it over, as VS Code and Obsidian Sync do."""
    temporary = file.with_name(f".{file.name}.tmp{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, file)


def vim(file: Path, data: bytes) -> None:
    """Rename to a backup, create the file again, delete the backup."""
    backup = file.with_name(file.name + "~")
    if file.exists():
        os.rename(file, backup)
    file.write_bytes(data)
    backup.unlink(missing_ok=True)


MANNERS = (plain, atomic, vim)
