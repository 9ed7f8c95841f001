"""Parse Markdown into the blocks that chunks, links and edits need, within bounded time and memory. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from spellbook.system.lazy import markdown_it

if TYPE_CHECKING:
    from markdown_it.token import Token

MOST_LINES = 300_000
"""The most lines that are parsed: several times those of the largest note."""

_MOST_TOKENS = 200_000
"""The most tokens of blocks: several times those of the largest note. A token takes half a kilobyte."""

MOST_MARKED = 200_000
"""Most letters of all headings that contain marks; each letter takes up to ten microseconds."""

REST = "rest"
"""The kind of the block that is all that follows where a note has more blocks than are looked for."""

CODE = frozenset({"fence", "code_block", "html_block", "math"})
"""The kinds of blocks that hold no running text."""

_LONG = 100_000
"""A text of so many letters is kept with its blocks until the next is parsed: an edit asks several times."""

_MOST_HEADING = 200
"""The most letters of a heading."""

_MOST_REFERENCE = 50
"""The most lines of a link's definition."""

_FORMULA = "\ue000"
"""Stands for a formula where the marks of a heading are read."""

_MARKED = re.compile(r"[\\`*_\[\]<>&~{]")


class Block(NamedTuple):
    """
    A top-level Markdown block of a body.

    `start` and `end` are lines of the body, 0-based, end exclusive; `level` and `text` are a heading's, `items` the
    first lines of a list's items, `code` the lines of code, formulas and HTML inside a list or a quote, `tables` those
    of tables, `prose` the lines of each other run of text in the block.
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


@cache
def block_parser() -> markdown_it.MarkdownIt:
    from spellbook.notes.block_rules import math, plain, rest, whole_table  # loads the parser

    def bounded(state: markdown_it.rules_block.StateBlock, start: int, end: int, silent: bool) -> bool:
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
    markdown.block.ruler.before("table", "whole_table", whole_table)
    markdown.block.ruler.before("fence", "math", math, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    markdown.block.ruler.before("whole_table", "plain", plain)
    markdown.block.ruler.before("plain", "rest", rest)
    return markdown


@cache
def _inline() -> markdown_it.MarkdownIt:
    return markdown_it.MarkdownIt("commonmark").enable("strikethrough")


def blocks(body: str) -> Iterator[Block]:
    """Yield the top-level blocks of Markdown without frontmatter; the last is `REST` where there are very many."""
    yield from _parse(body) if len(body) < _LONG else _parse_once(body)


@lru_cache(maxsize=1)
def _parse_once(body: str) -> tuple[Block, ...]:
    return tuple(_parse(body))


def forget() -> bool:
    """Release the blocks of the long text that was parsed last; return whether there were any."""
    was = _parse_once.cache_info().currsize
    _parse_once.cache_clear()
    return bool(was)


def _parse(body: str) -> Iterator[Block]:
    # Without its last line end the parser trips over an HTML block in a list in a quote.
    body = body if body.endswith("\n") else f"{body}\n"
    # What `normalize` does, without a look at every line.
    body = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    count = height(body)
    env: dict[str, int] = {"most": _MOST_TOKENS, REST: min(count, MOST_LINES)}
    tokens = block_parser().parse(body if count <= MOST_LINES else "".join(lines(body)[:MOST_LINES]), env)
    for block in _blocks(tokens, env):
        if block.end > env[REST]:
            block = _cut_at(env[REST], block)
        if block.end > block.start:
            yield block
    if env[REST] < count:
        yield Block(REST, env[REST], count, prose=((env[REST], count),))


def _cut_at(end: int, block: Block) -> Block:
    """Return the part of a block that is before a line."""

    def cut(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple((first, min(last, end)) for first, last in spans if first < end)

    items = tuple(line for line in block.items if line < end)
    return block._replace(end=end, items=items, code=cut(block.code), tables=cut(block.tables), prose=cut(block.prose))


def _blocks(tokens: Sequence[Token], env: dict[str, int]) -> Iterator[Block]:
    opened: Token | None = None  # the list or quote we are in
    items: list[int] = []
    code: list[tuple[int, int]] = []
    tables: list[tuple[int, int]] = []
    prose: list[tuple[int, int]] = []
    marked = 0
    for at, token in enumerate(tokens):
        kind = token.type.removesuffix("_open")
        if token.map is None:
            if token.level == 0 and opened and opened.map:
                start, end = opened.map
                runs = (tuple(code), tuple(tables), tuple(prose))
                yield Block(opened.type.removesuffix("_open"), start, end, 0, "", tuple(items), *runs)
                opened, items, code, tables, prose = None, [], [], [], []
            continue
        start, end = token.map
        if token.level == 1 and kind == "list_item":
            items.append(start)
        elif token.level and kind in CODE:
            code.append((start, end))
        elif token.level and kind == "table":
            tables.append((start, end))
        elif token.level and kind == "inline" and opened and not (tables and start < tables[-1][1]):
            prose.append((start, end))
        elif token.level == 0 and kind == "heading":
            source = tokens[at + 1].content if token.nesting else token.content
            marked += min(len(source), 3 * _MOST_HEADING) if _MARKED.search(source) else 0
            if marked > MOST_MARKED:
                env[REST] = min(env[REST], start)
                return
            yield Block(kind, start, end, int(token.tag[1]), heading_text(source), prose=((start, end),))
        elif token.level == 0 and token.nesting and (kind == "blockquote" or kind.endswith("_list")):
            opened = token
        elif token.level == 0:
            own = {"paragraph": "prose", "table": "tables"}
            yield Block(kind, start, end, **({own[kind]: ((start, end),)} if kind in own else {}) | token.meta)


def heading_text(source: str) -> str:
    """Return what a reader sees of a heading: no links, emphasis marks, comments or `{#id}`; at most 200 letters."""
    text = source[: 3 * _MOST_HEADING]
    formulas = [text[start:end] for start, end in literals(text) if text[start] == "$"]
    for formula in formulas:
        text = text.replace(formula, _FORMULA, 1)
    if _MARKED.search(text):
        text = re.sub(r"\{/\*.*?\*/\}|\{#[^}]*\}\s*$", "", text, flags=re.S)
        text = re.sub(r"!?\[\[([^\]|]*\|)?([^\]]*)\]\]", r"\2", text)
    if _MARKED.search(text):
        text = _visible_text(_inline().parseInline(text))
    for formula in formulas:
        text = text.replace(_FORMULA, formula, 1)
    return " ".join(text.split())[:_MOST_HEADING].rstrip()


_OPENING = re.compile(r"\\.|`++|\$(?:\$|(?![ \t]|$))", re.S)
_SINGLE, _DOUBLE = re.compile(r"\\.|(?<=[^ \t])\$(?!\d)", re.S), re.compile(r"\\.|\$\$", re.S)


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
    for mark, pattern in (("$", _SINGLE), ("$$", _DOUBLE)) if "$" in text else ():
        closing[mark] = [
            match.start() + len(match[0]) - len(mark) for match in pattern.finditer(text) if match[0] == mark
        ]
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
