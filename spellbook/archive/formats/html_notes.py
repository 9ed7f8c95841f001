"""
Read notes that are HTML files, or plain text: what exporters of Apple Notes and its Shortcuts leave in a folder.

Each becomes a Markdown note at its path, with the files that lie beside it; images within the HTML become files. Text
files are taken word for word.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import unquote, unquote_to_bytes

from spellbook.archive.formats import rich_text
from spellbook.archive.formats.conversations import cleaned, moment
from spellbook.archive.formats.incoming import Incoming, make_note, read_all, stable_id
from spellbook.archive.formats.memories import tags_of
from spellbook.archive.formats.rich_text import AttachedFile, HtmlReferences
from spellbook.archive.pages.html import decoded
from spellbook.archive.pages.safe import line
from spellbook.notes.links import destination
from spellbook.settings.limits import MOST_PAGE

_HTML = (".html", ".htm")
_TEXT = (".txt",)
_DATA = re.compile(r"data:image/(png|jpe?g|gif|webp|bmp|heic|tiff?)((?:;[^,;]{1,60}){0,3}),", re.I)
_CREATED = ("created", "creation-date", "creationdate", "dcterms.created", "date")
_UPDATED = ("modified", "updated", "modification-date", "last-modified", "dcterms.modified")
_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".svg", ".heic", ".avif")


def endings(names: Collection[str]) -> tuple[str, ...]:
    """Return the endings of the notes among files: those of HTML, else of text; none where there is Markdown."""
    lowered = [name.lower() for name in names]
    if any(name.endswith(".md") for name in lowered):
        return ()
    return next((kind for kind in (_HTML, _TEXT) if any(name.endswith(kind) for name in lowered)), ())


def notes(files: Iterator[Incoming], names: Collection[str]) -> Iterator[Incoming]:
    """Yield files, those that are notes as Markdown, and the images that are within these."""
    kinds, known = endings(names), set(names)
    for file in files:
        if not kinds or not file.path.lower().endswith(kinds):
            yield file
            continue
        text = decoded(read_all(file.pieces, MOST_PAGE, file.path[:200]))
        if kinds == _TEXT:
            yield _note_of(file, {}, cleaned(text).strip("\n"), _name(file.path))
        else:
            yield from _convert(file, text, known)


def _name(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _place(path: str) -> str:
    return f"{posixpath.splitext(path)[0]}.md"


def _convert(file: Incoming, text: str, known: Collection[str]) -> Iterator[Incoming]:
    place, here = _place(file.path), posixpath.dirname(file.path)
    within: dict[str, bytes] = {}

    def beside(address: str) -> str:
        """Return the path of a file of the export that an address leads to, "" if it leads elsewhere."""
        path = posixpath.normpath(posixpath.join(here, unquote(address.split("#")[0].split("?")[0])))
        return path if not re.match(r"[a-z][a-z0-9+.-]+:", address, re.I) and path in known else ""

    def link_to(path: str) -> str:
        there = _place(path) if path.lower().endswith(_HTML) else path
        return destination(posixpath.relpath(there, here or "."))

    def follow(address: str, _: str) -> str:
        path = beside(address)
        return link_to(path) if path else ""

    def file_of(attributes: Mapping[str, str]) -> AttachedFile | None:
        source = attributes.get("src", "").strip()
        if path := beside(source):
            return AttachedFile(posixpath.basename(path), link_to(path), path.lower().endswith(_IMAGE_ENDINGS))
        if (head := _DATA.match(source)) and (data := _image(source[head.end() :], head[2])):
            kind = head[1].lower().replace("jpeg", "jpg")
            md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
            path = f"{place.removesuffix('.md')}/image-{md5[:8]}.{kind}"
            within[path] = data
            return AttachedFile(posixpath.basename(path), link_to(path), True)
        return None

    page = rich_text.convert(text, HtmlReferences(follow, file_of), name=_name(file.path))
    for path, data in within.items():
        yield Incoming(path, iter([data]))
    yield _note_of(file, page.meta, page.markdown, page.title)


def _image(text: str, about: str) -> bytes:
    if "base64" not in about.lower():
        return unquote_to_bytes(text)
    try:
        return base64.b64decode("".join(unquote(text).split()), validate=True)
    except ValueError:
        return b""


def _note_of(file: Incoming, about: Mapping[str, str], text: str, title: str) -> Incoming:
    meta: dict[str, object] = {
        "id": stable_id("page", file.path),
        "title": line(title),
        "tags": tags_of(about.get("keywords", "")),
        "author": line(about.get("author", "")),
        "created": next(filter(None, (moment(about.get(name)) for name in _CREATED)), None),
        "updated": next(filter(None, (moment(about.get(name)) for name in _UPDATED)), None),
    }
    return make_note(_place(file.path), meta, text, file.mtime_ns)
