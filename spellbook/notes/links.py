"""
Links between files of a vault: where they are in a note and where they lead, by Obsidian's rules.

Wikilinks and embeds, Markdown links, images, reference definitions, and wikilinks in frontmatter; not in code or
comments. Under a key of RELATIONS an id or a path is a link too. A link knows its characters, so that only its target
is rewritten. Pure.
"""

from __future__ import annotations

import html
import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Literal
from urllib.parse import quote, unquote

from spellbook.notes import daily
from spellbook.notes.frontmatter import FRONTMATTER, dump
from spellbook.notes.markdown import CODE
from spellbook.notes.note import Note, code_spans, lines
from spellbook.notes.note import replaced as replaced
from spellbook.notes.relations import RELATIONS, id_or_path, scalars
from spellbook.text.unicode import composed, folded

Style = Literal["wiki", "single", "double", "bare", "plain", "angle"]
"""
How a target is spelled: in a wikilink, in a wikilink in quoted YAML, as YAML, in a Markdown link, or there between
< and >.
"""

_WIKI = re.compile(
    r"!?\[\[(?P<target>(?:(?!\[\[|\]\])[^\r\n|#\\]|\\(?!\|))*+)(?P<fragment>#(?:(?!\]\])[^\r\n|\\]|\\(?!\|))*+)?(?:\\?\|[^\r\n]*?)?\]\]"
)
_CLOSING = re.compile(r"\]\]|[\r\n]")
_TITLE = r"""(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?"""
_PLAIN = (
    r"(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*\))"
    r"(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*\))*"
)
_INLINE = re.compile(rf"\(\s*(?:<(?P<angle>[^<>\r\n]*)>|(?P<plain>{_PLAIN})){_TITLE}\s*\)", re.S)
_DEFINITION = re.compile(
    r"[ \t>]*(?:[-+*]|\d{1,9}[.)])?[ \t]*\[(?!\^)(?:[^\[\]\\]|\\.)+\]:\s*+[ \t>]*"
    r"(?:<(?P<angle>[^<>\r\n]*)>|(?P<plain>[^\s<]\S*))"
)
_FOOTNOTE = re.compile(r"[ \t>]*\[\^[^\]\s]+\]:")
_TAG = r"""/?[A-Za-z][\w-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*\s*/?>"""
# A search for a set of letters is several times as fast as one for alternatives.
_TOKEN = re.compile(
    r"[\\%<\[\]](?:(?<=\\)[^\w\s]|(?P<comment>(?<=%)%)"
    rf"|(?<=<)(?:(?P<html>!--)|[A-Za-z][A-Za-z0-9+.-]{{1,31}}:[^\s<>]*>|{_TAG})"
    r"|(?P<wiki>(?<=\[)\[)|(?P<open>(?<=\[))|(?P<close>(?<=\])))"
)
_LINE_END = re.compile(r"[\r\n]")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w+);")
_UNSAFE = re.compile(r"[\x00-\x20\x7f%<>()\\#?:|`]|&(?=#?\w+;)")
_UNSAFE_BETWEEN = re.compile(r"[\x00-\x1f\x7f%<>\\#?|]|&(?=#?\w+;)")
_FOLDERS = re.compile(
    r"(\[\[|\]\(<?)(?![A-Za-z][A-Za-z0-9+.-]+:|//)(?:[^\[\]()<>|#\s]|(?<=[^\s/])[ ](?=[^\s/]))*/"
    r"(?=[^\[\]()<>|#/\r\n]+(?:[\])>|#]))"
)


@dataclass(frozen=True, slots=True)
class Link:
    """
    A link to a file, in a note.

    `target` is the path that it names, decoded, without `fragment` (the heading or block after it, with its `#`);
    `start` and `end` are the characters of `Note.text` that spell the target, `line` their 1-based line. `relation` is
    the key of RELATIONS that it stands under, "" elsewhere.
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
        return self.style in {"plain", "angle"}


class By(IntEnum):
    """How a target was understood."""

    RELATIVE = 1
    """From the folder of the note."""
    ROOT = 2
    """From the vault, with a slash in front."""
    PATH = 3
    """From the vault."""
    NAME = 4
    """By the name of the file, or the end of its path."""
    ALIAS = 5
    """By another name that a note has."""
    ID = 6
    """By its id: relations alone."""
    MOVED = 7
    """By where it was: relations alone."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The file that a link leads to, and how its target was understood."""

    path: str
    by: By


def key(path: str) -> str:
    """Return the name by which links find a file: that of the file, NFC, without case and without `.md`."""
    name = folded(path.rpartition("/")[2])
    return name[:-3] if name.endswith(".md") and len(name) > 3 else name


