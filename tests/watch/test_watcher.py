"""The watcher on real files: whatever an editor, git or a sync client does, the index follows."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from watchdog import events

from spellbook.index.sync import Report
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system import processes
from spellbook.vault.folder import digest
from spellbook.watch import hints as hints_of
from spellbook.watch import schedule
from spellbook.watch import watcher as watch
from spellbook.watch.watcher import Watcher
from tests.editor import atomic, plain, vim
from tests.helpers import rows, until
from tests.watch.watching import note, words

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


@pytest.fixture(autouse=True)
def _no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found is found by its event: the next look at everything is hours away."""
    monkeypatch.setattr(watch, "FULL_SCAN", 10_000.0)


@contextlib.contextmanager
def watching(book: Spellbook, on_report: Callable[[Report], None] | None = None) -> Iterator[Watcher]:
    """A watcher that has finished its first scan."""
    with Watcher(book, on_report) as watcher:
        until(book.is_watched)
        yield watcher


def on_disk(vault: Path) -> dict[str, str]:
    """Every note by its path, with its hash."""
    paths = (file.relative_to(vault) for file in vault.rglob("*.md"))
    return {
        path.as_posix(): digest((vault / path).read_bytes())
        for path in paths
        if not any(part[0] == "." for part in path.parts)
    }


def indexed(book: Spellbook) -> dict[str, str]:
    return {path: known.sha256 for path, known in book.index.catalog.notes.known().items()}


def follows(book: Spellbook) -> None:
    """Wait until the index equals the disk, vectors included."""
    vault = book.config.vault
    until(lambda: indexed(book) == on_disk(vault) and not book.index.catalog.counts().pending)


# -- what happens to files


def save_from_outside(vault: Path, outside: Path) -> None:
    note(outside / "tmp", "new")
    os.replace(outside / "tmp", vault / "a.md")


def save_as_backup(vault: Path, outside: Path) -> None:
    shutil.copy(vault / "a.md", vault / "a.bak")
    (vault / "a.md").unlink()
    note(vault / "a.md", "new")


def fill(folder: Path) -> Path:
    for number in range(5):
        note(folder / f"sub{number}" / "deep" / f"{number}.md", "new")
    return folder


def checkout(vault: Path, outside: Path) -> None:
    for file in list(vault.rglob("*.md")):
        file.unlink()
        note(file, "other branch")
    fill(vault / "branch")


