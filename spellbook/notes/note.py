"""
A note: one Markdown file as text, metadata and blocks. Pure: bytes in, values out.

Faulty frontmatter never prevents reading: the body is kept and the fault reported. An edit changes only the requested
characters.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Literal

from spellbook.notes import dates
from spellbook.notes.encoded_data import LEAST_DATA, places
from spellbook.notes.files import MOST_BYTES, Fault, too_large
from spellbook.notes.frontmatter import IMPORTANCE, BadHeader, header_in, importance_of, label_of, line_at, load
from spellbook.notes.labels import COMMA
from spellbook.notes.markdown import CODE, REST, marks, runs
from spellbook.notes.markdown import Block as Block
from spellbook.notes.markdown import blocks as blocks
from spellbook.notes.markdown import heading_text as heading_text
from spellbook.notes.markdown import height as height
from spellbook.notes.markdown import lines as lines
from spellbook.notes.relations import MERGED
from spellbook.system.errors import UnreadableNote
from spellbook.system.lazy import charset_normalizer, regex
from spellbook.text.unicode import composed, without_ending

_MOST_NAME = 1_000
"""Most letters of a title, a topic or a category: they are shown with each chunk."""

_MOST_LABEL = 200
"""Most letters of a tag in the text; a longer word is not a tag."""

# The lines of a conflict as git (with diff3 and zdiff3), hg and jj write it: all of one length, the others between the
# first and the last. A rule of dashes needs a label: in Markdown it is one of a heading.
_MARKER = regex(r"(?:([<|>=%+\\])\1{6,}|-{7,}(?=[ ]\S))(?=[ \r\n]|\Z)")
_CONFLICT = regex(r"<[|=%+\\-]*[=%+][|=%+\\-]*>")
OURS = "this copy"
"""The label of our side in conflicts of the merge driver."""

# A quick test, that begins with a letter to look for. `](#part)` is a link into the page.
_MAY_BE_TAG = regex(r"#(?=[^\s#])(?<![^\W_]#)(?<!\]\(#)")
_GRAPH = regex(r"(?:^|/)(?:pages|journals)/")
_NAME = r"[^\s:\"|^(){}#\[\]]{1,100}"
_PAGE_PROPERTIES = regex(
    rf"\s*+(?:[-*][ \t]+)?((?:[ \t]*+{_NAME}::(?:[ \t][^\r\n]*+)?(?:\r?\n|\Z))++)"
    rf"|\s*+:PROPERTIES:[ \t]*\r?\n((?:[ \t]*+(?!:END:):{_NAME}:[^\r\n]*+\r?\n)*+)[ \t]*:END:"
)
_PROPERTY = regex(rf"^[ \t]*+:?({_NAME}?)::?(?:[ \t]+([^\r\n]*+))?\r?$", re.M)
_REFERENCE = regex(r"\"([^\"]*+)\"|\[\[((?:[^\[\]]|\[\[[^\[\]]*\]\])++)\]\]|#([^\s#,，\[\]]+)|([^,，#\[\]\"]+)")
"""A page, a tag or a text in a property of Logseq, as its `split-page-refs-without-brackets` divides them."""

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be"]


@dataclass(frozen=True, slots=True)
class Note:
    """
    One Markdown file.

    `text` is the whole file, BOM included, so that `encode` gives the file's bytes back; `body` begins at the character
    `body_at` and the 1-based line `body_line`, and has the lines `body_lines`, which begin at the characters `offsets`;
    the last of these is the end. `meta` holds the frontmatter as plain values, empty where it has a fault. `data` are
    the first characters and the ends of text that is not words. `page` has the properties that a page of Logseq begins
    with (`alias:: A, [[B]]`), their keys in small letters.
    """

    path: str
    text: str = field(repr=False)
    meta: Mapping[str, Any]
    body_at: int
    body_line: int
    blocks: tuple[Block, ...] = field(repr=False)
    faults: tuple[Fault, ...] = ()
    encoding: Encoding = "utf-8"
    editable: bool = True
    body_lines: tuple[str, ...] = field(default=(), repr=False, compare=False)
    offsets: tuple[int, ...] = field(default=(), repr=False, compare=False)
    data: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    page: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def body(self) -> str:
        """The text after the frontmatter."""
        return self.text[self.body_at :]

    @property
    def declared_id(self) -> str | None:
        """The frontmatter's `id`, if it can serve as one."""
        value = self.meta.get("id")
        name = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
        return name if 0 < len(name) <= 200 and not re.search(r"[#~\s\x00-\x1f]|(?i:\.md)$", name) else None

    @property
    def own_title(self) -> str:
        """The title that the text itself gives, "" if only the file name is left."""
        declared = " ".join((_one(self.meta.get("title")) or self.page.get("title", "")).split())[:_MOST_NAME]
        blocks = () if is_drawing(self.path, self.meta) else self.blocks
        return declared or next((block.text for block in blocks if block.kind == "heading" and block.level == 1), "")

    @property
    def title(self) -> str:
        """Frontmatter `title`, else the first `#` heading, else the file name, or the page of Logseq that it names."""
        return self.own_title or dates.page(self.path) or without_ending(self.path.rpartition("/")[2])

    @property
    def topic(self) -> str:
        """Frontmatter `topic`, else the folder; "" for a note at the top of the vault."""
        return _one(self.meta.get("topic"))[:_MOST_NAME] or self.path.rpartition("/")[0]

    @property
    def category(self) -> str:
        """The category that files the note: the first of `categories`, or ""."""
        return next(iter(self.categories), "")

    @property
    def categories(self) -> tuple[str, ...]:
        """Frontmatter `category`: one text, or a list."""
        value = self.meta.get("category")
        return tuple(name[:_MOST_NAME] for name in _many(value if isinstance(value, list) else [value]))

    @property
    def kind(self) -> str:
        """Frontmatter `kind`, else `memory` for a note that Spellbook wrote and `note` for a person's."""
        return _one(self.meta.get("kind"))[:_MOST_NAME] or ("memory" if self.declared_id else "note")

    @property
    def keywords(self) -> tuple[str, ...]:
        """Frontmatter `keywords`; one text is read as a list with commas."""
        return _many(self.meta.get("keywords"))

    @property
    def questions(self) -> tuple[str, ...]:
        """Frontmatter `questions` (or `question_this_answers`); a text is one question."""
        value = self.meta.get("questions", self.meta.get("question_this_answers"))
        return _many([value] if isinstance(value, str) else value)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Obsidian's `aliases`, and Logseq's `alias::`."""
        declared = _many(self.meta.get("aliases", self.meta.get("alias")))
        return tuple(dict.fromkeys((*declared, *self._references("alias", "aliases"))))

    @property
    def merged(self) -> tuple[str, ...]:
        """The ids, and the paths without `.md`, of the notes that were merged into this one."""
        return _many(self.meta.get(MERGED), ",")

    @property
    def entities(self) -> tuple[str, ...]:
        """Names of the frontmatter's `entities`: plain, or `{name, type}`."""
        value = self.meta.get("entities")
        listed = value if isinstance(value, list) else [value]
        return _many([item.get("name") if isinstance(item, Mapping) else item for item in listed])

    @property
    def tags(self) -> tuple[str, ...]:
        """Frontmatter `tags` and the body's `#tags`, without `#`, as Obsidian reads them."""
        declared = [tag.lstrip("#") for tag in _many(self.meta.get("tags", self.meta.get("tag")), split=rf"{COMMA}\s")]
        of_page = self._references("tags", "tag", "filetags")
        return tuple(dict.fromkeys([*filter(None, declared), *of_page, *self._inline_tags()]))

    @property
    def importance(self) -> float:
        """Importance in 0..1; IMPORTANCE where the note says nothing usable."""
        number = importance_of(self.meta.get("importance"))
        return IMPORTANCE if math.isnan(number) else min(1.0, max(0.0, number))

    @property
    def created(self) -> str | None:
        """The date of its frontmatter by `dates.CREATED`, in ISO 8601."""
        return dates.find({**self.page, **self.meta}, dates.CREATED)[1] or None

    @property
    def updated(self) -> str | None:
        """The date of its frontmatter by `dates.UPDATED`, in ISO 8601."""
        return dates.find({**self.page, **self.meta}, dates.UPDATED)[1] or None

    def encode(self, text: str | None = None) -> bytes:
        """Return `text` (the note's own by default) as the bytes of a file like this one."""
        return (self.text if text is None else text).encode(self.encoding)

    def _references(self, *keys: str) -> list[str]:
        """Return the pages, tags and texts of properties of a page of Logseq."""
        found = (match for key in keys for match in _REFERENCE.finditer(self.page.get(key, "")))
        return list(filter(None, (composed(match[match.lastindex or 0].strip()) for match in found)))

    def _inline_tags(self) -> Iterator[str]:
        text = self.text.replace("\0", " ")
        for run in runs(self.blocks, text, self.offsets, lambda *span: _MAY_BE_TAG.search(text, *span) is not None):
            found = (composed(mark["tag"]).strip("/") for kind, mark in marks(text, *run) if kind == "tag")
            yield from (tag for tag in found if len(tag) <= _MOST_LABEL)


