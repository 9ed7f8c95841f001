"""
Code that a memory cites: its lines are hashed when it is written, and compared when it is recalled in their project.

A path leads to a file of the project, and no link out of it. Git is not started.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spellbook.index.filters import fold
from spellbook.index.project_name import project_names
from spellbook.settings import paths
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex
from spellbook.text.quoting import exact

if TYPE_CHECKING:
    from spellbook.search.scores import Hit

KEY = "sources"
"""The key of a note's frontmatter that lists what it rests on."""

_MOST_HITS = 20
"""Hits of an answer whose code is compared."""
_MOST_SOURCES = 20
"""Sources of a memory."""
_MOST_BYTES = 1_000_000
"""Bytes of a file that is read."""
_MOST_PLACES = 1_000
"""Places of a file at which lines are looked for, around those where they were and the nearest first."""

_RESOURCE = regex(r"([^#\x00-\x1f]{1,400})(?:#L(\d{1,7})(?:-L?(\d{1,7}))?)?")
_ELSEWHERE = regex(r"[a-zA-Z][a-zA-Z0-9+.-]+://\S+")
"""An address that is no path: it is kept as it is."""


class _Lines(NamedTuple):
    """A file of a project by its path, and its lines from `first` to `last`, counted from 1; 0 is the whole file."""

    path: str
    first: int
    last: int


def cite(sources: Sequence[object], chosen: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """
    Return the value of the key `sources`, with the hash of cited lines, and the project's name, "" if none is cited.

    A source is a path in the project, as `src/retry.py#L10-L20`, an address, or a mapping with one as its `resource`.
    Raises InvalidInput for a path that leads out of the project, or to no such lines.
    """
    if len(sources) > _MOST_SOURCES:
        raise InvalidInput(f"{len(sources)} sources are too many.", f"Give at most {_MOST_SOURCES}.")
    made, root = list[dict[str, Any]](), paths.project()
    for source in sources:
        about = dict(source) if isinstance(source, Mapping) else {"resource": source}
        resource = about["resource"] = str(about.get("resource") or "").strip()
        about.pop("sha256", None)
        if not _ELSEWHERE.fullmatch(resource):
            if not root:
                raise InvalidInput(
                    "There is no project here to cite from.", "Start the server in the project's folder."
                )
            cited = _parsed(resource)
            lines = _read(root, cited.path) if cited else None
            if cited is None or lines is None or cited.last > len(lines):
                raise InvalidInput(
                    f"{resource!r:.200} cannot be cited.",
                    "Name lines of a file of the project: src/retry.py#L10-L20. Nothing was written.",
                )
            about["sha256"] = _hash(lines[max(0, cited.first - 1) : cited.last or len(lines)])
        made.append(about)
    is_code = any("sha256" in each for each in made)
    return made, next(iter(project_names(chosen)), "") if is_code else ""


def compared(hits: Sequence[Hit], chosen: Mapping[str, str]) -> tuple[Hit, ...]:
    """Return hits; in `why` of the first that cite code of this project stands what became of it, if anything."""
    citing = [at for at, hit in enumerate(hits) if isinstance(hit.chunk.meta.get(KEY), list)][:_MOST_HITS]
    root = paths.project() if citing else ""
    names = {fold(name) for name in project_names(chosen)} if root else set()
    found = [*hits]
    for at in citing:
        meta = hits[at].chunk.meta
        if fold(meta.get("scope")) in names and (remarks := [*_remarks(meta, root)]):
            found[at] = replace(hits[at], why={**hits[at].why, "cited": remarks})
    return tuple(found)


def _remarks(meta: Mapping[str, Any], root: str) -> Iterator[str]:
    """Yield what became of the lines that a note cites, in the project at `root`; nothing of those that are as then."""
    for source in meta[KEY][:_MOST_SOURCES]:
        if not isinstance(source, Mapping) or not isinstance(source.get("sha256"), str):
            continue
        if cited := _parsed(str(source.get("resource") or "")):
            place, lines = _place(root, cited.path), _read(root, cited.path)
            first = None if lines is None else _found(lines, cited, source["sha256"])
            if place is None or not os.path.exists(place):
                yield f"the cited {exact(cited.path)} is gone"
            elif first is None:
                yield f"{exact(cited.path)} changed since it was cited"
            elif first != cited.first:
                last = first + cited.last - cited.first
                yield f"{exact(cited.path)}#L{first}-L{last} now, cited as L{cited.first}-L{cited.last}"


def _found(lines: Sequence[str], cited: _Lines, wanted: str) -> int | None:
    """Return the first line of cited lines among those of their file, 0 for the whole file, None if it lacks them."""
    if not cited.first:
        return 0 if _hash(lines) == wanted else None
    count = cited.last - cited.first + 1
    end = len(lines) - count + 2
    begin = max(1, min(cited.first - _MOST_PLACES // 2, end - _MOST_PLACES))
    places = sorted(range(begin, min(end, begin + _MOST_PLACES)), key=lambda first: abs(first - cited.first))
    return next((first for first in places if _hash(lines[first - 1 : first - 1 + count]) == wanted), None)


def _parsed(resource: str) -> _Lines | None:
    """Return the lines that a source names; None for an absolute path, one with `..`, and what is none."""
    match = _RESOURCE.fullmatch(resource)
    if match is None or os.path.isabs(match[1]) or re.search(r"\\|^~|^[A-Za-z]:|^/", match[1]):
        return None
    if any(part in {"", ".", ".."} for part in match[1].split("/")):
        return None
    first = int(match[2] or 0)
    last = int(match[3] or first)
    return _Lines(match[1], first, last) if first <= last and (first or not match[2]) else None


def _place(root: str, path: str) -> Path | None:
    """Return where a path of a project leads; None if that is out of it."""
    real = Path(os.path.realpath(root))
    place = Path(os.path.realpath(real / path))
    return place if place.is_relative_to(real) else None


def _read(root: str, path: str) -> list[str] | None:
    """Return the lines of a small regular file of a project, without their ends; None for any other."""
    place = _place(root, path)
    try:
        if place is None or not stat.S_ISREG((status := os.stat(place)).st_mode) or status.st_size > _MOST_BYTES:
            return None
        return place.read_bytes().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None


def _hash(lines: Sequence[str]) -> str:
    return sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
