"""
Look up notes and sections by the names that people and agents use: one rule for every verb.

An id or a path goes before a title, so that no note can take another's place by its title. File names and aliases
follow, as for links. A name of several notes names none. Also chooses the folder of an agent's new note.
"""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import fold
from spellbook.index.opened import Index
from spellbook.notes.files import Files
from spellbook.notes.files import key as link_key
from spellbook.notes.frontmatter import MERGED
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.system.lazy import lazy, regex
from spellbook.text.quoting import counted, exact
from spellbook.text.unicode import composed, folded, slug
from spellbook.vault.names import safe_parts

if TYPE_CHECKING:
    from spellbook.index import suggestions
    from spellbook.notes import note as notes
else:  # imported when a note is parsed, or not found
    (notes,) = lazy("spellbook.notes", "note")
    (suggestions,) = lazy("spellbook.index", "suggestions")

_MOST_NAMED = 5  # notes or sections that an error names
_MOST_MARKS = 8  # places of a `#` in an id after which a heading may stand
_WIKILINK = regex(r"!?\[\[([^\[\]|]+?)\\?(?:\|[^\[\]]*)?\]\]")


def named(index: Index, id: str) -> tuple[list[StoredChunk], bool]:
    """
    Return the chunks that `id` names, in order, and whether they are a whole note, else one chunk of it.

    It is an id, a path (also without `.md`, or with the vault's folder), a title, a file name, an alias, or a wikilink;
    and a heading after `#`. Raises MemoryNotFound, and InvalidInput, which names them, if several match.
    """
    written, there = bare(index, id), ""
    marks = [at for at, letter in enumerate(written) if letter == "#"][:_MOST_MARKS]
    for find in (_exact, partial(_called, is_link="[[" in id)):
        for end in (len(written), *marks):
            chunks = find(index, written[:end])
            if chunks and end == len(written):
                return chunks, True
            if chunks and (section := _section(chunks, id, written[end + 1 :])):
                return section, False
            there = there or ", ".join(exact(chunk.id) for chunk in chunks[:_MOST_NAMED])
    for fault in index.catalog.notes.faults():
        is_meant = fault.path.removesuffix(".md") in {written.removesuffix(".md"), written.rpartition("#")[0]}
        if (is_meant or id.startswith(f"{fault.path}/")) and index.catalog.where_is(fault.path) is None:
            raise MemoryNotFound(f"{fault}.", "The file cannot be read as a note until that is mended.")
    message = f"There is no memory {id[:200]!r}."
    if there:
        raise MemoryNotFound(message, f"Sections there: {there}.")
    hint = "Search for it: ids are in every hit; it may have been erased or renamed."
    close = ", ".join(suggestions.suggested(index, written))
    raise index.missing(MemoryNotFound(message, f"Did you mean {close}?" if close else hint))


def resolve(index: Index, id: str) -> StoredChunk:
    """Return the chunk that `id` names, or the first of the note; raise as `named` does."""
    return named(index, id)[0][0]


def body(index: Index, path: str) -> str:
    """Return the body of the note at `path`."""
    return notes.parse(path, index.vault.read(path)[0]).body


def bare(index: Index, id: str) -> str:
    """Return an id without the brackets of a wikilink, and a path without `./` or the vault's folder in front."""
    wikilink = None if index.catalog.note(id) else _WIKILINK.fullmatch(id.strip())
    name = wikilink[1].strip() if wikilink else id
    for root in (index.config.vault, index.vault.lies_in) if os.path.isabs(name) else ():
        if Path(name).is_relative_to(root):
            name = Path(name).relative_to(root).as_posix()
    return (posixpath.normpath(name) if name.startswith("./") else name).lstrip("/")


def _exact(index: Index, name: str) -> list[StoredChunk]:
    # As it was given, then composed and decomposed: systems name files in either form.
    names = dict.fromkeys([name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)])
    return next(filter(None, map(index.catalog.note, names)), [])


