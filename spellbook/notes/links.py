"""
Links between files of a vault: where they are in a note, and how they are written, by Obsidian's rules. Pure.

Wikilinks and embeds, Markdown links, images, reference definitions, and wikilinks in frontmatter; not in code or
comments. Under a key of RELATIONS an id or a path is a link too, and so is the path of a note under `sources`. A link
knows its characters, so that only its target is rewritten.
"""

from __future__ import annotations

import html
import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from spellbook.notes import dates
from spellbook.notes.frontmatter import FRONTMATTER, dump, fast_loader
from spellbook.notes.markdown import CODE, ELSEWHERE, WIKILINK, marks, runs, wikilinks
from spellbook.notes.note import Note, lines
from spellbook.notes.note import replaced as replaced
from spellbook.notes.relations import RELATIONS
from spellbook.notes.where_links_lead import By, Files, Reached, path_id
from spellbook.system.lazy import regex, yaml
from spellbook.text.unicode import folded, is_markdown, without_ending

Style = Literal["wiki", "single", "double", "bare", "source", "plain", "angle"]
"""
Spelling of a target: in a wikilink, in a wikilink in quoted YAML, as YAML, as YAML where it is a path from the note, in
a Markdown link, or there between < and >.
"""

_SOURCES = "sources"
"""The key with the sources of a note, each with a `resource`: the path of another note is a link."""

_DEFINITION = regex(
    r"[ \t>]*(?:[-+*]|\d{1,9}[.)])?[ \t]*\[(?!\^)(?:[^\[\]\\]|\\.)+\]:\s*+[ \t>]*"
    r"(?:<(?P<angle>[^<>\r\n]*)>|(?P<plain>[^\s<]\S*))"
)
_ADDRESS = regex(r"[A-Za-z][A-Za-z0-9+.-]+://|mailto:")
_NAMED = regex(r"[^#|]*")
_NO_NAMES = frozenset({"", "~", "null", "true", "false"})
_MOST_NAMED = 1_000
"""Letters of an id or a path under a key of RELATIONS; longer text is prose."""
_LINE_END = regex(r"[\r\n]")
_ESCAPED = regex(r"\\([!-/:-@\[-`{-~])")
_ENTITY = regex(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w+);")
_UNSAFE = regex(r"[\x00-\x20\x7f%<>()\\#?:|`]|&(?=#?\w+;)")
_UNSAFE_BETWEEN = regex(r"[\x00-\x1f\x7f%<>\\#?|]|&(?=#?\w+;)")
_FOLDERS = regex(
    r"(\[\[|\]\(<?)(?![A-Za-z][A-Za-z0-9+.-]+:|//)(?:[^\[\]()<>|#\s]|(?<=[^\s/])[ ](?=[^\s/]))*/"
    r"(?=[^\[\]()<>|#/\r\n]+(?:[\])>|#]))"
)


class Link(NamedTuple):
    """
    A link to a file, in a note.

    `target` is its path, decoded, without `fragment` (the heading or block after it, with its `#`); `start` and `end`
    are the characters of `Note.text` that spell the target, `line` their 1-based line. `relation` is its key of
    RELATIONS, "" elsewhere.
    """

    target: str
    fragment: str
    style: Style
    start: int
    end: int
    line: int
    relation: str = ""

    @property
    def is_markdown(self) -> bool:
        """Whether it is a Markdown link, which is relative to its note."""
        return self.style in {"source", "plain", "angle"}


# -- finding


def find(note: Note) -> tuple[Link, ...]:
    """Return the links of a note to files, in order."""
    header = [*accumulate(map(len, lines(note.text[: note.body_at])), initial=0)]

    def line(at: int) -> int:
        return bisect_right(header, at) if at < note.body_at else note.body_line + bisect_right(note.offsets, at) - 1

    return tuple(
        Link(target, fragment, style, start, end, line(start), relation)
        for relation, (target, fragment, style, start, end) in (
            *_find_in_frontmatter(note),
            *(("", place) for place in _find_in_body(note)),
        )
    )


