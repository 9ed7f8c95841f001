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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from spellbook.archive.formats.conversations import cleaned
from spellbook.archive.formats.incoming import Incoming, note_text, stable_id, whole
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
    found = [path for path in paths if path == CONFIG or (path.endswith(f"/{CONFIG}") and path.count("/") == 2)]
    return found[0].removesuffix(CONFIG) if len(found) == 1 else None


def files(graph: LogseqGraph, faults: list[Fault]) -> Iterator[Incoming]:
    """Yield the pages of a graph as notes, and its other files; what is left out is added to `faults`."""
    title_format = "MMM do, yyyy"
    inside = [path.removeprefix(graph.root) for path in graph.paths if path.startswith(graph.root)]
    if found := _DAY_FORMAT.search(_text(graph, CONFIG)):
        title_format = found[1]
    known = _KnownPages()
    pages = {path: _name(path) for path in inside if _is_page(path)}
    for path in inside:
        known.files[path] = _new_path(path, pages[path]) if path in pages else path
    for path, name in pages.items():
        _survey(_text(graph, path), name, known.files[path], known)
        if day := _day(path):
            for form in (title_format, "MMM do, yyyy", "yyyy-MM-dd", "yyyy_MM_dd"):
                known.pages.setdefault(_written(day, form).casefold(), known.files[path])
    ids: set[str] = set()
    for path in inside:
        source = graph.root + path
        if path in pages:
            id = stable_id("logseq", f"{graph.name}/{pages[path].casefold()}")
            if id in ids:  # files of one page, as other formats of names leave them
                id = stable_id("logseq", f"{graph.name}/{path}")
            ids.add(id)
            text = _note(_text(graph, path), path, pages[path], id, known)
            yield Incoming(known.files[path], iter([text.encode("utf-8", "replace")]), None, graph.mtime(source), id)
        elif not path.startswith("logseq/"):
            if path.lower().endswith(".org"):
                faults.append(Fault(path, 0, "an Org page is copied as it is, and is no note"))
            yield Incoming(path, graph.read(source), None, graph.mtime(source))


def _text(graph: LogseqGraph, path: str) -> str:
    data = whole(graph.read(graph.root + path), MOST_TEXT, f"{graph.name}: {path[:200]}")
    return cleaned(data.decode("utf-8-sig", "replace"))


def _is_page(path: str) -> bool:
    return path.startswith(("pages/", "journals/")) and path.lower().endswith(".md")


def _day(path: str) -> dt.date | None:
    found = _DAY.fullmatch(path.rpartition("/")[2][:-3]) if path.startswith("journals/") else None
    try:
        return dt.date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def _name(path: str) -> str:
    """Return the name of a page by its file: `___` and `%2F` are slashes, other signs are written like `%3A`."""
    if day := _day(path):
        return day.isoformat()
    stem = path.partition("/")[2][:-3]
    return " ".join(cleaned(unquote(stem.replace("___", "/"))).split()) or "untitled"


def _new_path(path: str, name: str) -> str:
    folder = path.partition("/")[0]
    parts = [safe_name(part) for part in name.split("/") if part.strip(" .")]
    return f"{folder}/{'/'.join(parts) or 'untitled'}.md"


def _written(day: dt.date, form: str) -> str:
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
    return _DATE_PART.sub(lambda found: parts[found[0]], form)


# -- lines


def _divided(text: str) -> tuple[dict[str, str], str]:
    """Return the properties of a page, which are its first lines or alone in its first block, and the rest of it."""
    meta: dict[str, str] = {}
    if found := FRONTMATTER.match(text):
        try:
            meta = {key: str(value) for key, value in load(found[0])[0].items() if isinstance(value, str | int | float)}
            text = text[found.end() :]
        except BadHeader:
            return {}, text
    lines = text.lstrip("\n").split("\n")
    is_block = lines[0].startswith("- ")
    found_here: dict[str, str] = {}
    at = 0
    while at < len(lines):
        plain = lines[at].removeprefix("- ") if is_block and not at else lines[at].strip()
        one = _PROPERTY.fullmatch(plain.rstrip())
        if one is None:
            break
        found_here[one[1].lower()] = (one[2] or "").strip()
        at += 1
    if not found_here or (is_block and at < len(lines) and lines[at].strip() and not lines[at].startswith("-")):
        return meta, text  # of a block that says more, they are no properties of the page
    return {**meta, **found_here}, "\n".join(lines[at:])


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
    meta, body = _divided(text)
    known.pages[name.casefold()] = place
    known.stems[posixpath.basename(place)[:-3].casefold()] += 1
    for other in (meta.get("title", ""), *_listed(meta.get("alias", "")), *_listed(meta.get("aliases", ""))):
        if other:
            known.pages.setdefault(other.casefold(), place)
    if meta.get("id"):
        known.blocks[meta["id"].lower()] = place, name, False
    first, can_hold = "", False
    for line, is_code in _lines(body):
        known.referred.update(each.lower() for each in re.findall(_UUID, line) if "((" in line)
        bullet = _BULLET.fullmatch(line)
        if bullet and (not is_code or "```" in line):
            first, can_hold = bullet[3], bool(bullet[3].strip()) and not is_code and not _PROPERTY.fullmatch(bullet[3])
        found = None if is_code else _PROPERTY.fullmatch(line.strip().removeprefix("- "))
        if found and found[1].lower() == "id":
            known.blocks[(found[2] or "").strip().lower()] = place, _label(first) or name, can_hold


