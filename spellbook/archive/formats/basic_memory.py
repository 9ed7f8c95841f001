"""
Recognise notes of basic-memory, which are Markdown already, and give each its permalink as id.

So `memory://` addresses and links by title or permalink still lead to the note, and another import finds it wherever it
is by then. All other bytes stay. Pure.
"""

from __future__ import annotations

import posixpath
import re

from spellbook.notes.frontmatter import FRONTMATTER, BadHeader, dump, load

_PERMALINK = re.compile(r"[^\s:/?#\[\]][^\s:?#\[\]]{0,250}(?<!/)")


def with_id(path: str, head: bytes) -> tuple[str, bytes]:
    """
    Return the permalink of a note of basic-memory, and its first bytes with that as `id`; "" and `head` for any other.

    Such a note has a title, a type and a permalink; a page of a web site also has a layout. A title or a permalink
    that differs from the file's name becomes an alias, unless the note has aliases.
    """
    text = head.decode("utf-8", "ignore")
    header = FRONTMATTER.match(text) if b"permalink:" in head else None
    if not header:
        return "", head
    try:
        meta = load(header[0])[0]
    except BadHeader:
        return "", head
    title, permalink = meta.get("title"), meta.get("permalink")
    is_one = isinstance(title, str) and isinstance(permalink, str) and isinstance(meta.get("type"), str)
    if not is_one or meta.keys() & {"id", "layout"} or not _PERMALINK.fullmatch(str(permalink)):
        return "", head
    stem = path.removesuffix(".md")
    names = [str(title)] if str(title).casefold() != posixpath.basename(stem).casefold() else []
    names += [str(permalink)] if str(permalink).casefold() != stem.casefold() else []
    at = head.index(b"\n") + 1
    end = "\r\n" if head[:at].endswith(b"\r\n") else "\n"
    more = f"id: {dump(permalink)}{end}" + (f"aliases: {dump(names)}{end}" if names and "aliases" not in meta else "")
    return str(permalink), head[:at] + more.encode() + head[at:]
