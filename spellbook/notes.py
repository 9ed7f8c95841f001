"""
A note: one Markdown file as text, metadata and blocks.

Reading never fails on bad frontmatter (the body is what a person wrote, the
fault is told), and an edit changes the characters it was asked to change and
no other. Pure: bytes in, values out; no file is touched here.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from spellbook.errors import UnreadableNote

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_BYTES = 10_000_000
"""Larger files are reported, not read."""

_MOST_HEADER = 256_000
_MOST_VALUES = 10_000
FRONTMATTER = re.compile(r"\ufeff?---[ \t]*(?:\r\n|\n|\r)(.*?)(?:(?<=\n)|(?<=\r))---[ \t]*(?:\r\n|\n|\r|\Z)", re.S)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_INLINE_TAG = re.compile(r"(?<![^\s(\[,;])#([\w/-]+)")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
_IMPORTANCE = {"low": 0.2, "medium": 0.5, "high": 0.8}

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that a person should mend. `line` is 1-based, 0 where none is known."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the disk says of a file without opening it: bytes, nanoseconds, inode."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Block:
    """
    A top-level Markdown block of a body.

    `start` and `end` are lines of the body, 0-based, end exclusive; `level`
    and `text` are a heading's, `items` the first lines of a list's items.
    """

    kind: str
    start: int
    end: int
    level: int = 0
    text: str = ""
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """
    One Markdown file.

    `text` is the whole file, BOM included, so that `encode` gives the file's
    bytes back; `body` begins at the character `body_at` and the 1-based line
    `body_line`. `meta` holds the frontmatter as plain values, empty where it
    has a fault.
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

    @property
    def body(self) -> str:
        """The text after the frontmatter."""
        return self.text[self.body_at :]

    @property
    def declared_id(self) -> str | None:
        """The frontmatter's `id`, if it can serve as one."""
        value = self.meta.get("id")
        name = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
        return name if 0 < len(name) <= 200 and not re.search(r"[#~\s\x00-\x1f]", name) else None

    @property
    def own_title(self) -> str:
        """The title that the text itself gives, "" if only the file name is left."""
        given = self.meta.get("title")
        if isinstance(given, str | int | float) and str(given).strip():
            return str(given).strip()
        return next((block.text for block in self.blocks if block.kind == "heading" and block.level == 1), "")

    @property
    def title(self) -> str:
        """Frontmatter `title`, else the first `#` heading, else the file name."""
        return self.own_title or self.path.rpartition("/")[2].removesuffix(".md")

    @property
    def topic(self) -> str:
        """Frontmatter `topic`, else the folder; "" for a note at the top of the vault."""
        return _one(self.meta.get("topic")) or self.path.rpartition("/")[0]

    @property
    def category(self) -> str:
        """Frontmatter `category`, or ""."""
        return _one(self.meta.get("category"))

    @property
    def kind(self) -> str:
        """Frontmatter `kind`, else `memory` for what Spellbook wrote and `note` for a person's."""
        return _one(self.meta.get("kind")) or ("memory" if self.declared_id else "note")

    @property
    def keywords(self) -> tuple[str, ...]:
        """Frontmatter `keywords`; one text is read as a list with commas."""
        return _many(self.meta.get("keywords"))

    @property
    def questions(self) -> tuple[str, ...]:
        """Frontmatter `questions` (or `question_this_answers`)."""
        value = self.meta.get("questions", self.meta.get("question_this_answers"))
        return _many([value] if isinstance(value, str) else value)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Obsidian's `aliases`."""
        return _many(self.meta.get("aliases", self.meta.get("alias")))

    @property
    def entities(self) -> tuple[str, ...]:
        """Names of the frontmatter's `entities`: plain, or `{name, type}`."""
        value = self.meta.get("entities")
        listed = value if isinstance(value, list) else [value]
        return _many([each.get("name") if isinstance(each, Mapping) else each for each in listed])

    @property
    def tags(self) -> tuple[str, ...]:
        """Frontmatter `tags` and the body's `#tags`, without `#`, as Obsidian reads them."""
        given = [tag.lstrip("#") for tag in _many(self.meta.get("tags", self.meta.get("tag")), split=r"[,\s]+")]
        return tuple(dict.fromkeys([*filter(None, given), *self._inline_tags()]))

    @property
    def importance(self) -> float:
        """Importance in 0..1; 0.5 where the note says nothing usable."""
        value = self.meta.get("importance")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return min(1.0, max(0.0, float(value)))
        return _IMPORTANCE.get(str(value).strip().lower(), 0.5)

    @property
    def created(self) -> str | None:
        """Frontmatter `created` (or `date`) in ISO 8601."""
        return iso(self.meta.get("created", self.meta.get("date")))

    @property
    def updated(self) -> str | None:
        """Frontmatter `updated` (or `modified`) in ISO 8601."""
        return iso(self.meta.get("updated", self.meta.get("modified")))

    def encode(self, text: str | None = None) -> bytes:
        """Return `text` (the note's own by default) as the bytes of a file like this one."""
        return (self.text if text is None else text).encode(self.encoding)

    def _inline_tags(self) -> Iterator[str]:
        if "#" not in self.body:
            return
        source = lines(self.body)
        for block in self.blocks:
            if block.kind in {"fence", "code_block", "html_block"}:
                continue
            prose = _CODE_SPAN.sub(" ", "".join(source[block.start : block.end]))
            # A number alone is no tag in Obsidian.
            yield from (tag.strip("/") for tag in _INLINE_TAG.findall(prose) if re.search(r"[^\d/]", tag))