def _listed(value: str) -> list[str]:
    return [each.strip().lstrip("#").removeprefix("[[").removesuffix("]]").strip() for each in value.split(",")]


def _label(text: str) -> str:
    if task := _TASK.fullmatch(text.lstrip("# ")):
        text = task[2]
    return shortened(" ".join(re.sub(r"[\[\]|#^`*{}()]", " ", text).split()), _MOST_LABEL)


def _note(text: str, path: str, name: str, id: str, known: _KnownPages) -> str:
    """Return a page as a note."""
    given, body = _divided(text)
    place = known.files[path]
    day = _day(path)
    shown = {key: _inline(value, path, place, known) for key, value in given.items()}
    names = [each for key in ("alias", "aliases") for each in _listed(given.get(key, "")) if each]
    meta: dict[str, object] = {
        "id": id,
        "title": given.get("title") or name,
        "aliases": names,
        "tags": tags_of(_listed(given.get("tags", ""))),
        "created": day,
        **{
            key: value
            for key, value in shown.items()
            if key not in {"id", "title", "alias", "aliases", "tags", "collapsed", "created"}
        },
    }
    if not day and given.get("created"):
        meta["created"] = given["created"]
    return note_text(meta, "\n".join(_converted(body, path, place, known)).strip("\n"))


def _converted(body: str, path: str, place: str, known: _KnownPages) -> list[str]:
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
        if found := _PROPERTY.fullmatch(plain.strip()):
            key, value = found[1].lower(), (found[2] or "").strip()
            if key in {"id", "collapsed"}:
                if bullet:
                    made.append(f"{bullet[1]}{bullet[2]}")
                elif (
                    key == "id" and value.lower() in known.referred and known.blocks.get(value.lower(), ("", "", 0))[2]
                ):
                    made[first] += f" ^{value.lower()}"
                continue
            if key == "logseq.order-list-type" and value == "number" and first >= 0 and not bullet:
                made[first] = re.sub(r"^(\s*)[-*+] ", r"\g<1>1. ", made[first])
                continue
            if key == "tags":
                spoken = " ".join(f"#{tag.replace(' ', '-')}" for tag in _listed(value) if tag)
                made.append(f"{line[: len(line) - len(line.lstrip())]}{'- ' if bullet else ''}{found[1]}:: {spoken}")
                continue
        if bullet:
            made.append(f"{bullet[1]}{bullet[2]} {_inline(_task(bullet[3]), path, place, known)}".rstrip())
        else:
            made.append(_inline(line, path, place, known))
    return made


def _task(text: str) -> str:
    """Return the text of a block with a checkbox for its marker; one that says more than open or done stays."""
    found = _TASK.fullmatch(text)
    if not found:
        return text
    marker, rest = found.groups()
    box = "[x]" if marker in {"DONE", "CANCELED", "CANCELLED"} else "[ ]"
    return f"{box} {rest}" if marker in {"TODO", "LATER", "DONE"} else f"{box} {marker} {rest}"


def _inline(text: str, path: str, place: str, known: _KnownPages) -> str:
    """Return a line with links that lead to where things are now."""

    def page(name: str, shown: str = "", mark: str = "") -> str | None:
        there = known.pages.get(" ".join(name.split()).casefold())
        if there is None:
            return None
        stem = posixpath.basename(there)[:-3]
        target = stem if known.stems[stem.casefold()] == 1 else there[:-3]
        label = shown or (name if name != target and not mark else "")
        return f"{mark}[[{target}{f'|{label}' if label else ''}]]"

    def block(id: str, shown: str = "", mark: str = "") -> str | None:
        if id.lower() not in known.blocks:
            return None
        there, label, can_hold = known.blocks[id.lower()]
        stem = posixpath.basename(there)[:-3]
        target = stem if known.stems[stem.casefold()] == 1 else there[:-3]
        label = "" if mark else f"|{shown or label}"
        return f"{mark}[[{target}{f'#^{id.lower()}' if can_hold else ''}{label}]]"

    def new(found: re.Match[str]) -> str:
        made: str | None = None
        if found["embed"]:
            made = block(found["embed"], mark="!")
        elif found["page"]:
            made = page(found["page"], mark="!")
        elif found["labelled"]:
            made = block(found["labelled"], found["label"])
        elif found["to"]:
            made = page(found["to"], found["text"])
        elif found["block"]:
            made = block(found["block"])
        elif found["link"]:
            made = page(found["link"]) or f"[[{found['link']}]]"
        elif found["address"] and not re.match(r"[a-z][a-z0-9+.-]*:|#|/", found["address"], re.I):
            old = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(found["address"])))
            if old in known.files:
                there = posixpath.relpath(known.files[old], posixpath.dirname(place))
                made = f"]({destination(there)})"
        return found[0] if made is None else made

    return _INLINE.sub(new, text) if "[" in text or "((" in text else text
