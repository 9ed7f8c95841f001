"""Two people, one vault, by git: the merge driver, and sync."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path

import pytest
from click.testing import Result

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


def sync(place: Path, *args: object, code: int = 0) -> Result:
    return spellbook("sync", "--vault", place, *args, code=code)


def change(place: Path, old: str, new: str) -> None:
    text = (place / "ports.md").read_text()
    assert old in text
    (place / "ports.md").write_text(text.replace(old, new))


def test_both_write(two):
    """What each has written is with both after three syncs, found by words, and where both changed one place both stay."""
    ada, bob = two
    change(ada, "8443", "9000")
    change(ada, "- one", "- one\n- two")
    (ada / "new.md").write_text("A harbor of Ada's.\n")
    change(bob, "8443", "7000")
    change(bob, "status: open", "status: done")
    assert "2 files committed, 0 commits pulled" in sync(ada).stdout
    done = sync(bob)
    assert "1 file committed, 1 commit pulled" in done.stdout
    assert "ports.md: both sides are kept at Ports" in done.stderr
    sync(ada)
    text = (ada / "ports.md").read_text()
    assert text == (bob / "ports.md").read_text()
    day = dt.datetime.now().astimezone()
    assert text == (
        "---\nstatus: done\n---\n\n# Ports\n\nThe proxy listens on 7000.\n\n"
        f"> [!merge] other copy, {day.day} {day:%b}, somebody\n"
        "> The proxy listens on 9000.\n\n## Keys\n\n- one\n- two\n"
    )
    for place in two:
        assert not git(place, "status", "--porcelain")
        assert "new.md" in spellbook("find", "harbor", "--vault", place).stdout
        assert "ports.md, line 9: a merge kept the texts of both sides" in spellbook("status", "--vault", place).stdout
        change(place, text[text.index("> [!merge]") : text.index("## Keys")], "")
        assert "to fix      nothing" in spellbook("status", "--vault", place).stdout


@pytest.mark.parametrize(
    "setting", ["push.default=nothing", "merge.ff=only", "merge.ff=false", "branch.main.mergeoptions=--ff-only"]
)
def test_a_persons_settings_of_git_do_not_stop_it(two, setting):
    """What a person set for pushes and merges by hand holds for these; both have both after three syncs."""
    for place in two:
        git(place, "config", *setting.split("=", 1))
        (place / f"{place.name}.md").write_text(f"{place.name}.\n")
    for place in (*two, two[0]):
        sync(place)
    assert all((place / name).exists() for place in two for name in ("ada.md", "bob.md"))


def test_the_driver_is_named_once(two):
    """Who has not installed git-merge is told so by the first sync alone."""
    git(two[0], "config", "--remove-section", "merge.spellbook")
    assert ["install git-merge" in sync(two[0]).stderr for _ in range(2)] == [True, False]


def test_others_pushed_meanwhile(two, tmp_path):
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


def test_what_is_not_a_note_conflicts(two):
    """Then all is as it was, committed and named; nobody's bytes are lost, be it a note that is no text."""
    ada, bob = two
    (ada / "logo.bin").write_bytes(b"\0ada")
    change(ada, "one", "eins")
    (bob / "logo.bin").write_bytes(b"\0bob")
    (bob / "ports.md").write_bytes(b"caf\xe9")
    sync(ada)
    told = sync(bob, code=1).stderr
    assert "origin/main cannot be merged: logo.bin, ports.md." in told
    assert (bob / "logo.bin").read_bytes() == b"\0bob"
    assert (bob / "ports.md").read_bytes() == b"caf\xe9"
    assert not git(bob, "status", "--porcelain")


def test_only_the_vault_is_committed(two):
    """What lies beside a vault in the same repository, staged or not, waits for its own commit."""
    ada, _ = two
    vault = ada / "notes"
    vault.mkdir()
    (vault / "a.md").write_text("In the vault.\n")
    (ada / "code.py").write_text("pass\n")
    git(ada, "add", "code.py")
    sync(vault, "-m", "Mine")
    assert git(ada, "show", "--name-only", "--format=%s", "HEAD").split() == ["Mine", "notes/a.md"]
    assert git(ada, "status", "--porcelain") == "A  code.py\n"


def test_where_sync_cannot_work(two, vault, tmp_path):
    """No repository, no upstream, a merge under way, a remote that is gone: said with the next step, nothing changed."""
    ada, bob = two
    assert "is not in a git repository" in sync(vault, code=2).stderr
    git(vault, "init", "--quiet", "--initial-branch", "main")
    assert "no upstream" in sync(vault, code=1).stderr
    change(ada, "one", "eins")
    sync(ada)
    git(bob, "config", "merge.spellbook.driver", "false")
    change(bob, "one", "uno")
    git(bob, "commit", "--quiet", "-am", "Bob's")
    git(bob, "fetch", "--quiet")
    git(bob, "merge", "origin/main", code=1)
    assert "A merge is under way" in sync(bob, code=1).stderr
    git(bob, "merge", "--abort")
    (tmp_path / "shared.git").rename(tmp_path / "elsewhere.git")
    assert "git fetch failed" in sync(bob, code=1).stderr
    assert "uno" in (bob / "ports.md").read_text()


