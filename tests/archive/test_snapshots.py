"""Snapshots restore the vault byte for byte, store only what changed, and lose nothing when they are restored."""

import datetime as dt
import gzip
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.archive.restore import Blobs
from spellbook.archive.snapshots import to_keep
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import PathOutsideVault, StorageError
from spellbook.watch import watcher
from spellbook.watch.watcher import Watcher
from tests.commands import spellbook_in
from tests.helpers import Write, until
from tests.trees import TREES, blobs, clear, contents, grow, state_of

OLD = 1_700_000_000_000_000_000


def settled(vault: Path) -> None:
    """Make all files old enough that an unchanged size and time are trusted."""
    for path in vault.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(OLD, OLD))


@settings(max_examples=8)
@given(history=st.lists(TREES, min_size=1, max_size=3))
def test_every_snapshot_comes_back(history: list[dict[str, bytes]]) -> None:
    """
    Each of several states of a vault is restored byte for byte, into an empty folder and over the vault, with deletions
    and empty folders. If the whole folder is lost, an empty one in its place still has the old snapshots.
    """
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        here = Path(place)
        patch.setenv("SPELLBOOK_DATA", str(here / "data"))
        (vault := here / "v").mkdir()
        with books.open(vault, embedder="hash", state=here / "s") as book:
            states = []
            for files in history:
                clear(vault)
                grow(vault, files, ("an empty one",))
                states.append((book.snapshots.create().name, state_of(vault)))
            for number, (name, state) in enumerate(states):
                book.restore_snapshot(name, here / f"into {number}")
                assert state_of(here / f"into {number}") == state
                book.restore_snapshot(name)
                assert contents(vault) == {path: held[0] for path, held in state.items() if held}
                assert {path for path, held in state_of(vault).items() if held is None} == {"an empty one"}
            assert not book.snapshots.verify().faults
        shutil.rmtree(vault)
        vault.mkdir()
        with books.open(vault, embedder="hash", state=here / "a new state") as book:
            book.restore_snapshot("latest")
        assert state_of(vault) == states[-1][1]


