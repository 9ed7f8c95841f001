"""
Earlier states of a vault: what is answered equals an index of that commit checked out, and nothing of the vault changes.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import spellbook
from spellbook.library import earlier, limited, upkeep
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, MemoryNotFound, PermissionDenied, StorageError
from tests import repositories
from tests.helpers import Counting, from_scratch, held, told

WORDS = ["harbour", "quay", "crane", "ferry", "lock", "pilot", "tide", "buoy", "cargo", "anchor", "rudder", "mast"]


def generated(count: int) -> dict[str, bytes]:
    """Return notes with sections, frontmatter, links between them, and ids on some."""
    random, notes = Random(3), {}
    for number in range(count):
        head = f"---\nid: note-{number}\ntags: [{random.choice(WORDS)}]\n---\n" if number % 3 else ""
        parts = [f"# The {random.choice(WORDS)} {number}\n"]
        for section in range(random.randint(1, 3)):
            said = " ".join(random.choices(WORDS, k=15))
            parts.append(f"## Part {section}\n\nThe {said} of {number}. See [[{random.randrange(count)}]].\n")
        notes[f"{random.choice(['ports', 'ships', ''])}/{number}.md".lstrip("/")] = (head + "\n".join(parts)).encode()
    return notes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[repositories.Commit]]:
    """A repository of thirty notes with forty commits."""
    root = tmp_path_factory.mktemp("made") / "vault"
    return root, repositories.write(root, repositories.history(generated(30), 40))


@pytest.fixture
def past(made: tuple[Path, list[repositories.Commit]], tmp_path: Path) -> Iterator[Spellbook]:
    """A book of that repository."""
    with spellbook.open(made[0], embedder="hash", state=tmp_path / "state") as book:
        book.reindex()
        yield book


def day(number: int) -> str:
    """Return the date of the commit with this number."""
    return dt.datetime.fromtimestamp(repositories.FIRST + number * repositories.BETWEEN, dt.UTC).isoformat()


@pytest.mark.parametrize("number", [0, 3, 8, 12, 17, 21, 26, 30, 35, 39])
def test_a_past_state_is_what_a_checkout_of_it_would_be(
    made: tuple[Path, list[repositories.Commit]], past: Spellbook, tmp_path: Path, number: int
) -> None:
    """Index and answers equal those of the commit checked out and indexed from nothing."""
    folder = repositories.checked_out(tmp_path / "then", made[1][number])
    with earlier.at(past, day(number)) as then:
        assert earlier.fields(then)["as_of"]["commit"] == made[1][number].hash
        then.embed(float("inf"))
        assert told(then.index) == from_scratch(folder, tmp_path / "other")
        with spellbook.open(folder, embedder="hash", state=tmp_path / "third") as fresh:
            fresh.reindex()
            for query in ("the crane of the quay", "swept", "part 1 ferry", "harbour 7"):
                hits, others = then.search(query).hits, fresh.search(query).hits
                assert [(hit.id, round(hit.score, 6)) for hit in hits] == [
                    (hit.id, round(hit.score, 6)) for hit in others
                ]
            assert [replace(each, titles=sorted(each.titles)) for each in then.topics()] == [
                replace(each, titles=sorted(each.titles)) for each in fresh.topics()
            ]
            assert [each.id for each in then.recent(50).notes] == [each.id for each in fresh.recent(50).notes]


def test_the_vault_is_only_read_and_a_state_is_kept(
    made: tuple[Path, list[repositories.Commit]], past: Spellbook
) -> None:
    """Neither files nor git nor the vault's index change; the second question finds the state that the first made."""
    root = made[0]
    files, index = held(root), told(past.index)
    with earlier.at(past, made[1][5].hash[:12]) as then:
        first = then.search("the crane of the quay")
    with earlier.at(past, day(5)) as again:
        assert again is then
        assert [hit.id for hit in again.search("the crane of the quay").hits] == [hit.id for hit in first.hits]
        with pytest.raises(PermissionDenied, match="only read"):
            again.memories.pin(first.hits[0].path)
        assert isinstance(again.denial, PermissionDenied)
    assert held(root) == files
    assert told(past.index) == index
    with (
        spellbook.open(root, embedder="hash", state=past.config.state.parent) as other,
        earlier.at(other, day(5)) as kept,
    ):
        assert kept.search("the crane of the quay").hits == first.hits