_Place = tuple[str, str, Style, int, int]


def _find_in_frontmatter(note: Note) -> Iterator[tuple[str, _Place]]:
    """Yield the links in frontmatter, each with the key of RELATIONS that it stands under, "" if it is another."""
    match = FRONTMATTER.match(note.text)
    has_relations = not note.meta.keys().isdisjoint((*RELATIONS, _SOURCES))
    if match and note.editable and (has_relations or "[[" in match[1]):
        header, offset = match[1].replace("\0", " "), match.start(1)
        for event, key in _scalars(header):
            for target, fragment, style, start, end in _find_in_scalar(header, event, key):
                place: _Place = target, fragment, style, offset + start, offset + end
                yield key if key in RELATIONS else "", place


def _find_in_scalar(header: str, event: yaml.ScalarEvent, key: str) -> Iterator[_Place]:
    """Yield the links in a value of a header under a key, with their characters of the header."""
    quoted: Style | None = "single" if event.style == "'" else "double" if event.style == '"' else None
    first, last = (mark.index if mark else 0 for mark in (event.start_mark, event.end_mark))
    wikis = [*wikilinks(header, first, last)]
    for wiki in wikis:
        target, start, end = _trim(wiki)
        target = target.replace("''", "'") if quoted == "single" else target
        if target and not (quoted == "double" and "\\" in target):
            yield target, wiki["fragment"] or "", quoted or "wiki", start, end
    if not (wikis or event.anchor or event.tag or _LINE_END.search(header, first, last)):
        style: Style = "source" if key == _SOURCES else "bare"
        named = _path_of_source(event.value) if key == _SOURCES else key in RELATIONS and _id_or_path(event.value)
        if named:
            yield *named, style, first, last


def _path_of_source(resource: str) -> tuple[str, str] | None:
    """Return the path of a note in a source, and the rest; None for an address, or a few words on many things."""
    path = resource.partition("#")[0]
    return (path, resource[len(path) :]) if is_markdown(path) and not ELSEWHERE.match(path) else None


def _scalars(header: str) -> Iterator[tuple[yaml.ScalarEvent, str]]:
    """
    Yield the scalars of a header, each with the top key, in small letters, whose value it is, else "".

    In mappings below `sources` the values of `resource` alone have it.
    """
    inside: list[list[str] | None] = []  # the mappings around an event, each with its keys and values so far, and lists
    for event in yaml.parse(header, Loader=fast_loader()):
        if isinstance(event, yaml.CollectionEndEvent):
            inside.pop()
        here = inside[-1] if inside else None
        if isinstance(event, yaml.ScalarEvent):
            keys = [each[-1] for each in inside if each]
            is_key = here is not None and len(here) % 2 == 0
            is_value = not is_key and bool(inside and inside[0]) and keys[1:] == ["resource"] * (keys[0] == _SOURCES)
            yield event, keys[0] if is_value else ""
        if here is not None and not isinstance(event, yaml.CollectionStartEvent):
            here.append(event.value.casefold() if isinstance(event, yaml.ScalarEvent) else "")
        if isinstance(event, yaml.CollectionStartEvent):
            inside.append([] if isinstance(event, yaml.MappingStartEvent) else None)


def _id_or_path(text: str) -> tuple[str, str] | None:
    """Return the id or path in a text, and the rest, such as a heading; None if the text names no note."""
    text = text.strip()
    if len(text) > _MOST_NAMED or _ADDRESS.match(text) or text.casefold() in _NO_NAMES:
        return None
    named = text if is_markdown(text) else (_NAMED.match(text) or [""])[0]
    return (named.rstrip(), text[len(named) :]) if named.strip() else None


