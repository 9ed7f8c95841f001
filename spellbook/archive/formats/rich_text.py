"""
HTML of other programs' notes as Markdown: ENML of Evernote, the HTML of Apple Notes.

The HTML becomes the tree that web pages are written from, and `pages.html.MarkdownWriter` writes it, so that text which
looks like Markdown shows as it was. Here comes what notes have and articles do not: lines that are `div`s, checkboxes,
files beside the note, links to other notes. Nothing of the text is left out, however broken the HTML. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from spellbook.archive.formats import markup
from spellbook.archive.pages import safe
from spellbook.archive.pages.html import MarkdownWriter, emphasize
from spellbook.archive.pages.safe import PlainText, escaped, join_parts, visible

_MOST_DEEP = 80
"""How deep elements are nested in the tree; what is deeper is text of the last one."""

_MOST_OPEN = 500
"""How many elements are open at once."""

_DIVISIONS = (
    *("html", "body", "en-note", "div", "section", "article", "header", "footer", "main", "aside", "nav", "figure"),
    *("figcaption", "center", "address", "dl", "form", "details", "summary", "caption"),
)
_BLOCKS = {
    **dict.fromkeys(("p", "dt", "dd"), "p"),
    **dict.fromkeys(_DIVISIONS, "div"),
    **{f"h{level}": "head" for level in range(1, 7)},
    **{"ul": "list", "ol": "list", "menu": "list", "li": "item", "blockquote": "quote", "pre": "code"},
    **{"table": "table", "tr": "row", "td": "cell", "th": "cell", "hr": "rule", "en-crypt": "code"},
}
_INLINE = {
    **dict.fromkeys(("b", "strong"), ("hi", "#b")),
    **dict.fromkeys(("i", "em"), ("hi", "#i")),
    **dict.fromkeys(("s", "strike", "del"), ("hi", "#s")),
    **dict.fromkeys(("code", "tt", "kbd", "samp"), ("code", "")),
    "a": ("ref", ""),
}
_HOLDERS = frozenset({*_BLOCKS, ""})
"""Tags of elements that may hold blocks; an element that this module adds has the tag ""."""

_MARKS = {"#b": "**", "#i": "*", "#s": "~~"}
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
    | {"en-todo", "en-media"}
)
_HIDDEN = frozenset({"script", "style", "title", "template", "noscript"})
_OF_TABLES = frozenset({"table", "tr", "td", "th"})
_WHOLE = frozenset({"html", "body", "en-note"})
_LEAF = frozenset({"div", "p"})
_TREE_BLOCKS = frozenset(_BLOCKS.values())
_CODE_STYLE = re.compile(r"-en-code-?block\s*:\s*true", re.I)
_LANGUAGE_STYLE = re.compile(r"-en-codeblockLanguage\s*:\s*([\w+#-]{1,30})", re.I)
_TASKS_STYLE = re.compile(r"-en-todo\s*:\s*true", re.I)
_DONE = re.compile(r"-en-checked\s*:\s*true", re.I)
_DONE_CLASS = re.compile(r"\b(?:done|checked|completed)\b", re.I)
_TASK_GROUP = re.compile(r"-en-task-?group\s*:\s*true", re.I)
_ID_STYLE = re.compile(r"-en-id\s*:\s*([\w-]{1,80})", re.I)
_BOLD_STYLE = re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)", re.I)
_ITALIC_STYLE = re.compile(r"font-style\s*:\s*italic", re.I)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.I)
_DROPPED = frozenset({"javascript", "vbscript", "data", "blob"})
"""Schemes of addresses that are scripts or data; only the text of such a link stays."""

_SHOWN = frozenset({"file", "obsidian", "about"})
"""Schemes of addresses that do something, or lead to what is not there; they stay as text."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file beside the note: its name, its path as a Markdown link spells it, and whether it is an image."""

    name: str
    destination: str
    is_image: bool


