"""
Bundles of the Open Knowledge Format 0.2: write the notes of a vault as one, and name what does not conform to it.

In a bundle each note has a `type`, and each folder an `index.md` that lists it. Its own `index.md` and `log.md` are
listings; an `index.md` has no frontmatter but `okf_version` in that of the top. The vault itself is not changed.
"""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from spellbook.archive.export import Exported
from spellbook.index.filters import bound
from spellbook.index.privacy import GENERATED, KEY, SCOPES, VERIFIED, privacy_of, verifications
from spellbook.notes import links
from spellbook.notes.files import Fault
from spellbook.notes.frontmatter import FRONTMATTER, compose, dump
from spellbook.notes.note import Note, parse
from spellbook.notes.where_links_lead import Files
from spellbook.system.disk import explain_errors, replacing
from spellbook.system.errors import InvalidInput, SpellbookError
from spellbook.system.lazy import regex
from spellbook.text.unicode import without_ending
from spellbook.vault.backup_files import is_note, is_setting, tree
from spellbook.vault.vault import Vault

VERSION = "0.2"
INDEX, LOG = "index.md", "log.md"
_TYPE = "Note"
"""The type of a note that has neither a type nor a category."""

_FOLDERS = "Subdirectories"
_PIECE = 1 << 20
"""Bytes of an attachment that are held at a time."""
_LABEL = regex(r"[\[\]\\]")
_DAY = regex(r"\d{4}-\d\d-\d\d")
_HEADING = regex(r"(?m)^##[ \t]+(.*?)[ \t]*$")


def faults(vault: Vault) -> Iterator[Fault]:
    """Yield what of the notes in a vault does not conform, and the keys of the format that cannot be read."""
    for item in tree(vault).files:
        if is_note(item.path):
            try:
                yield from faults_of(parse(item.path, vault.read(item.path)[0]))
            except SpellbookError as error:
                yield Fault.of(item.path, error)


def faults_of(note: Note) -> Iterator[Fault]:
    """Yield what of one note does not conform, at its line."""
    name = note.path.rpartition("/")[2]
    has_header = FRONTMATTER.match(note.text) is not None
    if name == INDEX and has_header and (note.path != INDEX or note.meta.keys() != {"okf_version"}):
        yield Fault(note.path, 1, "a listing has no frontmatter, but okf_version at the top of a bundle")
    if name == LOG and (odd := [day for day in _HEADING.findall(note.body) if not _DAY.fullmatch(day)]):
        yield Fault(note.path, 0, f"a heading of a log is a day, as 2026-05-22, and not {odd[0]!r:.40}")
    if name in (INDEX, LOG):
        return
    if not has_header or not note.editable:
        yield Fault(note.path, 1, "it has no frontmatter that can be read" if has_header else "it has no frontmatter")
    elif not _has_type(note):
        yield Fault(note.path, 1, "it has no type")
    yield from (Fault(note.path, 1, reason) for reason in _odd_keys(note))


def _has_type(note: Note) -> bool:
    return isinstance(note.meta.get("type"), str) and note.meta["type"].strip() != ""


def _odd_keys(note: Note) -> Iterator[str]:
    """Yield the keys for trust, lifecycle and sources whose values are of another form."""
    meta = note.meta
    generated = note.meta.get(GENERATED)
    written = note.meta.get(VERIFIED)
    if generated is not None and not (isinstance(generated, Mapping) and generated.get("by")):
        yield "generated is not by and at"
    if written is not None and len([*verifications(meta)]) != (len(written) if isinstance(written, list) else 1):
        yield "verified is not a list of by and at"
    if meta.get("stale_after") is not None and bound(str(meta["stale_after"])) is None:
        yield "stale_after is not a day"
    sources = meta.get("sources")
    if sources is not None and not all(isinstance(each, Mapping) and each.get("resource") for each in _listed(sources)):
        yield "sources is not a list with a resource each"


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def export(vault: Vault, place: Path, *, private: bool = False) -> tuple[Exported, int]:
    """
    Write a bundle, and return how many private notes were left out.

    It goes into a zip, by the ending of `place`, or into a new or empty folder.

    Notes that are private are left out unless `private`, and so are files that no other note leads to. Raises
    InvalidInput for a place in the vault or a folder that is not empty, StorageError.
    """
    place = place.expanduser().absolute()
    if place.resolve().is_relative_to(vault.root):
        raise InvalidInput(f"{place} lies in the vault.", "Name a place outside of it.")
    if place.is_dir() and any(place.iterdir()):
        raise InvalidInput(f"{place} is not empty.", "Name a new folder, or a file that ends in .zip.")
    notes, others, missing, hidden = _chosen(vault, private)
    size = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(explain_errors(str(place)))
        archive = None
        if place.suffix.lower() == ".zip":
            stream = stack.enter_context(replacing(place, like=vault.root))
            archive = stack.enter_context(zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED))
        texts = {path: _text(note).encode() for path, note in notes.items()}
        files = {path: iter([data]) for path, data in {**texts, **_listings(notes)}.items()}
        for path, pieces in {**files, **{path: vault.pieces(path, _PIECE) for path in others}}.items():
            if archive is None:
                (place / path).parent.mkdir(parents=True, exist_ok=True)
            with archive.open(path, "w") if archive else (place / path).open("xb") as target:
                size += sum(map(target.write, pieces))
    return Exported(str(place), len(notes), len(others), size, tuple(missing)), hidden


