"""
Mending: links rewritten so that they lead where they led before files got other paths, and nothing else in a note.

Pure. A text that would not read back as exactly that is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from spellbook.links import By, Files, Link, find, replaced, retargeted, spelled
from spellbook.notes import Note, parse

_WIKI_END = re.compile(r"[ \t]*(?:\\?\|(?P<shown>[^\r\n]*?))?\]\]")
_INLINE_END = re.compile(r"""(?:\?[^\s>)]*)?>?(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)""")
_BRACKET = re.compile(r"\\.|[\[\]]", re.S)
_MOST_LABEL = 1_000
_MOST_ALONE = 100
"""Links to the note itself that are taken out one after the other, each with a look at what is left; more are left."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The files `before` some got other paths and `after` it; `moved` are the new paths by the old ones."""

    before: Files
    after: Files
    moved: Mapping[str, str]

    def now(self, path: str) -> str:
        """Return where the file that was at `path` is."""
        return self.moved.get(path, path)

    def wanted(self, source: str, target: str, is_markdown: bool, *, lenient: bool = False) -> str | None:
        """
        Return where a link in the note that was at `source` has to lead and does not; None if it is well.

        A Markdown link that was relative stays so, for other readers than
        Obsidian; `lenient`, it may lead there in any way.
        """
        then = self.before.follow(source, target, is_markdown)
        if then is None:
            return None
        wanted = self.now(then.path)
        now = self.after.follow(self.now(source), target, is_markdown)
        is_well = now is not None and now.path == wanted and (lenient or then.by != By.RELATIVE or now.by == By.RELATIVE)
        return None if is_well else wanted


@dataclass(frozen=True, slots=True)
class Mended:
    """A text whose links were mended, how many, and those that could not be."""

    text: str
    count: int
    left: tuple[Link, ...] = ()


def mended(note: Note, source: str, shift: Shift, *, lenient: bool = False) -> Mended:
    """Mend the links of `note`, whose path is the new one, and which was at `source`."""
    forms: dict[Link, str | None] = {}
    for link in find(note):
        wanted = shift.wanted(source, link.target, link.is_markdown, lenient=lenient)
        then = shift.before.follow(source, link.target, link.is_markdown)
        if wanted is not None and then is not None:
            forms[link] = retargeted(link, then, note.path, wanted, shift.after)
    return rewritten(note, forms)


def rewritten(note: Note, forms: Mapping[Link, str | None], shown: Mapping[Link, str] = MappingProxyType({})) -> Mended:
    """
    Give links of `note` other targets, followed by what is to be `shown`.

    Those for which there is none, or that cannot be written there, are left.
    """
    chosen = {link: form for link, form in forms.items() if form is not None}
    left = tuple(link for link in forms if link not in chosen)
    if not chosen or not note.editable:
        return Mended(note.text, 0, tuple(forms))
    changes = [
        (link.start, link.end, spelled(link, note.text[link.start : link.end], form) + shown.get(link, ""))
        for link, form in sorted(chosen.items(), key=lambda pair: pair[0].start)
    ]
    text = replaced(note.text, changes)
    expected = [chosen.get(link, link.target) for link in find(note)]
    if [link.target for link in find(parse(note.path, note.encode(text)))] != expected:
        return Mended(note.text, 0, tuple(forms))
    return Mended(text, len(changes), left)


def unlinked(note: Note, is_own: Callable[[Link], bool]) -> str:
    """
    Return the text of `note` without its links to itself, those that `is_own` says are: what they show stays, as text.

    A link to a heading or block stays a link, which names that alone. A definition leads to the top of its page. A link that
    cannot be taken out so that the others read as before is left.
    """
    own = [number for number, link in enumerate(find(note)) if is_own(link)]
    done = _unlinked(note, own)
    if done is None:
        done = note
        for number in reversed(own[-_MOST_ALONE:]):
            done = _unlinked(done, [number]) or done
    return done.text


def _unlinked(note: Note, numbers: Sequence[int]) -> Note | None:
    """Return `note` without some of its links; None if one stands within another, or the rest would not read as before."""
    links, gone = find(note), set(numbers)
    changes = [_without(note.text, links[number]) for number in numbers]
    if any(one[1] > other[0] for one, other in pairwise(changes)):
        return None
    done = parse(note.path, note.encode(replaced(note.text, changes)))
    left = [(link.target, link.fragment) for number, link in enumerate(links) if number not in gone]
    return done if [(link.target, link.fragment) for link in find(done)] == left else None


def _without(text: str, link: Link) -> tuple[int, int, str]:
    """Return which characters of `text` are to be replaced, and by what, so that `link` leads to no file."""
    if not link.is_markdown:
        start, end = text.rindex("[[", 0, link.start), _WIKI_END.match(text, link.end)
        if end is None or link.fragment:
            return link.start, link.end, ""
        return start - (text[start - 1 : start] == "!"), end.end(), end["shown"] or text[link.start : link.end]
    label, end = _label(text, link.start), _INLINE_END.match(text, link.end)
    if label is None or end is None or link.fragment:
        return link.start, link.end, "" if link.fragment else "#"
    start = label[0] - 1
    return start - (text[start - 1 : start] == "!"), end.end(), text[slice(*label)]


def _label(text: str, at: int) -> tuple[int, int] | None:
    """Return where the words stand between `[` and `](`, behind which the destination at `at` comes; None for a definition."""
    close = text.rfind("](", max(0, at - _MOST_LABEL), at)
    if close < 0 or text[close + 2 : at].strip(" \t\r\n<"):
        return None
    depth, block = 0, max(text.rfind("\n\n", 0, close), close - _MOST_LABEL, 0)
    for bracket in reversed([each for each in _BRACKET.finditer(text, block, close + 1) if len(each[0]) == 1]):
        depth += 1 if bracket[0] == "]" else -1
        if depth == 0:
            return bracket.end(), close
    return None
