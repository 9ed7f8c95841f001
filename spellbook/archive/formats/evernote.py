"""
Read exports of Evernote: ENEX, an XML file for each notebook, with the notes' files in it as base64.

Each is read twice: first for titles, files and whether it is whole, then for the notes. Nothing larger than one note's
text is held in memory. The XML may be hostile: entities are refused, and nothing outside of the file is opened.
"""

from __future__ import annotations

import base64
import hashlib
import html
import mimetypes
import posixpath
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import IO, NoReturn
from xml.parsers import expat

from spellbook.archive.formats import rich_text
from spellbook.archive.formats.conversations import moment
from spellbook.archive.formats.incoming import UNTOUCHED, Incoming, make_note, unreadable
from spellbook.archive.formats.memories import tags_of
from spellbook.archive.formats.rich_text import AttachedFile, HtmlReferences
from spellbook.archive.pages.safe import MOST_TITLE, escaped, line
from spellbook.notes.links import destination
from spellbook.settings.limits import MOST_TEXT
from spellbook.system.errors import InvalidInput
from spellbook.vault.names import safe_name

_MOST_DEEP = 12
_MOST_FIELD = 20_000
"""Letters of a field of a note, but for its content."""

_MOST_NAME = 80
_READ = 1 << 16
_START, _TEXT, _END = range(3)
_KEPT = (
    *("author", "source-application", "place-name", "latitude", "longitude", "altitude", "subject-date"),
    *("reminder-time", "reminder-done-time"),
)
_FIELDS = {f"note/{name}" for name in ("title", "content", "created", "updated", "tag", "guid")}
_TASK = {f"note/task/{name}" for name in ("title", "taskStatus", "taskGroupNoteLevelID", "sortWeight")}
_FILE = {"note/resource/mime", "note/resource/resource-attributes/file-name"}
_DATA = "note/resource/data"
_GUID = re.compile(r"evernote:(?://view-note/|///view/[^/]+/[^/]+/)([\w-]{8,64})", re.I)
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/bmp", "image/avif"})


@dataclass(frozen=True, slots=True)
class Notebook:
    """An ENEX file: its path without the ending, which is the notebook's folder, and how to open it."""

    path: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(slots=True)
