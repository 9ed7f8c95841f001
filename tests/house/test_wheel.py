"""The wheel that is installed holds what the package reads beside its own modules."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.helpers import PATIENCE, finished, held, python

ROOT = Path(__file__).parents[2]


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but what Python compiled, by its path."""
    return {path: data for path, data in held(folder).items() if "__pycache__" not in path}


def test_the_wheel_holds_every_file(tmp_path: Path) -> None:
    """
    Modules, translations, weights, samples, the plugin, `py.typed` and the starter vault, byte for byte, and nothing else.
    Without a clone beside it, it speaks Korean, makes a vault with guides, and knows the model's calibration.
    """
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE)
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    source = files(ROOT / "spellbook")
    starter = {f"starter/{path}": data for path, data in files(ROOT / "vault").items()}
    needed = {"settings/ko.toml", "cli/clients/obsidian/main.js", "py.typed", "models/sample.json"}
    assert needed | {f"models/e5/{name}" for name in ("e5.npz", "e5-sample.npy", "questions.npz")} <= source.keys()
    assert "starter/welcome.md" in starter
    assert files(installed / "spellbook") == source | starter
    code = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])  # the editable install and the folder of the tests come after it
import spellbook
from spellbook.editing import guides
from spellbook.models import calibration
from spellbook.settings.translate import translated
root = Path(spellbook.__file__).parent
print(root, guides.starter_vault().relative_to(root).as_posix(), translated("Nothing found."), len(calibration.sample()[0]) > 1)
"""
    said = finished(python(code, installed, SPELLBOOK_LANG="ko", PYTHONIOENCODING="utf-8"))
    assert said == [f"{installed / 'spellbook'} starter 찾은 것이 없습니다. True"]
