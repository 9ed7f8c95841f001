"""Articles: a page, PDF, HTML file or text, made safe, kept as one untrusted note for one address."""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from spellbook.archive.pages import article_page as pages
from spellbook.archive.pages import fetch, html, page_address, safe_markdown
from spellbook.archive.pages.article_page import ADDRESS, ArticlePage
from spellbook.editing.write import Opened
from spellbook.index import lookup
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import conditions, fold
from spellbook.index.opened import Progress
from spellbook.notes import article_text as form
from spellbook.notes import labels as written
from spellbook.notes.article_limits import MOST_CATEGORIES, MOST_LABELS, MOST_LETTERS, MOST_SUMMARY
from spellbook.search import newest
from spellbook.search.question import Answer
from spellbook.settings.limits import MOST_LINE, MOST_URL
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, SpellbookError, StorageError
from spellbook.text import credentials
from spellbook.text.quoting import exact, flat, one_line
from spellbook.text.unicode import door

ALL = "*"
"""The category by which `ask` is put to the whole vault."""

_LOCK = "articles.lock"
_PATIENCE = 60.0
"""Seconds to wait for another program that saves an article."""
_MOST_LISTED = 50
"""Categories that are listed."""
_KEYS = ("summary", "keywords", "tags", "title", "author", "published")


@dataclass(frozen=True, slots=True)
class ArticleLabels:
    """Labels that the caller gives to an article; missing ones are taken from the page."""

    summary: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    title: str = ""
    author: str = ""
    published: str = ""


