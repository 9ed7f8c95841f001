"""Pictures that a note embeds, and the kind of a picture by its bytes. Pure. An SVG is none: it can hold scripts."""

from __future__ import annotations

import re

from spellbook.notes import links
from spellbook.notes.links import Link
from spellbook.notes.note import Note

SUFFIXES = frozenset({"png", "jpg", "jpeg", "gif", "webp"})

OTHER_SUFFIXES = frozenset({"svg", "bmp", "avif", "heic", "heif", "tif", "tiff", "ico"})
"""Endings of pictures that are not shown."""

_MOST_LABEL = 2_000
"""Letters before a target that are searched for the `![` of its label. By hand: a label is a line."""

_HEADS = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.S), "image/webp"),
)
_OPENED = re.compile(r"\]\(\s*<?$")


def media_type(data: bytes) -> str:
    """Return the media type of a picture by its first bytes, "" if they are none of a picture that is shown."""
    return next((kind for head, kind in _HEADS if head.match(data)), "")


def suffix(target: str) -> str:
    """Return the ending of a target's name, in small letters and without its dot."""
    return target.rpartition("/")[2].rpartition(".")[2].lower()


def embedded(note: Note) -> list[Link]:
    """Return the links of a note that embed a picture, `![[a.png]]` and `![](a.png)`, in order."""
    if "![" not in note.text:
        return []
    return [link for link in links.find(note) if suffix(link.target) in SUFFIXES and _is_embedded(note.text, link)]


def _is_embedded(text: str, link: Link) -> bool:
    """Return whether a `!` stands before the brackets of a link."""
    before = text[max(0, link.start - _MOST_LABEL) : link.start]
    if link.style == "wiki":
        return before.rstrip().endswith("![[") and not before.rstrip().endswith("\\![[")
    opened = _OPENED.search(before)
    at, depth = (opened.start(), 1) if opened else (0, 0)
    while depth and at:
        at -= 1
        if before[at] in "[]" and before[at - 1 : at] != "\\":
            depth += 1 if before[at] == "]" else -1
    return bool(opened) and not depth and before[:at].endswith("!") and not before[:at].endswith("\\!")