def parse(path: str, data: bytes) -> Note:
    """Read bytes as a note. Raises UnreadableNote if they are not UTF-8, or UTF-16 with a BOM."""
    text, encoding = decode(path, data)
    faults: list[Fault] = []
    if "\0" in text:
        reason = "NUL bytes in the text, as a disk or a sync leaves them; read as spaces"
        faults.append(Fault(path, line_at(text, text.index("\0")), reason))
    match = header_in(text)
    meta: dict[str, Any] = {}
    problems: list[Fault] = []
    if match:
        try:
            meta, repeated, odd = load(match[0])
            faults += [Fault(path, line + 2, reason) for reason, line in odd]
            problems += [Fault(path, line + 2, f"the key {key!r} is there twice") for key, line in repeated]
        except BadHeader as error:
            problems.append(Fault(path, error.line + 2, str(error)))
            # Text between two rules may as well be prose as faulty frontmatter, and no text of a person may be hidden.
            match = None if error.is_text else match
    body_at = match.end() if match else int(text.startswith("\ufeff"))
    body_line = line_at(text, body_at)
    body = text[body_at:]
    parsed = tuple(blocks(body.replace("\0", " ")))
    body_lines = tuple(lines(body))
    offsets = tuple(accumulate(map(len, body_lines), initial=body_at))
    if marked := _conflict_marks(body_lines, parsed) if "<<<<<<<" in body else set():
        reason = "conflict markers: keep one text, delete the markers"
        faults.append(Fault(path, body_line + min(marked), reason))
        kept = ("\n" if at in marked else line for at, line in enumerate(body_lines))
        parsed = tuple(blocks("".join(kept).replace("\0", " ")))
    is_drawn = is_drawing(path, meta)
    unread = places(text, body_at, is_drawn) if is_drawn or len(body) >= LEAST_DATA else []
    if unread:
        bounds = [*chain(*unread)]
        parsed = tuple(block for block in parsed if bisect_right(bounds, offsets[block.start]) % 2 == 0)
    if parsed and parsed[-1].kind == REST:
        reason = "its text is over 1 MB; it is found as plain text, not by its sections"
        faults.append(Fault(path, body_line + parsed[-1].start, reason))
    return Note(
        path,
        text,
        meta,
        body_at,
        body_line,
        parsed,
        (*faults, *problems),
        encoding,
        not problems,
        body_lines,
        offsets,
        tuple(unread),
        page_properties(body) if is_of_graph(path) else {},
    )