@door()
class Articles(Opened):
    """The articles of a vault."""

    def save(
        self,
        source: str,
        categories: Sequence[str],
        metadata: object = None,
        text: str = "",
        *,
        files: bool = True,
        force: bool = False,
        step: Progress | None = None,
    ) -> dict[str, Any]:
        """
        Write the article at a web address or in a file, or `text`, as a note; return its id, path and categories.

        An article of the same address gets the new categories, labels and summary, and nothing is fetched. Without
        `files`, as over HTTP, no file of this machine may be named. `step` gets the progress; it may raise to end the
        work before anything is written. Raises InvalidInput (no category, no article text, a secret unless `force`),
        FetchError, PermissionDenied and StorageError.
        """
        names, labels, source = _categories_of(categories), _labels_of(metadata), source.strip()
        is_url = bool(ADDRESS.match(source))
        is_one = is_url or not text  # one address or file, one article
        address = _address(source, is_url=is_url, is_text=bool(text), files=files)
        own_words = {"source": source, "summary": labels.summary, "keywords": labels.keywords, "tags": labels.tags}
        _refuse_secrets(own_words, "", force)
        if is_one and (there := self._saved_from(address)):
            return self._again(there, names, labels)
        tell: Progress = step or (lambda *_: None)
        reading = partial(tell, f"reading {one_line(address)}", 0, 2)
        reading()
        page = pages.read(source, text, reading)
        if not page.markdown.strip():
            raise InvalidInput("The given text is empty.", "Give the article, without its frontmatter.")
        tell("writing", 1, 2)
        own = (page.canonical or page_address.normalized(page.url)) if is_url else address
        meta = _header(page, names, labels, own, address, is_read=not text)
        # Whoever knows its address can read it: a key in a page of the public web is no secret of the person's.
        _refuse_secrets({**meta, "summary": labels.summary}, "" if is_url and not text else page.markdown, force)
        chunk = {"text": form.composed(safe_markdown.safe(labels.summary), page.markdown), "metadata": meta}
        busy = StorageError("Another program is saving an article.", "Try again in a moment; nothing was written.")
        # Of two that save one address at the same time, the second finds what the first has written.
        with disk.alone(self.index.config.state / _LOCK, _PATIENCE, busy):
            if there := self._saved_from(own, None if is_one else page.markdown.strip("\n")):
                return self._again(there, names, labels, address)
            done = self._scribe(chunk, category=form.CATEGORY, force=True, again=force, untrusted=not text)
        tell("saved", 2, 2)
        return self._saved(done.written[0].path, "saved")

    def find(self, query: str, category: str = "", limit: int = 5) -> Answer:
        """Return the best passage of each article that is related to a question, best first."""
        return self._answer("search", query, limit=limit, filter=_filter(category), per_note=1)

    def list(self, category: str = "", limit: int = 10, offset: int = 0) -> newest.Recent:
        """Return the first chunk of each article, newest first, and how many there are."""
        return newest.recent(self.index, limit, offset, _filter(category))

    def categories(self) -> Sequence[tuple[str, int]]:
        """Return the categories of all articles with counts, the commonest first."""
        limits = (*conditions({"category": form.CATEGORY}), *self.index.visible)
        return self.index.catalog.commonest("categories", limits, _MOST_LISTED)

    def read(self, article_id: str) -> tuple[StoredChunk, form.Article]:
        """Return an article's first chunk and content; count it as opened. Raises MemoryNotFound, InvalidInput."""
        chunk = self._article(article_id, "show(id) reads it.")
        if self.index.config.count_use:
            with contextlib.suppress(SpellbookError):  # reading works even if counting fails
                self.index.catalog.usage.opened([chunk.note])
        return chunk, form.read(lookup.body(self.index, chunk.path))

    def ask(
        self, question: str, article_id: str = "", category: str = "", limit: int = 5, max_tokens: int = 2_000
    ) -> Answer:
        """
        Return passages that answer a question, of one article, a category, all articles, or with `ALL` all notes.

        Several notes give only related passages; one article gives its best, related or not.
        """
        filter: dict[str, object] | None = None if category == ALL else _filter(category)
        if article_id:
            filter = {"path": glob.escape(self._article(article_id, "show(id) reads it.").path)}
        least = 0.0 if article_id else None
        return self._answer("search", question, limit=limit, filter=filter, max_tokens=max_tokens, min_score=least)

    def delete(self, article_id: str) -> dict[str, Any]:
        """Move an article's note into the trash. Raises InvalidInput for any other note, MemoryNotFound."""
        article = self._article(article_id, "erase(id) takes it.")
        return {"deleted": True, "trash": self._erase(article.note).trash[0]}

    def _article(self, id: str, instead: str) -> StoredChunk:
        """Return the first chunk of the article that an id names. Raises MemoryNotFound, InvalidInput for others."""
        chunk = self.index.catalog.at(lookup.resolve(self.index, id).path)[0]
        if form.CATEGORY not in map(fold, written.texts(chunk.meta.get("category") or chunk.category)):
            raise InvalidInput(f"{flat(chunk.title)} ({exact(chunk.path)}) is not an article.", instead)
        return chunk

    def _saved_from(self, address: str, text: str | None = None) -> StoredChunk | None:
        """Return the article that was saved from an address or a file; of given `text`, with the same words too."""
        for key in ("source", "saved_from"):
            for chunk in newest.recent(self.index, 100, filter={"category": form.CATEGORY, key: address}).notes:
                # Filters ignore case, addresses do not.
                is_from = address in written.texts(chunk.meta.get(key))
                if is_from and text in (None, form.read(lookup.body(self.index, chunk.path)).text):
                    return chunk
        return None

    def _again(
        self, chunk: StoredChunk, names: Sequence[str], labels: ArticleLabels, address: str = ""
    ) -> dict[str, Any]:
        """Add categories, labels and another address to an existing article; give it the summary."""
        there = {key: written.texts(chunk.meta.get(key)) for key in ("categories", "keywords", "tags", "saved_from")}
        sources = [*written.texts(chunk.meta.get("source")), *there["saved_from"]]
        new = {
            "categories": names,
            "keywords": labels.keywords,
            "tags": labels.tags,
            "saved_from": [address] if address and address not in sources else [],
        }
        known = {key: {*map(fold, there[key])} for key in there}
        joined = {key: [*there[key], *(each for each in new[key] if fold(each) not in known[key])] for key in there}
        changed: dict[str, Any] = {key: value for key, value in joined.items() if value != there[key]}
        given = {"author": safe_markdown.line(labels.author), "published": labels.published}
        changed |= {key: value for key, value in given.items() if value and value != chunk.meta.get(key)}
        text, summary = lookup.body(self.index, chunk.path), safe_markdown.safe(labels.summary).strip()
        summarized = form.with_summary(text, summary) if summary and summary != form.read(text).summary else None
        if changed or summarized:
            self._revise(chunk.note, metadata=changed or None, replace=summarized, force=True, again=False)
        return self._saved(chunk.path, "exists")

    def _saved(self, path: str, status: str) -> dict[str, Any]:
        chunk = self.index.catalog.at(path)[0]
        return {
            "id": chunk.note,
            "title": chunk.title,
            "categories": written.texts(chunk.meta.get("categories")),
            "content_length": len(form.read(lookup.body(self.index, path)).text),
            "path": path,
            "status": status,
        }


def _address(source: str, *, is_url: bool, is_text: bool, files: bool) -> str:
    """Return the address or path under which an article is kept. Raises InvalidInput and PermissionDenied."""
    if not source or len(source) > MOST_URL:
        raise InvalidInput(f"source has {len(source):,} letters.", f"Give an address or a path of 1 to {MOST_URL:,}.")
    if not (is_url or is_text or files):  # before a look that would tell which files there are
        raise InvalidInput("Over HTTP an article is an address or given text, no file.", "Give its text instead.")
    if is_url:
        return page_address.normalized(fetch.checked(source))
    return source if is_text or source.startswith("~") else os.path.abspath(source)


