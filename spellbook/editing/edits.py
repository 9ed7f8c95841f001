"""
Change keys or one section of a note, and no other byte. Pure.

The result is parsed again: unless it reads as requested, nothing changes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise

from spellbook.editing.frontmatter_edits import remove_key, same, set_key, with_toml
from spellbook.notes.chunks import Chunk
from spellbook.notes.frontmatter import LABELS, TOML, as_label, known_key, line_at
from spellbook.notes.markdown import REST
from spellbook.notes.note import Block, Note, blocks, lines, newline, parse
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.system.lazy import regex, yaml
from spellbook.text.diff import changed_spans
from spellbook.text.unicode import folded

_MOST_COMPARED = 200  # letters of a phrase that are looked for with other blanks
_ITEM = regex(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")


def with_meta(note: Note, changes: Mapping[str, object]) -> str:
    """Return the text with the keys of `changes` set, or removed for None. Raises InvalidInput, Conflict."""
    if not note.editable:
        raise InvalidInput(f"{note.faults[-1]}.", "Mend the line first; nothing was changed.")

    # A value that is there already keeps its spelling. Numbers and dates of labels are texts.
    changes = {key: as_label(value) if key in LABELS else value for key, value in changes.items()}
    changes = {key: value for key, value in changes.items() if not (key in note.meta and same(note.meta[key], value))}
    text = note.text
    expected = {
        key: value for key, value in {**note.meta, **changes}.items() if value is not None or key not in changes
    }
    try:
        for key, value in changes.items():
            if TOML.match(text):
                text = with_toml(text, key, value)
            else:
                text = remove_key(text, key) if value is None else set_key(text, key, value, note.meta.get(key))
        after = parse(note.path, note.encode(text))
        faults, known = ({fault.reason for fault in version.faults} for version in (after, note))
        exact = faults <= known and after.body == note.body and same(after.meta, expected)
    except (yaml.YAMLError, ValueError, RecursionError):
        exact = False
    if not exact:
        names = ", ".join(changes)
        raise Conflict(
            f"{note.path}: {names} cannot be changed without touching other lines of the frontmatter.",
            "Edit it by hand; nothing was changed.",
        )
    return text


def written(note: Note, key: str) -> str:
    """Return a key as `note.meta` has it, whatever its case; as it is to be written if it is not there."""
    alike = (each for each in note.meta if folded(each) == folded(key))
    return key if key in note.meta else next(alike, known_key(key))


def rewrite(note: Note, chunk: Chunk, content: str) -> str:
    """
    Return `note`'s text with `chunk`'s text replaced by `content`, and no other character.

    The heading stays unless `content` has its own; blank lines around the section stay. Raises InvalidInput if
    `content` would swallow the following text, as an open code fence would.
    """
    end_of_line = newline(note.text)
    source = lines(note.text[chunk.start : chunk.end])
    written = [i for i, line in enumerate(source) if line.strip()]
    first, last = (written[0], written[-1] + 1) if written else (len(source), len(source))
    lead, tail = "".join(source[:first]), "".join(source[last:])
    given = lines(content)
    kept = [i for i, line in enumerate(given) if line.strip()] or [0]
    new = re.sub(r"\r\n|\r|\n", end_of_line, "".join(given[kept[0] : kept[-1] + 1]).rstrip("\r\n"))
    begin = chunk.start + len(lead)
    heading = next((block for at, block in _place_blocks(note) if at == begin and block.kind == "heading"), None)
    if heading and not _begins_with_heading(new, heading.level):
        below = first + heading.end - heading.start
        rest = next((i for i in written if i >= below), len(source))
        title = "".join(source[first:below])
        gap = "".join(source[below:rest]) if rest < len(source) else end_of_line
        lead += title + ("" if title.endswith(("\r", "\n")) else end_of_line) + gap
    ending = _ending_of(source[last - 1] if last else "", end_of_line, is_end=chunk.end >= len(note.text))
    return _within(note, chunk.start, chunk.end, lead + new + ending + tail)


def _begins_with_heading(text: str, level: int) -> bool:
    """Say whether a text begins with a heading of this level, or of one above it."""
    own = next(blocks(text), None)
    return own is not None and own.kind == "heading" and own.start == 0 and own.level <= level


def _ending_of(last_line: str, end_of_line: str, *, is_end: bool) -> str:
    """Return the end of a section's last line; a part that is cut within a line ends in blanks, or gets an end."""
    blanks = last_line[len(last_line.rstrip()) :]
    if last_line.endswith(("\r", "\n")):
        return blanks.lstrip(" \t")
    return "" if is_end else blanks or end_of_line