def is_of_graph(path: str) -> bool:
    """Say whether a note lies where a Logseq graph has its pages and journals."""
    return bool(_GRAPH.search(path))


def page_properties(body: str) -> dict[str, str]:
    """Return the properties that a page of Logseq begins with, by their keys in small letters, `-` for `_`."""
    match = _PAGE_PROPERTIES.match(body)
    rows = _PROPERTY.finditer((match[1] or match[2] or "") if match else "")
    return {row[1].casefold().replace("_", "-"): value for row in rows if (value := (row[2] or "").strip())}


def _conflict_marks(source: Sequence[str], parsed: Iterable[Block]) -> set[int]:
    """
    Return the lines that mark conflicts of git, hg and jj, each of them whole and not in code.

    The merge driver's conflicts are found in code, too: their parts may open a block of code and not close it.
    """
    spans = (span for block in parsed for span in ([block[1:3]] if block.kind in CODE else block.code))
    is_ours = any(line.rstrip() == f"<<<<<<< {OURS}" for line in source)
    code = set() if is_ours else {line for span in spans for line in range(*span)}
    found: dict[int, list[int]] = {}
    for at, line in enumerate(source):
        if (mark := _MARKER.match(line)) and at not in code:
            found.setdefault(len(mark[0]), []).append(at)
    drawn = ((each, _CONFLICT.finditer("".join(source[at][0] for at in each))) for each in found.values())
    return {at for each, whole in drawn for match in whole for at in each[slice(*match.span())]}


