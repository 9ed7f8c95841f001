"""
Rewrite links so that they lead to the same file after files were moved, and change nothing else in a note.

Pure. Each new text is parsed again; if it does not read as planned, the links stay as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import MappingProxyType

from spellbook.notes.links import By, Files, Link, Span, find, named, replaced, retargeted, spelled
from spellbook.notes.note import Note, parse
from spellbook.text.diff import changed_spans

_WIKI_END = re.compile(r"[ \t]*(?:\\?\|(?P<shown>[^\r\n]*?))?\]\]")
_INLINE_END = re.compile(
    r"""(?:\?[^\s>)]*)?>?(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)"""
)
_BRACKET = re.compile(r"\\.|[\[\]]", re.S)
_WORDS = re.compile(r"\[\[[^\[\]|#\r\n]*|\]\([^()\s]*|\w+|\s+|.")
"""What is compared: words, and targets of links as one."""
_MOST_LABEL = 1_000  # letters of a link's words, and before them in its paragraph
_MOST_ALONE = 100
"""Links to the note itself that are taken out one after the other, each with a look at what is left; more are left."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The files before and after a move; `moved` maps old paths to new ones."""

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
        is_well = (
            now is not None and now.path == wanted and (lenient or then.by != By.RELATIVE or now.by == By.RELATIVE)
        )
        return None if is_well else wanted

    def finds(self, source: str, target: str, is_markdown: bool) -> bool:
        """Say whether a link in the note that was at `source`, which led nowhere, leads somewhere by chance now."""
        return (
            self.before.follow(source, target, is_markdown) is None
            and self.after.follow(self.now(source), target, is_markdown) is not None
        )


@dataclass(frozen=True, slots=True)
class Mended:
    """
    A text whose links were mended, how many, and those that could not be.

    `spans` holds the places of the mended links in the new text. It also holds those of links that led nowhere before
    and lead somewhere now; these stay as they are.
    """

    text: str
    count: int
    left: tuple[Link, ...] = ()
    spans: tuple[Span, ...] = ()


def mend(note: Note, source: str, shift: Shift, *, then: Mapping[int, Span | None] | None = None) -> Mended:
    """
    Rewrite the links of `note`, whose path is the new one, and which was at `source`.

    `then` is given when an earlier move is undone. It maps the character position of each link that existed then to
    the span that the move recorded, or None. Links that the move rewrote get their old spelling, links that it left
    stay, and links written since are rewritten as usual.
    """
    forms: dict[Link, str | None] = {}
    spellings: dict[Link, str] = {}
    for link in find(note):
        before = shift.before.follow(source, link.target, link.is_markdown)
        written = note.text[link.start : link.end]
        span = then.get(link.start) if then else None
        if span is not None:
            would = shift.after.follow(note.path, named(link, span.before), link.is_markdown)
            if span.before == written or before is None or (would is not None and would.path == shift.now(before.path)):
                forms[link], spellings[link] = named(link, span.before), span.before
                continue
        is_old = then is not None and (not then or link.start in then)
        wanted = shift.wanted(source, link.target, link.is_markdown, lenient=is_old)
        if wanted is not None and before is not None:
            forms[link] = retargeted(link, before, note.path, wanted, shift.after)
        elif shift.finds(source, link.target, link.is_markdown):
            forms[link], spellings[link] = link.target, written
    return rewrite_links(note, forms, spellings=spellings)


def rewrite_links(
    note: Note,
    forms: Mapping[Link, str | None],
    spellings: Mapping[Link, str] = MappingProxyType({}),
) -> Mended:
    """Give links other targets, spelled as in `spellings` if there; others are left."""
    chosen = {link: form for link, form in sorted(forms.items(), key=lambda pair: pair[0].start) if form is not None}
    left = tuple(link for link in forms if link not in chosen)
    changes: list[tuple[int, int, str]] = []
    spans: list[Span] = []
    grown = count = 0
    for link, form in chosen.items():
        written = note.text[link.start : link.end]
        new = spellings.get(link) or spelled(link, written, form)
        spans.append(Span(link.start + grown, written, new))
        changes.append((link.start, link.end, new))
        grown += len(new) - len(written)
        count += new != written
    if not count:
        return Mended(note.text, 0, left, tuple(spans))
    text = replaced(note.text, changes)
    expected = [chosen.get(link, link.target) for link in find(note)]
    if not note.editable or [link.target for link in find(parse(note.path, note.encode(text)))] != expected:
        return Mended(note.text, 0, tuple(forms))
    return Mended(text, count, left, tuple(spans))


def derive_spans(before: Note, after: Note) -> tuple[Span, ...]:
    """Return what was done to the links of a note, by its texts before and after."""
    pairs = zip(find(before), find(after), strict=False)
    spans = (Span(b.start, before.text[a.start : a.end], after.text[b.start : b.end]) for a, b in pairs)
    return tuple(span for span in spans if span.before != span.after)


def find_again(former: str, spans: Sequence[Span], note: Note) -> dict[int, Span | None]:
    """Return the links that were in the `former` text, by position now, each with its span or None."""
    by_place = {span.at: span for span in spans}
    same = [*_same(former, note.text)]
    starts = [start for _, start, _ in same]
    spans_now: dict[int, Span | None] = {}
    for link in find(note):
        block = bisect_right(starts, link.start) - 1
        if block < 0 or link.end > same[block][1] + same[block][2]:
            continue
        span = by_place.get(link.start - same[block][1] + same[block][0])
        spans_now[link.start] = span if span is not None and span.after == note.text[link.start : link.end] else None
    return spans_now


def _same(old: str, new: str) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of characters that two texts share, in order: where each begins in both, and its length."""
    words = [_WORDS.findall(text) for text in (old, new)]
    ours, theirs = ([*accumulate(map(len, text), initial=0)] for text in words)
    at = to = 0
    for i, j, _, m in (*changed_spans(*words), (len(words[0]),) * 2 + (len(words[1]),) * 2):
        yield ours[at], theirs[to], ours[i] - ours[at]
        at, to = j, m


def unlink(note: Note, is_own: Callable[[Link], bool]) -> str:
    """
    Return the text of `note` without its links to itself, which `is_own` recognises; the shown words stay as text.

    A link to a heading or block stays a link, with the heading or block alone. A definition leads to the top of its
    page. A link stays if the other links would be read differently without it.
    """
    own = [number for number, link in enumerate(find(note)) if is_own(link)]
    done = _unlink(note, own)
    if done is None:
        done = note
        for number in reversed(own[-_MOST_ALONE:]):
            done = _unlink(done, [number]) or done
    return done.text


def _unlink(note: Note, numbers: Sequence[int]) -> Note | None:
    """Return `note` without some of its links; None if two overlap, or others would be read differently."""
    links, gone = find(note), set(numbers)
    changes = [_removal_of(note.text, links[number]) for number in numbers]
    if any(one[1] > other[0] for one, other in pairwise(changes)):
        return None
    done = parse(note.path, note.encode(replaced(note.text, changes)))
    left = [(link.target, link.fragment) for number, link in enumerate(links) if number not in gone]
    return done if [(link.target, link.fragment) for link in find(done)] == left else None


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
