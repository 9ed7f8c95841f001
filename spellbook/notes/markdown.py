"""
Parse Markdown into the blocks that chunks, links and edits need, and find marks in inline content. Pure.

The parser asks a dozen rules about each paragraph and makes several tokens of an item; here only a block's lines
matter. So plain text, lists, tables and code are one token each, which halves the time of a note. Blocks with more than
plain text are left to the parser's own rules. Formulas have a rule of their own.

Inline content is the text of a paragraph, a heading, an item or a cell of a table, as Obsidian reads it: `runs` yields
these texts, `marks` the links, tags and comments in one of them. Code, formulas, HTML and escaped signs hold none.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from spellbook.system.lazy import markdown_it, regex

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

MOST_PARSED = 1_000_000
"""The most letters of a body that is parsed. A longer one is plain text: headings of its sections are not found."""

REST = "rest"
"""The kind of the one block of a body that is too long to be parsed."""

CODE = frozenset({"fence", "code_block", "html_block", "math"})
"""The kinds of blocks that hold no running text."""

_MOST_HEADING = 200
"""The most letters of a heading."""

_MOST_REFERENCE = 50
"""The most lines of a link's definition."""

_FORMULA = "\ue000"
"""Stands for a formula where the marks of a heading are read."""

_MARKED = regex(r"[\\`*_\[\]<>&~{]")

_MOST_DEPTH = 8
"""Lists in lists that are taken at once; the parser goes no deeper than twenty levels, two for each list."""

# The beginning of a line that can only be running text, whatever the next line is, if that begins so too.
_TEXT = (
    r"(?:[^\x00-\x7f\s]|[A-Za-z\"'(),./;?@{}!%&\\\]^]|#(?=[^\s#])|\*\*?(?=[^\s*])|_(?=[^\W_])|`(?!``)|~(?!~~)|=++(?=\S)"
    r"|\$(?!\$)|\d++(?![.)])|\[(?:\[|[^\[\]\\\n]++\](?!:)))"
)
_ITEM = rf"(?:(?:> )?{_TEXT}.*\n(?:[ \t]*{_TEXT}.*\n)*+|#{{1,6}} #*[^\s#].*\n)"
_PLAIN = regex(
    rf"(?:(?P<paragraph>(?:{_TEXT}.*\n)++)|(?P<blockquote>(?:> {_TEXT}.*\n)++))(?=[ \t]*$)"
    r"|(?P<heading>#{1,6} [^\s#][^#\n]*+\n)(?!(?=.*[-:|])[-:| \t]+$)"
    rf"|(?P<bullet_list>(?P<mark>[-*+]) {_ITEM}(?:\n*(?: *|\t*)(?P=mark) {_ITEM})*+(?:\n++(?=[^\s*+-])|\n*+\Z))"
    r"|(?P<fence>(`{3,}+)[^`\n]*+\n(?:(?! {0,3}\7`*+[ \t]*$).*\n)*+ {0,3}\7`*+[ \t]*\n)"
    r"|(?P<table>\|[^\\\n]*\|\n\|(?:[ \t]*:?-+:?[ \t]*\|)++\n(?:\|.*\n)*+)(?=[ \t]*$)",
    re.M,
)

_CLOSES = regex(r"[^$]*+\$\$+\s*$")
_MOST_OPEN = 50
"""Lines of a paragraph before a formula that are searched for another. By hand."""


class Block(NamedTuple):
    """
    A top-level Markdown block of a body.

    `start` and `end` are lines of the body, 0-based, end exclusive; `level` and `text` are a heading's, `items` the
    first lines of a list's items, `code` the lines of code, formulas and HTML inside a list or a quote, `tables` those
    of tables, `prose` the lines of each other run of text.
    """

    kind: str
    start: int
    end: int
    level: int = 0
    text: str = ""
    items: tuple[int, ...] = ()
    code: tuple[tuple[int, int], ...] = ()
    tables: tuple[tuple[int, int], ...] = ()
    prose: tuple[tuple[int, int], ...] = ()


def lines(text: str) -> list[str]:
    """Split at CRLF, CR and LF only, as Markdown does, keeping the ends; `str.splitlines` cuts at more."""
    return list(StringIO(text, newline=""))


