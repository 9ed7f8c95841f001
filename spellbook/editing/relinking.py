"""
Rewrite the links of one text, so that each still leads to the same file. Pure.

Links are those of a note, and those of a canvas of Obsidian, to files and in text cards. Each new text is parsed again;
if it does not read as planned, the links stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from spellbook.notes.frontmatter import FRONTMATTER
from spellbook.notes.links import Link, destination, find, replaced, retargeted, spelled
from spellbook.notes.note import Note, parse
from spellbook.notes.where_links_lead import By, Files, Reached
from spellbook.system.errors import UnreadableNote
from spellbook.system.lazy import regex
from spellbook.text.unicode import is_whole

_WIKI_END = regex(r"[ \t]*(?:\\?\|(?P<shown>[^\r\n]*?))?\]\]")

# A quote within a string of JSON has a backslash in front of it, a key has none.
_VALUE = regex(r'(?<!\\)"(file|background|text)"\s*:\s*("(?:[^"\\]|\\.)*+")')


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
    forms = {
        link: retargeted(link, places[0], note.path, places[1], shift.after)
        for link in find(note)
        if (places := shift.wanted(source, link.target, link.is_markdown))
    }
    return rewrite_links(note, forms)


def rewrite_links(note: Note, forms: Mapping[Link, str | None]) -> Mended:
    """Give links other targets; those with None are left, and those in frontmatter that cannot be read."""
    header = None if note.editable else FRONTMATTER.match(note.text)
    first = header.end() if header else 0
    ordered = sorted(forms.items(), key=lambda pair: pair[0].start)
    chosen = {link: form for link, form in ordered if form is not None and link.start >= first}
    left = tuple(link for link in forms if link not in chosen)
    written = {link: note.text[link.start : link.end] for link in chosen}
    new = {link: spelled(link, written[link], form) for link, form in chosen.items()}
    changes = [(link.start, link.end, text) for link, text in new.items() if text != written[link]]
    if not changes:
        return Mended(note.text, 0, left)
    text = replaced(note.text, changes)
    expected = [chosen.get(link, link.target) for link in find(note)]
    if [link.target for link in find(parse(note.path, note.encode(text)))] != expected:
        return Mended(note.text, 0, tuple(forms))
    return Mended(text, len(changes), left)


def unlink(note: Note, is_own: Callable[[Link], bool]) -> str:
    """
    Return `note`'s text without its links to itself, which `is_own` recognises; the shown words stay.

    A link to a heading or block keeps that alone. A Markdown link leads to the top of its page. A link stays if the
    other links would be read differently without it.
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
    end = _WIKI_END.match(text, link.end)
    if link.is_markdown or link.fragment or end is None:
        return link.start, link.end, "#" if link.is_markdown and not link.fragment else ""
    start = text.rindex("[[", 0, link.start)
    return start - (text[start - 1 : start] == "!"), end.end(), end["shown"] or text[link.start : link.end]


def cards(path: str, text: str) -> Iterator[tuple[re.Match[str], int, Note]]:
    """Yield the texts and files of a canvas, each with its line and as a note. Raises UnreadableNote if not JSON."""
    try:
        json.loads(text.lstrip("\ufeff").strip() or "null")
    except (ValueError, RecursionError) as error:
        raise UnreadableNote("it is not valid JSON; its links are as they were") from error
    line, at = 1, 0
    for match in _VALUE.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        value = json.loads(match[2])
        if is_whole(value) and (match[1] != "text" or "[" in value):
            markdown = value if match[1] == "text" else f"[file]({destination(f'/{value}')})"
            yield match, line, parse(path, markdown.encode())


def mend_cards(path: str, text: str, mend: Callable[[Note], Mended]) -> Mended:
    """Rewrite the links of a canvas as `mend` does those of a note; raise as `cards` does."""
    changes, left, count = [], [], 0
    for match, line, note in cards(path, text):
        done = mend(note)
        left += [link._replace(line=line) for link in done.left]
        count += done.count
        if done.count:
            is_text = match[1] == "text"
            new = done.text if is_text else find(parse(path, done.text.encode()))[0].target[1:]
            changes.append((*match.span(2), json.dumps(new, ensure_ascii="\\u" in match[2])))
    return Mended(replaced(text, changes), count, tuple(left))
