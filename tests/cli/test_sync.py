"""
Two people, one vault, by git: sync beside others' commits, settings and ignored files; the rest is in shared*.tesh.

The rounds let two clones share at random: nothing is lost, and nothing is published that was not to be. Each has files
that git ignores there alone, files that nobody has added, repositories of its own, a trash and leftovers of killed
writers, and adds notes under the names of the other's. SPELLBOOK_SYNC_ROUNDS sets how many.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import Result

from spellbook.settings import config
from spellbook.vault.vault import Vault
from tests.commands import cloned, git, spellbook
from tests.commands import git_alone as git_alone

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells")

NOTE = "---\nstatus: open\n---\n\n# Ports\n\nThe proxy listens on 8443.\n\n## Keys\n\n- one\n"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Clones of one bare repository, each a vault with the driver."""
    places = tmp_path / "ada", tmp_path / "bob"
    cloned(tmp_path / "shared.git", *places, notes={"ports.md": NOTE})
    return places


def sync(place: Path, *args: object, code: int | None = 0) -> Result:
    return spellbook("sync", "--vault", place, *args, code=code)


def change(place: Path, old: str, new: str) -> None:
    text = (place / "ports.md").read_text()
    assert old in text
    (place / "ports.md").write_text(text.replace(old, new))


def test_a_persons_settings_of_git_do_not_stop_it(two: tuple[Path, Path]) -> None:
    """A person's settings for pushes and merges by hand do not hold here; both have both after three syncs."""
    for setting in ("push.default=nothing", "merge.ff=only", "merge.ff=false", "branch.main.mergeoptions=--ff-only"):
        name, value = setting.split("=", 1)
        for place in two:
            git(place, "config", name, value)
            (place / f"{place.name} {setting}.md").write_text(f"{place.name}.\n")
        for place in (*two, two[0]):
            sync(place)
            git(place, "status", "--porcelain")
        assert all((place / f"{name} {setting}.md").exists() for place in two for name in ("ada", "bob"))
        for place in two:
            git(place, "config", "--unset", name)


def test_others_pushed_meanwhile(two: tuple[Path, Path], tmp_path: Path) -> None:
    """A push that is refused for that is tried again after another pull."""
    ada, bob = two
    (bob / "bob.md").write_text("Bob.\n")
    (ada / "ada.md").write_text("Ada.\n")
    git(ada, "add", "--all")
    git(ada, "commit", "--quiet", "-m", "Ada's")
    hook = bob / ".git" / "hooks" / "pre-push"  # Ada's commit arrives between Bob's pull and his push
    hook.write_text(f'#!/bin/sh\n[ -e "{tmp_path}/once" ] || {{ touch "{tmp_path}/once"; git -C "{ada}" push -q; }}\n')
    hook.chmod(0o755)
    sync(bob)
    assert (bob / "ada.md").exists()
    assert git(bob, "rev-parse", "HEAD") == git(bob, "rev-parse", "origin/main")


def test_sync_that_cannot_work(two: tuple[Path, Path], tmp_path: Path) -> None:
    """
    A conflict, a merge under way and a remote that is gone are named with the next step. All is as it was then,
    committed, and nobody's bytes are lost, be it a note that is no text.
    """
    ada, bob = two
    (ada / "logo.bin").write_bytes(b"\0ada")
    change(ada, "one", "eins")
    (bob / "logo.bin").write_bytes(b"\0bob")
    (bob / "ports.md").write_bytes(b"caf\xe9")
    sync(ada)
    for _ in range(2):
        assert "origin/main cannot be merged: logo.bin, ports.md." in sync(bob, code=1).stderr
        assert (bob / "logo.bin").read_bytes() == b"\0bob"
        assert (bob / "ports.md").read_bytes() == b"caf\xe9"
        assert not git(bob, "status", "--porcelain")
    git(bob, "merge", "origin/main", code=1)
    assert "A merge is under way" in sync(bob, code=1).stderr
    git(bob, "merge", "--abort")
    (tmp_path / "shared.git").rename(tmp_path / "elsewhere.git")
    assert "git fetch failed" in sync(bob, code=1).stderr
    assert (bob / "ports.md").read_bytes() == b"caf\xe9"


# -- what stays here, and what is shared


