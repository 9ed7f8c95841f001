"""
The table of contents: a tree of folders, categories with their topics, and tags; and the notes of one of each.

The page shows the first levels. A deeper one is asked for when it is unfolded; without scripts, a folder's page has it.
"""

from __future__ import annotations

import glob
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from spellbook.index.filters import NO_GUIDES, Filter, fold
from spellbook.library.reader import Reader
from spellbook.search import toc
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View
from spellbook.settings.limits import MOST_LISTED
from spellbook.system.errors import Conflict, MemoryNotFound
from spellbook.text.quoting import counted

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
    A folder, category, topic or tag: the number of its notes, the page that lists them, and the `rows` in it.

    `part` is the address of its rows where they do not come with the page, "" else. `more` are rows that are left out.
    """

    name: str
    notes: int
    address: str
    rows: tuple[Row, ...] = ()
    part: str = ""
    more: int = 0


@dataclass(frozen=True, slots=True)
class Outline:
    """Rows under a heading; `more` are those that are left out."""

    name: str
    rows: tuple[Row, ...]
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

    def count(self, of: str = "") -> int:
        """Return how many folders are in a folder, without those in them."""
        return len(self._inside.get(of, ()))

    def first(self) -> tuple[Row, ...]:
        """Return the first level, with the second unless that is long."""
        second = sum(len(inside) for path, inside in self._inside.items() if "/" not in path)
        return self.rows(levels=2 if second <= _MOST_AT_ONCE else 1)

    def _row(self, path: str, levels: int) -> Row:
        rows = self.rows(path, levels) if levels else ()
        part = _address(branch=path) if not levels and path in self._inside else ""
        more = self.count(path) - len(rows) if rows else 0
        return Row(path.rpartition("/")[2], self.notes[path], view.folder_address(path), rows, part, more)


def contents(shown: View) -> Response:
    """Show the trees, or those of their rows whose name holds what is asked to `find`; or the notes of one row."""
    query = shown.query
    if name := query.get("topic", ""):
        return _topic(shown, name)
    if "category" in query:
        return _category(shown, query["category"])
    if tag := query.get("tag", ""):
        return _listing(shown, f"#{tag}", {"tags": tag}, {"tag": tag})
    if folder := query.get("folder", ""):
        return _folder(shown, folder)
    if "branch" in query:
        return _branch(shown, query["branch"])
    wanted = query.get("find", "").strip()
    folders, topics = Folders(shown.book.folders()), _topics(shown.book)
    values = _found(shown, folders, topics, fold(wanted)) if wanted else _all(shown, folders, topics)
    tags = [row for row in _tags(shown.book) if fold(wanted) in fold(row.name)]
    template = "trees.html" if shown.is_part else "contents.html"
    return shown.page(template, wanted=wanted, tags=tags, most_tags=_TAGS, few=_FEW, **values)


def _all(shown: View, folders: Folders, topics: Mapping[str, Counter[str]]) -> dict[str, Any]:
    """Return the trees: categories first if most notes have one."""
    named = {name: held for name, held in topics.items() if name}
    total = sum(held.total() for held in topics.values())
    is_filed = 2 * sum(held.total() for held in named.values()) >= total
    at_once = sum(map(len, named.values())) <= _MOST_AT_ONCE
    filed = topics if is_filed else named  # topics of an ordinary vault are its folders once more
    rows = tuple(_category_row(shown, name, held, at_once=at_once) for name, held in filed.items())
    trees = [Outline(shown.say("Folders"), _with_root(shown, folders), max(0, folders.count() - _MOST_ROWS))]
    if named:
        trees.insert(0 if is_filed else 1, Outline(shown.say("Categories"), rows[:_MOST_ROWS], len(rows[_MOST_ROWS:])))
    return {"trees": trees, "total": total}


def _with_root(shown: View, folders: Folders) -> tuple[Row, ...]:
    alone = folders.notes.get("", 0)
    return (*folders.first(), *([Row(shown.say("in no folder"), alone, view.folder_address(ROOT))] if alone else []))


def _found(shown: View, folders: Folders, topics: Mapping[str, Counter[str]], wanted: str) -> dict[str, Any]:
    """Return the folders, categories and topics whose name holds a text, the largest first."""
    places = [
        Row(path, count, view.folder_address(path))
        for path, count in folders.notes.items()
        if path and wanted in fold(path)
    ]
    filed = [
        Row(f"{category}/{topic}" if topic else category, count, _address(**where))
        for category, held in topics.items()
        if category
        for topic, count, where in (
            ("", held.total(), {"category": category}),
            *((each, notes, {"topic": f"{category}/{each}"}) for each, notes in held.items() if each),
        )
        if wanted in fold(topic or category)
    ]
    trees = [
        Outline(name, tuple(sorted(rows, key=lambda row: (-row.notes, row.name))[:_MOST_ROWS]), len(rows[_MOST_ROWS:]))
        for name, rows in ((shown.say("Categories"), filed), (shown.say("Folders"), places))
        if rows
    ]
    return {"trees": trees, "total": 0}


def _topics(book: Reader) -> dict[str, Counter[str]]:
    """Return the topics of each category with their numbers of notes, the largest category first."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for category, topic, notes in book.index.catalog.topic_counts((NO_GUIDES, *book.index.visible)):
        held[category][topic] = notes
    return dict(sorted(held.items(), key=lambda each: (not each[0], -each[1].total(), each[0])))


