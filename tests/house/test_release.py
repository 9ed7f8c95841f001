"""What a release is made of: known-good versions, a tree without changes, the same bytes each time."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

from scripts import release
from tests.repositories import git

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if line[0] != "#")


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_each_dependency_has_a_known_good_version() -> None:
    """constraints.txt has a version of each dependency, none lower than pyproject.toml allows, and no address."""
    pinned = {canonical(name): version for name, version in PINNED.items()}
    extras = PROJECT["optional-dependencies"].values()
    for requirement in (*PROJECT["dependencies"], *(each for extra in extras for each in extra)):
        name, lowest = re.match(r"([\w.-]+)(?:\[\w+\])?(?:>=([\w.]+))?", requirement).groups()
        if name != PROJECT["name"]:
            assert number(pinned[canonical(name)]) >= number(lowest or "0"), requirement
    assert all(re.fullmatch(r"[\w.+]+", version) for version in PINNED.values())


def test_what_is_released(tmp_path: Path) -> None:
    """A clean tree whose changelog has the version; neither one with changes nor another version."""
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.0.0] - 2026-12-01\n")
    for command in ("init -q", "add .", "commit -qm One"):
        git(tmp_path, *command.split())
    assert release.refusal(tmp_path, "1.0.0") == ""
    assert "[2.0.0]" in release.refusal(tmp_path, "2.0.0")
    (tmp_path / "new.txt").write_text("new")
    assert "new.txt" in release.refusal(tmp_path, "1.0.0")


def test_a_zip_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    """Whatever the times of the files are; what is in it is what was in the folder."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.md").write_text("text")
    release.zipped(tmp_path / "a", tmp_path / "1.zip")
    (tmp_path / "a" / "b.md").touch()
    release.zipped(tmp_path / "a", tmp_path / "2.zip")
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "1.zip") as archive:
        assert archive.read("b.md") == b"text"


def test_actions_are_pinned_by_hash() -> None:
    """No workflow uses an action by a tag, which could be moved."""
    workflows = "".join(file.read_text("utf-8") for file in (ROOT / ".github/workflows").glob("*.yml"))
    used = re.findall(r"uses: *(\S+)", workflows)
    assert len(used) > 10
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []
