"""Find broken links, and repair those to files that moved."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from spellbook.editing.canvas import cards
from spellbook.editing.moves import RelinkedNote
from spellbook.editing.relink import rewrite_links
from spellbook.index import sync
from spellbook.index.catalog.links import Linked
from spellbook.index.catalog.schema import LinkRow
from spellbook.index.opened import Index
from spellbook.notes import daily, links
from spellbook.notes.links import By, Files, Link, Reached
from spellbook.notes.note import Fault, parse
from spellbook.system.errors import MemoryNotFound, SpellbookError, UnreadableNote
from spellbook.text.diff import unified
from spellbook.text.unicode import composed
from spellbook.vault import names, obsidian
from spellbook.vault.folder import digest


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
    """Yield the links of canvases and templates, but for excluded canvases and for what a template fills in."""
    settings = obsidian.read(index.config.vault) if index.config.obsidian else obsidian.ObsidianSettings()
    is_left_out = settings.leaves_out() or index.vault.ignores
    for path in index.vault.files():
        is_template = names.is_note(path) and composed(path).lower().startswith(settings.templates)
        is_canvas = path.endswith(names.CANVAS) and not is_left_out(path)
        if (is_template or is_canvas) and not index.vault.ignores(path):
            with contextlib.suppress(SpellbookError):
                note = parse(path, index.vault.read(path)[0])
                parts = ((at, each) for _, at, each in cards(path, note.text)) if is_canvas else [(0, note)]
                for at, link in ((at, link) for at, part in parts for link in links.find(part)):
                    if not re.search("{{|<%", link.target):
                        yield Linked(path, LinkRow("", link.target, "", link.is_markdown, at or link.line))


def mend(index: Index, *, dry_run: bool) -> Offer:
    """Repair the links to moved files; with `dry_run`, only say how."""
    sync.scan(index)
    offer, texts = _plan(index)
    if not texts or dry_run:
        return offer
    with index.vault.change("doctor", "links"):
        failed = index.vault.write_all(texts)
    left = [*offer.left, *(Fault(path, 0, error.message) for path, error in failed.items())]
    changed = [note for note in offer.changed if note.path not in failed]
    sync.scan_paths(index, [note.path for note in changed])
    return Offer(offer.broken, tuple(changed), tuple(left), index.catalog.generation)


def offered(index: Index) -> Offer:
    """Return how broken links would be repaired, by what the catalog knows of them."""
    return _plan(index)[0]


def _plan(index: Index) -> tuple[Offer, dict[str, tuple[bytes, str]]]:
    """Return what can be repaired, and for each note its new bytes with the hash of those that it has."""
    broken_links = broken(index)
    moved: dict[str, dict[str, str]] = defaultdict(dict)
    for each in broken_links:
        if each.path is not None:
            moved[each.source][each.target] = each.path
    files = Files(index.vault.files())
    changed: list[RelinkedNote] = []
    left: list[Fault] = []
    texts: dict[str, tuple[bytes, str]] = {}
    for path, targets in sorted(moved.items()):
        try:
            data = index.vault.read(path)[0]
            note = parse(path, data)
        except (MemoryNotFound, UnreadableNote) as error:
            left.append(Fault(path, 0, error.message))
            continue
        forms = {
            link: _form(link, path, targets[link.target], files) for link in links.find(note) if link.target in targets
        }
        done = rewrite_links(note, forms)
        if done.left:
            where = ", ".join(str(link.line) for link in done.left)
            left.append(Fault(path, 0, f"links on line {where} have to be edited by hand"))
        if done.count:
            changed.append(RelinkedNote(path, done.count, unified(note.text, done.text, f"a/{path}", f"b/{path}")))
            texts[path] = (note.encode(done.text), digest(data))
    return Offer(broken_links, tuple(changed), tuple(left), index.catalog.generation), texts


def _form(link: Link, source: str, wanted: str, files: Files) -> str | None:
    is_relative = link.is_markdown or link.target.startswith(("./", "../"))
    by = By.PATH if "/" in link.target else By.NAME
    by = By.ROOT if link.target.startswith("/") else By.RELATIVE if is_relative else by
    return links.retargeted(link, Reached(wanted, by), source, wanted, files)


class _KnownFiles:
    """The files of a vault, and where those went that the index saw move."""

    def __init__(self, index: Index) -> None:
        catalog = index.catalog.links
        files = set(index.vault.files())
        self._formats = obsidian.read(index.config.vault).formats if index.config.obsidian else ()
        self._now = Files(files, catalog.aliases(), catalog.ids())
        self._went = {old: new for old, new in catalog.went().items() if new in files and old not in files}
        self._then = Files({*files, *self._went})
        self._came: dict[str, list[str]] = defaultdict(list)
        for old, new in self._went.items():
            self._came[new].append(old)

    def check(self, linked: Linked) -> BrokenLink | None:
        """Return a link as a broken one, None if it leads somewhere."""
        source, link = linked.source, linked.link
        if link.relation:
            reached = self._now.relation(source, link.target)
        else:
            reached = self._now.follow(source, link.target, link.is_markdown)
        if reached:
            return None
        moved = next(self._moved(source, link.target, link.is_markdown), None)
        if source.endswith(names.CANVAS):
            moved = None  # it is named and not mended
        elif moved is None and daily.is_day(link.target, self._formats):
            return None  # a daily note that is not written is no fault
        return BrokenLink(source, link.line, link.target, moved)

    def _moved(self, source: str, target: str, is_markdown: bool) -> Iterator[str]:
        """Yield where the file that a link led to is now, if it was the only one of that name."""
        for home in (source, *self._came[source]):  # a note that was moved took its relative links with it
            reached = self._then.follow(home, target, is_markdown) if self._went else None
            if reached and (reached.by != By.NAME or len(self._then.ending(target)) == 1):
                yield self._went.get(reached.path, reached.path)