# -- finding


def find(note: Note) -> tuple[Link, ...]:
    """Return the links of a note to files, in order."""
    if "[" not in note.text and note.meta.keys().isdisjoint(RELATIONS):
        return ()
    header = [*accumulate(map(len, lines(note.text[: note.body_at])), initial=0)]
    offsets = [*accumulate(map(len, note.body_lines), initial=note.body_at)]

    def line(at: int) -> int:
        return bisect_right(header, at) if at < note.body_at else note.body_line + bisect_right(offsets, at) - 1

    return tuple(
        Link(target, fragment, style, start, end, line(start), relation)
        for relation, (target, fragment, style, start, end) in (
            *_find_in_frontmatter(note),
            *(("", place) for place in _find_in_body(note, offsets)),
        )
    )


_Place = tuple[str, str, Style, int, int]


def _find_in_frontmatter(note: Note) -> Iterator[tuple[str, _Place]]:
    """Yield the links in frontmatter, each with the key of RELATIONS that it stands under, "" if it is another."""
    match = FRONTMATTER.match(note.text)
    if match is None or not note.editable or ("[[" not in match[1] and note.meta.keys().isdisjoint(RELATIONS)):
        return
    header = match[1].replace("\0", " ")
    for event, key in scalars(header):
        relation = key if key in RELATIONS else ""
        quoted: Style | None = "single" if event.style == "'" else "double" if event.style == '"' else None
        first, last = (mark.index if mark else 0 for mark in (event.start_mark, event.end_mark))
        is_named = False
        for wiki in _find_wikilinks(header, first, last):
            target, start, end = _trim(wiki)
            target = target.replace("''", "'") if quoted == "single" else target
            if target and not (quoted == "double" and "\\" in target):
                place = match.start(1) + start, match.start(1) + end
                yield relation, (target, wiki["fragment"] or "", quoted or "wiki", *place)
            is_named = True
        is_plain = event.anchor is None and event.tag is None and not _LINE_END.search(header, first, last)
        if relation and is_plain and not is_named and (named := id_or_path(event.value)):
            yield relation, (*named, "bare", match.start(1) + first, match.start(1) + last)


def _find_in_body(note: Note, offsets: Sequence[int]) -> Iterator[_Place]:
    """Yield the links in the body, whose lines begin at the characters `offsets` of the text."""
    text = note.text.replace("\0", " ")
    if text.find("[", note.body_at) < 0:
        return
    prose = {span for block in note.blocks for span in block.prose}
    is_defining = text.find("]:", note.body_at) >= 0
    places = [*_find_definitions(note, text, offsets, prose)] if is_defining else []
    comments: list[int] = []
    has_comments = text.find("%%", note.body_at) >= 0
    for first, last in sorted(prose):
        start, end = offsets[first], offsets[last]
        if text.find("[", start, end) >= 0 or (has_comments and text.find("%%", start, end) >= 0):
            places += _find_in_prose(text, start, end, comments)
    hidden = [span for i, span in enumerate(pairwise(comments)) if i % 2 == 0]
    for place in sorted(places, key=lambda place: place[3]):
        at = bisect_right(hidden, (place[3], len(text))) - 1
        if at < 0 or place[3] > hidden[at][1]:
            yield place


def _find_definitions(note: Note, text: str, offsets: Sequence[int], prose: set[tuple[int, int]]) -> Iterator[_Place]:
    """Yield the links of definitions, which are neither prose nor code, and add the lines of footnotes to `prose`."""
    taken = {line for span in prose for line in range(*span)}
    for block in note.blocks:
        spans = [(block.start, block.end)] if block.kind in CODE else block.code
        taken.update(line for span in spans for line in range(*span))
    for number, line in enumerate(note.body_lines):
        if number in taken or "]:" not in line:
            continue
        if _FOOTNOTE.match(text, offsets[number]):  # Markdown takes it for a definition only if a single word follows
            prose.add((number, number + 1))
        elif definition := _DEFINITION.match(text, offsets[number]):
            yield from _read_destination(definition)


