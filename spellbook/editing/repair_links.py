"""Find broken links and repair those whose target is known: by where files went, else names, aliases and titles."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from spellbook.editing.config_file import write_setting
from spellbook.editing.moves import RelinkedNote
from spellbook.editing.relink import rewrite_links
from spellbook.index import sync
from spellbook.index.catalog.links import Linked
from spellbook.index.opened import Index
from spellbook.notes import links
from spellbook.notes.links import By, Files, Link, Reached
from spellbook.notes.note import Fault, Note, parse
from spellbook.settings import config
from spellbook.system.errors import MemoryNotFound, UnreadableNote
from spellbook.text.diff import unified
from spellbook.vault.folder import digest

MOVED = "it was moved"
NAMED = "the only one of that name"
ALIAS = "an alias, which Obsidian does not open"
TITLED = "its name or title"

_CLOSE = 0.8
"""Likeness of two names, 0 to 1, from which on one is offered for the other. By hand."""
_MOST_CLOSE = 3
"""Files that are offered for a link whose target is not known."""
_MOST_COMPARED = 100
"""Names that are compared with all others; each takes some hundredths of a second in a large vault."""
ALIKE = 3
"""Broken links from which on those that begin alike are one finding. By hand."""

_FOLDER = re.compile(r"(?:\.{1,2}/)*+[^/]+/|/[^/]+/?")
_MARKS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Guess:
    """A broken link: the file that it meant and why, if known, else the most similar files."""

    source: str
    line: int
    target: str
    path: str | None
    why: str = ""
    perhaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlikeLinks:
    """Broken links that begin alike, those whose meaning is known first."""

    beginning: str
    links: tuple[Guess, ...]

    @property
    def known(self) -> int:
        """How many of them can be repaired."""
        return sum(guess.path is not None for guess in self.links)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it, with its last link as an example."""
        counts = {"links": len(self.links), "notes": len({guess.source for guess in self.links}), "known": self.known}
        return {"beginning": self.beginning, **counts, "example": asdict(self.links[-1])}


@dataclass(frozen=True, slots=True)
class BrokenLinks:
    """Broken links: those that begin alike, those that stand alone, and how those begin that are not checked."""

    groups: tuple[AlikeLinks, ...]
    alone: tuple[Guess, ...]
    unchecked: tuple[str, ...]

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.alone) + sum(len(group.links) for group in self.groups)

    @property
    def known(self) -> int:
        """How many of them can be repaired."""
        return sum(guess.path is not None for guess in self.alone) + sum(group.known for group in self.groups)


@dataclass(frozen=True, slots=True)
class Offer:
    """Broken links, the notes with repaired links (or links that would be repaired), and what was left."""

    guesses: tuple[Guess, ...]
    changed: tuple[RelinkedNote, ...]
    left: tuple[Fault, ...]
    generation: int


def guesses(index: Index) -> tuple[Guess, ...]:
    """Return the links that lead nowhere in Obsidian, those whose meaning is known first."""
    return _guesses(index, with_similar=True)


def broken(index: Index) -> BrokenLinks:
    """Return the same links by how they begin, the most alike first, without similar names, which take long to find."""
    alike: dict[str, list[Guess]] = defaultdict(list)
    listed = _guesses(index, with_similar=False)
    for guess in listed:
        alike[beginning(guess.target)].append(guess)
    groups = [AlikeLinks(name, tuple(links)) for name, links in alike.items() if len(links) >= ALIKE]
    grouped = {group.beginning for group in groups}
    return BrokenLinks(
        tuple(sorted(groups, key=lambda group: -len(group.links))),
        tuple(guess for guess in listed if beginning(guess.target) not in grouped),
        config.unchecked_links(index.config.vault),
    )


def beginning(target: str) -> str:
    """Return how the links to one place begin: `/reference/` of `/reference/hooks`; of a name alone, the name."""
    match = _FOLDER.match(target)
    return (match[0] if match[0].endswith("/") else f"{match[0]}/") if match else target


def uncheck(index: Index, name: str, *, checked: bool) -> tuple[str, ...]:
    """
    Write into config.toml that links which begin with `name` are not checked, or with `checked`, that they are again.

    Return which are not checked now. Raises InvalidInput for what cannot be one, and Conflict.
    """
    before = config.unchecked_links(index.config.vault)
    links = tuple(each for each in before if each != name) if checked else tuple(dict.fromkeys((*before, name)))
    config.check_unchecked("config.toml", links)
    if links != before:
        write_setting(index.vault, "unchecked_links", links)
    return links


def _guesses(index: Index, *, with_similar: bool) -> tuple[Guess, ...]:
    unchecked = config.unchecked_links(index.config.vault)
    folders, names = tuple(name for name in unchecked if name.endswith("/")), {name.rstrip("/") for name in unchecked}
    with index.catalog.reading():
        known = _KnownFiles(index)
        found = [
            guess
            for linked in index.catalog.links.all()
            if not (linked.link.target.startswith(folders) or linked.link.target in names)
            and (guess := known.guess(linked, with_similar=with_similar))
        ]
    return tuple(sorted(found, key=lambda guess: (guess.path is None, guess.source, guess.line)))