def _find_in_body(note: Note) -> Iterator[_Place]:
    """Yield the links in the body."""
    text = note.text.replace("\0", " ")
    places = [*_find_definitions(note, text)] if text.find("]:", note.body_at) >= 0 else []
    comments: list[int] = []
    has_comments = text.find("%%", note.body_at) >= 0

    def is_wanted(start: int, end: int) -> bool:
        return text.find("[", start, end) >= 0 or (has_comments and text.find("%%", start, end) >= 0)

    for run in runs(note.blocks, text, note.offsets, is_wanted):
        for kind, mark in marks(text, *run):
            if kind == "comment":
                comments.append(mark.start())
            elif kind == "link":
                places += _read_destination(mark)
            elif kind == "wiki" and (trimmed := _trim(mark))[0]:
                target, start, end = trimmed
                places.append((target, mark["fragment"] or "", "wiki", start, end))
    hidden = [span for i, span in enumerate(pairwise(comments)) if i % 2 == 0]
    for place in sorted(places, key=lambda place: place[3]):
        at = bisect_right(hidden, (place[3], len(text))) - 1
        if at < 0 or place[3] > hidden[at][1]:
            yield place


def _find_definitions(note: Note, text: str) -> Iterator[_Place]:
    """Yield the links of definitions, which are neither prose nor code."""
    taken = set[int]()
    for block in note.blocks:
        spans = [(block.start, block.end)] if block.kind in CODE else [*block.code, *block.prose, *block.tables]
        taken.update(line for span in spans for line in range(*span))
    for number, line in enumerate(note.body_lines):
        if number not in taken and "]:" in line and (definition := _DEFINITION.match(text, note.offsets[number])):
            yield from _read_destination(definition)


def _trim(wiki: re.Match[str]) -> tuple[str, int, int]:
    written = wiki["target"]
    start = wiki.start("target") + len(written) - len(written.lstrip())
    return written.strip(), start, start + len(written.strip())


def _read_destination(match: re.Match[str]) -> Iterator[_Place]:
    """Yield the link whose destination was matched, unless it leads out of the vault or to its own page."""
    style: Style = "plain" if match["plain"] is not None else "angle"
    written = match[style]
    path = re.split("[#?]", written, maxsplit=1)[0]
    if not path or ELSEWHERE.match(path):
        return
    try:
        target, fragment = _decode(path), _decode(written[len(path) :])
    except UnicodeDecodeError:
        return
    yield target, fragment, style, match.start(style), match.start(style) + len(path)


def _decode(written: str) -> str:
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), _ESCAPED.sub(r"\1", written))
    return unquote(plain, errors="strict")


def without_folders(text: str) -> str:
    """Return a text whose links name files without folders, so that it stays the same wherever these are."""
    return _FOLDERS.sub(r"\1", text) if "/" in text and ("](" in text or "[[" in text) else text


# -- writing


def retargeted(link: Link, before: Reached, source: str, wanted: str, files: Files) -> str | None:
    """
    Return the target by which `link`, which led to `before`, names the file `wanted` from the note `source`.

    Its form is kept: the name alone, a relative path, or a path from the vault; with or without `.md`. An ambiguous
    name becomes a full path. None if no spelling leads there.
    """
    name = wanted if is_markdown(link.target) else without_ending(wanted)
    is_relative = link.is_markdown and before.by == By.RELATIVE
    for form in (*_forms(link, before, source, wanted, name, files), name, wanted, f"/{wanted}"):
        reached = files.follow(source, form, link.is_markdown)
        if reached and reached.path == wanted and (reached.by == By.RELATIVE or not is_relative):
            return form
    return None


