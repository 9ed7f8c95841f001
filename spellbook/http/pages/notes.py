"""The page of a note: its text, properties and history, and what a person does with it; and the graph of all notes."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from spellbook.editing import moves
from spellbook.http import admin, faults
from spellbook.http.api import changes, notes
from spellbook.http.pages import differences, excerpts, note_html, view
from spellbook.library import history as kept
from spellbook.notes import frontmatter, markdown
from spellbook.notes.note import parse
from spellbook.notes.relations import RELATIONS
from spellbook.search import note_marks
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError
from spellbook.system.lazy import regex
from spellbook.text import credentials
from spellbook.text.unicode import digest_of, without_ending

_MOST_AT_ONCE = 200_000
"""Letters of a note on one page; a longer one has several."""

_REVIEW_DAYS = (7, 30, 90, 365)
_FEW = 8
"""Notes of a list beside the text before the rest is folded. By hand."""

_MOST_FIELDS = 60
_MOST_VERSIONS = 50
_MOST_FOLDERS = 500
_RECENT = 8
"""Folders of the newest notes that one tap moves a note to. By hand."""

NAMES = (
    *("aliases", "author", "category", "created", "date", "importance", "keywords", "kind", "language", "published"),
    *("outcome", "questions", "review", "scope", "source", "summary", "tags", "topic", "trust", "type", "updated"),
)
"""Keys that the page calls by a name of its own."""

_ELSEWHERE = {"id", "agent", "generated", "verified", "claimed", "title", "pinned", "tags", "tag", *RELATIONS}
"""Keys that the page says in another place."""

_MOST_VALUES = 40
_MOST_LETTERS = 500
_DATE = regex(r"\d{4}-\d\d-\d\d(?:[T ].{4,})?")
_ADDRESS = regex(r"https?://[^\s\"'<>]+")


@dataclass(frozen=True, slots=True)
class Property:
    """A key of the frontmatter, its values, and its `kind`: "date", "tags" (links to notes), "list", "link", "text"."""

    key: str
    kind: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownSection:
    """
    A section of a note as it stands in the file, without blank lines around it; or the whole note with its own id.

    `id` is that of its first chunk, and `hash` that chunk's, "" if the section is cut into several.
    """

    id: str
    heading: str
    text: str
    hash: str

    @property
    def anchor(self) -> str:
        """Its name on the page."""
        return view.anchor(self.id.rpartition("#")[2])

    @property
    def seen(self) -> str:
        """The hash that a form sends with a box, so that a box of a changed text is not ticked."""
        return digest_of(self.text, 16)

    def change(self, new: str) -> dict[str, Any]:
        """Return the arguments of a change that puts `new` in its place, if it is still there as it is."""
        if self.text and not self.hash and new.strip():
            return {"replace": {"old": self.text, "new": new.strip("\n")}}
        return {"content": new, "expected_hash": self.hash}


def note(shown: view.View) -> Response:
    """Show a note; `edit` names the section, or the note, that is edited in place, `part` counts pages from 1."""
    reply = shown.ask(notes.note, shown.id)
    editing = shown.query.get("edit", "")
    pages = list(_pages([section(reply, editing)] if editing == reply["note"] else _sections(reply)))
    part = max(1, min(shown.number("part", 1), len(pages)))
    linked = (*reply["links"], *reply["backlinks"])
    known = {each["id"] for each in linked}
    embedded = shown.book.pictures(shown.id) if "![" in reply["text"] else {}
    images = view.note_address(reply["note"], page="image")
    pictures = {
        note_html.name(target): f"{images}?{urlencode({'path': path})}" for target, path in embedded.items() if path
    }
    stored = shown.book.resolve(shown.id)
    title = stored.title
    form = "tick-{}" if shown.may("write") else ""
    ids = {note_html.name(each["target"]): each["id"] for each in reply["links"] if each["id"]}
    links = {target: view.note_address(id) for target, id in ids.items()}
    drawn = note_html.Page(links, pictures, partial(_embedded, shown, ids), shown.say)
    sections = pages[part - 1]
    rendered = drawn.rendered([(each.text, form.format(each.anchor)) for each in sections], title)
    return shown.page(
        "note.html",
        reply=reply,
        title=title,
        stored=stored,
        writes=bool(form),
        marks=note_marks.of(stored),
        is_repeated=excerpts.after_title(title, stored.text) is not None,
        sections=[*zip(sections, rendered, strict=True)],
        part_number=part,
        parts=len(pages),
        editing=editing,
        folders=view.folders_above(reply["path"]),
        adjacent=shown.book.adjacent(shown.id),
        names=NAMES,
        properties=listed_properties(reply["meta"], stored.tags, shown.say),
        edited=[(key, frontmatter.dump(value)) for key, value in reply["meta"].items() if key not in differences.KEPT],
        few=_FEW,
        review_days=_REVIEW_DAYS,
        file=str(shown.book.config.vault / reply["path"]),
        related=[each for each in reply["related"] if each["id"] not in known],
        titles={each["id"]: each["title"] for each in linked if each["id"]},
    )


def _embedded(shown: view.View, ids: Mapping[str, str], target: str) -> tuple[str, str] | None:
    """Return title and text of the note, section or block that an embed names, by `ids` of notes its reader may see."""
    id = ids.get(note_html.name(target), "")
    wanted = target.partition("#")[2].rpartition("#")[2].strip().casefold()
    with contextlib.suppress(SpellbookError):  # it is gone
        reply = shown.ask(notes.note, id)
        texts = [each.text for each in _sections(reply) if wanted in {"", *each.heading.casefold().split(" > ")}]
        if wanted.startswith("^"):
            texts = [each for each in reply["text"].split("\n\n") if each.rstrip().casefold().endswith(f" {wanted}")]
        return (shown.book.resolve(id).title, "\n\n".join(texts)) if texts else None
    return None


def listed_properties(meta: Mapping[str, Any], tags: Sequence[str], phrase: Callable[..., str]) -> list[Property]:
    """Return the properties of a note to be read; `tags` are all of its tags, also those in its text."""
    listed = [Property("tags", "tags", tuple(tags[:_MOST_VALUES]))] if tags else []
    for key, value in meta.items():
        if key in _ELSEWHERE or value in (None, "", [], {}):
            continue
        if isinstance(value, list) and not any(isinstance(each, list | dict) for each in value):
            listed.append(Property(key, "list", tuple(_text(each, phrase) for each in value[:_MOST_VALUES])))
        elif isinstance(value, str) and (day := _day(value)):
            listed.append(Property(key, "date", (view.date(day, phrase),)))
        else:
            kind = "link" if isinstance(value, str) and _ADDRESS.fullmatch(value) else "text"
            listed.append(Property(key, kind, (_text(value, phrase),)))
    return listed


def _day(text: str) -> dt.date | None:
    """Return the day of a date or a time in ISO 8601, in local time; None for another text."""
    if not _DATE.fullmatch(text):
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        return (moment.astimezone() if moment.tzinfo else moment).date()
    except (ValueError, OverflowError, OSError):
        return None


def _text(value: object, phrase: Callable[..., str]) -> str:
    if isinstance(value, bool):
        return phrase("yes") if value else phrase("no")
    text = value if isinstance(value, str) else frontmatter.dump(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"


def image(shown: view.View) -> Response:
    """Send a picture of the vault that a note embeds. A browser keeps it, and asks each time whether it is the same."""
    picture = shown.book.picture(shown.id, shown.query.get("path", ""))
    etag = f'"{picture.hash}"'
    headers = {
        "etag": etag,
        "cache-control": "private, no-cache",
        "content-disposition": "inline",
        "content-security-policy": "sandbox; default-src 'none'",
    }
    is_same = etag in shown.request.headers.get("if-none-match", "").split(", ")
    return Response(b"" if is_same else picture.data, 304 if is_same else 200, headers, picture.media_type)


def history(shown: view.View) -> Response:
    """Show the versions of a note, also of one that is gone, each with what it changed."""
    shown.caller.require("read")
    reply = kept.versions(shown.book, shown.id, _MOST_VERSIONS, lambda *texts: differences.compared(*texts[:2]))
    try:
        title = shown.book.resolve(shown.id).title
    except MemoryNotFound:
        title = ""
    return shown.page("history.html", reply=reply, title=title)


def _sections(reply: Mapping[str, Any]) -> Iterator[ShownSection]:
    lines = markdown.lines(reply["text"])
    for _, group in groupby(reply["chunks"], lambda each: each["id"].rpartition("#")[2].partition("~")[0]):
        chunks = tuple(group)
        first = chunks[0]
        last = max(each["end_line"] for each in chunks)
        text = first["text"] if len(chunks) == 1 else "".join(lines[first["line"] - 1 : last])
        yield ShownSection(first["id"], first["heading"], _lines(text), "" if chunks[1:] else first["hash"])


def _pages(sections: Iterable[ShownSection]) -> Iterator[list[ShownSection]]:
    """Yield the sections of one page at a time."""
    page: list[ShownSection] = []
    letters = 0
    for section in sections:
        if page and letters + len(section.text) > _MOST_AT_ONCE:
            yield page
            page = []
            letters = 0
        page.append(section)
        letters += len(section.text)
    yield page


def section(reply: Mapping[str, Any], id: str) -> ShownSection:
    """Return a section of a note, or the whole note by its id. Raises MemoryNotFound."""
    if id == reply["note"]:
        return ShownSection(id, "", _lines(parse(reply["path"], reply["text"].encode()).body), "")
    if (found := next((each for each in _sections(reply) if each.id == id), None)) is None:
        raise MemoryNotFound("This section is not there any more.", "Open the note again.")
    return found


def edit(shown: view.View) -> Response:
    """
    Save a section or a note, or `add` a section. If it was changed meanwhile, nothing is written, both are shown.

    What was erased before is written if the very same text is sent again for it.
    """
    id, old, new = (_lines(shown.form.get(key, "")) for key in ("id", "old", "content"))
    heading = " ".join(shown.form.get("heading", "").split())
    new = f"## {heading}\n\n{new}" if heading and new.strip() else new
    seen = ShownSection(id, "", old, shown.form.get("hash", ""))
    is_new = "add" in shown.form
    theirs = None
    with contextlib.suppress(SpellbookError):  # it is gone
        theirs = None if is_new else section(shown.ask(notes.note, shown.form.get("note", "")), id)
    try:
        shown.book.index.vault.check_there()
        if not is_new and (theirs is None or ("old" in shown.form and theirs.text != old)):
            raise Conflict("This text was changed meanwhile.", "Keep one of the two, or copy what you need.")
        changes = {"append": new} if is_new else seen.change(new)
        is_sure = shown.form.get("anyway", "") == digest_of(new, 16)
        done = shown.ask(notes.change, id, force=is_sure, **changes)
    except SpellbookError as error:
        values = {"mine": new, "theirs": theirs, "id": id, "note": shown.form.get("note", ""), "is_new": is_new}
        is_erased = "force=true" in error.hint and error.hint != credentials.HINT
        anyway = digest_of(new, 16) if is_erased else ""
        return shown.page("conflict.html", faults.status_of(error), error=error, anyway=anyway, **values)
    return shown.back("edit", done["path"])


def _lines(text: str) -> str:
    """Return a text with the line ends of forms and pages, and without empty lines around it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")


