"""Restoring a snapshot: what stands in the way goes to the trash, and a restore that fails is taken back."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from spellbook.library import book as books
from spellbook.system.errors import InvalidInput, PathOutsideVault, StorageError
from tests.trees import clear, contents, grow, state_of

MINE = {"real/mine.md": b"mine", "file.md/.git/config": b"git", "file.md/private.md": b"private", "f": b"file"}


def in_the_way(vault: Path, outside: Path) -> None:
    """Put one thing of each kind where the snapshot has a file or a folder."""
    clear(vault)
    grow(outside, {"secret.md": b"secret"})
    grow(vault, MINE | {".spellbookignore": b"private.md\n"})
    (vault / "out.md").symlink_to(outside / "secret.md")
    (vault / "n").symlink_to(outside)
    (vault / "m").symlink_to("real")
    (vault / "dead.md").symlink_to("nowhere.md")
    (vault / "like.md").symlink_to("real/mine.md")
    (vault / "empty").symlink_to(outside)
    os.mkfifo(vault / "pipe.md")


def shape(vault: Path) -> dict[str, Any]:
    """The contents of a vault except the trash; links and pipes are listed as such."""
    found: dict[str, Any] = {}
    for path in sorted(vault.rglob("*")):
        name = path.relative_to(vault).as_posix()
        if not name.startswith(".trash"):
            held = path.is_fifo() if path.is_dir() or path.is_fifo() else b""
            found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else held
    return found


THEN = {
    name: name.encode()
    for name in ("a.md", "out.md", "n/x.md", "m/y.md", "dead.md", "like.md", "f/in.md", "file.md", "pipe.md")
}


def test_what_stands_in_the_way_goes_into_the_trash(book, vault, tmp_path):
    """
    Links, pipes and folders of other files are moved to the trash unchanged; nothing outside of the vault changes.
    """
    grow(vault, THEN, ("empty",))
    then, taken = shape(vault), book.snapshots.create()
    in_the_way(vault, tmp_path / "outside")
    before = shape(vault)
    done = book.restore_snapshot(taken.name)
    assert shape(vault) == then
    assert contents(tmp_path / "outside") == {"secret.md": b"secret"}
    trash = vault / ".trash"
    links = {"n": str(tmp_path / "outside"), "m": "real", "dead.md": "nowhere.md", "like.md": "real/mine.md"}
    links |= {"out.md": str(tmp_path / "outside/secret.md"), "empty": links["n"]}
    assert {name: os.readlink(trash / name) for name in links} == links
    assert (trash / "pipe.md").is_fifo()
    assert {path: (trash / path).read_bytes() for path in MINE} == MINE
    assert {*done.removed} == {*links, "pipe.md", "real/mine.md", "file.md", "f", ".spellbookignore"}
    assert done.written == len(THEN)
    now = contents(vault)
    book.undo()
    assert shape(vault) == before
    assert not contents(trash)
    book.undo(2)
    assert contents(vault) == now


@pytest.mark.parametrize("at", [1, len(THEN)])
def test_a_restore_that_fails_is_taken_back(book, vault, tmp_path, at):
    """
    Wherever a restore fails, the vault is as it was, with links, pipes and empty folders, and nothing is half done.
    """
    grow(vault, THEN | {"large.bin": bytes(10_100_000)}, ("empty",))
    taken = book.snapshots.create()
    in_the_way(vault, tmp_path / "outside")
    grow(vault, {"a.md": b"edited", "new/b.md": b"new", "new/large.bin": b"x" * 10_100_000}, ("was empty/in",))
    (vault / "a.md").chmod(0o755)
    before, mode = shape(vault), (vault / "a.md").stat().st_mode

    def fail(_: str, done: int, count: int) -> None:
        if done == at:
            raise StorageError("The disk fails.")

    def interrupt(_: str, done: int, count: int) -> None:
        if done == at:
            raise KeyboardInterrupt

    for progress, error in ((fail, StorageError), (interrupt, KeyboardInterrupt)):
        with pytest.raises(error):
            book.restore_snapshot(taken.name, progress=progress)
    assert shape(vault) == before
    assert (vault / "a.md").stat().st_mode == mode
    assert not book.log()
    assert contents(tmp_path / "outside") == {"secret.md": b"secret"}
    with pytest.raises(StorageError, match="The disk fails"):
        book.restore_snapshot(taken.name, tmp_path / "into", progress=fail)
    assert not contents(tmp_path / "into")
    book.restore_snapshot(taken.name)
    assert {path: (vault / path).read_bytes() for path in THEN} == THEN


def test_a_trash_that_takes_nothing_is_said_before_anything_is_done(book, vault, tmp_path):
    """If the trash is a file or a link out of the vault, nothing is restored and nothing is moved."""
    grow(vault, {"a.md": b"a"})
    taken = book.snapshots.create()
    grow(vault, {"a.md": b"edited", "b.md": b"new"})
    for make in (lambda: (vault / ".trash").symlink_to(tmp_path), lambda: (vault / ".trash").write_bytes(b"")):
        make()
        with pytest.raises(PathOutsideVault, match="Put a folder in its place"):
            book.restore_snapshot(taken.name)
        (vault / ".trash").unlink()
        assert contents(vault) == {"a.md": b"edited", "b.md": b"new"}
    assert book.snapshots.names() == [taken.name]


def test_a_restore_writes_no_more_than_an_import_may(book, vault, tmp_path):
    """A manipulated list restores no dot-folder, and no list restores an executable file; what is skipped is named."""
    grow(vault, {"a.md": b"a", "b.md": b"b"})
    (vault / "a.md").chmod(0o755)
    taken = book.snapshots.create()
    listed = book.snapshots.folder / f"{taken.name}.json.gz"
    listed.write_bytes(
        gzip.compress(gzip.decompress(listed.read_bytes()).replace(b'"b.md"', b'".git/hooks/pre-commit"'))
    )
    for folder in (vault, tmp_path / "into"):
        if folder == vault:
            clear(vault)
        done = book.restore_snapshot(taken.name, None if folder == vault else folder)
        assert [fault.path for fault in done.faults] == [".git/hooks/pre-commit"]
        assert {path: held[:2] for path, held in state_of(folder).items()} == {"a.md": (b"a", 0o644)}


def test_going_back_loses_nothing(book, vault, write_note):
    """New files are in the trash, ignored files stay, search is up to date, and undo brings edited files back."""
    grow(vault, {"a.md": b"the crane", "gone.md": b"the quay", "n/deep.md": b"deep", ".spellbookignore": b"private/\n"})
    grow(vault, {"p.png": b"then"})
    then = book.snapshots.create()
    before = contents(vault)
    (vault / "gone.md").unlink()
    shutil.rmtree(vault / "n")
    grow(vault, {"a.md": b"the crane, edited", "new/x.md": b"new", "n": b"a file where a folder was"})
    grow(vault, {"private/p.md": b"private", "p.png": b"edited"})
    edited = contents(vault)
    done = book.restore_snapshot(then.name)
    assert contents(vault) == {**before, "private/p.md": b"private"}
    assert not (vault / "new").exists()
    trash = {"new/x.md": b"new", "n": b"a file where a folder was", "p.png": b"edited"}
    assert contents(vault / ".trash") == trash
    assert sorted(done.removed) == ["n", "new/x.md"]
    assert [hit.path for hit in book.find("quay").hits] == ["gone.md"]
    assert not book.find("edited").hits
    assert book.undo().entry.what == f"snapshot {then.name}"
    assert contents(vault) == edited
    assert [hit.path for hit in book.find("edited").hits] == ["a.md"]


def test_a_folder_that_holds_other_things_is_not_written_into(book, vault, tmp_path):
    """A restore into a folder refuses one that is not empty, and writes nothing there."""
    grow(vault, {"a.md": b"a", "n/b.md": b"b"})
    book.snapshots.create()
    other = grow(tmp_path / "other", {"mine.txt": b"mine"})
    with pytest.raises(InvalidInput, match=r"mine\.txt"):
        book.restore_snapshot("latest", other)
    assert contents(other) == {"mine.txt": b"mine"}
    assert book.restore_snapshot("latest", tmp_path / "new").written == 2
    assert contents(tmp_path / "new") == contents(vault)
    with pytest.raises(InvalidInput, match="no snapshot"):
        book.restore_snapshot("1999")


def test_a_vault_that_is_gone_comes_back(vault):
    """If the whole folder is lost, an empty one in its place still has the old snapshots."""
    grow(vault, {"a.md": b"a", ".spellbook/config.toml": b"chunk_tokens = 100\n"})
    with books.open(vault, embedder="hash") as book:
        book.snapshots.create()
    before = state_of(vault)
    shutil.rmtree(vault)
    vault.mkdir()
    with books.open(vault, embedder="hash") as book:
        book.restore_snapshot("latest")
    assert state_of(vault) == before
