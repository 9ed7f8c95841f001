"""Snapshots restore the vault byte for byte, store only what changed, and lose nothing when they are restored."""

from __future__ import annotations

import datetime as dt
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

from spellbook.archive.snapshots import to_keep
from spellbook.library import book as books
from spellbook.mcp.app import build
from spellbook.system.errors import StorageError
from spellbook.watch import watcher
from spellbook.watch.watcher import Watcher
from tests.helpers import until
from tests.kills import is_killed
from tests.trees import TREES, blobs, clear, contents, grow, kept, state_of

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
    and empty folders.
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


def test_what_did_not_change_costs_nothing(book, vault):
    """A second snapshot stores only what changed, and equal contents are stored once."""
    grow(vault, {"a.md": b"text " * 100, "b.md": b"text " * 100, "p.png": os.urandom(1000)})
    settled(vault)
    first = book.snapshots.create()
    assert (first.files, first.bytes) == (3, 2000)
    assert len(blobs(book)) == 2
    assert first.stored < 1200
    assert book.snapshots.create().stored == 0
    grow(vault, {"b.md": b"other"})
    assert 0 < book.snapshots.create().stored < 100


@pytest.mark.parametrize("is_old", [False, True])
def test_a_change_that_the_clock_hides_is_kept(book, vault, is_old):
    """A file that was edited with its size and time kept is read again, whenever it was modified."""
    if is_old and os.name == "nt":
        pytest.skip("no time there that nobody can set")
    file = grow(vault, {"a.png": b"one"}) / "a.png"
    if is_old:
        settled(vault)
    stamp = file.stat()
    book.snapshots.create()
    file.write_bytes(b"two")
    os.utime(file, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
    assert book.snapshots.create().stored > 0


def test_files_that_cannot_be_kept_are_named(book, vault, monkeypatch):
    """A broken link is reported, and a restore leaves it as it is. A snapshot that would fill the disk is refused."""
    grow(vault, {"a.md": b"x"})
    (vault / "b.md").symlink_to("nowhere")
    taken = book.snapshots.create()
    assert [fault.path for fault in taken.faults] == ["b.md"]
    book.restore_snapshot(taken.name)
    assert (vault / "b.md").is_symlink()
    monkeypatch.setattr("spellbook.archive.snapshots.RESERVE", 1 << 60)
    with pytest.raises(StorageError, match="are free"):
        book.snapshots.create()
    assert len(blobs(book)) == 1


# -- retention


def names(*moments: dt.datetime) -> list[str]:
    return [moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H-%M-%SZ") for moment in moments]


NOW = dt.datetime(2026, 11, 22, 12).astimezone()


def test_retention():
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
def test_retention_is_bounded_and_stable(hours):
    """The newest always stays, at most 23 are kept beside today's, and pruning twice equals pruning once."""
    listed = names(*(NOW - dt.timedelta(hours=ago) for ago in hours))
    left = to_keep(listed, NOW)
    assert set(listed[:0]) <= left <= set(listed)
    if listed:
        assert max(listed) in left
    assert len([name for name in left if name < names(NOW - dt.timedelta(days=1))[0]]) <= 23
    assert to_keep(left, NOW) == left


def test_what_is_let_go_takes_its_contents_along(book, vault):
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


def damage(book: books.Spellbook, data: bytes) -> None:
    """Flip one bit of a stored content."""
    sha256 = hashlib.sha256(data).hexdigest()
    [blob] = book.snapshots.folder.glob(f"blobs/??/{sha256}*")
    held = bytearray(blob.read_bytes())
    held[-9] ^= 1
    blob.write_bytes(held)


def test_damage_is_found_and_mended(book, vault, tmp_path):
    """
    A damaged content is named, and its snapshot is restored only on request; then damaged files are named and left as
    they are in the vault. The next snapshot stores the content again from the vault.
    """
    then = {"a.md": b"one " * 50, "b.md": b"two " * 50, "c.md": b"three"}
    settled(grow(vault, then))
    taken = book.snapshots.create()
    now = {"a.md": b"mine", "b.md": b"mine", "c.md": b"three", "d.md": b"new"}
    grow(vault, now)
    damage(book, b"one " * 50)
    for into in (None, tmp_path / "then"):
        with pytest.raises(StorageError, match=r"1 of 3 files damaged: a\.md\. Nothing was changed\. --skip-damaged"):
            book.restore_snapshot(taken.name, into)
    assert (contents(vault), (tmp_path / "then").exists()) == (now, False)
    done = book.restore_snapshot(taken.name, tmp_path / "then", skip_damaged=True)
    assert ([fault.path for fault in done.faults], done.written) == (["a.md"], 2)
    assert contents(tmp_path / "then") == {"b.md": b"two " * 50, "c.md": b"three"}
    done = book.restore_snapshot(taken.name, skip_damaged=True)
    assert ([fault.path for fault in done.faults], done.written, done.unchanged) == (["a.md"], 1, 1)
    assert (done.removed, contents(vault)) == (("d.md",), {"a.md": b"mine", "b.md": b"two " * 50, "c.md": b"three"})
    for reason in ("damaged", "missing"):
        assert [fault.reason for fault in book.snapshots.verify().faults] == [f"its content is {reason}"]
    grow(vault, then)
    book.snapshots.create()
    assert not book.snapshots.verify().faults


def test_a_damaged_list_is_no_end(book, vault):
    """A snapshot whose list cannot be read is named; new snapshots still work and no content is deleted."""
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


# -- killed


def test_snapshot_killed(tmp_path, monkeypatch):
    """A killed snapshot does not appear and harms no other; the next one is complete."""
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
        at += 5
    assert at > 6
    with books.open(vault, embedder="hash") as book:
        book.restore_snapshot("latest", tmp_path / "back")
        assert contents(tmp_path / "back") == contents(vault)
        book.restore_snapshot(first.name, tmp_path / "first")
        assert contents(tmp_path / "first") == {"a.md": b"one", "b.md": b"b"}


@pytest.mark.slow
def test_restore_killed(tmp_path, monkeypatch):
    """A restore over the vault that is killed anywhere loses nothing, and undo takes it back byte for byte."""
    then = {"a.md": b"one", "gone/b.md": b"b", "p.png": b"then"}
    now = {"a.md": b"two", "new/c.md": b"c", "p.png": b"now", "q.png": b"mine"}
    at, undone = 1, 0
    (outside := tmp_path / "outside").mkdir()
    while True:
        vault = grow(tmp_path / f"v{at}", then)
        with books.open(vault, embedder="hash") as book:
            name = book.snapshots.create().name
        shutil.rmtree(vault / "gone")
        (vault / "gone").symlink_to(outside)
        grow(vault, now)
        is_dead = is_killed(vault, vault, f"book.restore_snapshot({name!r})", at)
        with books.open(vault, embedder="hash") as book:
            if entries := book.log():
                if entries[0].state == "unfinished":
                    told = [problem for _, problems in book.doctor() for problem in problems]
                    assert f"restore snapshot {name} was cut short: `spellbook undo 1` takes it back" in told
                    undone += 1
                book.undo()
        assert (kept(vault), (vault / "gone").is_symlink()) == (now, True)
        if not is_dead:
            break
        with books.open(vault, embedder="hash") as book:
            book.restore_snapshot(name)
            assert kept(vault) == then
            assert (vault / ".trash/gone").is_symlink()
        at += 10
    assert undone


@pytest.mark.slow
def test_prune_killed(vault):
    """A killed prune leaves every kept snapshot complete."""
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
        at += 2
    assert at > 2


# -- by itself


def test_whoever_watches_takes_one_a_day(vault, monkeypatch):
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


def test_the_backup_toolset(book, vault, tmp_path):
    """An agent imports what it exported, first to see; it can name no other file."""
    grow(vault, {"a.md": b"# A\n", "p.png": b"p"})

    async def conversation() -> None:
        async with Client(build(book, ["backup"], live=False)) as client:
            stages: list[str | None] = []

            async def progress(done: float, total: float | None, stage: str | None) -> None:
                stages.append(stage)

            async def call(tool: str, **arguments: object) -> Any:
                result = await client.call_tool(tool, arguments, progress_callback=progress)
                assert not result.is_error, result.content[0].text
                return json.loads(result.content[0].text)

            await call("snapshot")
            assert stages == ["keeping"]
            for form, ending in (("json", ".json"), ("markdown", ".zip")):
                file = (await call("export", format=form))["file"]
                assert file.endswith(ending)
                (vault / "a.md").unlink()
                assert (await call("import", file_path=file))["status"] == "would be imported"
                assert list(contents(vault)) == ["p.png"]
                done = await call("import", file_path=Path(file).name, dry_run=False)
                assert (done["added"], contents(vault)) == (["a.md"], {"a.md": b"# A\n", "p.png": b"p"})
                assert stages[-2:] == ["reading", "importing"]
            secret = tmp_path / "secret.md"
            secret.write_text("secret")
            for path in (str(secret), "/etc/passwd", "../x.json", f"{Path(file).parent}/../x", "none.json", "."):
                result = await client.call_tool("import", {"file_path": path, "dry_run": False})
                assert result.is_error
                assert "not one of the files" in result.content[0].text

    anyio.run(conversation)
    assert sorted(contents(vault)) == ["a.md", "p.png"]
