"""
An editor for the process tests: `python -m tests.editor VAULT SECONDS SEED` saves notes in three manners until the time is up.

Prints one JSON object, path to text, of what it saved last.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
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


def main(vault: Path, seconds: float, seed: int) -> None:
    """Save until the time is up."""
    random.seed(seed)
    saved: dict[str, str] = {}
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        count += 1
        path = f"edited/{seed}/note-{random.randrange(12)}.md"
        file = vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (
            f"# Note {path}\n\nlead of {seed}x{count}\n\n## Zweite\n\neditword{seed}x{count} "
            + " ".join(random.choices("abcdefgh", k=30))
            + "\n"
        )
        if random.random() < 0.1 and path in saved:
            file.unlink()
            del saved[path]
        elif random.random() < 0.1 and path in saved:
            moved = f"edited/{seed}/moved-{random.randrange(4)}.md"
            os.replace(file, vault / moved)
            saved[moved] = saved.pop(path)
        else:
            random.choice(MANNERS)(file, text.encode())
            saved[path] = text
        time.sleep(random.random() * 0.15)
    print(json.dumps(saved))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