def _forms(link: Link, before: Reached, source: str, wanted: str, name: str, files: Files) -> Iterator[str]:
    """Yield the spellings of `wanted`, which `name` is with the ending that the link has, in the form of the link."""
    if not (link.is_markdown or "pages/" in link.target or link.target.startswith(("/", "."))):
        named = zip(map(folded, dates.logseq_names(before.path)), dates.logseq_names(wanted), strict=False)
        yield from filter(None, [dict(named).get(folded(link.target)) or dates.page(wanted)])
    if before.by == By.RELATIVE:
        relative = posixpath.relpath(name, source.rpartition("/")[0] or ".")
        has_dot = link.target.startswith("./") or not link.is_markdown
        yield f"./{relative}" if has_dot and not relative.startswith("../") else relative
    elif before.by == By.ROOT:
        yield f"/{name}"
    elif before.by == By.NAME or "/" not in link.target:
        short = "/".join(name.split("/")[-1 - link.target.count("/") :])
        if len(files.ending(short)) == 1:
            yield short


def spelled(link: Link, written: str, target: str) -> str:
    """Return `target` as it is to be written in the place of `link`, whose target is `written` now."""
    if link.style == "single":
        return target.replace("'", "''")
    if link.style == "double":
        return target.replace("\\", "\\\\").replace('"', '\\"')
    if link.style == "wiki":
        return target
    if link.style in {"bare", "source"}:
        # As in a list, where a comma needs quotes.
        return dump([target + link.fragment], written[0] if written[0] in "'\"" else None)[1:-1]
    kept = {}  # unchanged parts keep their spelling
    for part in written.split("/"):
        kept[_decode(part)] = part
    unsafe = _UNSAFE if link.style == "plain" else _UNSAFE_BETWEEN
    is_encoded = bool(re.search(r"%[89A-Fa-f]", written)) and written.isascii()
    return "/".join(kept.get(part) or _encode(part, unsafe, is_encoded) for part in target.split("/"))


def wikilink(path: str) -> str:
    """
    Return a relation to the note at `path`: a wikilink with the full path, or the path if no wikilink can hold it.
    """
    name = path_id(path)
    match = WIKILINK.fullmatch(link := f"[[{name}]]")
    return link if match and match["target"] == name else path


def destination(path: str) -> str:
    """Return a relative path as it stands in a Markdown link."""
    return _encode(path, _UNSAFE, False)


def _encode(part: str, unsafe: re.Pattern[str], everything: bool) -> str:
    safe = unsafe.sub(lambda letter: quote(letter[0], safe=""), part)
    return re.sub(r"[^\x00-\x7f]+", lambda run: quote(run[0]), safe) if everything else safe


# -- pictures that a note embeds; an SVG is none: it can hold scripts

PICTURES = frozenset({"png", "jpg", "jpeg", "gif", "webp"})

OTHER_PICTURES = frozenset({"svg", "bmp", "avif", "heic", "heif", "tif", "tiff", "ico"})
"""Endings of pictures that are not shown."""

_MOST_LABEL = 2_000
"""Letters before a target that are searched for the `![` of its label. By hand: a label is a line."""

_OPENED = regex(r"\]\(\s*<?$")


def suffix(target: str) -> str:
    """Return the ending of a target's name, in small letters and without its dot."""
    return target.rpartition("/")[2].rpartition(".")[2].lower()


def pictures(note: Note) -> list[Link]:
    """Return the links of a note that embed a picture, `![[a.png]]` and `![](a.png)`, in order."""
    if "![" not in note.text:
        return []
    return [link for link in find(note) if suffix(link.target) in PICTURES and _is_embedded(note.text, link)]


def _is_embedded(text: str, link: Link) -> bool:
    """Return whether a `!` stands before the brackets of a link."""
    before = text[max(0, link.start - _MOST_LABEL) : link.start]
    if link.style == "wiki":
        return before.rstrip().endswith("![[") and not before.rstrip().endswith("\\![[")
    opened = _OPENED.search(before)
    at, depth = (opened.start(), 1) if opened else (0, 0)
    while depth and at:
        at -= 1
        if before[at] in "[]" and before[at - 1 : at] != "\\":
            depth += 1 if before[at] == "]" else -1
    return bool(opened) and not depth and before[:at].endswith("!") and not before[:at].endswith("\\!")
