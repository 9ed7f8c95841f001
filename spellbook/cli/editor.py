"""The command that opens a note's file: in an editor, at its line, or in Obsidian. No shell is used."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from urllib.parse import quote

import click

import spellbook
from spellbook.cli import output
from spellbook.cli.app import command
from spellbook.system import platform
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.text.quoting import one_line
from spellbook.text.unicode import without_ending

FORMS = {
    **dict.fromkeys(("vi", "vim", "nvim", "nano", "micro", "emacs", "emacsclient"), ("+{line}", "{path}")),
    **dict.fromkeys(("code", "codium", "cursor", "windsurf"), ("--goto", "{path}:{line}")),
    **dict.fromkeys(("subl", "zed", "hx", "helix"), ("{path}:{line}",)),
}
"""How editors are given a file and a line; all others get the file alone."""


@command(click.argument("id"), click.option("--obsidian", is_flag=True, help="Open it in Obsidian."), json=False)
def open_(book: spellbook.Spellbook, id: str, obsidian: bool) -> None:
    """
    Open the note of ID in your editor ($VISUAL or $EDITOR) at the line of its text, or in Obsidian.

    \b
    spellbook open ops/keys#rotation
    spellbook open ops/keys --obsidian
    """
    path, line = _place(book, id)
    file = book.config.vault / path
    _run(_opener(f"obsidian://open?path={quote(str(file), safe='')}") if obsidian else _editor(file, line))


def _place(book: spellbook.Spellbook, id: str) -> tuple[str, int]:
    """Return the path and the line of a chunk or a note; also of a file that cannot be read as a note."""
    try:
        chunk = book.show(id)[0]
    except MemoryNotFound:
        for fault in book.index.catalog.notes.faults():
            if without_ending(id) == without_ending(fault.path):
                return fault.path, fault.line or 1
        raise
    return chunk.path, chunk.line


def _editor(file: Path, line: int) -> list[str]:
    """Return the command of the person's editor for a file. Raises InvalidInput if no editor is set."""

    command = next(filter(None, (os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))), "")
    try:
        # Windows' paths have backslashes, which mean something to a shell of other systems.
        program = (
            [part.strip('"') for part in shlex.split(command, posix=False)] if os.name == "nt" else shlex.split(command)
        )
    except ValueError as error:
        raise InvalidInput(
            f"VISUAL or EDITOR cannot be read: {command!r:.200} ({error}).", "Close its quotes."
        ) from error
    if not program:
        raise InvalidInput(
            "No editor is set.", 'Set VISUAL or EDITOR, for example EDITOR="code --wait", or give --obsidian.'
        )
    form = FORMS.get(Path(program[0]).name.lower().removesuffix(".exe").removesuffix(".cmd"), ("{path}",))
    return [*program, *(part.format(path=file, line=line) for part in form)]


def _opener(address: str) -> list[str]:
    """Return the command with which this system opens an address."""
    if sys.platform == "win32":
        return ["rundll32", "url.dll,FileProtocolHandler", address]
    return ["open" if sys.platform == "darwin" else "xdg-open", address]


def _run(command: list[str]) -> None:
    """Run a program in the foreground. Raises InvalidInput if there is none of this name; exits with 1 if it fails."""
    try:
        code = platform.run(command).returncode
    except OSError as error:
        raise InvalidInput(
            f"{one_line(command[0])}: it cannot be started ({error.strerror}).",
            f"Install it, or open this yourself: {one_line(command[-1])}",
        ) from error
    if code:
        output.say(f"spellbook: {one_line(command[0])} ended with exit code {code}.", err=True)
        sys.exit(1)
