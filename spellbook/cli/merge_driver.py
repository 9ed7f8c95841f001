"""The command that git starts to merge a note that both sides changed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

from spellbook.cli import output
from spellbook.cli.app import main
from spellbook.notes.files import MOST_BYTES
from spellbook.system import disk, platform
from spellbook.system.errors import SpellbookError
from spellbook.text.quoting import counted, one_line


@main.command("merge-driver", hidden=True)
@click.argument("base", type=click.Path())
@click.argument("ours", type=click.Path())
@click.argument("theirs", type=click.Path())
@click.option("--path", default="note.md", help="The note's path, for messages.")
@click.option("--ours", "our_name", help="What our side is called.", expose_value=False)
@click.option("--theirs", "branch", default="", help="What the other side is called.")
def merge_driver(base: str, ours: str, theirs: str, path: str, branch: str) -> None:
    """
    Merge three versions of a note into the file OURS. Git starts this; `spellbook install git-merge` sets it up.

    Exit code 0 means that the note is merged, 1 that nothing was written and that git reports a conflict.
    """
    from spellbook.editing.threeway import merge

    try:
        old, mine, other = (disk.read_small(Path(file), MOST_BYTES) for file in (base, ours, theirs))
        merged = merge(path, old, mine, other, _other_copy(branch, path))
        if merged.data != mine:
            Path(ours).write_bytes(merged.data)
    except (SpellbookError, OSError, ValueError) as error:
        output.say(f"spellbook: {one_line(path)} was not merged: {one_line(str(error))}", err=True)
        sys.exit(1)
    if merged.conflicts:
        places = counted(merged.conflicts, "place")
        output.say(f"spellbook: {one_line(path)}: both sides are kept in {places}, between git's markers.", err=True)


def _other_copy(branch: str, path: str) -> str:
    """Name the other side of a merge, with the day and the author of its last change of the note if git knows them."""
    # Git before 2.44 does not name the branch; the variables of `git merge` do.
    head = next((name[8:] for name in os.environ if name.startswith("GITHEAD_")), branch.partition(" ")[0])
    about = ("--format=%ad, %an", "--date=format:%e %b", "--end-of-options", head, "--", path)
    done = platform.run(["git", "--literal-pathspecs", "log", "-1", *about], capture_output=True)
    return ", ".join(filter(None, ("other copy", re.sub(r"[^\w ,.'-]", "", os.fsdecode(done.stdout)).strip())))
