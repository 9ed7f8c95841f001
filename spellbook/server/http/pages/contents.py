"""
The table of contents: a tree of folders, and tags; and the notes of a folder, a category, a topic or a tag.

The page shows the first levels. A deeper one is asked for when it is unfolded; without scripts, a folder's page has it.
"""

from __future__ import annotations

import glob
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.responses import Response

from spellbook.index.filters import Filter, fold
from spellbook.library.reader import Reader
from spellbook.search import toc
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View
from spellbook.settings.limits import MOST_LISTED
from spellbook.system.errors import MemoryNotFound

_MOST_AT_ONCE = 150
"""Rows of a tree whose second level comes with the page. By hand."""

_MOST_ROWS = 200
"""Rows of one branch; the filter finds the rest."""

_FEW = 3
"""Rows of a tree up to which the second level is unfolded."""

_TAGS = 40
_MOST_TAGS = 400
"""Tags that are listed, and those that are kept folded below or narrowed by the filter."""

ROOT = "/"
"""The name, in an address, of what is in no folder."""


@dataclass(frozen=True, slots=True)
class Row:
    """
    A folder or tag: the number of its notes, the page that lists them, and the `rows` in it.

    `part` is the address of its rows where they do not come with the page, "" else. `more` are rows that are left out.
    """

    name: str
    notes: int
    address: str
    rows: tuple[Row, ...] = ()
    part: str = ""
    more: int = 0


class Folders:
    """The folders of a vault, each with the number of notes in it and below."""

    def __init__(self, notes: Mapping[str, int]) -> None:
        self.notes = notes
        self._inside: dict[str, list[str]] = defaultdict(list)
        for path in sorted(filter(None, notes), key=fold):
            self._inside[path.rpartition("/")[0]].append(path)

    def rows(self, of: str = "", levels: int = 1) -> tuple[Row, ...]:
        """Return the folders in a folder, by name, with `levels` in all."""
        return tuple(self._row(path, levels - 1) for path in self._inside.get(of, [])[:_MOST_ROWS])

    def left_out(self, of: str = "") -> int:
        """Return how many of the folders in a folder `rows` leaves out."""
        return max(0, len(self._inside.get(of, ())) - _MOST_ROWS)

    def first(self) -> tuple[Row, ...]:
        """Return the first level, with the second unless that is long."""
        second = sum(len(inside) for path, inside in self._inside.items() if "/" not in path)
        return self.rows(levels=2 if second <= _MOST_AT_ONCE else 1)

    def _row(self, path: str, levels: int) -> Row:
        rows = self.rows(path, levels) if levels else ()
        part = _address(branch=path) if not levels and path in self._inside else ""
        name, place = path.rpartition("/")[2], view.folder_address(path)
        return Row(name, self.notes[path], place, rows, part, self.left_out(path))


def contents(shown: View) -> Response:
    """Show the folders and tags, or those whose name holds what is asked to `find`; or the notes of one row."""
    query = shown.query
    if name := query.get("topic", ""):
        return _topic(shown, name)
    if name := query.get("category", ""):
        return _category(shown, name)
    if tag := query.get("tag", ""):
        return _listing(shown, f"#{tag}", {"tags": tag}, {"tag": tag})
    if folder := query.get("folder", ""):
        return _folder(shown, folder)
    folders = Folders(shown.book.folders())
    if "branch" in query:
        name = query["branch"]
        return shown.page("branch.html", rows=folders.rows(name), more=folders.left_out(name))
    wanted = query.get("find", "").strip()
    rows, more = _found(folders, fold(wanted)) if wanted else (_with_root(shown, folders), folders.left_out())
    tags = [row for row in _tags(shown.book) if fold(wanted) in fold(row.name)]
    template = "trees.html" if shown.is_part else "contents.html"
    return shown.page(template, wanted=wanted, rows=rows, more=more, tags=tags, most_tags=_TAGS, few=_FEW)


def _with_root(shown: View, folders: Folders) -> tuple[Row, ...]:
    alone = folders.notes.get("", 0)
    return (*folders.first(), *([Row(shown.say("in no folder"), alone, view.folder_address(ROOT))] if alone else []))


def _found(folders: Folders, wanted: str) -> tuple[tuple[Row, ...], int]:
    """Return the folders whose path holds a text, the largest first, and how many are left out."""
    rows = [
        Row(path, count, view.folder_address(path))
        for path, count in folders.notes.items()
        if path and wanted in fold(path)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.notes, row.name))[:_MOST_ROWS]), len(rows[_MOST_ROWS:])


def _tags(book: Reader) -> list[Row]:
    return [Row(tag, notes, _address(tag=tag)) for tag, notes in book.tags(_MOST_TAGS)]


def _folder(shown: View, path: str) -> Response:
    """Show the notes of a folder and of those in it, and the folders in it. Raises MemoryNotFound."""
    if path == ROOT:
        # Nothing but what is in a folder has a slash in its path.
        return _listing(shown, shown.say("in no folder"), {"path!": "*/*"}, {"folder": ROOT})
    path = path.strip("/")
    folders = Folders(shown.book.folders())
    if path not in folders.notes:
        raise MemoryNotFound(f"There is no folder {path[:200]!r}.", "The table of contents lists them.")
    name, filter = path.rpartition("/")[2], {"path": f"{glob.escape(path)}/"}
    rows, more = folders.rows(path), folders.left_out(path)
    return _listing(shown, name, filter, {"folder": path}, view.folders_above(path), rows=rows, more=more)


def _category(shown: View, name: str) -> Response:
    """Show the notes of a category."""
    about = toc.descriptions(shown.book.index, shown.book.config.categories).get(fold(name), "")
    return _listing(shown, name, {"category": name}, {"category": name}, about=about)


def _topic(shown: View, name: str) -> Response:
    """Show the notes of a topic, by its name or by category/topic. Raises MemoryNotFound."""
    shown.book.refresh()
    counts = shown.book.index.catalog.topic_counts(shown.book.index.visible)
    if any(topic == name for _, topic, _ in counts):
        return _listing(shown, name, {"topic": name}, {"topic": name})
    named = [(category, topic) for category, topic, _ in counts if category and name == f"{category}/{topic}"]
    if not named:
        shown.book.topic(name)  # raises, and names topics that are like it
    category, topic = named[0]
    crumbs = [(category, _address(category=category))]
    filter = {"category": category, "topic": topic}
    return _listing(shown, topic, filter, {"topic": name}, crumbs)


def _listing(
    shown: View,
    name: str,
    filter: Filter,
    address: Mapping[str, str],
    crumbs: Sequence[tuple[str, str]] = (),
    *,
    rows: Sequence[Row] = (),
    more: int = 0,
    about: str = "",
) -> Response:
    """Show notes, newest first, a page at a time, below the `rows` of the folders in this one."""
    offset = shown.number("offset", 0)
    found = shown.book.recent(MOST_LISTED, offset, filter)
    return shown.page(
        "listing.html",
        name=name,
        crumbs=crumbs,
        rows=rows,
        more=more,
        notes=found.notes,
        total=found.total,
        offset=offset,
        page=MOST_LISTED,
        address=f"{_address(**address)}&",
        folder=address.get("folder", ""),
        about=about,
    )


def _address(**query: str) -> str:
    return f"/contents?{urlencode(query)}"


ROUTES = [view.page("/contents", contents)]
