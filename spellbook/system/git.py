"""
Reading a git repository: commits, trees and blobs, by git's plumbing alone.

The repository may be somebody else's. So nothing of it runs (no hook, filter, pager or signature check), nothing is
fetched, nothing is written or checked out, and each call is bounded in time and bytes. Variables and settings of git
that would change what it reads are left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from spellbook.system.errors import InvalidInput, StorageError

SECONDS = 60.0
"""Seconds that one call of git may take."""

MOST_FILES = 500_000
"""Files of a commit."""

MOST_LISTED = 200_000_000
"""Bytes of a listing, of files or of changes, that is read."""

MOST_AT_ONCE = 32_000_000
"""Bytes of blobs that one call reads, unless one blob alone is larger."""

_MOST_NAME = 200
"""Letters of a revision."""

_MOST_WALKED = 2_000
"""Commits that are looked through for when files last changed; older files get the time of the oldest of these."""

_LINK = b"120000"
_NO_WINDOW = 0x0800_0000  # `subprocess` has its name on Windows alone
_HEX = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SAFE = (
    "--no-pager",
    "--no-replace-objects",
    "--no-optional-locks",
    "--literal-pathspecs",
    # Whoever owns the folder: nothing of its settings is run.
    *("-c", "safe.directory=*", "-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", f"core.attributesFile={os.devnull}"),
    *("-c", "core.commitGraph=false", "-c", "protocol.allow=never", "-c", "core.quotePath=false"),
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its full hash, and when it was made, in seconds since 1970."""

    hash: str
    at: int


@dataclass(frozen=True, slots=True)
class Blob:
    """A file in a commit: the hash and the size in bytes of its content; `is_link` for a symbolic link."""

    hash: str
    size: int
    is_link: bool = False