class _ExportedNote:
    """What an export says of a note, by the path of the elements."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    tasks: list[dict[str, str]] = field(default_factory=list)

    def get(self, name: str) -> str:
        return next(iter(self.fields.get(f"note/{name}", ())), "").strip()

    @property
    def title(self) -> str:
        return line(self.get("title")) or "Untitled"


@dataclass(slots=True)
class _NoteFile:
    """A file in a note: the pieces of its data, which must be taken, and then its type and name."""

    pieces: Iterator[bytes]
    about: dict[str, str] = field(default_factory=dict)
    md5: str = ""


@dataclass(slots=True)
class _ExportPlan:
    """
    What the first reading saw: the id of each note in order, and each of their files as MD5, path and link.

    Ids and paths are "" for what was there before.
    """

    ids: deque[str] = field(default_factory=deque)
    files: deque[tuple[str, str, AttachedFile]] = field(default_factory=deque)


def files(notebooks: Sequence[Notebook]) -> Iterator[Incoming]:
    """Yield the notes of notebooks as Markdown, and their files. Raises InvalidInput before anything if one is bad."""
    known = _ImportedNotes()
    plans = [_survey(notebook, known) for notebook in notebooks]
    for notebook, plan in zip(notebooks, plans, strict=True):
        with notebook.open() as file:
            attached: dict[str, AttachedFile] = {}
            for item in _notes(file, notebook.path):
                if not (plan.files if isinstance(item, _NoteFile) else plan.ids):
                    raise unreadable(notebook.path, "it changes while it is read")
                if isinstance(item, _NoteFile):
                    md5, path, attached[md5] = plan.files.popleft()
                    if path:
                        yield Incoming(path, item.pieces)
                    continue
                if id := plan.ids.popleft():
                    yield _markdown(item, attached, notebook, id, known)
                attached = {}


# -- the first reading


@dataclass(slots=True)
class _ImportedNotes:
    """All notes of an import: where they are, by title ("" for one of several notes) and id, and the texts of ids."""

    places: dict[str, str] = field(default_factory=dict)
    guids: dict[str, str] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)


def _survey(notebook: Notebook, known: _ImportedNotes) -> _ExportPlan:
    plan = _ExportPlan()
    with notebook.open() as file:
        held: list[_NoteFile] = []
        for item in _notes(file, notebook.path):
            if isinstance(item, _NoteFile):
                md5 = hashlib.md5(usedforsecurity=False)
                for piece in item.pieces:
                    md5.update(piece)
                item.md5 = md5.hexdigest()
                held.append(item)
                continue
            place = _place(notebook, item)
            plan.ids.append(id := _id(item, known.ids))
            for note_file in held:
                path, attached = _beside(place, note_file)
                plan.files.append((note_file.md5, path if id else "", attached))
            held = []
            if id:
                title = item.title.casefold()
                known.places[title] = "" if title in known.places else place
                if guid := item.get("guid").lower():
                    known.guids[guid] = place
    if not plan.ids:
        raise unreadable(notebook.path, "there is no note in it")
    return plan


def _id(note: _ExportedNote, taken: dict[str, bytes]) -> str:
    """
    Return an id that the same note gets from every export of it, as Evernote does not say its own.

    "" if the very same note was there before, in another file, say.
    """
    text = hashlib.sha256(repr((sorted(note.fields.items()), note.tasks)).encode("utf-8", "surrogatepass")).digest()
    whole = f"{note.get('created')}\0{note.get('title')}".encode("utf-8", "surrogatepass")
    id = re.sub(r"[^\w-]", "-", note.get("guid"))[:64] or hashlib.sha256(whole).hexdigest()[:24]
    if taken.get(id, text) != text:  # made within one second, and of one title
        id = hashlib.sha256(whole + text).hexdigest()[:24]
    is_known = id in taken
    taken[id] = text
    return "" if is_known else f"evernote-{id}"


def _place(notebook: Notebook, note: _ExportedNote) -> str:
    return f"{notebook.path}/{safe_name(note.title[:_MOST_NAME])}.md"


def _beside(place: str, file: _NoteFile) -> tuple[str, AttachedFile]:
    """Return the path of a file of the note at `place`, and how the note links to it."""
    kind = file.about.get("note/resource/mime", "").strip().lower()
    full_name = file.about.get("note/resource/resource-attributes/file-name", "").strip()
    stem, ending = posixpath.splitext(posixpath.basename(full_name.replace("\\", "/")))
    ending = ending if 1 < len(ending) <= 12 else mimetypes.guess_extension(kind) or ""
    ending = re.sub(r"[^\w.]", "", ending)
    ending = f"{ending}.txt" if ending.lower() == ".md" else ending  # no attached file becomes a note
    is_image = kind in _IMAGES
    # The hash keeps two files of one name apart, and is the same in every export.
    name = safe_name(f"{stem[:_MOST_NAME] or ('image' if is_image else 'file')}-{file.md5[:8]}") + ending
    folder = place.removesuffix(".md")
    target = destination(f"{posixpath.basename(folder)}/{name}")
    return f"{folder}/{name}", AttachedFile(line(full_name, 200) or name, target, is_image)


# -- the second reading


def _markdown(
    note: _ExportedNote, attached: Mapping[str, AttachedFile], notebook: Notebook, id: str, known: _ImportedNotes
) -> Incoming:
    """Return an exported note as a note; `attached` are its files by their MD5."""
    place = _place(notebook, note)

    def follow(address: str, text: str) -> str:
        guid = _GUID.match(address)
        if not guid:
            return ""
        there = known.guids.get(guid[1].lower()) or known.places.get(line(text).casefold())
        return destination(posixpath.relpath(there, posixpath.dirname(place) or ".")) if there else ""

    groups: dict[str, list[tuple[bool, str]]] = {}
    for task in sorted(note.tasks, key=lambda task: task.get("note/task/sortWeight", "")):
        entry = task.get("note/task/taskStatus", "").strip() == "completed", task.get("note/task/title", "").strip()
        groups.setdefault(task.get("note/task/taskGroupNoteLevelID", "").strip(), []).append(entry)
    content = note.get("content")
    references = HtmlReferences(follow, lambda media: attached.get(media.get("hash", "").lower()), groups)
    lost = [entry for group, entries in groups.items() if group not in content for entry in entries]
    unseen = [file for md5, file in attached.items() if md5 not in content.lower()]
    parts = [
        note.get("title") if len(note.get("title")) > MOST_TITLE else "",
        rich_text.convert(content, references, note.title).markdown,
        "\n".join(f"- [{'x' if is_done else ' '}] {escaped(text)}" for is_done, text in lost),
        "\n".join(f"- [{escaped(file.name)}]({file.destination})" for file in unseen),
    ]
    meta: dict[str, object] = {
        "id": id,
        "title": note.title,
        "tags": tags_of([*note.fields.get("note/tag", ())]),
        "source": line(note.get("note-attributes/source-url"), 2_000),
        **{name: line(note.get(f"note-attributes/{name}")) for name in _KEPT},
        "created": moment(note.get("created")),
        "updated": moment(note.get("updated")),
    }
    return make_note(place, meta, "\n\n".join(filter(None, parts)))


# -- XML


def _notes(file: IO[bytes], name: str) -> Iterator[_ExportedNote | _NoteFile]:
    """Yield the notes of a file, each after its files."""
    events = _events(file, name)
    note, held, task = _ExportedNote(), list[_NoteFile](), dict[str, str]()
    for kind, path, text in events:
        if kind == _START:
            if path == "note":
                note, held = _ExportedNote(), []
            elif path == "note/task":
                task = {}
                note.tasks.append(task)
            elif path == _DATA:
                held.append(_NoteFile(_decode(events, name, note)))
                yield held[-1]
                deque(held[-1].pieces, 0)
            elif path in _FIELDS or path.startswith("note/note-attributes/"):
                note.fields.setdefault(path, []).append("")
        elif kind == _END:
            if path == "note":
                yield note
        elif path in note.fields:
            values = note.fields[path]
            if path != "note/content":
                values[-1] = (values[-1] + text)[:_MOST_FIELD]
            elif len(values[-1]) > MOST_TEXT:
                raise InvalidInput(f"{name}: {note.title[:200]} is over {MOST_TEXT // 1_000_000} MB.", UNTOUCHED)
            else:
                values[-1] += text
        elif path in _TASK:
            task[path] = (task.get(path, "") + text)[:_MOST_FIELD]
        elif path in _FILE and held:
            held[-1].about[path] = (held[-1].about.get(path, "") + text)[:_MOST_FIELD]


def _decode(events: Iterator[tuple[int, str, str]], name: str, note: _ExportedNote) -> Iterator[bytes]:
    """Yield the bytes of a file, up to the end of its element."""
    left = ""
    for kind, path, text in events:
        left += "".join(text.split()) if kind == _TEXT else ""
        is_end = kind == _END and path == _DATA
        if is_end or len(left) >= _READ:
            size = len(left) if is_end else len(left) // 4 * 4  # four letters are three bytes
            try:
                yield base64.b64decode(left[:size], validate=True)
            except ValueError as error:
                raise unreadable(name, f"a file in {note.title[:80]} is damaged") from error
            left = left[size:]
        if is_end:
            return


def _events(file: IO[bytes], name: str) -> Iterator[tuple[int, str, str]]:
    """Yield beginnings, texts and ends of elements, with the path of the element below the root."""
    events: deque[tuple[int, str, str]] = deque()
    path: list[str] = []
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.buffer_size = _READ

    def start(tag: str, _: Mapping[str, str]) -> None:
        path.append(tag)
        if len(path) > _MOST_DEEP:
            raise unreadable(name, "its elements are nested too deep")
        if len(path) == 1 and tag != "en-export":
            raise unreadable(name, "it is not an export of Evernote, which begins with en-export")
        events.append((_START, "/".join(path[1:]), ""))

    def end(_: str) -> None:
        events.append((_END, "/".join(path[1:]), ""))
        path.pop()

    def text(data: str) -> None:
        events.append((_TEXT, "/".join(path[1:]), data))

    def entity(*_: object) -> NoReturn:
        raise unreadable(name, "it declares entities, which no export of Evernote does")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = entity
    # Names like &nbsp; are declared in a file on the web, which is not opened.
    parser.SkippedEntityHandler = lambda entity, _: text(html.unescape(f"&{entity};"))
    size = 0
    while True:
        piece = file.read(_READ)
        size += len(piece)
        try:
            parser.Parse(piece, not piece)
        except expat.ExpatError as error:
            if not piece:
                raise unreadable(name, "it breaks off") from error
            raise unreadable(name, f"line {error.lineno} is not XML ({expat.ErrorString(error.code)})") from error
        if size - parser.CurrentByteIndex > MOST_TEXT:  # one tag that does not end is held by the parser
            raise unreadable(name, "one of its tags is too long")
        while events:
            yield events.popleft()
        if not piece:
            return
