"""A note's own frontmatter keys; and in its text Dataview's fields, check boxes and dates of Tasks. Pure."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any

from spellbook.notes import markdown
from spellbook.notes import note as notes
from spellbook.notes.dates import VALID
from spellbook.notes.encoded_data import blanked
from spellbook.notes.frontmatter import LABELS, load_value
from spellbook.notes.relations import RELATIONS
from spellbook.system.lazy import regex
from spellbook.text.unicode import folded

if TYPE_CHECKING:
    from spellbook.notes.note import Note

_GUARDED = "id,importance,merged,privacy_scope,trust,pinned,guide,outcome,superseded_by"
_RULING = {*LABELS, *_GUARDED.split(","), *RELATIONS}
_OTHERS = {*_RULING, "type", "source", "saved_from", "path", "when"}
"""Keys by which Spellbook knows, files and guards a note, and others of its own: in a text they do not count."""
_DATES = "created,date,date created,created_at,updated,modified,date modified,updated_at"
_KNOWN = {*_RULING, *_DATES.split(","), *VALID, "language", "lang", "cssclass", "cssclasses"}
_WRITTEN = "type,source,saved_from,source_type,author,published,fetched,summary,confidence,user_involvement"
_KEPT = {*_KNOWN, *_WRITTEN.split(","), "agent", "review", "source_hash", "claimed"}
"""Keys that Spellbook writes; in a person's note some of them are the person's own."""
_MOST_OWN, _MOST_LISTED, _MOST_LETTERS = 1_000, 10, 200

_DATED = {"📅": "due", "📆": "due", "🗓": "due", "⏳": "scheduled", "⌛": "scheduled", "🛫": "start"}
_DATED |= {"✅": "done", "➕": "created", "❌": "cancelled"}
# Logseq's `frontend.util.marker`, its priorities and timestamps: `- TODO [#A] Pay`, `DEADLINE: <2026-12-20 Sun>`.
_MARKERS = dict.fromkeys(("NOW", "LATER", "TODO", "DOING", "WAITING", "WAIT", "IN-PROGRESS"), "open")
_MARKERS |= {"DONE": "done", "CANCELED": "cancelled", "CANCELLED": "cancelled"}
_TASK = regex(rf"(?:#{{1,6}}[ \t]+)?(?P<task>{'|'.join(_MARKERS)})[ \t]+(?:\[#(?P<priority>[ABC])\](?=\s))?")
_PLANNED = regex(r"(?P<key>SCHEDULED|DEADLINE): <(?P<date>\d{4}-\d\d-\d\d)(?!\d)[^<>]*>")
# A search for a set of letters is several times as fast as one for alternatives.
_HINT = rf"(?:(?<=::)|(?<=[ \t]\[)[^\]]\]|(?<=[{''.join(_DATED)}])"
_MAY_BE = regex(rf"[:\[{''.join(_DATED)}]{_HINT})")
_FIRST = "".join(sorted({each[0] for each in (*_MARKERS, "SCHEDULED", "DEADLINE")}))
_MAY_BE_IN_GRAPH = regex(
    rf"[:\[{''.join(_DATED)}{_FIRST}]{_HINT}|(?:{'|'.join(f'(?<={each[0]}){each[1:]}' for each in _MARKERS)})[ \t]"
    r"|(?<=S)CHEDULED: <|(?<=D)EADLINE: <)"
)
_HIDDEN = regex(
    r"[%<$](?:(?<=%)%(?s:.*?)%%|(?<=<)!--(?s:(?!<!--|-->).)*+-->"
    r"|(?<=\$)(?:\$(?s:.*?)\$\$|(?![\s$])[^$\r\n]*(?<![\s\\])\$(?!\d)))"
)
_START = regex(r"[ \t>]*(?:(?P<item>[-+*]|\d{1,9}[.)])[ \t]+(?:\[(?P<box>[^\]\r\n])\](?=\s))?)?[ \t]*")
_DATE = regex(rf"([{''.join(_DATED)}])\ufe0f?[ \t]*(\d{{4}}-\d\d-\d\d)(?!\d)")
_EMOJI = r"(?:(?:[^\w\x00-\x7f]++[ \t]*+)++(?=[^\W_]|[*_~]))?"  # Dataview skips all before the first letter of a key
_KEY = (
    rf"{_EMOJI}[*_~]{{0,3}}(?P<key>[^\x00-\x08\n-\x1f!-,.:-@\[-^`{{-\x7f]{{1,100}}?)[ \t]*[*_~]{{0,3}}"
    r"::(?!:)(?P<gap>[ \t]*)"
)
_WHOLE = regex(rf"{_KEY}(?P<value>[^\r\n]*)")
_SQUARE = regex(rf"(?<!\[)\[{_KEY}(?P<value>(?:[^\[\]\r\n]|\[\[[^\[\]\r\n]*\]\]|\[[^\[\]\r\n]*\])*+)\](?!\()")
_ROUND = regex(rf"\({_KEY}(?P<value>(?:[^()\r\n]|\([^()\r\n]*\))*+)\)")
_YAML = regex(r"[-+.\d][\w.+:-]{0,40}|\"[^\"\\]*\"")


def own(meta: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a note's own keys, of its frontmatter as JSON has it, with their values: one, or a few with commas."""
    hidden = _KEPT if "id" in meta else _KNOWN
    for key, value in islice(meta.items(), _MOST_OWN):
        listed = value if isinstance(value, list) else [value]
        if not 0 < len(listed) <= _MOST_LISTED or folded(key) in hidden:
            continue
        if all(isinstance(each, str | int | float) and each != "" for each in listed):
            text = ", ".join(each if isinstance(each, str) else json.dumps(each) for each in listed)
            yield key[:_MOST_LETTERS], text[:_MOST_LETTERS]


