"""A watcher that cannot watch every folder says so; others do not rely on it and check themselves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spellbook.library import book as books
from spellbook.library import status
from spellbook.library.book import Spellbook
from spellbook.system import processes
from spellbook.system.disk import eventless
from spellbook.watch import watcher as watch
from tests.helpers import until
from tests.watch.watching import note, words

pytestmark = pytest.mark.slow

WATCHER = """
import sys, threading
from pathlib import Path
from spellbook.library import book
from spellbook.watch import watcher

watcher.FULL_SCAN = float(sys.argv[2])
with book.open(sys.argv[1], embedder="hash") as opened, watcher.Watcher(opened):
    for line in sys.stdin:  # raised from inside: only there is the limit this process's own
        name, number = line.split()
        Path("/proc/sys/user", name).write_text(number)
"""


def _has_namespaces() -> bool:
    command = ["unshare", "-Ur", "test", "-w", "/proc/sys/user/max_inotify_watches"]
    return bool(shutil.which(command[0])) and not subprocess.run(command, capture_output=True).returncode


limited = pytest.mark.skipif(not _has_namespaces(), reason="limits of its own need Linux and user namespaces")


@contextmanager
def watcher(vault: Path, limit: str = "", most: int = 0, full_look: float = 30.0) -> Iterator[subprocess.Popen[str]]:
    """A process that watches `vault`; with `limit`, the kernel gives it at most `most` of that resource."""
    within = ["unshare", "-Ur", "sh", "-c", f'echo {most} > /proc/sys/user/{limit}; exec "$@"', "sh"] if limit else []
    with subprocess.Popen(
        [*within, sys.executable, "-c", WATCHER, str(vault), str(full_look)], stdin=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def is_blind(book: Spellbook) -> bool:
    return bool(processes.unseen(book.config.state))


LIMITS = {
    "instances": ("max_inotify_instances", 0, "cannot be watched: the limit fs.inotify.max_user_instances is reached"),
    "no watches": ("max_inotify_watches", 0, "cannot be watched: the limit fs.inotify.max_user_watches is reached"),
    "too few watches": ("max_inotify_watches", 2, "2 folders cannot be watched ("),
}


@limited
@pytest.mark.parametrize(("limit", "most", "said"), LIMITS.values(), ids=LIMITS)
def test_what_cannot_be_watched_is_looked_at_and_named(
    book: Spellbook, vault: Path, limit: str, most: int, said: str
) -> None:
    """At a kernel limit others check at once, the watcher every 2 s, and all name the setting to raise."""
    folders = ("alpha", "beta", "gamma")
    for folder in folders:
        note(vault / folder / "a.md")
    with watcher(vault, limit, most):
        until(lambda: is_blind(book))
        for folder in folders:
            note(vault / folder / "new.md", f"orchard{folder}")
            answer = book.find(f"orchard{folder}")
            assert [hit.path for hit in answer.hits] == [f"{folder}/new.md"]
        assert answer.index.degraded
        told = answer.index.reason, book.state().reason, book.status()["unwatched"], *dict(book.doctor())["watcher"]
        for reason in told:
            assert said in reason
            assert "sudo sysctl fs.inotify.max_user_" in reason
        assert not book.status()["watched"]
        for folder in folders:
            note(vault / folder / "last.md", f"granite{folder}")
        # Nothing is asked meanwhile, so it is the other process that scans.
        until(lambda: {f"{folder}/last.md" for folder in folders} <= book.index.catalog.notes.known().keys())
    assert not book.find("granitealpha").index.degraded  # who has ended is not spoken of
    assert "unwatched" not in book.status()


@limited
def test_a_limit_that_is_reached_later_and_raised(book: Spellbook, vault: Path) -> None:
    """
    If watches run out later the watcher is not relied upon; once the limit is raised, it is again. Folders of `.git` use
    no watches.
    """
    for number in range(20):
        note(vault / ".git" / "objects" / f"{number:02}" / "x")
        note(vault / "alpha" / ".obsidian" / f"{number}" / "x")
    note(vault / "alpha" / "a.md")
    with watcher(vault, "max_inotify_watches", 3, full_look=1.0) as child:
        until(book.is_watched)
        assert not is_blind(book)
        (vault / "alpha" / ".obsidian" / "1").rename(vault / "beta")
        note(vault / "beta" / "b.md", "birch")
        until(lambda: words(book, "birch"))
        note(vault / "gamma" / "c.md", "cedar")
        until(lambda: is_blind(book) and not book.is_watched())
        assert words(book, "cedar") == ["gamma/c.md"]
        assert child.stdin
        child.stdin.write("max_inotify_watches 100\n")
        child.stdin.flush()
        until(book.is_watched)
        assert not book.find("cedar").index.degraded


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere folders are not watched one by one")
def test_a_folder_that_may_not_be_read_is_named(book: Spellbook, vault: Path) -> None:
    """An unreadable folder counts as not watched."""
    closed = vault / "closed"
    note(closed / "a.md")
    note(vault / "open" / "b.md")
    if os.geteuid() == 0:
        if not _has_namespaces():
            pytest.skip("root may read everything")
        os.chown(closed, 12345, 12345)  # whom the namespace does not know
        closed.chmod(0o700)
    else:
        closed.chmod(0)
    try:
        with watcher(vault, "max_inotify_watches" if os.geteuid() == 0 else "", 1000):
            until(lambda: is_blind(book))
            assert "1 folder cannot be watched (closed): it cannot be read, fix its permissions" in book.state().reason
    finally:
        if os.geteuid() == 0:
            os.chown(closed, 0, 0)
        closed.chmod(0o700)


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped there")
def test_a_watcher_that_is_stopped_is_not_relied_upon(
    book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process keeps its lock, but without its scans others soon scan by themselves and say so."""
    monkeypatch.setattr(processes, "BELIEVED", 3.0)  # two full scans
    with watcher(vault, full_look=1.5) as child:
        until(book.is_watched)
        os.kill(child.pid, signal.SIGSTOP)
        note(vault / "a.md", "alder")
        until(lambda: words(book, "alder"))
        assert not book.status()["watched"]
        assert "no sign of life" in book.status()["unwatched"]
        assert any("no sign of life" in problem for problem in dict(book.doctor())["watcher"])
        os.kill(child.pid, signal.SIGCONT)
        until(book.is_watched)
        assert "unwatched" not in book.status()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_a_vault_behind_a_link_is_watched(vault: Path, tmp_path: Path) -> None:
    """A vault opened through a symlink is watched at its real path."""
    note(vault / "sub" / "a.md")
    (tmp_path / "link").symlink_to(vault)
    with books.open(tmp_path / "link", embedder="hash") as book, watcher(tmp_path / "link"):
        until(book.is_watched)
        note(vault / "sub" / "b.md", "birch")
        until(lambda: words(book, "birch"))
        note(tmp_path / "link" / "sub" / "c.md", "cedar")
        until(lambda: words(book, "cedar"))
        assert book.is_watched()


