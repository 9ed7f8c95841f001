"""Find broken links, and repair those to files that moved."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spellbook.editing.moves import RelinkedNote, Relinking
from spellbook.editing.relink import Mended, cards, rewrite_links
from spellbook.index import sync
from spellbook.index.catalog.links import Linked
from spellbook.index.catalog.schema import LinkRow
from spellbook.index.opened import Index
from spellbook.notes import dates, links
from spellbook.notes.links import By, Files, Link, Reached
from spellbook.notes.note import Fault, Note, parse
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
    with index.catalog.reading():
        known = _KnownFiles(index)
        stored = index.catalog.links.all()
        found = [each for linked in (*stored, *_beside(index)) if (each := known.check(linked))]
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
    if planned.texts and not dry_run:
        with index.vault.change("doctor", "links"):
            failed = planned.write(planned.texts)
        for path, error in failed.items():
            planned.leave(path, error.message)
        sync.scan_paths(index, [path for path in planned.texts if names.is_note(path)])
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


def _form(link: Link, source: str, wanted: str, files: Files) -> str | None:
    is_relative = link.is_markdown or link.target.startswith(("./", "../"))
    by = By.PATH if "/" in link.target else By.NAME
    by = By.ROOT if link.target.startswith("/") else By.RELATIVE if is_relative else by
    return links.retargeted(link, Reached(wanted, by), source, wanted, files)


class _KnownFiles:
    """The files of a vault, and the current paths of files that the index saw move."""

    def __init__(self, index: Index) -> None:
        catalog = index.catalog.links
        files = set(index.vault.files())
        self._formats = obsidian.read(index.config.vault).formats if index.config.obsidian else ()
        self._after = Files(files, catalog.aliases(), catalog.ids())
        self._homes = {old: new for old, new in catalog.moved().items() if new in files and old not in files}
        self._before = Files({*files, *self._homes})
        self._origins: dict[str, list[str]] = defaultdict(list)
        for old, new in self._homes.items():
            self._origins[new].append(old)

    def check(self, linked: Linked) -> BrokenLink | None:
        """Return a link as a broken one, None if it leads somewhere."""
        source, link = linked.source, linked.link
        if link.relation:
            reached = self._after.relation(source, link.target)
        else:
            reached = self._after.follow(source, link.target, link.is_markdown)
        if reached:
            return None
        moved = next(self._moved(source, link.target, link.is_markdown), None)
        if moved is None and not source.endswith(names.CANVAS) and dates.is_day(link.target, self._formats):
            return None  # a daily note that is not written is no fault
        return BrokenLink(source, link.line, link.target, moved)

    def _moved(self, source: str, target: str, is_markdown: bool) -> Iterator[str]:
        """Yield where the file that a link led to is now, if it was the only one of that name."""
        for home in (source, *self._origins[source]):  # a note that was moved took its relative links with it
            reached = self._before.follow(home, target, is_markdown) if self._homes else None
            if reached and (reached.by != By.NAME or len(self._before.ending(target)) == 1):
                yield self._homes.get(reached.path, reached.path)
