"""Git repositories made of notes."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.trees import grow

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
FIRST = 1_767_225_600
"""When the first commit is made: 2026-01-01 in UTC; the next ones follow day by day."""


def git(folder: Path, *asked: str, **environment: str) -> str:
    """Run git in a folder, apart from the settings of this machine; return what it prints."""
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *asked],
        capture_output=True, check=True, env={**ENVIRONMENT, **environment},
    )  # fmt: skip
    return done.stdout.decode().strip()


def write(folder: Path, states: Sequence[Mapping[str, bytes]], below: str = "") -> list[str]:
    """
    Make a repository in `folder` with a commit a day for each of `states`, and return the hashes.

    With `below`, the files lie in that folder of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    hashes: list[str] = []
    before: Mapping[str, bytes] = {}
    for number, files in enumerate(states):
        for path in before.keys() - files.keys():
            git(folder, "rm", "-q", below + path)
        grow(folder / below, dict(files))
        git(folder, "add", *(below + path for path in files))
        when = f"{FIRST + number * 86_400} +0000"
        git(folder, "commit", "-q", "-m", "day", GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when)
        hashes.append(git(folder, "rev-parse", "HEAD"))
        before = files
    return hashes