def _filter(category: str) -> dict[str, object]:
    return {"category": form.CATEGORY, **({"categories": category} if category else {})}


# -- labels


def _categories_of(categories: Sequence[str]) -> list[str]:
    """Return the categories of an article. Raises InvalidInput if there are none, or too many."""
    lines = filter(None, (safe_markdown.line(each, 1_000) for each in reversed(written.listed(categories))))
    names = list({fold(name): name for name in lines}.values())[::-1]
    wrong = next((name for name in names if len(name) > MOST_LETTERS), "")
    if not 1 <= len(names) <= MOST_CATEGORIES or wrong:
        what = (
            f"The category {wrong[:MOST_LETTERS]!r}… is too long." if wrong else f"There are {len(names)} categories."
        )
        raise InvalidInput(
            what, f"Give 1 to {MOST_CATEGORIES}, of at most {MOST_LETTERS} letters; nothing was written."
        )
    return names


def _labels_of(metadata: object) -> ArticleLabels:
    """Return the caller's labels of an article. Raises InvalidInput."""
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, Mapping):
        raise InvalidInput("metadata must be an object.", f"Its keys are {', '.join(_KEYS)}.")
    if unknown := [str(key) for key in metadata if key not in _KEYS]:
        named = f"metadata.{one_line(unknown[0][:60])} is not a key of an article."
        raise InvalidInput(named, f"Keys are {', '.join(_KEYS)}; nothing was written.")
    labels = {key: _label_of(key, value) for key, value in metadata.items()}
    if labels.get("published") and not html.day(labels["published"]):
        raise InvalidInput(f"metadata.published is not a date: {labels['published']!r:.40}.", "For example 2026-03-14.")
    return ArticleLabels(**labels)


def _label_of(key: str, value: Any) -> Any:
    """Return one label of an article, checked: a tuple of texts for keywords and tags, else a text."""
    if key in {"keywords", "tags"}:
        listed = (written.tags if key == "tags" else written.listed)(value or ())
        if not isinstance(listed, Sequence) or not all(isinstance(word, str) for word in listed):
            raise InvalidInput(f"metadata.{key} must be a list of texts.", 'For example ["theme park", "9.81"].')
        words = tuple(dict.fromkeys(filter(None, (safe_markdown.line(word, MOST_LINE) for word in listed))))
        if len(words) > MOST_LABELS:
            raise InvalidInput(f"metadata.{key} has {len(words):,} entries.", f"Give at most {MOST_LABELS}.")
        return words
    text, most = str(value or "").strip(), MOST_SUMMARY
    if key != "summary":
        text, most = " ".join(text.split()), MOST_LINE
    if len(text) > most:
        raise InvalidInput(f"metadata.{key} has {len(text):,} letters.", f"Give at most {most:,}.")
    return text


def _refuse_secrets(meta: Mapping[str, Any], text: str, force: bool) -> None:
    """Raise InvalidInput if a page's address, its labels or given text look like a secret, unless `force`."""
    if not force and (secrets := credentials.in_note(text, meta)):
        raise InvalidInput(f"{'; '.join(secrets)}.", credentials.HINT)


def _header(
    page: ArticlePage, names: Sequence[str], labels: ArticleLabels, own: str, address: str, *, is_read: bool
) -> dict[str, Any]:
    """Return the frontmatter of a new article, without `scribe`'s keys; given text is no page that `is_read`."""
    title = labels.title or page.title
    if is_read and not title and page.url:  # the end of its address
        parts = urlsplit(page.url)
        title = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc
    elif is_read and not title and page.source_type in {"pdf", "html"}:
        title = Path(address).stem
    published = html.day(labels.published or page.published)
    meta = {
        "title": safe_markdown.line(title, MOST_LINE),
        "topic": names[0],
        "categories": [*names],
        "keywords": [*labels.keywords],
        "tags": [*labels.tags],
        "source": own,
        "saved_from": address if address != own else None,
        "source_type": page.source_type,
        "author": safe_markdown.line(labels.author or page.author, MOST_LINE),
        "published": dt.date.fromisoformat(published) if published else None,
        "fetched": dt.datetime.now().astimezone().replace(microsecond=0) if is_read else None,
        "description": safe_markdown.line(page.description, MOST_LINE),
    }
    return {key: value for key, value in meta.items() if value}