def is_drawing(path: str, meta: Mapping[str, Any]) -> bool:
    """Say whether a note is a drawing of Obsidian's plugin Excalidraw."""
    return without_ending(path).endswith(".excalidraw") or "excalidraw-plugin" in meta


def decode(path: str, data: bytes) -> tuple[str, Encoding]:
    """Return the text of `data`, a BOM kept, and the encoding that gives the bytes back. Raises UnreadableNote."""
    if len(data) > MOST_BYTES:
        raise too_large(path, len(data))
    encoding: Encoding = "utf-8"
    if data.startswith(b"\xff\xfe") and not data.startswith(b"\xff\xfe\0\0"):  # the BOM of UTF-32
        encoding = "utf-16-le"
    elif data.startswith(b"\xfe\xff"):
        encoding = "utf-16-be"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", data[: error.start])) + 1
        reason = f"not UTF-8 ({_guess_form(data)})" if encoding == "utf-8" else f"broken UTF-16 ({error.reason})"
        raise UnreadableNote(
            f"{path}, line {line}: {reason}.",
            "Save it as UTF-8; until then it is not indexed, and it was not changed.",
            line,
        ) from error
    # Every other byte of English in UTF-16 is NUL; what a crash leaves is NUL from some point on.
    if text.count("\0") * 3 > len(text):
        guess = _guess_form(data)
        hint = "Save it as UTF-8; it was not changed."
        hint = "Restore the note from a backup, or remove it." if guess == "binary" else hint
        raise UnreadableNote(f"{path}, line 1: {guess}, mostly NUL bytes.", hint, 1)
    return text, encoding


def newline(text: str) -> str:
    """Return the line end that `text` uses first, LF if it has none."""
    match = re.search(r"\r\n|\r|\n", text)
    return match[0] if match else "\n"


def replaced(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return `text` with the characters of each change (start, end, new) replaced; changes are in order."""
    parts, at = [], 0
    for start, end, new in changes:
        parts += [text[at:start], new]
        at = end
    return "".join(parts) + text[at:]


def _guess_form(data: bytes) -> str:
    sample = data[:65536]
    # The encoding of Korean Windows is told by what it spells: the library takes short texts for Chinese.
    korean = re.findall(r"[\uac00-\ud7a3]", sample.decode("cp949", "ignore"))
    if b"\0" not in sample and len(korean) * 3 > len(re.findall(rb"[\x80-\xff]", sample)):
        return "it looks like cp949, the encoding of Korean Windows"
    best = charset_normalizer.from_bytes(sample).best()
    is_text = best and (b"\0" not in sample or best.encoding.startswith(("utf_16", "utf_32")))
    return f"it looks like {best.encoding}" if best and is_text else "binary"


def _one(value: object) -> str:
    while isinstance(value, list):  # YAML reads `[[Books]]` without quotes as a list in a list
        value = next(iter(value), None)
    if value is None or isinstance(value, bool | dict):
        return ""
    return composed(label_of(str(value)).strip())


def _many(value: object, split: str = COMMA) -> tuple[str, ...]:
    if isinstance(value, str):
        value = re.findall(rf"(?:\[\[[^\[\]]*\]\]|\[[^\[\]]*\]\([^()]*\)|[^{split}])+", value)
    return tuple(dict.fromkeys(filter(None, map(_one, value if isinstance(value, list) else [value]))))