def test_texts_seen_before_keep_their_vectors(made: tuple[Path, list[repositories.Commit]], tmp_path: Path) -> None:
    """Of another time only texts are embedded that neither the vault nor another past state has."""
    embedder = Counting()
    with spellbook.open(made[0], embedder="hash", state=tmp_path / "state") as given:
        book = Spellbook(given.config, embedder)
    with book:
        book.reindex()
        embedder.taken()
        with earlier.at(book, day(2)) as then:
            then.embed(float("inf"))
            new = embedder.taken()
            assert 0 < new < then.index.catalog.counts().chunks / 2
        with earlier.at(book, day(3)) as then:
            then.embed(float("inf"))
            assert embedder.taken() <= 3 * 2


def test_decisions_answer_what_held_then(tmp_path: Path) -> None:
    """A decision that was superseded later stands in March as it stood, and the answer names the commit."""
    old = b"---\nid: old\ncategory: decision\n---\n# Sessions\n\nLogin sessions are kept in Redis.\n"
    new = b"---\nid: new\ncategory: decision\nsupersedes: [old]\n---\n# Sessions\n\nLogin sessions are kept in PostgreSQL.\n"
    commits = repositories.write(tmp_path / "vault", [{"a.md": old}, {"a.md": old, "b.md": new}])
    with spellbook.open(tmp_path / "vault", embedder="hash", state=tmp_path / "state") as book:
        book.reindex()
        now = book.search("where are login sessions kept")
        assert [hit.why["superseded_by"]["id"] for hit in now.hits if hit.path == "a.md"] == ["new"]
        with earlier.at(book, "2026-01-01") as then:
            [hit] = then.search("where are login sessions kept").hits
            assert hit.path == "a.md"
            assert "superseded_by" not in hit.why
            assert commits[0].hash[:12] in " ".join(earlier.sentences(then))
            assert "what was written by" in " ".join(earlier.sentences(then))


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 123\n" % 7


def test_what_cannot_be_read_is_named_and_never_taken_from_today(tmp_path: Path) -> None:
    """A pointer of Git LFS, a link and a note that is too large are left out, though a note of today has the path."""
    root, today = tmp_path / "vault", b"# Today\n\nThe harbour is open.\n"
    repositories.write(root, [{"big.md": LFS, "huge.md": b"# Much\n" + b"x" * 10_000_001, "a.md": b"# A\n\nkeel\n"}])
    (root / "link.md").symlink_to("a.md")
    repositories.git(root, "add", "--all")
    repositories.git(root, "commit", "-qm", "link")
    for path in ("big.md", "huge.md"):
        (root / path).write_bytes(today)
    with spellbook.open(root, embedder="hash", state=tmp_path / "state") as book:
        book.reindex()
        with earlier.at(book, "HEAD") as then:
            assert [each.path for each in then.recent().notes] == ["a.md"]
            reasons = {each.path: each.reason for each in then.index.catalog.notes.faults()}
            assert reasons.keys() == {"big.md", "huge.md", "link.md"}
            assert "Git LFS" in reasons["big.md"]
            assert "3 files" in " ".join(earlier.sentences(then))
            assert then.find("harbour").hits == ()


def test_what_is_left_out_then_or_now_is_no_note(tmp_path: Path) -> None:
    """`.spellbookignore` counts as it was then and as it is now."""
    notes = {"a.md": b"# A\n\nkeel\n", "secret/b.md": b"# B\n\nkeel\n", "old/c.md": b"# C\n\nkeel\n"}
    root = tmp_path / "vault"
    repositories.write(root, [{**notes, ".spellbookignore": b"old/\n"}])
    (root / ".spellbookignore").write_text("secret/\n")
    with spellbook.open(root, embedder="hash", state=tmp_path / "state") as book, earlier.at(book, "HEAD") as then:
        assert {hit.path for hit in then.find("keel").hits} == {"a.md"}


