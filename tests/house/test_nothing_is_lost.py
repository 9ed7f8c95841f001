"""
Whatever is done at once, nothing that was acknowledged is lost.

SPELLBOOK_STRESS_SECONDS says for how long (5 by default, 60 for the long form).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import spellbook
from tests.scratch import assert_equal_to_scratch
from tests.trees import everything

pytestmark = pytest.mark.slow

UNMOUNTED = "notes are gone. Is a drive not mounted?"
"""Going back to a snapshot may take away most notes at once; who looks in that moment is told, and nothing is forgotten."""

SECONDS = float(os.environ.get("SPELLBOOK_STRESS_SECONDS", "5"))


def test_every_sentence_is_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Three processes write, erase, move, merge, undo, import and go back, and an editor saves, all at once.

    Every sentence that was acknowledged is in the vault, its trash, the
    journal or a snapshot, no file is half written, and the index is the one
    that would be built from nothing.
    """
    for name in ("state", "data"):
        monkeypatch.setenv(f"SPELLBOOK_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    vault = tmp_path / "vault"
    for i in range(12):
        file = vault / "abcd"[i % 4] / f"n{i}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Note {i}\n\n[[n{(i + 1) % 12}]]\n\n## One\n\nfirst of {i}\n")
    with spellbook.open(vault) as book:
        book.reindex()
        home = book.snapshots.folder
        state = book.config.state
        started = [["0"], ["1"], ["2"], ["3", "editor"]]
        children = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.hands", str(vault), str(SECONDS), *said],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for said in started
        ]
        outputs = [child.communicate() for child in children]
        assert [child.returncode for child in children] == [0] * 4, b"\n".join(errors for _, errors in outputs).decode()
        reports = [json.loads(out) for out, _ in outputs]
        held = b"\n".join(everything(vault, state, home)).decode()
        for report in reports:
            print(report["done"], report["refused"])
            refused = {reason for reason in report["refused"] if not reason.endswith(UNMOUNTED)}
            assert refused <= {"CONFLICT", "INVALID_INPUT", "MEMORY_NOT_FOUND"}
        said = [sentence for report in reports for sentence in report["said"]]
        assert len(said) > SECONDS
        assert not [sentence for sentence in said if sentence not in held]
        book.reindex()
        for twin in book.index.catalog.notes.twins():  # which of them has the id depends on which was there first
            (vault / twin.path).unlink()
        book.reindex()
    assert not [*vault.rglob(".spellbook-*.tmp")]
    assert_equal_to_scratch(vault, tmp_path / "scratch")