def test_what_did_not_change_costs_nothing(book: Spellbook, vault: Path) -> None:
    """
    A second snapshot stores only what changed, and equal contents are stored once. A file that was edited with its size
    and time kept is read again, whenever it was modified.
    """
    grow(vault, {"a.md": b"text " * 100, "b.md": b"text " * 100, "p.png": os.urandom(1000)})
    settled(vault)
    first = book.snapshots.create()
    assert (first.files, first.bytes) == (3, 2000)
    assert len(blobs(book)) == 2
    assert first.stored < 1200
    assert book.snapshots.create().stored == 0
    grow(vault, {"b.md": b"other"})
    assert 0 < book.snapshots.create().stored < 100
    for file in (vault / "b.md", vault / "a.md") if os.name != "nt" else (vault / "b.md",):  # of now, and of OLD
        stamp = file.stat()
        file.write_bytes(b"x" * stamp.st_size)
        os.utime(file, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
        assert book.snapshots.create().stored > 0


# -- retention


def names(*moments: dt.datetime) -> list[str]:
    return [moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H-%M-%SZ") for moment in moments]


NOW = dt.datetime(2026, 11, 22, 12).astimezone()


def test_retention() -> None:
    """Of two years of daily snapshots, 7 daily, 4 weekly and 12 monthly ones are kept, and all of today's."""
    today = names(*(NOW - dt.timedelta(hours=hours) for hours in range(4)))
    daily = names(*(NOW - dt.timedelta(days=days) for days in range(1, 730)))
    left = sorted(to_keep([*today, *daily], NOW), reverse=True)
    assert left[:4] == today
    days = [dt.datetime.strptime(name, "%Y-%m-%dT%H-%M-%S%z").astimezone().date().isoformat() for name in left[4:]]
    weeks = ["2026-11-15", "2026-11-08", "2026-11-01"]
    months = ["10-31", "09-30", "08-31", "07-31", "06-30", "05-31", "04-30", "03-31", "02-28", "01-31"]
    expected = [*(f"2026-11-{day}" for day in range(21, 15, -1)), *weeks, *(f"2026-{day}" for day in months)]
    assert days == [*expected, "2025-12-31"]


@given(st.lists(st.integers(0, 800 * 24), unique=True, max_size=60))
def test_retention_is_bounded_and_stable(hours: Any) -> None:
    """The newest always stays, at most 23 are kept beside today's, and pruning twice equals pruning once."""
    listed = names(*(NOW - dt.timedelta(hours=ago) for ago in hours))
    left = to_keep(listed, NOW)
    assert {max(listed, default=None)} - {None} <= left <= set(listed)
    assert len([name for name in left if name < names(NOW - dt.timedelta(days=1))[0]]) <= 23
    assert to_keep(left, NOW) == left


def test_what_is_let_go_takes_its_contents_along(book: Spellbook, vault: Path) -> None:
    """Pruning removes old snapshots, contents that no other snapshot uses, and the leftovers of a killed process."""
    folder, taken = book.snapshots.folder, []
    for number in range(3):
        grow(vault, {"a.md": f"version {number}".encode(), "b.md": b"the same"})
        taken.append(book.snapshots.create().name)
    for hour in range(2):  # both on one day, long ago: the later one is that month's last
        (folder / f"{taken[hour]}.json.gz").rename(folder / f"2026-01-31T1{hour}-00-00Z.json.gz")
    (book.snapshots.folder / ".spellbook-0123456789abcdef.tmp").write_bytes(b"half")
    assert len(blobs(book)) == 4
    assert book.snapshots.prune() == ("2026-01-31T10-00-00Z",)
    assert len(blobs(book)) == 3
    assert not list(book.snapshots.folder.glob(".spellbook-*"))
    assert not book.snapshots.verify().faults
    assert book.snapshots.find("2026-01") == "2026-01-31T11-00-00Z"
    assert book.snapshots.find("latest") == taken[2]


# -- damage


def test_damage_is_found_and_mended(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    A damaged content is named, and its snapshot is restored only on request; then damaged files are named and left as
    they are in the vault. The next snapshot stores the content again from the vault. The commands exit with 1.
    """

    def told(*words: object, code: int = 1) -> str:
        done = spellbook_in(vault, "snapshot", *words, code=code)
        return (done.stdout + done.stderr).replace(str(tmp_path), "/here").replace(name, "NAME")

    then = {"a.md": b"one " * 50, "b.md": b"two " * 50, "c.md": b"three"}
    settled(grow(vault, then))
    name = book.snapshots.create().name
    now = {"a.md": b"mine", "b.md": b"mine", "c.md": b"three", "d.md": b"new"}
    grow(vault, now)
    [blob] = book.snapshots.folder.glob(f"blobs/??/{hashlib.sha256(then['a.md']).hexdigest()}*")
    held = bytearray(blob.read_bytes())
    held[-9] ^= 1
    blob.write_bytes(held)
    copy = ("--into", tmp_path / "copy")
    for where in ((), copy):
        refused = told("restore", name, "--yes", *where)
        assert "NAME: 1 of 3 files damaged: a.md. Nothing was changed.\n  --skip-damaged restores" in refused
    assert (contents(vault), (tmp_path / "copy").exists()) == (now, False)
    done = told("restore", name, "--skip-damaged", *copy)
    assert "Restored NAME to /here/copy: 2 files written, 0 unchanged; 1 file missing.\nspellbook: a.md: its" in done
    assert contents(tmp_path / "copy") == {"b.md": b"two " * 50, "c.md": b"three"}
    done = told("restore", name, "--skip-damaged")
    assert "1 file written, 1 unchanged, 1 moved into .trash; 1 file missing.\nspellbook: a.md: its" in done
    assert contents(vault) == {"a.md": b"mine", "b.md": b"two " * 50, "c.md": b"three"}
    for reason in ("damaged", "missing"):
        assert (
            told("verify") == f"1 snapshot, 3 contents: 1 damaged.\nspellbook: NAME: a.md: its content is {reason}.\n"
        )
    grow(vault, then)
    book.snapshots.create()
    assert told("verify", code=0) == "2 snapshots, 3 contents: nothing damaged.\n"
    # What is damaged after that look is noticed while it is read.
    blobs, letters = Blobs(book.snapshots.folder), bytes(range(256))
    sha256, _ = blobs.keep(iter([letters]))
    (blobs.folder / "blobs" / sha256[:2] / sha256).write_bytes(letters[::-1])
    with pytest.raises(StorageError, match="is damaged"):
        list(blobs.pieces(sha256, "e.bin"))
    assert blobs.keep(iter([letters])) == (sha256, 256), "a damaged one is no copy"
    assert b"".join(blobs.pieces(sha256, "e.bin")) == letters


def test_what_cannot_be_kept_or_read_is_named(book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A broken link is reported, and a restore leaves it as it is. A snapshot whose list cannot be read is named; new
    snapshots still work and no content is deleted. A snapshot that would fill the disk is refused.
    """
    grow(vault, {"a.md": b"one"})
    (vault / "b.md").symlink_to("nowhere")
    taken = book.snapshots.create()
    assert [fault.path for fault in taken.faults] == ["b.md"]
    book.restore_snapshot(taken.name)
    assert (vault / "b.md").is_symlink()
    (book.snapshots.folder / f"{taken.name}.json.gz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(StorageError, match="damaged"):
        book.restore_snapshot(taken.name)
    grow(vault, {"a.md": b"two"})
    assert book.snapshots.create().files == 1
    assert [bool(each.faults) for each in book.snapshots.all()] == [False, True]
    book.snapshots.prune()
    assert len(blobs(book)) == 2
    monkeypatch.setattr("spellbook.archive.snapshots.RESERVE", 1 << 60)
    with pytest.raises(StorageError, match="are free"):
        book.snapshots.create()
    assert len(blobs(book)) == 2


# -- a restore over the vault

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


def test_what_stands_in_the_way_goes_into_the_trash(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """Links, pipes and folders of other files go to the trash unchanged; nothing outside of the vault changes."""
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
def test_a_restore_that_fails_is_taken_back(book: Spellbook, vault: Path, tmp_path: Path, at: Any) -> None:
    """Wherever a restore fails, the vault is as it was, with links, pipes and empty folders."""
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


def test_a_trash_that_takes_nothing_is_said_before_anything_is_done(
    book: Spellbook, vault: Path, tmp_path: Path
) -> None:
    """
    If the trash is a file or a link out of the vault, nothing is restored and nothing is moved. A manipulated list
    restores no dot-folder, and no list restores an executable file; what is skipped is named.
    """
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


def test_going_back_loses_nothing(book: Spellbook, vault: Path, write_note: Write) -> None:
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


# -- by itself


def test_whoever_watches_takes_one_a_day(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several processes with the vault open, one takes one snapshot a day; none where `snapshots = false`."""
    monkeypatch.setattr(watcher, "SNAPSHOT_AFTER", 0.01)
    monkeypatch.setattr(watcher, "SNAPSHOT_CHECK", 0.02)
    grow(vault, {"a.md": b"a"})
    with (
        books.open(vault, embedder="hash") as one,
        books.open(vault, embedder="hash") as two,
        Watcher(one),
        Watcher(two),
    ):
        until(one.snapshots.names)
        [name] = one.snapshots.names()
        yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1, hours=1)
        folder = one.snapshots.folder
        (folder / f"{name}.json.gz").rename(folder / f"{yesterday:%Y-%m-%dT%H-%M-%SZ}.json.gz")
        until(lambda: len(one.snapshots.names()) == 2)
        time.sleep(0.2)
        [last, _] = one.snapshots.all()
        state = {"folder": str(folder), "count": 2, "last": last.taken.isoformat()}
        assert one.status()["snapshots"] == state
    grow(vault, {".spellbook/config.toml": b"snapshots = false\n"})
    (folder / f"{last.name}.json.gz").unlink()
    with books.open(vault, embedder="hash") as book, Watcher(book):
        until(lambda: book.is_watched())
        time.sleep(0.2)
        assert (len(book.snapshots.names()), book.snapshots.is_due()) == (1, True)
        book.snapshots.create()
        assert not book.snapshots.is_due()
