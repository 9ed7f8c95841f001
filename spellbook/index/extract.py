"""
Read one file into its entry in the catalog, the same in every process.

`Rules` has everything else that the entry depends on, so a reader needs neither index nor model. An unreadable note is
an entry with a fault.
"""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from string import ascii_letters, digits
from typing import Any

from spellbook.index import privacy
from spellbook.index.catalog.rows import (
    NO_TEXT,
    QUESTION,
    TITLE,
    ChunkRow,
    FileEntry,
    KnownFile,
    LabelRow,
    LinkRow,
    checksum,
    packed,
)
from spellbook.index.filters import CHANGED, TIERS, bound, flat, fold
from spellbook.index.privacy import category_of, scopes_of
from spellbook.models.base import label_key, short_hash, vector_key
from spellbook.notes import chunks, dates, links, properties
from spellbook.notes.broken_headers import IS_PLACEHOLDER, PLACEHOLDER
from spellbook.notes.files import Fault, Stamp
from spellbook.notes.frontmatter import as_json
from spellbook.notes.labels import MOST_LABELS, SESSION
from spellbook.notes.note import Note, height, parse
from spellbook.notes.where_links_lead import key as link_key
from spellbook.system.errors import HeldBack, MemoryNotFound, PathOutsideVault, UnreadableNote
from spellbook.system.lazy import regex
from spellbook.text import languages, terms
from spellbook.text.quoting import agent_name
from spellbook.text.unicode import composed
from spellbook.vault.folder import Folder, digest

_log = logging.getLogger(__name__)
_MARKS, _ASCII_MARKS = regex(r"\W+"), bytes(range(128)).translate(None, f"{ascii_letters}{digits}_".encode())
_BOTH = regex(r"(?i)>[ ]?\[!merge\]")
_json = json.JSONEncoder(ensure_ascii=False).encode
_MOST_LINKS = 10_000
"""Links that are indexed of a note: each of its pages resolves them all, 0.2 ms a link."""

_REPEATED = 200_000
"""Letters of its names, labels and questions that the chunks of a note repeat, beside its own length."""

_DEEPEST = 20
"""Levels of a tag by which it is found."""

Piece = Mapping[str, KnownFile | None]
"""Files to read, and the catalog's records of them."""


@dataclass(frozen=True, slots=True)
class Rules:
    """
    The rules of the index: tokens of a chunk, scopes by glob of path, and the embedding that chunk keys name.

    With `sees` (team or public), other notes are left out; see `privacy`. `categories` are for tags and folders,
    `formats` for names of daily notes.
    """

    chunk_tokens: int
    scopes: Mapping[str, str]
    fingerprint: str
    sees: str = ""
    categories: Mapping[str, str] = field(default_factory=dict)
    formats: dates.Formats = ()


def read(vault: Folder, path: str, rules: Rules, known: KnownFile | None = None) -> FileEntry | None:
    """Read one file into its entry, without its note if it is as `known`; return None if it is gone."""
    read_ns = time.time_ns()
    try:
        data, stamp = vault.read(path)
    except (MemoryNotFound, PathOutsideVault):  # it was there a moment ago, or was no link
        return None
    except UnreadableNote as error:
        stamp = vault.stamp(path) or Stamp(0, 0, 0)
        if isinstance(error, HeldBack) and known and known.sha256 and stamp[:2] == known.stamp[:2]:
            return FileEntry(path, stamp, read_ns, known.sha256)  # only its bytes went
        # Its stamp is not trusted: permissions may change without showing in it.
        return FileEntry(path, stamp, 0, "", (Fault.of(path, error),))
    sha256 = digest(data)
    if known is not None and known.sha256 == sha256:
        return FileEntry(path, stamp, read_ns, sha256)
    if rules.sees and not privacy.shows(rules.sees, path, data):
        return None
    try:
        return entry(parse(path, data), rules, stamp, read_ns, sha256)
    except UnreadableNote as error:
        fault = Fault.of(path, error)
    except Exception as error:  # whatever one note does, the others are indexed
        _log.exception("%s cannot be read", path)
        fault = Fault(path, 0, f"Spellbook cannot read it ({type(error).__name__}: {error})")
    return FileEntry(path, stamp, read_ns, sha256, (fault,))


