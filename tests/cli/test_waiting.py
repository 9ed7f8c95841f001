"""A command that has to wait says for what, once, to a person."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import spellbook
from spellbook.system import lock
from tests.helpers import PATIENCE


def start(vault: Path, *command: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "spellbook", "--vault", str(vault), *command]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_command_says_what_it_waits_for(vault: Path) -> None:
    """After a second, on stderr, also where that is no terminal; never beside --json."""
    (vault / "a.md").write_text("# A\n\ntext\n", "utf-8")
    with spellbook.open(vault) as book:
        book.reindex()
        busy = book.config.state / "sync.lock"
    with lock.held(busy) as is_ours:
        assert is_ours
        silent, told = start(vault, "recent", "--json"), start(vault, "recent")
        assert told.stderr
        assert told.stderr.readline() == "spellbook: another Spellbook is at work here; this waits for it …\n"
    out, rest = told.communicate(timeout=PATIENCE)
    assert (told.returncode, rest) == (0, "")
    assert "a.md" in out
    out, rest = silent.communicate(timeout=PATIENCE)
    assert (silent.returncode, rest, len(json.loads(out)["notes"])) == (0, "", 1)
