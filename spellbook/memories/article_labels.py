"""Labels of an article's note: those that the caller gives, and for the others the page's own."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from spellbook.archive.pages import html, safe
from spellbook.archive.pages.source import ArticlePage
from spellbook.index.filters import fold
from spellbook.notes import labels as written
from spellbook.system.errors import InvalidInput
from spellbook.text import credentials
from spellbook.text.quoting import one_line

_KEYS = ("summary", "keywords", "tags", "title", "author", "published")
_MOST_NAMES = 10  # categories of an article
_MOST_NAME = 60  # letters of a category
_MOST_LABELS = 50  # keywords, and tags
_MOST_SUMMARY = 2_000  # letters
_MOST_LINE = 300  # letters of a title, an author, a keyword


@dataclass(frozen=True, slots=True)
class ArticleLabels:
    """Labels that the caller gives to an article; missing ones are taken from the page."""

    summary: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    title: str = ""
    author: str = ""
    published: str = ""


def categories_of(categories: Sequence[str]) -> list[str]:
    """Return the categories of an article. Raises InvalidInput if there are none, or too many."""
    given = written.listed(categories)
    lines = filter(None, (safe.line(category, 1_000) for category in reversed(given)))
    names = list({fold(name): name for name in lines}.values())[::-1]
    wrong = next((name for name in names if len(name) > _MOST_NAME), "")
    if not 1 <= len(names) <= _MOST_NAMES or wrong:
        what = f"The category {wrong[:_MOST_NAME]!r}… is too long." if wrong else f"There are {len(names)} categories."
        raise InvalidInput(what, f"Give 1 to {_MOST_NAMES}, of at most {_MOST_NAME} letters; nothing was written.")
    return names


def labels_of(metadata: object) -> ArticleLabels:
    """Return the caller's labels of an article. Raises InvalidInput."""
    if metadata is None:
        return ArticleLabels()
    if not isinstance(metadata, Mapping):
        raise InvalidInput("metadata must be an object.", f"Its keys are {', '.join(_KEYS)}.")
    if unknown := [str(key) for key in metadata if key not in _KEYS]:
        named = f"metadata.{one_line(unknown[0][:60])} is not a key of an article."
        raise InvalidInput(named, f"Keys are {', '.join(_KEYS)}; nothing was written.")
    labels: dict[str, Any] = {}
    for key, value in metadata.items():
        if key in {"keywords", "tags"}:
            listed = (written.tags if key == "tags" else written.listed)(value or ())
            if not isinstance(listed, Sequence) or not all(isinstance(word, str) for word in listed):
                raise InvalidInput(f"metadata.{key} must be a list of texts.", 'For example ["theme park", "9.81"].')
            words = [safe.line(word, _MOST_LINE) for word in listed]
            labels[key] = tuple(dict.fromkeys(filter(None, words)))
            if len(labels[key]) > _MOST_LABELS:
                raise InvalidInput(f"metadata.{key} has {len(labels[key]):,} entries.", f"Give at most {_MOST_LABELS}.")
        else:
            text, is_summary = str(value or ""), key == "summary"
            labels[key] = text.strip() if is_summary else " ".join(text.split())
            most = _MOST_SUMMARY if is_summary else _MOST_LINE
            if len(labels[key]) > most:
                raise InvalidInput(f"metadata.{key} has {len(labels[key]):,} letters.", f"Give at most {most:,}.")
    if labels.get("published") and not _day(labels["published"]):
        raise InvalidInput(f"metadata.published is not a date: {labels['published']!r:.40}.", "For example 2026-03-14.")
    return ArticleLabels(**labels)


def _day(text: str) -> dt.date | None:
    with contextlib.suppress(ValueError):
        return dt.date.fromisoformat(html.day(text))
    return None


def refuse_secrets(meta: Mapping[str, Any], text: str, force: bool) -> None:
    """Raise InvalidInput if a page's address, its labels or given text look like a secret, unless `force`."""
    if not force and (secrets := credentials.in_note(text, meta)):
        raise InvalidInput(f"{'; '.join(secrets)}.", credentials.HINT)


def header(
    page: ArticlePage, names: Sequence[str], labels: ArticleLabels, own: str, address: str, *, is_read: bool
) -> dict[str, Any]:
    """Return the frontmatter of a new article, without `scribe`'s keys; given text is no page that `is_read`."""
    meta = {
        "title": safe.line(labels.title or page.title or (_named_by(page, address) if is_read else ""), _MOST_LINE),
        "topic": names[0],
        "categories": [*names],
        "keywords": [*labels.keywords],
        "tags": [*labels.tags],
        "source": own,
        "saved_from": address if address != own else None,
        "source_type": page.source_type,
        "author": safe.line(labels.author or page.author, _MOST_LINE),
        "published": _day(labels.published or page.published),
        "fetched": dt.datetime.now().astimezone().replace(microsecond=0) if is_read else None,
        "description": safe.line(page.description, _MOST_LINE),
    }
    return {key: value for key, value in meta.items() if value}


def _named_by(page: ArticlePage, address: str) -> str:
    """Return a name for an article without a title: the end of its address, or its file's name."""
    if page.url:
        parts = urlsplit(page.url)
        return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc
    return Path(address).stem if page.source_type in {"pdf", "html"} else ""
