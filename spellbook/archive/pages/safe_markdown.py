"""
Markdown that runs nothing and loads nothing: not in Obsidian or its plugins, not in Spellbook, not in a browser.

The text is parsed and written anew from what the parser understood, and each character that could start something is
escaped. So no other parser can find more in it. Headings, lists, quotes, tables, code, emphasis and links to the web
stay; images become links. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count as count_from
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import quote

from spellbook.notes.frontmatter import header_in
from spellbook.notes.note import parse
from spellbook.system.lazy import markdown_it, regex
from spellbook.text.quoting import fence_of, shortened
from spellbook.text.terms import HANGUL

if TYPE_CHECKING:
    from markdown_it.token import Token

_LANGUAGES = """
    abap ada asm awk bash bat batch c c# c++ clj clojure cmake cobol coffeescript console cpp cs csharp css csv cuda d
    dart diff docker dockerfile elixir elm erl erlang ex f# fish fortran fsharp gd gdscript glsl go golang gradle
    graphql groovy haskell haxe hcl hlsl hs html http ini java javascript jinja jl js json json5 jsonc jsx julia kotlin
    kt less lisp log lua makefile markdown matlab md nginx nim nix objc objective-c ocaml octave pascal patch perl php
    plaintext powershell prisma prolog properties proto protobuf ps1 puppet py python python3 r rb regex rs rst ruby
    rust sass scala scheme scss sh shell solidity sql svelte swift tcl terraform tex text toml ts tsx txt typescript v
    vb verilog vhdl vim vue wasm wgsl xml yaml yml zig zsh
"""
LANGUAGES = frozenset(_LANGUAGES.split())
"""Languages that a code block may name. Plugins of Obsidian run others: dataviewjs, tasks, button, mermaid, query."""

_MOST_TITLE = 300
"""Letters of a title."""

_MOST_NESTED = 100
"""Lists and quotes in one another."""

_UNSEEN = regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e01ef]"
)
"""Letters that a person does not see and a model reads, or that change the direction of writing; not joiners."""

_ALWAYS = regex(
    r"[\\`*\[\]$]|~(?=~)|(?<=~)~|(?<!\w)_|_(?!\w)|(?<![^\W_])#|(?<!\S)\^|<(?=[a-z/!?])|&(?=#?\w+;)|!\Z", re.I
)
_PLUGINS = (
    (regex(r"%(?=%)|(?<=%)%"), r"\\%"),  # comments of Obsidian
    (regex(r"(?<=:):(?=[\s\])]|\Z)"), r"\\:"),  # inline fields of Dataview
    (regex(r"(?i)\b(?!https?:|ftp:)([a-z][a-z0-9+.-]+):(?=//)"), r"\1\\:"),  # obsidian://, file://
)
_LINE_START = regex(r"(?m)^(\d{1,9}(?=[.)](?:\s|\Z))|(?=[-+>=|:~#]))")
"""Where a line would start a list or a heading: behind its number, or before its sign."""

_TEMPLATE = "<%"
"""Templater runs what follows it, anywhere in the raw text of a new file, also in code and behind a backslash."""

_LINK = regex(r"(?i)(?:https?://[^\s/]|mailto:[^\s@]+@)")
_UNSAFE_IN_LINK = regex(r"""[\x00-\x20<>()\[\]\\"'`{}|^%$*_~#]+""")
_QUERY = regex(r"\s*\$?=")
_ENTITY = regex(r"&(?=#?\w+;)")


def safe(text: str) -> str:
    """
    Return Markdown that runs and loads nothing, ended by a line feed ("" for nothing); safe text stays as it is.

    Frontmatter is left out, and text in more than 100 lists and quotes. Hostile text can take long and much memory: run
    it within limits (`parser_process`).
    """
    text = visible(text)
    if header_in(text):
        note = parse("", text.encode())
        text = note.body if note.meta or note.faults else text  # a comment between two rules is text
    text = text.strip("\n")
    label = "그림" if re.search(f"[{HANGUL}]", text) else "image"  # the name of an image
    page = "\n\n".join(filter(None, _blocks(iter(_parser().parse(text)), label)))
    return f"{page}\n" if page else ""


