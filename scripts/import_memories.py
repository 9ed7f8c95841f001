"""
Turn the memories of mem0, mcp-memory-service or basic-memory into a folder of notes, which `spellbook import` takes.

    python scripts/import_memories.py FILE OUT [--not-in VAULT]
    spellbook import OUT --into memories --dry-run

FILE is the JSON that mem0's `get_all` answers, the JSON export of mcp-memory-service or its database `sqlite_vec.db`,
or the folder of a project of basic-memory. OUT is a new folder. With --not-in, memories whose ids a vault has are left
out.

Everything is read or nothing is written. No code, view or trigger of FILE runs, and no name in it leads out of OUT. The
file is one of its own: it needs Python 3.11 and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import math
import os
import re
import shutil
import sqlite3
import stat
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_JSON = 500_000_000
"""Bytes of a JSON file that is read."""

MOST_DATABASE = 4_000_000_000
"""Bytes of a database that is read."""

MOST_CELL = 20_000_000
"""Bytes of one value of a database."""

MOST_NOTE = 10_000_000
"""Bytes of a note of basic-memory that gets an id; a larger one is copied as it is."""

MOST_TITLE = 80
MOST_NAME = 150
"""Bytes of a file's name, before what tells it from others."""

MOST_SECONDS = 100_000_000_000
"""A larger number counts milliseconds: in seconds it would be after the year 5000."""

MAGIC = b"SQLite format 3\0"
COLUMNS = (
    *("content", "content_hash", "tags", "memory_type", "metadata", "deleted_at"),
    *("created_at", "created_at_iso", "updated_at", "updated_at_iso"),
)
"""Columns of the table `memories` of mcp-memory-service."""

KEPT = ("user_id", "agent_id", "run_id", "memory_type")

