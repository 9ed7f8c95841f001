"""The text of a PDF as Markdown, with its title, author and date; running heads are left out."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from spellbook.archive.pages import safe_markdown
from spellbook.archive.pages.html import day
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex

_LEAST_LETTERS = 20
_MOST_LETTERS = 10_000_000
_MOST_SECTIONS = 5_000

_RUNNING_LINES = 2
"""Lines at the top and at the bottom of a page that may be running heads."""

_PASSWORD = 4
"""pdfium's number for a document that wants a password."""

_HYPHEN = regex("[\x02\u00ad\ufffe][\r\n]*")
"""Pdfium's form of a hyphen at a line's end."""

_TERMINAL = regex(r"[.!?。！？…:;][\"'”’)\]]*$")

_DATE = regex(r"D:(\d{4})(\d\d)(\d\d)")


def extract(body: bytes, what: str = "The PDF") -> dict[str, str]:
    """
    Return `title`, `markdown`, `author` and `published` (YYYY-MM-DD) of a PDF; "" for what it does not say.

    `what` names it in messages. Raises InvalidInput if it is encrypted, damaged, without text, or if no program can
    read its text.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
        about = document.get_metadata_dict()
        pages = _without_running_heads(list(_pages(document, what)))
        outline = _outline(document, len(pages))
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise InvalidInput(f"{what} is encrypted.", "Save a copy without a password, or give its text.") from error
        raise InvalidInput(f"{what} is not a PDF that can be read.", "Is it damaged? Give its text instead.") from error
    text = "".join(line for page in pages for line in page)
    letters = sum(map(str.isalnum, text))
    broken = sum(unicodedata.category(letter) in {"Co", "Cn", "Cc"} or letter == "\ufffd" for letter in text)
    if letters + broken < _LEAST_LETTERS:
        raise InvalidInput(f"{what} has no text, only pictures.", "Run OCR first, or give its text.")
    if broken > letters:
        raise InvalidInput(f"The text of {what} cannot be read: its fonts hide the letters.", "Run OCR first.")
    date = _DATE.match(about.get("CreationDate") or about.get("ModDate") or "")
    return {
        "title": safe_markdown.line(about.get("Title") or ""),
        "markdown": safe_markdown.safe("\n\n".join(_sections(pages, outline))),
        "author": safe_markdown.line(about.get("Author") or ""),
        "published": day("-".join(date.groups())) if date else "",
    }


def _pages(document: Any, what: str) -> Iterator[list[str]]:
    """Yield the lines of each page, "" where a paragraph ends."""
    left = _MOST_LETTERS
    for number in range(len(document)):
        page = document[number]
        text_page = page.get_textpage()
        text = text_page.get_text_bounded()
        text_page.close()
        page.close()
        left -= len(text)
        if left < 0:
            raise InvalidInput(f"{what} has more than {_MOST_LETTERS:,} letters.", "Save it in parts.")
        yield [line.strip() for line in safe_markdown.visible(_HYPHEN.sub("", text)).split("\n")]


def _outline(document: Any, pages: int) -> list[tuple[int, int, str]]:
    """Return the page (from 0), level (from 0) and title of each entry of the outline, in the order of pages."""
    outline = []
    for entry in document.get_toc(max_depth=6):
        target = entry.get_dest()
        page = target.get_index() if target else None
        title = safe_markdown.line(entry.get_title())
        if page is not None and 0 <= page < pages and title:
            outline.append((page, entry.level, title))
        if len(outline) == _MOST_SECTIONS:
            break
    return sorted(outline, key=itemgetter(0))


def _without_running_heads(pages: list[list[str]]) -> list[list[str]]:
    """Leave out lines that stand at the edge of many pages; numbers in them may differ."""

    def edges(page: Sequence[str]) -> dict[int, str]:
        written = [at for at, line in enumerate(page) if line]
        return {
            at: re.sub(r"\d+", "#", "".join(page[at].split()))
            for at in written[:_RUNNING_LINES] + written[-_RUNNING_LINES:]
        }

    heads = [edges(page) for page in pages]
    counts = Counter(line for lines in heads for line in {*lines.values()})
    # Left and right pages may differ. On few pages, lines that repeat may be text.
    running = {line for line, count in counts.items() if count >= max(3, len(pages) * 0.4)}
    return [
        [line for at, line in enumerate(page) if lines.get(at) not in running]
        for page, lines in zip(pages, heads, strict=True)
    ]


def _sections(pages: Sequence[Sequence[str]], outline: Sequence[tuple[int, int, str]]) -> Iterator[str]:
    """Yield headings and paragraphs as Markdown."""
    for number, page in enumerate(pages):
        here = [(level, title) for at, level, title in outline if at == number]
        if not outline and any(page):
            yield f"## p. {number + 1}"
        start = 0
        for level, title in here:
            at, end = _find(page, title, start)
            yield from _paragraphs(page[start:at])
            yield f"{'#' * min(6, level + 2)} {safe_markdown.escaped(title)}"
            start = end
        yield from _paragraphs(page[start:])


def _find(page: Sequence[str], title: str, start: int) -> tuple[int, int]:
    """Return the lines from `start` on that are the heading `title`; none at `start` if it is not there."""
    wanted = _letters(title)
    for at in range(start, len(page)):
        joined = ""
        for end in range(at, min(at + 3, len(page))):  # a heading of up to three lines
            joined += _letters(page[end])
            # The page may number the heading where the outline does not.
            if joined and (joined == wanted or re.fullmatch(rf"(?:\d|chapter|제|장|절)*{re.escape(wanted)}", joined)):
                return at, end + 1
    return start, start


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Join lines to paragraphs: one ends at an empty line, a short line that ends a sentence, or a very short one."""
    width = max((len(line) for line in lines), default=0)
    text = ""
    for line in [*lines, ""]:
        is_cut = re.search(r"[a-zà-ÿ]-$", text) and re.match(r"[a-zà-ÿ]", line)
        text = text[:-1] + line if is_cut else f"{text} {line}".strip()
        is_last = len(line) < (0.8 if _TERMINAL.search(line) else 0.5) * width
        if text and is_last:
            yield safe_markdown.escaped(text)
            text = ""