def _find_in_prose(body: str, first: int, last: int, comments: list[int]) -> Iterator[_Place]:
    """Yield the links in a run of text, and add to `comments` where the marks of Obsidian's comments stand."""
    text = body[first:last]
    code = [(first + start, first + end) for start, end in code_spans(text)] if "`" in text else []
    closed = _Closed(body, first, last) if "[[" in text else ()
    opened = 0
    is_closed = True
    at = first
    while token := _TOKEN.search(body, at, last):
        at, kind = token.end(), token.lastgroup
        span = bisect_right(code, (token.start(), last)) - 1
        if span >= 0 and token.start() < code[span][1]:
            at = code[span][1]
        elif kind == "html":
            end = body.find("-->", at, last) if is_closed else -1
            is_closed = end >= 0  # text without a closing mark is not a comment; it is not searched again
            at = end + 3 if is_closed else at
        elif kind == "comment":
            comments.append(token.start())
        elif kind == "open":
            opened += 1
        elif kind == "close":
            if opened and (inline := _INLINE.match(body, at, last)):
                yield from _read_destination(inline)
                at = inline.end()
            opened = max(0, opened - 1)
        elif kind == "wiki":
            wiki = _WIKI.match(body, token.start(), last) if token.start() in closed else None
            if wiki is None:
                opened += 2
                continue
            at = wiki.end()
            inline = _INLINE.match(body, at, last)
            if inline and _ELSEWHERE.match(inline["plain"] or inline["angle"] or ""):  # [[1]](https://…) is no wikilink
                continue
            target, start, end = _trim(wiki)
            if target:
                yield target, wiki["fragment"] or "", "wiki", start, end


def _find_wikilinks(text: str, first: int, last: int) -> Iterator[re.Match[str]]:
    """Yield the wikilinks in a run of text."""
    closed = _Closed(text, first, last)
    while (first := text.find("[[", first, last)) >= 0:
        wiki = _WIKI.match(text, first, last) if first in closed else None
        if wiki:
            yield wiki
        first = wiki.end() if wiki else first + 1


class _Closed:
    """Knows which positions of a text have a `]]` later on their line, so that `_WIKI` scans no other lines in vain."""

    def __init__(self, text: str, first: int, last: int) -> None:
        self._marks = [(mark.start(), mark[0] == "]]") for mark in _CLOSING.finditer(text, first, last)]

    def __contains__(self, at: int) -> bool:
        next_mark = bisect_right(self._marks, (at, True))
        return next_mark < len(self._marks) and self._marks[next_mark][1]


def _trim(wiki: re.Match[str]) -> tuple[str, int, int]:
    written = wiki["target"]
    start = wiki.start("target") + len(written) - len(written.lstrip())
    return written.strip(), start, start + len(written.strip())


def _read_destination(match: re.Match[str]) -> Iterator[_Place]:
    """Yield the link whose destination was matched, unless it leads out of the vault or to its own page."""
    style: Style = "plain" if match["plain"] is not None else "angle"
    written = match[style]
    path = re.split("[#?]", written, maxsplit=1)[0]
    if not path or _ELSEWHERE.match(path):
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


# -- following