def _chosen(vault: Vault, private: bool) -> tuple[dict[str, Note], list[str], list[Fault], int]:
    """Return the notes of a bundle by their paths in it, the other files, unreadable ones, and how many are hidden."""
    content = tree(vault)
    hidden = 0
    missing = [*content.faults]
    notes = dict[str, Note]()
    for item in filter(lambda item: is_note(item.path), content.files):
        try:
            note = parse(item.path, vault.read(item.path)[0])
        except SpellbookError as error:
            missing.append(Fault.of(item.path, error))
            continue
        if _is_private(note) and not private:
            hidden += 1
        else:
            notes[_name(note)] = note
    files = [item.path for item in content.files if not (is_note(item.path) or is_setting(item.path))]
    there = Files(files, {})
    led = set[str]()
    for note in notes.values():
        reached = (there.follow(note.path, link.target, link.is_markdown) for link in links.find(note))
        led.update(each.path for each in reached if each)
    return notes, [path for path in files if private or path in led], missing, hidden


def _is_private(note: Note) -> bool:
    """Say whether a note calls itself private, or says something of it that cannot be read."""
    says = bool(note.faults) or any(key.casefold() == KEY for key in note.meta)
    return says and privacy_of(note.meta) == SCOPES[-1]


def _is_listing(note: Note) -> bool:
    """Say whether a note is a listing as the format has it."""
    return note.path.rpartition("/")[2] in (INDEX, LOG) and not any(faults_of(note))


def _name(note: Note) -> str:
    """Return the path of a note in a bundle: one that is called as a listing, and is none, has another name."""
    folder, slash, name = note.path.rpartition("/")
    if name not in (INDEX, LOG) or _is_listing(note):
        return note.path
    return f"{folder}{slash}{without_ending(name)}-note.md"


def _text(note: Note) -> str:
    """Return the text of a note with a type; its frontmatter is written anew where no line can be added."""
    text = note.text.removeprefix("\ufeff")
    has_header = FRONTMATTER.match(text) is not None and note.editable
    if _is_listing(note) or (has_header and _has_type(note)):
        return text
    own = {"type": note.category or _TYPE}
    if has_header and "type" not in note.meta:
        line = f"type: {dump(own['type'])}"
        added = re.sub(r"\r\n|\n|\r", lambda end: f"{end[0]}{line}{end[0]}", text, count=1)
        if parse(note.path, added.encode()).meta == {**own, **note.meta}:
            return added
    return compose({**{key: value for key, value in note.meta.items() if key != "type"}, **own}, note.body)


def _row(title: str, path: str) -> str:
    label = _LABEL.sub(lambda sign: f"\\{sign[0]}", " ".join(title.split()))
    return f"* [{label}]({links.destination(path)})"


def _listings(notes: Mapping[str, Note]) -> dict[str, bytes]:
    """Return an `index.md` for each folder that has none, of its notes by type and of the folders in it."""
    sections: dict[str, dict[str, list[str]]] = {"": {}}
    for path, note in notes.items():
        folder, _, name = path.rpartition("/")
        if name not in (INDEX, LOG):
            about = " ".join(str(note.meta.get("description") or "").split())
            row = _row(note.title, name) + (f" - {about}" if about else "")
            kind = str(note.meta["type"]) if _has_type(note) else note.category or _TYPE
            sections.setdefault(folder, {}).setdefault(kind, []).append(row)
        while folder:
            above, _, name = folder.rpartition("/")
            row = _row(name, f"{name}/{INDEX}")
            rows = sections.setdefault(above, {}).setdefault(_FOLDERS, [])
            rows += [row] if row not in rows else []
            folder = above
    made = {}
    for folder, of_it in sections.items():
        head = "" if folder else f'---\nokf_version: "{VERSION}"\n---\n\n'
        parts = [f"# {kind}\n\n" + "\n".join(rows) + "\n" for kind, rows in of_it.items()]
        made[f"{folder}/{INDEX}".lstrip("/")] = (head + "\n".join(parts)).encode()
    return {path: data for path, data in made.items() if path not in notes}
