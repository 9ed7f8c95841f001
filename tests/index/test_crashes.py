"""
Killed at any moment, repaired by the next run.

SPELLBOOK_CRASHES is the number of kills for each test (6 by default, 50 for the long form).
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

import spellbook
from tests.helpers import finished, held, note_writer, python
from tests.scratch import assert_equal_to_scratch

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("SPELLBOOK_CRASHES", "6"))
REINDEX = "import sys; from spellbook.cli import main; main(['--vault', sys.argv[1], 'reindex', '--quiet'])"
SCRIBE = """
import sys
import spellbook
with spellbook.open(sys.argv[1]) as book:
    for i in range(1000):
        word = f"crashword{sys.argv[2]}x{i}"
        text = f"{word} " + "the tide table of the harbor " * 20
        done = book.scribe({"text": text, "metadata": {"topic": "crash", "keywords": ["a", "b", "c"]}}, force=True)
        print(word, done.written[0].path, flush=True)
"""


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault of 120 notes."""
    monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    write = note_writer(tmp_path / "vault")
    for i in range(120):
        write(f"{i % 10}/note {i}.md", f"# Note {i}\n\n## One\n\n{'granite ' * (i % 40)}{i}\n\n## Two\n\nmeadow {i}\n")
    return tmp_path / "vault"


def killed(child: subprocess.Popen[str], after: float, *, begun: bool = False) -> str:
    """SIGKILL a child some seconds after its start, or its first line if it must have `begun`; return its output."""
    assert child.stdout
    first = child.stdout.readline() if begun else ""
    time.sleep(after)
    child.kill()
    return first + child.communicate()[0]


def test_reindex_and_scribe_killed(vault: Path, tmp_path: Path) -> None:
    """
    After SIGKILL at random moments of a reindex the next one completes the index, and the vault is unchanged. Every
    acknowledged memory is found, and no file is half written.
    """
    random.seed(3)
    before = held(vault)
    acknowledged: dict[str, str] = {}
    for i in range(ROUNDS):
        for path in random.sample(sorted(before), 30):
            before[path] += f"\nround {i}\n".encode()
            (vault / path).write_bytes(before[path])
        killed(python(REINDEX, vault), 0.15 + random.random() * 1.2)
        lines = killed(python(SCRIBE, vault, i), random.random(), begun=i % 3 > 0)
        acknowledged |= dict(line.split(" ", 1) for line in lines.splitlines() if " " in line and line.endswith(".md"))
    assert acknowledged
    finished(python(REINDEX, vault))
    assert_equal_to_scratch(vault, tmp_path / "scratch")
    now = held(vault)
    assert before.items() <= now.items()
    for path in now.keys() - before.keys():
        # A temporary file of a killed process holds nothing that anybody was told is kept.
        assert path.endswith(".tmp") or (now[path].startswith(b"---\nid: ") and now[path].endswith(b"harbor \n"))
    with spellbook.open(vault) as book:
        for word, path in acknowledged.items():
            assert [hit.path for hit in book.find(word).hits] == [path]