def tick(shown: view.View) -> Response:
    """Tick a box, or take the tick back: the one on line `at` of a text as it was `seen`, or that of a `step`."""
    shown.book.index.vault.check_there()
    at = shown.form.get("at", "")
    step = shown.form.get("step", "")
    found = section(shown.ask(notes.note, shown.form.get("note", "")), shown.form.get("id", ""))
    lines = found.text.split("\n")
    is_same = found.seen == shown.form.get("seen")
    named = [
        number
        for number, line in enumerate(lines)
        if line.lstrip(" \t>-*+0123456789.)")[:3] in {"[ ]", "[x]", "[X]"}
        and (is_same and at == str(number) if at else line.rstrip().endswith(step))
    ]
    if len(named) != 1:
        raise Conflict("The box is not there any more, or its text was changed.", "Look at the page again.")
    line = lines[named[0]]
    box = line.index("[") + 1
    lines[named[0]] = f"{line[:box]}{'x' if line[box] == ' ' else ' '}{line[box + 1 :]}"
    return shown.change(notes.change, found.id, **found.change("\n".join(lines)))


def set_properties(shown: view.View) -> Response:
    """Set the frontmatter keys whose fields were changed; an empty field removes its key."""
    was = {key.removeprefix("was."): value for key, value in shown.form.items() if key.startswith("was.")}
    now = {key.removeprefix("is."): value for key, value in shown.form.items() if key.startswith("is.")}
    if name := shown.form.get("new", "").strip():
        now[name] = shown.form.get("value", "")
    changed = {
        key: frontmatter.load_value(text.strip()) if text.strip() else None
        for key, text in now.items()
        if text.strip() != was.get(key, "").strip()
    }
    if not changed or len(changed) > _MOST_FIELDS:
        raise InvalidInput("There is nothing to change.", "Edit a field, or name a new one, and save.")
    return shown.change(notes.change, shown.form.get("id", ""), metadata=changed)


