"""
Scopes: which notes belong to one project, and which to all; and what category files a note that names none.

A note's scope is what its frontmatter says, else what the vault's settings say
of its path, else NAME if it lies in `scopes/NAME/`. What has none, or `shared`,
is everybody's. A scope is a view and no lock: an id that is named opens any note.
Pure, but for the names of a project, which are those of its repository; see `settings.repository`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from spellbook.index.filters import Condition, fold, path_glob
from spellbook.notes.note import Note
from spellbook.notes.relations import label_of
from spellbook.settings import paths, repository

AUTO = "auto"
"""Stands for the project that a process was started in."""

SHARED = "shared"
"""The scope of what everybody sees; also written as none."""

_FOLDER = "scopes/"
_KEY = "scope"


def scopes_of(note: Note, rules: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return a note's scopes, folded; none if everybody sees it.

    `rules` map globs of paths to scopes; the first that matches holds.
    """
    written = note.meta.get(_KEY)
    if written is not None:
        named = [label_of(str(each)) for each in (written if isinstance(written, list) else [written])]
    elif (ruled := next((scope for glob, scope in rules.items() if path_glob(note.path, glob)), None)) is not None:
        named = [ruled]
    elif note.path.startswith(_FOLDER) and note.path.count("/") > 1:
        named = [note.path.split("/", 2)[1]]
    else:
        named = []
    folded = tuple(fold(each) for each in named)
    return () if SHARED in folded else tuple(each for each in folded if each)


def category_of(note: Note, rules: Mapping[str, str]) -> str:
    """
    Return the category that files a note: what its frontmatter says, else the first of `rules` that holds for it.

    `rules` map a tag (`#decision`, which is `#decision/infra` too) or a glob of paths (`Projects/`) to a category.
    """
    if note.category or not rules:
        return note.category
    tags = [f"#{fold(tag)}/" for tag in note.tags] if any(rule.startswith("#") for rule in rules) else []
    for rule, category in rules.items():
        if rule.startswith("#"):
            holds = any(tag.startswith(f"{fold(rule).rstrip('/')}/") for tag in tags)
        else:
            holds = path_glob(note.path, rule)
        if holds:
            return category.strip()
    return ""


def visible(scope: str, *others: str) -> tuple[Condition, ...]:
    """Return what limits a search to a scope, its `others` and what everybody sees; nothing if there is no scope."""
    named = tuple(map(fold, (scope, *others)))
    return (Condition(_KEY, named, or_absent=True),) if scope and named[0] != SHARED else ()


def project(
    environment: Mapping[str, str] = os.environ, folder: str | None = None, chosen: Mapping[str, str] | None = None
) -> str:
    """Return the name of a project that its notes are written with, "" if it is none; see `project_names`."""
    return next(iter(project_names(environment, folder, chosen)), "")


def project_names(
    environment: Mapping[str, str] = os.environ, folder: str | None = None, chosen: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """
    Return the names of the project at `folder`, else of the one that this process was started in, as `paths.project`.

    The first is written, the others are read too; see `repository.names`. `chosen` are `[projects]` of the settings.
    """
    place = paths.project(environment, folder or "")
    return repository.names(place, chosen or {}) if place else ()
