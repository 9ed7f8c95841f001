"""How each change of a vault is made: alone, and flushed to the disk before it gets its name."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spellbook.system import disk, platform
from spellbook.system.errors import SpellbookError
from spellbook.system.lock import take
from spellbook.vault.folder import digest
from spellbook.vault.vault import Vault
from tests.helpers import audited
from tests.trees import contents, grow

FILES = {"a.md": b"a", "b/b.md": b"b", "b/c.png": b"c", ".trash/old.md": b"old"}
CHANGES: dict[str, Callable[[Vault], object]] = {
    "write": lambda notes: notes.write("a.md", b"new", digest(b"a")),
    "write many": lambda notes: notes.write_all({"a.md": (b"1", digest(b"a")), "b/b.md": (b"2", digest(b"b"))}),
    "place": lambda notes: notes.place("new/c.png", [b"new"]),
    "replace": lambda notes: notes.place("b/c.png", [b"new"], expected=digest(b"c")),
    "put": lambda notes: notes.put("d.md", b"new", None),
    "create": lambda notes: notes.create("new", "d", b"new"),
    "move": lambda notes: notes.move("a.md", "b/a.md", digest(b"a")),
    "move whole": lambda notes: notes.move("a.md", "new/a.md"),
    "move a folder": lambda notes: notes.move("b", "new/b"),
    "erase": lambda notes: notes.trash.remove("a.md", digest(b"a")),
    "erase for good": lambda notes: notes.trash.remove("a.md", digest(b"a"), hard=True),
    "set aside": lambda notes: notes.trash.set_aside("b/c.png"),
    "copy to the trash": lambda notes: notes.trash.copy("a.md", digest(b"a")),
    "keep in the trash": lambda notes: notes.trash.keep("a.md", "part", b"new"),
    "restore": lambda notes: notes.trash.restore(".trash/old.md"),
}
EVENTS = {"os.rename", "os.link", "os.remove", "os.mkdir"}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_made_alone_and_flushed_before_it_has_its_name(
    vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Vault], object]
) -> None:
    """
    While a file or a folder is made, renamed, linked or deleted, nobody else can take the lock of writers. A new file is
    flushed before it gets its name, and each folder whose names changed is flushed after it. The thread
    that has the lock makes the file that names the owner of temporary files: Windows would refuse it to several at once.
    """
    notes, lock = Vault(grow(vault, FILES), tmp_path / "locks"), tmp_path / "locks" / "write.lock"
    flushed: set[tuple[int, int]] = set()  # inodes, with the size that each had
    renamed: set[Path] = set()  # folders whose names changed since they were flushed
    events: list[str] = []
    # On Windows the old file gets a temporary name while it changes places with the new one.
    old = {file.stat().st_ino for file in vault.rglob("*") if sys.platform == "win32"}
    own = platform.flush

    def flush(number: int) -> None:
        own(number)
        status = os.fstat(number)
        flushed.add((status.st_ino, status.st_size))
        renamed.difference_update([folder for folder in tuple(renamed) if folder.stat().st_ino == status.st_ino])

    def place(path: Any) -> Path:
        return Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # on Linux by its open folder

    def heard(event: str, given: tuple[Any, ...]) -> None:
        paths = [place(each) for each in given[:2] if isinstance(each, str | Path)]
        if event == "os.rename" and paths[1] == lock.with_name("owner"):
            assert threading.current_thread() is threading.main_thread()
        if event not in EVENTS or not paths[0].is_relative_to(vault):
            return
        assert take(lock) is None, f"{event} without the lock"
        events.append(event)
        if event != "os.remove" and not (event == "os.mkdir" and paths[0].exists()):
            for new in (each for each in paths if disk.TEMPORARY.fullmatch(each.name) and each.exists()):
                status = new.stat()
                assert status.st_ino in old or (status.st_ino, status.st_size) in flushed, (
                    f"{event} of {new}, which is not flushed"
                )
            renamed.update(each.parent for each in paths)

    monkeypatch.setattr(platform, "flush", flush)
    with audited(heard):
        change(notes)
    assert set(events) & {"os.rename", "os.link"}
    if sys.platform != "win32":  # which flushes no folders
        assert not renamed


# -- a folder that becomes a link out of the vault between a check and the write

INSIDE = {
    "write": lambda notes: notes.write("d/a.md", b"new", digest(b"a")),
    "place": lambda notes: notes.place("d/new.png", [b"new"]),
    "replace": lambda notes: notes.place("d/c.png", [b"new"], expected=digest(b"c")),
    "create": lambda notes: notes.create("d", "new", b"new"),
    "make a folder": lambda notes: notes.make("d/e/f"),
    "move out of it": lambda notes: notes.move("d/a.md", "a.md", digest(b"a")),
    "move into it": lambda notes: notes.move("keep.md", "d/keep.md", digest(b"keep")),
    "move whole": lambda notes: notes.move("d/a.md", "d/b.md"),
    "erase": lambda notes: notes.trash.remove("d/a.md", digest(b"a")),
    "erase for good": lambda notes: notes.trash.remove("d/a.md", digest(b"a"), hard=True),
    "restore": lambda notes: notes.trash.restore(".trash/d/old.md"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name no open folder")
@pytest.mark.parametrize("change", INSIDE.values(), ids=INSIDE)
def test_no_change_leaves_the_vault_whenever_a_folder_becomes_a_link(
    tmp_path: Path, change: Callable[[Vault], object]
) -> None:
    """
    The folder of a note is replaced by a link out of the vault right before each disk operation in turn. What lies there has
    the same names and bytes, and stays as it is: nothing is written, moved or deleted there.
    """
    files = {"d/a.md": b"a", "d/c.png": b"c", "keep.md": b"keep", ".trash/d/old.md": b"old"}
    there = {"a.md": b"a", "c.png": b"c"}
    for at in range(99):
        root, away = grow(tmp_path / f"v{at}", files), grow(tmp_path / f"away{at}", there)
        notes, swap = Vault(root, tmp_path / f"locks{at}"), Swap(root, away, at)
        with audited(swap), contextlib.suppress(SpellbookError, OSError):
            change(notes)
        assert contents(away) == there, f"before operation {at}"
        if swap.left >= 0:  # it made fewer
            break
    assert 3 < at < 98


@dataclass
class Swap:
    """Puts a link to `away` in the place of the folder `d` before a disk operation, of which `left` come first."""

    root: Path
    away: Path
    left: int

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        path = str(given[0]) if given else ""
        if path.startswith((str(self.root), "/proc/self/fd")) and event.startswith(("open", "os.")):
            self.left -= 1
            if self.left == -1:
                os.rename(self.root / "d", self.root / ".was")
                os.symlink(self.away, self.root / "d")
