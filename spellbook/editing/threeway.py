"""
Merge two changed versions of one note with a known common version, for git's merge driver. Pure.

Frontmatter is merged key by key, the text section by section and block by block. Where both sides changed the same
place, both stay: ours in its place, theirs in a callout below that names the side. No conflict marker is written.

Of labels, lists are united. The older time of making, the newer change and the higher importance hold. The text is as
private and as untrusted as `privacy` rules. For every other key our value stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from spellbook.editing.edits import same, with_meta
from spellbook.index import privacy
from spellbook.index.filters import fold, instant
from spellbook.notes.chunks import tops
from spellbook.notes.frontmatter import MERGED, RELATIONS, compose, dump
from spellbook.notes.note import Note, blocks, lines, newline, parse
from spellbook.notes.splitter import sentences
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.text.diff import changed_spans, weave, woven
from spellbook.text.quoting import one_line

LISTS = {
    **{"keywords": r",", "questions": r"\n", "tags": r"[,\s]+", "aliases": r",", "entities": r","},
    **dict.fromkeys(RELATIONS, r"\n"),
}
"""Keys that hold lists, each with what stands between the items of one that is written as a text."""

RULED = {"id", "created", "date", "updated", "modified", "importance", *LISTS, *privacy.RULED}
"""Keys for which a rule chooses one value or unites both, so that the other value need not be shown."""

_DELETED = ("{} 쪽에서는 지움", "deleted by {}")
"""Text of a callout where one side deleted a passage, in Korean and in English."""


@dataclass(frozen=True, slots=True)
class MergedNote:
    """The bytes of the merged note, and the keys, and the headings or the title, at which both sides stand in it."""

    data: bytes
    both: tuple[str, ...] = ()


_CALLOUT = "callout"
_PROSE = {"paragraph", "heading", "bullet_list", "ordered_list"}
"""Kinds of blocks that are merged by their sentences; others are by their lines."""


def merge(
    path: str, base: bytes, ours: bytes, theirs: bytes, names: tuple[str, str] = ("this copy", "other copy")
) -> MergedNote:
    """
    Return the three-way merge of a note; `base` is empty if both sides added it.

    `names` are the sides' names in callouts. If one side changed nothing, the other's bytes are returned. Raises
    UnreadableNote if a version is not a note.
    """
    if theirs in (base, ours):
        return MergedNote(ours)
    if ours == base:
        return MergedNote(theirs)
    original = parse(path, ours)
    of_base, of_ours, of_theirs = (_with_lf(parse(path, data)) for data in (base, ours, theirs))
    draft = _MergeDraft(names, of_ours)
    header = _guard(_merge_header(of_base, of_ours, of_theirs, draft), of_ours, of_theirs, draft)
    tail = draft.body([*map(_sections, (of_base, of_ours, of_theirs))])
    above = "".join(f"{callout}\n\n" for callout in draft.above)
    text = f"{header}\n{above}" + tail.lstrip("\n") if above else header + tail
    data = original.encode(text.replace("\n", newline(original.text)))
    return MergedNote(data, tuple(dict.fromkeys(draft.both)))


def _with_lf(note: Note) -> Note:
    text = re.sub(r"\r\n?", "\n", note.text)
    return parse(note.path, text.encode()) if text != note.text or note.encoding != "utf-8" else note


# -- frontmatter


def _merge_header(base: Note, ours: Note, theirs: Note, draft: _MergeDraft) -> str:
    """Return the merged frontmatter as text, and give `draft` the values of theirs that it lacks."""
    was, here, there = (note.text[: note.body_at] for note in (base, ours, theirs))
    if there in (was, here):
        return here
    if here == was:
        return there
    if ours.editable and theirs.editable and base.editable:
        changes, aside = _merge_values(base, ours, theirs)
        try:
            text = with_meta(ours, changes)
        except Conflict:
            aside |= {key: theirs.meta[key] for key in changes if key in theirs.meta}
            text = ours.text
        known = set(lines(was + here))
        comments = [line.strip() for line in lines(there) if line.lstrip().startswith("#") and line not in known]
        draft.both += aside
        if rows := [*(f"{dump(key)}: {dump(value)}" for key, value in aside.items()), *comments]:
            draft.put_above(1, rows)
        return text[: len(text) - len(ours.body)]
    draft.put_header_above(1, there)
    return here


def _guard(header: str, ours: Note, theirs: Note, draft: _MergeDraft) -> str:
    """Return the merged frontmatter, as private as the more private side and as untrusted as the less trusted one."""
    note = parse(ours.path, header.encode())
    try:
        return guard(note, ours, theirs)
    except (Conflict, InvalidInput):  # it has a fault: what can be read of it is written anew
        draft.put_header_above(0, header)
        wanted = privacy.needed(note.meta, ours.meta, theirs.meta)
        return compose({**note.meta, **wanted}, "").rstrip("\n") + "\n"


def _merge_values(base: Note, ours: Note, theirs: Note) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return values to set in our frontmatter, None to remove, and the values of theirs that ours override."""
    changes: dict[str, Any] = {}
    aside: dict[str, Any] = {}
    for key in dict.fromkeys([*theirs.meta, *base.meta]):
        was, here, there = (note.meta.get(key) for note in (base, ours, theirs))
        if same(there, was) or same(there, here):
            continue
        if same(here, was) or here is None:
            changes[key] = there
        elif there is not None:
            value = choose(key, was, ours, theirs)
            if not same(value, here):
                changes[key] = value
            elif key not in RULED and not (isinstance(here, list) and isinstance(there, list)):
                aside[key] = there
    ids = [note.declared_id for note in (ours, theirs)]
    if all(ids) and ids[0] != ids[1]:
        changes[MERGED] = list(dict.fromkeys([*ours.merged, *theirs.merged, str(ids[1])]))
    return changes, aside


