"""
Move a note or a folder, and rewrite links so that every link still leads to the same file.

Links are those of notes, and those of Obsidian's canvases, to files and in text cards. Each new text is parsed again;
if it does not read as planned, the links stay as they are.

A move is one entry of the journal: `spellbook undo` takes it back, also after a kill. Nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spellbook.index import sync
from spellbook.index.lookup import bare, named
from spellbook.index.opened import Index
from spellbook.notes import dates
from spellbook.notes.files import Fault
from spellbook.notes.frontmatter import FRONTMATTER
from spellbook.notes.links import Link, destination, find, replaced, retargeted, spelled
from spellbook.notes.note import Note, decode, parse
from spellbook.notes.where_links_lead import By, Files, Reached
from spellbook.notes.where_links_lead import key as link_key
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError, StorageError, UnreadableNote
from spellbook.system.lazy import regex
from spellbook.text.diff import unified
from spellbook.text.unicode import folded, is_whole, without_ending
from spellbook.vault import names
from spellbook.vault.folder import digest
from spellbook.vault.journal import Entry, Journal
from spellbook.vault.vault import Vault
from spellbook.vault.writer import mode_of

VERB = "move"
_TO = " → "
_LOCK = "moving.lock"
_TRIES = 20
"""Attempts to rewrite a note that an editor saves meanwhile."""
_BOOKMARKS = ".obsidian/bookmarks.json"
_NAMED = regex(r"""["'\[(]([^"'\[\]()|#\r\n]{1,1000})""")  # a file, perhaps, in a base or in bookmarks
_WIKI_END = regex(r"[ \t]*(?:\\?\|(?P<shown>[^\r\n]*?))?\]\]")
# A quote within a string of JSON has a backslash in front of it, a key has none.
_VALUE = regex(r'(?<!\\)"(file|background|text)"\s*:\s*("(?:[^"\\]|\\.)*+")')


@dataclass(frozen=True, slots=True)
class RelinkedNote:
    """A file with rewritten links: its new path, their number, and a unified diff; of no note its two heads alone."""

    path: str
    links: int
    difference: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A move, done or planned: old and new paths of all files, changed notes, and links that were left."""

    old: str
    new: str
    moved: tuple[tuple[str, str], ...]
    changed: tuple[RelinkedNote, ...]
    left: tuple[Fault, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Shift:
    """The files before and after a move; `moved` maps old paths to new ones."""

    before: Files
    after: Files
    moved: Mapping[str, str]

    def now(self, path: str) -> str:
        """Return where the file that was at `path` is now."""
        return self.moved.get(path, path)

    def wanted(self, source: str, target: str, is_markdown: bool) -> tuple[Reached, str] | None:
        """
        Return the old target of a link in the note that was at `source` and the wanted new one, None if it is well.

        A Markdown link that was relative stays so, for other readers than Obsidian.
        """
        reached = self.before.follow(source, target, is_markdown)
        if reached is None:
            return None
        wanted = self.now(reached.path)
        now = self.after.follow(self.now(source), target, is_markdown)
        is_well = now is not None and now.path == wanted and (reached.by != By.RELATIVE or now.by == By.RELATIVE)
        return None if is_well else (reached, wanted)


@dataclass(frozen=True, slots=True)
class Mended:
    """A text whose links were mended, how many, and those that could not be."""

    text: str
    count: int
    left: tuple[Link, ...] = ()


@dataclass(slots=True)
class Relinking:
    """
    Planned links: text before and after by path, with the number of rewritten links; `others` are canvases and the
    notes that the catalog does not know: templates and excluded ones.
    """

    vault: Vault
    others: set[str] = field(default_factory=set)
    texts: dict[str, tuple[bytes, bytes, int]] = field(default_factory=dict)
    left: list[Fault] = field(default_factory=list)

    def plan(self, path: str, at: str, mend: Callable[[Note], Mended]) -> None:
        """Plan the new text of the file that is at `at` and will be at `path`: what `mend` makes of its notes."""
        self.texts.pop(path, None)
        try:
            data = self.vault.read(at)[0]
            note, head = parse(path, data), ""
            if not note.editable and path in self.others:  # a template may have `{{date}}` in its frontmatter
                head = note.text[: note.text.find("\n") + 1]
                note = parse(path, note.encode(note.text[len(head) :]))
            done = mend_cards(path, note.text, mend) if path.endswith(names.CANVAS) else mend(note)
        except (MemoryNotFound, UnreadableNote) as error:
            return self.fail(path, error, at)
        if done.left:
            lines = ", ".join(str(link.line) for link in done.left)
            why = "no spelling leads there" if note.editable else note.faults[-1].reason
            self.leave(path, f"links on line {lines} are as they were ({why})")
        if done.count and path in self.others and not mode_of(self.vault.locate(at)) & 0o222:
            self.leave(path, "it is read-only; its links are as they were")
        elif done.count:
            self.texts[path] = data, note.encode(head + done.text), done.count

    def fail(self, path: str, error: SpellbookError, at: str = "") -> None:
        """Plan nothing for the file at `path`, that was at `at`, because of an error."""
        self.texts.pop(path, None)
        self.left.append(Fault.of(path, error, at))

    def leave(self, path: str, why: str) -> None:
        """Plan nothing for the file at `path`, and say why."""
        self.texts.pop(path, None)
        self.left.append(Fault(path, 0, why))

    def write(self, paths: Iterable[str]) -> dict[str, SpellbookError]:
        """Write the new texts at `paths`; return the errors as `Vault.write_all` does."""
        return self.vault.write_all({path: (self.texts[path][1], digest(self.texts[path][0])) for path in paths})

    def changed(self) -> tuple[RelinkedNote, ...]:
        """Return the files with rewritten links, by path."""
        changed = []
        for path, (*pair, count) in sorted(self.texts.items()):
            before, after = (decode(path, data)[0] for data in pair)
            heads = f"a/{path}", f"b/{path}"
            shown = "--- {}\n+++ {}".format(*heads) if path in self.others else unified(before, after, *heads)
            changed.append(RelinkedNote(path, count, shown))
        return tuple(changed)


def move(index: Index, old: str, new: str, *, dry_run: bool = False) -> Moved:
    """
    Move the note or folder `old` (a path or a note's id) to `new`, or into that folder; `dry_run` only reports.

    Raises MemoryNotFound, InvalidInput for an impossible path, Conflict if something is at `new`, and StorageError,
    with nothing moved.
    """
    if dry_run:
        sync.scan(index)
        return _report(index, *_plan_move(index, old, new))
    busy = Conflict("Another Spellbook is moving notes.", "Repeat it when that is done; nothing was moved.")
    with disk.alone(index.config.state / _LOCK, 60, busy):
        sync.scan(index)
        old, new, shift, planned = _plan_move(index, old, new)
        with index.vault.change(VERB, f"{old}{_TO}{new}"), relocated(index.vault, old, new):
            _mend(shift, planned)
        paths = [*(path for pair in shift.moved.items() for path in pair), *planned.texts]
        sync.scan_paths(index, [path for path in dict.fromkeys(paths) if names.is_note(path)])
        return _report(index, old, new, shift, planned)


@contextlib.contextmanager
def relocated(vault: Vault, old: str, new: str) -> Iterator[None]:
    """Move a note or a folder; move it back if the block ends in an error."""
    vault.relocate(old, new)
    try:
        yield
    except BaseException:
        with vault.journal.reverting():
            vault.relocate(new, old)
        raise


def paths_of_move(journal: Journal, entry: Entry) -> tuple[str, str] | None:
    """Return the old and new path of a journal entry that is a move, else None."""
    try:
        if entry.undoes is not None:
            undone = paths_of_move(journal, journal.get(entry.undoes))
            return (undone[1], undone[0]) if undone else None
    except MemoryNotFound:
        return None
    old, arrow, new = entry.what.partition(_TO)
    return (old, new) if entry.verb == VERB and arrow and _TO not in new else None


# -- planning


def _plan_move(index: Index, old: str, new: str) -> tuple[str, str, Shift, Relinking]:
    """Return the paths that are meant, the files before and after, and the planned links by new path."""
    old, new = _resolve_places(index, old, new)
    files = index.vault.files()
    moved = {path: target for path in files if (target := names.after_move(path, old, new)) != path}
    aliases = index.catalog.links.aliases()
    gone = {folded(name) for path in moved for name in dates.logseq_names(path)}
    kept = {name: moved.get(path, path) for name, path in aliases.items() if path not in moved or name not in gone}
    shift = Shift(Files(files, aliases), Files((moved.get(path, path) for path in files), kept), moved)
    known = index.catalog.notes.known().keys()
    others = {path for path in files if path.endswith(names.CANVAS) or (names.is_note(path) and path not in known)}
    planned = Relinking(index.vault, set(map(shift.now, others)))
    # Links in a file behind a symbolic link are rewritten in that file.
    paths = (path for pair in moved.items() for path in pair)
    touched = {link_key(name) for path in paths for name in (path, *dates.logseq_names(path))}
    concerned = {
        linked.source
        for linked in index.catalog.links.to()
        if (linked.source in moved or linked.link.name in touched)
        and shift.wanted(linked.source, linked.link.target, linked.link.is_markdown)
    }
    for source in sorted((concerned & set(files) | others) - set(index.vault.symlinks())):
        _plan_note(planned, shift, source, source)
    renamed = {link_key(path) for path, target in moved.items() if link_key(path) != link_key(target)}
    wanted = renamed | {without_ending(folded(path)) for path in (old, *moved)}
    for path in (*(path for path in files if path.lower().endswith(".base")), _BOOKMARKS):
        with contextlib.suppress(SpellbookError):  # a moved file that these name is reported: neither is rewritten
            mentioned = _NAMED.findall(decode(path, index.vault.read(path)[0])[0])
            if any(without_ending(folded(name).strip().strip("/")) in wanted for name in mentioned):
                planned.leave(shift.now(path), f"it names {old}, and is as it was")
    return old, new, shift, planned


def _plan_note(planned: Relinking, shift: Shift, source: str, at: str) -> None:
    """Plan the new text of the note that was at `source`. Until the move is done it is at the path `at`."""
    planned.plan(shift.now(source), at, lambda note: mend(note, source, shift))


def _resolve_places(index: Index, old: str, new: str) -> tuple[str, str]:
    """Return the source and target that are meant. Raises MemoryNotFound, InvalidInput, PathOutsideVault, Conflict."""
    vault = index.vault
    source, target = bare(index, old).rstrip("/"), new.rstrip("/")
    if not os.path.lexists(vault.locate(source)):
        chunks, is_whole = named(index, old)
        source = chunks[0].path
        if not is_whole and len(index.catalog.at(source)) > 1:
            raise InvalidInput(
                f"{old[:200]!r} is one section of {source}.",
                f"Move the note, {chunks[0].note!r:.200}, or its folder; nothing was moved.",
            )
    is_note = names.is_note(source) and not vault.locate(source).is_dir()
    if target in {"", "."}:
        target = source.rpartition("/")[2]
    elif new.endswith("/") or (vault.locate(target).is_dir() and target.casefold() != source.casefold()):
        target = f"{target}/{source.rpartition('/')[2]}"
    elif is_note and not names.is_note(target.rpartition("/")[2]):
        target += source[len(without_ending(source)) :]
    place = vault.locate(target)
    if target == source or target.startswith(f"{source}/"):
        raise InvalidInput(f"{source} cannot be moved to {target}.", "Choose a path elsewhere; nothing was moved.")
    dotted = next((path for path in (source, target) if any(part.startswith(".") for part in path.split("/"))), "")
    if dotted or (is_note and not vault.is_note(target)):
        raise InvalidInput(
            f"{dotted or target}: Spellbook sees no notes there.",
            "Choose a path without a dot in front, that is not ignored.",
        )
    name = target.rpartition("/")[2]
    if name != source.rpartition("/")[2] and (bad := names.forbidden(name)):
        raise InvalidInput(
            f"{target}: some systems, or links, cannot hold {bad!r}.", "Choose another name; nothing was moved."
        )
    vault.check_here(target)
    if os.path.lexists(place) and not disk.is_same_name(place, vault.locate(source)):
        raise Conflict(f"{target}: something is there already.", "Choose another path; nothing was moved.")
    return source, target


# -- doing


def _mend(shift: Shift, planned: Relinking) -> None:
    """Write the new links, planned again in notes that changed meanwhile. Raises StorageError."""
    homes = {new: old for old, new in shift.moved.items()}
    wanted = [*planned.texts]
    for _ in range(_TRIES):
        failed = planned.write(wanted)
        for path, error in failed.items():
            if not isinstance(error, StorageError):
                _plan_note(planned, shift, homes.get(path, path), path)
            elif path in planned.others:
                planned.fail(path, error)
            else:
                raise error
        wanted = [path for path in failed if path in planned.texts]
    for path in wanted:
        planned.leave(path, "the file keeps changing; its links are as they were")


def _report(index: Index, old: str, new: str, shift: Shift, planned: Relinking) -> Moved:
    moved = tuple(sorted(shift.moved.items()))
    return Moved(old, new, moved, planned.changed(), tuple(planned.left), index.catalog.generation)


# -- links of one text: pure


def mend(note: Note, source: str, shift: Shift) -> Mended:
    """Rewrite the links of `note`, whose path is the new one, and which was at `source`."""
    forms: dict[Link, str | None] = {}
    for link in find(note):
        if places := shift.wanted(source, link.target, link.is_markdown):
            forms[link] = retargeted(link, places[0], note.path, places[1], shift.after)
    return rewrite_links(note, forms)


def rewrite_links(note: Note, forms: Mapping[Link, str | None]) -> Mended:
    """Give links other targets; those with None are left, and those in frontmatter that cannot be read."""
    header = None if note.editable else FRONTMATTER.match(note.text)
    first = header.end() if header else 0
    ordered = sorted(forms.items(), key=lambda pair: pair[0].start)
    chosen = {link: form for link, form in ordered if form is not None and link.start >= first}
    left = tuple(link for link in forms if link not in chosen)
    changes: list[tuple[int, int, str]] = []
    for link, form in chosen.items():
        written = note.text[link.start : link.end]
        if (new := spelled(link, written, form)) != written:
            changes.append((link.start, link.end, new))
    if not changes:
        return Mended(note.text, 0, left)
    text = replaced(note.text, changes)
    expected = [chosen.get(link, link.target) for link in find(note)]
    if [link.target for link in find(parse(note.path, note.encode(text)))] != expected:
        return Mended(note.text, 0, tuple(forms))
    return Mended(text, len(changes), left)


def unlink(note: Note, is_own: Callable[[Link], bool]) -> str:
    """
    Return `note`'s text without its links to itself, which `is_own` recognises; the shown words stay.

    A link to a heading or block keeps that alone. A Markdown link leads to the top of its page. A link stays if the
    other links would be read differently without it.
    """
    own = [number for number, link in enumerate(find(note)) if is_own(link)]
    for number in reversed(own):
        links = find(note)
        done = parse(note.path, note.encode(replaced(note.text, [_removal_of(note.text, links[number])])))
        left = [(link.target, link.fragment) for link in (*links[:number], *links[number + 1 :])]
        if [(link.target, link.fragment) for link in find(done)] == left:
            note = done
    return note.text


def _removal_of(text: str, link: Link) -> tuple[int, int, str]:
    """Return which characters of `text` are to be replaced, and by what, so that `link` leads to no file."""
    if link.relation:  # its words would be a relation too
        is_bare = link.style == "bare"
        ends = (link.start, link.end) if is_bare else (text.rindex("[[", 0, link.start), text.index("]]", link.end) + 2)
        return *ends, ""
    end = _WIKI_END.match(text, link.end)
    if link.is_markdown or link.fragment or end is None:
        return link.start, link.end, "#" if link.is_markdown and not link.fragment else ""
    start = text.rindex("[[", 0, link.start)
    return start - (text[start - 1 : start] == "!"), end.end(), end["shown"] or text[link.start : link.end]


# -- canvases


def cards(path: str, text: str) -> Iterator[tuple[re.Match[str], int, Note]]:
    """Yield the texts and files of a canvas, each with its line and as a note. Raises UnreadableNote if not JSON."""
    try:
        json.loads(text.lstrip("\ufeff").strip() or "null")
    except (ValueError, RecursionError) as error:
        raise UnreadableNote("it is not valid JSON; its links are as they were") from error
    line, at = 1, 0
    for match in _VALUE.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        value = json.loads(match[2])
        if is_whole(value) and (match[1] != "text" or "[" in value):
            markdown = value if match[1] == "text" else f"[file]({destination(f'/{value}')})"
            yield match, line, parse(path, markdown.encode())


def mend_cards(path: str, text: str, mend: Callable[[Note], Mended]) -> Mended:
    """Rewrite the links of a canvas as `mend` does those of a note; raise as `cards` does."""
    changes, left, count = [], [], 0
    for match, line, note in cards(path, text):
        done = mend(note)
        left += [link._replace(line=line) for link in done.left]
        count += done.count
        if done.count:
            is_text = match[1] == "text"
            new = done.text if is_text else find(parse(path, done.text.encode()))[0].target[1:]
            changes.append((*match.span(2), json.dumps(new, ensure_ascii="\\u" in match[2])))
    return Mended(replaced(text, changes), count, tuple(left))
