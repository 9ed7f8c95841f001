"""Snapshots: the vault as it was, byte for byte; what did not change costs nothing, and nothing that is there is lost by going back."""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client

from spellbook import book as books
from spellbook.archive.snapshots import to_keep
from spellbook.errors import InvalidInput, PathOutsideVault, StorageError
from spellbook.server import watcher
from spellbook.server.app import build
from spellbook.server.watcher import Watcher
from tests.trees import TREES, contents, grow, is_killed, kept, run, state_of

OLD = 1_700_000_000_000_000_000


def settled(vault: Path) -> None:
    """Make all files old enough to be believed unchanged by their stamps."""
    for path in vault.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(OLD, OLD))


def blobs(book: books.Spellbook) -> set[str]:
    return {path.name for path in book.snapshots.folder.glob("blobs/??/*")}


def clear(vault: Path) -> None:
    for path in vault.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@settings(max_examples=15)
@given(history=st.lists(TREES, min_size=1, max_size=3))
def test_every_snapshot_comes_back(history: list[dict[str, bytes]]) -> None:
    """Each of several states of a vault comes back byte for byte, into an empty folder and over the vault, deletions and empty folders too."""
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


def test_what_did_not_change_costs_nothing(book, vault):
    """A second snapshot stores what has changed, and one content is kept once however many files have it."""
    grow(vault, {"a.md": b"text " * 100, "b.md": b"text " * 100, "p.png": os.urandom(1000)})
    settled(vault)
    first = book.snapshots.create()
    assert (first.files, first.bytes) == (3, 2000)
    assert len(blobs(book)) == 2
    assert first.stored < 1200
    assert book.snapshots.create().stored == 0
    grow(vault, {"b.md": b"other"})
    assert 0 < book.snapshots.create().stored < 100