def entry(note: Note, rules: Rules, stamp: Stamp, read_ns: int, sha256: str) -> FileEntry:
    """Return the entry of a note in the catalog. Pure."""
    labels = {name: getattr(note, name) for name in ("keywords", "tags", "aliases", "entities", "questions")}
    linking = links.find(note)
    problems = [fault for fault in note.faults if fault.reason != PLACEHOLDER]
    faults = (*problems, *_left_out(note, {**labels, "links": linking}))
    kept = {name: values[:MOST_LABELS] for name, values in labels.items()}
    pieces = chunks.cut(note, rules.chunk_tokens)
    title = note.title
    says_nothing = _says_nothing(note, pieces)
    meta = as_json(note.meta)
    columns: dict[str, Any] = {
        "name": link_key(note.path),
        "declared": note.declared_id,
        "title": title,
        "topic": composed(note.topic),
        "category": composed(category_of(note, rules.categories)),
        "kind": note.kind,
        "importance": note.importance,
        "created": note.created or dates.day_in(note.path, rules.formats),
        "updated": note.updated,
        "keywords": _json(kept["keywords"]),
        "tags": _json(kept["tags"]),
        "meta": _json(meta),
    }
    own = terms.findable(" ".join(map(" ".join, properties.own(meta))))
    first, later = _found_by(note, pieces, columns, kept, own, says_nothing=says_nothing)
    columns["labels"] = _json([first] if first == later else [first, later])
    rows = _rows(note, pieces, first, later, rules.fingerprint, says_nothing=says_nothing)
    standing = privacy.standing(note.meta, note.updated)
    named = _named(note, rules, columns, kept, standing.by)
    fields = _fields(note, named, pieces, standing.tier)
    linked = tuple(
        LinkRow(link_key(link.target), link.target, link.fragment, link.is_markdown, link.line, link.relation)
        for link in linking[:_MOST_LINKS]
    )
    labelled = tuple(
        LabelRow(kind, text, label_key(rules.fingerprint, kind, text))
        for kind, texts in ((TITLE, (title,)), (QUESTION, kept["questions"]))
        for text in texts
        if text.strip()
    )
    return FileEntry(note.path, stamp, read_ns, sha256, faults, columns, fields, rows, linked, labelled)