def appended(note: Note, start: int, end: int, content: str) -> str:
    """Return the text with `content` after `start` to `end`, a paragraph or list item. Raises as `rewrite` does."""
    end_of_line = newline(note.text)
    new = re.sub(r"\r\n|\r|\n", end_of_line, content.strip("\r\n"))
    source = lines(note.text[start:end])
    last = next((i for i in range(len(source) - 1, -1, -1) if source[i].strip()), None)
    if last is None:
        return _within(note, start, end, note.text[start:end] + new + end_of_line)
    ending = source[last][len(source[last].rstrip("\r\n")) :]
    gap = end_of_line if _ITEM.match(source[last]) and _ITEM.match(new) else end_of_line * 2
    before = "".join(source[: last + 1]).removesuffix(ending)
    return _within(note, start, end, before + gap + new + ending + "".join(source[last + 1 :]))


def replaced(note: Note, start: int, end: int, phrase: tuple[str, str], *, every: bool = False) -> str:
    """Return the text with a `phrase` (old, new) replaced, once unless `every`. Raises InvalidInput as `rewrite`."""
    old, new = (re.sub(r"\r\n|\r|\n", newline(note.text), text) for text in phrase)
    body = note.text[start:end]
    places = [start + match.start() for match in re.finditer(re.escape(old), body)] if old else []
    if not places:
        words = [re.escape(word) for word in old[:_MOST_COMPARED].split()]
        message = f"{note.path}: {old!r:.200} is not there."
        if words and (near := re.search(r"\s+".join(words), body)):
            odd = (unicodedata.name(letter, "line end").lower() for letter in near[0] if letter not in f"{old} ")
            blanks = ", ".join(dict.fromkeys(odd)) or "other blanks"
            message = f"{note.path}: {old!r:.200} is not there; {near[0]!r:.200} is, with {blanks}."
        raise InvalidInput(message, "Copy it from the text as it stands; nothing was changed.")
    if len(places) > 1 and not every:
        where = ", ".join(str(line_at(note.text, at)) for at in places[:20])
        raise InvalidInput(
            f"{note.path}: {old!r:.200} is there {len(places)} times, in lines {where}.",
            "Give more of the text around the one that is meant, or say that all are; nothing was changed.",
        )
    return _within(note, start, end, body.replace(old, new))


def _within(note: Note, start: int, end: int, new: str) -> str:
    """Return the text with `new` from `start` to `end`. Raises InvalidInput if the rest would be parsed differently."""
    text = note.text[:start] + new + note.text[end:]
    if not _keeps_rest(note, start, end, text):
        raise InvalidInput(
            f"{note.path}: with this text the sections around it would be read differently.",
            "Close every code fence and HTML comment in the text; nothing was changed.",
        )
    return text


def without(note: Note, chunk: Chunk) -> str:
    """Return `note`'s text without `chunk` and its heading; a blank line stays where the following text needs one."""
    for between in ("", newline(note.text), newline(note.text) * 2):
        text = note.text[: chunk.start] + between + note.text[chunk.end :]
        if _keeps_rest(note, chunk.start, chunk.end, text):
            return text
    raise InvalidInput(
        f"{note.path}: without this section the sections around it would be read differently.",
        "Edit the file by hand; nothing was changed.",
    )


def merged(base: str, ours: str, theirs: str) -> str | None:
    """Return the three-way merge of `base` and two changed texts by lines; None if both changed the same place."""
    was = lines(base)
    sides = [lines(text) for text in (ours, theirs)]
    changes = sorted({(i, j, tuple(side[k:m])) for side in sides for i, j, k, m in changed_spans(was, side)})
    # Changes that only touch are one place too: nobody knows which of two insertions comes first.
    if any(after[0] <= before[1] for before, after in pairwise(changes)):
        return None
    for start, end, new in reversed(changes):
        was[start:end] = new
    return "".join(was)


def _keeps_rest(note: Note, start: int, end: int, text: str) -> bool:
    """Say whether frontmatter, headings and the blocks after `end` read as before the change from `start` to `end`."""
    try:
        after = parse(note.path, note.encode(text))
    except UnicodeEncodeError:
        return False
    if after.body_at != note.body_at or not same(after.meta, note.meta):
        return False
    if any(version.blocks and version.blocks[-1].kind == REST for version in (note, after)):
        return True  # a very long text is read as one block
    shift = len(text) - len(note.text)
    before = [(at + shift * (at >= end), block) for at, block in _place_blocks(note) if at < start or at >= end]
    now = [(at, block) for at, block in _place_blocks(after) if at < start or at >= end + shift]
    headings = ([(at, b.level, b.text) for at, b in placed if b.kind == "heading"] for placed in (before, now))
    followers = {(block.kind, at) for at, block in before if end + shift <= at}
    return next(headings) == next(headings) and followers <= {(block.kind, at) for at, block in now}


def _place_blocks(note: Note) -> list[tuple[int, Block]]:
    """Return the note's blocks, each with the character at which its first line begins."""
    return [(note.offsets[block.start], block) for block in note.blocks]
