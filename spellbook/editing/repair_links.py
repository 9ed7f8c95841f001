"""Find broken links, and repair those to files that moved."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spellbook.editing.moves import RelinkedNote, Relinking
from spellbook.editing.relinking import Mended, cards, rewrite_links
from spellbook.index import sync
from spellbook.index.catalog.links import Linked
from spellbook.index.catalog.rows import LinkRow
from spellbook.index.opened import Index
from spellbook.notes import dates, links
from spellbook.notes.files import Fault
from spellbook.notes.note import Note, parse
from spellbook.notes.where_links_lead import By, Files, Reached
from spellbook.system.errors import SpellbookError
from spellbook.text.unicode import composed
from spellbook.vault import names, obsidian


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link that leads nowhere, and the current path of the file that it led to, if that moved; else None."""

    source: str
    line: int
    target: str
    path: str | None


@dataclass(frozen=True, slots=True)
class Offer:
    """Broken links, the notes with repaired links (or links that would be repaired), and what was left."""

    broken: tuple[BrokenLink, ...]
    changed: tuple[RelinkedNote, ...]
    left: tuple[Fault, ...]
    generation: int


def broken(index: Index) -> tuple[BrokenLink, ...]:
    """Return the links that lead nowhere, those to moved files first."""
    formats = obsidian.read(index.config.vault).formats if index.config.obsidian else ()
    with index.catalog.reading():
        catalog, files = index.catalog.links, set(index.vault.files())
        after = Files(files, catalog.aliases(), catalog.ids())
        stored = (*catalog.to(), *_beside(index))
        homes = {old: new for old, new in catalog.moved().items() if new in files and old not in files}
    before = Files({*files, *homes})
    origins: dict[str, list[str]] = defaultdict(list)
    for old, new in homes.items():
        origins[new].append(old)

    def moved(source: str, link: LinkRow) -> Iterator[str]:
        """Yield where the file that a link led to is now, if it was the only one of that name."""
        for home in (source, *origins[source]):  # a note that was moved took its relative links with it
            reached = before.follow(home, link.target, link.is_markdown) if homes else None
            if reached and (reached.by != By.NAME or len(before.ending(link.target)) == 1):
                yield homes.get(reached.path, reached.path)

    found: list[BrokenLink] = []
    for source, link in ((linked.source, linked.link) for linked in stored):
        is_found = after.relation(source, link.target) if link.relation else None
        if is_found or (not link.relation and after.follow(source, link.target, link.is_markdown)):
            continue
        home = next(moved(source, link), None)
        # A daily note that is not written is no fault.
        if home or source.endswith(names.CANVAS) or not dates.is_day(link.target, formats):
            found.append(BrokenLink(source, link.line, link.target, home))
    return tuple(sorted(found, key=lambda each: (each.path is None, each.source, each.line)))


def _beside(index: Index) -> Iterator[Linked]:
    """Yield links of canvases and templates, without excluded canvases and a template's placeholders."""
    settings = obsidian.read(index.config.vault) if index.config.obsidian else obsidian.ObsidianSettings()
    excluded = settings.leaves_out()
    for path in index.vault.files():
        is_template = names.is_note(path) and composed(path).lower().startswith(settings.templates)
        is_canvas = path.endswith(names.CANVAS) and not (excluded and excluded(path))
        if (is_template or is_canvas) and not index.vault.ignores(path):
            with contextlib.suppress(SpellbookError):
                note = parse(path, index.vault.read(path)[0])
                parts = ((at, each) for _, at, each in cards(path, note.text)) if is_canvas else [(0, note)]
                for at, link in ((at, link) for at, part in parts for link in links.find(part)):
                    if not re.search("{{|<%", link.target):
                        yield Linked(path, LinkRow("", link.target, "", link.is_markdown, at or link.line))


def mend(index: Index, *, dry_run: bool, scan: bool = True) -> Offer:
    """Repair the links to moved files; with `dry_run`, only say how. Without `scan` the catalog is taken as it is."""
    if scan:
        sync.scan(index)
    broken_links, planned = _plan(index)
    return carry_out(index, planned, "links", broken_links, dry_run=dry_run)


def carry_out(
    index: Index, planned: Relinking, what: str, broken_links: tuple[BrokenLink, ...], *, dry_run: bool
) -> Offer:
    """Write planned texts as one entry of the journal, which names `what` was repaired; with `dry_run` only tell."""
    paths = [*planned.texts]
    if paths and not dry_run:
        with index.vault.change("repair", what):
            for path, error in planned.write().items():
                planned.leave(Fault.of(path, error))
        sync.scan_paths(index, [path for path in paths if names.is_note(path)])
    return Offer(broken_links, planned.changed(), tuple(planned.left), index.catalog.generation)


def _plan(index: Index) -> tuple[tuple[BrokenLink, ...], Relinking]:
    """Return the broken links, and what can be repaired."""
    broken_links = broken(index)
    moved: dict[str, dict[str, str]] = defaultdict(dict)
    for each in broken_links:
        if each.path is not None:
            moved[each.source][each.target] = each.path
    files = Files(index.vault.files())
    planned = Relinking(index.vault, moved.keys() - index.catalog.notes.known().keys())
    for path, targets in sorted(moved.items()):

        def repair(note: Note, targets: Mapping[str, str] = targets) -> Mended:
            found = (link for link in links.find(note) if link.target in targets)
            return rewrite_links(note, {link: _form(link, note.path, targets[link.target], files) for link in found})

        planned.plan(path, path, repair)
    return broken_links, planned


def _form(link: links.Link, source: str, wanted: str, files: Files) -> str | None:
    is_relative = link.is_markdown or link.target.startswith(("./", "../"))
    by = By.PATH if "/" in link.target else By.NAME
    by = By.ROOT if link.target.startswith("/") else By.RELATIVE if is_relative else by
    return links.retargeted(link, Reached(wanted, by), source, wanted, files)
