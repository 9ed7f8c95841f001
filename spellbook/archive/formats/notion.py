"""
Read an export of Notion: Markdown files whose names end in the page's id, in a zip, or in zips in a zip.

The id leaves the names and the links, and becomes the note's id, so that importing again finds the note whatever it is
called by then. Databases come as the CSV files that Notion makes of them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spellbook.notes.frontmatter import compose

_ID = re.compile(r"[ _-]([0-9a-f]{32})(?=(?:_all)?(?:\.[^./]*)?$)")
_LINKED_ID = re.compile(r"(?:%20|[ _-])[0-9a-f]{32}(?=[/.)#_>]|$)")
_LINK = re.compile(r"(\]\()(<[^<>\n]{1,2000}>|(?:[^()<>\s]|\([^()<>\s]{0,200}\)){1,2000})(\))")
_PROPERTY = re.compile(r"([^:\n]{1,60}): (.+)")
_MOST_PROPERTIES = 50
_ROOT = re.compile(r"Export-[0-9a-f-]{36}/")
"""The folder that some exports are in, of another name each time."""
_PART = re.compile(r"(?:.*/)?[^/]*-Part-\d+\.zip|(?:.*/)?[0-9a-f-]{36}[^/]*\.zip", re.I)


@dataclass(frozen=True, slots=True)
class NotionPage:
    """A page as a note: its stable id, the note's path, and its text."""

    id: str
    path: str
    text: str


def is_notion(names: Sequence[str]) -> bool:
    """Say whether files are an export of Notion: most of the pages have an id in their names."""
    pages = [name for name in names if name.lower().endswith(".md")]
    return bool(pages) and 2 * sum(bool(_ID.search(name)) for name in pages) > len(pages)


def is_part(name: str) -> bool:
    """Say whether a file in a zip is a zip that Notion divided its export into."""
    return bool(_PART.fullmatch(name))


def plain(path: str) -> str:
    """Return the path of a file without the ids in it, and without the folder of the export."""
    found = _ROOT.match(path)
    return "/".join(_ID.sub("", part).strip() or part for part in path[found.end() if found else 0 :].split("/"))


def page(path: str, text: str) -> NotionPage:
    """Return the page of a Markdown file as a note."""
    found = _ID.search(path.rpartition("/")[2])
    number = found[1] if found else ""
    text = _LINK.sub(lambda link: link[1] + _unlinked(link[2]) + link[3], text.removeprefix("\ufeff"))
    heading, _, rest = text.lstrip().partition("\n")
    title = heading[2:].strip() if heading.startswith("# ") else ""
    tags = next((value for name, value in _properties(rest) if name.strip().lower() in {"tags", "tag", "태그"}), "")
    meta = {
        "id": f"notion-{number}" if number else "",
        "title": title,
        "tags": [each.strip() for each in tags.split(",") if each.strip()],
    }
    kept = {key: value for key, value in meta.items() if value}
    return NotionPage(str(meta["id"]), plain(path), compose(kept, text.strip("\n")) if kept else text)


def _unlinked(target: str) -> str:
    """Return a link's target without ids; one of another place stays as it is."""
    return target if re.match(r"[a-z]+:", target, re.I) else _LINKED_ID.sub("", target)


def _properties(rest: str) -> list[tuple[str, str]]:
    """Return the properties that Notion writes below a page's title, up to the first empty line."""
    found = []
    for line in rest.lstrip("\n").split("\n", _MOST_PROPERTIES)[:_MOST_PROPERTIES]:
        match = _PROPERTY.fullmatch(line.rstrip("\r"))
        if match is None:
            break
        found.append((match[1], match[2]))
    return found
