"""
The table of contents: a tree of folders, and tags, loaded by levels; the notes of a folder, topic or tag; and the page
that searches: a hit a note, ten at a time, with the found words marked and the reasons in words.
"""

from __future__ import annotations

import datetime as dt
import glob
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from spellbook.http.api import notes
from spellbook.http.pages import excerpts, view
from spellbook.index.filters import Filter, fold
from spellbook.search import packing, presentation, toc
from spellbook.search.scores import FOREIGN, Hit
from spellbook.settings.limits import MOST_HITS, MOST_LISTED
from spellbook.system.errors import MemoryNotFound
from spellbook.text import terms

_MOST_AT_ONCE = 150
"""Rows of a tree whose second level comes with the page. By hand."""

_MOST_ROWS = 200
"""Rows of one branch; the filter finds the rest."""

_FEW = 3
"""Rows of a tree up to which the second level is unfolded."""

_TAGS = 40
_MOST_TAGS = 400
"""Tags that are listed, and tags that are folded below or narrowed by the filter."""

_LABELS = {"topic": "topic", "category": "category", "tag": "tags"}
"""Keys by which a page lists notes: their names in the address, and in a filter."""

ROOT = "/"
"""The name, in an address, of files in no folder."""

MODES = {"search": "Meaning and words", "memorize": "Meaning", "find": "Words"}
DAYS = {"7": "the last week", "30": "the last month", "365": "the last year"}
_MOST_CATEGORIES = 40
_HITS = 10
_BRIEF = 8
"""Hits in the dialog that every page has."""
_TEXTS = 50_000
"""Tokens of the hits' texts: all of each, so that none is packed before an excerpt is made of it."""
_MOST_SECTIONS = 20
"""Further sections of a note that are listed."""


@dataclass(frozen=True, slots=True)
class Row:
    """
    A folder or tag: the number of its notes, its page, and the `rows` in it; `more` are left out.

    It `is_folded` where its rows do not come with this page, but with its own.
    """

    name: str
    notes: int
    address: str
    rows: tuple[Row, ...] = ()
    is_folded: bool = False
    more: int = 0


class Folders:
    """The folders of a vault, each with the number of notes in it and below."""

    def __init__(self, notes: Mapping[str, int]) -> None:
        self.notes = notes
        self._inside: dict[str, list[str]] = defaultdict(list)
        for path in sorted(filter(None, notes), key=fold):
            self._inside[path.rpartition("/")[0]].append(path)

    def row(self, path: str = "", levels: int = 1) -> Row:
        """Return a folder, "" for the vault, with the folders in it by name, `levels` in all."""
        inside = self._inside.get(path, [])
        rows = tuple(self.row(each, levels - 1) for each in inside[:_MOST_ROWS]) if levels else ()
        name = path.rpartition("/")[2]
        notes = self.notes.get(path, 0)
        more = max(0, len(inside) - _MOST_ROWS)
        return Row(name, notes, view.folder_address(path), rows, not levels and bool(inside), more)

    def first(self) -> Row:
        """Return the vault with the first level of folders, and with the second unless that is long."""
        second = sum(len(inside) for path, inside in self._inside.items() if "/" not in path)
        return self.row(levels=2 if second <= _MOST_AT_ONCE else 1)


def contents(shown: view.View) -> Response:
    """Show the folders and tags, or those whose name holds what is asked to `find`; or the notes of one row."""
    query = shown.query
    for key, by in _LABELS.items():
        if name := query.get(key, ""):
            described = toc.descriptions(shown.book.index, shown.book.config.categories) if key == "category" else {}
            shown_as = f"#{name}" if key == "tag" else shown.named(by, name)
            address = _address(**{key: name})
            return _listing(shown, shown_as, {by: name}, address, about=described.get(fold(name), ""))
    if folder := query.get("folder", ""):
        return _folder(shown, folder)
    folders = Folders(shown.book.folders())
    wanted = query.get("find", "").strip()
    if wanted:  # the largest first
        named = [(-count, path) for path, count in folders.notes.items() if path and fold(wanted) in fold(path)]
        rows = [Row(path, -count, view.folder_address(path)) for count, path in sorted(named)[:_MOST_ROWS]]
        more = len(named) - len(rows)
    else:
        alone = folders.notes.get("", 0)
        first = folders.first()
        rows = [*first.rows]
        more = first.more
        rows += [Row(shown.say("in no folder"), alone, view.folder_address(ROOT))] if alone else []
    tags = [
        Row(tag, number, _address(tag=tag)) for tag, number in shown.book.tags(_MOST_TAGS) if fold(wanted) in fold(tag)
    ]
    return shown.page("contents.html", wanted=wanted, rows=rows, more=more, tags=tags, most_tags=_TAGS, few=_FEW)


