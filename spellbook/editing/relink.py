"""
Rewrite links so that they lead to the same file after files were moved, and change nothing else. Pure.

Each new text is parsed again; if it does not read as planned, the links stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spellbook.notes.links import By, Files, Link, Reached, find, replaced, retargeted, spelled
from spellbook.notes.note import Note, parse

_WIKI_END = re.compile(r"[ \t]*(?:\\?\|(?P<shown>[^\r\n]*?))?\]\]")
_INLINE_END = re.compile(
    r"""(?:\?[^\s>)]*)?>?(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)"""
)
_BRACKET = re.compile(r"\\.|[\[\]]", re.S)
_MOST_LABEL = 1_000  # letters of a link's words, and before them in its paragraph


@dataclass(frozen=True, slots=True)
class Shift:
    """The files before and after a move; `moved` maps old paths to new ones."""

    before: Files
    after: Files
    moved: Mapping[str, str]

    def now(self, path: str) -> str:
        """Return where the file that was at `path` is now."""
        return self.moved.get(path, path)

    def wanted(self, source: str, target: str, is_markdown: bool) -> tuple[Reached, str] | None:
        """
        Return the old target of a link in the note that was at `source` and the wanted new one, None if it is well.

        A Markdown link that was relative stays so, for other readers than Obsidian.
        """
        reached = self.before.follow(source, target, is_markdown)
        if reached is None:
            return None
        wanted = self.now(reached.path)
        now = self.after.follow(self.now(source), target, is_markdown)
        is_well = now is not None and now.path == wanted and (reached.by != By.RELATIVE or now.by == By.RELATIVE)
        return None if is_well else (reached, wanted)


@dataclass(frozen=True, slots=True)
class Mended:
    """A text whose links were mended, how many, and those that could not be."""

    text: str
    count: int
    left: tuple[Link, ...] = ()


def mend(note: Note, source: str, shift: Shift) -> Mended:
    """Rewrite the links of `note`, whose path is the new one, and which was at `source`."""
    forms: dict[Link, str | None] = {}
    for link in find(note):
        if places := shift.wanted(source, link.target, link.is_markdown):
            forms[link] = retargeted(link, places[0], note.path, places[1], shift.after)
    return rewrite_links(note, forms)


def rewrite_links(note: Note, forms: Mapping[Link, str | None]) -> Mended:
    """Give links other targets; those with None are left."""
    chosen = {link: form for link, form in sorted(forms.items(), key=lambda pair: pair[0].start) if form is not None}
    left = tuple(link for link in forms if link not in chosen)
    changes: list[tuple[int, int, str]] = []
    for link, form in chosen.items():
        written = note.text[link.start : link.end]
        if (new := spelled(link, written, form)) != written:
            changes.append((link.start, link.end, new))
    if not changes:
        return Mended(note.text, 0, left)
    text = replaced(note.text, changes)
    expected = [chosen.get(link, link.target) for link in find(note)]
    if not note.editable or [link.target for link in find(parse(note.path, note.encode(text)))] != expected:
        return Mended(note.text, 0, tuple(forms))
    return Mended(text, len(changes), left)


def unlink(note: Note, is_own: Callable[[Link], bool]) -> str:
    """
    Return `note`'s text without its links to itself, which `is_own` recognises; the shown words stay.

    A link to a heading or block keeps that alone. A definition leads to the top of its page. A link stays if the other
    links would be read differently without it.
    """
    own = [number for number, link in enumerate(find(note)) if is_own(link)]
    for number in reversed(own):
        links = find(note)
        done = parse(note.path, note.encode(replaced(note.text, [_removal_of(note.text, links[number])])))
        left = [(link.target, link.fragment) for link in (*links[:number], *links[number + 1 :])]
        if [(link.target, link.fragment) for link in find(done)] == left:
            note = done
    return note.text


def _removal_of(text: str, link: Link) -> tuple[int, int, str]:
    """Return which characters of `text` are to be replaced, and by what, so that `link` leads to no file."""
    if link.relation:  # its words would be a relation too
        is_bare = link.style == "bare"
        ends = (link.start, link.end) if is_bare else (text.rindex("[[", 0, link.start), text.index("]]", link.end) + 2)
        return *ends, ""
    if not link.is_markdown:
        end = _WIKI_END.match(text, link.end)
        if end is None or link.fragment:
            return link.start, link.end, ""
        start = text.rindex("[[", 0, link.start)
        return start - (text[start - 1 : start] == "!"), end.end(), end["shown"] or text[link.start : link.end]
    label, end = _label(text, link.start), _INLINE_END.match(text, link.end)
    if label is None or end is None or link.fragment:
        return link.start, link.end, "" if link.fragment else "#"
    start = label[0] - 1
    return start - (text[start - 1 : start] == "!"), end.end(), text[slice(*label)]


def _label(text: str, at: int) -> tuple[int, int] | None:
    """Return where the words between `[` and `](` stand, before the destination at `at`; None for a definition."""
    close = text.rfind("](", max(0, at - _MOST_LABEL), at)
    if close < 0 or text[close + 2 : at].strip(" \t\r\n<"):
        return None
    depth, block = 0, max(text.rfind("\n\n", 0, close), close - _MOST_LABEL, 0)
    for bracket in reversed([match for match in _BRACKET.finditer(text, block, close + 1) if len(match[0]) == 1]):
        depth += 1 if bracket[0] == "]" else -1
        if depth == 0:
            return bracket.end(), close
    return None