def _called(index: Index, name: str, is_link: bool) -> list[StoredChunk]:
    """Return all chunks of the one note of this name, none if there is none. Raises InvalidInput for several."""
    if name and index.vault.spelled(f"{name.removesuffix('.md')}.md"):  # saved just now: the next scan finds it
        return []
    for paths in _ways(index, name.strip(), is_link):
        seen = sorted(index.catalog.among(paths, index.visible))
        _check_one(name, "note", [index.catalog.where_is(path) or path for path in seen])
        if seen:
            return index.catalog.at(seen[0])
    return []


def _ways(index: Index, name: str, is_link: bool) -> Iterator[Sequence[str]]:
    """Yield the paths of the notes of this name: by path or id, title, file name (first for a link), and alias."""
    stored, wanted = index.catalog.links, folded(name)
    title, whole = " ".join(wanted.split()), wanted.removesuffix(".md")
    had = stored.having(("id", "title", "aliases"), (title, wanted, link_key(name)))

    def by(key: str, value: str) -> list[str]:
        return [path for path, *field in had if field == [key, value]]

    ending = Files(stored.named([link_key(name)])).ending(name)
    yield [path for path in ending if path.count("/") == name.count("/")] or by("id", wanted)
    yield from (ending, by("title", title)) if is_link else (by("title", title), ending)
    # The name of a note that was merged into another one is an alias of that, for links.
    for path, _, value in stored.fields([path for path, key, _ in had if key == "aliases"], (MERGED,)):
        if f"/{value}".endswith(f"/{whole}"):
            hint = f"Look at {index.catalog.where_is(path)}, which says what it said."
            raise MemoryNotFound(f"{name[:200]!r} was merged into {path}.", hint)
    yield by("aliases", wanted)


def folder_of(index: Index, category: str, topic: str, own: str = "") -> str:
    """Return the folder of an agent's note: by settings, by its category, or `own`. Raises InvalidInput."""
    own, config = own or category, index.config
    chosen = composed(config.folders.get("memories", "")).removesuffix("/")
    home = "/".join(safe_parts(chosen))
    if chosen and not (chosen == home and index.vault.is_note(f"{home}/x.md")):
        wrong = f"folders.memories = {chosen!r:.80} is no folder for notes inside the vault."
        raise InvalidInput(wrong, "Write one that is neither hidden nor excluded into .spellbook/config.toml.")
    rules = (rule[:-1] for rule, of in config.categories.items() if rule[-1:] == "/" and fold(of) == fold(category))
    home = f"{home}/{own}" if home else next((rule for rule in rules if "/".join(safe_parts(rule)) == rule), own)
    return f"{home}/{topic.removeprefix(f'{home}/')}"


def _section(chunks: Sequence[StoredChunk], id: str, heading: str) -> list[StoredChunk]:
    """Return the chunk of this anchor, or the one section with this heading. Raises InvalidInput for several."""
    last = folded(heading.rpartition("#")[2])
    tops = [(chunk, folded(chunk.heading or chunk.title)) for chunk in chunks if "~" not in chunk.suffix]
    found = [chunk for chunk in chunks if chunk.suffix == f"#{heading}"]
    found = found or [chunk for chunk, text in tops if text.split() == last.split()]
    if slug(last) != slug(""):  # which nothing is left of
        found = found or [chunk for chunk, text in tops if slug(text) == slug(last)]
    _check_one(id, "section", [chunk.id for chunk in found])
    return found


def _check_one(name: str, kind: str, ids: Sequence[str]) -> None:
    if len(ids) > 1:
        listed = ", ".join(map(exact, ids[:_MOST_NAMED])) + ", …" * (len(ids) > _MOST_NAMED)
        message = f"{counted(len(ids), kind)} are called {name!r:.200}."
        raise InvalidInput(message, f"Did you mean one of these? {listed}. Nothing was changed.")
