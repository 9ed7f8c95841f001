"""
Save a web page, a PDF, an HTML file or given text as an article: one note, one address.

What a page says comes from a stranger. Its text is made safe before it is written, and its note says so.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from spellbook.archive.pages import fetch, html, safe, urls
from spellbook.archive.pages import source as pages
from spellbook.errors import InvalidInput, StorageError
from spellbook.index import lookup
from spellbook.index.filters import fold
from spellbook.notes import articles as form
from spellbook.notes.articles import CATEGORY
from spellbook.system import disk
from spellbook.text import credentials
from spellbook.text.quoting import one_line

if TYPE_CHECKING:
    from spellbook.archive.pages.source import Page
    from spellbook.book import Spellbook
    from spellbook.index.catalog.schema import StoredChunk

Step = Callable[[str, int, int], None]
ADDRESS = re.compile(r"(?i)https?:")
_LOCK, _PATIENCE = "articles.lock", 60.0
_KEYS = ("summary", "keywords", "tags", "title", "author", "published")
_MOST_NAMES, _MOST_NAME, _MOST_LABELS, _MOST_SUMMARY, _MOST_LINE = 10, 60, 50, 2_000, 300


@dataclass(frozen=True, slots=True)
class _Given:
    """What the caller says of an article; what is missing is taken from the page."""

    summary: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    title: str = ""
    author: str = ""
    published: str = ""


def save(
    book: Spellbook,
    source: str,
    categories: Sequence[str],
    metadata: object = None,
    text: str = "",
    *,
    files: bool = False,
    force: bool = False,
    step: Step = lambda stage, done, total: None,
) -> dict[str, Any]:
    """
    Write the article at a web address as a note, or `text`, and return its id, path and categories. With `files` the
    source may also be a file of this machine, which callers over HTTP may not name.

    What was saved from the same address before gets the new categories, keywords, tags and summary, and nothing is
    fetched. `step` is told the progress; it may raise to end the work, before anything is written. Raises InvalidInput
    (no category, no article text, a secret unless `force`), FetchError, PermissionDenied and StorageError.
    """
    names, given, source = _names(categories), _given(metadata), source.strip()
    is_url = bool(ADDRESS.match(source))
    if not source or len(source) > fetch.MOST_URL:
        raise InvalidInput(
            f"source has {len(source):,} letters.", f"Give an address or a path of 1 to {fetch.MOST_URL:,}."
        )
    if not (is_url or text or files):  # before a look that would tell which files there are
        raise InvalidInput("Over HTTP an article is an address or given text, no file.", "Give its text instead.")
    asked = source
    if is_url:
        source = urls.normalized(fetch.checked(source))
    elif not text:
        source = source if source.startswith("~") else os.path.abspath(source)
    _no_secrets({"source": asked, "summary": given.summary, "keywords": given.keywords, "tags": given.tags}, "", force)
    if there := _saved_from(book, source) if is_url or not text else None:
        return _again(book, there, names, given)
    reading = f"reading {one_line(source)}"
    step(reading, 0, 2)
    page = pages.read(asked, text, lambda: step(reading, 0, 2))
    if not page.markdown.strip():
        raise InvalidInput("The given text is empty.", "Give the article, without its frontmatter.")
    address = (page.canonical or urls.normalized(page.url)) if is_url else source
    step("writing", 1, 2)
    meta = _header(page, names, given, address, source, is_read=not text)
    # Whoever knows its address can read it: a key in a page of the public web is no secret of the person's.
    _no_secrets({**meta, "summary": given.summary}, "" if is_url and not text else page.markdown, force)
    composed = form.composed(safe.safe(given.summary), page.markdown)
    busy = StorageError("Another program is saving an article.", "Try again in a moment; nothing was written.")
    # Of two that save one address at the same time, the second finds what the first has written.
    with disk.alone(book.config.state / _LOCK, _PATIENCE, busy):
        if there := _saved_from(book, address) if is_url or not text else _same(book, source, page, given):
            return _again(book, there, names, given, source)
        done = book.scribe(
            {"text": composed, "metadata": meta}, category=CATEGORY, labels="derived", force=True, untrusted=not text
        )
    step("saved", 2, 2)
    chunk = book.index.catalog.at(done.written[0].path)[0]
    return _kept(book, chunk, "saved")


def _names(categories: Sequence[str]) -> list[str]:
    """Return the categories of an article. Raises InvalidInput if there are none, or too many."""
    names = list({fold(name): name for each in reversed(categories) if (name := safe.line(each, 1_000))}.values())[::-1]
    wrong = next((name for name in names if len(name) > _MOST_NAME), "")
    if not 1 <= len(names) <= _MOST_NAMES or wrong:
        what = f"The category {wrong[:_MOST_NAME]!r}… is too long." if wrong else f"There are {len(names)} categories."
        raise InvalidInput(what, f"Give 1 to {_MOST_NAMES}, of at most {_MOST_NAME} letters; nothing was written.")
    return names


def _given(metadata: object) -> _Given:
    """Read what the caller says of an article. Raises InvalidInput."""
    if metadata is None:
        return _Given()
    if not isinstance(metadata, Mapping):
        raise InvalidInput("metadata must be an object.", f"Its keys are {', '.join(_KEYS)}.")
    if unknown := [str(key) for key in metadata if key not in _KEYS]:
        named = f"metadata.{one_line(unknown[0][:60])} is not a key of an article."
        raise InvalidInput(named, f"Keys are {', '.join(_KEYS)}; nothing was written.")
    found: dict[str, Any] = {}
    for key, value in metadata.items():
        if key in {"keywords", "tags"}:
            listed = value.split(",") if isinstance(value, str) else value or ()
            if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in listed):
                raise InvalidInput(f"metadata.{key} must be a list of texts.", 'For example ["theme park", "9.81"].')
            words = [safe.line(each, _MOST_LINE).lstrip("#") for each in listed]
            found[key] = tuple(dict.fromkeys(filter(None, words)))
            if len(found[key]) > _MOST_LABELS:
                raise InvalidInput(f"metadata.{key} has {len(found[key]):,} entries.", f"Give at most {_MOST_LABELS}.")
        else:
            said = str(value or "")
            found[key] = said.strip() if key == "summary" else " ".join(said.split())
            most = _MOST_SUMMARY if key == "summary" else _MOST_LINE
            if len(found[key]) > most:
                raise InvalidInput(f"metadata.{key} has {len(found[key]):,} letters.", f"Give at most {most:,}.")
    if found.get("published") and not _day(found["published"]):
        raise InvalidInput(f"metadata.published is no date: {found['published']!r:.40}.", "For example 2026-03-14.")
    return _Given(**found)


def _day(text: str) -> dt.date | None:
    with contextlib.suppress(ValueError):
        return dt.date.fromisoformat(html.day(text))
    return None


def _no_secrets(meta: Mapping[str, Any], text: str, force: bool) -> None:
    """Raise InvalidInput if a page's address, its labels or given text look like a secret, unless `force`."""
    if not force and (found := credentials.in_note(text, meta)):
        raise InvalidInput(f"{'; '.join(found)}.", credentials.HINT)


