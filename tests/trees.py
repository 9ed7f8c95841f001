"""Vaults as plain trees of files: made, compared, and changed by processes that are killed."""

import contextlib
import gzip
import shutil
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from spellbook.library.book import Spellbook
from spellbook.vault.names import DEVICES, refusal


def grow(folder: Path, files: dict[str, bytes], folders: tuple[str, ...] = ()) -> Path:
    """Write files and empty folders."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for path in folders:
        (folder / path).mkdir(parents=True, exist_ok=True)
    return folder


def state_of(folder: Path) -> dict[str, Any]:
    """Return all of a folder but the trash: bytes, permissions, times (to 100 ns, as in zips), empty folders."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(".trash"):
            continue
        if path.is_file():
            status = path.stat()
            found[name] = (path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_mtime_ns // 100)
        elif path.is_dir() and not any(path.iterdir()):
            found[name] = None
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {name: held[0] for name, held in state_of(folder).items() if held}


def kept(vault: Path) -> dict[str, bytes]:
    """Return what a vault contains except temporary files, which the watcher removes after an hour."""
    return {path: data for path, data in contents(vault).items() if ".spellbook-" not in path}


def name(part: str) -> bool:
    return (
        part not in {".", ".."}
        and len(part.encode()) < 60
        and not part.startswith((".", "~", "\\"))
        and ":" not in part
        and not DEVICES.match(part)
        and not refusal(part)
    )


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12
).filter(name)  # fmt: skip
PATHS = st.builds(
    lambda folders, file, end: "/".join([*folders, file + end]),
    st.lists(NAMES, max_size=2),
    NAMES,
    st.sampled_from([".md", ".png", ""]),
)
CONTENTS = st.one_of(
    st.binary(max_size=200), st.text(st.characters(exclude_categories=["Cs"]), max_size=80).map(str.encode)
)
TREES = st.dictionaries(PATHS, CONTENTS, max_size=6).filter(
    lambda files: not any(a != b and b.startswith(a + "/") for a in files for b in files)
)  # fmt: skip


def files(vault: Any) -> Any:
    return [file for file in vault.rglob("*") if file.is_file()]


def tree(vault: Any) -> Any:
    """Every file of a vault, trash included, with its bytes and mode."""
    return {
        file.relative_to(vault).as_posix(): (file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
        for file in files(vault)
    }


def everything(vault: Path, state: Path, snapshots: Path) -> Iterator[bytes]:
    """Return all texts that are stored anywhere, except in temporary files."""
    yield from (file.read_bytes() for file in vault.rglob("*.md"))
    with contextlib.closing(sqlite3.connect(state / "journal.db")) as journal:
        yield from (zlib.decompress(data) for [data] in journal.execute("SELECT data FROM blobs"))
    yield from (
        gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for file in snapshots.glob("blobs/??/*")
    )


def blobs(book: Spellbook) -> set[str]:
    return {path.name for path in book.snapshots.folder.glob("blobs/??/*")}


def clear(vault: Path) -> None:
    for path in vault.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
