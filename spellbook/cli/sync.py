"""Commands for a vault that several people or machines share by git: sync, and the merge driver that git starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spellbook.cli import output
from spellbook.cli.app import command, json_option, main
from spellbook.errors import Conflict, StorageError, UnreadableNote
from spellbook.text.quoting import counted, one_line

if TYPE_CHECKING:
    from spellbook.book import Spellbook

_TRIES = 3
"""Times that notes are pulled and pushed, if others push meanwhile."""

_MOST_SHOWN = 10


@main.command("merge-driver", hidden=True)
@click.argument("base", type=click.Path())
@click.argument("ours", type=click.Path())
@click.argument("theirs", type=click.Path())
@click.option("--path", default="note.md", help="The note's path, for messages.")
@click.option("--ours", "our_name", default="ours", help="What our side is called.")
@click.option("--theirs", "their_name", default="theirs", help="What the other side is called.")
def merge_driver(base: str, ours: str, theirs: str, path: str, our_name: str, their_name: str) -> None:
    """
    Merge three versions of a note into the file OURS. Git starts this; `spellbook install git-merge` sets it up.

    Exit code 0 means that the note is merged, 1 that nothing was written and that git reports a conflict.
    """
    from spellbook.editing.threeway import merge
    from spellbook.notes.note import MOST_BYTES
    from spellbook.system import disk

    names = tuple(
        name if name not in {"%X", "%Y", ""} else side for name, side in ((our_name, "ours"), (their_name, "theirs"))
    )
    try:
        old, mine, other = (disk.read_small(Path(file), MOST_BYTES) for file in (base, ours, theirs))
        merged = merge(path, old, mine, other, (names[0], names[1]))
        if merged.data != mine:
            Path(ours).write_bytes(merged.data)
    except (UnreadableNote, OSError, ValueError) as error:
        output.say(f"spellbook: {one_line(path)} was not merged: {one_line(str(error))}", err=True)
        sys.exit(1)
    if merged.both:
        places = ", ".join(one_line(place) for place in merged.both[:_MOST_SHOWN])
        output.say(f"spellbook: {one_line(path)}: both sides are kept at {places}.", err=True)


@command(
    click.option(
        "-m", "--message", default="Notes", show_default=True, metavar="TEXT", help="The message of the commit."
    ),
    click.option("--no-push", is_flag=True, help="Pull and merge only."),
    json_option,
)
def sync(book: Spellbook, message: str, no_push: bool, as_json: bool) -> None:
    """
    Share the vault by git: commit its changes, pull, merge, index, push.

    Only files in the vault are committed. Once git-merge is installed, Spellbook
    merges notes that both sides changed; what cannot be merged is left as it
    was, and named. See spellbook install --help.
    """
    from spellbook.cli.clients import gitmerge, hooks

    vault = book.config.vault
    git = _Git(hooks.find(vault).top)
    if git.says("rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
        raise Conflict("A merge is under way.", "Finish it with git commit, or git merge --abort, and sync again.")
    upstream = git.says("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}")
    if not upstream:
        raise Conflict("This branch has no upstream.", "Name one: git push -u origin BRANCH.")
    if not gitmerge.is_used(vault):
        output.say(
            "Notes that both sides change are merged line by line; spellbook install git-merge does better.", err=True
        )
    committed = git.commit(vault, message)
    pulled = 0
    both: list[str] = []
    for last in range(_TRIES, 0, -1):
        git.run("fetch", "--quiet")
        pulled += int(git.says("rev-list", "--count", f"HEAD..{upstream}") or 0)
        both += git.merge(upstream)
        if no_push or not git.says("rev-list", "--max-count=1", f"{upstream}..HEAD") or git.push(is_last=last == 1):
            break
    report = book.reindex()
    if as_json:
        output.as_json({"committed": committed, "pulled": pulled, "both": both, **report.as_dict()})
        return
    for line in both:
        output.say(line, err=True)
    output.say(f"{counted(committed, 'file')} committed, {counted(pulled, 'commit')} pulled.")
    output.say(output.told(report))


class _Git:
    """Git in one repository."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def _start(self, *asked: str) -> subprocess.CompletedProcess[bytes]:
        from spellbook.cli.clients.hooks import environment

        env = {**environment(), **({} if sys.stdin.isatty() else {"GIT_TERMINAL_PROMPT": "0"})}
        arguments = ["git", "-C", str(self._top), *asked]
        return subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=env)

    def says(self, *asked: str) -> str:
        """Return the first line that git prints, "" if it fails."""
        done = self._start(*asked)
        return os.fsdecode(done.stdout).strip() if done.returncode == 0 else ""

    def run(self, *asked: str) -> str:
        """Return what git prints on stderr. Raises StorageError, with git's own words, if it fails."""

        done = self._start(*asked)
        said = os.fsdecode(done.stderr).strip()
        if done.returncode:
            raise StorageError(f"git {asked[0]} failed: {one_line(said)[:500]}", "Nothing of yours is lost.")
        return said

    def commit(self, vault: Path, message: str) -> int:
        """Commit the changes in the vault; return how many files changed."""
        self.run("add", "--all", "--", str(vault))
        changed = self._start("diff", "--cached", "--name-only", "-z", "--", str(vault)).stdout.count(b"\0")
        if changed:
            self.run("commit", "--quiet", "--message", message, "--", str(vault))
        return changed

    def merge(self, upstream: str) -> list[str]:
        """Merge what was fetched; return the driver's remarks. Raises Conflict, all as it was, if files conflict."""
        done = self._start("merge", "--no-edit", "--quiet", upstream)
        if done.returncode == 0:
            return [line for line in os.fsdecode(done.stderr).splitlines() if line.startswith("spellbook: ")]
        names = self._start("diff", "--name-only", "--diff-filter=U", "-z").stdout.split(b"\0")
        files = [one_line(os.fsdecode(name)) for name in names if name]
        said = one_line(os.fsdecode(done.stderr or done.stdout))[:500]
        if self.says("rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
            self.run("merge", "--abort")
        where = ", ".join(files[:_MOST_SHOWN]) or said
        raise Conflict(
            f"{upstream} cannot be merged: {where}.",
            "Everything is as it was: merge by hand with git merge, and sync again.",
        )

    def push(self, *, is_last: bool) -> bool:
        """Push; return False if somebody else has pushed meanwhile. Raises StorageError for other failures."""
        done = self._start("push", "--quiet")
        if done.returncode and b"rejected]" in done.stderr and not is_last:
            return False
        if done.returncode:
            said = one_line(os.fsdecode(done.stderr).strip())[:500]
            raise StorageError(f"git push failed: {said}", "Your commits are here; sync again later.")
        return True
