"""Sources of an import, each read as files in any order, a piece at a time; a dangerous path ends the reading."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from spellbook.archive.export import FORMAT, VERSION, time_of
from spellbook.archive.formats import claude_memory
from spellbook.archive.formats.conversations import FILES, UNTOUCHED, ImportSource, Incoming, convert, is_conversation
from spellbook.notes.files import Fault
from spellbook.settings.limits import MOST_GROWTH, MOST_VALUE
from spellbook.system.disk import pieces_of, regular
from spellbook.system.errors import InvalidInput, PathOutsideVault
from spellbook.text import credentials
from spellbook.text.unicode import is_markdown
from spellbook.vault.backup_files import tree
from spellbook.vault.folder import Folder
from spellbook.vault.names import belongs

_DATABASE = b"SQLite format 3\0"
_SMALL = 10_000_000
"""Bytes that a zip may have unpacked however small it is."""


@contextmanager
def opened(place: Path, kind: str = "") -> Iterator[ImportSource]:
    """Open whatever can be imported, or the memory of Claude Code. Raises InvalidInput for anything else, or damage."""
    source = ImportSource(iter(()))
    try:
        with ExitStack() as stack:
            source.files = _claude_memory(place, source) if kind else _files(place, source, stack)
            yield source
    except OSError as error:
        raise InvalidInput(f"{place}: cannot be read ({error.strerror or error}).", UNTOUCHED) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(f"{place}: the zip is damaged, or encrypted ({error}).", UNTOUCHED) from error


def _files(place: Path, source: ImportSource, stack: ExitStack) -> Iterator[Incoming]:
    """Return the files at `place`; `stack` closes what is opened, and folders and faults are added to `source`."""
    if place.is_dir():
        chats = sorted(file for file in place.iterdir() if FILES.fullmatch(file.name))
        if chats and not any(is_markdown(file.name) for file in place.iterdir()):
            return _chats([(stack.enter_context(regular(file)), file.name) for file in chats], source)
        folder = Folder(place.resolve())
        content = tree(folder)
        source.faults += content.faults
        source.folders += content.folders
        return (Incoming(item.path, folder.pieces(item.path), item.mode, item.stamp.mtime_ns) for item in content.files)
    file = stack.enter_context(regular(place))
    if is_markdown(place.name):
        status = os.fstat(file.fileno())
        return iter([Incoming(place.name, pieces_of(file), stat.S_IMODE(status.st_mode), status.st_mtime_ns)])
    start = file.read(len(_DATABASE))
    if start == _DATABASE:
        raise _unknown(place.name)
    if start[:2] == b"PK":
        return _zip(zipfile.ZipFile(file), place.name, source)
    file.seek(0)
    return _chats([(file, place.name)], source)


def _claude_memory(place: Path, source: ImportSource) -> Iterator[Incoming]:
    """Yield the memories in a folder of Claude Code as notes; those that are too large or hold a secret are faults."""
    folder = Folder(place.resolve())
    slug = folder.root.parent.name if folder.root.name == "memory" else folder.root.name
    content = tree(folder)
    source.faults += content.faults
    sizes = {item.path: item.stamp.size for item in content.files if item.path.endswith(".md")}
    titles = claude_memory.titles(folder.read(claude_memory.INDEX)[0]) if claude_memory.INDEX in sizes else {}
    for path in sorted(sizes.keys() - {claude_memory.INDEX}):
        data = folder.read(path)[0] if sizes[path] <= claude_memory.MOST_BYTES else b""
        secrets = credentials.find(data.decode("utf-8", "ignore"))
        source.faults += [Fault(path, secret.line, f"it looks like it holds {secret.kind}") for secret in secrets]
        source.faults += [] if data else [Fault(path, 0, "it is empty, or over 2 MiB")]
        if not secrets and (note := claude_memory.convert(slug, path, data, titles)):
            yield note


# -- zips


def _zip(archive: zipfile.ZipFile, name: str, source: ImportSource) -> Iterator[Incoming]:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    # Entries may overlap, so the size of the file itself counts.
    packed = archive.start_dir
    size = sum(entry.file_size for entry in entries)
    if size > _SMALL + packed * MOST_GROWTH:
        raise InvalidInput(
            f"{name}: {size / 1e9:.1f} GB in a zip of {packed / 1e6:.1f} MB: that is not a vault.", UNTOUCHED
        )
    chats = sorted(path for path in names if FILES.fullmatch(path.rpartition("/")[2]))
    if chats and not any(is_markdown(path) for path in names):
        return _chats([(archive.open(path), path) for path in chats], source)
    return _entries(archive, entries, _root(names), source)


def _root(names: list[str]) -> str:
    """Return the folder in which a zip has the vault, with its `/`, or "": who zips `Notes/` means its content."""
    folders = {name.partition("/")[0] + "/" for name in names if "/" in name and not name.startswith("__MACOSX/")}
    [first] = folders if len(folders) == 1 else [""]
    marks = (f"{first}.obsidian/", f"{first}.spellbook/")
    is_vault = first and not first.startswith(".") and any(name.startswith(marks) for name in names)
    return first if is_vault and all(name.startswith((first, "__MACOSX/")) for name in names) else ""


def _entries(
    archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], root: str, source: ImportSource
) -> Iterator[Incoming]:
    """Yield the files below `root`; empty folders, and faults for links and devices, are added to `source`."""
    filled = {entry.filename[: entry.filename.rstrip("/").rfind("/") + 1] for entry in entries}
    for entry in entries:
        path = _safe_path(entry.filename).removeprefix(root)
        mode = stat.S_IMODE(entry.external_attr >> 16)
        if not path or not belongs(path):
            continue
        if entry.is_dir():
            if entry.filename not in filled:
                source.folders.append(path.rstrip("/"))
        elif stat.S_IFMT(entry.external_attr >> 16) not in {0, stat.S_IFREG}:
            source.faults.append(Fault(path, 0, "a link or a device, which is not imported"))
        else:
            with archive.open(entry) as file:
                yield Incoming(path, pieces_of(file), mode or None, time_of(entry))


# -- JSON: an export of Spellbook's, or conversations


def _chats(opened: Sequence[tuple[IO[bytes], str]], source: ImportSource) -> Iterator[Incoming]:
    """Yield the files of one export, which ChatGPT may divide among several files."""
    for file, name in opened:
        yield from _records(members(file, name), source, name)


def _records(values: Iterator[tuple[str, Any]], source: ImportSource, name: str) -> Iterator[Incoming]:
    head: dict[str, Any] = {}
    count = chats = 0
    for key, value in values:
        if key == "folders":
            source.folders.append(_safe_path(str(value)))
        elif is_conversation(value):
            chats += 1
            try:
                note = convert(value)
            except (AttributeError, KeyError, TypeError, ValueError):  # the others are taken all the same
                source.faults.append(Fault(f"{name}: conversation {chats}", 0, "not as ChatGPT or Claude write them"))
                continue
            if note:
                yield note
        elif key != "files":
            head[key] = value
        else:
            if not count:
                _check(head, name)
            count += 1
            if not isinstance(value, Mapping) or not isinstance(value.get("path"), str):
                raise InvalidInput(f"{name}: file {count} has no path.", UNTOUCHED)
            path = _safe_path(value["path"])
            mode, mtime_ns = (n if isinstance(n := value.get(key), int) else None for key in ("mode", "mtime_ns"))
            yield Incoming(path, _join(path, value, values, name), mode, mtime_ns)
    if chats:
        return
    _check(head, name)
    if head.get("count") != count:
        raise InvalidInput(f"{name}: its count of files is {head.get('count')!r:.20}, but it holds {count}.", UNTOUCHED)


def _unknown(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name}: not an export that Spellbook knows.",
        "It reads its own, conversations, and Markdown in a folder or a zip; for memories of another server run "
        "`python scripts/import_memories.py FILE OUT` of Spellbook's source first (docs/moving-in.md).",
    )


def _check(head: Mapping[str, Any], name: str) -> None:
    if head.get("format") != FORMAT:
        raise _unknown(name)
    if head.get("version") != VERSION:
        raise InvalidInput(
            f"{name}: written by a newer Spellbook (version {head.get('version')!r:.20}).", "Upgrade Spellbook."
        )


def _join(path: str, record: Any, values: Iterator[tuple[str, Any]], name: str) -> Iterator[bytes]:
    """Yield the bytes of a record, and of those that go on with it; checked against their hash."""
    sha256 = hashlib.sha256()
    while True:
        try:
            text = record.get("text")
            piece = base64.b64decode(record["base64"], validate=True) if text is None else text.encode("utf-8")
            goes_on = record.get("more")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"{name}: {path} has neither text nor base64.", UNTOUCHED) from error
        sha256.update(piece)
        yield piece
        if not goes_on:
            break
        _, record = next(values, ("", None))
    if sha256.hexdigest() != record.get("sha256"):
        raise InvalidInput(
            f"{name}: {path} is not what was exported: its bytes do not match their hash.",
            "Take another copy of the file.",
        )


def _safe_path(path: str) -> str:
    """Return a path of a source that leads out of nothing. Raises PathOutsideVault for any other."""
    path = path.removeprefix("./")
    parts = path.removesuffix("/").split("/")
    if "\0" in path or any(part in {"", ".", ".."} for part in parts) or ".." in path.split("\\"):
        raise PathOutsideVault(
            f"{path[:200]!r} would lead out of the vault.", "That is not an export of a vault; nothing was imported."
        )
    return path


# -- members of JSON

_BEGINS = b'"files": [\n'
"""The end of the first line of an export of Spellbook's; each file has a line of its own, or several."""


def members(file: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """
    Yield key and value of each member of the JSON object in `file`; a list is yielded item by item.

    If the file holds a list, its items have the key "". An export of Spellbook's is read by lines, so it may be larger
    than memory; all other JSON is held whole. Raises InvalidInput if the file, called `name`, is no JSON, or too large.
    """
    try:
        first = file.readline(MOST_VALUE)
        if first.endswith(_BEGINS):
            yield from _items(json.loads(first + b"]}"))
            while line := file.readline(MOST_VALUE):
                if line.startswith(b"]"):
                    yield from _items(json.loads(b'{"files": [' + line + file.read(1)))
                else:
                    yield "files", json.loads(line.rstrip(b",\r\n"))
        else:
            whole = first + file.read(MOST_VALUE)
            if len(whole) > MOST_VALUE:
                raise ValueError(f"over {MOST_VALUE / 1e6:,.0f} MB")
            yield from _items(json.loads(whole))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{name}: not the JSON of an export ({error}).",
            "Is the file whole? docs/moving-in.md says what can be imported. Nothing was imported.",
        ) from error


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else [("", value)]:
        yield from ((key, item) for item in (inner if isinstance(inner, list) else [inner]))
