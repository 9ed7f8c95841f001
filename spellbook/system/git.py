"""
Read the versions of a file from a git repository, and merge three texts, with nothing but git.

The repository may be a stranger's: nothing of it runs (no hook, filter, pager or signature check), nothing is fetched,
written or checked out, and each call is bounded in time and bytes. Variables and settings of git that would change the
result are left out.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spellbook.system import platform
from spellbook.system.errors import InvalidInput, StorageError

SECONDS = 60.0
"""Seconds that one call of git may take."""

MOST_LISTED = 200_000_000
"""Bytes of a listing of commits or of changes that is read."""

_MOST_CONFLICTS = 127
"""The largest number of conflicts that `git merge-file` reports as its exit code; larger codes are errors."""

_FILES = {b"100644", b"100755", b"120000"}  # not a submodule, and 000000 is a deleted one
_NO_WINDOW = 0x0800_0000  # `subprocess` has its name on Windows alone
_SAFE = (
    "--no-pager",
    "--no-replace-objects",
    "--no-optional-locks",
    "--literal-pathspecs",
    # Whoever owns the folder: nothing of its settings is run.
    *("-c", "safe.directory=*", "-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", f"core.attributesFile={os.devnull}"),
    *("-c", "core.commitGraph=false", "-c", "protocol.allow=never", "-c", "core.quotePath=false"),
    *("-c", "log.diffMerges=first-parent", "-c", "diff.renameLimit=1000"),
)
_ORDER = ("--first-parent", "--topo-order")
_LOG = (
    *("log", "--follow", *_ORDER, "-m", "--root", "--format=%H %ct", "--raw", "-z", "--no-abbrev"),
    # Settings of the repository that would run a program, or read another file.
    *("--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-mailmap", "-O/dev/null"),
)


class Commit(NamedTuple):
    """A version of a file in a commit: its time in seconds since 1970, and its content's hash, "" if it is gone."""

    hash: str
    at: int
    path: str
    blob: str


class Repository:
    """The repository of `folder`, which paths are relative to. Raises InvalidInput if there is none, StorageError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Once found, the repository is named as one without a working tree, so that paths count from its top.
        self._named: tuple[str, ...] = ("-C", str(folder))
        output = self._output("rev-parse", "--is-inside-work-tree", "--show-prefix")
        if output is None or not output.startswith(b"true\n"):
            raise InvalidInput(f"{folder} is not in a git repository.", "Run `git init` there.")
        self._prefix = output.partition(b"\n")[2].removesuffix(b"\n")
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

    # -- one file

    def commits_of(self, path: str, most: int) -> Iterator[Commit]:
        """Yield the last `most` commits of this branch that changed a file, newest first, also under earlier names."""
        place = self._prefix + os.fsencode(path)
        output = self._output(*_LOG, f"--max-count={most}", "HEAD", "--", os.fsdecode(place))
        if output is None and self._output("rev-parse", "--verify", "--quiet", "HEAD"):
            raise self._missing("HEAD")  # without a commit there would be no such name
        name_of_commit = at = source = b""
        fields = iter((output or b"").split(b"\0"))
        for row in map(bytes.split, fields):
            if len(row) == 2:
                name_of_commit, at = row
            elif row:
                _, mode, _, blob, status = row
                source = name = next(fields)
                if status[:1] in b"RC":
                    name = next(fields)
                if name != place:
                    continue  # it lies in a folder that had this name
                shown = place.removeprefix(self._prefix).decode("utf-8", "replace")
                yield Commit(
                    name_of_commit.decode("ascii"), int(at), shown, blob.decode("ascii") if mode in _FILES else ""
                )
                if status.startswith(b"C"):
                    return  # --follow would go on with the file that it was copied from
                place = source

    def commits(self) -> list[str]:
        """Return the hashes of this branch's commits, newest first in git's own order."""
        return self._run("rev-list", *_ORDER, "HEAD", "--", most=MOST_LISTED).decode("ascii").split()

    def text(self, blob: str, most: int) -> bytes:
        """Return a content. Raises InvalidInput if it has more than `most` bytes, StorageError if it is missing."""
        return self._run("cat-file", "blob", blob, most=most)

    # -- git itself

    def _missing(self, what: str) -> StorageError:
        return StorageError(
            f"{self.folder}: git lacks an object, or cannot read it ({what[:200]}).",
            "The clone may be partial or damaged: `git fsck` says so. Nothing was fetched, and nothing is changed.",
        )

    def _output(self, *arguments: str) -> bytes | None:
        code, out = self._start(arguments, MOST_LISTED)
        return out if code == 0 else None

    def _run(self, *arguments: str, most: int) -> bytes:
        code, out = self._start(arguments, most)
        if code != 0:
            raise self._missing(" ".join(arguments))
        return out

    def _start(self, arguments: Sequence[str], most: int) -> tuple[int, bytes]:
        """Return git's exit code and what it prints. Raises as the class says."""
        command = ["git", *_SAFE, *self._named, *arguments]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stderr"), subprocess.DEVNULL)
        flags = _NO_WINDOW if os.name == "nt" else 0
        try:
            child = platform.start(command, stdout=subprocess.PIPE, env=environment(), creationflags=flags, **pipes)
        except FileNotFoundError as error:
            raise InvalidInput("There is no git on this machine.", "Install git.") from error
        except OSError as error:
            raise StorageError(f"git cannot be started ({error.strerror or error}).") from error
        late = threading.Timer(SECONDS, child.kill)
        with child:
            late.start()
            out = b""
            try:
                assert child.stdout
                out = child.stdout.read(most + 1)
            finally:
                is_late = not late.is_alive()
                late.cancel()
                if is_late or len(out) > most:
                    child.kill()
        if is_late:
            raise StorageError(
                f"{self.folder}: git {arguments[0]} took over {SECONDS:.0f} s.",
                "The repository is very large, or its disk is slow.",
            )
        if len(out) > most:
            raise InvalidInput(f"{self.folder}: git {arguments[0]} said over {most / 1e6:,.0f} MB.")
        return child.returncode, out


def merge_file(ours: bytes, base: bytes, theirs: bytes, *, labels: tuple[str, str]) -> tuple[bytes, int]:
    """
    Return the three-way merge of texts by `git merge-file`, and how many conflicts stand in it between git's markers.

    `labels` name our side and theirs at the markers. Raises OSError without git, StorageError if git cannot merge them.
    """
    with tempfile.TemporaryDirectory(prefix="spellbook-") as folder:
        for name, text in (("ours", ours), ("base", base), ("theirs", theirs)):
            Path(folder, name).write_bytes(text)
        names = ("-L", labels[0], "-L", "base", "-L", labels[1], "ours", "base", "theirs")
        command = ["git", "-c", "merge.conflictStyle=merge", "merge-file", "--stdout", *names]
        done = platform.run(command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True)
    if not 0 <= done.returncode <= _MOST_CONFLICTS:
        raise StorageError(f"git merge-file failed: {os.fsdecode(done.stderr).strip()[:200]}")
    return done.stdout, done.returncode


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

    A stranger's `.git` could otherwise lead to any repository on this machine. Working trees of one repository share
    `common`; `tree` is its setting core.worktree, "" without one.
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