def _found_by(
    note: Note,
    pieces: Sequence[chunks.Chunk],
    columns: Mapping[str, Any],
    labels: Mapping[str, Sequence[str]],
    own: str,
    *,
    says_nothing: bool,
) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """
    Return the words of names, labels and questions by which the first chunk and each other one is found.

    `own` are those of a note's own properties.
    """
    names = [columns["title"], *labels["aliases"]]
    if says_nothing and len(pieces) == 1:  # it is found by its file name and headings, too
        heads = (block.text for block in note.blocks if block.kind == "heading")
        names = [*dict.fromkeys((*names, composed(note.path.rpartition("/")[2].removesuffix(".md")), *heads))]
    texts = (names, (*labels["keywords"], *labels["entities"], *labels["tags"]), labels["questions"])
    whole = [" ".join(each) for each in texts]
    repeated = [text[: (_REPEATED + len(note.text)) // len(pieces)] for text in whole]
    found = {text: terms.findable(text) for text in {*whole, *repeated}}
    name, label, question = (found[text] for text in whole)
    first = name, label, f"{question} {own}".strip()
    if says_nothing and len(pieces) > 1:
        first = "", "", own  # the other chunks are found by the rest
    name, label, question = (found[text] for text in repeated)
    return first, ("" if columns["category"] == SESSION else name, label, question)


def _rows(
    note: Note,
    pieces: Sequence[chunks.Chunk],
    first: tuple[str, str, str],
    later: tuple[str, str, str],
    fingerprint: str,
    *,
    says_nothing: bool,
) -> tuple[ChunkRow, ...]:
    """Return the rows of a note's chunks; a first one that `says_nothing` gets no vector."""
    headings = {heading: terms.findable(heading) for heading in {" > ".join(piece.heading) for piece in pieces}}
    rows = tuple(_row(note, piece, headings, later if piece.ordinal else first, fingerprint) for piece in pieces)
    if not says_nothing:
        return rows
    names, labels, questions = first
    words = (names, "", labels, questions, "", "")
    return (rows[0]._replace(key=NO_TEXT, checksum=checksum(*words), words=words), *rows[1:])


def _named(
    note: Note, rules: Rules, columns: Mapping[str, object], labels: Mapping[str, Sequence[str]], by: str
) -> dict[str, Sequence[object]]:
    """Return the values of a note, which `by` wrote, that filters know by names of their own."""
    titles = [columns["title"]] if note.page.get("title") else []  # a page of Logseq is linked by it
    merged = (name.rpartition("/")[2] for name in note.merged)  # links to a note that was merged into this one
    named: dict[str, Sequence[object]] = {
        "id": [note.declared_id] if note.declared_id else [],
        **{name: [columns[name]] for name in ("title", "topic", "kind")},
        "category": note.categories or [columns["category"]],
        "keywords": labels["keywords"],
        "aliases": (*labels["aliases"], *merged, *dates.logseq_names(note.path), *titles),
        "entities": labels["entities"],
        "scope": scopes_of(note, rules.scopes),
        # A tag a/b is found by a as well.
        "tags": [
            "/".join(tag.split("/")[:depth])
            for tag in labels["tags"]
            for depth in range(1, min(tag.count("/"), _DEEPEST) + 2)
        ],
    }
    if privacy.is_untrusted(note.meta):
        named[privacy.TRUST] = [privacy.UNTRUSTED]
    if by:
        named["by"] = (by, by.partition("/")[0], agent_name(by))
    return named


def _fields(
    note: Note, named: Mapping[str, Sequence[object]], pieces: Sequence[chunks.Chunk], tier: str
) -> frozenset[tuple[str, str, int]]:
    """Return key, folded value and ordinal of all that a filter can ask of a note; -1 for the whole of it."""
    found = islice(properties.fields(note), 20 * MOST_LABELS)
    starts = [piece.start for piece in pieces]
    in_text = ((*pair, bisect_right(starts, at) - 1) for at, key, value in found for pair in flat(fold(key), value))
    # `ko-KR` is found by `ko` too, and `lang` by `language`. Where no key declares it: by its text, if that is clear.
    declared = note.meta.get("language") or note.meta.get("lang")
    language = languages.code(declared) if declared else languages.of_note(note.body)
    of_page = {key: note.page[key] for key in note.page.keys() & {"type"}}
    others = {key: value for key, value in {**of_page, **note.meta}.items() if key not in named}
    of_note = [(key, fold(value), -1) for key, values in named.items() for value in values]
    of_note += [(*pair, -1) for key, value in others.items() for pair in flat(fold(key), value)]
    of_note += [("language", language, -1)] if language else []
    # No note calls itself confirmed by a key of that name.
    fields = frozenset(row for row in (*of_note, *in_text) if row[0] != "tier" or row[1] not in {*TIERS, CHANGED})
    return fields | {("tier", tier, -1)} if tier != TIERS[0] else fields


def _says_nothing(note: Note, pieces: Sequence[chunks.Chunk]) -> bool:
    """Return whether a note's first chunk is empty or only its title; for a single chunk, only a heading."""
    text = pieces[0].text.strip()
    heading = note.blocks[0] if note.blocks and note.blocks[0].kind == "heading" else None
    if not text or heading is None:
        return not text
    is_alone = height(text) == heading.end - heading.start
    return is_alone and (len(pieces) == 1 or heading.text == note.own_title)


def folded(text: str) -> str:
    """Return a hash that is equal for texts that differ only in case, blanks and marks."""
    letters = fold(text).encode("utf-8", "surrogatepass").translate(None, _ASCII_MARKS)
    if not letters.isascii():
        letters = _MARKS.sub("", letters.decode("utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")
    return short_hash(letters)


def _left_out(note: Note, labels: Mapping[str, Sequence[object]]) -> Iterator[Fault]:
    """Yield a fault for each date that cannot be read, each part too large to be indexed, and callouts of a merge."""
    valid = (key for key in dates.VALID if note.meta.get(key) and bound(str(note.meta[key])) is None)
    unread = (key for key in (*dates.unread(note.meta), *valid) if not IS_PLACEHOLDER.search(str(note.meta[key])))
    for key in unread:
        yield Fault(note.path, 0, f"the date {key} is not understood: {str(note.meta[key])!r:.40}")
    for name, values in labels.items():
        if len(values) > (most := _MOST_LINKS if name == "links" else MOST_LABELS):
            yield Fault(note.path, 1, f"only the first {most:,} of its {len(values):,} {name} are indexed")
    quotes = (block.start for block in note.blocks if block.kind == "blockquote")
    if both := [note.body_line + start for start in quotes if _BOTH.match(note.body_lines[start])]:
        yield Fault(note.path, both[0], "a merge kept the texts of both sides: keep one, and delete the callout")
    most = chunks.most_sections(note)
    if len(note.blocks) > most and len(starts := chunks.tops(note)) > most:
        line = note.body_line + note.blocks[starts[most]].start
        yield Fault(
            note.path,
            line,
            f"only its first {most:,} sections are indexed each by itself; the {len(starts) - most:,} from here on, "
            "by size",
        )


def _row(
    note: Note, piece: chunks.Chunk, headings: Mapping[str, str], labels: Sequence[str], fingerprint: str
) -> ChunkRow:
    (title, keywords, questions), heading, text = labels, " > ".join(piece.heading), piece.text
    words = (title, headings[heading], keywords, questions, terms.index_form(text), terms.parts(text))
    return ChunkRow(
        piece.suffix,
        piece.ordinal,
        heading,
        piece.line,
        piece.end_line,
        packed(text),
        piece.above,
        piece.lead,
        piece.tail,
        folded(note.text[piece.start : piece.end]),
        vector_key(fingerprint, piece.embedded),
        checksum(*words),
        words,
    )


def entries(vault: Folder, rules: Rules, piece: Piece) -> list[FileEntry]:
    """Read a piece in this process; files that are gone are left out."""
    return [entry for path, known in piece.items() if (entry := read(vault, path, rules, known))]