def fields(note: Note) -> Iterator[tuple[int, str, object]]:
    """Yield the fields in a note's text: the character of `Note.text`, the key, and the value."""
    of_graph = notes.is_of_graph(note.path)
    may_be = _MAY_BE_IN_GRAPH if of_graph else _MAY_BE
    if not may_be.search(note.text, note.body_at):
        return
    spans = sorted({span for block in note.blocks for span in (*block.prose, *block.tables)})
    runs = ("".join(note.body_lines[first:last]) for first, last in spans)
    runs = (blanked(run, markdown.literals(run)) if "`" in run or "$" in run else run for run in runs)
    whole = "".join(runs)
    seen = markdown.lines(text := blanked(whole, (match.span() for match in _HIDDEN.finditer(whole))))
    begins, numbers = [*accumulate(map(len, seen), initial=0)], [*chain(*(range(*span) for span in spans))]
    for nth in sorted({bisect_right(begins, hint.start()) - 1 for hint in may_be.finditer(text)}):
        at, line = note.offsets[numbers[nth]], seen[nth]
        start = next(_START.finditer(line))
        yield from _of_tasks(note.text, at, line, start)
        if of_graph:
            yield from _of_logseq(at, line, start)
        yield from _of_dataview(at, line, start)


def _of_tasks(text: str, at: int, line: str, start: re.Match[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the check box of an item in a line at a character of a text, and the dates of Tasks."""
    # In the line, what is hidden is blank: brackets behind code are no box.
    if start["box"] and text[at + start.end("item") : at + start.start("box") - 1].isspace():
        yield at + start.start("box"), "task", {"x": "done", "-": "cancelled"}.get(start["box"].lower(), "open")
    if start["item"]:
        yield from ((at + dated.start(), _DATED[dated[1]], dated[2]) for dated in _DATE.finditer(line))


def _of_dataview(at: int, line: str, start: re.Match[str]) -> Iterator[tuple[int, str, object]]:
    """Yield the fields of Dataview in a line at a character: in brackets, else the line is one."""
    if "::" not in line:
        return
    written: list[re.Match[str] | None] = [*_SQUARE.finditer(line), *_ROUND.finditer(line)]
    for match in filter(None, written or [_WHOLE.match(line, start.end())]):
        key, value = " ".join(match["key"].split()).strip("_ "), match["value"].strip(" \t*_~")[:_MOST_LETTERS]
        is_name = match["gap"] or " " not in key  # `I like std::vector` is none
        if key and value and is_name and folded(key) not in _OTHERS:
            yield at + match.start(), key, load_value(value) if _YAML.fullmatch(value) else value


def _of_logseq(at: int, line: str, start: re.Match[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the task of Logseq in a line at a character, its priority and the days for which it is planned."""
    if start["item"] and (task := _TASK.match(line, start.end())):
        yield at + task.start("task"), "task", _MARKERS[task["task"]]
        if task["priority"]:
            yield at + task.start("priority"), "priority", task["priority"]
    for planned in _PLANNED.finditer(line):
        yield at + planned.start(), "due" if planned["key"] == "DEADLINE" else "scheduled", planned["date"]