def test_a_change_that_the_clock_hides_is_kept(book, vault):
    """A file as young as the look before is read again, though its stamp is the same."""
    file = grow(vault, {"a.md": b"one"}) / "a.md"
    stamp = file.stat()
    book.snapshots.create()
    file.write_bytes(b"two")
    os.utime(file, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
    assert book.snapshots.create().stored > 0


def test_files_that_cannot_be_kept_are_named(book, vault):
    """A link that leads nowhere is told of, and a restore leaves it as it is."""
    grow(vault, {"a.md": b"x"})
    (vault / "b.md").symlink_to("nowhere")
    taken = book.snapshots.create()
    assert [fault.path for fault in taken.faults] == ["b.md"]
    book.restore_snapshot(taken.name)
    assert (vault / "b.md").is_symlink()


# -- retention


def names(*moments: dt.datetime) -> list[str]:
    return [moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H-%M-%SZ") for moment in moments]


NOW = dt.datetime(2026, 11, 22, 12).astimezone()


def test_retention():
    """Of two years of days, 7 days, 4 weeks and 12 months are left; of today, all."""
    today = names(*(NOW - dt.timedelta(hours=hours) for hours in range(4)))
    daily = names(*(NOW - dt.timedelta(days=days) for days in range(1, 730)))
    left = sorted(to_keep([*today, *daily], NOW), reverse=True)
    assert left[:4] == today
    days = [dt.datetime.strptime(name, "%Y-%m-%dT%H-%M-%S%z").astimezone().date().isoformat() for name in left[4:]]
    weeks = ["2026-11-15", "2026-11-08", "2026-11-01"]
    months = [
        f"2026-{day}"
        for day in ("10-31", "09-30", "08-31", "07-31", "06-30", "05-31", "04-30", "03-31", "02-28", "01-31")
    ]
    assert days == [*(f"2026-11-{day}" for day in range(21, 15, -1)), *weeks, *months, "2025-12-31"]


@given(st.lists(st.integers(0, 800 * 24), unique=True, max_size=60))
def test_retention_is_bounded_and_stable(hours):
    """The newest always stays, beside today's at most 23 do, and keeping twice is keeping once."""
    listed = names(*(NOW - dt.timedelta(hours=ago) for ago in hours))
    left = to_keep(listed, NOW)
    assert set(listed[:0]) <= left <= set(listed)
    if listed:
        assert max(listed) in left
    assert len([name for name in left if name < names(NOW - dt.timedelta(days=1))[0]]) <= 23
    assert to_keep(left, NOW) == left


def test_what_is_let_go_takes_its_contents_along(book, vault):
    """Snapshots past their time go, with contents that no other has and with what a killed process left."""
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


def test_damage_is_found_and_mended(book, vault, tmp_path):
    """A damaged content is named; nothing of its snapshot is restored; the next snapshot keeps it anew from the vault."""
    grow(vault, {"a.md": b"one " * 50, "b.md": b"two " * 50})
    settled(vault)
    taken = book.snapshots.create()
    blob = next(path for path in book.snapshots.folder.glob("blobs/??/*"))
    data = bytearray(blob.read_bytes())
    data[-9] ^= 1
    blob.write_bytes(data)
    grow(vault, {"a.md": b"mine", "b.md": b"mine"})
    with pytest.raises(StorageError):
        book.restore_snapshot(taken.name)
    assert contents(vault) == {"a.md": b"mine", "b.md": b"mine"}
    assert [fault.reason for fault in book.snapshots.verify().faults] == ["its content is damaged"]
    assert [fault.reason for fault in book.snapshots.verify().faults] == ["its content is missing"]
    grow(vault, {"a.md": b"one " * 50, "b.md": b"two " * 50})
    book.snapshots.create()
    assert not book.snapshots.verify().faults


def test_a_damaged_list_is_no_end(book, vault):
    """A list that cannot be read is named, and keeps neither snapshots from being taken nor contents from being kept."""
    grow(vault, {"a.md": b"one"})
    taken = book.snapshots.create()
    (book.snapshots.folder / f"{taken.name}.json.gz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(StorageError, match="damaged"):
        book.restore_snapshot(taken.name)
    grow(vault, {"a.md": b"two"})
    assert book.snapshots.create().files == 1
    assert [bool(each.faults) for each in book.snapshots.all()] == [False, True]
    book.snapshots.prune()
    assert len(blobs(book)) == 2


def damage(book: books.Spellbook, data: bytes) -> None:
    """Flip a bit of what is kept of a content."""
    sha256 = hashlib.sha256(data).hexdigest()
    [blob] = book.snapshots.folder.glob(f"blobs/??/{sha256}*")
    held = bytearray(blob.read_bytes())
    held[-9] ^= 1
    blob.write_bytes(held)


def test_what_is_whole_comes_back_without_what_is_damaged(book, vault, tmp_path):
    """Nothing is restored unless it is asked for; then all but the damaged, which is named, and whose path stays as it is."""
    grow(vault, {"a.md": b"one " * 50, "b.md": b"two " * 50, "c.md": b"three"})
    taken = book.snapshots.create()
    grow(vault, {"a.md": b"mine", "b.md": b"mine", "d.md": b"new"})
    damage(book, b"one " * 50)
    for into in (None, tmp_path / "then"):
        with pytest.raises(
            StorageError, match=r"1 of 3 files .* found nowhere else: a\.md\. Nothing was changed\. --skip-damaged"
        ):
            book.restore_snapshot(taken.name, into)
    assert (contents(vault), (tmp_path / "then").exists()) == (
        {"a.md": b"mine", "b.md": b"mine", "c.md": b"three", "d.md": b"new"},
        False,
    )
    done = book.restore_snapshot(taken.name, tmp_path / "then", skip_damaged=True)
    assert ([fault.path for fault in done.faults], done.written) == (["a.md"], 2)
    assert contents(tmp_path / "then") == {"b.md": b"two " * 50, "c.md": b"three"}
    done = book.restore_snapshot(taken.name, skip_damaged=True)
    assert ([fault.path for fault in done.faults], done.written, done.removed, done.unchanged) == (
        ["a.md"],
        1,
        ("d.md",),
        1,
    )
    assert contents(vault) == {"a.md": b"mine", "b.md": b"two " * 50, "c.md": b"three"}


@pytest.mark.parametrize(
    "where", ["under another name", "in the trash", "in the journal", "in the snapshots of another vault"]
)
def test_what_is_damaged_is_looked_for(book, vault, tmp_path, where):
    """A content that is damaged or gone, and has its like elsewhere, comes back from there, and is whole again in the snapshot."""
    one, two = b"one " * 50, os.urandom(300)
    grow(vault, {"a.md": one, "b.md": b"b"} | ({} if where == "in the journal" else {"p.png": two}))
    before = contents(vault)
    taken = book.snapshots.create()
    for name in before.keys() - {"b.md"}:
        if where == "under another name":
            (vault / name).rename(vault / f"moved {name}")
        elif where == "in the trash":
            grow(vault / ".trash", {name: before[name]})
            (vault / name).unlink()
        elif where == "in the journal":
            book.erase(name)
            shutil.rmtree(vault / ".trash")
        else:
            grow(tmp_path / "other", {name: before[name]})
            (vault / name).unlink()
    if where == "in the snapshots of another vault":
        with books.open(tmp_path / "other", embedder="hash") as other:
            other.snapshots.create()
        shutil.rmtree(tmp_path / "other")
    damage(book, one)
    if "p.png" in before:
        next(book.snapshots.folder.glob(f"blobs/??/{hashlib.sha256(two).hexdigest()}*")).unlink()
    done = book.restore_snapshot(taken.name)
    assert (contents(vault), done.faults) == (before, ())
    assert not book.snapshots.verify().faults


# -- going back


def in_the_way(vault: Path, outside: Path) -> None:
    """Put a thing of every kind where the snapshot has a file or a folder."""
    clear(vault)
    grow(outside, {"secret.md": b"secret"})
    grow(
        vault,
        {
            "real/mine.md": b"mine",
            "file.md/.git/config": b"git",
            "file.md/private.md": b"private",
            "f": b"file",
            ".spellbookignore": b"private.md\n",
        },
    )
    (vault / "out.md").symlink_to(outside / "secret.md")
    (vault / "n").symlink_to(outside)
    (vault / "m").symlink_to("real")
    (vault / "dead.md").symlink_to("nowhere.md")
    (vault / "like.md").symlink_to("real/mine.md")
    (vault / "empty").symlink_to(outside)
    os.mkfifo(vault / "pipe.md")


def shape(vault: Path) -> dict[str, Any]:
    """All that a vault holds but the trash, links and pipes as such."""
    found: dict[str, Any] = {}
    for path in sorted(vault.rglob("*")):
        name = path.relative_to(vault).as_posix()
        if not name.startswith(".trash"):
            found[name] = (
                os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else path.is_fifo()
            )
    return found


THEN = {
    name: name.encode()
    for name in ("a.md", "out.md", "n/x.md", "m/y.md", "dead.md", "like.md", "f/in.md", "file.md", "pipe.md")
}


@pytest.mark.timeout(60)
def test_what_stands_in_the_way_goes_into_the_trash(book, vault, tmp_path):
    """Links, wherever they lead, pipes, and folders with what is no part of the vault make room, as they are; nothing outside changes."""
    grow(vault, THEN, ("empty",))
    then, taken = shape(vault), book.snapshots.create()
    in_the_way(vault, tmp_path / "outside")
    done = book.restore_snapshot(taken.name)
    assert shape(vault) == then
    assert contents(tmp_path / "outside") == {"secret.md": b"secret"}
    trash = vault / ".trash"
    assert {name: os.readlink(trash / name) for name in ("out.md", "n", "m", "dead.md", "like.md", "empty")} == {
        "out.md": str(tmp_path / "outside/secret.md"), "n": str(tmp_path / "outside"), "m": "real", "dead.md": "nowhere.md",
        "like.md": "real/mine.md", "empty": str(tmp_path / "outside"),
    }  # fmt: skip
    assert (trash / "pipe.md").is_fifo()
    assert {path: (trash / path).read_bytes() for path in ("real/mine.md", "file.md/.git/config", "file.md/private.md", "f")} == {
        "real/mine.md": b"mine", "file.md/.git/config": b"git", "file.md/private.md": b"private", "f": b"file"
    }  # fmt: skip
    assert sorted(done.removed) == sorted(
        [
            "out.md",
            "n",
            "m",
            "dead.md",
            "like.md",
            "empty",
            "pipe.md",
            "real/mine.md",
            "file.md",
            "f",
            ".spellbookignore",
        ]
    )
    assert done.written == len(THEN)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("at", [1, 5, len(THEN)])
def test_a_restore_that_fails_is_taken_back(book, vault, tmp_path, at):
    """Wherever it fails, the vault is as it was, links and pipes and empty folders too, and nothing is left half done."""
    grow(vault, THEN | {"large.bin": bytes(10_100_000)}, ("empty",))
    taken = book.snapshots.create()
    in_the_way(vault, tmp_path / "outside")
    grow(vault, {"a.md": b"edited", "new/b.md": b"new", "new/large.bin": b"x" * 10_100_000}, ("was empty/in",))
    (vault / "a.md").chmod(0o755)
    before, mode = shape(vault), (vault / "a.md").stat()

    def fail(_: str, done: int, count: int) -> None:
        if done == at:
            raise StorageError("The disk fails.")

    def interrupt(_: str, done: int, count: int) -> None:
        if done == at:
            raise KeyboardInterrupt

    with pytest.raises(StorageError, match="The disk fails"):
        book.restore_snapshot(taken.name, progress=fail)
    with pytest.raises(KeyboardInterrupt):
        book.restore_snapshot(taken.name, progress=interrupt)
    assert shape(vault) == before
    assert ((vault / "a.md").stat().st_mode, (vault / "a.md").stat().st_mtime_ns) == (mode.st_mode, mode.st_mtime_ns)
    assert book.snapshots.interrupted is None
    assert not book.log()
    assert contents(tmp_path / "outside") == {"secret.md": b"secret"}
    with pytest.raises(StorageError, match="The disk fails"):
        book.restore_snapshot(taken.name, tmp_path / "into", progress=fail)
    assert not contents(tmp_path / "into")
    book.restore_snapshot(taken.name)
    assert {path: (vault / path).read_bytes() for path in THEN} == THEN


def test_a_trash_that_takes_nothing_is_said_before_anything_is_done(book, vault, tmp_path):
    """Where the trash is a link out of the vault, or a file, nothing is restored and nothing is moved."""
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
    """Of a list that somebody has changed no dot-folder is written, and of no list a file that can be run; what is left out is named."""
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
    """What was edited is in the snapshot taken first, what was new is in the trash, what is ignored stays, and search follows."""
    grow(vault, {"a.md": b"the crane", "gone.md": b"the quay", "n/deep.md": b"deep", ".spellbookignore": b"private/\n"})
    then = book.snapshots.create()
    before = contents(vault)
    (vault / "gone.md").unlink()
    shutil.rmtree(vault / "n")
    grow(
        vault,
        {
            "a.md": b"the crane, edited",
            "new/x.md": b"new",
            "n": b"a file where a folder was",
            "private/p.md": b"private",
        },
    )
    edited = contents(vault)
    done = book.restore_snapshot(then.name)
    assert contents(vault) == {**before, "private/p.md": b"private"}
    assert not (vault / "new").exists()
    assert contents(vault / ".trash") == {"new/x.md": b"new", "n": b"a file where a folder was"}
    assert sorted(done.removed) == ["n", "new/x.md"]
    assert [hit.path for hit in book.find("quay").hits] == ["gone.md"]
    assert not book.find("edited").hits
    assert done.before
    book.restore_snapshot(done.before)
    assert contents(vault) == edited


def test_a_folder_that_holds_other_things_is_not_written_into(book, vault, tmp_path):
    """Into a folder with files of its own nothing is restored; into one where a restore was cut short it goes on."""
    grow(vault, {"a.md": b"a", "n/b.md": b"b"})
    taken = book.snapshots.create()
    other = grow(tmp_path / "other", {"mine.txt": b"mine"})
    with pytest.raises(InvalidInput, match=r"mine\.txt"):
        book.restore_snapshot("latest", other)
    assert contents(other) == {"mine.txt": b"mine"}
    half = grow(tmp_path / "half", {"a.md": b"a", "n/.spellbook-0123456789abcdef.tmp": b"ha"})
    assert book.restore_snapshot(taken.name, half).written == 1
    assert contents(half) == contents(vault)
    with pytest.raises(InvalidInput, match="no snapshot"):
        book.restore_snapshot("1999")


def test_a_vault_that_is_gone_comes_back(vault):
    """When the whole folder is lost, an empty one in its place has the snapshots of the old one."""
    grow(vault, {"a.md": b"a", ".spellbook/config.toml": b"chunk_tokens = 100\n"})
    with books.open(vault, embedder="hash") as book:
        book.snapshots.create()
    before = state_of(vault)
    shutil.rmtree(vault)
    vault.mkdir()
    with books.open(vault, embedder="hash") as book:
        book.restore_snapshot("latest")
    assert state_of(vault) == before


def test_no_room_is_said_before_anything_is_kept(book, vault, monkeypatch):
    """Where a snapshot would fill the disk none is taken."""
    grow(vault, {"a.md": b"a"})
    monkeypatch.setattr("spellbook.archive.snapshots._RESERVE", 1 << 60)
    with pytest.raises(StorageError, match="are free"):
        book.snapshots.create()
    assert not blobs(book)


# -- killed


def test_snapshot_killed(tmp_path, monkeypatch):
    """A snapshot that is killed is not there, and harms none that is; the next one is whole."""
    monkeypatch.setenv("SPELLBOOK_DATA", str(tmp_path / "data"))
    vault = grow(tmp_path / "v", {"a.md": b"one", "b.md": b"b"})
    with books.open(vault, embedder="hash") as book:
        first = book.snapshots.create()
    grow(vault, {"a.md": b"two", "c.png": os.urandom(100)})
    at = 1
    while is_killed(vault, vault, "book.snapshots.create()", at):
        with books.open(vault, embedder="hash") as book:
            assert book.snapshots.names()[-1] == first.name
            assert not book.snapshots.verify().faults
        at += 2
    assert at > 5
    with books.open(vault, embedder="hash") as book:
        book.restore_snapshot("latest", tmp_path / "back")
        assert contents(tmp_path / "back") == contents(vault)
        book.restore_snapshot(first.name, tmp_path / "first")
        assert contents(tmp_path / "first") == {"a.md": b"one", "b.md": b"b"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_restore_killed(tmp_path, monkeypatch):
    """A restore over the vault that is killed anywhere has lost nothing, says how it goes on, and goes on."""
    then = {"a.md": b"one", "gone/b.md": b"b"}
    now = {"a.md": b"two", "new/c.md": b"c"}
    at, told = 1, 0
    (outside := tmp_path / "outside").mkdir()
    while True:
        vault = grow(tmp_path / f"v{at}", then)
        with books.open(vault, embedder="hash") as book:
            name = book.snapshots.create().name
        shutil.rmtree(vault / "gone")
        (vault / "gone").symlink_to(outside)
        grow(vault, now)
        if not is_killed(vault, vault, f"book.restore_snapshot({name!r})", at):
            break
        held = {*kept(vault).values(), *kept(vault / ".trash").values()}
        with books.open(vault, embedder="hash") as book:
            if interrupted := book.snapshots.interrupted:
                told += any(
                    f"restore {name}` goes on" in problem for _, problems in book.doctor() for problem in problems
                )
                book.restore_snapshot(interrupted[1], tmp_path / f"before{at}")
                assert contents(tmp_path / f"before{at}") == now
            else:
                assert set(now.values()) <= held or kept(vault) == then
            book.restore_snapshot(name)
            assert kept(vault) == then
            assert kept(vault / ".trash") == {"new/c.md": b"c"}
            assert (vault / ".trash/gone").is_symlink()
            assert book.snapshots.interrupted is None
        at += 3
    assert told > 2
    assert kept(vault) == then


@pytest.mark.slow
def test_prune_killed(vault):
    """A prune that is killed leaves every snapshot that is kept whole."""
    at = 1
    while True:
        with books.open(vault, embedder="hash") as book:
            for number in range(3):
                grow(vault, {"a.md": f"{at} {number}".encode()})
                name = book.snapshots.create().name
                if number < 2:
                    folder = book.snapshots.folder
                    (folder / f"{name}.json.gz").rename(folder / f"2026-01-31T1{number}-00-{at:02}Z.json.gz")
        if not is_killed(vault, vault, "book.snapshots.prune()", at):
            break
        with books.open(vault, embedder="hash") as book:
            assert not book.snapshots.verify().faults
        at += 1
    assert at > 2


# -- by itself


def until(condition, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_whoever_watches_takes_one_a_day(vault, monkeypatch):
    """Of several processes that have the vault open one takes a snapshot, once on a day."""
    monkeypatch.setattr(watcher, "SNAPSHOT_AFTER", 0.05)
    monkeypatch.setattr(watcher, "SNAPSHOT_LOOK", 0.05)
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
        time.sleep(0.3)
        assert len(one.snapshots.names()) == 2
        assert one.status()["snapshots"] == {
            "folder": str(folder),
            "count": 2,
            "last": one.snapshots.all()[0].taken.isoformat(),
        }


def test_no_snapshots_where_none_are_wanted(vault, monkeypatch):
    """`snapshots = false` in the vault's settings: none is taken unless it is asked for."""
    monkeypatch.setattr(watcher, "SNAPSHOT_AFTER", 0.01)
    grow(vault, {".spellbook/config.toml": b"snapshots = false\n"})
    with books.open(vault, embedder="hash") as book, Watcher(book):
        until(lambda: book.watched.is_current)
        time.sleep(0.3)
        assert not book.snapshots.names()
        assert book.snapshots.is_due()
        book.snapshots.create()
        assert not book.snapshots.is_due()


@pytest.mark.slow
def test_the_command_line(vault, tmp_path):
    """Every verb of `spellbook snapshot`, in words and as JSON."""
    grow(vault, {"a.md": b"# A\n"})
    assert b"none yet" in run("--vault", vault, "status").stdout
    taken = json.loads(run("--vault", vault, "snapshot", "--json").stdout)
    assert (taken["files"], taken["bytes"]) == (1, 4)
    assert f"1, the latest from {taken['taken'][:10]}".encode() in run("--vault", vault, "status").stdout
    assert run("--vault", vault, "snapshot").stdout.decode().split("  ")[2] == "1 file, 0.0 MB, 0.0 MB of it new\n"
    listed = json.loads(run("snapshot", "list", "--vault", vault, "--json").stdout)
    assert listed["snapshots"][-1]["name"] == taken["name"]
    assert taken["name"].encode() in run("--vault", vault, "snapshot", "list").stdout
    assert run("--vault", vault, "snapshot", "verify").stdout == b"2 snapshots, 1 content: nothing damaged.\n"
    grow(vault, {"b.md": b"new"})
    told = run("--vault", vault, "snapshot", "restore", taken["name"]).stdout.decode()
    assert "0 files written, 1 unchanged, 1 moved into .trash." in told
    assert contents(vault) == {"a.md": b"# A\n"}
    assert (
        json.loads(run("--vault", vault, "snapshot", "restore", "latest", "--into", tmp_path / "x", "--json").stdout)[
            "written"
        ]
        == 2
    )
    assert run("--vault", vault, "snapshot", "prune").stdout.startswith(b"0 deleted, ")
    assert b"no snapshot" in run("--vault", vault, "snapshot", "restore", "1999", code=2).stderr
    for blob in Path(listed["folder"]).glob("blobs/??/*"):
        blob.unlink()
    grow(vault, {"a.md": b"edited"})
    assert (
        b"--skip-damaged restores the others"
        in run("--vault", vault, "snapshot", "restore", taken["name"], code=1).stderr
    )
    told = run("--vault", vault, "snapshot", "restore", taken["name"], "--skip-damaged", "--yes", code=1)
    assert b"0 files written, 0 unchanged; 1 file missing" in told.stdout
    assert told.stderr.startswith(b"spellbook: a.md: its content is damaged or missing")
    assert contents(vault) == {"a.md": b"edited"}
    assert b"missing" in run("--vault", vault, "snapshot", "verify", code=1).stderr


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_backup_toolset(book, vault, tmp_path, mode):
    """An agent takes and lists snapshots, exports, and imports what was exported; it names no other file, and changes nothing unless it says so."""
    grow(vault, {"a.md": b"# A\n", "p.png": b"p"})

    async def conversation() -> None:
        async with Client(build(book, ["backup"], live=False), mode=mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {
                "snapshot",
                "snapshots",
                "export",
                "import",
            }

            async def call(tool: str, **arguments: object) -> Any:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content[0].text
                return json.loads(result.content[0].text)

            taken = await call("snapshot")
            assert (taken["files"], (await call("snapshots"))["snapshots"][0]["name"]) == (2, taken["name"])
            for form, ending in (("json", ".json"), ("markdown", ".zip")):
                exported = await call("export", format=form)
                assert (exported["notes"], exported["attachments"], exported["file"].endswith(ending)) == (1, 1, True)
                (vault / "a.md").unlink()
                would = await call("import", file_path=exported["file"])
                assert (would["status"], would["counts"]["added"], list(contents(vault))) == (
                    "would be imported",
                    1,
                    ["p.png"],
                )
                done = await call("import", file_path=Path(exported["file"]).name, dry_run=False)
                assert (done["added"], contents(vault)) == (["a.md"], {"a.md": b"# A\n", "p.png": b"p"})
            (tmp_path / "secret.md").write_text("secret")
            for path in (
                str(tmp_path / "secret.md"),
                "/etc/passwd",
                "../x.json",
                f"{Path(exported['file']).parent}/../x",
                "none.json",
                ".",
            ):
                result = await client.call_tool("import", {"file_path": path, "dry_run": False})
                assert result.is_error
                assert "not one of the files" in result.content[0].text

    anyio.run(conversation)
    assert sorted(contents(vault)) == ["a.md", "p.png"]
