"""One's own backup comes back without a fault, into whichever vault."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from tests.trees import grow


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zip", "json", "a folder"])
def test_one_s_own_backup_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """
    A backup of a vault that `init` made comes into another one, into an empty folder, and into its own vault again with
    exit code 0, as text and as JSON; warnings are told. What is left out is a fault, with exit code 1.
    """
    monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")

    def run(vault: str, *arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(main, ["--vault", str(tmp_path / vault), *arguments])
        assert result.exit_code == code, result.output
        return result

    for vault in ("mine", "fresh", "other"):
        run(vault, "init", str(tmp_path / vault))
    own = {
        "a.md": b"one\n",
        "b.png": b"\x89",
        "t.md": b"---\ntrust: trusted\n---\nmine\n",
        "system/ko/examples.md": b"---\nguide: examples\ncategory: system\n---\nMine.\n",
    }
    grow(tmp_path / "mine", own, ("empty",))
    (tmp_path / "empty").mkdir()
    place = str(tmp_path / f"backup.{form}")
    run("mine", "export", str(tmp_path / "backup.zip") if form == "a folder" else place)
    if form == "a folder":
        with zipfile.ZipFile(tmp_path / "backup.zip") as archive:
            archive.extractall(place)
    for vault, on_conflict in (("fresh", "overwrite"), ("empty", "skip")):
        first = run(vault, "import", place, "--on-conflict", on_conflict)
        assert "t.md: it calls itself trusted" in first.stderr
        assert "system/ko/examples.md: a guide" in first.stderr
        assert "system/en/examples.md" not in first.stderr
        again = json.loads(run(vault, "import", place, "--json").stdout)
        assert (again["unchanged"], again["added"], again["skipped"], again["faults"]) == (12, [], [], [])
    for rule in ("skip", "overwrite", "rename"):
        same = json.loads(run("mine", "import", place, "--on-conflict", rule, "--json").stdout)
        assert (same["unchanged"], same["faults"], same["warnings"]) == (12, [], [])
    told = json.loads(run("other", "import", place, "--on-conflict", "rename", "--json").stdout)
    assert [warning["path"] for warning in told["warnings"]] == ["system/ko/examples.md", "t.md"]
    if form == "a folder" and os.name != "nt":
        (Path(place) / "gone.md").symlink_to(tmp_path / "nowhere")
        assert "gone.md: a link" in run("other", "import", place, code=1).stderr
