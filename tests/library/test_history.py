"""The versions of a note, from git and the journal: in order, through renames, and nothing of a foreign repository runs."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spellbook
from spellbook.library import history, limited
from spellbook.library.book import Spellbook
from spellbook.system import git
from spellbook.system.errors import InvalidInput, MemoryNotFound, PermissionDenied
from spellbook.vault.journal import CALLER
from tests import repositories

GREEN, BLUE = b"# A\n\nThe keel is green.\n", b"# A\n\nThe keel is blue.\n"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Spellbook]:
    """A vault in a folder of a repository with two commits."""
    repositories.write(tmp_path / "repository", [{"a.md": GREEN}, {"a.md": BLUE}], below="notes and more/")
    (tmp_path / "repository" / "other.md").write_text("# Other\n\nkeel\n")
    with spellbook.open(tmp_path / "repository" / "notes and more", embedder="hash", state=tmp_path / "state") as book:
        yield book


def opened(vault: Path) -> Spellbook:
    """Open a vault with a state folder of its own."""
    return spellbook.open(vault, embedder="hash", state=vault.parent / f"state-{vault.name}")


def listed(book: Spellbook, id: str = "a.md") -> list[dict[str, Any]]:
    """Return the versions of a note, newest first."""
    return list(history.versions(book, id, 50)["versions"])


def kinds(version: dict[str, Any]) -> set[str]:
    """Return where a version is kept: commit, entry, file."""
    return {source.removeprefix("before ").split()[0] for source in version["sources"]}


def added(versions: list[dict[str, Any]]) -> list[str]:
    """Return the lines that each version added to the one before it, newest first."""
    lines = ("\n".join(each["difference"].splitlines()[2:]) for each in versions)
    return [" ".join(line[1:] for line in each.split("\n") if line.startswith("+")) for each in lines]


def unread(book: Spellbook) -> str:
    """Return why git was not read."""
    reply = history.versions(book, "a.md")
    assert not any("commit" in kinds(each) for each in reply["versions"])
    return " ".join(reply["not_read"])


def test_a_note_is_corrected_by_what_a_person_edits_in_its_text(small: Spellbook) -> None:
    """An agent's edit, a person's new property and an edit that was taken back correct nothing; new words do."""
    vault = small.index.vault
    by_an_agent = CALLER.set("token 1")
    small.revise("a.md", replace=("blue", "grey"))
    CALLER.reset(by_an_agent)
    assert not history.is_corrected(vault, "a.md")
    small.revise("a.md", metadata={"review": "2027-01-01"})
    assert not history.is_corrected(vault, "a.md")
    small.revise("a.md", replace=("grey", "red"))
    assert history.is_corrected(vault, "a.md")
    small.undo()
    assert not history.is_corrected(vault, "a.md")


def test_versions_come_from_git_and_the_journal(small: Spellbook) -> None:
    """Each version is told once, with its author and difference, across renames; a limited token sees none."""
    top = small.config.vault.parent
    small.reindex()
    small.revise("a", replace=("blue", "red"))
    small.move("a.md", "b.md")
    found = listed(small, "b.md")
    assert [each["path"] for each in found] == ["b.md", "a.md", "a.md", "a.md"]
    assert added(found) == ["", "The keel is red.", "The keel is blue.", ""]
    assert set().union(*map(kinds, found)) == {"commit", "entry", "file"}
    repositories.git(top, "add", "--all")
    repositories.git(top, "commit", "-qm", "moved")
    found = listed(small, "b.md")
    assert [each["path"] for each in found] == ["b.md", "a.md", "a.md", "a.md"]
    assert {"commit", "entry", "file"} <= kinds(found[0])
    assert all(each["sha256"] for each in found)
    small.erase("b.md")
    gone = listed(small, "b.md")
    assert gone[0]["sha256"] is None
    assert gone[0]["difference"]
    with pytest.raises(MemoryNotFound):
        history.versions(small, "never")
    for id in ("b.md", "never"):  # what was public once may be private now
        with pytest.raises(PermissionDenied, match="only reads"):
            history.versions(limited.seen_by(small, "public"), id)
    with pytest.raises(InvalidInput):
        history.versions(small, "b.md", 0)


def test_commits_of_one_second_stand_in_the_order_of_git(tmp_path: Path) -> None:
    """Commits come as git orders them, also where a clock was set back, and each difference is that of its commit."""
    root = tmp_path / "vault"
    root.mkdir()
    repositories.git(root, "init", "-q", "-b", "main")
    texts = [f"# A\n\nThe keel has {number} planks.\n" for number in range(6)]
    for number, text in enumerate(texts):
        (root / "a.md").write_text(text)
        at = f"{repositories.FIRST + (number // 3) - 5 * (number == 4)} +0000"
        repositories.git(root, "add", "a.md")
        repositories.git(root, "commit", "-qm", "x", GIT_COMMITTER_DATE=at, GIT_AUTHOR_DATE=at)
    with opened(root) as book:
        found = listed(book)
        assert added(found) == [f"The keel has {number} planks." for number in range(5, 0, -1)] + [""]
        commits = [source.split()[1] for each in found for source in each["sources"] if source.startswith("commit")]
        assert commits == repositories.git(root, "rev-list", "HEAD").split()


def test_a_renamed_note_keeps_its_history_and_a_copy_has_its_own(tmp_path: Path) -> None:
    """Names of any kind are followed through renames; a note made from a template has no history of the template."""
    text = "# Day\n\nWhat was done, what is open, who was met and why.\n"
    changed = text.replace("open", "closed")
    name = '하루 "é"\\\t*.md'
    states = [{"b.md": text}, {"b.md": changed}, {name: changed}, {name: changed, "copy.md": changed}]
    root = tmp_path / "vault"
    repositories.write(root, [{path: said.encode() for path, said in state.items()} for state in states])
    (root / "copy.md").unlink()
    with opened(root) as book:
        found = listed(book, name)
        assert [each["path"] for each in found] == [name, "b.md", "b.md"]
        assert added(found)[1] == "What was done, what is closed, who was met and why."
        deleted, first = listed(book, "copy.md")
        assert (deleted["sha256"], first["path"], first["difference"]) == (None, "copy.md", "")
        assert listed(book, "b.md")[0]["path"] == "b.md"


def merge(book: Spellbook) -> None:
    """Merge a branch whose two commits contradict the note."""
    top = book.config.vault.parent
    repositories.git(top, "checkout", "-qb", "side", "main~1")
    for word in ("old", "older"):
        (book.config.vault / "a.md").write_bytes(GREEN + f"It is {word}.\n".encode())
        repositories.git(top, "commit", "-qam", word)
    repositories.git(top, "checkout", "-q", "main")
    repositories.git(top, "merge", "-q", "-X", "theirs", "--no-edit", "side")


MERGED = ["The keel is green. It is older.", "The keel is blue.", ""]


def test_git_that_has_nothing_is_told_once(small: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A vault in no repository, in one without a commit, and a machine without git have the journal and the file. A commit
    that is too large for a note is left out; git that takes too long, or says too much, is stopped.
    """
    with monkeypatch.context() as patch:
        patch.setattr(history, "MOST_BYTES", len(BLUE))
        assert [kinds(each) for each in listed(small)] == [{"commit", "file"}]
        patch.setattr(git, "MOST_LISTED", 10)
        assert "said over" in unread(small)
    with monkeypatch.context() as patch:
        patch.setattr(git, "SECONDS", 0.0)
        assert "took over" in unread(small)
    (vault / "a.md").write_bytes(GREEN)
    with opened(vault) as book:
        book.reindex()
        assert "not in a git repository" in unread(book)
        repositories.git(vault, "init", "-q")
        assert unread(book) == ""
        monkeypatch.setenv("PATH", str(vault / "empty"))
        assert "no git on this machine" in unread(book)
        assert [kinds(each) for each in listed(book)] == [{"file"}]


def test_clones_of_other_kinds(small: Spellbook, tmp_path: Path) -> None:
    """
    The first commit of a shallow clone is the first version. A vault may be a working tree whose repository is elsewhere
    and bare.

    A partial clone is named as such; git starts no program to get what is missing. A commit is what its hash says, not
    what a replacement ref puts in its place. Where objects are gone, the file is the only version.
    """
    top, mark = small.config.vault.parent, tmp_path / "ran"
    repositories.git(tmp_path, "clone", "-q", "--depth=1", top.as_uri(), str(tmp_path / "clone"))
    with opened(tmp_path / "clone" / "notes and more") as book:
        [version] = listed(book)
        assert kinds(version) == {"commit", "file"}
    repositories.git(tmp_path, "clone", "-q", "--bare", top.as_uri(), str(tmp_path / "bare.git"))
    repositories.git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "tree"), "main")
    with opened(tmp_path / "tree" / "notes and more") as book:
        assert added(listed(book)) == ["The keel is blue.", ""]
    repositories.git(top, "config", "uploadpack.allowFilter", "true")
    repositories.git(tmp_path, "clone", "-q", "--filter=blob:none", top.as_uri(), str(tmp_path / "part"))
    repositories.git(tmp_path / "part", "config", "remote.origin.url", f"ext::sh -c touch% {mark}")
    repositories.git(tmp_path / "part", "config", "protocol.ext.allow", "always")
    with opened(tmp_path / "part" / "notes and more") as book:
        assert "git lacks an object" in unread(book)
    assert not mark.exists()
    repositories.git(top, "replace", "main~1", "main")
    assert added(listed(small)) == ["The keel is blue.", ""]
    shutil.rmtree(top / ".git" / "objects")
    (top / ".git" / "objects").mkdir()
    assert "git lacks an object" in unread(small)