def as_list(value: object, split: str) -> list[Any]:
    """Return the items of a list, of a text with `split` between them, or of a single value."""
    if isinstance(value, str):
        return [part.strip() for part in re.split(split, value) if part.strip()]
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def unite(key: str, was: object, ours: object, theirs: object) -> Any:
    """
    Return the items of two lists under `key`, ours first, without items that one side removed from the list `was`.

    Items are compared by name, without case. Our value is returned as it is if it has all of them.
    """
    before, here, there = (
        {_name(item): item for item in reversed(as_list(value, LISTS.get(key, r"\n"))) if item != ""}
        for value in (was, ours, theirs)
    )
    gone = before.keys() - (here.keys() & there.keys())
    new = {name: item for name, item in reversed(there.items()) if name not in here.keys() | gone}
    if not new and not gone & here.keys():
        return ours
    kept = [item for item in as_list(ours, LISTS.get(key, r"\n")) if _name(item) not in gone]
    return [*kept, *new.values()]


def choose(key: str, was: object, ours: Note, theirs: Note) -> Any:
    """Return the value of a key that both notes have, and that `was` before; ours where no rule holds."""
    here, there = ours.meta[key], theirs.meta[key]
    if key in LISTS or (isinstance(here, list) and isinstance(there, list)):
        return unite(key, was, here, there)
    if key == "importance":
        return here if ours.importance >= theirs.importance else there
    times = [instant(str(value)) for value in (here, there)]
    if key in {"created", "date", "updated", "modified"} and None not in times:
        is_ours = times[0] == times[1] or (times[0] < times[1]) is (key in {"created", "date"})  # type: ignore[operator]
        return here if is_ours else there
    return here


def guard(note: Note, *parts: Note) -> str:
    """
    Return a note's text, as private and as untrusted as any of `parts`.

    Raises InvalidInput or Conflict if its frontmatter cannot be changed.
    """
    wanted = privacy.needed(note.meta, *(part.meta for part in parts))
    return with_meta(note, wanted) if wanted else note.text


def _name(item: object) -> str:
    return fold(item["name"] if isinstance(item, Mapping) and "name" in item else item)


# -- text


class _MergePart(NamedTuple):
    """A block of a note, and the line ends after it."""

    text: str
    kind: str
    gap: str = "\n"


class _MergeSection(NamedTuple):
    """A `##` section: its heading, "" above the first one, and its parts, the heading included."""

    heading: str
    parts: list[_MergePart]

    @property
    def texts(self) -> list[str]:
        """Its blocks without the line ends between them."""
        return _texts(self.parts)


_SectionKey = tuple[str, int]
"""The heading of a section without case, and how many sections before it have the same."""


def _texts(parts: Sequence[_MergePart]) -> list[str]:
    return [part.text for part in parts]