class Files:
    """
    The files that links can lead to; `aliases` maps other names of notes, folded, to their paths.

    For relations, `ids` maps ids, folded, to paths, and `moved` former paths to those of today.
    """

    def __init__(
        self,
        paths: Iterable[str],
        aliases: Mapping[str, str] | None = None,
        ids: Mapping[str, str] | None = None,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        self._aliases, self._ids, self._moved = dict(aliases or {}), ids or {}, moved or {}
        self._then = Files(self._moved) if self._moved else None
        # A note links to the same files again and again.
        self._followed: dict[tuple[str, str, bool], Reached | None] = {}
        for path in sorted(paths, key=lambda path: (len(path), path)):
            self._by_name.setdefault(key(path), []).append((folded(path), path))
            for name in daily.logseq_names(path):
                self._aliases.setdefault(folded(name), path)

    def follow(self, source: str, target: str, is_markdown: bool) -> Reached | None:
        """
        Return where a link in the note `source` leads, None if nowhere.

        A Markdown link, and one that begins with `./` or `../`, is relative to its note. Else a path from the vault is
        meant, else a file of that name, or whose path ends so: one in the note's own folder or below, else the shortest
        path. At last, aliases.
        """
        link = (source.rpartition("/")[0], target, is_markdown)
        if link not in self._followed:
            self._followed[link] = self._reach(*link)
        return self._followed[link]

    def relation(self, source: str, target: str) -> Reached | None:
        """
        Return the note that a relation in the note `source` names, None if there is none.

        It names a note by its id, its path, its former path, its name or former name, or an alias, in this order.
        """
        if path := self._ids.get(folded(target)):
            return Reached(path, By.ID)
        now = self.follow(source, target, False)
        then = self._then.follow(source, target, False) if self._then else None
        is_loose = now is None or now.by == By.ALIAS or (then and now.by == By.NAME and then.by != By.NAME)
        return Reached(self._moved[then.path], By.MOVED) if then and is_loose else now

    def _reach(self, folder: str, target: str, is_markdown: bool) -> Reached | None:
        wanted = folded(target)
        if wanted.startswith("/"):
            return self._exact(target.lstrip("/"), By.ROOT)
        if is_markdown or wanted.startswith(("./", "../")):
            reached = self._exact(posixpath.normpath(posixpath.join(folder, target)), By.RELATIVE)
            if reached or wanted.startswith(("./", "../")):
                return reached
        if reached := self._exact(target, By.PATH):
            return reached
        paths = self.ending(target)
        if paths:
            near = folded(folder) + "/" if folder else ""
            return Reached(next((path for path in paths if folded(path).startswith(near)), paths[0]), By.NAME)
        alias = self._aliases.get(wanted) if not is_markdown else None
        return Reached(alias, By.ALIAS) if alias else None

    def ending(self, target: str) -> list[str]:
        """Return the files whose path is `target` or ends with it, shortest first."""
        wanted = folded(target)
        ends = (f"/{wanted}", f"/{wanted}.md")
        named = self._by_name.get(key(target), ())
        return [path for name, path in named if f"/{name}".endswith(ends)]

    def _exact(self, target: str, by: By) -> Reached | None:
        wanted = folded(target)
        named = self._by_name.get(key(target), ())
        same = [path for name, path in named if name in {wanted, f"{wanted}.md"}]
        # Where case matters, the one that is spelled so.
        spelled = composed(target)
        exact = (path for path in same if composed(path) in {spelled, f"{spelled}.md"})
        path = next(exact, same[0] if same else None)
        return Reached(path, by) if path else None


# -- writing


def retargeted(link: Link, before: Reached, source: str, wanted: str, files: Files) -> str | None:
    """
    Return the target by which `link`, which led to `before`, names the file `wanted` from the note `source`.

    Its form is kept: the name alone, a relative path, or a path from the vault; with or without `.md`. An
    ambiguous name becomes a full path. None if no spelling leads there.
    """
    has_ending = link.target.lower().endswith(".md") or not wanted.lower().endswith(".md")
    name = wanted if has_ending else wanted[:-3]
    forms: list[str] = []
    if not (link.is_markdown or "pages/" in link.target or link.target.startswith(("/", "."))):
        named = zip(map(folded, daily.logseq_names(before.path)), daily.logseq_names(wanted), strict=False)
        forms += filter(None, [dict(named).get(folded(link.target)) or daily.page(wanted)])
    if before.by == By.RELATIVE:
        relative = posixpath.relpath(name, source.rpartition("/")[0] or ".")
        has_dot = link.target.startswith("./") or (not link.is_markdown and not relative.startswith("../"))
        forms.append(f"./{relative}" if has_dot and not relative.startswith("../") else relative)
    elif before.by == By.ROOT:
        forms.append(f"/{name}")
    elif before.by == By.NAME or "/" not in link.target:
        parts = name.split("/")[-1 - link.target.count("/") :]
        short = "/".join(parts)
        forms += [short] if len(files.ending(short)) == 1 else []
    for form in (*forms, name, wanted, f"/{wanted}"):
        reached = files.follow(source, form, link.is_markdown)
        if (
            reached
            and reached.path == wanted
            and (not link.is_markdown or before.by != By.RELATIVE or reached.by == By.RELATIVE)
        ):
            return form
    return None


def spelled(link: Link, written: str, target: str) -> str:
    """Return `target` as it is to be written in the place of `link`, whose target is `written` now."""
    if link.style == "single":
        return target.replace("'", "''")
    if link.style == "double":
        return target.replace("\\", "\\\\").replace('"', '\\"')
    if link.style == "wiki":
        return target
    if link.style == "bare":
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
    Return what a relation to the note at `path` is written as: a wikilink with the full path, which Obsidian follows.

    A path that no wikilink can hold is returned as it is. `frontmatter.dump` quotes either.
    """
    name = path[:-3] if path.endswith(".md") and not path[:-3].endswith(".md") else path
    match = _WIKI.fullmatch(link := f"[[{name}]]")
    return link if match and match["target"] == name else path


def destination(path: str) -> str:
    """Return a relative path as it stands in a Markdown link."""
    return _encode(path, _UNSAFE, False)


def _encode(part: str, unsafe: re.Pattern[str], everything: bool) -> str:
    safe = unsafe.sub(lambda letter: quote(letter[0], safe=""), part)
    return re.sub(r"[^\x00-\x7f]+", lambda run: quote(run[0]), safe) if everything else safe
