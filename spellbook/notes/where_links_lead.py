"""
Where links lead among the files of a vault, by Obsidian's rules. Pure.

Nothing is parsed here, so a search that follows links does not load a parser.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from spellbook.notes import dates
from spellbook.text.markdown_endings import ENDINGS
from spellbook.text.unicode import composed, folded, is_markdown, without_ending


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
        folder = source.rpartition("/")[0]
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

    def relation(self, source: str, target: str) -> Reached | None:
        """Return the note of a relation: by id, path, former path, name, former name or alias; None for none."""
        if path := self._ids.get(folded(target)):
            return Reached(path, By.ID)
        now = self.follow(source, target, False)
        former = self._former.follow(source, target, False) if self._former else None
        is_loose = now is None or now.by == By.ALIAS or (former and now.by == By.NAME and former.by != By.NAME)
        return Reached(self._moved[former.path], By.MOVED) if former and is_loose else now

    def ending(self, target: str) -> list[str]:
        """Return the files whose path is `target` or ends with it, shortest first."""
        wanted = folded(target)
        ends = (f"/{wanted}", *(f"/{wanted}{ending}" for ending in ENDINGS))
        return [path for name, path in self._by_name.get(key(target), ()) if f"/{name}".endswith(ends)]

    def _exact(self, target: str, by: By) -> Reached | None:
        wanted = folded(target)
        same = [path for name, path in self._by_name.get(key(target), ()) if wanted in {name, without_ending(name)}]
        # Where case matters, the one that is spelled so.
        spelled = composed(target)
        exact = (path for path in same if spelled in {composed(path), without_ending(composed(path))})
        path = next(exact, same[0] if same else None)
        return Reached(path, by) if path else None