def _sections(note: Note) -> list[_MergeSection]:
    """Return the sections of a note's body; together their parts are the body."""
    source = note.body_lines
    offsets = [*accumulate(map(len, source), initial=0)]
    starts = [0, *(block.start for block in note.blocks), len(source)]
    kinds = ["", *(block.kind for block in note.blocks)]
    first = set(tops(note))
    sections = [_MergeSection("", [])]
    for at, (kind, (start, end)) in enumerate(zip(kinds, pairwise(starts), strict=True)):
        if at - 1 in first:
            sections.append(_MergeSection(note.blocks[at - 1].text, []))
        if text := note.body[offsets[start] : offsets[end]]:
            bare = text.rstrip("\n")
            sections[-1].parts.append(_MergePart(bare, kind, text[len(bare) :]))
    return sections


def _keyed(
    side: Sequence[_MergeSection], base: Mapping[_SectionKey, _MergeSection]
) -> dict[_SectionKey, _MergeSection]:
    """Return sections by their keys; one that was only renamed has the key that it has in `base`."""
    count: Counter[str] = Counter()
    keyed: dict[_SectionKey, _MergeSection] = {}
    for section in side:
        name = fold(section.heading)
        keyed[name, count[name]] = section
        count[name] += 1
    gone = {tuple(old.texts[1:]): key for key, old in base.items() if key not in keyed and len(old.texts) > 1}
    return {key if key in base else gone.pop(tuple(section.texts[1:]), key): section for key, section in keyed.items()}


def _order(base: list[_SectionKey], ours: list[_SectionKey], theirs: list[_SectionKey]) -> list[_SectionKey]:
    """Return all sections in our order, or in theirs if only they moved some; each new one after the one before it."""

    def has_moved(side: list[_SectionKey]) -> bool:
        return [key for key in side if key in base] != [key for key in base if key in side]

    first, second = (theirs, ours) if has_moved(theirs) and not has_moved(ours) else (ours, theirs)
    order = list(first)
    for before, key in pairwise([None, *second]):
        if key is not None and key not in order:
            order.insert(order.index(before) + 1 if before in order else 0, key)
    return order


class _MergeDraft:
    """The callouts of a merge, and where both sides stand in its text."""

    def __init__(self, names: tuple[str, str], ours: Note) -> None:
        self._names = [one_line(name)[:100] or "?" for name in names]
        self._title = ours.title
        self._deleted = _DELETED[0 if re.search("[가-힣]", ours.body) else 1]
        self.both: list[str] = []
        self.above: list[str] = []

    def put_above(self, side: int, rows: Sequence[str]) -> None:
        """Put lines of a side's frontmatter above the text."""
        self.above.append(self._callout(side, "\n".join(f"    {row}" for row in rows)))

    def put_header_above(self, side: int, text: str) -> None:
        """Put the whole frontmatter of a side above the text."""
        self.both.append("frontmatter")
        self.put_above(side, text.strip("\ufeff\n").split("\n"))

    def _callout(self, side: int, text: str) -> str:
        quoted = [f"> {line}" if line else ">" for line in text.split("\n")]
        return "\n".join([f"> [!merge] {self._names[side]}", *quoted])

    def _deletion(self, side: int) -> _MergePart:
        return _MergePart(f"> [!merge] {self._deleted.format(self._names[side])}", _CALLOUT)

    def body(self, sides: Sequence[list[_MergeSection]]) -> str:
        """Return the merged text of the sections of base, ours and theirs."""
        base = _keyed(sides[0], {})
        ours, theirs = (_keyed(side, base) for side in sides[1:])
        neighbours = {
            (a, b, part.gap) for side in (base, ours, theirs) for a, b in pairwise(side) for part in side[a].parts[-1:]
        }
        parts: list[_MergePart] = []
        before: _SectionKey | None = None
        for key in _order(list(base), list(ours), list(theirs)):
            merged = self._merge_section(base.get(key), ours.get(key), theirs.get(key))
            if parts and merged and parts[-1].kind != "heading" and (before, key, parts[-1].gap) not in neighbours:
                parts[-1] = _apart(parts[-1])
            parts += merged
            before = key if merged else before
        return _joined(parts)

    def _merge_section(
        self, base: _MergeSection | None, ours: _MergeSection | None, theirs: _MergeSection | None
    ) -> list[_MergePart]:
        if ours and theirs:
            return self._merge_parts(base.parts if base else [], ours, theirs)
        there, gone = (ours, 1) if ours else (theirs, 0)
        if there is None or (base and base.texts == there.texts):
            return []
        if base is None:
            return there.parts
        self.both.append(there.heading or self._title)
        return [*there.parts, self._deletion(gone)]

    def _merge_parts(self, base: list[_MergePart], ours: _MergeSection, theirs: _MergeSection) -> list[_MergePart]:
        bare = [_texts(base), ours.texts, theirs.texts]
        if not base:  # both added the section: what they have in common is taken for the common version
            spans = changed_spans(bare[1], bare[2])
            edges = [(0, 0), *((span[0], span[1]) for span in spans), (len(bare[1]),) * 2]
            base = [part for (_, a), (b, _) in pairwise(edges) for part in ours.parts[a:b]]
            bare[0] = _texts(base)
        merged: list[_MergePart] = []
        for was, here, there in weave(*bare):
            old, left, right = base[was], ours.parts[here], theirs.parts[there]
            if bare[0][was] == bare[1][here] == bare[2][there]:
                for each in zip(old, left, right, strict=True):
                    merged.append(each[1]._replace(gap=_gap(*each)))
                continue
            if bare[2][there] in (bare[0][was], bare[1][here]):
                new = left
            elif bare[1][here] == bare[0][was]:
                new = right
            else:
                new = self._merge_changed(old, left, right, ours.heading)
            if new:
                last = _gap(*(side[-1] if side else None for side in (old, left, right)))
                new = [*new[:-1], new[-1]._replace(gap=last)]
            merged += new
        return merged

    def _merge_changed(
        self, old: list[_MergePart], ours: list[_MergePart], theirs: list[_MergePart], heading: str
    ) -> list[_MergePart]:
        """Return the parts in the place of blocks that both sides changed, or where both inserted some."""
        if not old:
            have = _texts(ours)
            return [*ours[:-1], _apart(ours[-1]), *(part for part in theirs if part.text not in have)]
        if ours and theirs:
            kinds = {part.kind for part in (*ours, *theirs)}
            cut = _by_sentence if kinds <= _PROSE else lines
            whole = ("".join(part.text + part.gap for part in side).rstrip("\n") for side in (old, ours, theirs))
            was, here, there = (cut(f"{text}\n") for text in whole)
            text = woven(was, here, there, _both_inserted)
            if text is not None:
                return [_MergePart(text.rstrip("\n"), ours[-1].kind)]
        self.both.append(heading or self._title)
        if not ours:
            return [*theirs, self._deletion(0)]
        kept = _MergePart(self._callout(1, "\n\n".join(_texts(theirs))), _CALLOUT) if theirs else self._deletion(1)
        return [*ours, kept]