def _category_row(shown: View, name: str, held: Counter[str], *, at_once: bool) -> Row:
    rows = _topic_rows(shown, name, held) if at_once else ()
    part = "" if at_once else _address(branch=f"{ROOT}{name}")
    more = len(held) - len(rows) if rows else 0
    return Row(name or shown.say("without category"), held.total(), _address(category=name), rows, part, more)


def _topic_rows(shown: View, category: str, held: Counter[str]) -> tuple[Row, ...]:
    return tuple(
        Row(topic or shown.say("without topic"), notes, _address(topic=f"{category}/{topic}" if category else topic))
        for topic, notes in held.most_common(_MOST_ROWS)
    )


def _tags(book: Reader) -> list[Row]:
    return [Row(tag, notes, _address(tag=tag)) for tag, notes in book.tags(_MOST_TAGS)]


def _branch(shown: View, name: str) -> Response:
    """Show the rows of a folder, or with a slash before it of a category: a part of the page."""
    if name.startswith(ROOT):
        held = _topics(shown.book).get(name[1:], Counter())
        rows, total = _topic_rows(shown, name[1:], held), len(held)
    else:
        folders = Folders(shown.book.folders())
        rows, total = folders.rows(name), folders.count(name)
    return shown.page("branch.html", rows=rows, more=total - len(rows))


def _folder(shown: View, path: str) -> Response:
    """Show the notes of a folder and of those in it, and the folders in it. Raises MemoryNotFound."""
    if path == ROOT:
        # Nothing but what is in a folder has a slash in its path.
        return _listing(shown, shown.say("in no folder"), {"path!": "*/*"}, {"folder": ROOT})
    path = path.strip("/")
    folders = Folders(shown.book.folders())
    if path not in folders.notes:
        raise MemoryNotFound(f"There is no folder {path[:200]!r}.", "The table of contents lists them.")
    tree = Outline("", folders.rows(path), max(0, folders.count(path) - _MOST_ROWS))
    name = path.rpartition("/")[2]
    return _listing(shown, name, {"path": f"{glob.escape(path)}/"}, {"folder": path}, view.folders_above(path), tree)


def _category(shown: View, name: str) -> Response:
    """Show the topics and the notes of a category."""
    held = _topics(shown.book).get(name, Counter())
    rows = _topic_rows(shown, name, held)
    tree = Outline(shown.say("Topics"), rows, len(held) - len(rows))
    filter = {"category": name} if name else None  # no filter says that a note has no category
    about = toc.descriptions(shown.book.index, shown.book.config.categories).get(fold(name), "")
    return _listing(shown, name or shown.say("without category"), filter, {"category": name}, tree=tree, about=about)


def _topic(shown: View, name: str) -> Response:
    """Show the notes of a topic, by its name or by category/topic. Raises MemoryNotFound."""
    shown.book.refresh()
    counts = shown.book.index.catalog.topic_counts(shown.book.index.visible)
    if any(topic == name for _, topic, _ in counts):
        return _listing(shown, name, {"topic": name}, {"topic": name}, erasable=name)
    named = [(category, topic) for category, topic, _ in counts if category and name == f"{category}/{topic}"]
    if not named:
        shown.book.topic(name)  # raises, and names topics that are like it
    category, topic = named[0]
    crumbs = [(category, _address(category=category))]
    filter = {"category": category, "topic": topic}
    return _listing(shown, topic, filter, {"topic": name}, crumbs, erasable=name)


def _listing(
    shown: View,
    name: str,
    filter: Filter | None,
    address: Mapping[str, str],
    crumbs: Sequence[tuple[str, str]] = (),
    tree: Outline | None = None,
    about: str = "",
    erasable: str = "",
) -> Response:
    """Show notes, newest first, a page at a time; none without a filter."""
    offset = shown.number("offset", 0)
    found = shown.book.recent(MOST_LISTED, offset, filter) if filter else None
    return shown.page(
        "listing.html",
        name=name,
        crumbs=crumbs,
        tree=tree,
        notes=found.notes if found else (),
        total=found.total if found else 0,
        offset=offset,
        page=MOST_LISTED,
        address=f"{_address(**address)}&",
        folder=address.get("folder", ""),
        about=about,
        erasable=erasable,
    )


def _address(**query: str) -> str:
    return f"/contents?{urlencode(query)}"


def erase(shown: View) -> Response:
    """Ask whether to erase the notes of a topic, which are listed, then move them to the trash."""
    name = shown.form.get("topic", "")
    chunks = shown.book.topic(name)
    notes = list({chunk.note: chunk for chunk in chunks}.values())
    if shown.form.get("sure") != "yes":
        return shown.page("erase.html", chunk=None, id="", linked=(), notes=notes, topic=name)
    if shown.form.get("count") != str(len(notes)):
        raise Conflict(
            f"The topic has {counted(len(notes), 'note')} now.", "Look at the list again; nothing was erased."
        )
    shown.book.whole.erase_topic(name)
    return shown.back(shown.entry("erase"), "/activity")


ROUTES = [view.page("/contents", contents), view.action("/do/erase-topic", erase)]