def visible(text: str) -> str:
    """Return `text` in NFC with line feeds as line ends, without letters that nobody sees."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return unicodedata.normalize("NFC", _UNSEEN.sub("", text))


def line(text: str, most: int = _MOST_TITLE) -> str:
    """Return a title or name on one line for frontmatter, where `[[…]]` is a link and Templater runs commands."""
    return shortened(" ".join(re.sub(r"([\[\]])\1+", r"\1", visible(text)).replace(_TEMPLATE, "< %").split()), most)


def escaped(text: str) -> str:
    """Return plain text, of one or more lines, as Markdown that shows the same and does nothing."""
    return _LINE_START.sub(r"\1\\", _escape_marks(text))


def _escape_marks(text: str) -> str:
    text = _ALWAYS.sub(r"\\\g<0>", text)
    for pattern, new in _PLUGINS:
        text = pattern.sub(new, text)
    return text.replace(_TEMPLATE, "<\\%")


def link(text: str, url: str) -> str:
    """Return a link with `text`, which is Markdown; the text alone if `url` leads anywhere but to the web."""
    url = "".join(url.split())
    if not _LINK.match(url):
        return text
    return f"[{text.strip() or escaped(url)}]({address(url)})"


def code(text: str, language: str = "") -> str:
    """Return a code block, whose language is kept only if it is a programming language."""
    language = language.lower() if language.lower() in LANGUAGES else ""
    text = text.replace(_TEMPLATE, "<\\%").strip("\n")
    fence = fence_of(text)
    return f"{fence}{language}\n{text}\n{fence}"


def quote_block(text: str) -> str:
    """Return Markdown as a quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def list_item(mark: str, text: str) -> str:
    """Return Markdown as an item of a list that begins with `mark`."""
    first, *rest = text.split("\n")
    return "\n".join([mark + first, *(" " * len(mark) + line if line else "" for line in rest)])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown; the first row is its head."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


def address(url: str) -> str:
    """Return an address as it stands in a Markdown link."""
    # Escape what Markdown, Obsidian and Dataview could read as marks, but keep `%20` and `#part`.
    kept = re.sub(r"%(?=[0-9A-Fa-f]{2})", "\0", url)
    kept = re.sub(r"#(?=[^#]*\Z)", "\1", kept, count=1)
    kept = _UNSAFE_IN_LINK.sub(lambda run: "".join(c if c in "_*~\0\1" else quote(c, safe="") for c in run[0]), kept)
    return _ENTITY.sub("&amp;", kept.replace("\0", "%").replace("\1", "#"))


@cache
def _parser() -> markdown_it.MarkdownIt:
    # Raw HTML is text here. Links of any scheme are parsed, so that those that are not kept leave their text.
    markdown = markdown_it.MarkdownIt("commonmark", {"html": False, "maxNesting": _MOST_NESTED})
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    return markdown.enable(["table", "strikethrough"])


# -- blocks

_TIGHT = "\0"
"""Ends a paragraph of a list without blank lines, while it is written."""

_AFTER_TIGHT = regex(f"{_TIGHT}\n\n(?=[-+*>] |1[.)] |```)")
"""Matches before a block that needs no blank line to begin."""


def _blocks(tokens: Iterator[Token], label: str, end: str = "", line_end: str = "\n") -> Iterator[str]:
    """Yield each block as Markdown until the token `end`; a line of a text ends with `line_end`."""
    for token in tokens:
        kind = token.type
        if kind == end:
            return
        if kind == "inline":
            yield _inline(token.children or (), label, line_end)
        elif kind in {"fence", "code_block"}:
            yield code(token.content, (token.info.split() or [""])[0])
        elif kind == "hr":
            yield "***"
        elif kind == "heading_open":
            title = "".join(_blocks(tokens, label, "heading_close", " "))
            yield f"{'#' * int(token.tag[1])} {title}" if title else ""
        elif kind == "paragraph_open":
            yield "\n\n".join(_blocks(tokens, label, "paragraph_close")) + (_TIGHT if token.hidden else "")
        elif kind == "blockquote_open":
            quoted = "\n\n".join(filter(None, _blocks(tokens, label, "blockquote_close")))
            yield quote_block(quoted) if quoted else ""
        elif kind in {"bullet_list_open", "ordered_list_open"}:
            yield _list(tokens, label, token)
        elif kind == "table_open":
            yield _table(tokens, label)


