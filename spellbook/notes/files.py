"""
The files of a vault, without their text: stamps, faults, the largest size, and where links lead among them. Pure.

Links lead by Obsidian's rules. Nothing is parsed here, so a search that finds and follows files does not load a parser.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from spellbook.notes import dates
from spellbook.system.errors import SpellbookError, UnreadableNote
from spellbook.text import ENDINGS
from spellbook.text.unicode import composed, folded, is_markdown, without_ending

MOST_BYTES = 10_000_000
"""Larger files are reported, not read."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that a person should fix, in the 1-based `line`, 0 if unknown. `str()` is for people."""

    path: str
    line: int
    reason: str

    @classmethod
    def of(cls, path: str, error: SpellbookError, at: str = "") -> Fault:
        """Return an error about the file at `path`; its message may begin with the path, or with `at`, and a line."""
        reason = re.sub(rf"^({re.escape(path)}|{re.escape(at or path)})(, line \d+)?: ", "", error.message)
        return cls(path, getattr(error, "line", None) or 0, reason.rstrip("."))

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


class Stamp(NamedTuple):
    """A file's status, without opening it: bytes, nanoseconds, inode; no editor sets `ctime_ns` back (0 on Windows)."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = 0


def check_size(path: str, size: int) -> None:
    """Raise UnreadableNote if a file of `size` bytes is too large for a note."""
    if size > MOST_BYTES:
        raise UnreadableNote(
            f"{path}: {size / 1e6:.1f} MB, and notes are read up to {MOST_BYTES / 1e6:.0f} MB.",
            "Split the note, or list it in .spellbookignore.",
        )


# -- where links lead


class By(IntEnum):
    """The way in which a target was resolved."""

    RELATIVE = 1  # from the folder of the note
    ROOT = 2  # from the vault, with a slash in front
    PATH = 3  # from the vault
    NAME = 4  # by the name of the file, or the end of its path
    ALIAS = 5  # by another name that a note has
    ID = 6  # by its id: relations alone
    MOVED = 7  # by a former path: relations alone


class Reached(NamedTuple):
    """The file that a link leads to, and how its target was resolved."""

    path: str
    by: By


def key(path: str) -> str:
    """Return the name by which links find a file: its own, NFC, without case and without the endings of notes."""
    name = folded(path.rpartition("/")[2])
    while (bare := without_ending(name)) not in {name, ""}:  # `a.md.md` may be meant by `[[a.md]]`
        name = bare
    return name


def path_id(path: str) -> str:
    """Return the id that a note has by its path: without `.md`, whole with another ending; no two are the same."""
    return path[:-3] if path.endswith(".md") and not is_markdown(path[:-3]) else path


class Files:
    """
    The files that links can lead to; `aliases` maps other names of notes, folded, to paths.

    For relations, `ids` maps ids, folded, to paths, and `moved` former paths to present ones.
    """

    def __init__(
        self,
        paths: Iterable[str],
        aliases: Mapping[str, str] | None = None,
        ids: Mapping[str, str] | None = None,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        self._aliases, self._ids, self._moved = dict(aliases or {}), ids or {}, moved or {}
        self._former = Files(self._moved) if self._moved else None
        # A note links to the same files again and again.
        self._followed: dict[tuple[str, str, bool], Reached | None] = {}
        for path in sorted(paths, key=lambda path: (len(path), path)):
            self._by_name.setdefault(key(path), []).append((folded(path), path))
            for name in dates.logseq_names(path):
                self._aliases.setdefault(folded(name), path)

    def follow(self, source: str, target: str, is_markdown: bool) -> Reached | None:
        """
        Return where a link in the note `source` leads, None if nowhere.

        A Markdown link, and one that begins with `./` or `../`, is relative to its note. Other targets are a path from
        the vault, else a file's name or the end of its path: one in the note's own folder or below, else the shortest
        path; at last an alias.
        """
        link = (source.rpartition("/")[0], target, is_markdown)
        if link not in self._followed:
            self._followed[link] = self._reach(*link)
        return self._followed[link]

    def relation(self, source: str, target: str) -> Reached | None:
        """Return the note of a relation: by id, path, former path, name, former name or alias; None for none."""
        if path := self._ids.get(folded(target)):
            return Reached(path, By.ID)
        now = self.follow(source, target, False)
        former = self._former.follow(source, target, False) if self._former else None
        is_loose = now is None or now.by == By.ALIAS or (former and now.by == By.NAME and former.by != By.NAME)
        return Reached(self._moved[former.path], By.MOVED) if former and is_loose else now

    def _reach(self, folder: str, target: str, is_markdown: bool) -> Reached | None:
        wanted = folded(target)
        if wanted.startswith("/"):
            return self._exact(target.lstrip("/"), By.ROOT)
        if is_markdown or wanted.startswith(("./", "../")):
            reached = self._exact(posixpath.normpath(posixpath.join(folder, target)), By.RELATIVE)
            if reached or wanted.startswith(("./", "../")):
                return reached
        if reached := self._exact(target, By.PATH):
            return reached
        paths = self.ending(target)
        if paths:
            near = folded(folder) + "/" if folder else ""
            return Reached(next((path for path in paths if folded(path).startswith(near)), paths[0]), By.NAME)
        alias = self._aliases.get(wanted) if not is_markdown else None
        return Reached(alias, By.ALIAS) if alias else None

    def ending(self, target: str) -> list[str]:
        """Return the files whose path is `target` or ends with it, shortest first."""
        wanted = folded(target)
        ends = (f"/{wanted}", *(f"/{wanted}{ending}" for ending in ENDINGS))
        named = self._by_name.get(key(target), ())
        return [path for name, path in named if f"/{name}".endswith(ends)]

    def _exact(self, target: str, by: By) -> Reached | None:
        wanted = folded(target)
        named = self._by_name.get(key(target), ())
        same = [path for name, path in named if wanted in {name, without_ending(name)}]
        # Where case matters, the one that is spelled so.
        spelled = composed(target)
        exact = (path for path in same if spelled in {composed(path), without_ending(composed(path))})
        path = next(exact, same[0] if same else None)
        return Reached(path, by) if path else None
