"""Export a vault as JSON for programs or as a zip for people, a file at a time; both restore every byte."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import json
import stat
import struct
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from spellbook import __version__
from spellbook.notes.files import Fault
from spellbook.notes.frontmatter import as_json
from spellbook.notes.note import parse
from spellbook.notes.where_links_lead import path_id
from spellbook.system.disk import explain_errors, replacing
from spellbook.system.errors import InvalidInput, SpellbookError, UnreadableNote
from spellbook.vault.backup_files import BackupFile, is_note, is_setting, tree
from spellbook.vault.vault import Vault

FORMAT = "spellbook-export"
"""The name of the format, in the first line of a JSON export."""

VERSION = 1
"""The version of that format."""

_FIELDS = (
    *("title", "topic", "category", "kind", "importance", "created", "updated"),
    *("keywords", "questions", "entities", "tags", "aliases"),
)
"""Fields of a note in a JSON export, for other programs."""

_PIECE = 3 << 20
"""Bytes of a record; a multiple of three, so that pieces of base64 need no padding between them."""

_MOST_PLAIN_ZIP = 2_000_000_000
"""Bytes; a larger file is written as zip64."""

_FILETIME_EPOCH = 116_444_736_000_000_000
"""1970 as NTFS counts: in 100 ns since 1601."""

_FIRST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_LAST_ZIP_TIME = (2107, 12, 31, 23, 59, 58)


@dataclass(frozen=True, slots=True)
class Exported:
    """Where an export was written, how many files and bytes are in it, and `faults` of files that are missing."""

    file: str
    notes: int
    attachments: int
    bytes: int
    faults: tuple[Fault, ...]


def run(
    vault: Vault,
    file: str | Path | BinaryIO,
    format: str | None,
    *,
    only: Collection[str] | None = None,
    attachments: bool = True,
) -> Exported:
    """
    Write the vault to an open stream, or to a file, which keeps its old content until the new one is complete.

    Without a `format`, the file's ending decides: a zip for `.zip`, else json. `only` limits the export to these notes;
    without `attachments` it contains notes and settings. Raises InvalidInput for an unknown format or a file inside
    the vault, StorageError.
    """
    if format not in {None, "json", "markdown"}:
        raise InvalidInput(f"There is no format {format!r:.80}.", "It is json or markdown.")
    is_zip = format == "markdown" or (format is None and str(file).lower().endswith(".zip"))
    content = tree(vault)
    folders = content.folders if only is None and attachments else ()
    if only is not None:
        chosen = [item for item in content.files if item.path in only]
    else:
        chosen = [item for item in content.files if attachments or is_note(item.path) or is_setting(item.path)]
    done: list[BackupFile] = []
    faults = [*content.faults]
    files = _open(vault, chosen, done, faults)
    write = _write_zip if is_zip else _write_json
    place = Path("-")
    if isinstance(file, str | Path):
        place = Path(file).expanduser().absolute()
        if place.parent.resolve().is_relative_to(vault.root):
            raise InvalidInput(
                f"{file} lies in the vault and would be a part of the next export.", "Name a file outside of it."
            )
        with explain_errors(str(file)), replacing(place, like=vault.root) as stream:
            write(vault, stream, folders, files)
    else:
        write(vault, file, folders, files)
    notes = sum(is_note(item.path) for item in done)
    return Exported(str(place), notes, len(done) - notes, sum(item.stamp.size for item in done), tuple(faults))


_Files = Iterator[tuple[BackupFile, Iterator[bytes]]]


def _open(vault: Vault, chosen: Sequence[BackupFile], done: list[BackupFile], faults: list[Fault]) -> _Files:
    """Yield each file with its bytes; one that cannot be opened becomes a fault, the others are `done` afterwards."""
    for item in chosen:
        pieces = vault.pieces(item.path, _PIECE)
        try:
            first = next(pieces, b"")  # before anything of the file is written
        except SpellbookError as error:
            faults.append(Fault.of(item.path, error))
        else:
            yield item, chain((first,), pieces)
            done.append(item)


# -- JSON: one object, a line for each file


def _write_json(vault: Vault, stream: BinaryIO, folders: Sequence[str], files: _Files) -> None:
    head = {
        "format": FORMAT,
        "version": VERSION,
        "by": f"spellbook {__version__}",
        "exported": dt.datetime.now().astimezone().isoformat(timespec="seconds"),
        "vault": vault.root.name,
        "folders": folders,
    }
    stream.write(_line(head)[:-1] + b', "files": [')
    count, separator = 0, b"\n"
    for item, pieces in files:
        count += 1
        for record in _records(item, pieces):
            stream.write(separator + _line(record))
            separator = b",\n"
    stream.write(b'\n], "count": %d}\n' % count)


def _records(item: BackupFile, pieces: Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    """Yield the record of a file, or several of a large one: all but the last have `more`, the last has the hash."""
    sha256 = hashlib.sha256()
    head: dict[str, Any] = {"path": item.path, "mtime_ns": item.stamp.mtime_ns, "mode": item.mode}
    piece = next(pieces)
    for following in pieces:
        sha256.update(piece)
        yield {**head, "base64": base64.b64encode(piece).decode("ascii"), "more": True}
        head = {}
        piece = following
    sha256.update(piece)
    metadata = _metadata(item.path, piece) if head and is_note(item.path) else {}
    content = {"base64": base64.b64encode(piece).decode("ascii")}
    if head:
        with contextlib.suppress(UnicodeDecodeError):
            content = {"text": piece.decode("utf-8")}
    yield {**head, "sha256": sha256.hexdigest(), **metadata, **content}


def _metadata(path: str, data: bytes) -> Mapping[str, Any]:
    """Return the metadata of a note, for programs that do not read frontmatter; a restore does not need it."""
    try:
        note = parse(path, data)
    except UnreadableNote:
        return {}
    fields = {name: getattr(note, name) for name in _FIELDS}
    about = {"id": note.declared_id or path_id(path), **fields, "meta": as_json(note.meta)}
    return {"note": {key: value for key, value in about.items() if value not in (None, "", (), {})}}


def _line(value: Mapping[str, Any]) -> bytes:
    # Half a letter, which no UTF-8 holds, becomes the escape that it is in JSON.
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")


# -- a zip of the tree


def _write_zip(vault: Vault, stream: BinaryIO, folders: Sequence[str], files: _Files) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in folders:
            entry = zipfile.ZipInfo(folder + "/", _FIRST_ZIP_TIME)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFDIR | 0o755) << 16 | 0x10
            archive.writestr(entry, b"")
        for item, pieces in files:
            with archive.open(_entry(item), "w", force_zip64=item.stamp.size > _MOST_PLAIN_ZIP) as target:
                for piece in pieces:
                    target.write(piece)


def _entry(item: BackupFile) -> zipfile.ZipInfo:
    seconds, rest = divmod(item.stamp.mtime_ns, 1_000_000_000)
    entry = zipfile.ZipInfo(item.path, min(max(time.gmtime(seconds)[:6], _FIRST_ZIP_TIME), _LAST_ZIP_TIME))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = (stat.S_IFREG | item.mode) << 16
    if 0 <= seconds < 1 << 31:
        # The zip's own time has two seconds and no zone. unzip reads the first of these, Windows and 7-Zip the second.
        filetime = seconds * 10_000_000 + rest // 100 + _FILETIME_EPOCH
        entry.extra = struct.pack("<HHBl", 0x5455, 5, 1, seconds) + struct.pack(
            "<HHIHHQQQ", 0x000A, 32, 0, 1, 24, *[filetime] * 3
        )
    return entry


def time_of(entry: zipfile.ZipInfo) -> int | None:
    """Return the time of a zip entry in nanoseconds since 1970, as precisely as it is known; None if it has none."""
    extra, unix_ns = entry.extra, None
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        value, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == 0x000A and len(value) >= 16 and struct.unpack_from("<HH", value, 4) == (1, 24):
            return (int(struct.unpack_from("<Q", value, 8)[0]) - _FILETIME_EPOCH) * 100
        if kind == 0x5455 and len(value) >= 5 and value[0] & 1:
            unix_ns = int(struct.unpack_from("<l", value, 1)[0]) * 1_000_000_000
    return unix_ns
