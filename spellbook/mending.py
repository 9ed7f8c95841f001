"""
Mending: links rewritten so that they lead where they led before files got other paths, and nothing else in a note.

Pure. A text that would not read back as exactly that is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from spellbook.links import By, Files, Link, find, replaced, retargeted, spelled
from spellbook.notes import Note, parse


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