def _header(
    page: Page, names: Sequence[str], given: _Given, address: str, asked: str, *, is_read: bool
) -> dict[str, Any]:
    """Return the frontmatter of a new article, without what `scribe` adds."""
    author = given.author or page.author
    meta = {
        "title": safe.line(given.title or page.title or (_named_by(page, asked) if is_read else ""), _MOST_LINE),
        "topic": names[0],
        "categories": [*names],
        "keywords": [*given.keywords],
        "tags": [*given.tags],
        "source": address,
        "saved_from": asked if asked != address else None,
        "source_type": page.source_type,
        "author": safe.line(author, _MOST_LINE),
        "published": _day(given.published or page.published),
        "fetched": dt.datetime.now().astimezone().replace(microsecond=0) if is_read else None,
        "description": safe.line(page.description, _MOST_LINE),
    }
    return {key: value for key, value in meta.items() if value}


def _named_by(page: Page, asked: str) -> str:
    """Return what an article is called that does not say it: by the end of its address, or its file's name."""
    if page.url:
        parts = urlsplit(page.url)
        return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc
    return Path(asked).stem if page.source_type in {"pdf", "html"} else ""


def _saved_from(book: Spellbook, address: str) -> StoredChunk | None:
    """Return the article that was saved from an address, or from a file."""
    for key in ("source", "saved_from"):
        for chunk in book.recent(100, filter={"category": CATEGORY, key: address}).notes:
            if address in texts(chunk.meta.get(key)):  # filters ignore case, addresses do not
                return chunk
    return None


def _same(book: Spellbook, source: str, page: Page, given: _Given) -> StoredChunk | None:
    """Return the article of given text that has the same source and the same words."""
    listed = book.recent(100, filter={"category": CATEGORY, "source": source}).notes
    text = page.markdown.strip("\n")
    return next((chunk for chunk in listed if form.read(lookup.body(book.index, chunk.path)).text == text), None)


def _again(book: Spellbook, chunk: StoredChunk, names: Sequence[str], given: _Given, asked: str = "") -> dict[str, Any]:
    """Add categories, labels, and the address that was asked for, to an article that is there; give it the summary."""
    known = [*texts(chunk.meta.get("source")), *texts(chunk.meta.get("saved_from"))]
    there = {
        "categories": texts(chunk.meta.get("categories")),
        "keywords": texts(chunk.meta.get("keywords")),
        "tags": texts(chunk.meta.get("tags")),
        "saved_from": texts(chunk.meta.get("saved_from")),
    }
    new = {
        "categories": names,
        "keywords": given.keywords,
        "tags": given.tags,
        "saved_from": [asked] if asked and asked not in known else [],
    }
    joined = {key: _united(there[key], new[key]) for key in there}
    changed = {key: value for key, value in joined.items() if value != there[key]}
    text, summary = lookup.body(book.index, chunk.path), safe.safe(given.summary).strip()
    summarized = form.with_summary(text, summary) if summary and summary != form.read(text).summary else None
    if changed or summarized:
        book.revise(chunk.note, metadata=changed or None, replace=summarized, force=True)
    return _kept(book, book.index.catalog.at(chunk.path)[0], "exists")


def _united(there: Sequence[str], new: Sequence[str]) -> list[str]:
    known = {fold(each) for each in there}
    return [*there, *(each for each in new if fold(each) not in known)]


def texts(value: object) -> list[str]:
    """Return a key of frontmatter that may be one text or a list."""
    return [str(each) for each in (value if isinstance(value, list) else [value]) if each not in (None, "")]


def _kept(book: Spellbook, chunk: StoredChunk, status: str) -> dict[str, Any]:
    return {
        "id": chunk.note,
        "title": chunk.title,
        "categories": texts(chunk.meta.get("categories")),
        "content_length": len(form.read(lookup.body(book.index, chunk.path)).text),
        "path": chunk.path,
        "status": status,
    }