class Repository:
    """
    The repository in whose working tree `folder` lies; paths are relative to `folder`.

    Raises InvalidInput if it lies in none or git is not installed, StorageError if git fails.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Once found, the repository is named as one without a working tree, so that paths count from its top.
        self._named: tuple[str, ...] = ("-C", str(folder))
        output = self._output("rev-parse", "--is-inside-work-tree", "--is-shallow-repository", "--show-prefix")
        if output is None or not output.startswith(b"true\n"):
            raise InvalidInput(f"{folder} is not in a git repository.", "Run `git init` there, or name a snapshot.")
        _, shallow, prefix = output.split(b"\n", 2)
        self.is_shallow = shallow == b"true"
        self._prefix = prefix.removesuffix(b"\n")
        top, place, common = map(self._place, ("--show-toplevel", "--absolute-git-dir", "--git-common-dir"))
        tree = self._output("config", "--get", "core.worktree") or b""
        self._named = ("--bare", f"--git-dir={place}")
        if not _has_own_objects(top, place, common, os.fsdecode(tree.removesuffix(b"\n"))):
            raise InvalidInput(
                f"{top}: its .git leads to a repository that does not know of this folder, or that borrows objects.",
                "It may be a trick, so nothing of it was read. If it is yours, see `git worktree repair`, "
                "`git repack -a -d` and the setting core.worktree.",
            )

    def _place(self, option: str) -> Path:
        output = self._output("rev-parse", option) or b""
        return self.folder / os.fsdecode(output.removesuffix(b"\n"))

    # -- commits

    def before(self, seconds: float) -> Commit | None:
        """Return the last commit of this branch that was made by then (seconds since 1970), None if there is none."""
        if seconds < 0:
            return None
        limit = () if seconds >= 1 << 40 else (f"--min-age={int(seconds)}",)
        return self._first("rev-list", "--first-parent", "--max-count=1", *limit, "--timestamp", "HEAD", "--")

    def first(self) -> Commit | None:
        """Return the oldest commit of this branch, None if there is none."""
        return self._first("rev-list", "--first-parent", "--max-parents=0", "--timestamp", "HEAD", "--")

    def find(self, name: str) -> Commit | None:
        """Return the commit that a revision means, None if there is none. Raises InvalidInput for what names none."""
        if name.startswith("-") or len(name) > _MOST_NAME or not name.isprintable():
            raise InvalidInput(f"{name[:80]!r} is not a revision.", "Name a branch, a tag or the hash of a commit.")
        hash = self._hash(f"{name}^{{commit}}")
        return self._first("rev-list", "--max-count=1", "--timestamp", hash, "--") if hash else None

    def _hash(self, revision: str) -> str:
        """Return the hash of what a revision names, "" if it names nothing."""
        output = self._output("rev-parse", "--verify", "--quiet", revision) or b""
        hash = output.decode("ascii", "replace").strip()
        return hash if _HEX.fullmatch(hash) else ""

    def _first(self, *arguments: str) -> Commit | None:
        output = self._output(*arguments)
        if output is None and self._hash("HEAD"):
            raise self._missing("HEAD")  # it names a commit, which cannot be read
        row = (output or b"").split(b"\n")[0].split()
        return Commit(row[1].decode("ascii"), int(row[0])) if len(row) == 2 else None

    # -- files

    def files(self, commit: str) -> dict[bytes, Blob]:
        """
        Return the files of the folder in a commit by their paths, with submodules left out.

        Raises InvalidInput if the folder is not there, or has too many files; StorageError if objects are missing.
        """
        tree = commit
        if self._prefix:
            tree = self._hash(f"{commit}:{os.fsdecode(self._prefix.rstrip(b'/'))}")
            if not tree or self._run("cat-file", "-t", tree) != b"tree\n":
                raise InvalidInput(
                    f"{self.folder} is not in commit {commit[:12]}.",
                    "The folder may have had another name then. Name a later date.",
                )
        blobs: dict[bytes, Blob] = {}
        for line in self._run("ls-tree", "-r", "-z", "-l", "--full-tree", tree, most=MOST_LISTED).split(b"\0"):
            what, tab, path = line.partition(b"\t")
            mode, kind, hash, size = what.split() if tab else (b"", b"", b"", b"")
            if kind == b"blob" and size.isdigit():
                blobs[path] = Blob(hash.decode("ascii"), int(size), mode == _LINK)
            if len(blobs) > MOST_FILES:
                raise InvalidInput(f"Commit {commit[:12]} has over {MOST_FILES:,} files.", "Name another one.")
        return blobs

    def changed(self, commit: Commit) -> tuple[dict[bytes, int], int]:
        """
        Return when files of the folder last changed, by path, in seconds since 1970, and the time of all other files.

        That is as far as the last 2,000 commits of the branch tell; older files get the time of the oldest of these.
        """
        walked = ("rev-list", "--first-parent", "--parents", f"--max-count={_MOST_WALKED}", "--timestamp", commit.hash)
        rows = [line.split() for line in self._run(*walked, "--", most=MOST_LISTED).splitlines()]
        times = {row[1]: int(row[0]) for row in rows}
        commits = b"".join(b" ".join(row[1:3]) + b"\n" for row in rows)
        # With a parent on its line, a merge is compared with that one.
        compared = ("diff-tree", "--stdin", "-r", "--root", "-z", "--no-renames", "--name-only", "--no-ext-diff")
        limit = ("--", os.fsdecode(self._prefix.rstrip(b"/"))) if self._prefix else ("--",)
        changes: dict[bytes, int] = {}
        at = commit.at
        for field in self._run(*compared, *limit, stdin=commits, most=MOST_LISTED).split(b"\0"):
            # A commit's hash, then its paths; a path is no 40 letters of hexadecimal that name a commit just listed.
            head = field.strip()
            if head in times:
                at = times[head]
            elif field.startswith(self._prefix):
                changes.setdefault(field[len(self._prefix) :], at)
        return changes, min(times.values(), default=commit.at)

    def texts(self, blobs: Sequence[Blob]) -> Iterator[bytes]:
        """Yield the contents of blobs in their order. Raises StorageError if one is missing, or is not what it says."""
        for batch in _batches(blobs):
            names = b"".join(blob.hash.encode() + b"\n" for blob in batch)
            most = sum(blob.size + 200 for blob in batch)
            data = self._run("cat-file", "--batch", "--buffer", stdin=names, most=most)
            at = 0
            for blob in batch:
                end = data.find(b"\n", at)
                if end < 0 or data[at:end].decode("ascii", "replace") != f"{blob.hash} blob {blob.size}":
                    raise self._missing(blob.hash)
                yield data[end + 1 : end + 1 + blob.size]
                at = end + 2 + blob.size

    # -- one file

    def versions(self, path: str, most: int) -> list[tuple[Commit, bytes, Blob | None]]:
        """
        Return the commits of this branch that changed a file, newest first, at most `most`.

        Each with the file's path then and its content, None where it was deleted. It is followed through renames.
        """
        history: list[tuple[Commit, bytes, Blob | None]] = []
        place, start = self._prefix + os.fsencode(path), "HEAD"
        while len(history) < most:
            walked = ("rev-list", "--first-parent", "--parents", f"--max-count={most - len(history)}", "--timestamp")
            output = self._output(*walked, start, "--", os.fsdecode(place)) or b""
            commit = None
            for row in map(bytes.split, output.splitlines()):
                commit = Commit(row[1].decode("ascii"), int(row[0]))
                history.append((commit, place.removeprefix(self._prefix), self._at(commit.hash, place)))
            # What the history of one path begins with may be a rename. The real parent is asked for: `--parents` with a
            # path names the last commit that touched it.
            before = self._path_before(commit.hash, place) if commit and history[-1][2] else None
            if commit is None or before is None:
                break
            start, place = f"{commit.hash}^1", before
        return history

    def _at(self, commit: str, place: bytes) -> Blob | None:
        output = self._run("ls-tree", "-z", "-l", "--full-tree", commit, "--", os.fsdecode(place))
        what = output.partition(b"\t")[0].split()
        return Blob(what[2].decode("ascii"), int(what[3])) if len(what) == 4 and what[1] == b"blob" else None

    def _path_before(self, commit: str, place: bytes) -> bytes | None:
        """Return the path that a file had before this commit gave it `place`, None if it was not renamed there."""
        compared = ("diff-tree", "-r", "-z", "-M", "-l1000", "--diff-filter=R", "--name-status", "--no-commit-id")
        output = self._output(*compared, "--no-ext-diff", "--no-textconv", f"{commit}^1", commit, "--") or b""
        fields = output.split(b"\0")
        renames = {new: old for _, old, new in zip(fields[0::3], fields[1::3], fields[2::3], strict=False)}
        return renames.get(place)

    # -- git itself

    def _missing(self, what: str) -> StorageError:
        return StorageError(
            f"{self.folder}: git lacks an object, or cannot read it ({what[:200]}).",
            "The clone may be partial or damaged: `git fsck` says so. Nothing was fetched, and nothing is changed.",
        )

    def shallow(self) -> str:
        """Return what to do where the history ends early, "" for a whole clone."""
        return "Fetch the rest with `git fetch --unshallow`, or name a later date." if self.is_shallow else ""

    def _output(self, *arguments: str) -> bytes | None:
        """Return what git prints, None if it fails."""
        code, out, _ = self._start(arguments, b"", MOST_LISTED)
        return out if code == 0 else None

    def _run(self, *arguments: str, stdin: bytes = b"", most: int = 1_000_000) -> bytes:
        code, out, complaint = self._start(arguments, stdin, most)
        if code != 0:
            raise self._missing(complaint or arguments[0])
        return out

    def _start(self, arguments: Sequence[str], stdin: bytes, most: int) -> tuple[int, bytes, str]:
        """Return git's exit code, what it prints, and the last line of its complaints. Raises as the class says."""
        command = ["git", *_SAFE, *self._named, *arguments]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        flags = _NO_WINDOW if os.name == "nt" else 0
        try:
            child = subprocess.Popen(command, env=environment(), creationflags=flags, **pipes)
        except FileNotFoundError as error:
            raise InvalidInput("There is no git on this machine.", "Install git, or name a snapshot.") from error
        except OSError as error:
            raise StorageError(f"git cannot be started ({error.strerror or error}).", "Name a snapshot.") from error
        late = threading.Timer(SECONDS, child.kill)
        complaints: list[bytes] = []
        # git answers before it has read all that it is asked: both pipes would fill.
        helpers = [
            threading.Thread(target=_write_all, args=(child.stdin, stdin), daemon=True),
            threading.Thread(target=_keep_beginning, args=(child.stderr, complaints), daemon=True),
        ]
        with child:
            for thread in (late, *helpers):
                thread.start()
            out = b""
            try:
                assert child.stdout
                out = child.stdout.read(most + 1)
            finally:
                is_late = not late.is_alive()
                late.cancel()
                if is_late or len(out) > most:
                    child.kill()
                for thread in helpers:
                    thread.join()
        if is_late:
            raise StorageError(
                f"{self.folder}: git {arguments[0]} took over {SECONDS:.0f} s.",
                "The repository is very large, or its disk is slow. Name a snapshot.",
            )
        if len(out) > most:
            raise InvalidInput(
                f"{self.folder}: git {arguments[0]} said over {most / 1e6:,.0f} MB.", "Name another commit."
            )
        lines = b"".join(complaints).decode("utf-8", "replace").strip().splitlines()
        return child.returncode, out, lines[-1] if lines else ""


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError), pipe:  # git may end before it has read everything
        pipe.write(data)


