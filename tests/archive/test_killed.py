"""Killed in the middle, or on a full disk: an export, an import, a snapshot and a restore lose nothing."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from spellbook.library import book as books
from tests.helpers import finished, python
from tests.kills import killed
from tests.trees import contents, grow, kept

pytestmark = pytest.mark.slow

EXPORT = """
from pathlib import Path
target = Path(place + ".zip")
target.write_bytes(b"yesterday's")
book.export(target)
"""


def test_export_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed export leaves the previous file as it was or a complete one, and the next export is complete."""
    for vault in killed(tmp_path, monkeypatch, EXPORT, {f"n{i}.md": b"x" for i in range(5)}, 1):
        target = vault.with_suffix(".zip")
        if (data := target.read_bytes()) != b"yesterday's":
            assert len(zipfile.ZipFile(target).namelist()) == 5
    assert data != b"yesterday's"


def test_import_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed import loses nothing, undo takes it back byte for byte, and the next one does all of it."""
    mine = {"a.md": b"mine", "keep.md": b"keep", "q.png": b"mine"}
    theirs = {"a.md": b"theirs", "n/b.md": b"new", "p.png": b"p", "q.png": b"theirs"}
    source = grow(tmp_path / "source", theirs)
    verb = f"book.import_({str(source)!r}, on_conflict='overwrite')"
    undone = 0
    for vault in killed(tmp_path, monkeypatch, verb, mine, 8):
        held = {*kept(vault).values(), *contents(vault / ".trash").values()}
        assert {b"mine", b"keep"} <= held <= {*mine.values(), *theirs.values()}
        with books.open(vault) as book:
            if entries := book.log():
                undone += entries[0].state == "unfinished"
                [half] = [problems for name, problems in book.doctor() if name == "interrupted work"]
                assert bool(half) == (entries[0].state == "unfinished")
                book.undo()
            assert kept(vault) == mine
            book.import_(source, on_conflict="overwrite")
        assert kept(vault) == {**mine, **theirs}
    assert undone


FULL = """
import resource, sys
from pathlib import Path
import spellbook
from spellbook.system.errors import StorageError
vault, source = sys.argv[1:]
with spellbook.open(vault, embedder="hash") as book:
    book.refresh()
    book.log()
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))  # for the state: no note is so large
    try:
        book.import_(source)
    except StorageError as error:
        print("journal.db" in error.message, sorted(path.name for path in Path(vault).rglob("*")))
"""


@pytest.mark.skipif(os.name == "nt", reason="no limit of a file's size there")
def test_a_full_state_disk_leaves_no_part_of_it(vault: Path, tmp_path: Path) -> None:
    """If the journal can no longer be written, what was placed before is taken back all the same."""
    source = grow(tmp_path / "source", {f"n{i}.md": f"# Note {i}".encode() for i in range(300)})
    grow(vault, {"mine.md": b"mine"})
    assert finished(python(FULL, vault, source)) == ["True ['mine.md']"]
    with books.open(vault, embedder="hash") as book:
        assert len(book.import_(source).added) == 300


def test_snapshot_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed snapshot does not appear and harms no other, though it deletes old ones; the next is complete."""

    def prepare(vault: Path) -> None:
        with books.open(vault) as book:
            for hour in range(2):  # both on one day, long ago: the later one is that month's last
                grow(vault, {"a.md": b"%d" % hour})
                name = book.snapshots.create().name
                folder = book.snapshots.folder
                (folder / f"{name}.json.gz").rename(folder / f"2026-01-31T1{hour}-00-00Z.json.gz")
        grow(vault, {"a.md": b"two", "c.png": os.urandom(100)})

    for vault in killed(tmp_path, monkeypatch, "book.snapshots.create()", {"b.md": b"b"}, 3, prepare):
        back, first = vault.with_suffix(".back"), vault.with_suffix(".first")
        with books.open(vault) as book:
            assert not book.snapshots.verify().faults
            book.restore_snapshot("2026-01-31T11-00-00Z", first)
            book.snapshots.create()
            book.restore_snapshot("latest", back)
            assert not book.snapshots.verify().faults
        assert contents(first) == {"a.md": b"1", "b.md": b"b"}
        assert contents(back) == contents(vault)


def test_restore_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore over the vault that is killed anywhere loses nothing, and undo takes it back byte for byte."""
    then = {"a.md": b"one", "gone/b.md": b"b", "p.png": b"then"}
    now = {"a.md": b"two", "new/c.md": b"c", "p.png": b"now", "q.png": b"mine"}

    def prepare(vault: Path) -> None:
        with books.open(vault) as book:
            book.snapshots.create()
        shutil.rmtree(vault / "gone")
        (vault / "gone").symlink_to(tmp_path)
        grow(vault, now)

    undone = 0
    for vault in killed(tmp_path, monkeypatch, "book.restore_snapshot('latest')", then, 10, prepare):
        with books.open(vault) as book:
            if entries := book.log():
                if entries[0].state == "unfinished":
                    problems = [problem for _, problems in book.doctor() for problem in problems]
                    name = book.snapshots.find("latest")
                    assert f"restore snapshot {name} was cut short: `spellbook undo 1` takes it back" in problems
                    undone += 1
                book.undo()
        assert (kept(vault), (vault / "gone").is_symlink()) == (now, True)
    assert undone
    with books.open(vault) as book:
        book.restore_snapshot("latest")
    assert (kept(vault), (vault / ".trash/gone").is_symlink()) == (then, True)
