"""The first help: the commands that people use most, in five groups; the others are only named."""

from __future__ import annotations

from collections.abc import Iterable

import click

from spellbook.settings.translate import translated

GROUPS = {
    "Notes": {
        "add": "Add a text as a note",
        "show": "Print a note or one of its sections",
        "edit": "Edit a section or the properties of a note",
        "keep": "Say that a note is right",
        "forget": "Move a note or a section to the trash",
        "save": "Save a web page or a PDF as a note",
    },
    "Find": {
        "search": "Search by meaning and by words",
        "find": "Search for exact words",
        "recent": "List the newest notes",
    },
    "Undo": {
        "undo": "Take the latest change back",
        "log": "List all changes, newest first",
        "history": "List the versions of a note",
    },
    "Connect": {
        "install": "Connect Claude, Obsidian and other programs",
        "serve": "Open the notes in a browser and on a phone",
        "capture": "Save sessions of Claude Code and Codex as notes",
    },
    "Machine": {
        "init": "Make a folder a vault, and index it",
        "use": "Choose the vault of this machine",
        "status": "Say how the vault is, and what to fix",
        "doctor": "Check everything, and repair links",
    },
}
"""Commands by group, each with a description of at most 60 letters."""

_FOR_PROGRAMS = {"completion", "context", "demo", "mcp", "memorize", "merge-driver", "scribe"}
"""Commands that are not named here: other programs run them, or another command does the same."""


def write(formatter: click.HelpFormatter, others: Iterable[str]) -> None:
    """Write the groups, then the names of the `others`."""
    for group, commands in GROUPS.items():
        with formatter.section(translated(group)):
            formatter.write_dl([(name, translated(text)) for name, text in commands.items()], col_spacing=3)
    listed = {name for commands in GROUPS.values() for name in commands} | _FOR_PROGRAMS
    formatter.write_paragraph()
    formatter.write_text(translated(f"Also: {', '.join(name for name in others if name not in listed)}."))
    formatter.write_text(translated("`spellbook COMMAND --help` tells more of each."))