ROOT = "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
MOUNTS = [
    ("", ""),  # a disk
    ("30 22 0:1 / /home/me/no%s rw - nfs4 nas:/x rw\n", ""),  # beside it
    ("30 22 0:1 / /home rw - nfs4 nas:/x rw\n", "nfs4"),
    ("30 22 0:1 / /home rw - nfs4 nas:/x rw\n31 30 0:2 / /home/me rw - ext4 /dev/sdb rw\n", ""),  # a disk in it
    ("30 22 0:1 / /home/me/my\\040notes rw shared:3 - fuse.sshfs h:/x rw\n", "fuse.sshfs"),  # escaped
    ("30 22 0:1 / /home/me/my\\040notes/work rw - cifs //nas/x rw\n", "cifs"),  # below
    ("30 22 0:1 / /home/me rw - fuseblk /dev/sdb rw\n", ""),  # a disk of Windows
    ("30 22 0:1 / /home rw - ext4 /dev/sdb rw\n31 30 0:2 / /home rw - 9p C: rw\n", "9p"),  # mounted over
]


@pytest.mark.skipif(sys.platform == "win32", reason="its mounts are those of Linux")
def test_drives_that_tell_of_nothing(tmp_path: Path) -> None:
    """A network drive is recognized by its file system, wherever it is mounted."""
    for mounts, kind in MOUNTS:
        (tmp_path / "mountinfo").write_text(ROOT + mounts)
        assert eventless(Path("/home/me/my notes"), tmp_path / "mountinfo") == kind, mounts


@pytest.mark.parametrize("reason", ["nfs4", "SPELLBOOK_WATCH=poll"])
def test_a_drive_that_tells_of_nothing_is_not_relied_upon(
    vault: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """On a network drive, or where the person says so, the watcher scans, every query does, and status says why."""
    if reason == "nfs4":
        for module in (watch, status):
            monkeypatch.setattr(module, "eventless", lambda folder: "nfs4")
    else:
        monkeypatch.setenv(*reason.split("="))
    reports: list[object] = []
    with books.open(vault, embedder="hash") as book, watch.Watcher(book, reports.append):
        note(vault / "a.md", "alder")
        until(lambda: reports)
        assert not book.is_watched()
        assert reason in book.status()["unwatched"]
        assert not book.find("alder").index.degraded
