"""
Read an export of Notion: Markdown files whose names end in the page's id, in a zip, or in zips in a zip.

The id is taken out of names and links, and becomes the note's id, so that another import finds the note whatever it is
called by then. Databases stay the CSV files that Notion makes of them. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from spellbook.archive.formats.incoming import Incoming, make_note
from spellbook.archive.formats.memories import tags_of

_ID = re.compile(r"[ _-]([0-9a-f]{32})(?=(?:_all)?(?:\.[^./]*)?$)")
_LINKED_ID = re.compile(r"(?:%20|[ _-])[0-9a-f]{32}(?=[/.)#_>]|$)")
_LINK = re.compile(r"(\]\()(<[^<>\n]{1,2000}>|(?:[^()<>\s]|\([^()<>\s]{0,200}\)){1,2000})(\))")
_NAME = re.compile(r"[^:\n]{1,60}")
_MOST_PROPERTIES = 50
_KEYS = {
    **dict.fromkeys(("tags", "tag", "태그"), "tags"),
    **dict.fromkeys(
        ("created", "created time", "date created", "작성일시", "작성일", "생성 일시", "생성일"), "created"
    ),
    **dict.fromkeys(("last edited time", "last edited", "updated", "최종 편집 일시", "최종 편집일시"), "updated"),
}
"""Properties that Notion fills in itself, by the names that it gives them, and the keys of frontmatter for them."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = re.compile(
    r"(?P<y1>\d{4})년 (?P<month>\d\d?)월 (?P<d1>\d\d?)일"
    r"(?: (?P<k_half>오전|오후) (?P<k_hour>\d\d?):(?P<k_minute>\d\d))?"
    rf"|(?P<name>(?:{'|'.join(_MONTHS)})[a-z]{{0,7}}) (?P<d2>\d\d?), (?P<y2>\d{{4}})"
    r"(?: (?P<hour>\d\d?):(?P<minute>\d\d)(?: (?P<half>am|pm))?)?",
    re.I,
)
_ROOT = re.compile(r"\AExport-[0-9a-f-]{36}/")
"""The folder that some exports are in, of another name each time."""
_PART = re.compile(r"(?:.*/)?[^/]*-Part-\d+\.zip|(?:.*/)?[0-9a-f-]{36}[^/]*\.zip", re.I)


def is_notion(names: Sequence[str]) -> bool:
    """Say whether files are an export of Notion: most of the pages have an id in their names."""
    pages = [name for name in names if name.lower().endswith(".md")]
    return bool(pages) and 2 * sum(bool(_ID.search(name)) for name in pages) > len(pages)


def is_part(name: str) -> bool:
    """Say whether a file in a zip is a zip that Notion divided its export into."""
    return bool(_PART.fullmatch(name))


def plain(path: str) -> str:
    """Return the path of a file without the ids in it, and without the folder of the export."""
    return "/".join(_ID.sub("", part).strip() or part for part in _ROOT.sub("", path).split("/"))


def page(path: str, text: str) -> Incoming:
    """Return the page of a Markdown file as a note."""
    number = _ID.search(path.rpartition("/")[2])
    text = _LINK.sub(lambda link: link[1] + _without_id(link[2]) + link[3], text.removeprefix("\ufeff"))
    heading, _, rest = text.lstrip().partition("\n")
    meta = {
        "id": f"notion-{number[1]}" if number else "",
        "title": heading[2:].strip() if heading.startswith("# ") else "",
        **_properties(rest),
    }
    return make_note(plain(path), meta, text)


def _without_id(target: str) -> str:
    """Return a link's target without ids; an address of the web stays as it is."""
    return target if re.match(r"[a-z]+:", target, re.I) else _LINKED_ID.sub("", target)


def _properties(rest: str) -> dict[str, object]:
    """Return tags and times of the properties that Notion writes below a page's title, up to the first empty line."""
    found: dict[str, object] = {}
    for line in rest.lstrip("\n").split("\n", _MOST_PROPERTIES)[:_MOST_PROPERTIES]:
        name, _, value = line.rstrip("\r").partition(": ")
        if not value or not _NAME.fullmatch(name):
            break
        key = _KEYS.get(name.strip().lower(), "")
        read = tags_of(value) if key == "tags" else _time(value) if key else None
        if read:
            found.setdefault(key, read)
    return found


def _time(value: str) -> dt.datetime | dt.date | None:
    """Return a time as Notion writes it in English and Korean, or a day without one; None if it is none."""
    match = _TIME.match(value.strip())
    if not match:
        return None
    month = match["month"] or str(_MONTHS.index(match["name"][:3].lower()) + 1)
    try:
        day = dt.date(int(match["y1"] or match["y2"]), int(month), int(match["d1"] or match["d2"]))
        if not (clock := match["k_hour"] or match["hour"]):
            return day
        is_late = (match["k_half"] or match["half"] or "").lower() in {"오후", "pm"}
        hour = int(clock) % 12 + 12 * is_late if match["k_half"] or match["half"] else int(clock)
        return dt.datetime.combine(day, dt.time(hour, int(match["k_minute"] or match["minute"])))
    except ValueError:
        return None
