"""
Export a vault to one file, as JSON for programs or as a zip for people, without holding it in memory.

Both contain everything needed to restore the vault byte for byte: each file with its permissions and time, and
empty folders. The same vault gives the same zip.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import stat
import struct
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from spellbook._version import __version__
from spellbook.archive.tree import Item, Tree, tree
from spellbook.errors import InvalidInput, SpellbookError, UnreadableNote
from spellbook.notes.frontmatter import as_json
from spellbook.notes.note import Fault, parse
from spellbook.system.disk import replacing, storage_error
from spellbook.vault.vault import Vault

FORMAT, VERSION = "spellbook-export", 1
"""What a JSON export calls itself in its first line."""

Form = Literal["json", "markdown"]

_TOLD = (
    *("title", "topic", "category", "kind", "importance", "created", "updated"),
    *("keywords", "questions", "entities", "tags", "aliases"),
)
_PIECE = 3 << 20  # a multiple of three, so that pieces of base64 need no padding between them
_MOST_PLAIN_ZIP = 2_000_000_000
_FILETIME_EPOCH = 116_444_736_000_000_000  # 1970 in the 100 ns since 1601 that NTFS counts
_FIRST_ZIP_TIME, _LAST_ZIP_TIME = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)


@dataclass(frozen=True, slots=True)
class Exported:
    """
    Where an export was written, the number of files and bytes in it; `faults` name files that are missing from it.
    """

    file: str
    notes: int
    attachments: int
    bytes: int
    faults: tuple[Fault, ...]


def form_of(file: str, said: str | None) -> Form:
    """Return the given form, else the one of the file's ending, else JSON. Raises InvalidInput."""
    if said not in {None, "json", "markdown"}:
        raise InvalidInput(f"There is no format {said!r:.80}.", "It is json or markdown.")
    return "markdown" if said == "markdown" or (said is None and file.lower().endswith(".zip")) else "json"


def run(
    vault: Vault,
    file: str | Path | BinaryIO,
    format: str | None,
    *,
    only: Collection[str] | None = None,
    attachments: bool = True,
) -> Exported:
    """Write the vault into a file, see `into_file`, or an open stream. Raises InvalidInput for an unknown `format`."""
    form = form_of(str(file), format)
    if isinstance(file, str | Path):
        return into_file(vault, Path(file), form, only=only, attachments=attachments)
    return write(vault, file, form, only=only, attachments=attachments)


def into_file(
    vault: Vault, file: Path, form: Form, *, only: Collection[str] | None = None, attachments: bool = True
) -> Exported:
    """
    Write the vault to `file`, which keeps its old content until the new one is complete.

    `only` limits the export to these notes; without `attachments` it contains notes and settings. Raises
    InvalidInput for a file inside the vault, StorageError.
    """
    place = file.expanduser().absolute()
    if place.parent.resolve().is_relative_to(vault.root):
        raise InvalidInput(
            f"{file} lies in the vault and would be a part of the next export.", "Name a file outside of it."
        )
    try:
        with replacing(place) as stream:
            return write(vault, stream, form, only=only, attachments=attachments, name=str(place))
    except OSError as error:
        raise storage_error(str(file), error) from error


def write(
    vault: Vault,
    stream: BinaryIO,
    form: Form,
    *,
    only: Collection[str] | None = None,
    attachments: bool = True,
    name: str = "-",
) -> Exported:
    """Write the vault to an open stream; parameters as in `into_file`."""
    found = tree(vault)
    if only is not None:
        found = Tree(tuple(item for item in found.files if item.path in only), (), found.faults)
    elif not attachments:
        found = Tree(tuple(item for item in found.files if item.is_note or item.path.startswith(".")), (), found.faults)
    done, faults = (_write_json if form == "json" else _write_zip)(vault, stream, found)
    notes = sum(item.is_note for item in done)
    return Exported(name, notes, len(done) - notes, sum(item.stamp.size for item in done), (*found.faults, *faults))


def _opened(vault: Vault, item: Item, faults: list[Fault]) -> Iterator[bytes] | None:
    """
    Return the bytes of a file in pieces, opened before anything of it is written; None, and a fault, if it cannot
    be opened.
    """
    pieces = _even(vault.pieces(item.path))
    try:
        first = next(pieces, b"")
    except SpellbookError as error:
        faults.append(Fault(item.path, 0, _reason(item.path, error)))
        return None

    def all_of_it() -> Iterator[bytes]:
        yield first
        yield from pieces

    return all_of_it()


def _even(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) > _PIECE:
            yield bytes(held[:_PIECE])
            del held[:_PIECE]
    if held:
        yield bytes(held)


def _reason(path: str, error: SpellbookError) -> str:
    return error.message.removeprefix(f"{path}: ").rstrip(".")


# -- JSON: one object, a line for each file