@dataclass(frozen=True, slots=True)
class HtmlReferences:
    """
    What a note's HTML refers to.

    `follow` gives for an address and the text of its link what to link to instead, "" for the address itself. `file`
    gives the file that an element with these attributes shows, None if there is none. `tasks` are the tasks
    of a group, by its id: whether each is done, and its title.
    """

    follow: Callable[[str, str], str] = lambda address, text: ""
    file: Callable[[Mapping[str, str]], AttachedFile | None] = lambda attributes: None
    tasks: Mapping[str, list[tuple[bool, str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note as Markdown, its title, and its `meta` by lower-case name."""

    markdown: str
    title: str
    meta: Mapping[str, str]


def convert(source: str, around: HtmlReferences, title: str = "", name: str = "") -> NoteText:
    """
    Return HTML as Markdown, without a first line that repeats the title.

    The title is `title`, else that of the HTML, else `name`.
    """
    tree = _TreeBuilder(around.tasks)
    markup.read(source, tree)
    _arrange(tree.root)
    blocks = list(_NoteWriter(around).blocks(tree.root))
    named = title or " ".join(tree.title.split()) or name
    first, _, rest = blocks[0].partition(safe.BREAK) if blocks else ("", "", "")
    if first and _plain(first) == _plain(named):
        blocks[:1] = [rest] if rest else []
    return NoteText("\n\n".join(blocks), named, tree.meta)


def _plain(text: str) -> str:
    return re.sub(r"[\\*#~`_\s]", "", text)


# -- the tree


class _TreeBuilder:
    """Builds the tree of `pages.html`. It closes open elements roughly where browsers close them."""

    def __init__(self, tasks: Mapping[str, list[tuple[bool, str]]]) -> None:
        self.root = Element("body")
        self.title = ""
        self.meta: dict[str, str] = {}
        self._open: list[tuple[str, Element]] = [("", self.root)]
        self._hidden = ""
        self._code = 0
        self._tasks = tasks

    @property
    def _top(self) -> Element:
        return self._open[-1][1]

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take a tag that opens."""
        if tag in _HIDDEN:
            self._hidden = tag
        elif self._code:
            self._in_code(tag, attributes)
        elif self._top.tag == "head" and _BLOCKS.get(tag) in _LEAF:
            self._inline(tag, {})
        elif tag in _BLOCKS:
            self._hidden = ""
            self._block(tag, attributes)
        elif tag == "br":
            tag_of_top, top = self._open[-1]
            if top.tag in _LEAF and _begins_with_task(top):
                self._open.pop()
                if tag_of_top:
                    self._push(tag_of_top, "div", {})
            else:
                self._add("lb")
        elif tag in {"en-todo", "input"}:
            if tag == "en-todo" or attributes.get("type", "").lower() == "checkbox":
                self._begin_task(attributes.get("checked", "false").lower() != "false")
        elif tag == "img":
            self._add("graphic", attributes)
        elif tag == "en-media":
            self._add("media", attributes)
        elif tag == "meta":
            if name := attributes.get("name") or attributes.get("property") or attributes.get("itemprop"):
                self.meta.setdefault(name.lower(), attributes.get("content", "").strip())
        elif tag not in _VOID:
            self._inline(tag, attributes)

    def end(self, tag: str) -> None:
        """Take a tag that closes."""
        if tag == self._hidden:
            self._hidden = ""
            return
        if self._code and tag in _BLOCKS:
            self._end_line()
        for at in range(len(self._open) - 1, 0, -1):
            name, element = self._open[at]
            if name == tag:
                if not (self._code and at < self._code):
                    del self._open[at:]
                    self._code = 0 if len(self._open) <= self._code else self._code
                return
            if element.tag == "cell" and name in {"td", "th"} and tag not in _OF_TABLES:
                return

    def data(self, data: str) -> None:
        """Take text."""
        if self._hidden:
            self.title += data[: max(0, 1_000 - len(self.title))] if self._hidden == "title" else ""
            return
        if self._code:
            data = data.replace("\xa0", " ")  # how editors keep an indentation
        elif data.strip():
            self._place("")
        _append(self._top, data)

    # -- steps of these

    def _add(self, tag: str, attributes: Mapping[str, str] | None = None) -> None:
        self._place("")
        SubElement(self._top, tag, dict(attributes or {}))

    def _push(self, tag: str, element: str, attributes: Mapping[str, str]) -> Element:
        # What is text in a table is in a cell in a row, so a table needs more room than a row.
        room = _MOST_DEEP - {"list": 4, "table": 4, "row": 2}.get(element, 0)
        made = SubElement(self._top, element, dict(attributes)) if len(self._open) < room else self._top
        if len(self._open) < _MOST_OPEN:
            self._open.append((tag, made))
        return made

    def _within(self, *kinds: str) -> int:
        """Return the position of the innermost open element of these kinds that is in no cell of its own, or 0."""
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at][1].tag in kinds:
                return at
            if self._open[at][1].tag == "cell":
                return 0
        return 0

    def _place(self, kind: str) -> None:
        """Make the innermost open element one that may hold a block of this kind, or a text."""
        top = self._top
        if top.tag == "list" and kind != "item":
            if kind == "list" and len(top):
                self._open.append(("", top[-1]))  # it belongs to the item before it
            else:
                self._push("", "item", {})
        elif top.tag == "table" and kind != "row":
            self._push("", "row", {})
            if kind != "cell":
                self._push("", "cell", {})
        elif top.tag == "row" and kind != "cell":
            self._push("", "cell", {})

    def _block(self, tag: str, attributes: Mapping[str, str]) -> None:
        kind, style = _BLOCKS[tag], attributes.get("style", "")
        while len(self._open) > 1 and (
            self._open[-1][0] not in _HOLDERS
            or self._top.tag in {"p", "head"}
            or (self._open[-1][0] == "" and self._top.tag == "div")
        ):
            self._open.pop()
        if kind in {"table", "row", "cell"}:
            table = next((element for name, element in reversed(self._open) if name == "table"), None)
            is_inner = table is not None and (kind == "table" or table.tag != "table")
            kind = "div" if is_inner else kind  # a table in a cell is text of the cell
        if kind == "item" and (at := self._within("list")):
            del self._open[at + 1 :]
        elif kind == "item":
            self._place("list")
            self._push("", "list", {"rend": "ul"})
        elif kind == "row" and (at := self._within("table", "cell")):
            del self._open[at + 1 :]
            while self._top.tag not in {"table", "body"}:
                self._open.pop()
        elif kind == "cell" and (at := self._within("row", "cell")):
            del self._open[(at if self._open[at][1].tag == "row" else at - 1) + 1 :]
        elif kind in {"row", "cell"} and self._top.tag not in {"table", "row"}:
            kind = "div"
        self._place(kind)
        if kind == "rule":
            SubElement(self._top, "rule")
        elif tag == "en-crypt":
            about = ", ".join(filter(None, (attributes.get("cipher"), attributes.get("length"))))
            hint = f" Hint: {attributes['hint']}" if attributes.get("hint") else ""
            SubElement(self._top, "p").text = f"Encrypted in Evernote{f' ({about})' if about else ''}.{hint}"
            self._begin_code(tag, {})
        elif kind == "code" or _CODE_STYLE.search(style):
            self._begin_code(tag, attributes)
        elif _TASK_GROUP.search(style) and (group := _ID_STYLE.search(style)):
            for is_done, title in self._tasks.get(group[1], ()):
                line = SubElement(self._top, "div")
                SubElement(line, "todo", rend="x" if is_done else " ").tail = title
            self._push(tag, kind, {})
        else:
            made = self._push(tag, kind, _kept(tag, attributes))
            if kind == "item" and len(self._open) > 1 and self._open[-2][1].get("tasks"):
                is_done = bool(_DONE.search(style) or _DONE_CLASS.search(attributes.get("class", "")))
                SubElement(made, "todo", rend="x" if is_done else " ")

    def _inline(self, tag: str, attributes: Mapping[str, str]) -> None:
        element, rend = _INLINE.get(tag, ("", ""))
        style = attributes.get("style", "")
        if not element and style:
            rend = "#b" if _BOLD_STYLE.search(style) else "#i" if _ITALIC_STYLE.search(style) else ""
            element = "hi" if rend else ""
        if element == "ref":
            if (at := next((at for at, (name, _) in enumerate(self._open) if name == "a"), 0)) > 0:
                del self._open[at:]
            self._place("")
            self._push(tag, "ref", {"target": attributes.get("href", "")})
        elif element:
            self._place("")
            self._push(tag, element, {"rend": rend})
        elif len(self._open) < _MOST_OPEN:
            self._open.append((tag, self._top))

    def _begin_task(self, is_done: bool) -> None:
        """Begin a line with a checkbox."""
        while len(self._open) > 1 and self._open[-1][0] not in _HOLDERS:
            self._open.pop()
        self._place("")
        tag, top = self._open[-1]
        is_empty = not len(top) and not (top.text or "").strip()
        is_line = tag not in _WHOLE and top.tag in _LEAF and not any(inner.tag in _TREE_BLOCKS for inner in top)
        if is_line and not is_empty:
            self._open.pop()
            self._push(tag, "div", {})
        elif not (is_empty and top.tag in {"div", "p", "item"}) or tag in _WHOLE:
            self._push("", "div", {})
        SubElement(self._top, "todo", rend="x" if is_done else " ")

    def _begin_code(self, tag: str, attributes: Mapping[str, str]) -> None:
        named = _LANGUAGE_STYLE.search(attributes.get("style", ""))
        self._push(
            tag, "code", {"rend": "block", "class": f"language-{named[1]}" if named else attributes.get("class", "")}
        )
        self._code = len(self._open) - 1

    def _in_code(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "code" and attributes.get("class"):
            self._top.set("class", attributes["class"])  # names the language
        if tag == "br":
            _append(self._top, "\n")
        elif tag not in _VOID:
            if tag in _BLOCKS:
                self._end_line()
            if len(self._open) < _MOST_OPEN:
                self._open.append((tag, self._top))

    def _end_line(self) -> None:
        text = self._top.text or ""
        if text and not text.endswith("\n"):
            _append(self._top, "\n")


def _kept(tag: str, attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that the writer reads."""
    if tag in {"ul", "ol", "menu"}:
        style, names = attributes.get("style", ""), attributes.get("class", "")
        is_tasks = _TASKS_STYLE.search(style) or "checklist" in names.lower()
        return {"rend": "ol" if tag == "ol" else "ul", **({"tasks": "1"} if is_tasks else {})}
    return {"rend": tag} if _BLOCKS[tag] == "head" else {}


# -- lines and checkboxes


def _arrange(element: Element) -> None:
    """Join the lines of a paragraph, make lists of lines with checkboxes, and keep words of a cell apart."""
    for child in element:
        _arrange(child)
        if child.tag == "todo":
            child.tail = (child.tail or "").lstrip()
    if element.tag in {"body", "div", "quote", "item"}:
        _join_lines(element)
    if element.tag == "item":
        _hoist(element)
    if element.tag == "cell":
        for inner in element.iter():
            if inner.tag in _TREE_BLOCKS and inner is not element:
                inner.text, inner.tail = f" {inner.text or ''}", f" {inner.tail or ''}"


def _join_lines(element: Element) -> None:
    lines = list(element)
    del element[:]
    run: Element | None = None  # the paragraph or list that goes on
    for number, child in enumerate(lines):
        is_line = child.tag == "div" and not any(
            (inner.tag in _TREE_BLOCKS and inner.tag != "code") or inner.get("rend") == "block" for inner in child
        )
        is_task = is_line and _begins_with_task(child)
        if is_task and not (element.tag == "item" and number == 0):
            if run is None or run.tag != "list":
                run = SubElement(element, "list", rend="ul")
            child.tag = "item"
            run.append(child)
        elif is_line and not "".join(child.itertext()).strip() and all(inner.tag == "lb" for inner in child):
            run = None
            if (child.tail or "").strip():
                element.append(child)
        elif is_line and run is not None and run.tag == "p":
            SubElement(run, "lb")
            _pour(child, run)
        else:
            element.append(child)
            child.tag = "p" if is_line else child.tag
            run = child if is_line else None
        if (child.tail or "").strip():
            if child.tag == "item" and run is not None and run.tag == "list":
                run.tail, child.tail = child.tail, None
            run = None


def _begins_with_task(line: Element) -> bool:
    return len(line) > 0 and line[0].tag == "todo" and not (line.text or "").strip()


def _pour(source: Element, into: Element) -> None:
    """Move the content of an element, and its tail, to the end of another."""
    _append(into, source.text)
    into.extend(source)
    _append(into, source.tail if source.tag != "div" or (source.tail or "").strip() else "")


def _append(element: Element, text: str | None) -> None:
    """Add text to the end of an element."""
    if len(element):
        element[-1].tail = (element[-1].tail or "") + (text or "")
    else:
        element.text = (element.text or "") + (text or "")


def _hoist(item: Element) -> None:
    """Put an item's first paragraph on the line of its checkbox."""
    first = 1 if len(item) and item[0].tag == "todo" and not (item[0].tail or "").strip() else 0
    if len(item) <= first or (item.text or "").strip() or item[first].tag not in _LEAF:
        return
    paragraph = item[first]
    if not first and not _begins_with_task(paragraph):
        return
    rest = item[first + 1 :]
    del item[first:]
    _pour(paragraph, item)
    item.extend(rest)


# -- Markdown


class _NoteWriter(MarkdownWriter):
    """Writes the tree of a note."""

    def __init__(self, around: HtmlReferences) -> None:
        super().__init__("", "")
        self._around = around

    def is_code_block(self, code: Any) -> bool:
        return bool(code.get("rend") == "block")

    def block(self, element: Any) -> Iterator[str]:
        if element.tag == "code" and not "".join(element.itertext()).strip():
            return
        yield from super().block(element)

    def inline(self, element: Any) -> list[str]:
        if element.tag == "todo":
            return [f"[{element.get('rend')}] "]
        if element.tag in {"graphic", "media"}:
            return self._file_or_image(element)
        if element.tag == "ref":
            return self._link(element)
        if element.tag == "hi":
            return emphasize(_MARKS[element.get("rend")], self.within(element))
        return super().inline(element)

    def _link(self, element: Any) -> list[str]:
        target, parts = element.get("target").strip(), self.within(element)
        text = " ".join(join_parts(parts).split())
        known = self._around.follow(target, " ".join(visible("".join(element.itertext())).split()))
        if known:
            return [f"[{text or escaped(known)}]({known})"]
        scheme = _SCHEME.match(target)
        name = scheme[1].lower() if scheme else ""
        if name in {"http", "https", "mailto"}:
            return [safe.link(text, target)] if safe.link("x", target) != "x" else parts
        if not name or name in _DROPPED or (name in _SHOWN and target in text):
            return parts
        if name in _SHOWN:
            return [*parts, PlainText(f" ({target})")]
        return [f"[{text or escaped(target)}]({safe.address(target)})"]

    def _file_or_image(self, element: Any) -> list[str]:
        attributes = dict(element.items())
        alt = " ".join(attributes.get("alt", "").split())
        if file := self._around.file(attributes):
            return [f"{'!' if file.is_image else ''}[{escaped(alt or file.name)}]({file.destination})"]
        if element.tag == "media":
            return [PlainText(f"(attached: {attributes.get('type') or 'a file'})")]
        url = attributes.get("src", "").strip()
        shown = safe.image(alt, url)
        return [shown] if safe.link("x", url) != "x" else [PlainText(alt)]
