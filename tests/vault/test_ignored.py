"""`.spellbookignore` means what git means by the same lines."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from spellbook.vault.folder import Folder
from spellbook.vault.ignored import IGNORE_FILE

PARTS = ("*", "**", "a", "b", "ab", "*b", "a*", "?", "[ab]", "n.md", "*.md", "n?.md")
KNOWN = (
    ("*", "!*/"),
    ("*", "!*/", "!*.md"),
    ("/*", "!/a/"),
    ("a/**", "!a/b/"),
    ("a/**", "!a/**/", "!a/b/n.md"),
    ("**", "!**/", "!n.md"),
    ("a/", "!a/n.md"),
    ("*.md", "!n.md", "b/n.md"),
    ("**/b", "!a/b"),
    ("# a/", "\\#x", "**/n.md"),
    ("\ufeffn.md\r",),
)


def patterns(rolled: random.Random) -> list[str]:
    """Some lines as a person may write them."""
    lines = []
    for _ in range(rolled.randint(1, 4)):
        path = "/".join(rolled.choices(PARTS, k=rolled.choice((1, 1, 1, 2, 3))))
        lines.append(rolled.choice(("", "", "!")) + rolled.choice(("", "", "/")) + path + rolled.choice(("", "", "/")))
    return lines


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_lines_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    """
    For known traps of order and folders, and for generated lines: of each note git says the same, also to the one who
    has read the file before it was edited. A walk and a question for one note agree.
    """
    folder = Folder(tmp_path)
    folders = ["", *("/".join(each) for size in (1, 2, 3) for each in itertools.product(("a", "b", "ab"), repeat=size))]
    notes = [f"{folder}/{name}".lstrip("/") for folder in folders for name in ("n.md", "ab.md", "b.md")]
    for note in notes:
        (tmp_path / note).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / note).write_text("x")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    rolled = random.Random(7)
    for lines in (*KNOWN, *(patterns(rolled) for _ in range(60))):
        for file in (".gitignore", IGNORE_FILE):
            (tmp_path / file).write_text("\n".join(lines) + "\n", "utf-8", newline="")
        asked = subprocess.run(
            ["git", "-C", tmp_path, "check-ignore", "--no-index", "--stdin", "-z"],
            input="\0".join(notes).encode(),
            capture_output=True,
            check=False,
        )
        left_out = set(filter(None, asked.stdout.decode().split("\0")))
        assert {note for note in notes if folder.ignores(note)} == left_out, lines
        assert {note for note in notes if not folder.stamp(note)} == left_out, lines
        assert set(folder.walk().files) == set(notes) - left_out, lines
