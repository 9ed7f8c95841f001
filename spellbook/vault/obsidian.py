"""Obsidian's settings of a vault: files that are no notes, names of daily notes, and the folder of new ones."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spellbook.notes.files import Stamp
from spellbook.settings.paths import LOGSEQ, OBSIDIAN
from spellbook.system import disk
from spellbook.text.unicode import composed
from spellbook.vault import logseq
from spellbook.vault.listing import IsLeftOut, stamp_of

SETTINGS = ".obsidian"
"""The folder of Obsidian's settings in a vault."""

APP, TEMPLATES, DAILY, TEMPLATER, PERIODIC = OBSIDIAN

_DAILY_FORMAT = "YYYY-MM-DD"
"""Obsidian's own format where a person chose none."""

_PERIODS = {
    "daily": _DAILY_FORMAT,
    "weekly": "gggg-[W]ww",
    "monthly": "YYYY-MM",
    "quarterly": "YYYY-[Q]Q",
    "yearly": "YYYY",
}
"""The kinds of notes that the plugin Periodic Notes makes, each with its format where a person chose none."""


class ObsidianSettings(NamedTuple):
    """
    The settings when they were read: paths below `prefixes` (small letters) or matching `expressions` are no notes.

    `templates` are the prefixes of templates. `formats` are the folders of daily notes with the formats of their names.
    """

    prefixes: tuple[str, ...] = ()
    expressions: tuple[re.Pattern[str], ...] = ()
    formats: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    def leaves_out(self) -> IsLeftOut | None:
        """Return a function that says if a path is no note, None if none is left out. A folder's path ends in `/`."""
        if not (self.prefixes or self.expressions):
            return None

        def is_left_out(path: str) -> bool:
            path = composed(path)
            return path.lower().startswith(self.prefixes) or (
                not path.endswith("/") and any(expression.search(path) for expression in self.expressions)
            )

        return is_left_out


def read(root: Path) -> ObsidianSettings:
    """Read the settings of the vault at `root`; an unreadable or unused one is a problem and no error."""
    reasons: list[str] = []
    files = {name: _load(root, name, reasons) for name in OBSIDIAN}
    excluded, expressions = _excluded(files[APP], reasons)
    data = _read(root, LOGSEQ, reasons)
    graph = logseq.settings(data.decode("utf-8-sig", "replace")) if data else {}
    excluded += [name.lstrip("/") for name in graph.get(":hidden", []) if name.strip("/ ")]
    templates = [composed(shape).lower() for shape in _templates(files)]
    prefixes = (*(composed(prefix).lower() for prefix in excluded), *templates)
    # The innermost folder decides, "" last.
    places = sorted(dict.fromkeys((*_daily(files), *_journals(graph))), key=lambda place: -len(place[0]))
    return ObsidianSettings(
        tuple(dict.fromkeys(prefixes)), tuple(expressions), tuple(places), tuple(reasons), tuple(templates)
    )


def _excluded(app: Mapping[str, Any], reasons: list[str]) -> tuple[list[str], list[re.Pattern[str]]]:
    """Return the prefixes and the regular expressions of excluded files."""
    prefixes: list[str] = []
    expressions: list[re.Pattern[str]] = []
    for filter in _texts(app.get("userIgnoreFilters")):
        if len(filter) > 2 and filter.startswith("/") and filter.endswith("/"):
            try:
                expressions.append(re.compile(filter[1:-1], re.I | re.A))
            except (re.error, OverflowError, RecursionError):
                reasons.append(f"{APP}: {filter!r:.80} is not a regular expression, so it excludes nothing")
        else:
            prefixes.append(filter)
    return prefixes, expressions


def _periods(files: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the settings of each kind of periodic note that is on, with its format where a person chose none."""
    for period, format in _PERIODS.items():
        kind = files[PERIODIC].get(period)
        if isinstance(kind, Mapping) and kind.get("enabled"):
            yield kind, format


def _daily(files: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the folders of daily and other periodic notes, each with the format of its names."""
    kinds = [(files[DAILY], _DAILY_FORMAT), *_periods(files)]
    return [(_folder(kind.get("folder")), _text(kind.get("format")) or format) for kind, format in kinds]


def _journals(graph: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """Return the folder of Logseq's journals with each format of their names."""
    folder = composed("/".join(graph.get(":journals-directory", [])).strip("/")) or "journals"
    formats = (*graph.get(":journal/file-name-format", []), *graph.get(":journal/page-title-format", []))
    return [(folder, logseq.moment(name)) for name in formats]


def _templates(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the folders of templates, which end in `/`, and the files of those for periodic notes."""
    folders = (_folder(files[TEMPLATES].get("folder")), _folder(files[TEMPLATER].get("templates_folder")))
    named = [files[DAILY].get("template")]
    named += [kind.get("template", kind.get("templatePath")) for kind, _ in _periods(files)]
    shapes = [f"{folder}/" for folder in folders if folder]
    return shapes + [f"{name.removesuffix('.md')}.md" for each in named if (name := _folder(each))]


def new_notes(root: Path) -> str:
    """Return the folder for new notes that the settings name, as they write it; "" if they name none."""
    app = _load(root, APP, [])
    return _folder(app.get("newFileFolderPath")) if app.get("newFileLocation") == "folder" else ""


def _load(root: Path, name: str, reasons: list[str]) -> Mapping[str, Any]:
    data = _read(root, name, reasons)
    try:
        value = {} if data is None else json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        reasons.append(f"{name}: is not JSON")
        return {}
    return value if isinstance(value, dict) else {}


def _read(root: Path, name: str, reasons: list[str]) -> bytes | None:
    """Return the bytes of a file of settings, None if there is none; one that cannot be read is one of `reasons`."""
    try:
        return disk.read_small(root / name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reasons.append(f"{name}: cannot be read ({error.strerror})")
        return None


def stamps(root: Path) -> tuple[Stamp | None, ...]:
    """Return the stamps of the files of settings, which change as these do."""
    found: list[Stamp | None] = []
    for name in (*OBSIDIAN, LOGSEQ):
        try:
            found.append(stamp_of(os.stat(os.path.join(root, name))))
        except OSError:
            found.append(None)
    return tuple(found)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str) and text.strip("/ ")] if isinstance(value, list) else []


def _folder(value: object) -> str:
    """Return a path in the vault as Obsidian writes it, without `/` around it; "" for the vault itself."""
    return composed(_text(value).strip("/"))
