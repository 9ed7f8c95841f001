"""Neighbours of a note: its links, its backlinks, related notes, and its successors. It only reads."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from spellbook.index import lookup, privacy
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.links import LABELS, Linked, Links, Superseding
from spellbook.index.catalog.rows import LinkRow, ListedNote, StoredChunk
from spellbook.index.filters import HELD, NO_GUIDES, WAITS, Condition, as_of_moment, fold, validity
from spellbook.index.opened import Index
from spellbook.notes.where_links_lead import Files, Reached, key
from spellbook.system.errors import MemoryNotFound
from spellbook.text.quoting import exact
from spellbook.text.unicode import folded

_MOST_LABELS = 3
"""Shared labels that a reason names."""
_MOST_LINES = 100
"""Lines with a link to a note that a backlink names."""
_COMMON = 0.2
"""A label that this share of all notes has, or more, relates no two of them, unless the vault is small."""
_FEW = 20
"""Notes that a label may have in any vault."""


class Leading(NamedTuple):
    """A link: its target as written, its line, the note it leads to (None: another file, or broken), its relation."""

    target: str
    line: int
    path: str | None
    id: str | None
    title: str | None
    relation: str = ""


class Backlink(NamedTuple):
    """A note that links to another one, the first lines with such a link, and these links' relations."""

    path: str
    id: str
    title: str
    lines: tuple[int, ...]
    relations: tuple[str, ...] = ()
    untrusted: bool = False
    """Whether the note, and so its title, comes from outside."""


class Related(NamedTuple):
    """A note that is related to another one, and why."""

    path: str
    id: str
    title: str
    why: tuple[str, ...]
    untrusted: bool = False


class Superseded(NamedTuple):
    """
    The paths of the notes that supersede a note.

    `by` is the path, the id and the title of the newest of them, None if it is hidden from the reader. `ends` is when
    the first of them begins to hold, in seconds since 1970, None if no visible one says so.
    """

    above: frozenset[str]
    by: tuple[str, str, str] | None
    ends: float | None = None


