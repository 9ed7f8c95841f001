"""
Look up notes and sections by the names that people and agents use: one rule for every verb.

An id or a path goes before a title, so that no note can take another's place by its title. File names and aliases
follow, as for links. A name of several notes names none. Also chooses the folder of an agent's new note.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from spellbook.index import suggestions
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.opened import Index
from spellbook.notes import note as notes
from spellbook.notes.relations import MERGED
from spellbook.notes.where_links_lead import Files
from spellbook.notes.where_links_lead import key as link_key
from spellbook.system.errors import InvalidInput, MemoryNotFound, UnreadableNote
from spellbook.system.lazy import regex
from spellbook.text.quoting import counted, exact
from spellbook.text.unicode import folded, is_markdown, slug, without_ending

_MOST_NAMED = 5  # notes or sections that an error names
_MOST_MARKS = 8  # places of a `#` in an id after which a heading may stand
_LINK = regex(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()]*\)|\s\^[\w-]+\s*$")
_REPEATED = regex("(.+)-([1-9][0-9]?)")
_WIKILINK = regex(r"!?\[\[([^\[\]|]+?)\\?(?:\|[^\[\]]*)?\]\]")


def named(index: Index, id: str, *, to_change: bool = False) -> tuple[list[StoredChunk], bool]:
    """
    Return the chunks that `id` names, in order, and whether they are a whole note, else one chunk of it.

    It is an id, a path (also without `.md`, or with the vault's folder), a title, a file name, an alias, or a wikilink;
    and after `#` a heading of any level, headings one below another (`#A#B`), or a block's id (`#^id`), which lead to
    the chunk that holds them. Raises MemoryNotFound; and InvalidInput, which names the sections, if several match, or
    if it is only a part of a section that is `to_change`.
    """
    written, there = bare(index, id), ""
    marks = [at for at, letter in enumerate(written) if letter == "#"][:_MOST_MARKS]
    for find in (_exact, partial(_called, is_link="[[" in id)):
        for end in (len(written), *marks):
            chunks = find(index, written[:end])
            if chunks and end == len(written):
                return chunks, True
            if chunks and (section := _section(index, chunks, id, written[end + 1 :], to_change)):
                return section, False
            there = there or ", ".join(exact(chunk.id) for chunk in chunks[:_MOST_NAMED])
    for fault in index.catalog.notes.faults():
        is_meant = without_ending(fault.path) in {without_ending(written), written.rpartition("#")[0]}
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
    for root in (index.config.vault, index.vault.lies_in.root) if os.path.isabs(name) else ():
        if Path(name).is_relative_to(root):
            name = Path(name).relative_to(root).as_posix()
    return (posixpath.normpath(name) if name.startswith("./") else name).lstrip("/")


def _exact(index: Index, name: str) -> list[StoredChunk]:
    # As it was given, then composed and decomposed: systems name files in either form.
    names = dict.fromkeys([name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)])
    return next(filter(None, map(index.catalog.note, names)), [])


def _called(index: Index, name: str, is_link: bool) -> list[StoredChunk]:
    """Return all chunks of the one note of this name, none if there is none. Raises InvalidInput for several."""
    path = name if is_markdown(name) else f"{name}.md"
    if name and index.vault.spelled(path):  # saved just now: the next scan finds it
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
    title, whole = " ".join(wanted.split()), without_ending(wanted)
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


def _section(index: Index, chunks: Sequence[StoredChunk], id: str, heading: str, to_change: bool) -> list[StoredChunk]:
    """Return the chunk of this anchor, or the one that holds this heading or block. Raises InvalidInput for several."""
    if found := [chunk for chunk in chunks if chunk.suffix == f"#{heading}"]:
        return found
    lines = _lines_of(index, chunks[0].path, heading)
    starts = [chunk.line for chunk in chunks]
    found = [chunks[at] for at in sorted({max(0, bisect_right(starts, line) - 1) for line in lines})]
    if not lines:  # a section whose heading is a bold line, or the title in the frontmatter
        wanted, tops = key_of(heading), [chunk for chunk in chunks if "~" not in chunk.suffix]
        found = [chunk for chunk in tops if wanted and key_of(chunk.heading or chunk.title) == wanted]
    _check_one(id, "section", [chunk.id for chunk in found])
    if to_change and lines and found and (found[0].line not in lines or "~" in found[0].suffix):
        raise InvalidInput(
            f"{id!r:.200} is a part of a section.",
            f"Name the section: {exact(found[0].id)}. Nothing was changed.",
        )
    return found


def _lines_of(index: Index, path: str, wanted: str) -> list[int]:
    """Return the lines of a file, from 1, with this block's id, or with this heading below the ones before it."""
    try:
        note = notes.parse(path, index.vault.read(path)[0])
    except (MemoryNotFound, UnreadableNote):  # it is gone, or was broken since it was indexed
        return []
    if wanted.rpartition("#")[2].startswith("^"):
        mark = regex(rf"(?:^|\s)\^{re.escape(wanted.rpartition('^')[2].strip())}\s*$")
        return [note.body_line + at for at, line in enumerate(note.body_lines) if mark.search(line)]
    written = {
        note.body_line + block.start: folded(block.text.strip()) for block in note.blocks if block.kind == "heading"
    }
    paths = list(_headings(note))
    # A heading may hold a `#` itself. Obsidian's links leave it out, as the keys do.
    for keys in ([key_of(wanted)], [*map(key_of, wanted.split("#"))]):
        is_there = [line for line, path in paths if keys[-1] and path[-1] == keys[-1] and _in_order(keys, path)]
        if is_there:
            return [line for line in is_there if written[line] == folded(wanted.strip())] or is_there
    repeated = _REPEATED.fullmatch(key_of(wanted))  # GitHub's anchor of the second heading of a name ends with `-1`
    same = [line for line, path in paths if repeated and path[-1] == repeated[1]]
    return same[int(repeated[2]) :][:1] if repeated else []


def _headings(note: notes.Note) -> Iterator[tuple[int, list[str]]]:
    """Yield the line of each heading, from 1, with its key below those of the headings above it."""
    above: list[tuple[int, str]] = []
    for block in note.blocks:
        if block.kind == "heading":
            above = [*(each for each in above if each[0] < block.level), (block.level, key_of(block.text))]
            yield note.body_line + block.start, [key for _, key in above]


def _in_order(keys: Sequence[str], path: Sequence[str]) -> bool:
    left = iter(path)
    return all(key in left for key in keys)


def key_of(heading: str) -> str:
    """Return a heading in the form in which anchors of GitHub, links of Obsidian and its own text are equal."""
    text = _LINK.sub(lambda link: link[1] or link[2] or "", heading)
    key = re.sub("[-_]+", "-", slug(text)).strip("-")
    return folded("".join(text.split())) if key in {"", "section"} else key  # an emoji alone


def _check_one(name: str, kind: str, ids: Sequence[str]) -> None:
    if len(ids) > 1:
        listed = ", ".join(map(exact, ids[:_MOST_NAMED])) + ", …" * (len(ids) > _MOST_NAMED)
        message = f"{counted(len(ids), kind)} are called {name!r:.200}."
        raise InvalidInput(message, f"Did you mean one of these? {listed}. Nothing was changed.")
