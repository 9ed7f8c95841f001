"""Git repositories made of notes: a history of edits, moves and deletions, written by `git fast-import` at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

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


@dataclass(frozen=True)
class Commit:
    """A commit: its hash, when it was made, and all files with the time of the commit that changed each last."""

    hash: str
    at: int
    files: Mapping[str, bytes]
    changed: Mapping[str, int]


def git(folder: Path, *asked: str, **environment: str) -> str:
    """Run git in a folder, apart from the settings of this machine; return what it prints."""
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *asked],
        capture_output=True, check=True, env={**ENVIRONMENT, **environment},
    )  # fmt: skip
    return done.stdout.decode().strip()


def write(folder: Path, states: Sequence[Mapping[str, bytes]], below: str = "") -> list[Commit]:
    """
    Make a repository in `folder` with a commit a day for each of `states`, and check the last one out.

    With `below`, the files lie in that folder of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    stream: list[bytes] = []
    before: Mapping[str, bytes] = {}
    changed: dict[str, int] = {}
    made: list[Commit] = []
    for number, files in enumerate(states, 1):
        at = FIRST + (number - 1) * BETWEEN
        stream.append(b"commit refs/heads/main\nmark :%d\ncommitter Ann <ann@example.org> %d +0000\n" % (number, at))
        stream.append(b"data 4\nday\n" + (b"from :%d\n" % (number - 1) if number > 1 else b""))
        for path in before.keys() - files.keys():
            stream.append(b"D %s\n" % _quoted(below + path))
            changed.pop(path)
        for path, data in files.items():
            if before.get(path) != data:
                stream.append(b"M 644 inline %s\ndata %d\n%s\n" % (_quoted(below + path), len(data), data))
                changed[path] = at
        made.append(Commit("", at, dict(files), dict(changed)))
        before = files
    marks = folder / ".git" / "marks"
    done = subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet", f"--export-marks={marks}"],
        input=b"".join(stream), capture_output=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    hashes = dict(line.split() for line in marks.read_text().splitlines())
    git(folder, "reset", "-q", "--hard", "main")
    return [Commit(hashes[f":{number}"], c.at, c.files, c.changed) for number, c in enumerate(made, 1)]


def history(notes: Mapping[str, bytes], commits: int, seed: int = 7) -> list[dict[str, bytes]]:
    """Return so many states of `notes`: edited, moved, deleted and brought back, a few a commit."""
    random, states = Random(seed), [dict(notes)]
    gone: list[tuple[str, bytes]] = []
    for number in range(1, commits):
        files = dict(states[-1])
        for _ in range(random.randint(1, 3)):
            path = random.choice(sorted(files))
            kind = random.random()
            if kind < 0.6:
                lines = files[path].split(b"\n")
                at = random.randrange(len(lines) // 2, len(lines) + 1)
                lines[at:at] = [
                    b"",
                    b"Day %d: the quay of harbour %d was swept." % (number, random.randint(1, 99)),
                    b"",
                ]
                files[path] = b"\n".join(lines)
            elif kind < 0.8:
                folder, _, name = path.rpartition("/")
                files[f"{folder}/moved-{number}/{name}".lstrip("/")] = files.pop(path)
            elif kind < 0.93 and len(files) > 3:
                gone.append((path, files.pop(path)))
            elif gone:
                files.update([gone.pop(random.randrange(len(gone)))])
        states.append(files)
    return states


def checked_out(folder: Path, commit: Commit) -> Path:
    """Write the files of a commit into an empty folder, with the times of their last changes."""
    for path, data in commit.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, (commit.changed[path], commit.changed[path]))
    return folder


def _quoted(path: str) -> bytes:
    return b'"' + path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
