"""
Neighbours of a note: its links, its backlinks, and related notes. It only reads.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from spellbook.index.catalog.links import Linked, Links
from spellbook.index.opened import Index
from spellbook.notes.links import Files, key

_MOST_LABELS = 3
_MOST_LINES = 100
_COMMON = 0.2
"""A label that this share of all notes has, or more, relates no two of them, unless the vault is small."""
_FEW = 20


@dataclass(frozen=True, slots=True)
class Leading:
    """A link: its target as written, its line, and the note it leads to (None: another file, or broken)."""

    target: str
    line: int
    path: str | None
    id: str | None
    title: str | None


@dataclass(frozen=True, slots=True)
class Backlink:
    """A note that links to another one, and the first lines with such a link."""

    path: str
    id: str
    title: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Related:
    """A note that is related to another one, and why."""

    path: str
    id: str
    title: str
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Around:
    """A note's links, backlinks, and related notes, the nearest first."""

    links: tuple[Leading, ...]
    backlinks: tuple[Backlink, ...]
    related: tuple[Related, ...]


def around(index: Index, path: str) -> Around:
    """Return links, backlinks and related notes of the note at `path`."""
    with index.catalog.reading():
        return Around(links(index.catalog.links, path), backlinks(index, [path]), related(index, path))


def links(stored: Links, path: str) -> tuple[Leading, ...]:
    """Return the links of the note at `path`, in order, each with the note it leads to."""
    rows = stored.of(path)
    files = _files(stored, {row.name for row in rows})
    reached = [files.follow(path, row.target, row.is_markdown) for row in rows]
    titles = stored.titles(each.path for each in reached if each)
    return tuple(
        Leading(row.target + row.fragment, row.line, each.path, *titles[each.path])
        if each and each.path in titles
        else Leading(row.target + row.fragment, row.line, None, None, None)
        for row, each in zip(rows, reached, strict=True)
    )


def backlinks(index: Index, paths: Collection[str]) -> tuple[Backlink, ...]:
    """Return the other visible notes that link to one of the notes at `paths`."""
    lines: dict[str, list[int]] = defaultdict(list)
    for linked, _ in _leading_to(index.catalog.links, paths, lines=True):
        if linked.source not in paths:
            lines[linked.source].append(linked.link.line)
    titles = _visible(index, index.catalog.links.titles(lines))
    return tuple(
        Backlink(path, *titles[path], tuple(dict.fromkeys(found))[:_MOST_LINES])
        for path, found in sorted(lines.items())
        if path in titles
    )


def counts(stored: Links, paths: Collection[str]) -> Counter[str]:
    """Return how many other notes link to each of the notes at `paths`."""
    leading = {(path, linked.source) for linked, path in _leading_to(stored, paths)}
    return Counter(path for path, source in leading if path != source)


def related(index: Index, path: str, limit: int = 5) -> tuple[Related, ...]:
    """
    Return the notes that are most related to the note at `path`, and why.

    A direct link counts 1 each way. A shared link target, tag, keyword or entity counts less, the more notes share
    it.
    """
    scores: dict[str, float] = defaultdict(float)
    reasons: dict[str, list[str]] = defaultdict(list)

    def count(other: str, score: float, why: str) -> None:
        scores[other] += score
        if why not in reasons[other]:
            reasons[other].append(why)

    led = [leading for leading in links(index.catalog.links, path) if leading.path]
    for leading in led:
        count(leading.path or "", 1.0, "linked from here")
    for back in backlinks(index, [path]):
        count(back.path, 1.0, "links here")
    shared: dict[str, set[str]] = defaultdict(set)
    for linked, target in _leading_to(index.catalog.links, list(dict.fromkeys(leading.path or "" for leading in led))):
        shared[target].add(linked.source)
    names = {leading.path: leading.title for leading in led}
    for target, sources in shared.items():
        for source in sources:
            count(source, 1 / math.log2(2 + len(sources)), f"links to {names[target]} too")
    whole = max(2, index.catalog.counts().notes)
    labels = {
        label: count for label, count in index.catalog.links.labels(path).items() if count <= max(_FEW, _COMMON * whole)
    }
    common: dict[str, list[str]] = defaultdict(list)
    for other, label in index.catalog.links.labelled(labels):
        common[other].append(label)
    for other, held in common.items():
        held.sort(key=lambda label: labels[label])
        count(
            other,
            sum(math.log(whole / labels[label]) for label in held) / math.log(whole),
            f"shares {', '.join(held[:_MOST_LABELS])}",
        )
    scores.pop(path, None)
    titles = _visible(index, index.catalog.links.titles(scores))
    best = sorted((other for other in scores if other in titles), key=lambda other: (-scores[other], other))[:limit]
    return tuple(Related(other, *titles[other], tuple(reasons[other])) for other in best)


def _leading_to(stored: Links, paths: Collection[str], *, lines: bool = False) -> list[tuple[Linked, str]]:
    """Return the links that lead to one of `paths`, with the path; each once, or with `lines` every occurrence."""
    wanted = set(paths)
    if not wanted:
        return []
    names = {*map(key, paths), *stored.aliases_of(paths)}
    found = stored.to(names) if lines else stored.once_to(names)
    files = _files(stored, names if found else ())
    reached = ((linked, files.follow(linked.source, linked.link.target, linked.link.is_markdown)) for linked in found)
    return [(linked, each.path) for linked, each in reached if each and each.path in wanted]


def _files(stored: Links, names: Iterable[str]) -> Files:
    """Return the notes that links with these names may lead to."""
    named = list(names)
    if not named:
        return Files((), {})
    return Files(stored.named(named), stored.aliases(named))


def _visible(index: Index, titles: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the titles of the notes that are visible in the scope."""
    if not index.visible:
        return titles
    seen = set(index.catalog.paths(index.visible))
    return {path: title for path, title in titles.items() if path in seen}
