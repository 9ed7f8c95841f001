"""The command sync, for a vault that several people or machines share by git."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import click

import spellbook
from spellbook.cli import output
from spellbook.cli.app import command
from spellbook.cli.clients import git_hooks
from spellbook.settings import paths
from spellbook.system.errors import Conflict, StorageError
from spellbook.text.quoting import counted, one_line
from spellbook.text.unicode import folded
from spellbook.vault.names import TRASH

_TRIES = 3
"""Times that notes are pulled and pushed, if others push meanwhile."""

_MOST_SHOWN = 10  # files that a message names

_TEMPORARY = ".spellbook-" + "[0-9a-f]" * 16 + ".tmp"
"""`disk.TEMPORARY` as git spells it."""

_REPOSITORY = "160000"
"""The mode of a repository in a repository."""


@command(
    click.option(
        "-m", "--message", default="Notes", show_default=True, metavar="TEXT", help="The message of the commit."
    ),
    click.option("--no-push", is_flag=True, help="Pull and merge only."),
)
def sync(book: spellbook.Spellbook, message: str, no_push: bool, as_json: bool) -> None:
    """
    Share the vault by git: commit its changes, pull, merge, index, push.

    Only files in the vault are committed, and never its trash. Once git-merge is
    installed, Spellbook merges notes that both sides changed; what cannot be
    merged is left as it was, and named. See spellbook install --help.
    """
    vault = book.config.vault
    places = (vault / TRASH, book.config.state, book.config.snapshot_folder, Path(paths.data(str(vault))))
    own = [place for place in places if place.is_relative_to(vault)]
    git = _Git(git_hooks.find(vault).top, vault, own)
    if git.ask("rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
        raise Conflict("A merge is under way.", "Finish it with git commit, or git merge --abort, and sync again.")
    upstream = git.ask("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}")
    if not upstream:
        raise Conflict("This branch has no upstream.", "Name one: git push -u origin BRANCH.")
    if not git_hooks.is_merged(vault) and not (mark := book.config.state / "git-merge.told").exists():
        mark.touch()
        output.say(
            "Sync stops at a paragraph that both sides changed; after spellbook install git-merge it keeps both.",
            err=True,
        )
    nested = git.nested()
    for path in nested[:_MOST_SHOWN]:
        output.say(f"{one_line(path)} is a repository of its own: its notes are not shared.", err=True)
    committed = git.commit(message, nested)
    pulled = 0
    both: list[str] = []
    for last in range(_TRIES, 0, -1):
        git.run("fetch", "--quiet")
        pulled += int(git.ask("rev-list", "--count", f"HEAD..{upstream}") or 0)
        both += git.merge(upstream)
        if no_push or not git.ask("rev-list", "--max-count=1", f"{upstream}..HEAD") or git.push(is_last=last == 1):
            break
    report = book.reindex()
    if as_json:
        output.as_json({"committed": committed, "pulled": pulled, "both": both, "nested": nested, **report.as_dict()})
        return
    for line in both:
        output.say(line, err=True)
    output.say(f"{counted(committed, 'file')} committed, {counted(pulled, 'commit')} pulled.")
    output.say(output.summary(report))


class _Git:
    """Git in the repository `top` of a vault. `own` are folders in the vault that Spellbook fills: they stay here."""

    def __init__(self, top: Path, vault: Path, own: Sequence[Path]) -> None:
        self._top = top
        self._vault = vault
        self._own = tuple(f"{place.relative_to(vault).as_posix()}/" for place in own)

    def _start(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run git in the vault: there `.` is the vault, whatever letters its path has."""
        variables = {} if sys.stdin.isatty() else {"GIT_TERMINAL_PROMPT": "0"}
        return git_hooks.start(self._vault, *arguments, **variables)

    def _list(self, *arguments: str) -> list[str]:
        """Return what git lists with `-z`. Raises StorageError."""
        return [os.fsdecode(line) for line in self.run(*arguments).split(b"\0") if line]

    def ask(self, *arguments: str) -> str:
        """Return the line that git prints, "" if it fails."""
        done = self._start(*arguments)
        return os.fsdecode(done.stdout).strip() if done.returncode == 0 else ""

    def run(self, *arguments: str) -> bytes:
        """Return what git prints. Raises StorageError, with git's own words, if it fails."""
        done = self._start(*arguments)
        if done.returncode:
            raise StorageError(f"git {arguments[0]} failed: {_message(done.stderr)}", "Nothing of yours is lost.")
        return done.stdout

    def nested(self) -> list[str]:
        """Return the repositories in the vault."""
        others = self._list("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
        staged = (line.partition("\t") for line in self._list("ls-files", "--stage", "-z", "--", "."))
        known = [path for about, _, path in staged if about.startswith(_REPOSITORY)]
        return [*(path[:-1] for path in others if path.endswith("/")), *known]

    def commit(self, message: str, nested: Sequence[str]) -> int:
        """Commit the changes in the vault, but nothing of Spellbook's own, nor `nested`; return how many changed."""
        left_out = (f":(exclude,literal){path}" for path in (*self._own, *nested))
        shared = ("--", ".", f":(exclude,glob)**/{_TEMPORARY}", *left_out)
        self.run("add", "--all", *shared)
        changed = len(self._list("diff", "--cached", "--name-only", "-z", *shared))
        if changed:
            self.run("commit", "--quiet", "--message", message, *shared)
        return changed

    def _in_the_way(self, upstream: str) -> list[str]:
        """Return the untracked or ignored files here that a merge would replace, by their paths in the repository."""
        case = folded if self.ask("config", "core.ignorecase") == "true" else str
        top = ("-C", str(self._top))
        changed = ("diff", "--name-only", "--no-renames", "--ignore-submodules", "--diff-filter=d", "-z")
        brought = {case(path) for path in self._list(*top, *changed, f"HEAD...{upstream}")}
        folders = {str(folder) for path in brought for folder in PurePosixPath(path).parents}

        def is_replaced(path: str) -> bool:
            place = PurePosixPath(case(path))
            return str(place) in folders or not brought.isdisjoint(map(str, (place, *place.parents)))

        others = self._list(*top, "ls-files", "--others", "-z") if brought else []
        return [path for path in others if is_replaced(path) and not self._is_same(path, upstream)]

    def _is_same(self, path: str, upstream: str) -> bool:
        """Say whether `upstream` has the file that is here at `path`."""
        theirs = self.ask("rev-parse", "--quiet", "--verify", f"{upstream}:{path}")
        is_link = (self._top / path).is_symlink()
        return bool(theirs) and not is_link and self.ask("-C", str(self._top), "hash-object", "--", path) == theirs

    def merge(self, upstream: str) -> list[str]:
        """Merge what was fetched; return the driver's remarks. Raises Conflict, all as it was, if files conflict."""
        if self.ask("merge-base", "HEAD", upstream) and (lost := self._in_the_way(upstream)):
            where = ", ".join(map(one_line, lost[:_MOST_SHOWN]))
            raise Conflict(
                f"{upstream} brings files that are here too, and that git does not track here: {where}.",
                "Nothing was overwritten: rename or move yours, and sync again.",
            )
        # A folder that they renamed takes none of our notes along: the place may be that of an ignored file.
        done = self._start("-c", "merge.directoryRenames=false", "merge", "--ff", "--no-edit", "--quiet", upstream)
        if done.returncode == 0:
            return [line for line in os.fsdecode(done.stderr).splitlines() if line.startswith("spellbook: ")]
        files = [one_line(name) for name in self._list("diff", "--name-only", "--diff-filter=U", "-z")]
        if self.ask("rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
            self.run("merge", "--abort")
        where = ", ".join(files[:_MOST_SHOWN]) or _message(done.stderr or done.stdout)
        raise Conflict(
            f"{upstream} cannot be merged: {where}.",
            "Everything is as it was: merge by hand with git merge, and sync again.",
        )

    def push(self, *, is_last: bool) -> bool:
        """Push; return False if somebody else has pushed meanwhile. Raises StorageError for other failures."""
        wanted = ("--format=%(upstream:remotename) %(upstream:remoteref)", self.ask("symbolic-ref", "HEAD"))
        remote, _, branch = self.ask("for-each-ref", *wanted).rpartition(" ")
        done = self._start("push", "--quiet", remote, f"HEAD:{branch}")
        if done.returncode and b"rejected]" in done.stderr and not is_last:
            return False
        if done.returncode:
            raise StorageError(f"git push failed: {_message(done.stderr)}", "Your commits are here; sync again later.")
        return True


def _message(output: bytes) -> str:
    """Return git's own words as one line."""
    return one_line(os.fsdecode(output).strip())[:500]