def pin(shown: view.View) -> Response:
    """Pin a note, or let go of it."""
    metadata = {"pinned": True if shown.form.get("pinned") == "true" else None}
    return shown.change(notes.change, shown.form.get("id", ""), metadata=metadata)


def review(shown: view.View) -> Response:
    """Set the date on which to look at a note again, or take it away."""
    days = shown.form.get("days", "")
    at = shown.form.get("at", "")
    when: dict[str, Any] = {"at": at or None} if at or not days.isdecimal() else {"days": int(days)}
    return shown.change(admin.review, memory_id=shown.form.get("id", ""), **when)


def erase(shown: view.View) -> Response:
    """Ask whether to erase a note or a section, then move it to the trash."""
    id = shown.form.get("id", "")
    if shown.form.get("sure") != "yes":
        return shown.page("erase.html", chunk=shown.book.resolve(id), id=id, linked=shown.book.around(id).backlinks)
    shown.ask(notes.erase, id)
    return shown.back("forget", to=shown.form.get("to") or "/activity")


def move(shown: view.View) -> Response:
    """Ask where to, and move there at once; if links follow, show them first."""
    old = shown.form.get("id", "")
    name = shown.form.get("name", "").strip()
    folder, _, own_name = old.rpartition("/")
    if not name:
        newest = dict.fromkeys(each.path.rpartition("/")[0] for each in shown.book.recent(_MOST_VERSIONS).notes)
        folders = sorted({*shown.book.folders()} - {""})[:_MOST_FOLDERS]
        recent = [each for each in dict.fromkeys((*newest, *folders, "")) if each != folder][:_RECENT]
        lists = {"folders": folders, "recent": recent}
        return shown.page("move.html", done=None, id=old, folder=folder, name=without_ending(own_name), lists=lists)
    folder = shown.form.get("folder", "").strip().strip("/")
    ending = own_name[len(without_ending(own_name)) :] or ".md"
    new = "/".join(filter(None, (folder, f"{without_ending(name)}{ending}")))
    is_sure = shown.form.get("sure") == "yes"
    done = {} if is_sure else shown.ask(changes.move, old=old, new=new, dry_run=True)
    if done.get("changed") or done.get("left"):
        return shown.page("move.html", done=done, id=old, folder=folder, name=name)
    done = shown.ask(changes.move, old=old, new=new, dry_run=False)
    return shown.back(moves.VERB, to=view.note_address(shown.book.resolve(done["new"]).note))


def graph(shown: view.View) -> Response:
    """All notes and their links as a picture; a script of the page asks for them."""
    return shown.page("graph.html")


ROUTES = [
    view.page("/note/{id:path}", note),
    view.page("/history/{id:path}", history),
    view.page("/image/{id:path}", image),
    view.page("/graph", graph),
    view.action("/do/edit", edit),
    view.action("/do/tick", tick),
    view.action("/do/properties", set_properties),
    view.action("/do/pin", pin),
    view.action("/do/review", review, "admin"),
    view.action("/do/erase", erase),
    view.action("/do/move", move),
]