def test_what_spellbook_fills_in_a_vault_stays_here(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the trash nor a state folder in the vault is committed; the note beside them is."""
    ada, _ = two
    monkeypatch.setenv("SPELLBOOK_STATE", str(ada / "kept"))
    for path in (".trash/old.md", "new.md"):
        (ada / path).parent.mkdir(exist_ok=True)
        (ada / path).write_text("x")
    sync(ada)
    assert git(ada, "ls-files").split() == [".gitattributes", "new.md", "ports.md"]
    assert list((ada / "kept").iterdir())


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("draft.md", "draft.md"),
        ("draft.md/mine.md", "draft.md"),  # a folder of mine where they have a file
        ("draft.md", "draft.md/theirs.md"),
    ],
)
@pytest.mark.parametrize("is_ahead", [False, True], ids=["fast-forward", "merge"])
def test_an_ignored_file_is_never_overwritten(two: tuple[Path, Path], here: str, there: str, is_ahead: bool) -> None:
    """
    Git takes it for one that may be lost: sync refuses, names it, and goes on once it is out of the way. One that is the
    same as theirs is no conflict.
    """
    ada, bob = two
    (bob / ".git" / "info" / "exclude").write_text("draft.md\nsame.md\n")
    for place, text in ((bob / here, "Mine alone.\n"), (ada / there, "Ada's.\n"), (ada / "same.md", "Ada's.\n")):
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    if is_ahead:
        (bob / "bobs.md").write_text("Bob's.\n")
    sync(ada)
    (bob / "same.md").write_text("Ada's.\n")  # nothing would be lost
    told = sync(bob, code=1).stderr
    assert f"that git does not track here: {here}." in told
    assert (bob / here).read_text() == "Mine alone.\n"
    assert not git(bob, "status", "--porcelain")
    (bob / here).rename(bob / "elsewhere.draft.md")
    if here != there and (bob / "draft.md").is_dir():
        (bob / "draft.md").rmdir()
    sync(bob)
    assert (bob / there).read_text() == "Ada's.\n"


def test_an_ignored_file_in_a_folder_of_the_repository(tmp_path: Path) -> None:
    """It is named, too, by a git that is set to show paths from where it is."""
    ada, bob = tmp_path / "ada", tmp_path / "bob"
    cloned(tmp_path / "shared.git", ada, bob, vault="notes", notes={"ports.md": NOTE})
    git(bob, "config", "diff.relative", "true")
    (bob / ".git" / "info" / "exclude").write_text("draft.md\n")
    (bob / "notes" / "draft.md").write_text("Mine alone.\n")
    (ada / "notes" / "draft.md").write_text("Ada's.\n")
    sync(ada / "notes")
    assert "git does not track here: notes/draft.md." in sync(bob / "notes", code=1).stderr
    assert (bob / "notes" / "draft.md").read_text() == "Mine alone.\n"


# -- rounds

ROUNDS = int(os.environ.get("SPELLBOOK_SYNC_ROUNDS", "12"))

FOLDERS = ("", "work/", "work/deep/", "private/", "drafts/")
NAMES = ("a.md", "b.md", "c secret.md", "[d].md", "한글.md")
IGNORED = {"ada": "private/\n*secret*\n", "bob": "drafts/\n**/work/a.md\n"}
"""What each ignores beside the other, so that names meet that one shares and the other does not."""


@dataclass
class Clone:
    """A clone with its vault, and what it keeps to itself: the bytes by place."""

    top: Path
    rng: random.Random
    kept: dict[Path, bytes] = field(default_factory=dict)

    @property
    def vault(self) -> Path:
        return self.top / "v[1]*"

    def keep(self, place: Path, text: str) -> None:
        """Write a file that is to stay here, as it is."""
        if not place.exists() and not any(parent.is_file() for parent in place.parents):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"PRIVATE of {self.top.name}: {text}\n", "utf-8")
            self.kept[place] = place.read_bytes()

    def tracked(self) -> list[str]:
        return [
            path
            for path in git(self.vault, "-c", "core.quotePath=false", "ls-files").splitlines()
            if path[-3:] == ".md"
        ]

    def write(self, number: int) -> None:
        """Do one to four of the things that happen in a vault."""
        rng = self.rng
        for step in range(rng.randint(1, 4)):
            path = rng.choice(FOLDERS) + rng.choice(NAMES)
            place, text = self.vault / path, f"round {number}, step {step}"
            match rng.randrange(9):
                case 0 | 1:  # a note, ignored here or not
                    ignored = self.is_ignored(path)
                    if not place.exists() and ignored:
                        self.keep(place, text)
                    elif place not in self.kept and not place.is_dir():
                        place.parent.mkdir(parents=True, exist_ok=True)
                        with place.open("a", encoding="utf-8") as file:
                            file.write(f"\nSaid by {self.top.name} in {text}.\n")
                case 2:  # a file where the other has a folder, or the other way around
                    path = rng.choice(("secret", "drafts/secret", f"drafts/secret/{number}.md", "drafts/a.md/x.md"))
                    if self.is_ignored(path):
                        self.keep(self.vault / path, text)
                case 3:  # an erased note
                    if paths := self.tracked():
                        self.erase(rng.choice(paths))
                case 4:  # what a killed writer leaves
                    self.keep(place.parent / f".spellbook-{rng.getrandbits(64):016x}.tmp", text)
                case 5:  # a repository of its own, with a commit or without
                    nested = self.vault / rng.choice(FOLDERS) / "nested"
                    if not nested.exists() and not self.is_ignored(nested.relative_to(self.vault).as_posix()):
                        nested.mkdir(parents=True)
                        git(nested, "init", "--quiet")
                        if rng.random() < 0.5:
                            git(nested, "commit", "--quiet", "--allow-empty", "-m", "theirs")
                    self.keep(nested / f"{number}.md", text)
                case 6:  # untracked, beside the vault, whose name is a pattern for it
                    self.keep(self.top / rng.choice(("v1x", "v1")) / rng.choice(NAMES), text)
                case 7:  # a note in the trash of somebody who erased it by hand
                    self.keep(self.vault / ".trash" / path, text)
                case 8:  # committed beside the vault, perhaps under a name that the other has not added
                    beside = self.top / rng.choice(("v1x", "v1", "v2")) / rng.choice(NAMES)
                    if not beside.exists():
                        beside.parent.mkdir(exist_ok=True)
                        beside.write_text(f"Shared by {self.top.name} in {text}.\n", "utf-8")
                        self.commit(beside)

    def commit(self, place: Path) -> None:
        git(self.top, "--literal-pathspecs", "add", "-f", "--", place)
        git(self.top, "--literal-pathspecs", "commit", "--quiet", "-m", "beside", "--", place)

    def is_ignored(self, path: str) -> bool:
        asked = ["git", "-C", str(self.vault), "check-ignore", "--quiet", "--", path]
        return subprocess.run(asked, check=False).returncode == 0

    def erase(self, path: str) -> None:
        vault = Vault(self.vault, config.load(self.vault).state)
        if (self.vault / path).is_file():
            trash = vault.trash.remove(path, vault.hash(path))
            assert trash is not None
            self.kept[self.vault / trash] = (self.vault / trash).read_bytes()
        vault.journal.close()

    def sync(self) -> None:
        """Share; what is refused has to be named, and is moved out of the way."""
        for _ in range(40):
            result = sync(self.vault, code=None)
            self.check(result.output)
            if result.exit_code == 0:
                return
            assert result.exit_code == 1, result.output
            inside = [place for place in self.kept if place.is_relative_to(self.top)]
            named = [place for place in inside if str(place.relative_to(self.top)) in result.stderr]
            if not named:  # one erased what the other changed: a person decides
                self.decide(result.stderr)
            for place in named:
                new = self.top.parent / f"aside of {self.top.name}" / f"{len(self.kept)}-{self.rng.random()}"
                new.parent.mkdir(exist_ok=True)
                place.rename(new)
                self.kept[new] = self.kept.pop(place)
        raise AssertionError(result.output)

    def decide(self, output: str) -> None:
        """Merge by hand: keep the notes that one erased and the other changed."""
        git(self.top, "-c", "merge.directoryRenames=false", "merge", "--no-edit", "origin/main", code=1)
        names = git(self.top, "diff", "--name-only", "--diff-filter=U", "-z").split("\0")[:-1]
        assert names, output
        for name in names:
            assert name in output
            git(self.top, "--literal-pathspecs", "add", "-f", "--", name)
        git(self.top, "commit", "--quiet", "--no-edit")

    def check(self, output: str) -> None:
        for place, data in self.kept.items():
            assert place.exists(), f"{place} is gone\n{output}"
            assert place.read_bytes() == data, f"{place} is another\n{output}"


@pytest.mark.slow
@pytest.mark.timeout(300 + 10 * ROUNDS)
def test_rounds(tmp_path: Path) -> None:
    """What is ignored, untracked, nested, trashed or left over stays as it is with its owner, and with nobody else."""
    shared, rng = tmp_path / "shared.git", random.Random(24)
    clones = [Clone(tmp_path / name, random.Random(seed)) for seed, name in enumerate(IGNORED)]
    cloned(shared, *(clone.top for clone in clones), vault="v[1]*", notes={"first.md": "First.\n"})
    for clone in clones:
        (clone.top / ".git" / "info" / "exclude").write_text(IGNORED[clone.top.name])
    for number in range(ROUNDS):
        for clone in clones:
            clone.write(number)
        for clone in rng.choice((clones, clones[::-1], (*clones, clones[0]))):
            clone.sync()
        names = git(shared, "-c", "core.quotePath=false", "ls-tree", "-r", "--full-tree", "main")
        assert not [
            line for line in names.splitlines() if ".trash" in line or ".spellbook-" in line or "nested" in line
        ]
        found = ["git", "-C", str(shared), "grep", "--text", "-e", "PRIVATE of", "main"]
        assert subprocess.run(found, capture_output=True, check=False).stdout == b""
    for clone in (*clones, clones[0]):
        clone.sync()
    heads = {git(clone.top, "rev-parse", "HEAD^{tree}") for clone in clones}
    assert len(heads) == 1
    written = git(shared, "log", "-p", "--all", "--format=")
    assert written.count("+Said by") > ROUNDS // 4, "nothing was shared"
    assert any(".trash" in place.parts for place in clones[0].kept)
    shutil.rmtree(shared)
