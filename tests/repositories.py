"""Git repositories made of notes, written by `git fast-import` at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
FIRST = 1_767_225_600
"""When the first commit is made: 2026-01-01 in UTC."""

BETWEEN = 86_400
"""Seconds between two commits."""


def git(folder: Path, *asked: str, **environment: str) -> str:
    """Run git in a folder, apart from the settings of this machine; return what it prints."""
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *asked],
        capture_output=True, check=True, env={**ENVIRONMENT, **environment},
    )  # fmt: skip
    return done.stdout.decode().strip()


def write(folder: Path, states: Sequence[Mapping[str, bytes]], below: str = "") -> list[str]:
    """
    Make a repository in `folder` with a commit a day for each of `states`, check the last one out, and return the hashes.

    With `below`, the files lie in that folder of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    stream: list[bytes] = []
    before: Mapping[str, bytes] = {}
    for number, files in enumerate(states, 1):
        at = FIRST + (number - 1) * BETWEEN
        stream.append(b"commit refs/heads/main\nmark :%d\ncommitter Ann <ann@example.org> %d +0000\n" % (number, at))
        stream.append(b"data 4\nday\n" + (b"from :%d\n" % (number - 1) if number > 1 else b""))
        for path in before.keys() - files.keys():
            stream.append(b"D %s\n" % _quoted(below + path))
        for path, data in files.items():
            if before.get(path) != data:
                stream.append(b"M 644 inline %s\ndata %d\n%s\n" % (_quoted(below + path), len(data), data))
        before = files
    marks = folder / ".git" / "marks"
    done = subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet", f"--export-marks={marks}"],
        input=b"".join(stream), capture_output=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    hashes = dict(line.split() for line in marks.read_text().splitlines())
    git(folder, "reset", "-q", "--hard", "main")
    return [hashes[f":{number}"] for number in range(1, len(states) + 1)]


def _quoted(path: str) -> bytes:
    return b'"' + path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
