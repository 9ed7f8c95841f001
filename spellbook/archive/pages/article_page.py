"""
Read a web page, an HTML file or a PDF as an `ArticlePage` of safe Markdown.

A source that an agent names is read only if it is a public page, or a file that is plainly a document: else an agent
could be talked into saving keys and settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from spellbook.archive.pages import fetch, page_address, parser_process, safe_markdown
from spellbook.archive.pages.fetch import MOST_HTML, MOST_PDF
from spellbook.system.disk import regular
from spellbook.system.errors import InvalidInput, PermissionDenied
from spellbook.system.lazy import regex
from spellbook.text.quoting import one_line

_HTML = frozenset({".html", ".htm"})
ADDRESS = regex(r"(?i)https?:")
_HEADING = regex(r"#{1,6} (.+)")


@dataclass(frozen=True, slots=True)
class ArticlePage:
    """
    An article. `markdown` is safe and holds no frontmatter; what is not known is "".

    `published` is YYYY-MM-DD. `url` is where the page was in the end ("" for a file), `canonical` the address that it
    names as its own. `source_type` is `url`, `pdf`, `html`, or `text` for given text that names no address.
    """

    title: str
    markdown: str = field(repr=False)
    author: str = ""
    published: str = ""
    description: str = field(default="", repr=False)
    url: str = ""
    canonical: str = ""
    site: str = ""
    source_type: str = "url"


def read(source: str, text: str = "", alive: Callable[[], object] | None = None) -> ArticlePage:
    """
    Return the article at a web address, or in a file; with `text`, that is the article, and nothing is opened.

    `alive` is called while a page is parsed, and may raise to end that. Raises InvalidInput (no such file, encrypted,
    damaged, without text, no extra), PermissionDenied (not public, no document), FetchError.
    """
    is_url = bool(ADDRESS.match(source.strip()))
    url = fetch.checked(source.strip()) if is_url else ""
    if text:
        parsed = parser_process.parse("text", text.encode(), "The text", alive=alive)
        if not parsed["markdown"]:
            raise InvalidInput("The given text is empty.", "Give the article, without its frontmatter.")
        heading = _HEADING.match(parsed["markdown"])
        title = safe_markdown.line(heading[1].replace("\\", "")) if heading else ""
        return ArticlePage(title, parsed["markdown"], url=url, source_type="url" if is_url else "text")
    got = fetch.fetch(url) if is_url else _file(source)
    what = got.url or one_line(source)
    is_pdf = got.content_type == "application/pdf"
    if is_pdf:
        if not got.body.startswith(b"%PDF-"):
            raise InvalidInput(f"{got.url} says that it is a PDF, and is none.", "Give its text instead.")
        parsed = parser_process.parse("pdf", got.body, what, alive=alive)
    else:
        parsed = parser_process.parse("html", got.body, what, alive=alive, url=got.url, charset=got.charset)
    canonical = page_address.canonical(got.url, parsed.pop("canonical", "") or got.canonical)
    of_file = "pdf" if is_pdf else "html"
    return ArticlePage(**parsed, url=got.url, canonical=canonical, source_type="url" if is_url else of_file)


def _file(source: str) -> fetch.Fetched:
    """Return a document as if it was fetched, a PDF or HTML. Raises PermissionDenied for any other file."""
    what = one_line(source)
    try:
        real = Path(source).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{what} is not a path of a file.", "Check the path.") from error
    if any(part.startswith(".") for part in real.parts):
        raise PermissionDenied(f"{what} is hidden, or in a hidden folder.", "Copy it elsewhere, or give its text.")
    try:
        with regular(real) as file:
            start = file.read(5)
            is_pdf = start == b"%PDF-"
            most = MOST_PDF if is_pdf else MOST_HTML
            if not is_pdf and real.suffix.lower() not in _HTML:
                raise PermissionDenied(f"{what} is neither a PDF nor an HTML file.", "Give its text instead.")
            if os.fstat(file.fileno()).st_size > most:
                raise PermissionDenied(f"{what} is over {most // 1_000_000} MB.", "Give the text that matters instead.")
            body = start + file.read(most)
    except FileNotFoundError as error:
        raise InvalidInput(f"There is no file {what}.", "Check the path.") from error
    except OSError as error:
        raise PermissionDenied(f"{what} cannot be read ({error.strerror}).", "Name a PDF or an HTML file.") from error
    return fetch.Fetched(body, "application/pdf" if is_pdf else "text/html", "")