def test_what_was_left_out_then_is_read_as_git_reads_it(tmp_path: Path) -> None:
    """A line that takes folders in again opens them then as it does now, and a file in an ignored folder stays out."""
    notes = {"a.md": b"keel\n", "in/b.md": b"keel\n", "old/c.md": b"keel\n"}
    root = tmp_path / "vault"
    ignored = b"*\n!*/\n!b.md\nold/\n!old/c.md\n"
    repositories.write(root, [{**notes, ".spellbookignore": ignored}])
    with spellbook.open(root, embedder="hash", state=tmp_path / "state") as book:
        book.reindex()
        assert {hit.path for hit in book.find("keel").hits} == {"in/b.md"}
        with earlier.at(book, "HEAD") as then:
            assert {hit.path for hit in then.find("keel").hits} == {"in/b.md"}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Spellbook]:
    """A vault in a folder of a repository with two commits."""
    states = [{"a.md": b"# A\n\nThe keel is green.\n"}, {"a.md": b"# A\n\nThe keel is blue.\n"}]
    repositories.write(tmp_path / "repository", states, below="notes and more/")
    (tmp_path / "repository" / "other.md").write_text("# Other\n\nkeel\n")
    with spellbook.open(tmp_path / "repository" / "notes and more", embedder="hash", state=tmp_path / "state") as book:
        yield book


def text_of(book: Spellbook, when: str, id: str = "a.md") -> str:
    """Return what a note said by then."""
    with earlier.at(book, when) as then:
        return then.show(id)[0].text


def test_a_vault_in_a_folder_of_a_repository(small: Spellbook) -> None:
    """Paths are those of the vault; what lies beside it is no note; text is read from git as well."""
    assert "green" in text_of(small, "2026-01-01")
    assert "blue" in text_of(small, "HEAD")
    assert "green" in text_of(small, "main~1")
    with earlier.at(small, "main~1") as then:
        assert then.index.vault.read("a.md")[0] == b"# A\n\nThe keel is green.\n"
        assert [each.path for each in then.recent().notes] == ["a.md"]


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("2025-12-31", "the first commit is"),
        ("1960", "the first commit is"),
        ("2026-02-30", "is not a date"),
        ("--all", "is not a revision"),
        ("-1", "is not a revision"),
        ("nonsense", "is not a date, and neither a revision nor a snapshot"),
        ("a\nb", "names no time"),
        ("x" * 300, "names no time"),
        ("HEAD..main", "is not a date, and neither"),
        ("HEAD:notes and more/a.md", "is not a date, and neither"),
    ],
)
def test_what_means_no_time_is_refused(small: Spellbook, when: str, said: str) -> None:
    """The message says why, and what to name."""
    with pytest.raises(InvalidInput, match=said) as raised, earlier.at(small, when):
        pass
    assert raised.value.hint
    assert not (small.config.state / upkeep.PAST).exists()


def test_a_folder_that_was_not_there_yet(tmp_path: Path) -> None:
    """A commit without the vault's folder is named."""
    root = tmp_path / "repository"
    repositories.write(root, [{"x.md": b"x"}])
    (root / "notes").mkdir()
    (root / "notes" / "a.md").write_text("keel")
    with (
        spellbook.open(root / "notes", embedder="hash", state=tmp_path / "state") as book,
        pytest.raises(InvalidInput, match="is not in commit"),
        earlier.at(book, "HEAD"),
    ):
        pass


def test_a_shallow_clone_says_so(small: Spellbook, tmp_path: Path) -> None:
    """What a shallow clone has can be asked; a date before it says how to fetch the rest."""
    clone, top = tmp_path / "clone", small.config.vault.parent
    repositories.git(tmp_path, "clone", "-q", "--depth=1", top.as_uri(), str(clone))
    with spellbook.open(clone / "notes and more", embedder="hash", state=tmp_path / "of-clone") as book:
        assert "blue" in text_of(book, "2026-01-02")
        with pytest.raises(InvalidInput, match="shallow") as raised:
            text_of(book, "2026-01-01")
        assert "--unshallow" in raised.value.hint


def test_a_clone_that_lacks_texts_fetches_nothing(small: Spellbook, tmp_path: Path) -> None:
    """A partial clone is named as such; git starts no program to get what is missing."""
    clone, top, mark = tmp_path / "clone", small.config.vault.parent, tmp_path / "ran"
    repositories.git(top, "config", "uploadpack.allowFilter", "true")
    repositories.git(tmp_path, "clone", "-q", "--filter=blob:none", top.as_uri(), str(clone))
    repositories.git(clone, "config", "remote.origin.url", f"ext::sh -c touch% {mark}")
    repositories.git(clone, "config", "protocol.ext.allow", "always")
    with spellbook.open(clone / "notes and more", embedder="hash", state=tmp_path / "of-clone") as book:
        with pytest.raises(StorageError, match="git lacks an object") as raised:
            text_of(book, "2026-01-01")
        assert raised.value.code == "STORAGE_ERROR"
        assert "blue" in book.show("a.md")[0].text
    assert not mark.exists()