def _list(tokens: Iterator[Token], label: str, opened: Token) -> str:
    is_ordered = opened.type == "ordered_list_open"
    number = int(opened.attrGet("start") or 1) if is_ordered else 0
    close = opened.type.replace("open", "close")
    items = []
    is_tight = False
    for token in tokens:
        if token.type == close:
            break
        mark = f"{number}{opened.markup} " if is_ordered else f"{opened.markup} "
        body = "\n\n".join(filter(None, _blocks(tokens, label, "list_item_close")))
        is_tight |= _TIGHT in body
        body = _AFTER_TIGHT.sub("\n", body).replace(_TIGHT, "")
        if body:
            items.append(list_item(mark, body))
            number += 1
    return ("\n" if is_tight or not any("\n\n" in item for item in items) else "\n\n").join(items)


def _table(tokens: Iterator[Token], label: str) -> str:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            cell = _inline(token.children or (), label, " ")
            rows[-1].append(re.sub(r"(?<!\\)((?:\\\\)*)\|", r"\1\\|", cell))
    return table(rows)


# -- inline

BREAK = "  \n"
"""A line's end within a paragraph."""

_MARKS = {"em": "*", "strong": "**", "s": "~~"}


class PlainText(str):
    """Text that is still to be escaped, together with what stands beside it."""


def _inline(tokens: Sequence[Token], label: str, line_end: str) -> str:
    parts: list[str] = []
    opened: list[tuple[int, str]] = []  # where each open link begins, and its address
    for token in tokens:
        kind = token.type
        if kind == "softbreak" or (kind == "hardbreak" and line_end == " "):
            parts.append(PlainText(line_end))
        elif kind == "hardbreak":
            parts.append(BREAK)
        elif kind == "code_inline":
            # Dataview runs `= …` and `$= …`.
            parts.append(PlainText(token.content) if _QUERY.match(token.content) else code_span(token.content))
        elif mark := _MARKS.get(kind.partition("_")[0]):
            if kind.endswith("_close") and parts[-1:] == [mark] and not isinstance(parts[-1], PlainText):
                parts.pop()  # there is nothing in it
            else:
                parts.append(mark)
        elif kind == "link_open":
            opened.append((len(parts), str(token.attrGet("href") or "")))
        elif kind == "link_close":
            at, url = opened.pop()
            if _LINK.match(url):
                parts[at:] = [link(join_parts(parts[at:]), url)]
        elif kind == "image":
            parts.append(_image(token, label, is_linked=bool(opened)))
        else:
            parts.append(PlainText(token.content))
    return join_parts(parts, begins_line=line_end == "\n")


def _image(token: Token, label: str, *, is_linked: bool) -> str:
    """Return an image as a link, which nothing loads by itself; as text where that is impossible."""
    alt = "".join(part.content for part in token.children or ())
    url = str(token.attrGet("src") or "")
    if is_linked or not _LINK.match(url):  # a link in a link would be two brackets in a row
        return PlainText(f"{label}: {alt}" if alt else label)
    return link(f"{label}: {escaped(' '.join(alt.split()))}" if alt.strip() else label, url)


def join_parts(parts: Sequence[str], begins_line: bool = True) -> str:
    """
    Return Markdown of `parts`, which are Markdown unless they are `PlainText`.

    Runs of plain text are escaped as a whole, since a character's neighbours decide whether it is harmless. With
    `begins_line`, the text must not start a list or a heading.
    """
    done = ""
    for is_plain, run in groupby(parts, lambda part: isinstance(part, PlainText)):
        if is_plain:
            text = re.sub(r"[ \t]*\n[ \t]*", "\n", "".join(run))
            is_first = begins_line if not done.strip() else done.endswith("\n")
            text = text if done.strip() else text.lstrip()
            first, line_end, rest = text.partition("\n")
            done += escaped(text) if is_first else _escape_marks(first) + (line_end and f"\n{escaped(rest)}")
            continue
        for mark in run:
            if mark == BREAK:
                done = done.rstrip(" \t")
                mark = "" if done.endswith("\n") else BREAK
            done += mark
    return done.strip()


def code_span(text: str) -> str:
    """Return code within a line."""
    text = text.replace(_TEMPLATE, "<\\%")
    runs = {len(run) for run in re.findall("`+", text)}
    ticks = "`" * next(count for count in count_from(1) if count not in runs)
    # A backslash before the last tick escapes nothing, and not everybody knows that.
    pad = " " if text[:1] == "`" or text[-1:] in {"`", "\\"} or (text.strip() and text[0] == text[-1] == " ") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"