def test_install_and_uninstall(two):
    """The line goes to the end of .gitattributes and out again without a trace; so do the settings. A preview changes nothing."""
    ada, _ = two
    install = ("install", "git-merge", "--vault", ada)
    assert "nothing was changed" in spellbook(*install).stdout
    assert git(ada, "check-attr", "merge", "deep/a.md").endswith("merge: spellbook\n")
    spellbook(*install, "--uninstall")
    assert not (ada / ".gitattributes").exists()
    assert "merge.spellbook" not in git(ada, "config", "--local", "--list")
    assert "nothing was changed" in spellbook(*install, "--uninstall").stdout
    (ada / ".gitattributes").write_bytes(b"*.png binary")
    shown = spellbook(*install, "--dry-run").stdout
    assert "+*.md merge=spellbook" in shown
    assert "merge.spellbook.driver = " in shown
    assert (ada / ".gitattributes").read_bytes() == b"*.png binary"
    spellbook(*install)
    assert (ada / ".gitattributes").read_bytes() == b"*.png binary\n*.md merge=spellbook\n"
    spellbook(*install, "--uninstall")
    assert (ada / ".gitattributes").read_bytes() == b"*.png binary\n"


def test_names_of_older_versions_of_git(tmp_path):
    """They give no names of the sides."""
    files = [tmp_path / name for name in ("base", "ours", "theirs")]
    for file, text in zip(files, ("a\n", "b\n", "c\n"), strict=True):
        file.write_text(text)
    spellbook("merge-driver", *files, "--path", "x.md", "--ours", "%X", "--theirs", "%Y")
    assert files[1].read_text() == "b\n\n> [!merge] other copy\n> c\n"


# -- what stays here


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("draft.md", "draft.md"),
        ("draft.md/mine.md", "draft.md"),  # a folder of mine where they have a file
        ("draft.md", "draft.md/theirs.md"),
    ],
)
@pytest.mark.parametrize("is_ahead", [False, True], ids=["fast-forward", "merge"])
def test_an_ignored_file_is_never_overwritten(two, here, there, is_ahead):
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


def test_what_we_stopped_tracking(two):
    """A note that is ignored here since, and that they changed meanwhile, stays as it is here."""
    ada, bob = two
    sync(bob)
    git(bob, "rm", "--quiet", "--cached", "ports.md")
    git(bob, "commit", "--quiet", "-m", "mine alone")
    (bob / ".git" / "info" / "exclude").write_text("ports.md\n")
    (bob / "ports.md").write_text("Mine alone.\n")
    change(ada, "8443", "9000")
    sync(ada)
    assert "ports.md" in sync(bob, code=1).stderr
    assert (bob / "ports.md").read_text() == "Mine alone.\n"


def test_their_renamed_folder_takes_no_note_of_ours_along(two):
    """Not onto an ignored file: it stays in the folder where it was written."""
    ada, bob = two
    for number in range(4):
        (ada / "old").mkdir(exist_ok=True)
        (ada / "old" / f"{number}.md").write_text(f"Note {number}.\n" * 20)
    sync(ada)
    sync(bob)
    (ada / "old").rename(ada / "new")
    (bob / ".git" / "info" / "exclude").write_text("new/mine.md\n")
    (bob / "new").mkdir()
    (bob / "new" / "mine.md").write_text("Mine alone.\n")
    (bob / "old" / "mine.md").write_text("Shared.\n")
    sync(ada)
    sync(bob)
    assert (bob / "new" / "mine.md").read_text() == "Mine alone.\n"
    assert (bob / "old" / "mine.md").read_text() == "Shared.\n"
    assert (bob / "new" / "0.md").exists()


def test_nothing_of_spellbooks_own_is_committed(two, monkeypatch):
    """Neither the trash nor what killed writers leave nor a state folder in the vault, without a line in .gitignore."""
    ada, _ = two
    monkeypatch.setenv("SPELLBOOK_STATE", str(ada / "kept" / "state"))
    monkeypatch.setenv("SPELLBOOK_DATA", str(ada / "kept" / "data"))
    spellbook("snapshot", "create", "--vault", ada)
    spellbook("erase", "ports.md", "--vault", ada)
    (ada / "deep").mkdir()
    left = ".spellbook-0123456789abcdef.tmp"
    for place in (ada / left, ada / "deep" / left, ada / ".trash" / "deep" / "old.md", ada / "deep" / "new.md"):
        place.parent.mkdir(exist_ok=True)
        place.write_text("A text.\n")
    (ada / ".spellbook").mkdir()
    (ada / ".spellbook" / "config.toml").write_text("# settings are shared\n")
    sync(ada)
    shared = git(ada, "ls-tree", "-r", "--name-only", "origin/main").split()
    assert shared == [".gitattributes", ".spellbook/config.toml", "deep/new.md"]


def test_a_repository_in_the_vault_is_named(two):
    """Its notes are not shared, whether it has a commit or not; all else is."""
    ada, bob = two
    for name in ("one", "deep/t*wo"):
        (ada / name).mkdir(parents=True)
        git(ada / name, "init", "--quiet")
        (ada / name / "note.md").write_text("Of another repository.\n")
    git(ada / "one", "add", "--all")
    git(ada / "one", "commit", "--quiet", "-m", "theirs")
    (ada / "deep" / "to two.md").write_text("Shared.\n")
    done = sync(ada)
    for name in ("one", "deep/t*wo"):
        assert f"{name} is a repository of its own: its notes are not shared." in done.stderr
    assert git(ada, "ls-tree", "-r", "--name-only", "origin/main").splitlines() == [
        ".gitattributes",
        "deep/to two.md",
        "ports.md",
    ]
    assert json.loads(sync(ada, "--json").stdout)["nested"] == ["deep/t*wo", "one"]
    git(ada, "add", "one")  # as versions before did
    git(ada, "commit", "--quiet", "-m", "before")
    assert "one is a repository of its own" in sync(ada).stderr
    sync(bob)
    assert "one is a repository of its own" in sync(bob).stderr