def height(text: str) -> int:
    """Return how many lines `lines` makes of a text."""
    return len(lines(text)) if "\r" in text else text.count("\n") + (not text.endswith("\n") and text != "")


def _plain(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a block as one token if it stands in no other and each of its lines is plain."""
    match = None if silent or state.level else _PLAIN.match(state.src, state.bMarks[start])
    if match is None:
        return False
    kind, text = match.lastgroup or "", match[0]
    stop = start + text.count("\n")
    items: tuple[int, ...] = ()
    prose: tuple[tuple[int, int], ...] = ((start, stop),) if kind not in {"fence", "table"} else ()
    if kind == "table" and len({line.count("|") for line in text.split("\n", 2)[:2]}) > 1:
        return False  # its head and its line of dashes have other numbers of cells
    if kind == "bullet_list":
        depths, ends = _items(text, start, f"{match['mark']} ")
        # Two more letters or a tab are a nested item; other depths are left to the parser's own rules.
        if max(depths.values()) > 2 * _MOST_DEPTH or any(
            depth % 2 or depth > before + 2 for before, depth in pairwise(depths.values())
        ):
            return False
        items = tuple(at for at, depth in depths.items() if not depth)
        prose = tuple(ends.items())
    state.line = stop
    token = state.push(kind, "", 0)
    token.map = [start, stop]
    token.meta = {"items": items, "prose": prose, "tables": ((start, stop),) if kind == "table" else ()}
    if kind == "heading":
        marks, _, token.content = text.strip().partition(" ")
        token.tag = f"h{len(marks)}"
    return True


def _items(text: str, start: int, mark: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return the depth of each item of a list that begins in line `start`, and where its text ends, by its line."""
    # A tab is as deep as two letters, but not beside some: then it is too deep.
    tab = " " * (3 * _MOST_DEPTH if f"  {mark}" in text else 2)
    depths: dict[int, int] = {}
    ends: dict[int, int] = {}
    item = start
    for at, line in enumerate(text.split("\n"), start):
        bare = line.lstrip(" \t")
        if bare.startswith(mark):
            item = at
            depths[at] = len(line.removesuffix(bare).replace("\t", tab))
        if bare:  # else a blank line, which ends the item's text
            ends[item] = at + 1
    return depths, ends


def _math(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a formula from a line that begins with `$$` to one that ends so, else to the end, as Obsidian does."""
    if not state.src.startswith("$$", state.bMarks[start] + state.tShift[start]) or state.is_code_block(start):
        return False
    if "$" in _line(state, start).lstrip("$"):
        return False
    if silent:  # whether no formula is open at the end of the paragraph before
        first = start
        while first > max(0, start - _MOST_OPEN) and not state.isEmpty(first - 1):
            first -= 1
        return state.src.count("$$", state.bMarks[first], state.bMarks[start]) % 2 == 0
    stop, line = start + 1, ""
    while stop < end and not _CLOSES.match(line) and (state.isEmpty(stop) or state.sCount[stop] >= state.blkIndent):
        line = _line(state, stop)
        stop += 1
    state.line = stop
    state.push("math", "", 0).map = [start, stop]
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


@cache
def block_parser() -> markdown_it.MarkdownIt:
    def bounded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        if state.src.startswith("[^", state.bMarks[start] + state.tShift[start]):
            return False  # a footnote is text
        # A definition whose title never closes takes quadratic time: 40 s a megabyte.
        state.lineMax, whole = min(state.lineMax, start + _MOST_REFERENCE), state.lineMax
        try:
            return markdown_it.rules_block.reference(state, start, end, silent)
        finally:
            state.lineMax = whole

    # Only the blocks matter here, and leaving inline rules out doubles the speed.
    markdown = markdown_it.MarkdownIt("commonmark").enable("table").disable(["inline", "text_join", "normalize"])
    markdown.block.ruler.at("reference", bounded)
    markdown.block.ruler.before("fence", "math", _math, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    markdown.block.ruler.before("table", "plain", _plain)
    return markdown


@cache
def _inline() -> markdown_it.MarkdownIt:
    return markdown_it.MarkdownIt("commonmark").enable("strikethrough")


def blocks(body: str) -> Iterator[Block]:
    """Yield the top-level blocks of Markdown without frontmatter, of a very long one a single `REST`."""
    count = height(body)
    if len(body) > MOST_PARSED:
        yield Block(REST, 0, count, prose=((0, count),))
        return
    # Without its last line end the parser trips over an HTML block in a list in a quote.
    body = body if body.endswith("\n") else f"{body}\n"
    # What `normalize` does, without a look at every line.
    body = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    yield from _blocks(block_parser().parse(body))


def _blocks(tokens: Sequence[Token]) -> Iterator[Block]:
    tops = [at for at, token in enumerate(tokens) if token.level == 0 and token.map]
    for at, following in pairwise([*tops, len(tokens)]):
        top, inner = tokens[at], tokens[at + 1 : following]
        kind, span = top.type.removesuffix("_open"), _span(top)
        if kind == "heading":
            source = inner[0].content if inner else top.content
            yield Block(kind, *span, int(top.tag[1]), heading_text(source), prose=(span,))
        elif inner:
            yield _container(kind, span, [top, *inner])
        else:
            yield Block(kind, *span, **top.meta)


def _container(kind: str, span: tuple[int, int], inner: Sequence[Token]) -> Block:
    """Return the block of a paragraph, a list, a quote or a table, with what its tokens say of its lines."""
    items = tuple(_span(token)[0] for token in inner if token.level == 1 and token.type == "list_item_open")
    code = tuple(_span(token) for token in inner if token.type in CODE)
    tables = tuple(_span(token) for token in inner if token.type == "table_open")
    cells = {line for start, end in tables for line in range(start, end)}
    prose = tuple(_span(token) for token in inner if token.type == "inline" and _span(token)[0] not in cells)
    return Block(kind, *span, 0, "", items, code, tables, prose)


def _span(token: Token) -> tuple[int, int]:
    start, end = token.map or (0, 0)
    return start, end


def heading_text(source: str) -> str:
    """Return the visible text of a heading: no links, emphasis marks, comments or `{#id}`; at most 200 letters."""
    text = source[: 3 * _MOST_HEADING]
    formulas = [text[start:end] for start, end in literals(text) if text[start] == "$"]
    for formula in formulas:
        text = text.replace(formula, _FORMULA, 1)
    if _MARKED.search(text):
        text = re.sub(r"\{/\*.*?\*/\}|\{#[^}]*\}\s*$", "", text, flags=re.S)
        text = re.sub(r"!?\[\[([^\]|]*\|)?([^\]]*)\]\]", r"\2", text)
        text = _visible_text(_inline().parseInline(text))
    for formula in formulas:
        text = text.replace(_FORMULA, formula, 1)
    return " ".join(text.split())[:_MOST_HEADING].rstrip()


_OPENING = regex(r"\\.|`++|\$(?:\$|(?![ \t]|$))", re.S)
_SINGLE, _DOUBLE = regex(r"\\.|(?<=[^ \t])\$(?!\d)", re.S), regex(r"\\.|\$\$", re.S)


def literals(text: str) -> Iterator[tuple[int, int]]:
    """
    Yield the spans of code and formulas in an inline content, with their marks. Linear, which a regex is not.

    As in Obsidian, `$5 and $6` is money: no blank follows the `$` that opens a formula, and the one that closes it
    follows no blank and stands before no digit.
    """
    if "`" not in text and "$" not in text:
        return
    closing: dict[str, list[int]] = {}  # the places of each mark that can close, in order
    for run in re.finditer("`+", text):
        closing.setdefault(run[0], []).append(run.start())
    if "$" in text:
        closing["$"] = [match.start() for match in _SINGLE.finditer(text) if match[0] == "$"]
        closing["$$"] = [match.start() for match in _DOUBLE.finditer(text) if match[0] == "$$"]
    at = 0
    while opening := _OPENING.search(text, at):
        at, mark = opening.end(), opening[0]
        places = closing.get(mark, ())
        following = bisect_left(places, at + (mark == "$"))
        if following < len(places):
            at = places[following] + len(mark)
            yield opening.start(), at
        elif mark == "$$":
            at -= 1


def _visible_text(tokens: Iterable[Token]) -> str:
    def one(token: Token) -> str:
        if token.type == "html_inline" or token.type.endswith("break"):
            return " " if token.type.endswith("break") or token.content.lower().startswith("<br") else ""
        return _visible_text(token.children) if token.children else token.content

    return "".join(map(one, tokens))


# -- inline content

WIKILINK = regex(
    r"!?\[\[(?P<target>(?:(?!\[\[|\]\])[^\r\n|#\\]|\\(?!\|))*+)(?P<fragment>#(?:(?!\]\])[^\r\n|\\]|\\(?!\|))*+)?(?:\\?\|[^\r\n]*?)?\]\]"
)
ELSEWHERE = regex(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_CLOSING = regex(r"\]\]|[\r\n]")
_LINK_TITLE = r"""(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?"""
_ADDRESS = (
    r"(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*\))"
    r"(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*\))*"
)
_INLINE = regex(rf"\(\s*(?:<(?P<angle>[^<>\r\n]*)>|(?P<plain>{_ADDRESS})){_LINK_TITLE}\s*\)", re.S)
_HTML = r"""/?[A-Za-z][\w-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*\s*/?>"""
# Obsidian's own rule: all letters but white space, these signs, and two ranges of punctuation; a number is no tag.
TAG = r"""[0-9]*+/*+[^\s\ufeff\u2000-\u206f\u2e00-\u2e7f'!"#$%&()*+,.:;<=>?@^`{|}~\[\]\\]++"""
# A search for a set of letters is several times as fast as one for alternatives.
_TOKEN = regex(
    r"[\\%<\[\]#](?:(?<=\\)[!-/:-@\[-`{-~]|(?P<comment>(?<=%)%)"
    rf"|(?<=<)(?:(?P<html>!--)|[A-Za-z][A-Za-z0-9+.-]{{1,31}}:[^\s<>]*>|{_HTML})"
    rf"|(?P<wiki>(?<=\[)\[)|(?P<open>(?<=\[))|(?P<close>(?<=\]))|(?P<tag>(?<=#){TAG}))"
)
_SPAN, _IMAGE = regex(r"[^\[\]]*+\]"), regex(r"[^\[\]]*+\][(\[]")
_BAR = regex(r"(?<!\\)\|")
_EDGE = regex(r"[ \t>]*+(?:\[\^[^\]\s]++\]:|(?P<before>\[![^\]\r\n]++\]|[\r\n]))")
_QUOTED = regex(r"(?:^|[\r\n])[ \t>]*>$")
_MOST_BEFORE = 20
"""Letters before a tag that are read for marks of quotes and of emphasis. By hand."""

_PAIRS = {
    "*": (regex(r"\*(?=\S)"), regex(r"(?<=\S)\*")),
    "_": (regex(r"(?<!\\)_(?=\S)"), regex(r"(?<=\S)_(?![A-Za-z0-9])")),
    "~": (regex(r"~~(?=\S)"), regex(r"(?<=\S)~~")),
    "=": (regex(r"==(?=\S)"), regex(r"(?<=\S)==")),
}
"""By the sign of an emphasis, where it can open and where it can close."""


def runs(
    blocks: Iterable[Block], text: str, offsets: Sequence[int], is_wanted: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each wanted inline content of wanted blocks; their lines begin at `offsets` of `text`."""
    for block in blocks:
        if is_wanted(offsets[block.start], offsets[block.end]):
            for first, last in block.prose:
                if is_wanted(offsets[first], offsets[last]):
                    yield from _parted(text, offsets, first, last)
            for line in (line for span in block.tables for line in range(*span)):
                start, end = offsets[line], offsets[line + 1]
                bars = (bar.end() for bar in _BAR.finditer(text, start, end))
                yield from (cell for cell in pairwise((start, *bars, end)) if is_wanted(*cell))


def _parted(text: str, offsets: Sequence[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the texts in some lines: a footnote, and lines after a blank line or a callout's title, are each one."""
    for line in range(first, last if last - first > 1 else first):
        if edge := _EDGE.match(text, offsets[line]):
            here = line + (edge["before"] is not None)
            yield offsets[first], offsets[here]
            first = here
    yield offsets[first], offsets[last]


def marks(text: str, first: int, last: int) -> Iterator[tuple[str, re.Match[str]]]:
    """
    Yield the links, tags and comments in `text[first:last]`, one inline content, each with its kind.

    A "wiki" is a match of `WIKILINK`, a "link" has the group `angle` or `plain`, a "tag" the group `tag`, and a
    "comment" is one `%%`.
    """
    skipped = [(first + start, first + end) for start, end in reversed([*literals(text[first:last])])]
    closed = _Closed(text, first, last) if text.find("[[", first, last) >= 0 else ()
    emphasis = None
    opened, at, free, alt = 0, first, first, first  # `free` is where the last mark ended, `alt` a picture's label
    is_closed = True
    while token := _TOKEN.search(text, at, last):
        start, at, kind = token.start(), token.end(), token.lastgroup
        while skipped and skipped[-1][1] <= start:
            free = max(free, skipped.pop()[1])
        if skipped and skipped[-1][0] <= start:
            at = skipped[-1][1]
        elif kind == "html":
            end = text.find("-->", start + 2, last) if is_closed else -1
            is_closed = end >= 0  # text without a closing mark is not a comment; it is not searched again
            at = free = end + 3 if is_closed else at
        elif kind == "comment":
            yield kind, token
        elif kind == "tag":
            emphasis = emphasis or _Emphasis(text, first, last)
            if start >= alt and (start == free or emphasis.may_begin(start)):
                at = free = emphasis.end(token)
                yield kind, _TOKEN.match(text, start, at) or token
        elif kind == "open":
            opened += 1
            image = _IMAGE.match(text, at, last) if text[start - 1 : start] == "!" else None
            alt = image.end() if image else alt
        elif kind == "close":
            if opened and (inline := _INLINE.match(text, at, last)):
                yield "link", inline
                at = inline.end()
            free = at if opened and text[start - 1] != "[" else free
            opened = max(0, opened - 1)
        elif kind == "wiki":
            wiki = WIKILINK.match(text, start, last) if start in closed else None
            opened += 0 if wiki else 2
            if wiki:
                at = free = wiki.end()
                inline = _INLINE.match(text, at, last)
                if not (inline and ELSEWHERE.match(inline["plain"] or inline["angle"] or "")):
                    yield kind, wiki  # [[1]](https://…) is none
        else:
            free = at


def wikilinks(text: str, first: int, last: int) -> Iterator[re.Match[str]]:
    """Yield the wikilinks in a text that has no marks of Markdown."""
    closed = _Closed(text, first, last)
    while (first := text.find("[[", first, last)) >= 0:
        wiki = WIKILINK.match(text, first, last) if first in closed else None
        if wiki:
            yield wiki
        first = wiki.end() if wiki else first + 1


class _Closed:
    """Knows which positions of a text have a `]]` later on their line, so no other lines are scanned in vain."""

    def __init__(self, text: str, first: int, last: int) -> None:
        self._marks = [(mark.start(), mark[0] == "]]") for mark in _CLOSING.finditer(text, first, last)]

    def __contains__(self, at: int) -> bool:
        next_mark = bisect_right(self._marks, (at, True))
        return next_mark < len(self._marks) and self._marks[next_mark][1]


class _Emphasis:
    """Knows which signs beside a tag are emphasis: one can open it and another close it later in the same text."""

    def __init__(self, text: str, first: int, last: int) -> None:
        self._text, self._first, self._last = text, first, last
        self._places: dict[str, tuple[int, int]] = {}

    def may_begin(self, at: int) -> bool:
        """Say whether a tag at the character `at` begins after a blank, in brackets, in a quote or in emphasis."""
        before = self._text[max(self._first, at - _MOST_BEFORE) : at]
        if before[-1] in _PAIRS:
            opens, closes = self._ends(before[-1])
            return closes > at or opens < at - len(before) + len(before.rstrip(before[-1]))
        if before[-1] == "[":
            return before[-2:-1] != "]" and _SPAN.match(self._text, at, self._last) is not None
        return before[-1].isspace() or _QUOTED.search(before) is not None

    def end(self, tag: re.Match[str]) -> int:
        """Return where a tag ends: before the `_` that closes an emphasis which began before it."""
        end = tag.start() + len(tag[0].rstrip("_"))
        return end if self._ends("_")[0] < tag.start() else tag.end()

    def _ends(self, sign: str) -> tuple[int, int]:
        """Return the first place where an emphasis can open, and the last where one can close."""
        if sign not in self._places:
            opens, closes = ([*pattern.finditer(self._text, self._first, self._last)] for pattern in _PAIRS[sign])
            self._places[sign] = opens[0].start() if opens else self._last, closes[-1].start() if closes else -1
        return self._places[sign]
