"""
Read a graph of Logseq: Markdown outlines in `pages/` and `journals/`, with settings in `logseq/config.edn`.

Outlines stay outlines. Properties of a page become frontmatter; links, references to blocks, embeds and addresses of
assets lead on from where the pages are put. Pages are read twice, first for what others refer to.
"""

from __future__ import annotations

import calendar
import datetime as dt
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from spellbook.archive.formats.conversations import cleaned, on_one_line
from spellbook.archive.formats.incoming import Incoming, make_note, read_all, stable_id
from spellbook.archive.formats.memories import tags_of
from spellbook.notes.frontmatter import FRONTMATTER, BadHeader, load
from spellbook.notes.links import destination
from spellbook.notes.note import Fault
from spellbook.settings.limits import MOST_TEXT
from spellbook.text.quoting import shortened
from spellbook.vault.names import safe_name

CONFIG = "logseq/config.edn"
_DAY = re.compile(r"(\d{4})[_-]?(\d{2})[_-]?(\d{2})")
_DAY_FORMAT = re.compile(r':journal/page-title-format\s+"([^"]{1,60})"')
_DATE_PART = re.compile(r"yyyy|MMMM|MMM|MM|M|do|dd|d|EEEE|EEE|EE|E")
_BULLET = re.compile(r"(\s*)([-*+]) ?(.*)", re.S)
_PROPERTY = re.compile(r"([^\s:#\[\](){}`\"'][^\s:#\[\](){}`\"]{0,60})::(?: (.*)|\s*)")
_TASK = re.compile(
    r"(TODO|LATER|DOING|NOW|IN-PROGRESS|STARTED|WAITING|WAIT|DONE|CANCELED|CANCELLED)(?:\s+|$)(.*)", re.S
)
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_INLINE = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`).{0,2000}?(?<!`)(?P=ticks)(?!`))"
    rf"|\{{\{{embed \(\((?P<embed>{_UUID})\)\)\s*\}}\}}"
    r"|\{\{embed \[\[(?P<page>[^\[\]\n]{1,300})\]\]\s*\}\}"
    rf"|\[(?P<label>[^\[\]\n]{{1,300}})\]\(\(\((?P<labelled>{_UUID})\)\)\)"
    r"|\[(?P<text>[^\[\]\n]{1,300})\]\(\[\[(?P<to>[^\[\]\n]{1,300})\]\]\)"
    rf"|\(\((?P<block>{_UUID})\)\)"
    r"|#?\[\[(?P<link>[^\[\]\n]{1,300})\]\]"
    r"|\]\((?P<address>[^()\s]{1,1000})\)"
)
_MOST_LABEL = 80


@dataclass(frozen=True, slots=True)
class LogseqGraph:
    """A graph: its name, the folder in the source that it is in (with a `/`, or ""), its files, and how to read one."""

    name: str
    root: str
    paths: Sequence[str]
    read: Callable[[str], Iterator[bytes]]
    mtime: Callable[[str], int | None]


@dataclass(slots=True)
class _KnownPages:
    """What pages refer to: pages by name, folded, files by their path in the graph, and blocks by their id."""

    pages: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    referred: set[str] = field(default_factory=set)
    stems: Counter[str] = field(default_factory=Counter)


def root_of(paths: Sequence[str]) -> str | None:
    """Return the folder among files that a graph is in, with a `/`, or "" for the top; None if there is no graph."""
    configs = [path for path in paths if path == CONFIG or (path.endswith(f"/{CONFIG}") and path.count("/") == 2)]
    return configs[0].removesuffix(CONFIG) if len(configs) == 1 else None


def files(graph: LogseqGraph, faults: list[Fault]) -> Iterator[Incoming]:
    """Yield the pages of a graph as notes, and its other files; what is left out is added to `faults`."""
    inside = [path.removeprefix(graph.root) for path in graph.paths if path.startswith(graph.root)]
    title_format = _DAY_FORMAT.search(_text(graph, CONFIG))
    forms = ([title_format[1]] if title_format else []) + ["MMM do, yyyy", "yyyy-MM-dd", "yyyy_MM_dd"]
    known = _KnownPages()
    notes = (path for path in inside if path.startswith(("pages/", "journals/")) and path.lower().endswith(".md"))
    pages = {path: _name(path) for path in notes}
    for path in inside:
        known.files[path] = _new_path(path, pages[path]) if path in pages else path
    for path, name in pages.items():
        _survey(_text(graph, path), name, known.files[path], known)
        if day := _day(path):
            for form in forms:
                known.pages.setdefault(_format(day, form).casefold(), known.files[path])
    ids: set[str] = set()
    for path in inside:
        source = graph.root + path
        if path in pages:
            id = stable_id("logseq", f"{graph.name}/{pages[path].casefold()}")
            if id in ids:  # files of one page, as other formats of names leave them
                id = stable_id("logseq", f"{graph.name}/{path}")
            ids.add(id)
            meta, body = _note(_text(graph, path), path, pages[path], known)
            yield make_note(known.files[path], {"id": id, **meta}, body, graph.mtime(source))
        elif not path.startswith("logseq/"):
            if path.lower().endswith(".org"):
                faults.append(Fault(path, 0, "an Org page is copied as it is, and is not a note"))
            yield Incoming(path, graph.read(source), None, graph.mtime(source))


def _text(graph: LogseqGraph, path: str) -> str:
    data = read_all(graph.read(graph.root + path), MOST_TEXT, f"{graph.name}: {path[:200]}")
    return cleaned(data.decode("utf-8-sig", "replace"))


def _day(path: str) -> dt.date | None:
    parts = _DAY.fullmatch(path.rpartition("/")[2][:-3]) if path.startswith("journals/") else None
    try:
        return dt.date(*map(int, parts.groups())) if parts else None
    except ValueError:
        return None


def _name(path: str) -> str:
    """Return the name of a page by its file: `___` and `%2F` are slashes, other signs are written like `%3A`."""
    if day := _day(path):
        return day.isoformat()
    stem = path.partition("/")[2][:-3]
    return on_one_line(unquote(stem.replace("___", "/"))) or "untitled"


def _new_path(path: str, name: str) -> str:
    folder = path.partition("/")[0]
    parts = [safe_name(part) for part in name.split("/") if part.strip(" .")]
    return f"{folder}/{'/'.join(parts) or 'untitled'}.md"


def _format(day: dt.date, form: str) -> str:
    """Return a date as Logseq writes it in the titles of journals, with English names."""
    last = "th" if 11 <= day.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    month, week = calendar.month_name[day.month], calendar.day_name[day.weekday()]
    parts = {
        "yyyy": f"{day.year:04}",
        "MMMM": month,
        "MMM": month[:3],
        "MM": f"{day.month:02}",
        "M": str(day.month),
        "do": f"{day.day}{last}",
        "dd": f"{day.day:02}",
        "d": str(day.day),
        "EEEE": week,
        **dict.fromkeys(("EEE", "EE", "E"), week[:3]),
    }
    return _DATE_PART.sub(lambda part: parts[part[0]], form)


# -- lines


def _divide(text: str) -> tuple[dict[str, str], str]:
    """Return the properties of a page, which are its first lines or alone in its first block, and the rest of it."""
    meta: dict[str, str] = {}
    if header := FRONTMATTER.match(text):
        try:
            values = load(header[0])[0]
        except BadHeader:
            return {}, text
        meta = {key: str(value) for key, value in values.items() if isinstance(value, str | int | float)}
        text = text[header.end() :]
    lines = text.lstrip("\n").split("\n")
    is_block = lines[0].startswith("- ")
    properties: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at].removeprefix("- ") if is_block and not at else lines[at].strip()
        entry = _PROPERTY.fullmatch(line.rstrip())
        if entry is None:
            break
        properties[entry[1].lower()] = (entry[2] or "").strip()
        at += 1
    if not properties or (is_block and at < len(lines) and lines[at].strip() and not lines[at].startswith("-")):
        return meta, text  # of a block that says more, they are no properties of the page
    return {**meta, **properties}, "\n".join(lines[at:])


def _lines(body: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a page, and whether they are code."""
    fence = ""
    for line in body.split("\n"):
        plain = re.sub(r"^\s*(?:[-*+] )?\s*", "", line)
        mark = plain[:3]
        if fence:
            yield line, True
            fence = "" if plain.startswith(fence) else fence
        elif mark in {"```", "~~~"}:
            yield line, True
            fence = mark if mark not in plain[3:] else ""
        else:
            yield line, False


def _survey(text: str, name: str, place: str, known: _KnownPages) -> None:
    """Note down the names that a page has, its blocks with an id, and the blocks that it refers to."""
    meta, body = _divide(text)
    known.pages[name.casefold()] = place
    known.stems[posixpath.basename(place)[:-3].casefold()] += 1
    for other in filter(None, (meta.get("title", ""), *_aliases(meta))):
        known.pages.setdefault(other.casefold(), place)
    if meta.get("id"):
        known.blocks[meta["id"].lower()] = place, name, False
    first, can_hold = "", False
    for line, is_code in _lines(body):
        known.referred.update(id.lower() for id in re.findall(_UUID, line) if "((" in line)
        bullet = _BULLET.fullmatch(line)
        if bullet and (not is_code or "```" in line):
            first, can_hold = bullet[3], bool(bullet[3].strip()) and not is_code and not _PROPERTY.fullmatch(bullet[3])
        entry = None if is_code else _PROPERTY.fullmatch(line.strip().removeprefix("- "))
        if entry and entry[1].lower() == "id":
            known.blocks[(entry[2] or "").strip().lower()] = place, _label(first) or name, can_hold


def _names_in(value: str) -> list[str]:
    """Return the names of pages in a property, with commas between them."""
    names = (name.strip().lstrip("#").removeprefix("[[").removesuffix("]]").strip() for name in value.split(","))
    return [*filter(None, names)]


def _aliases(meta: Mapping[str, str]) -> list[str]:
    return [*_names_in(meta.get("alias", "")), *_names_in(meta.get("aliases", ""))]


def _label(text: str) -> str:
    if task := _TASK.fullmatch(text.lstrip("# ")):
        text = task[2]
    return shortened(" ".join(re.sub(r"[\[\]|#^`*{}()]", " ", text).split()), _MOST_LABEL)


def _note(text: str, path: str, name: str, known: _KnownPages) -> tuple[dict[str, object], str]:
    """Return a page as the frontmatter and the body of a note."""
    properties, body = _divide(text)
    meta: dict[str, object] = {
        "title": properties.get("title") or name,
        "aliases": _aliases(properties),
        "tags": tags_of(_names_in(properties.get("tags", ""))),
        "created": _day(path) or properties.get("created"),
    }
    for key, value in properties.items():
        if key not in {*meta, "id", "alias", "collapsed"}:
            meta[key] = _inline(value, path, known)
    return meta, "\n".join(_convert(body, path, known)).strip("\n")


def _convert(body: str, path: str, known: _KnownPages) -> list[str]:
    """Return the lines of a page as Markdown; a block that others refer to ends its first line with `^id`."""
    made: list[str] = []
    first = -1
    for line, is_code in _lines(body):
        bullet = _BULLET.fullmatch(line)
        if bullet and (not is_code or "```" in line):
            first = len(made)
        if is_code:
            made.append(line)
            continue
        plain = bullet[3] if bullet else line.strip()
        if entry := _PROPERTY.fullmatch(plain.strip()):
            key, value = entry[1].lower(), (entry[2] or "").strip()
            if key in {"id", "collapsed"}:
                id = value.lower()
                if bullet:
                    made.append(f"{bullet[1]}{bullet[2]}")
                elif key == "id" and id in known.referred and known.blocks.get(id, ("", "", 0))[2]:
                    made[first] += f" ^{id}"
                continue
            if key == "logseq.order-list-type" and value == "number" and first >= 0 and not bullet:
                made[first] = re.sub(r"^(\s*)[-*+] ", r"\g<1>1. ", made[first])
                continue
            if key == "tags":
                tags = " ".join(f"#{tag.replace(' ', '-')}" for tag in _names_in(value))
                made.append(f"{line[: len(line) - len(line.lstrip())]}{'- ' if bullet else ''}{entry[1]}:: {tags}")
                continue
        if bullet:
            made.append(f"{bullet[1]}{bullet[2]} {_inline(_task(bullet[3]), path, known)}".rstrip())
        else:
            made.append(_inline(line, path, known))
    return made


def _task(text: str) -> str:
    """Return the text of a block with a checkbox for its marker; one that says more than open or done stays."""
    task = _TASK.fullmatch(text)
    if not task:
        return text
    marker, rest = task.groups()
    box = "[x]" if marker in {"DONE", "CANCELED", "CANCELLED"} else "[ ]"
    return f"{box} {rest}" if marker in {"TODO", "LATER", "DONE"} else f"{box} {marker} {rest}"


def _inline(text: str, path: str, known: _KnownPages) -> str:
    """Return a line of the page at `path` with links that lead to where things are now."""

    def target_of(place: str) -> str:
        stem = posixpath.basename(place)[:-3]
        return stem if known.stems[stem.casefold()] == 1 else place[:-3]

    def page(name: str, label: str = "", mark: str = "") -> str:
        place = known.pages.get(" ".join(name.split()).casefold())
        if place is None:
            return ""
        target = target_of(place)
        label = label or (name if name != target and not mark else "")
        return f"{mark}[[{target}{f'|{label}' if label else ''}]]"

    def block(id: str, label: str = "", mark: str = "") -> str:
        if id not in known.blocks:
            return ""
        place, first_words, can_hold = known.blocks[id]
        label = "" if mark else f"|{label or first_words}"
        return f"{mark}[[{target_of(place)}{f'#^{id}' if can_hold else ''}{label}]]"

    def asset(address: str) -> str:
        old = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(address)))
        if old not in known.files or re.match(r"[a-z][a-z0-9+.-]*:|#|/", address, re.I):
            return ""
        return f"]({destination(posixpath.relpath(known.files[old], posixpath.dirname(known.files[path])))})"

    def new(link: re.Match[str]) -> str:
        if id := link["embed"] or link["labelled"] or link["block"]:
            made = block(id.lower(), link["label"] or "", "!" if link["embed"] else "")
        elif name := link["page"] or link["to"] or link["link"]:
            made = page(name, link["text"] or "", "!" if link["page"] else "")
        else:
            made = asset(link["address"]) if link["address"] else ""
        return made or (f"[[{link['link']}]]" if link["link"] else link[0])

    return _INLINE.sub(new, text) if "[" in text or "((" in text else text