def test_nothing_of_a_foreign_repository_runs(small: Spellbook, tmp_path: Path, monkeypatch: Any) -> None:
    """Hooks, filters, pagers, watchers and signatures of the repository, and variables around it, change nothing."""
    top, mark = small.config.vault.parent, tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "pager.log", "gpg.program", "diff.external", "core.sshCommand"):
        repositories.git(top, "config", key, str(program))
    repositories.git(top, "config", "log.showSignature", "true")
    for key in ("filter.x.smudge", "filter.x.clean", "filter.x.process", "diff.x.textconv", "diff.x.command"):
        repositories.git(top, "config", key, str(program))
    (top / ".gitattributes").write_text("* filter=x diff=x\n")
    (top / ".git" / "info").mkdir(exist_ok=True)
    (top / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
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
    assert "green" in text_of(small, "2026-01-01")
    assert len(earlier.history(small, "a.md")["versions"]) == 2
    assert not mark.exists()


def test_replaced_objects_do_not_count(small: Spellbook) -> None:
    """A commit is what its hash says, not what a replacement ref puts in its place."""
    top = small.config.vault.parent
    repositories.git(top, "replace", "main~1", "main")
    assert "green" in text_of(small, "2026-01-01")


def test_a_working_tree_of_a_bare_repository(small: Spellbook, tmp_path: Path) -> None:
    """A vault may be a working tree whose repository is elsewhere and bare."""
    bare, tree = tmp_path / "bare.git", tmp_path / "tree"
    repositories.git(tmp_path, "clone", "-q", "--bare", small.config.vault.parent.as_uri(), str(bare))
    repositories.git(bare, "worktree", "add", "-q", str(tree), "main")
    with spellbook.open(tree / "notes and more", embedder="hash", state=tmp_path / "of-tree") as book:
        assert "green" in text_of(book, "2026-01-01")


@pytest.mark.parametrize("trick", ["file", "link", "common", "alternates", "objects", "packs"])
def test_a_folder_cannot_borrow_another_repository(small: Spellbook, tmp_path: Path, trick: str) -> None:
    """A `.git` that leads to somebody's other repository, or to its objects, is refused: its notes are not these."""
    theirs, root = small.config.vault.parent / ".git", tmp_path / "handed"
    root.mkdir()
    mine = root / ".git"
    if trick == "file":
        mine.write_text(f"gitdir: {theirs}\n")
    elif trick == "link":
        mine.symlink_to(theirs)
    else:
        repositories.git(root, "init", "-q", "-b", "main")
        (mine / "refs" / "heads").mkdir(parents=True, exist_ok=True)
        (mine / "refs" / "heads" / "main").write_text(repositories.git(theirs.parent, "rev-parse", "main"))
        if trick == "common":
            (mine / "commondir").write_text(f"{theirs}\n")
        elif trick == "alternates":
            (mine / "objects" / "info" / "alternates").write_text(f"{theirs / 'objects'}\n")
        else:
            place = mine / "objects" if trick == "objects" else mine / "objects" / "pack"
            shutil.rmtree(place)
            place.symlink_to(theirs / "objects" / ("" if trick == "objects" else "pack"))
    (root / "a.md").write_text("# Mine\n")
    with spellbook.open(root, embedder="hash", state=tmp_path / "of-handed") as book:
        with pytest.raises(InvalidInput, match="leads to a repository"):
            text_of(book, "HEAD", "notes and more/a.md")
        assert not any("commit" in str(each["sources"]) for each in earlier.history(book, "a.md")["versions"])


def test_a_damaged_repository_harms_nothing(small: Spellbook) -> None:
    """An object that is gone is an error of storage; the vault answers on, and no half state is kept."""
    top = small.config.vault.parent
    shutil.rmtree(top / ".git" / "objects")
    (top / ".git" / "objects").mkdir()
    with pytest.raises(StorageError, match="git lacks an object"):
        text_of(small, "2026-01-01")
    assert not [*(small.config.state / upkeep.PAST).glob("*/*")]
    assert "blue" in small.show("a.md")[0].text


def test_without_git_snapshots_answer(small: Spellbook, tmp_path: Path, monkeypatch: Any, vault: Path) -> None:
    """Where there is no git at all, a date means the last snapshot by then, and a revision is refused."""
    (vault / "a.md").write_text("# A\n\nThe mast is tall.\n")
    with spellbook.open(vault, embedder="hash", state=tmp_path / "other") as book:
        with pytest.raises(InvalidInput, match="not in a git repository"):
            text_of(book, "2026-01-01")
        monkeypatch.setenv("PATH", str(tmp_path / "empty"))
        with pytest.raises(InvalidInput, match="no git on this machine"):
            text_of(book, "2026-01-01")
        name = book.snapshots.create().name
        (vault / "a.md").write_text("# A\n\nThe mast is broken, and much else was written since.\n")
        for when in (name, "latest", name[:10], "2099"):
            assert "tall" in text_of(book, when), when
        assert "broken" in book.show("a.md")[0].text
        with earlier.at(book, "latest") as then:
            assert earlier.fields(then)["as_of"]["snapshot"] == name


def test_a_limited_token_sees_nothing_of_earlier_times(small: Spellbook) -> None:
    """What was public once may be private now."""
    with (
        pytest.raises(PermissionDenied, match="only reads"),
        earlier.at(limited.seen_by(small, "public"), "HEAD"),
    ):
        pass
    with pytest.raises(PermissionDenied, match="only reads"):
        earlier.history(limited.seen_by(small, "public"), "a.md")


def test_states_are_bounded(made: tuple[Path, list[repositories.Commit]], past: Spellbook) -> None:
    """At most eight are kept and a few open; those last used stay, and what a killed process left is removed."""
    folder = past.config.state / upkeep.PAST
    half = folder / "half"
    half.mkdir(parents=True)
    os.utime(half, (1, 1))
    for number in range(10):
        with earlier.at(past, day(number)) as then:
            os.utime(then.config.state / upkeep.READY, (10_000 + number, 10_000 + number))
            last = then.config.state
    assert len(past.beside) <= 3
    now = 2**31
    for number, each in enumerate(sorted(folder.glob("*/ready"), key=os.path.getmtime)):
        os.utime(each, (now + number, now + number))
    upkeep.forget_past(folder)
    left = {each.name for each in folder.iterdir() if each.is_dir()}
    assert last.name in left
    assert half.name not in left
    assert len(left) <= 8


def test_a_state_that_was_damaged_is_made_again(small: Spellbook) -> None:
    """Deleting or damaging what is kept costs time alone, also while it is open."""
    assert "green" in text_of(small, "2026-01-01")
    shutil.rmtree(small.config.state / upkeep.PAST)
    assert "green" in text_of(small, "2026-01-01")
    for each in small.beside:
        each.close()
    small.beside.clear()
    [state] = (small.config.state / upkeep.PAST).glob("*/ready")
    (state.parent / "catalog.db").write_bytes(b"no database" * 1_000)
    assert "green" in text_of(small, "2026-01-01")


def test_versions_come_from_git_snapshots_and_the_journal(small: Spellbook) -> None:
    """Each version is told once, with who has it and how it differs; a rename does not end the history."""
    vault = small.config.vault
    small.reindex()
    name = small.snapshots.create().name
    small.revise("a", replace=("blue", "red"))
    small.move("a.md", "b.md")
    found = earlier.history(small, "b.md")["versions"]
    assert [each["path"] for each in found] == ["b.md", "a.md", "a.md", "a.md"]
    assert "-The keel is green." in found[2]["difference"]
    assert "+The keel is red." in found[1]["difference"]
    assert {source.split()[0] for each in found for source in each["sources"]} >= {"commit", "snapshot", "entry"}
    assert any(f"snapshot {name}" in each["sources"] for each in found)
    repositories.git(vault.parent, "add", "--all")
    repositories.git(vault.parent, "commit", "-qm", "moved")
    found = earlier.history(small, "b.md")["versions"]
    assert [each["path"] for each in found] == ["b.md", "a.md", "a.md", "a.md"]
    assert all(each["sha256"] for each in found)
    small.erase("b.md")
    gone = earlier.history(small, "b.md")["versions"]
    assert gone[0]["sha256"] is None
    assert gone[0]["difference"]
    with pytest.raises(MemoryNotFound):
        earlier.history(small, "never")
    with pytest.raises(InvalidInput):
        earlier.history(small, "b.md", 0)