_HEADER = re.compile(r"---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_PERMALINK = re.compile(r"[^\s:/?#\[\]][^\s:?#\[\]]{0,250}(?<!/)")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


class BadSource(Exception):
    """FILE cannot be read, or OUT cannot be written; the text says why, and what to do."""


@dataclass(frozen=True)
class Note:
    """A memory as a note: its `id`, its path below OUT, its text, and its time in seconds since 1970, if it has one."""

    id: str
    path: str
    text: str
    time: float | None = None


def main(arguments: list[str] | None = None) -> int:
    """Write the notes, and say on stderr how many, and what was left out; return 0, or 1 if nothing was written."""
    first, _, rest = (__doc__ or "").strip().partition("\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=first, epilog=rest, formatter_class=form)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--not-in", type=Path, metavar="VAULT", help="leave out memories whose ids this vault has")
    given = parser.parse_args(arguments)
    left: list[str] = []
    try:
        written = convert(given.file, given.out, given.not_in, left)
    except BadSource as error:
        print(f"{error} Nothing was written.", file=sys.stderr)
        return 1
    except (OSError, sqlite3.Error) as error:
        print(f"{given.file}: it cannot be read or written ({error}). Nothing was written.", file=sys.stderr)
        return 1
    for line in left:
        print(f"left out: {line}", file=sys.stderr)
    print(f"{given.out}: {written} notes. Next: spellbook import {given.out} --dry-run", file=sys.stderr)
    return 0


def convert(source: Path, out: Path, vault: Path | None, left: list[str]) -> int:
    """Write the memories of `source` into the new folder `out`; return their number; `left` gets all others."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadSource(f"{out} is there already. Name a new folder.")
    if vault is not None and not vault.is_dir():
        raise BadSource(f"{vault}: there is no such folder. Name the vault for --not-in.")
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise BadSource(f"{out} lies in {source}. Name a folder outside it.")
    known = ids_of(vault) if vault else set()
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        if source.is_dir():
            written = _copy_project(source, scratch, known, left)
        else:
            written = _write(_notes(source, left), scratch, known, left)
        if out.exists():
            out.rmdir()
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return written


def ids_of(vault: Path) -> set[str]:
    """Return the ids that the frontmatter of notes in a vault gives."""
    found = set()
    for path in _files(vault, []):
        if path.suffix.lower() == ".md":
            with path.open("rb") as file:
                header = _HEADER.match(file.read(64_000).decode("utf-8-sig", "ignore"))
            found.add(_values(header[1]).get("id", "") if header else "")
    return found - {""}


# -- memories as notes


def _write(notes: Iterable[Note], folder: Path, known: set[str], left: list[str]) -> int:
    """Write notes under names that no other has, on no system; return their number."""
    texts: dict[str, str] = {}
    taken: set[str] = set()
    for note in notes:
        if texts.get(note.id, note.text) != note.text:
            raise BadSource(f"{note.id} is in it twice, and not the same.")
        if note.id in texts:
            continue
        texts[note.id] = note.text
        if note.id in known:
            left.append(f"{note.id}: the vault has it")
            continue
        path = note.path
        if _key(path) in taken:  # a number of the memory's own, so that the next export gives the same name
            path = f"{path} {note.id[-64:]}"
        if _key(path) in taken:
            raise BadSource(f"{note.id}: another memory has the same name and number.")
        taken.add(_key(path))
        place = folder / f"{path}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(note.text.encode())
        if note.time is not None:
            os.utime(place, (note.time, note.time))
    return len(taken)


def _key(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _notes(source: Path, left: list[str]) -> Iterator[Note]:
    """Yield the memories of a file, JSON or a database."""
    try:
        status = source.stat()
    except OSError as error:
        raise BadSource(f"{source}: it cannot be read ({error.strerror}).") from error
    if not stat.S_ISREG(status.st_mode):
        raise BadSource(f"{source} is no regular file.")
    with source.open("rb") as file:
        is_database = file.read(len(MAGIC)) == MAGIC
    count = 0
    for number, each in enumerate(_rows(source) if is_database else _items(source, status.st_size), 1):
        if each.get("deleted_at") is not None and "content_hash" in each:
            left.append(f"memory {number}: it was deleted")
        elif note := note_of(each):
            count += 1
            yield note
        else:
            left.append(f"memory {number}: it has no text, or no id")
    if not count and not left:
        raise BadSource(f"{source}: there are no memories of mem0 or mcp-memory-service in it.")


def _items(source: Path, size: int) -> Iterator[Mapping[str, Any]]:
    """Yield the memories in a JSON file: a list of them, or an object that has such a list."""
    if size > MOST_JSON:
        raise BadSource(f"{source} is over {MOST_JSON // 1_000_000} MB. Export it in parts.")
    try:
        value = json.loads(source.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadSource(f"{source}: not whole JSON, and no database ({str(error)[:200]}).") from error
    lists = [value] if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else []
    items = [item for each in lists if isinstance(each, list) for item in each]
    if any(map(_is_memory, items)):
        yield from (item if isinstance(item, dict) else {} for item in items)


def _is_memory(value: object) -> bool:
    return isinstance(value, dict) and (
        (isinstance(value.get("content"), str) and isinstance(value.get("content_hash"), str))
        or (isinstance(value.get("memory"), str) and isinstance(value.get("id"), str))
    )


def note_of(memory: Mapping[str, Any]) -> Note | None:
    """Return a memory of mem0 or mcp-memory-service as a note; None if it has no text or no id."""
    if not _is_memory(memory):
        return None
    server = "mcp-memory-service" if "content_hash" in memory else "mem0"
    text = _clean(str(memory.get("content") or memory.get("memory") or "")).strip()
    number = re.sub(r"[^\w-]", "-", str(memory.get("content_hash") or memory.get("id") or ""))[:64]
    if not text or not number:
        return None
    about = memory.get("metadata")
    title = title_of(text) or number
    updated = _moment(memory.get("updated_at")) or _moment(memory.get("updated_at_iso"))
    created = _moment(memory.get("created_at")) or _moment(memory.get("created_at_iso"))
    meta: dict[str, object] = {
        **{key: value for key, value in (about.items() if isinstance(about, dict) else ()) if _is_plain(key, value)},
        **{key: memory[key] for key in KEPT if isinstance(memory.get(key), str) and memory[key]},
        "id": f"{server}-{number}",
        "title": title,
        "category": "memory",
        "topic": server,
        "tags": _tags_of(memory.get("tags")) or _tags_of(memory.get("categories")),
        "created": created.isoformat() if created else "",
        "updated": updated.isoformat() if updated else "",
    }
    lines = [f"{key}: {_yaml(value)}" for key, value in meta.items() if value not in ("", [])]
    whole = "\n".join(["---", *lines, "---", "", text, ""])
    return Note(f"{server}-{number}", f"{server}/{file_name(title)}", whole, updated.timestamp() if updated else None)


def title_of(text: str) -> str:
    """Return how a text begins: its first sentence, on one line, without a full stop."""
    line = _on_one_line(text.split("\n", 1)[0].lstrip("#>-*+ "))
    first = re.split(r"(?<=[.!?。])\s", line, maxsplit=1)[0]
    return first[:MOST_TITLE].strip().rstrip(".。")


def file_name(title: str) -> str:
    """Return a title as a file's name, before its `.md`, that each system, and a link, can hold."""
    name = re.sub(r'[\\/:*?"<>|#^\[\]%]', " ", _on_one_line(title))
    name = " ".join(name.encode()[:MOST_NAME].decode("utf-8", "ignore").split()).strip(" .")
    while name.lower().endswith(".md"):
        name = name[:-3].strip(" .")
    return f"{name} note" if _RESERVED.fullmatch(name) else name or "note"


def _is_plain(key: object, value: object) -> bool:
    """Say whether a key and a value of metadata fit into frontmatter as they are."""
    if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z][\w-]{0,40}", key):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, str | int | float) and len(str(value)) <= 200


def _yaml(value: object) -> str:
    """Return a value in YAML's form of JSON, without letters that YAML cannot hold."""
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    return json.dumps(_on_one_line(value), ensure_ascii=False) if isinstance(value, str) else json.dumps(value)


def _clean(text: str) -> str:
    """Return a text without halves of letters, its lines ended by LF."""
    return text.encode("utf-8", "ignore").decode().replace("\r\n", "\n").replace("\r", "\n")


def _on_one_line(text: str) -> str:
    return "".join(letter for letter in " ".join(_clean(text).split()) if letter.isprintable())


def _tags_of(value: object) -> list[str]:
    """Return tags, a list or a text with commas, each on one line and without `#`."""
    if isinstance(value, str):
        value = "".join("," if _is_comma(letter) else letter for letter in value).split(",")
    listed = value if isinstance(value, list) else []
    tags = (_on_one_line(str(tag)).lstrip("#")[:60] for tag in listed)
    return list(dict.fromkeys(filter(None, tags)))[:50]


def _is_comma(letter: str) -> bool:
    """Say whether Unicode names a letter a comma or a semicolon that divides words."""
    return unicodedata.category(letter) == "Po" and bool(re.search("COMMA|SEMICOLON", unicodedata.name(letter, "")))


def _moment(value: object) -> dt.datetime | None:
    """Return a time (seconds or milliseconds since 1970, or ISO 8601) in UTC; None if it is none."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return dt.datetime.fromtimestamp(int(value / 1000 if value > MOST_SECONDS else value), dt.UTC)
        if isinstance(value, str) and value:
            time = dt.datetime.fromisoformat(value).replace(microsecond=0)
            return time.astimezone(dt.UTC) if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return None


# -- the database of mcp-memory-service, which may be hostile, damaged, or in use


def _rows(source: Path) -> Iterator[dict[str, Any]]:
    """
    Yield the memories of the database, with the changes in its write-ahead log.

    A copy is read, so nothing is written beside the file and no lock of its owner is taken. Its journal is not copied:
    it may name a file that SQLite would delete.
    """
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy.db"
        for name in ("", "-wal"):
            part = source.with_name(f"{source.name}{name}")
            if name and not part.exists():
                continue
            if not stat.S_ISREG(part.stat().st_mode) or part.stat().st_size > MOST_DATABASE:
                raise BadSource(f"{part} is no regular file, or over {MOST_DATABASE // 10**9} GB. Export it as JSON.")
            shutil.copyfile(part, f"{copy}{name}")
        try:
            with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                names = _readable(connection)
                if not {"content", "content_hash"} <= {*names}:
                    return
                for row in connection.execute(f"SELECT {', '.join(names)} FROM memories ORDER BY rowid"):
                    memory = dict(zip(names, row, strict=True))
                    with contextlib.suppress(TypeError, ValueError, RecursionError):
                        memory["metadata"] = json.loads(memory.get("metadata") or "{}")
                    yield memory
        except sqlite3.Error as error:
            raise BadSource(f"{source}: the database cannot be read ({error}). Is it whole?") from error


def _readable(connection: sqlite3.Connection) -> list[str]:
    """Let a connection read the plain columns of the table `memories` alone; return those it has, none without one."""
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_CELL)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")
    kinds = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = 'memories'").fetchall()
    if len(kinds) != 1 or kinds[0][0] != "table" or not str(kinds[0][1]).upper().startswith("CREATE TABLE"):
        return []
    (verdict,) = connection.execute("PRAGMA quick_check('memories')").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    # Hidden and computed columns are not those of the table.
    there = {row[1] for row in connection.execute("PRAGMA table_xinfo('memories')") if row[6] == 0}

    def allow(action: int, first: str | None, *_: object) -> int:
        is_read = action == sqlite3.SQLITE_READ and first == "memories"
        return sqlite3.SQLITE_OK if is_read or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY

    connection.set_authorizer(allow)
    return [name for name in COLUMNS if name in there]


# -- the folder of a project of basic-memory


def _copy_project(source: Path, folder: Path, known: set[str], left: list[str]) -> int:
    """Copy the files of a project, its notes with ids; return how many notes there are."""
    count = 0
    seen: set[str] = set()
    for file in _files(source, left):
        path = file.relative_to(source)
        target = folder / path
        id, data = "", b""
        if file.suffix.lower() == ".md":
            if file.stat().st_size <= MOST_NOTE:
                id, data = with_id(path.as_posix(), file.read_bytes())
            if id in known:
                left.append(f"{path.as_posix()}: the vault has it")
                continue
            count += 1
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        if id and id not in seen:  # the second is a copy that somebody made by hand
            seen.add(id)
            target.write_bytes(data)
        shutil.copystat(file, target)
    return count


def _files(folder: Path, left: list[str]) -> Iterator[Path]:
    """Yield the regular files of a folder that are not hidden; links and devices are added to `left`."""
    for place, folders, names in os.walk(folder, onerror=_fail):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for name in [*sorted(names), *folders]:
            path = Path(place, name)
            mode = path.lstat().st_mode
            if name[0] != "." and stat.S_ISREG(mode):
                yield path
            elif name[0] != "." and not stat.S_ISDIR(mode):
                left.append(f"{path}: a link or a device")


def _fail(error: OSError) -> None:
    raise error


def with_id(path: str, data: bytes) -> tuple[str, bytes]:
    """
    Return the permalink of a note of basic-memory, and its bytes with that as `id`; "" and `data` for any other.

    Such a note has a title, a type and a permalink; a page of a web site also has a layout. A title or a permalink
    that differs from the file's name becomes an alias, unless the note has aliases. So `memory://` addresses and links
    by title or permalink still lead to the note. All other bytes stay.
    """
    header = _HEADER.match(data[:64_000].decode("utf-8", "ignore"))
    meta = _values(header[1]) if header else {}
    title, permalink = meta.get("title", ""), meta.get("permalink", "")
    if not (title and permalink and meta.get("type")) or meta.keys() & {"id", "layout"}:
        return "", data
    if not _PERMALINK.fullmatch(permalink):
        return "", data
    stem = path.removesuffix(".md")
    names = [title] if title.casefold() != stem.rpartition("/")[2].casefold() else []
    names += [permalink] if permalink.casefold() != stem.casefold() else []
    at = data.index(b"\n") + 1
    end = "\r\n" if data[:at].endswith(b"\r\n") else "\n"
    more = f"id: {_yaml(permalink)}{end}"
    if names and "aliases" not in meta:
        more += f"aliases: {_yaml(names)}{end}"
    return permalink, data[:at] + more.encode() + data[at:]


def _values(header: str) -> dict[str, str]:
    """Return the keys of frontmatter with the texts that stand on their lines; "" for any other value."""
    found = {}
    for key, value in re.findall(r"^([A-Za-z]\w*):[ \t]*(.*?)[ \t]*\r?$", header, re.MULTILINE):
        if value[:1] == "'" and re.fullmatch(r"'(?:[^']|'')*'", value):
            value = value[1:-1].replace("''", "'")
        elif value[:1] == '"':
            try:
                value = str(json.loads(value))
            except ValueError:
                value = ""
        elif value[:1] in {*"'[]{}&*!|>%@`#"}:
            value = ""
        found[key] = value.split(" #")[0].rstrip() if value[:1] != "#" else ""
    return found


if __name__ == "__main__":
    sys.exit(main())