def _write_json(vault: Vault, stream: BinaryIO, found: Tree) -> tuple[list[Item], list[Fault]]:
    head = {
        "format": FORMAT,
        "version": VERSION,
        "by": f"spellbook {__version__}",
        "exported": dt.datetime.now().astimezone().isoformat(timespec="seconds"),
        "vault": vault.root.name,
        "folders": found.folders,
    }
    stream.write(_line(head)[:-1] + b', "files": [')
    done: list[Item] = []
    faults: list[Fault] = []
    separator = b"\n"
    for item in found.files:
        pieces = _opened(vault, item, faults)
        if pieces is None:
            continue
        for record in _records(item, pieces):
            stream.write(separator + _line(record))
            separator = b",\n"
        done.append(item)
    stream.write(b'\n], "count": %d}\n' % len(done))
    return done, faults


def _records(item: Item, pieces: Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    """
    Yield the record of a file. A large file has several records: all but the last have `more`, the last has the
    hash.
    """
    sha256 = hashlib.sha256()
    head: dict[str, Any] = {"path": item.path, "mtime_ns": item.stamp.mtime_ns, "mode": item.mode}
    piece = next(pieces)
    for following in pieces:
        sha256.update(piece)
        yield {**head, "base64": base64.b64encode(piece).decode("ascii"), "more": True}
        head, piece = {}, following
    sha256.update(piece)
    try:
        content = {"text": piece.decode("utf-8")} if head else None
    except UnicodeDecodeError:
        content = None
    content = content or {"base64": base64.b64encode(piece).decode("ascii")}
    yield {
        **head,
        "sha256": sha256.hexdigest(),
        **(_metadata(item.path, piece) if head and item.is_note else {}),
        **content,
    }


def _metadata(path: str, data: bytes) -> Mapping[str, Any]:
    """The metadata of a note, for programs that do not read frontmatter. It is not needed to restore the note."""
    try:
        note = parse(path, data)
    except UnreadableNote:
        return {}
    named = (
        "title",
        "topic",
        "category",
        "kind",
        "importance",
        "created",
        "updated",
        "keywords",
        "questions",
        "entities",
        "tags",
        "aliases",
    )
    said = {
        "id": note.declared_id or path[:-3],
        **{name: getattr(note, name) for name in named},
        "meta": as_json(note.meta),
    }
    return {"note": {key: value for key, value in said.items() if value not in (None, "", (), {})}}


def _line(value: Mapping[str, Any]) -> bytes:
    # Half a letter, which no UTF-8 holds, becomes the escape that it is in JSON.
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")


# -- a zip of the tree


def _write_zip(vault: Vault, stream: BinaryIO, found: Tree) -> tuple[list[Item], list[Fault]]:
    done: list[Item] = []
    faults: list[Fault] = []
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in found.folders:
            entry = zipfile.ZipInfo(folder + "/", _FIRST_ZIP_TIME)
            entry.create_system, entry.external_attr = 3, (stat.S_IFDIR | 0o755) << 16 | 0x10
            archive.writestr(entry, b"")
        for item in found.files:
            pieces = _opened(vault, item, faults)
            if pieces is None:
                continue
            with archive.open(_entry(item), "w", force_zip64=item.stamp.size > _MOST_PLAIN_ZIP) as target:
                for piece in pieces:
                    target.write(piece)
            done.append(item)
    return done, faults


def _entry(item: Item) -> zipfile.ZipInfo:
    seconds, rest = divmod(item.stamp.mtime_ns, 1_000_000_000)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    entry = zipfile.ZipInfo(
        item.path, min(max((year, month, day, hour, minute, second), _FIRST_ZIP_TIME), _LAST_ZIP_TIME)
    )
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system, entry.external_attr = 3, (stat.S_IFREG | item.mode) << 16
    if 0 <= seconds < 1 << 31:
        # The zip's own time has two seconds and no zone. unzip reads the first of these, Windows and 7-Zip the second.
        filetime = seconds * 10_000_000 + rest // 100 + _FILETIME_EPOCH
        entry.extra = struct.pack("<HHBl", 0x5455, 5, 1, seconds) + struct.pack(
            "<HHIHHQQQ", 0x000A, 32, 0, 1, 24, *[filetime] * 3
        )
    return entry


def time_of(entry: zipfile.ZipInfo) -> int | None:
    """
    Return the time of a zip entry in nanoseconds since 1970, as precisely as the entry has it, None if it has none.
    """
    extra, found = entry.extra, None
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        value, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == 0x000A and len(value) >= 16 and struct.unpack_from("<HH", value, 4) == (1, 24):
            return (int(struct.unpack_from("<Q", value, 8)[0]) - _FILETIME_EPOCH) * 100
        if kind == 0x5455 and len(value) >= 5 and value[0] & 1:
            found = int(struct.unpack_from("<l", value, 1)[0]) * 1_000_000_000
    return found