def parse(path: str, data: bytes) -> Note:
    """
    Read a file's bytes as a note.

    `path` is relative to the vault, with `/`. Raises UnreadableNote if the
    bytes are no text that Spellbook reads (UTF-8, or UTF-16 with a BOM).
    """
    text, encoding = decode(path, data)
    faults: list[Fault] = []
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        faults.append(Fault(path, line, "NUL bytes in the text, as a disk or a sync leaves them; read as spaces"))
    match = FRONTMATTER.match(text)
    header = match[1] if match else ""
    meta: dict[str, Any] = {}
    problems: list[Fault] = []
    if match:
        try:
            meta, repeated = _load(header)
            problems += [Fault(path, line + 2, f"the key {key!r} is there twice") for key, line in repeated]
        except _BadHeader as error:
            problems.append(Fault(path, error.line + 2, str(error)))
    body_at = match.end() if match else int(text.startswith("\ufeff"))
    body_line = len(lines(text[:body_at])) + 1 if match else 1
    blocks = tuple(_blocks(text[body_at:].replace("\0", " ")))
    return Note(path, text, meta, body_at, body_line, blocks, (*faults, *problems), encoding, editable=not problems)


def decode(path: str, data: bytes) -> tuple[str, Encoding]:
    """Return the text of `data`, a BOM kept, and the encoding that gives the bytes back. Raises UnreadableNote."""
    if len(data) > MOST_BYTES:
        raise UnreadableNote(
            f"{path}: {len(data) / 1e6:.0f} MB, and notes are read up to {MOST_BYTES / 1e6:.0f} MB.",
            "Split the note, or list it in .spellbookignore.",
        )
    encoding: Encoding = "utf-8"
    if data.startswith(b"\xff\xfe"):
        encoding = "utf-16-le"
    elif data.startswith(b"\xfe\xff"):
        encoding = "utf-16-be"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableNote(
            f"{path}, line {line}: not UTF-8 ({_looks_like(data)}).",
            "Save it as UTF-8; until then it is not indexed, and it was not changed.",
            line,
        ) from error
    if text and text.count("\0") * 2 > len(text):
        raise UnreadableNote(f"{path}: binary, mostly NUL bytes.", "Restore the note from a backup, or remove it.", 1)
    return text, encoding


def lines(text: str) -> list[str]:
    """Split at CRLF, CR and LF only, as Markdown does, keeping the ends; `str.splitlines` cuts at more."""
    return _LINE.findall(text)


def newline(text: str) -> str:
    """Return the line end that `text` uses first, LF if it has none."""
    match = re.search(r"\r\n|\r|\n", text)
    return match[0] if match else "\n"


def iso(value: object) -> str | None:
    """Return a YAML date, a datetime or a text of one in ISO 8601, None for anything else."""
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, str):
        text = value.strip()
        for form in (text, text.replace("/", "-").replace(". ", "-").rstrip(".")):
            try:
                return dt.datetime.fromisoformat(form).isoformat() if len(form) > 10 else dt.date.fromisoformat(form).isoformat()
            except ValueError:
                continue
    return None


def compose(meta: Mapping[str, object], body: str) -> str:
    """Return the text of a new note: `meta` as frontmatter in its own order, a blank line, `body`."""
    header = "".join(f"{key}: {dump(value)}\n" for key, value in meta.items())
    return f"---\n{header}---\n\n{body.strip(chr(10))}\n"