def mend(index: Index, *, dry_run: bool) -> Offer:
    """Mend the links whose meaning is known; with `dry_run`, only say how."""
    sync.scan(index)
    offer, texts = _plan(index)
    if not texts or dry_run:
        return offer
    with index.vault.change("doctor", "links"):
        failed = index.vault.write_all(texts)
    left = [*offer.left, *(Fault(path, 0, error.message) for path, error in failed.items())]
    changed = [note for note in offer.changed if note.path not in failed]
    sync.scan_paths(index, [note.path for note in changed])
    return Offer(offer.guesses, tuple(changed), tuple(left), index.catalog.generation)


def offered(index: Index) -> Offer:
    """Return how the links that lead nowhere would be mended, by what the catalog knows of them."""
    return _plan(index)[0]


def _plan(index: Index) -> tuple[Offer, dict[str, tuple[bytes, str]]]:
    """Return what can be mended, and for each note its new bytes with the hash of those that it has."""
    broken_links = guesses(index)
    meant: dict[str, dict[str, Guess]] = defaultdict(dict)
    for guess in broken_links:
        if guess.path is not None:
            meant[guess.source][guess.target] = guess
    files = Files(index.vault.files())
    changed: list[RelinkedNote] = []
    left: list[Fault] = []
    texts: dict[str, tuple[bytes, str]] = {}
    for path, targets in sorted(meant.items()):
        try:
            data = index.vault.read(path)[0]
            note = parse(path, data)
        except (MemoryNotFound, UnreadableNote) as error:
            left.append(Fault(path, 0, error.message))
            continue
        broken = [link for link in links.find(note) if link.target in targets]
        forms = {link: _form(link, path, targets[link.target].path or "", files) for link in broken}
        done = rewrite_links(note, forms, {link: _shown_words(note, link, targets[link.target]) for link in broken})
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


def _shown_words(note: Note, link: Link, guess: Guess) -> str:
    """What a wikilink that says another name of the note needs to be shown as before."""
    is_name = guess.why in {ALIAS, TITLED} and not link.is_markdown and "/" not in link.target
    if not is_name or not note.text.startswith("]]", link.end):
        return ""
    in_table = note.text[: link.start].rpartition("\n")[2].lstrip().startswith("|")
    return f"\\|{link.target}" if in_table else f"|{link.target}"


class _KnownFiles:
    """What is known of a vault's files: their names, aliases and titles, and where they were."""

    def __init__(self, index: Index) -> None:
        catalog = index.catalog.links
        self._files = set(index.vault.files())
        self._now = Files(self._files, catalog.aliases(), catalog.ids())
        self._went = {old: new for old, new in catalog.went().items() if new in self._files and old not in self._files}
        # Nothing else can have moved: what is there now was looked at first.
        self._then = Files({*self._files, *self._went}) if self._went else None
        self._came: dict[str, list[str]] = defaultdict(list)
        for old, new in self._went.items():
            self._came[new].append(old)
        self._titled = catalog.titled
        self._compared: dict[str, tuple[str, ...]] = {}

    @cached_property
    def _called(self) -> dict[str, set[str]]:
        """Files by what they are called, by name or title, plain. Only a link that leads nowhere asks for it."""
        called: dict[str, set[str]] = defaultdict(set)
        for path in self._files:
            called[_plain(links.key(path))].add(path)
        for path, title in self._titled():
            called[_plain(title)].add(path)
        return called

    def guess(self, linked: Linked, *, with_similar: bool) -> Guess | None:
        """Return what a link meant, None if it leads somewhere."""
        source, link = linked.source, linked.link
        if link.relation:
            reached = self._now.relation(source, link.target)
        else:
            reached = self._now.follow(source, link.target, link.is_markdown)
        if reached is not None and reached.by != By.ALIAS:
            return None
        if reached is not None:
            return Guess(source, link.line, link.target, reached.path, ALIAS)
        path, why = next(self._meant(source, link.target, link.is_markdown), (None, ""))
        close = self._close(link.target) if with_similar and path is None else ()
        return Guess(source, link.line, link.target, path, why, close)

    def _meant(self, source: str, target: str, is_markdown: bool) -> Iterator[tuple[str, str]]:
        for home in (source, *self._came[source]):  # a note that was moved took its relative links with it
            if self._then and (reached := self._then.follow(home, target, is_markdown)):
                yield self._went.get(reached.path, reached.path), MOVED
        name = target.rpartition("/")[2]
        if len(same := self._now.ending(name)) == 1:
            yield same[0], NAMED
        if len(called := self._called.get(_plain(_stem(name)), ())) == 1:
            yield next(iter(called)), TITLED

    def _close(self, target: str) -> tuple[str, ...]:
        """The files whose names or titles are most like that of a target."""
        name = _plain(_stem(target.rpartition("/")[2]))
        if name and name not in self._compared and len(self._compared) < _MOST_COMPARED:
            # A file is called by its name and by its title: so many hold as many files as are shown.
            close = get_close_matches(name, self._called, 2 * _MOST_CLOSE, _CLOSE)
            paths = dict.fromkeys(path for other in close for path in sorted(self._called[other]))
            self._compared[name] = tuple(paths)[:_MOST_CLOSE]
        return self._compared.get(name, ())


def _stem(name: str) -> str:
    return name[:-3] if PurePosixPath(name).suffix.lower() == ".md" else name


def _plain(name: str) -> str:
    """A name as people remember it: letters and digits, without case."""
    return _MARKS.sub("", links.key(name))
