"""
Read notes that are HTML files, or plain text: what exporters of Apple Notes and its Shortcuts leave in a folder.

Each becomes a Markdown note at its path, with the files that lie beside it; images within the HTML become files. Text
files are taken word for word.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import unquote, unquote_to_bytes

from spellbook.archive.formats import rich_text
from spellbook.archive.formats.conversations import cleaned, moment
from spellbook.archive.formats.incoming import Incoming, note_text, stable_id, whole
from spellbook.archive.formats.memories import tags_of
from spellbook.archive.formats.rich_text import AttachedFile, HtmlReferences
from spellbook.archive.pages.html import decoded
from spellbook.archive.pages.safe import line
from spellbook.notes.links import destination
from spellbook.settings.limits import MOST_PAGE

_HTML, _TEXT = (".html", ".htm"), (".txt",)
_MOST_TITLE = 300
_DATA = re.compile(r"data:image/(png|jpe?g|gif|webp|bmp|heic|tiff?)((?:;[^,;]{1,60}){0,3}),", re.I)
_CREATED = ("created", "creation-date", "creationdate", "dcterms.created", "date")
_UPDATED = ("modified", "updated", "modification-date", "last-modified", "dcterms.modified")
_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".svg", ".heic", ".avif")


def endings(names: Collection[str]) -> tuple[str, ...]:
    """Return the endings of what are notes among files: HTML, else text; none where there is Markdown."""
    lowered = [name.lower() for name in names]
    if any(name.endswith(".md") for name in lowered):
        return ()
    return next((each for each in (_HTML, _TEXT) if any(name.endswith(each) for name in lowered)), ())


def notes(files: Iterator[Incoming], names: Collection[str]) -> Iterator[Incoming]:
    """Yield files, those that are notes as Markdown, and the images that are within these."""
    kinds, known = endings(names), set(names)
    for each in files:
        if not kinds or not each.path.lower().endswith(kinds):
            yield each
            continue
        text = decoded(whole(each.pieces, MOST_PAGE, each.path[:200]))
        if kinds == _TEXT:
            yield _made(each, {}, cleaned(text).strip("\n"), _name(each.path))
        else:
            yield from _converted(each, text, known)


def _name(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _place(path: str) -> str:
    return f"{posixpath.splitext(path)[0]}.md"


def _converted(each: Incoming, text: str, known: Collection[str]) -> Iterator[Incoming]:
    place, here = _place(each.path), posixpath.dirname(each.path)
    within: dict[str, bytes] = {}

    def beside(address: str) -> str:
        """Return the path of a file of the export that an address leads to, "" if it leads elsewhere."""
        path = posixpath.normpath(posixpath.join(here, unquote(address.split("#")[0].split("?")[0])))
        return path if not re.match(r"[a-z][a-z0-9+.-]+:", address, re.I) and path in known else ""

    def spelled(path: str) -> str:
        there = _place(path) if path.lower().endswith(_HTML) else path
        return destination(posixpath.relpath(there, here or "."))

    def follow(address: str, _: str) -> str:
        path = beside(address)
        return spelled(path) if path else ""

    def shown(given: Mapping[str, str]) -> AttachedFile | None:
        source = given.get("src", "").strip()
        if path := beside(source):
            return AttachedFile(posixpath.basename(path), spelled(path), path.lower().endswith(_IMAGE_ENDINGS))
        if (found := _DATA.match(source)) and (data := _image(source[found.end() :], found[2])):
            kind = found[1].lower().replace("jpeg", "jpg")
            path = (
                f"{place.removesuffix('.md')}/image-{hashlib.md5(data, usedforsecurity=False).hexdigest()[:8]}.{kind}"
            )
            within[path] = data
            return AttachedFile(posixpath.basename(path), spelled(path), True)
        return None

    made = rich_text.convert(text, HtmlReferences(follow, shown), name=_name(each.path))
    for path, data in within.items():
        yield Incoming(path, iter([data]))
    yield _made(each, made.meta, made.markdown, made.title)


def _image(text: str, about: str) -> bytes:
    if "base64" not in about.lower():
        return unquote_to_bytes(text)
    try:
        return base64.b64decode("".join(unquote(text).split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _made(each: Incoming, about: Mapping[str, str], text: str, title: str) -> Incoming:
    created, updated = (
        next((found for name in names if (found := moment(about.get(name)))), None) for names in (_CREATED, _UPDATED)
    )
    id = stable_id("page", each.path)
    meta: dict[str, object] = {
        "id": id,
        "title": line(title, _MOST_TITLE),
        "tags": tags_of(about.get("keywords", "")),
        "author": line(about.get("author", ""), _MOST_TITLE),
        "created": created,
        "updated": updated,
    }
    body = note_text(meta, text)
    mtime_ns = int(updated.timestamp()) * 1_000_000_000 if updated else each.mtime_ns
    return Incoming(_place(each.path), iter([body.encode("utf-8", "replace")]), None, mtime_ns, id)
