"""Transcripts of commands, tools and routes: every answer is what its file says. `SPELLBOOK_RECORD=1` writes it anew."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.commands import git_alone  # noqa: F401
from tests.transcripts.clock import BEGIN, Clock
from tests.transcripts.runner import Player

HERE = Path(__file__).parent
RECORD = bool(os.environ.get("SPELLBOOK_RECORD"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="paths and zones of POSIX"),
    pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning"),
]


@pytest.fixture
def player(tmp_path: Path, home: Path) -> Iterator[Player]:
    """A player on a copy of the vault whose files are six days old."""
    when = BEGIN.timestamp() - 6 * 86_400
    shutil.copytree(HERE / "vault", tmp_path / "vault")
    for file in (tmp_path / "vault").rglob("*"):
        os.utime(file, (when, when))
    variables = {"SPELLBOOK_VAULT": str(tmp_path / "vault"), "COLUMNS": "100", "TZ": "UTC"}
    variables |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), BEGIN.isoformat())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for name, value in variables.items():
            patch.setenv(name, value)
        time.tzset()
        # For hooks `context` ends its process a second later, and this one goes on.
        patch.setattr("spellbook.cli.context.threading", Mock())
        # A child process that fills Chroma would be done sooner or later than the next command.
        patch.setattr("spellbook.index.vectors.follow.start", Mock())
        yield Player(tmp_path, Clock(patch))
    time.tzset()


@pytest.mark.parametrize("file", sorted(HERE.glob("*.tesh")), ids=lambda file: file.stem)
def test_a_transcript_holds(file: Path, player: Player) -> None:
    """Each command, tool and request of the file answers as the file says."""
    expected = file.read_text("utf-8")
    actual = player.play(expected)
    if RECORD and actual != expected:
        file.write_text(actual, "utf-8", newline="\n")
        return
    changes = difflib.unified_diff(expected.splitlines(), actual.splitlines(), file.name, "now", lineterm="")
    assert actual == expected, "\n".join(changes)