class Around(NamedTuple):
    """A note's links, backlinks, and related notes, the nearest first; and its chain if others are in it."""

    links: tuple[Leading, ...]
    backlinks: tuple[Backlink, ...]
    related: tuple[Related, ...]
    timeline: tuple[Related, ...]

    def as_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return them as JSON shows them."""
        return {name: [each._asdict() for each in listed] for name, listed in self._asdict().items()}


def around(index: Index, path: str) -> Around:
    """Return links, backlinks and related notes of the note at `path`."""
    with index.catalog.reading():
        near = links(index.catalog.links, path), backlinks(index, [path]), related(index, path)
        return Around(*near, line if (line := chain(index, path))[1:] else ())


def links(stored: Links, path: str) -> tuple[Leading, ...]:
    """Return the links of the note at `path`, in order, each with the note it leads to."""
    rows = stored.of(path)
    files = _files(stored, _names_in(rows))
    reached = [_reached(files, path, row) for row in rows]
    titles = stored.titles(place.path for place in reached if place)
    leading = []
    for row, place in zip(rows, reached, strict=True):
        to = place.path if place and place.path in titles else None
        id, title = titles[to] if to else (None, None)
        leading.append(Leading(row.target + row.fragment, row.line, to, id, title, row.relation))
    return tuple(leading)


def backlinks(index: Index, paths: Collection[str]) -> tuple[Backlink, ...]:
    """Return the other visible notes that link to one of the notes at `paths`."""
    linking: dict[str, list[LinkRow]] = defaultdict(list)
    for linked, _ in _leading_to(index.catalog.links, paths, lines=True):
        if linked.source not in paths:
            linking[linked.source].append(linked.link)
    titles = _visible(index, index.catalog.links.titles(linking))
    strangers = _strangers(index, titles)
    return tuple(
        Backlink(
            path,
            *titles[path],
            tuple(dict.fromkeys(row.line for row in rows))[:_MOST_LINES],
            tuple(dict.fromkeys(row.relation for row in rows if row.relation)),
            path in strangers,
        )
        for path, rows in sorted(linking.items())
        if path in titles
    )


def counts(stored: Links, paths: Collection[str]) -> Counter[str]:
    """Return how many other notes link to each of the notes at `paths`."""
    leading = {(path, linked.source) for linked, path in _leading_to(stored, paths)}
    return Counter(path for path, source in leading if path != source)


def related(index: Index, path: str, limit: int = 5) -> tuple[Related, ...]:
    """Return the notes most related to the note at `path`: by links (1 each way), and by rare shared labels."""
    scores: dict[str, float] = defaultdict(float)
    reasons: dict[str, list[str]] = defaultdict(list)

    def count(other: str, score: float, why: str) -> None:
        scores[other] += score
        if why not in reasons[other]:
            reasons[other].append(why)

    stored = index.catalog.links
    names: dict[str, str | None] = {}
    for link in links(stored, path):
        if link.path:
            names[link.path] = link.title
            count(link.path, 1.0, f"linked from here ({link.relation})" if link.relation else "linked from here")
    for back in backlinks(index, [path]):
        relations = ", ".join(back.relations)
        count(back.path, 1.0, f"links here ({relations})" if relations else "links here")
    shared: dict[str, set[str]] = defaultdict(set)
    for linked, target in _leading_to(stored, names):
        shared[target].add(linked.source)
    for target, sources in shared.items():
        for source in sources:
            count(source, 1 / math.log2(2 + len(sources)), f"links to {names[target]} too")
    whole = max(2, index.catalog.counts().notes)
    labels = {label: notes for label, notes in stored.labels(path).items() if notes <= max(_FEW, _COMMON * whole)}
    common: dict[str, list[str]] = defaultdict(list)
    for other, label in dict.fromkeys((path, value) for path, _, value in stored.having(LABELS, labels)):
        common[other].append(label)
    for other, held in common.items():
        held.sort(key=lambda label: labels[label])
        weight = sum(math.log(whole / labels[label]) for label in held) / math.log(whole)
        count(other, weight, f"shares {', '.join(held[:_MOST_LABELS])}")
    scores.pop(path, None)
    titles = _visible(index, index.catalog.links.titles(scores), NO_GUIDES)
    best = sorted((other for other in scores if other in titles), key=lambda other: (-scores[other], other))[:limit]
    strangers = _strangers(index, best)
    return tuple(Related(other, *titles[other], tuple(reasons[other]), other in strangers) for other in best)


class VaultGraph(NamedTuple):
    """
    The notes of a vault and their links, the most linked first; `total` counts the notes that are left out too.

    `degrees` are numbers of linked notes. An edge has the places of two notes in `notes`, and a relation or "link".
    """

    notes: tuple[ListedNote, ...]
    degrees: tuple[int, ...]
    edges: tuple[tuple[int, int, str], ...]
    total: int


Adjacent = tuple[ListedNote | None, ListedNote | None]
"""The notes before and after a note in its folder."""


def adjacent(index: Index, path: str) -> Adjacent:
    """Return the notes before and after the one at `path` in its folder, by name."""

    def by_name(note: ListedNote) -> list[str | int]:  # without case, and numbers as numbers: 2 stands before 10
        return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", key(note.path))]

    listed = sorted(index.catalog.list_notes(index.visible, path[: path.rfind("/") + 1]), key=by_name)
    at = next((place for place, note in enumerate(listed) if note.path == path), len(listed))
    before, after = listed[at - 1 : at], listed[at + 1 : at + 2]
    strangers = _strangers(index, [note.path for note in (*before, *after)])
    marked = [[note._replace(untrusted=note.path in strangers) for note in some] for some in (before, after)]
    return next(iter(marked[0]), None), next(iter(marked[1]), None)


def vault_graph(index: Index, most: int) -> VaultGraph:
    """Return the notes of the vault, at most the `most` linked ones, and the links between them."""
    with index.catalog.reading():
        listed = {note.path: note for note in index.catalog.list_notes((*index.visible, NO_GUIDES))}
        edges: dict[tuple[str, str], str] = {}
        for linked, path in _leading_to(index.catalog.links, listed):
            if linked.source in listed and linked.source != path and (path, linked.source) not in edges:
                edges[linked.source, path] = linked.link.relation or edges.get((linked.source, path)) or "link"
    degrees = Counter(path for edge in edges for path in edge)
    chosen = sorted(listed, key=lambda path: (-degrees[path], path))[:most]
    place = {path: number for number, path in enumerate(chosen)}
    strangers = _strangers(index, chosen)
    return VaultGraph(
        tuple(listed[path]._replace(untrusted=path in strangers) for path in chosen),
        tuple(degrees[path] for path in chosen),
        tuple((place[a], place[b], why) for (a, b), why in edges.items() if a in place and b in place),
        len(listed),
    )


def superseded(
    index: Index, paths: Collection[str], hiding: Sequence[Condition], at: float | None = None
) -> dict[str, Superseded]:
    """
    Return the superseded notes, at a time or now, among those at `paths` and their successors, which come first.

    In a circle the newest note supersedes the others. Notes that do not meet `hiding`, or that are missing in a part of
    a vault, are not named, and nothing tells when they begin.
    """
    known = _superseded(index.catalog, paths, hiding, time.time() if at is None else at)
    if index.whole is None:
        return known
    hidden = _superseded(index.whole.catalog, paths, (), math.inf).keys() & set(paths) - known.keys()
    return {**dict.fromkeys(sorted(hidden), Superseded(frozenset(), None)), **known}


def holding(index: Index, hiding: Sequence[Condition], at: float) -> Condition:
    """Return the condition of holding at a time (seconds since 1970); notes that do not meet `hiding` are ignored."""
    known = _superseded(index.catalog, None, hiding, at)
    return Condition(HELD, tuple(path for path, each in known.items() if each.ends is not None), low=at)


def chain(index: Index, path: str) -> tuple[Related, ...]:
    """Return the seen notes that superseded each other before and after the one at `path`, and it, the oldest first."""
    known, paths, notes = _superseded(index.catalog, None, index.visible, math.inf), {path}, []
    for old in reversed(known):
        paths.update(known[old].above if old in paths else ())
    for old in known:
        paths.update({old} if paths & known[old].above else ())
    seen = {path} | index.catalog.among(paths, index.visible)
    for each in (*(old for old in reversed(known) if old in seen), *sorted(seen - known.keys())):
        chunk = index.catalog.at(each)[0]
        words = validity(chunk.meta, chunk.created, known[each].ends if each in known else None)[2]
        notes.append(Related(each, chunk.note, chunk.title, (words,), privacy.is_untrusted(chunk.meta)))
    return tuple(notes)


def is_superseded(chunk: StoredChunk) -> bool:
    """Say whether a chunk's note itself says that it is superseded."""
    status = chunk.meta.get("status")
    return bool(chunk.meta.get("superseded_by")) or (status is not None and fold(status) == "superseded")