def test_nothing_of_a_foreign_repository_runs(
    small: Spellbook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What was merged is a version with all that it brought, and its own commits are not told beside it. Hooks, filters,
    pagers, watchers and signatures of the repository, and variables around it, change nothing.
    """
    top, mark = small.config.vault.parent, tmp_path / "ran"
    merge(small)
    assert added(listed(small)) == MERGED
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "pager.log", "gpg.program", "diff.external", "core.sshCommand"):
        repositories.git(top, "config", key, str(program))
    signed = repositories.git(top, "cat-file", "commit", "HEAD").replace("\n\n", "\ngpgsig -----BEGIN PGP\n\n", 1)
    (tmp_path / "commit").write_text(f"{signed}\n")
    made = repositories.git(top, "hash-object", "-t", "commit", "-w", str(tmp_path / "commit"))
    repositories.git(top, "update-ref", "refs/heads/main", made)
    for key, value in (
        ("log.showSignature", "true"),
        ("log.diffMerges", "remerge"),
        ("log.showRoot", "false"),
        ("log.mailmap", "true"),
        ("diff.orderFile", str(tmp_path / "none")),
        ("diff.renames", "false"),
        ("color.ui", "always"),
        *((f"filter.x.{kind}", str(program)) for kind in ("smudge", "clean", "process")),
        *((f"diff.x.{kind}", str(program)) for kind in ("textconv", "command")),
        ("merge.x.driver", str(program)),
    ):
        repositories.git(top, "config", key, value)
    for attributes in (top / ".gitattributes", top / ".git" / "info" / "attributes"):
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("* filter=x diff=x merge=x\n")
    hooks = top / ".git" / "hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        shutil.copy(program, hooks / name)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(program))
    assert added(listed(small)) == MERGED
    assert not mark.exists()


@pytest.mark.parametrize("trick", ["file", "link", "common", "alternates", "objects", "packs"])
def test_a_folder_cannot_borrow_another_repository(small: Spellbook, tmp_path: Path, trick: str) -> None:
    """A `.git` that leads to somebody's other repository, or to its objects, is refused: its notes are not these."""
    theirs, root = small.config.vault.parent / ".git", tmp_path / "handed"
    (root / "notes and more").mkdir(parents=True)
    mine = root / ".git"
    if trick not in {"file", "link"}:
        repositories.git(root, "init", "-q", "-b", "main")
        (mine / "refs" / "heads").mkdir(parents=True, exist_ok=True)
        (mine / "refs" / "heads" / "main").write_text(repositories.git(theirs.parent, "rev-parse", "main"))
    match trick:
        case "file":
            mine.write_text(f"gitdir: {theirs}\n")
        case "link":
            mine.symlink_to(theirs)
        case "common":
            (mine / "commondir").write_text(f"{theirs}\n")
        case "alternates":
            (mine / "objects" / "info" / "alternates").write_text(f"{theirs / 'objects'}\n")
        case _:
            place = "objects" if trick == "objects" else "objects/pack"
            shutil.rmtree(mine / place)
            (mine / place).symlink_to(theirs / place)
    (root / "notes and more" / "a.md").write_text("# Mine\n")
    with opened(root / "notes and more") as book:
        assert "leads to a repository" in unread(book)