def _apart(part: _MergePart) -> _MergePart:
    """Return a part with a blank line after it."""
    return part._replace(gap=max(part.gap, "\n\n", key=len))


def _gap(old: _MergePart | None, ours: _MergePart | None, theirs: _MergePart | None) -> str:
    """Return the line ends after a part, as the side has them that changed them."""
    was, here, there = (part and part.gap for part in (old, ours, theirs))
    return str(there if here is None or (there is not None and here == was) else here)


def _by_sentence(text: str) -> list[str]:
    """Cut a text at the ends of its lines and of its sentences; joined, the pieces are the text."""
    pieces: list[str] = []
    for line in lines(text):
        starts = [start for start, _ in sentences(line)]
        pieces += [line[a:b] for a, b in pairwise([0, *starts[1:], len(line)])]
    return pieces


def _both_inserted(old: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """Return the lines that both sides inserted at one place; None if they changed a part, or within a line."""
    if old or not all(part.endswith("\n") for part in (*ours, *theirs)):
        return None
    return [*ours, *(part for part in theirs if part not in ours)]


def _joined(parts: Sequence[_MergePart]) -> str:
    """Return the text of parts, with a blank line around callouts, and where two blocks would be read as one."""
    texts: list[str] = []
    for part, after in pairwise(parts):
        is_apart = (
            len(part.gap) > 1 or not part.text or (_CALLOUT not in (part.kind, after.kind) and _reads(part, after))
        )
        texts.append(part.text + (part if is_apart else _apart(part)).gap)
    return "".join([*texts, *(part.text + part.gap for part in parts[-1:])])


def _reads(part: _MergePart, after: _MergePart) -> bool:
    """Say whether two blocks are read as when each stands alone; no blank line follows a heading that had none."""
    if part.kind == "heading" or not part.gap:
        return bool(part.gap)
    count = len(lines(part.text))
    apart = [*_spans(part.text), *((kind, start + count, end + count) for kind, start, end in _spans(after.text))]
    return _spans(part.text + part.gap + after.text) == apart


def _spans(text: str) -> list[tuple[str, int, int]]:
    return [(block.kind, block.start, block.end) for block in blocks(text)]
