"""The wheel that is installed holds what the package reads beside its own modules."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers import PATIENCE, finished, python

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as pip builds it, and unpacked as pip unpacks it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but what Python compiled, by its path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file(installed: Path) -> None:
    """Modules, translations, weights, samples, the plugin, `py.typed` and the starter vault, byte for byte, and nothing else."""
    source = files(ROOT / "spellbook")
    starter = {f"starter/{path}": data for path, data in files(ROOT / "vault").items()}
    held = files(installed / "spellbook")
    assert {
        "settings/ko.toml",
        "cli/clients/obsidian/main.js",
        "py.typed",
        "models/sample.json",
        "models/e5/e5.npz",
        "models/e5/e5-sample.npy",
        "models/e5/questions.npz",
    } <= source.keys()
    assert "starter/welcome.md" in starter
    assert held.keys() == source.keys() | starter.keys()
    assert held == source | starter


def test_an_installed_package_finds_its_files(installed: Path) -> None:
    """Without a clone beside it, it speaks Korean, makes a vault with guides, and knows the model's calibration."""
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