def dump(value: object) -> str:
    """Return `value` as YAML on one line, ready to stand behind `key: `."""
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    import yaml

    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.strip().removesuffix("...").strip()


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Only the blocks matter here, and leaving inline rules out doubles the speed.
    return MarkdownIt("commonmark").enable("table").disable(["inline"])


def _blocks(body: str) -> Iterator[Block]:
    tokens = _markdown().parse(body)
    for at, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        start, end = token.map
        kind = token.type.removesuffix("_open")
        if kind == "heading":
            yield Block(kind, start, end, int(token.tag[1]), heading_text(tokens[at + 1].content))
        elif kind.endswith("_list"):
            yield Block(kind, start, end, items=_items(tokens, at))
        else:
            yield Block(kind, start, end)


def _items(tokens: Sequence[Token], at: int) -> tuple[int, ...]:
    starts = []
    for token in tokens[at + 1 :]:
        if token.level == 0:
            break
        if token.level == 1 and token.type == "list_item_open" and token.map:
            starts.append(token.map[0])
    return tuple(starts)


def heading_text(source: str) -> str:
    """Return what a reader sees of a heading: no links, emphasis marks, comments or `{#id}`."""
    text = re.sub(r"\{/\*.*?\*/\}|<!--.*?-->|\{#[^}]*\}\s*$|</?[A-Za-z][^>]*>", "", source)
    text = re.sub(r"!?\[\[([^\]|]*\|)?([^\]]*)\]\]", r"\2", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(\*\*|__|~~|`)(.+?)\1", r"\2", text)
    return " ".join(text.split())


def _looks_like(data: bytes) -> str:
    from charset_normalizer import from_bytes  # only when something is wrong already

    sample = data[:65536]
    if b"\0" in sample:
        return "binary"
    try:
        # The encodings of Korean and Japanese Windows are told apart from Latin-1 by what they spell.
        korean = sample.decode("cp949", "ignore")
        if len(re.findall(r"[\uac00-\ud7a3]", korean)) * 3 > len(re.findall(rb"[\x80-\xff]", sample)):
            sample.decode("cp949")
            return "it looks like cp949, the encoding of Korean Windows"
    except UnicodeDecodeError:
        pass
    best = from_bytes(sample).best()
    return f"it looks like {best.encoding}" if best else "binary"


def _one(value: object) -> str:
    if isinstance(value, list):
        value = next(iter(value), None)
    if value is None or isinstance(value, bool | dict):
        return ""
    return unicodedata.normalize("NFC", str(value).strip())


def _many(value: object, split: str = r",") -> tuple[str, ...]:
    if isinstance(value, str):
        value = re.split(split, value)
    listed = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(filter(None, map(_one, listed))))


class _BadHeader(ValueError):
    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line  # 0-based in the header


def _load(header: str) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Return the header's values and its repeated keys with their 0-based lines. Raises _BadHeader."""
    if len(header) > _MOST_HEADER:
        raise _BadHeader(f"the frontmatter is over {_MOST_HEADER // 1000} kB", 0)
    import yaml
    from frontmatter.default_handlers import YAMLHandler

    repeated: list[tuple[str, int]] = []

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                    if key.value in seen:
                        repeated.append((key.value, key.start_mark.line))
                    seen.add(key.value)
            result: dict[Any, Any] = super().construct_mapping(node, deep)
            return result

    try:
        value = YAMLHandler().load(header.replace("\0", " "), Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _BadHeader(f"the frontmatter is not YAML ({error.problem or error.context})", mark.line if mark else 0) from error
    except yaml.reader.ReaderError as error:
        line = header.count("\n", 0, int(error.position))
        raise _BadHeader(f"the frontmatter is not YAML (the character {error.character!r} is not allowed)", line) from error
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _BadHeader(f"the frontmatter is not YAML ({error})", 0) from error
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "plain text"
        raise _BadHeader(f"the frontmatter is {kind}, not `key: value` lines", 0)
    budget = [_MOST_VALUES]
    return {str(key): _plain(item, budget) for key, item in value.items()}, repeated


def _plain(value: object, budget: list[int], depth: int = 0) -> Any:
    # Aliases make a small header a huge or endless value.
    budget[0] -= 1
    if budget[0] < 0 or depth > 20:
        raise _BadHeader("the frontmatter holds too many or too deep values", 0)
    if isinstance(value, dict):
        return {str(key): _plain(item, budget, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item, budget, depth + 1) for item in value]
    if value is None or isinstance(value, str | bool | int | float | dt.datetime | dt.date):
        return value
    return str(value)
