"""
The article of an HTML page as Markdown, with its title, author, date and site.

trafilatura finds the article. Its tree is written as Markdown here: its own Markdown loses quotes and the languages of
code. It also misses Korean authors, so `meta` and JSON-LD are read too. Run it in a child process: a hostile page takes
minutes and gigabytes.
"""

from __future__ import annotations

import codecs
import contextlib
import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urljoin

from spellbook.archive.pages import safe_markdown
from spellbook.system.errors import FetchError
from spellbook.system.lazy import charset_normalizer, regex

LEAST_LETTERS = 200
"""An article with fewer is a shell that a script fills, a login or a consent page."""

_MOST_NAME = 80
_MOST_DESCRIPTION = 2_000
_MOST_AUTHORS = 5
_HEAD_BYTES = 4_096
"""Where a page says its encoding; browsers look into 1,024."""

_META_CHARSET = regex(rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([\w:.-]{2,40})""", re.I)
_WIDER = {"euc_kr": "cp949", "johab": "johab", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}
"""Encodings that pages name when they mean the wider one; browsers read them so too."""

_LATIN = {"iso8859-1", "ascii", "cp1252"}
"""Encodings that servers name by default: believed last."""

_CONTROLS = regex(r"[\x00-\x08\x0e-\x1f]")
_DATE = regex(r"(\d{4})\s*[-./년]\s*(\d{1,2})\s*[-./월]\s*(\d{1,2})")
_PRESS = regex(r"\s*(?:선임|수습|인턴|객원|전문|시민|취재)?\s*(?:기자|특파원|논설위원|칼럼니스트|에디터|편집위원)$")
_MAIL = regex(r"\S+@\S+")
_BYLINE = regex(r"(?i)byline|reporter|journalist|author|writer|기자")
_KOREAN_NAME = regex(r"^([가-힣]{2,4})\s*(?:기자|특파원|논설위원|에디터)(?![가-힣])")
_AUTHORS = ("author", "article:author", "dable:author", "og:article:author", "parsely-author", "sailthru.author", "byl")
_DATES = (
    "article:published_time",
    "og:article:published_time",
    "dable:published_time",
    "datePublished",
    "date",
    "pubdate",
)
_ARTICLE = regex(r"(?i)(?:article|posting|report|page|review)$")


def extract(body: bytes, url: str = "", charset: str = "") -> dict[str, str]:
    """
    Return `title`, `markdown`, `author`, `published` (YYYY-MM-DD), `description`, `canonical` and `site`, "" for none.

    Raises FetchError if there is no article.
    """
    from lxml import html

    text = decoded(body, charset)
    # Some servers call everything text/html.
    is_page = not body.startswith(b"%PDF-") and len(_CONTROLS.findall(text)) * 1_000 <= len(text) and text.strip()
    tree = html.document_fromstring(text.encode(), html.HTMLParser(encoding="utf-8")) if is_page else None
    if tree is None:
        raise _nothing()
    meta = _meta(tree)
    graph = list(_linked_data(tree))
    byline = _byline(tree)
    canonical = tree.xpath("string(//link[translate(@rel, 'CANONIL', 'canonil')='canonical']/@href)").strip()
    article = _article(tree, url)
    title = safe_markdown.line(article.title or meta.get("og:title", "") or tree.xpath("string(//title)"))
    publishers = (name for node in graph for name in _names(node.get("publisher")))
    site = safe_markdown.line(meta.get("og:site_name") or next(publishers, article.sitename or ""), _MOST_NAME)
    authors = [
        *(_names(node.get("author")) for node in graph),
        *([meta[key]] for key in _AUTHORS if key in meta),
        [byline],
        [article.author],
    ]
    dates = [*(str(node.get("datePublished", "")) for node in graph), *(meta.get(key, "") for key in _DATES)]
    return {
        "title": title,
        "markdown": safe_markdown.safe("\n\n".join(_without_title(list(_blocks(article.body, url)), title))),
        "author": _author(authors, site),
        "published": next(filter(None, map(day, [*dates, article.date or ""])), ""),
        "description": safe_markdown.line(meta.get("og:description") or meta.get("description", ""), _MOST_DESCRIPTION),
        "canonical": _join(url, canonical) if canonical else "",
        "site": site,
    }


def _article(tree: Any, url: str) -> Any:
    """Return what trafilatura finds. Raises FetchError if that is no article."""
    import trafilatura

    article: Any = trafilatura.bare_extraction(
        tree,
        url=url or None,
        output_format="python",
        with_metadata=True,
        include_comments=False,
        include_formatting=True,
        include_images=True,
        include_links=True,
        include_tables=True,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
    body = None if article is None else article.body
    if body is None or sum(map(len, "".join(body.itertext()).split())) < LEAST_LETTERS:
        raise _nothing()
    return article


def _without_title(blocks: list[str], title: str) -> list[str]:
    """Return the blocks of an article without a heading that repeats its title."""
    repeats = blocks and title and re.sub(r"\W", "", blocks[0]) == re.sub(r"\W", "", title)
    return blocks[1:] if repeats else blocks


def _nothing() -> FetchError:
    return FetchError(
        "No article text found; give it as text.", "The page may be made by a script, or want a login or a click."
    )


def decoded(body: bytes, charset: str = "") -> str:
    """Return the text of a page by its BOM, the header's `charset` or its `meta` if they fit, else by what fits."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    declared = _META_CHARSET.search(body[:_HEAD_BYTES])
    names = [_codec(charset), _codec(declared[1].decode("ascii", "replace")) if declared else "", "utf-8"]
    foreign = len(body) - len(body.translate(None, bytes(range(128, 256))))
    for name in names:
        if not name or name in _LATIN:
            continue
        text = body.decode(name, "replace")
        # One letter in fifty may be broken: pages are cut and pasted together.
        if text.count("\ufffd") * 50 <= foreign:
            return text
    # Korean first: half of its legacy pages look Chinese to a detector.
    korean = body.decode("cp949", "ignore")
    if len(re.findall(r"[\uac00-\ud7a3]", korean)) * 3 > foreign:
        return body.decode("cp949", "replace")
    best = charset_normalizer.from_bytes(body[:200_000]).best() if not set(names) & _LATIN else None
    return body.decode(best.encoding if best else "cp1252", "replace")


def _codec(name: str) -> str:
    """Return Python's name for an encoding, of the wider one where pages mean that; "" if there is none."""
    try:
        codec = codecs.lookup(name.strip()).name
    except (LookupError, ValueError):
        codec = {"ks_c_5601-1989": "euc_kr", "x-windows-949": "cp949", "windows-949": "cp949"}.get(name.lower(), "")
    return _WIDER.get(codec, codec) if not codec or codecs.lookup(codec)._is_text_encoding else ""


def day(text: str) -> str:
    """Return the date at the beginning of a text as YYYY-MM-DD, "" if there is none."""
    if match := _DATE.search(text[:60]):
        with contextlib.suppress(ValueError):  # there is no such day
            date = dt.date(*map(int, match.groups()))
            return date.isoformat() if 1900 <= date.year <= 2200 else ""
    return ""


# -- about the page


def _meta(tree: Any) -> dict[str, str]:
    """Return the first value of each `meta`, by its name."""
    values: dict[str, str] = {}
    for element in tree.iter("meta"):
        name = element.get("property") or element.get("name") or element.get("itemprop") or ""
        if (value := (element.get("content") or "").strip()) and name:
            values.setdefault(name, value)
    return values


def _linked_data(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the articles that JSON-LD describes."""
    for script in tree.iter("script"):
        if (script.get("type") or "").strip().lower() != "application/ld+json":
            continue
        try:
            todo = [json.loads(script.text or "", strict=False)]
        except (ValueError, RecursionError):
            continue
        while todo:
            node = todo.pop(0)
            if isinstance(node, list):
                todo += node
            elif isinstance(node, dict):
                todo += [node["@graph"]] if "@graph" in node else []
                kinds = node.get("@type")
                if any(_ARTICLE.search(str(kind)) for kind in (kinds if isinstance(kinds, list) else [kinds])):
                    yield node


def _names(value: object) -> list[str]:
    """Return the names in JSON-LD's many ways to write an author or a publisher."""
    if isinstance(value, list):
        return [name for item in value[: 2 * _MOST_AUTHORS] for name in _names(item)]
    if isinstance(value, dict):
        return _names(value.get("name"))
    return [value] if isinstance(value, str) else []


def _byline(tree: Any) -> str:
    """Return the reporter of a Korean page, who is named in its text alone."""
    for element in tree.iter("p", "span", "div", "em", "strong", "a", "li", "dd"):
        mark = f"{element.get('class') or ''} {element.get('id') or ''}"
        if _BYLINE.search(mark) and (name := _KOREAN_NAME.match(" ".join(element.text_content()[:200].split()))):
            return name[1]
    return ""


def _author(choices: Iterable[Iterable[str | None]], site: str) -> str:
    """Return the names of the first choice that names somebody but the site, without address and office."""
    for names in choices:
        kept: list[str] = []
        for text in names:
            name = re.sub(r"(?i)^(?:by|글|글쓴이)[\s:]+", "", _MAIL.sub(" ", text or "").strip())
            name = _PRESS.sub("", safe_markdown.line(name, _MOST_NAME)).strip(" ,|/·=[]()")
            if name and name != site and not re.match(r"(?i)https?:|www\.|@", name) and name not in kept:
                kept.append(name)
        if kept:
            return ", ".join(kept[:_MOST_AUTHORS])
    return ""


def _join(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError:
        return ""


# -- Markdown: every sign of a text is escaped, and `safe_markdown.safe` writes anew what that means

_BLOCKS = frozenset({"body", "main", "div", "head", "p", "list", "table", "quote", "item", "row", "cell", "rule"})
_SIGNS = regex(r"[!-/:-@\[-`{-~]")


def _text(text: str | None) -> str:
    return _SIGNS.sub(r"\\\g<0>", re.sub(r"\s+", " ", text or ""))


def _blocks(element: Any, url: str) -> Iterator[str]:
    run = [_text(element.text)]
    for child in element:
        is_block = child.tag in _BLOCKS
        if child.tag == "code":
            is_alone = element.tag in {"body", "main", "div", "quote"}
            is_block = "\n" in "".join(child.itertext()).strip() or is_alone
        is_gap = child.tag == "lb" and "".join(run).rstrip(" ").endswith("\n")
        if is_block or is_gap:
            yield from filter(None, ["".join(run).strip()])
            run = []
        if is_block:
            yield from _block(child, url)
        elif not is_gap:
            run.append(_inline(child, url))
        run.append(_text(child.tail))
    yield from filter(None, ["".join(run).strip()])


def _block(element: Any, url: str) -> Iterator[str]:
    if element.tag == "head":
        level = re.sub(r"\D", "", element.get("rend") or "") or "2"
        title = _line(element, url)
        yield f"{'#' * min(6, max(1, int(level)))} {title}" if title else ""
    elif element.tag == "list":
        yield _list(element, url)
    elif element.tag == "quote":
        yield safe_markdown.quote_block("\n\n".join(_blocks(element, url)))
    elif element.tag == "code":
        classes = " ".join(filter(None, (inner.get("class") for inner in element.iter())))
        language = re.search(r"\b(?:language|lang|brush|highlight-source)[-: ]+([\w+#-]+)", classes)
        yield safe_markdown.code(safe_markdown.visible("".join(element.itertext())), language[1] if language else "")
    elif element.tag == "table":
        yield from _table(element, url)
    elif element.tag == "rule":
        yield "***"
    else:
        yield from _blocks(element, url)


def _list(element: Any, url: str) -> str:
    items = []
    for number, item in enumerate(element, 1):
        mark = f"{number}. " if element.get("rend") == "ol" else "- "
        blocks = list(_blocks(item, url))
        is_tight = all(re.match(r"- |1\. ", block) for block in blocks[1:])
        if blocks:
            items.append(safe_markdown.list_item(mark, ("\n" if is_tight else "\n\n").join(blocks)))
    return "\n".join(items)


def _table(element: Any, url: str) -> Iterator[str]:
    rows = [row.findall("cell") for row in element.iter("row")]
    width = max(map(len, rows), default=0)
    if width < 2:  # it only places its content
        for row in rows:
            for cell in row:
                yield from _blocks(cell, url)
        return
    cells = [[re.sub(r"(?<!\\)\|", r"\\|", _line(cell, url)) for cell in row] for row in rows]
    cells[0] += [""] * (width - len(cells[0]))
    yield safe_markdown.table(cells)


def _within(element: Any, url: str) -> str:
    """Return the content of an element inline."""
    return "".join([_text(element.text), *(_inline(child, url) + _text(child.tail) for child in element)])


def _line(element: Any, url: str) -> str:
    """Return the content of an element on one line of its own."""
    return " ".join(_within(element, url).split())


def _inline(element: Any, url: str) -> str:
    """Return an element within a line."""
    if element.tag == "lb":
        return "  \n"
    if element.tag == "code":
        return safe_markdown.code_span(" ".join("".join(element.itertext()).split()))
    if element.tag == "graphic":
        alt = _text(element.get("alt") or element.get("title")).strip()
        return f"![{alt}]({safe_markdown.address(_join(url, element.get('src') or ''))})"
    within = _within(element, url)
    if element.tag == "ref":
        target = (element.get("target") or "").strip()
        # What is in a link may not be one.
        text = _text("".join(element.itertext())) if list(element.iter("ref", "graphic"))[1:] else within
        return safe_markdown.link(" ".join(text.split()), "" if target.startswith("#") else _join(url, target))
    is_bold = element.tag == "hi" and element.get("rend") == "#b"
    # Marks beside other signs are none in Korean, where a particle follows at once.
    return f"**{within}**" if is_bold and re.fullmatch(r"\w(?:.*\w)?", within) else within