def _keep_beginning(pipe: IO[bytes], kept: list[bytes]) -> None:
    while piece := pipe.read(1 << 12):
        if len(kept) < 4:
            kept.append(piece)


def environment() -> dict[str, str]:
    """Return this process's environment for git: no variable, file or program of anybody changes what it does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "XDG_CONFIG"))}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # before what the repository's settings allow
        "GIT_OPTIONAL_LOCKS": "0",
    }


def _has_own_objects(top: Path, place: Path, common: Path, tree: str) -> bool:
    """
    Say whether the repository at `place` is that of the working tree `top`, and has its objects itself.

    Whoever hands a folder over could otherwise let its `.git` lead to any repository on this machine. `common` is what
    working trees of one repository share, `tree` its setting core.worktree, "" without one.
    """
    marker, real = top / ".git", os.path.realpath
    if real(place) != real(common) and (place.parent.name != "worktrees" or real(place.parents[1]) != real(common)):
        return False
    objects = common / "objects"
    if objects.is_symlink() or os.path.lexists(objects / "info" / "alternates"):
        return False
    with contextlib.suppress(OSError):
        if any(entry.is_symlink() for folder in (objects, objects / "pack") for entry in folder.iterdir()):
            return False
    if marker.is_dir() and not marker.is_symlink():
        return real(place) == real(marker)
    with contextlib.suppress(OSError, ValueError):  # a working tree beside the first one, which is named there
        if real(place / (place / "gitdir").read_text("utf-8").strip()) == real(marker):
            return True
    return bool(tree) and real(place / tree) == real(top)  # as of a submodule


def _batches(blobs: Sequence[Blob]) -> Iterator[list[Blob]]:
    batch: list[Blob] = []
    size = 0
    for blob in blobs:
        if batch and size + blob.size > MOST_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(blob)
        size += blob.size
    if batch:
        yield batch