def _folder(shown: view.View, path: str) -> Response:
    """Show the notes of a folder and of those in it, and the folders in it. Raises MemoryNotFound."""
    if path == ROOT:
        # Nothing but what is in a folder has a slash in its path.
        return _listing(shown, shown.say("in no folder"), {"path!": "*/*"}, view.folder_address(ROOT), folder=ROOT)
    path = path.strip("/")
    folders = Folders(shown.book.folders())
    if path not in folders.notes:
        raise MemoryNotFound(f"There is no folder {path[:200]!r}.", "The table of contents lists them.")
    row = folders.row(path)
    above = view.folders_above(path)
    of_folder = {"path": f"{glob.escape(path)}/"}
    return _listing(shown, row.name, of_folder, row.address, folder=path, crumbs=above, rows=row.rows, more=row.more)


def _listing(shown: view.View, name: str, filter: Filter, address: str, **more: Any) -> Response:
    """Show notes, newest first, a page at a time; `more` may have the folders above, and the rows in this one."""
    offset = shown.number("offset", 0)
    found = shown.book.recent(MOST_LISTED, offset, filter)
    values: dict[str, Any] = {
        "name": name,
        "address": f"{address}&",
        "crumbs": (),
        "rows": (),
        "more": 0,
        "about": "",
        "folder": "",
        "notes": found.notes,
        "total": found.total,
        "offset": offset,
        "page": MOST_LISTED,
    }
    return shown.page("listing.html", **{**values, **more})


def _address(**query: str) -> str:
    return f"/contents?{urlencode(query)}"


def search(shown: view.View) -> Response:
    """Ask, narrow, and see why something was found, or was not."""
    wanted = {
        key: shown.query.get(key, "").strip() for key in ("q", "mode", "category", "days", "tag", "as_of", "missing")
    }
    wanted["mode"] = wanted["mode"] if wanted["mode"] in MODES else "search"
    is_brief = "hx-request" in shown.request.headers and "brief" in shown.query
    offset = min(shown.number("offset", 0), MOST_HITS - _HITS)
    values: dict[str, Any] = {
        "wanted": wanted,
        "modes": MODES,
        "days": DAYS,
        "offset": offset,
        "answer": None,
        "missing": None,
    }
    if wanted["q"]:
        values |= _found(shown, wanted, offset, is_brief)
    if is_brief:
        return shown.page("brief.html", **values)
    counts = Counter[str]()
    shown.book.refresh()
    for category, _, number in shown.book.index.catalog.topic_counts(shown.book.index.visible):
        counts[category] += number
    values["categories"] = [name for name, _ in counts.most_common(_MOST_CATEGORIES) if name]
    return shown.page("search.html", **values)


def _found(shown: view.View, wanted: Mapping[str, str], offset: int, is_brief: bool) -> dict[str, Any]:
    """Return what a template needs of the hits from `offset` on; and why one note, if it is `missing`, is none."""
    question = wanted["q"]
    options: dict[str, Any] = {"query": question, "mode": wanted["mode"], "as_of": wanted["as_of"]}
    options["limit"] = _BRIEF if is_brief else offset + _HITS
    filter = {key: wanted[of] for key, of in (("category", "category"), ("tags", "tag")) if wanted[of]}
    if wanted["days"] in DAYS:
        filter["when"] = f"{dt.date.today() - dt.timedelta(days=int(wanted['days']))}.."
    options |= {"filter": filter} if filter else {}
    answer = notes.answer(shown.book, **options, per_note=1, max_tokens=_TEXTS)
    found = answer.hits or answer.closest
    words = excerpts.found_words(question, [text for hit in found for row in hit.why["words"] for text in row])
    weigh = packing.by_words({word: 1.0 for word in terms.terms(question) if word not in terms.STOP_WORDS})
    more = f"/search?{urlencode({**wanted, 'missing': '', 'offset': offset + _HITS})}"
    is_more = answer.found > offset + _HITS <= MOST_HITS - _HITS
    return {
        "answer": answer,
        "listed": [explained(hit, question) for hit in found[offset:]],
        "more": more if is_more and not is_brief else "",
        "most_sections": _MOST_SECTIONS,
        "excerpt": lambda hit: excerpts.excerpt(hit.text, words, weigh, hit.heading, hit.title),
        "marked": lambda text: excerpts.marked(text, words),
        "present": presentation,
        "missing": shown.ask(notes.why, id=wanted["missing"], **options) if wanted["missing"] else None,
    }


def explained(hit: Hit, query: str) -> Hit:
    """Return a hit without the reason that it is in another language if the question has letters of its script."""
    is_foreign = terms.scripts(query).keys().isdisjoint(terms.scripts(hit.chunk.text))
    left = [one for one in hit.why.get("adjustments", ()) if is_foreign or one["reason"] != FOREIGN]
    return replace(hit, why={**hit.why, "adjustments": left})


ROUTES = [view.page("/contents", contents), view.page("/search", search)]