def standing(index: Index, chunks: Collection[StoredChunk]) -> dict[str, dict[str, str]]:
    """Return the superseded notes of these chunks by path, and path, id and title of the successor unless hidden."""
    above = superseded(index, {chunk.path for chunk in chunks}, index.visible)
    marked: dict[str, dict[str, str]] = {}
    for chunk in chunks:
        if (known := above.get(chunk.path)) or is_superseded(chunk):
            by = known.by if known else None
            marked[chunk.path] = dict(zip(("path", "id", "title"), by or (), strict=False))
    return marked


def named(index: Index, id: str, as_of: str) -> list[StoredChunk]:
    """
    Return the chunks of `lookup.named`; `as_of` a date, of the note of its chain that held. Raises MemoryNotFound.
    """
    chunks = lookup.named(index, id)[0]
    if not as_of:
        return chunks
    notes = chain(index, chunks[0].path)
    held = holding(index, index.visible, as_of_moment(as_of, time.time()))
    there = index.catalog.among([each.path for each in notes], [held])
    if not there:
        listed = "; ".join(f"{exact(each.id)} {each.why[0]}" for each in dict.fromkeys((notes[0], notes[-1])))
        raise MemoryNotFound(f"Nothing of this held on {as_of}.", f"Over time: {listed}.")
    return chunks if chunks[0].path in there else index.catalog.at([n.path for n in notes if n.path in there][-1])


