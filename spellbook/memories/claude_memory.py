"""
Claude Code's own memory: its folder of notes about a repository, which is searched if a person wants that.

The person's environment and settings say where it is, never a repository; the ledger of this machine says whether it is
read, never a vault. It is only read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from spellbook.capture.ledger import CLAUDE_MEMORY, Ledger
from spellbook.index.project_name import repository
from spellbook.settings import paths
from spellbook.system import disk
from spellbook.system.errors import PermissionDenied

LABEL = "Claude Code's own memory"

MOST_HITS = 3
"""Hits of it below those of the vault."""

_MOST_SLUG = 200
"""Letters after which Claude Code cuts the name of a project's folder, and adds a hash of its own."""


def folder(environment: Mapping[str, str] = os.environ, project: str = "") -> Path | None:
    """Return the real path of the memory of a project's repository, None if there is none; see `paths.project`."""
    own = environment.get("CLAUDE_CONFIG_DIR", "")
    home = os.path.realpath(os.path.expanduser(own or "~/.claude"))
    with contextlib.suppress(OSError, ValueError, RecursionError):  # the person may choose a folder for all memory
        settled = json.loads(disk.read_small(Path(home, "settings.json")))
        named = settled.get("autoMemoryDirectory") if isinstance(settled, dict) else None
        if isinstance(named, str) and os.path.isabs(chosen := os.path.expanduser(named)):
            return Path(os.path.realpath(chosen)) if os.path.isdir(chosen) else None
    projects = Path(home, "projects")
    name = environment.get("CLAUDE_CODE_PROJECT_DIR_NAME", "") if own else ""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        main = unicodedata.normalize("NFC", repository(paths.project(environment, project))[0])
        name = re.sub("[^A-Za-z0-9]", lambda sign: "-" * (1 + (sign[0] > "\uffff")), main)  # as JavaScript counts
    names = [name]
    if len(name) > _MOST_SLUG:
        listed = os.listdir(projects) if projects.is_dir() else []
        names = [each for each in listed if each.startswith(f"{name[:_MOST_SLUG]}-")]
    places = [Path(os.path.realpath(projects / each / "memory")) for each in names]
    there = [place for place in places if place.is_dir() and place.is_relative_to(projects)]
    return there[0] if len(there) == 1 else None  # of several nobody can tell which it is


def beside(vault: Path) -> Path | None:
    """Return the memory to search beside a vault; None if it is not wanted, not there, or in the vault anyway."""
    ledger = Ledger(str(vault))
    is_on = ledger.switch(CLAUDE_MEMORY).is_on and not ledger.folder.resolve().is_relative_to(vault)
    place = folder() if is_on else None
    return place if place and not place.is_relative_to(vault) else None


def refuse(vault: Path, id: str) -> None:
    """Raise PermissionDenied if a path leads to a file of the memory, which Spellbook only reads."""
    place = os.path.normpath(os.path.expanduser(id.partition("#")[0]))
    root = beside(vault) if os.path.isabs(place) else None
    if root and Path(place).is_relative_to(root):
        wrong = f"{place} is in Claude Code's own memory, which Spellbook only reads."
        raise PermissionDenied(wrong, "Change it in Claude Code; `spellbook import claude-memory` makes notes of it.")
