"""The pictures that a note shows: only those that it embeds, and only from the vault's own folder."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from spellbook.notes import links
from spellbook.notes import note as notes
from spellbook.system import disk
from spellbook.system.errors import (
    MemoryNotFound,
    UnreadableNote,
)
from spellbook.system.lazy import regex
from spellbook.vault.folder import Folder, digest

MOST_PICTURE = 20_000_000
"""The largest picture that is shown. By hand: a photograph of a telephone has 3 to 12 MB."""

_PICTURE_HEADS = (
    (regex(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (regex(rb"\xff\xd8\xff"), "image/jpeg"),
    (regex(rb"GIF8[79]a"), "image/gif"),
    (regex(rb"RIFF.{4}WEBP", re.S), "image/webp"),
)
"""The pictures that are shown, by their first bytes. An SVG is none: it can hold scripts."""


class Picture(NamedTuple):
    """A picture's bytes, its media type by these, and a hash of them."""

    data: bytes
    media_type: str
    hash: str


def media_type(data: bytes) -> str:
    """Return the media type of a picture by its first bytes, "" if they are none of a picture that is shown."""
    return next((kind for head, kind in _PICTURE_HEADS if head.match(data)), "")


def embedded_pictures(vault: Folder, note: str) -> dict[str, str]:
    """Return targets of the pictures in a note, each with its path or "". Raises MemoryNotFound, UnreadableNote."""
    pictures = links.pictures(notes.parse(note, vault.read(note)[0]))
    if not pictures:
        return {}
    files = vault.lies_in.pictures()
    reached = ((link.target, files.follow(note, link.target, link.is_markdown)) for link in pictures)
    return {target: place.path if place else "" for target, place in reached}


def read_picture(vault: Folder, note: str, path: str) -> Picture:
    """
    Return the picture at `path`, which the note at the path `note` embeds.

    It lies in the vault by itself: no link leads to it, no folder above it is hidden or ignored. Its first bytes decide
    its type. Raises MemoryNotFound if the note embeds no such file, UnreadableNote for another type or a large file.
    """
    if not path or path not in embedded_pictures(vault, note).values():
        raise MemoryNotFound("This note shows no such picture.", "Open the note again.")
    place = vault.lies_in.locate(path)
    if os.path.realpath(place) != str(place):
        raise MemoryNotFound(f"{path}: a link leads to this picture.", "Put the file itself in its place.")
    try:
        data = disk.read_small(place, MOST_PICTURE)
    except OSError as error:
        raise UnreadableNote(f"{path}: the picture cannot be read ({error.strerror}).", "Look at the file.") from error
    if not (kind := media_type(data)):
        raise UnreadableNote(f"{path}: this is not a PNG, JPEG, GIF or WebP.", "Save the picture as one of these.")
    return Picture(data, kind, digest(data)[:16])