def _superseded(
    catalog: Catalog, paths: Collection[str] | None, hiding: Sequence[Condition], at: float
) -> dict[str, Superseded]:
    superseding = _reviewed(catalog, catalog.links.superseding(paths), hiding)
    if not superseding:
        return {}
    files = _files(catalog.links, _names_in(note.link for note in superseding))
    notes = {note.path: note for note in superseding}
    shown = catalog.among(notes, hiding) if hiding else notes.keys()
    begins = {path: note.begins for path, note in notes.items() if path in shown and note.begins is not None}
    above: dict[str, set[str]] = defaultdict(set)
    for note in superseding:
        reached = _reached(files, note.path, note.link)
        if reached and reached.path != note.path and begins.get(note.path, at) <= at:
            above[reached.path].add(note.path)
    order = _newest_first(above, lambda path: (notes[path].when, notes[path].id))
    result = {}
    for path in order:
        if above.get(path):
            newest = max((notes[other] for other in above[path]), key=lambda note: (note.when, note.id))
            by = (newest.path, newest.id, newest.title) if newest.path in shown else None
            ends = min((begins[other] for other in above[path] if other in begins), default=None)
            result[path] = Superseded(frozenset(above[path]), by, ends)
    return result


def _reviewed(catalog: Catalog, notes: list[Superseding], hiding: Sequence[Condition]) -> list[Superseding]:
    """Return the notes that supersede something: for an agent not those that wait for the person's review."""
    waiting = [each for each in hiding if each.key == WAITS]
    if not (notes and waiting):
        return notes
    counting = catalog.among([note.path for note in notes], waiting)
    return [note for note in notes if note.path in counting]


def _newest_first(above: dict[str, set[str]], age: Callable[[str], tuple[float, str]]) -> list[str]:
    """Return the notes so that those above one come before it; a circle is left with its newest note above the rest."""
    while True:
        try:
            return [*TopologicalSorter(above).static_order()]
        except CycleError as error:
            circle = set(error.args[1])
            newest = max(circle, key=age)
            for path in circle:
                above[path] -= circle
                if path != newest:
                    above[path].add(newest)


def _leading_to(stored: Links, paths: Collection[str], *, lines: bool = False) -> list[tuple[Linked, str]]:
    """Return the links that lead to one of `paths`, with the path; each once, or with `lines` every occurrence."""
    wanted = set(paths)
    if not wanted:
        return []
    names = stored.names_of(wanted)
    names |= set(map(key, names))  # an alias or an id may hold a slash, and links are stored by what is after it
    rows = stored.to(names, lines=lines)
    files = _files(stored, names if rows else ())
    return [
        (linked, place.path)
        for linked in rows
        if (place := _reached(files, linked.source, linked.link)) and place.path in wanted
    ]


def _reached(files: Files, source: str, link: LinkRow) -> Reached | None:
    """Return where a link in the note `source` leads."""
    return files.relation(source, link.target) if link.relation else files.follow(source, link.target, link.is_markdown)


def _names_in(rows: Iterable[LinkRow]) -> set[str]:
    """Return the names and the whole targets of links; a whole target may be an alias or an id."""
    return {name for row in rows for name in (row.name, folded(row.target))}


def _files(stored: Links, names: Iterable[str]) -> Files:
    """Return the notes that links with these names may lead to."""
    named = list(names)
    if not named:
        return Files((), {})
    return Files(stored.named(named), stored.aliases(named), stored.ids(named), stored.moved(named))


def _strangers(index: Index, paths: Collection[str]) -> set[str]:
    """Return the notes that come from outside."""
    levels = index.catalog.links.fields(paths, (privacy.TRUST,))
    return {path for path, _, trust in levels if trust == privacy.UNTRUSTED}


def _visible(index: Index, titles: dict[str, tuple[str, str]], *others: Condition) -> dict[str, tuple[str, str]]:
    """Return the titles of the notes that are visible in the scope and meet `others`."""
    if not (limits := (*index.visible, *others)):
        return titles
    seen = index.catalog.among(titles, limits)
    return {path: title for path, title in titles.items() if path in seen}