HAPPENINGS: dict[str, Callable[[Path, Path], object]] = {
    "created": lambda vault, _: note(vault / "new.md"),
    "plain write": lambda vault, _: plain(vault / "a.md", b"# New\n\nnew\n"),
    "appended": lambda vault, _: (vault / "a.md").write_bytes((vault / "a.md").read_bytes() + b"more\n"),
    "atomic save": lambda vault, _: atomic(vault / "a.md", b"# New\n\nnew\n"),
    "atomic save from outside": save_from_outside,
    "vim": lambda vault, _: vim(vault / "a.md", b"# New\n\nnew\n"),
    "deleted and written": save_as_backup,
    "deleted": lambda vault, _: (vault / "a.md").unlink(),
    "renamed": lambda vault, _: (vault / "a.md").rename(vault / "b.md"),
    "renamed over another": lambda vault, _: os.replace(vault / "a.md", vault / "sub" / "one.md"),
    "hidden": lambda vault, _: (vault / "a.md").rename(vault / ".a.md"),
    "no note any more": lambda vault, _: (vault / "a.md").rename(vault / "a.txt"),
    "swapped": lambda vault, _: (
        (vault / "a.md").rename(vault / "x"),
        (vault / "sub" / "one.md").rename(vault / "a.md"),
        (vault / "x").rename(vault / "sub" / "one.md"),
    ),
    "a folder renamed": lambda vault, _: (vault / "sub").rename(vault / "other"),
    "a folder moved out": lambda vault, outside: shutil.move(vault / "sub", outside / "sub"),
    "a folder hidden": lambda vault, _: (vault / "sub").rename(vault / ".sub"),
    "a folder deleted": lambda vault, _: shutil.rmtree(vault / "sub"),
    "a folder moved in": lambda vault, outside: fill(outside / "full").rename(vault / "full"),
    "a folder copied in": lambda vault, outside: shutil.copytree(fill(outside / "full"), vault / "full"),
    "nested folders at once": lambda vault, _: fill(vault / "deep" / "er"),
    "everything": checkout,
}


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be renamed there")
def test_the_index_follows(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    After any change of files and folders the index soon equals the disk, and after the next edit there too. Hundreds of
    new files at once, and as many edits, are all indexed. A saved note is found by words and by meaning without a look
    at everything.
    """
    for name in HAPPENINGS:
        for path in ("a.md", "sub/one.md", "sub/two.md"):
            note(vault / name / path)
        (tmp_path / "outside" / name).mkdir(parents=True)
    with watching(book):
        for name, happening in HAPPENINGS.items():
            follows(book)
            before = on_disk(vault)
            happening(vault / name, tmp_path / "outside" / name)
            assert on_disk(vault) != before, name
            follows(book)
            for path in on_disk(vault / name):
                note(vault / name / path, "edited afterwards")
            note(vault / name / "last" / "last.md")
        follows(book)
        count = len(indexed(book))
        for number in range(600):
            note(vault / f"f{number % 20}" / f"{number}.md", "new")
        for number in range(600):
            plain(vault / f"f{number % 20}" / f"{number}.md", f"# Edited\n\n{number}\n".encode())
        note(vault / "found.md", "alderwood stands by the quay")
        follows(book)
        assert len(indexed(book)) == count + 601
        assert words(book, "alderwood") == ["found.md"]
        assert book.memorize("alderwood stands by the quay").hits[0].path == "found.md"


def test_what_stops_nothing(book: Spellbook, vault: Path) -> None:
    """
    A new line in .spellbookignore removes notes from the index, and removing it brings them back. A file whose name is
    not UTF-8 is reported, and an error in the caller's report function does not end the watch.
    """

    def fail(_: Report) -> None:
        raise BrokenPipeError("nobody listens")

    note(vault / "a.md")
    note(vault / "drafts" / "b.md")
    with watching(book, fail):
        (vault / ".spellbookignore").write_text("drafts/\n")
        until(lambda: indexed(book).keys() == {"a.md"})
        atomic(vault / ".spellbookignore", b"# nothing\n")
        until(lambda: indexed(book).keys() == {"a.md", "drafts/b.md"})
        if sys.platform == "linux":  # elsewhere there are no such names
            (vault / os.fsdecode(b"\xff.md")).write_text("x")
            until(lambda: book.index.catalog.notes.faults())
        for word in ("alder", "birch"):
            note(vault / "a.md", word)
            until(partial(words, book, word))


# -- hints


HINTS: Sequence[tuple[list[str] | str | None, Sequence[events.FileSystemEvent]]] = [
    (["a.md"], [events.FileModifiedEvent("/v/a.md"), events.FileMovedEvent("/v/.a.md.tmp", "/v/a.md")]),
    (["a.md", "b/B.MD"], [events.FileMovedEvent("/v/a.md", "/v/b/B.MD")]),
    ("everything", [events.DirMovedEvent("/v/b", "/v/c"), events.DirDeletedEvent("/v/b")]),
    ("everything", [events.FileModifiedEvent("/v/.spellbookignore"), events.FileCreatedEvent("/v/\udcff.md")]),
    (None, [events.FileModifiedEvent(f"/v/{name}") for name in ("picture.png", ".git/index", ".git/notes.md")]),
    (None, [events.FileModifiedEvent(f"/v/{name}") for name in (".obsidian/workspace.json", ".spellbook/config.toml")]),
    (None, [events.FileCreatedEvent("/v/sub/.git/refs/x.md"), events.FileMovedEvent("/v/.a.swp", "/v/.a.swx")]),
    (None, [events.DirCreatedEvent("/v/.git/objects/ab"), events.DirCreatedEvent("/v/sub/.obsidian")]),
]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="its paths are those of POSIX")
def test_what_an_event_hints_at() -> None:
    """
    An event of a note scans that note, one of a folder everything, one in .git or .obsidian nothing. Events are collected
    until they pause, for two seconds at most.
    """
    for look, seen in HINTS:
        expected = None if look is None else (True, []) if look == "everything" else (False, look)
        for event in seen:
            with contextlib.closing(hints_of.Hints("/v")) as hints:
                hints.dispatch(event)
                assert hints.due(time.monotonic() + schedule.QUIET) == expected, event
    with contextlib.closing(hints_of.Hints("/v")) as hints:

        def streaming() -> bool:
            now = time.monotonic()  # before the event, so that there is no pause, however slow this machine is
            hints.dispatch(events.FileModifiedEvent("/v/a.md"))
            return hints.due(now) == (False, ["a.md"])

        assert until(streaming) >= schedule.MOST_WAIT - 0.1


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_everything_is_looked_at(book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change without a useful event, behind a link into a dot-folder, is found when all is scanned, and not before."""
    unseen = vault / ".hidden" / "real.md"
    note(unseen)
    (vault / "link.md").symlink_to(unseen)
    with watching(book):
        note(unseen, "orchard")
        note(vault / "seen.md", "seen")
        until(lambda: words(book, "seen"))
        assert words(book, "orchard") == []
        lost = "Inotify queue overflowed; filesystem events were lost"
        logging.getLogger("watchdog.observers.inotify_c").warning(lost)
        until(lambda: words(book, "orchard") == ["link.md"])
    monkeypatch.setattr(watch, "FULL_SCAN", 0.5)
    with watching(book):
        note(unseen, "granite")
        until(lambda: words(book, "granite") == ["link.md"])


def test_an_event_that_comes_within_a_full_look_is_not_lost(
    book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that an event told of is read by the look at everything, even if its stamp shows no change."""
    note(vault / "a.md")
    monkeypatch.setattr(hints_of, "QUIET", 1.0)
    with watching(book):
        follows(book)
        note(vault / "a.md", "LANTERN")
        # As it is on a disk whose times are coarse: the catalog has the stamp that the file has now.
        stamp = book.index.vault.stamp("a.md")
        assert stamp is not None
        sql = "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, ctime_ns = ?, read_ns = ? WHERE path = 'a.md'"
        rows(book.index.catalog, sql, *stamp, time.time_ns() + 10**12)
        (vault / "folder").mkdir()  # which asks for a look at everything
        follows(book)


def test_without_events_the_timer_looks(book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit on watches changes are still found, and watches are not requested all the time."""
    tries = []

    def exhausted(root: str, *_: object) -> None:
        tries.append(root)
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(watch, "observer", exhausted)
    monkeypatch.setattr(watch, "AGAIN", 0.2)
    with Watcher(book):
        for word in ("alder", "birch", "cedar"):
            note(vault / "a.md", word)
            until(lambda: indexed(book) == on_disk(vault))
    assert tries == [str(vault)]


# -- the vault itself goes


@pytest.mark.parametrize(
    "is_replaced",
    [
        False,
        pytest.param(
            True, marks=pytest.mark.skipif(sys.platform == "win32", reason="a watched folder cannot be renamed there")
        ),
    ],
)
def test_the_root_goes_and_comes_back(
    book: Spellbook, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    """
    A deleted or unmounted vault is reported, and watched again when it, or another folder, is in its place, even with
    the same inode.
    """
    if not is_replaced:
        monkeypatch.setattr(watch, "identity", lambda folder: (1, 1) if folder.is_dir() else None)
    note(vault / "a.md")
    with watching(book):
        if is_replaced:
            vault.rename(tmp_path / "old")
        else:
            shutil.rmtree(vault)
            until(lambda: "the vault is not there" in book.find("lantern").index.reason)
        note(vault / "b.md", "returned")
        until(lambda: words(book, "returned") == ["b.md"])
        follows(book)
        until(book.is_watched)
        assert not book.find("lantern").index.degraded
        note(vault / "b.md", "edited")
        until(lambda: words(book, "edited") == ["b.md"])


def test_a_scan_that_fails_is_repeated(book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the vault cannot be scanned all processes say so in answers, status and doctor; afterwards all is found."""
    monkeypatch.setattr(watch, "AGAIN", 0.2)
    for number in range(20):
        note(vault / ("mounted" if number < 15 else "here") / f"{number}.md", f"word{number}")
    with watching(book), books.open(vault, embedder="hash") as other:
        (vault / "mounted").rename(vault.parent / "unmounted")
        until(lambda: not book.is_watched())
        assert not processes.is_silent(book.config.state), "it was withdrawn, and did not only grow too old"
        for each in (book, other):
            answer = each.find("word3")
            assert (answer.index.degraded, "15 of 20" in answer.index.reason) == (True, True)
            assert "15 of 20" in each.status()["warning"]
            assert any("15 of 20" in problem for _, problems in each.doctor() for problem in problems)
        note(vault / "b.md", "meanwhile")
        (vault.parent / "unmounted").rename(vault / "mounted")
        until(book.is_watched)
        follows(book)
        assert not other.find("meanwhile").index.degraded


# -- one watcher a vault


def test_one_watcher_at_a_time(book: Spellbook, vault: Path) -> None:
    """
    Of two watchers one watches; when it stops the other takes over and misses no change. After SIGKILL of the watcher
    another process soon watches, and until then each scans by itself.
    """
    reports, of_second = list[Report](), list[Report]()
    environment = {**os.environ, "SPELLBOOK_EMBEDDER": "hash"}
    command = [sys.executable, "-m", "spellbook", "--vault", str(vault), "watch"]
    with books.open(vault, embedder="hash") as other, subprocess.Popen(command, env=environment) as child:
        try:
            until(book.is_watched)
            with Watcher(book, reports.append) as first:
                first.begun.wait()
                note(vault / "a.md", "alder")
                until(lambda: words(book, "alder"))
                assert not reports
                child.kill()
                child.wait()
                note(vault / "b.md", "birch")
                assert words(book, "birch")
                until(book.is_watched)
                with Watcher(other, of_second.append) as second:
                    second.begun.wait()
                    note(vault / "c.md", "cedar")
                    until(lambda: any(report.added for report in reports))
                    assert words(other, "cedar")
                    assert not of_second
                    first.stop()
                    assert not book.is_watched()
                    note(vault / "d.md", "dogwood")
                    until(lambda: any(report.added for report in of_second))
                    until(book.is_watched)
                    assert words(book, "dogwood")
        finally:
            child.kill()
    assert not book.is_watched()


def test_nothing_costs_nothing(book: Spellbook, vault: Path) -> None:
    """
    A watcher over 1,000 unchanged notes uses less than 5 % of one processor. After `stop` no thread of the watcher is
    left; watchdog keeps one for the process.
    """

    def ours() -> int:
        return len([thread for thread in threading.enumerate() if thread.name.startswith("spellbook-")])

    for number in range(1_000):
        note(vault / f"f{number % 20}" / f"{number}.md")
    with watching(book):
        follows(book)
        until(lambda: not book.index.catalog.waiting.in_order())
        started, worked = time.monotonic(), time.process_time()
        threading.Event().wait(3)
        assert (time.process_time() - worked) / (time.monotonic() - started) < 0.05
    for _ in range(2):
        assert ours() == 0
        with watching(book):
            assert ours() == 5
