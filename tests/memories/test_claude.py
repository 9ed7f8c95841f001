"""Claude Code's own memory: found for a repository, searched beside the vault if a person wants it, never changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest
from mcp import Client

from spellbook.capture.ledger import CLAUDE_MEMORY, Ledger
from spellbook.library.book import Spellbook
from spellbook.mcp import app
from spellbook.memories import claude_memory
from spellbook.system.errors import PermissionDenied
from tests.helpers import Write, held, note_writer
from tests.mcp.agent import Agent, talk
from tests.trees import state_of

FEEDBACK = """\
---
name: feedback-testing
description: How tests are run here
metadata:
  node_type: memory
  type: feedback
  modified: 2026-09-08T19:29:56.864Z
---

Run the heron tests with two processes, never with more.
"""
INDEX = "- [Testing the heron](feedback_testing.md) - two processes\n- [Nowhere](gone.md) - heron\n"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claude Code's folder of settings, for a project at `app`."""
    (tmp_path / "app").mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "app"))
    monkeypatch.delenv("CLAUDE_CODE_PROJECT_DIR_NAME", raising=False)
    return tmp_path / "claude"


def slug(folder: Path) -> str:
    """The name of a project's folder, as Claude Code makes it of a short path."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in str(folder))


def memory_of(config: Path, name: str, files: dict[str, str] | None = None) -> Path:
    """Make the memory in the folder `name`."""
    folder = config / "projects" / name / "memory"
    folder.mkdir(parents=True)
    for file, text in (files or {"MEMORY.md": INDEX, "feedback_testing.md": FEEDBACK}).items():
        note_writer(folder)(file, text)
    return folder


@pytest.fixture
def memory(config: Path, tmp_path: Path) -> Path:
    """The memory of the project, with its index and one memory."""
    return memory_of(config, slug(tmp_path / "app"))


def wanted(book: Spellbook) -> None:
    """Answer yes, as `install` does."""
    Ledger(str(book.config.vault)).turn(True, book.config.vault, CLAUDE_MEMORY)


# -- where it is


def test_it_is_that_of_the_repository(config: Path, tmp_path: Path) -> None:
    """The folder is named by the path of the main checkout, also for a worktree and for letters beyond ASCII."""
    app, odd = tmp_path / "app", tmp_path / "a_b.c 회의록\U0001f4d3"
    git = {".git/HEAD": "x", ".git/worktrees/w/commondir": "../..", ".git/worktrees/w/gitdir": f"{tmp_path}/wt/.git"}
    for file, text in git.items():
        note_writer(app)(file, text)
    note_writer(tmp_path)("wt/.git", f"gitdir: {app}/.git/worktrees/w")
    odd.mkdir()
    places = {app: slug(app), tmp_path / "wt": slug(app), app / "src": slug(app)}
    assert claude_memory.folder() is None
    memory_of(config, slug(app))
    memory_of(config, f"{slug(tmp_path)}-a-b-c------")
    assert {folder: claude_memory.folder(project=str(folder)) for folder in (*places, odd)} == {
        **{folder: config / "projects" / name / "memory" for folder, name in places.items()},
        odd: config / "projects" / f"{slug(tmp_path)}-a-b-c------" / "memory",
    }
    assert claude_memory.folder(project=str(tmp_path / "elsewhere")) is None


def test_a_long_name_is_matched_by_its_beginning(config: Path, tmp_path: Path) -> None:
    """Beyond 200 letters the hash at the end is not computed; of two folders that fit, none is taken."""
    deep = tmp_path / ("x" * 120) / ("y" * 120)
    for name in (slug(deep)[:199], slug(deep)[:200]):
        memory_of(config, name)
    assert claude_memory.folder(project=str(deep)) is None
    first = memory_of(config, f"{slug(deep)[:200]}-1k2j3h")
    assert claude_memory.folder(project=str(deep)) == first
    memory_of(config, f"{slug(deep)[:200]}-zzz")
    assert claude_memory.folder(project=str(deep)) is None


@pytest.mark.parametrize(
    ("settings", "name", "found"),
    [
        ('{"autoMemoryDirectory": "%s/own"}', "", "own"),
        ('{"autoMemoryDirectory": "~/own"}', "", "own"),
        ('{"autoMemoryDirectory": "%s/nowhere"}', "", None),
        ('{"autoMemoryDirectory": "own"}', "", "app"),
        ('{"autoMemoryDirectory": 3}', "", "app"),
        ("[" * 100_000, "", "app"),
        ("[]", "", "app"),
        ("{}", "short", "short"),
        ("{}", "../own", "app"),
    ],
)
def test_a_person_may_have_moved_it(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, name: str, found: str | None
) -> None:
    """The person's settings and environment are followed; what makes no sense there is not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CODE_PROJECT_DIR_NAME", name)
    places = {None: None, "app": memory_of(config, slug(tmp_path / "app")), "short": memory_of(config, "short")}
    (tmp_path / "own").mkdir()
    note_writer(config)("settings.json", settings.replace("%s", tmp_path.as_posix()))
    note_writer(tmp_path / "app")(".claude/settings.json", json.dumps({"autoMemoryDirectory": str(tmp_path / "own")}))
    assert claude_memory.folder() == {**places, "own": tmp_path / "own"}[found]


@pytest.mark.skipif(os.name == "nt", reason="links of Unix")
def test_no_link_leads_out_of_it(config: Path, tmp_path: Path, book: Spellbook) -> None:
    """A memory that is a link out of Claude Code's folder is none, and a linked file in one is not read."""
    note_writer(tmp_path)("elsewhere/x.md", "The heron is elsewhere.")
    memory = memory_of(config, slug(tmp_path / "app"))
    note_writer(tmp_path)("elsewhere/list.md", "[Told outside](feedback_testing.md)")
    (memory / "MEMORY.md").unlink()
    for name, target in (("x.md", "x.md"), ("MEMORY.md", "list.md")):
        (memory / name).symlink_to(tmp_path / "elsewhere" / target)
    wanted(book)
    answer = book.wikis.of_claude("find", ["heron"], limit=5)
    assert answer
    assert [(hit.path, hit.title) for hit in answer.hits] == [(str(memory / "feedback_testing.md"), "feedback_testing")]
    other = config / "projects" / slug(tmp_path / "other")
    other.mkdir()
    (other / "memory").symlink_to(tmp_path / "elsewhere")
    assert claude_memory.folder(project=str(tmp_path / "other")) is None


# -- searched beside the vault; see `claude_memory.tesh`


def test_what_cannot_be_searched(book: Spellbook, memory: Path, write_note: Write) -> None:
    """
    A memory that cannot be searched is named below the answer of the vault; a large file in one adds no line. A search
    changes nothing in it.
    """
    wanted(book)
    write_note("heron.md", "# Heron\n\nThe heron tests of the vault run at night, with two processes.")
    note_writer(memory)("large.md", f"The kingfisher is large.\n{'x' * 2_100_000}")
    before = state_of(memory)

    async def conversation(agent: Agent) -> None:
        assert "Claude Code" not in await agent.call("find", keywords=["kingfisher"])
        documents = list(book.documents)
        book.documents[:] = [book] * 32  # as many folders of documents as may be open
        text = await agent.call("find", keywords=["heron"])
        assert "run at night" in text
        assert "Claude Code's own memory was not searched: 32 folders" in text
        book.documents[:] = documents

    talk(book, conversation)
    assert state_of(memory) == before


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_who_asks_from_elsewhere_is_told_nothing(book: Spellbook, memory: Path, door: str) -> None:
    """It is a person's on this machine: a server over HTTP does not search it."""
    wanted(book)

    async def ask() -> str:
        async with Client(app.build(book, live=False, door=door)) as client:
            return str(await client.call_tool("find", {"keywords": ["heron"]}))

    assert ("Claude Code" in anyio.run(ask)) is (door == "stdio")


@pytest.mark.parametrize("where", ["vault", "data"])
def test_a_vault_cannot_switch_it_on(
    book: Spellbook, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The answer counts outside the vault alone, and a memory that lies in the vault is found there once."""
    if where == "vault":
        monkeypatch.setenv("SPELLBOOK_DATA", str(book.config.vault))
    else:
        note_writer(memory.parents[2])("settings.json", json.dumps({"autoMemoryDirectory": str(book.config.vault)}))
    wanted(book)
    assert claude_memory.beside(book.config.vault) is None


def test_it_is_not_changed(book: Spellbook, memory: Path, write_note: Write) -> None:
    """A revision and an erasure of a file in it are refused with the reason; nothing changes there."""
    wanted(book)
    before, path = state_of(memory), str(memory / "feedback_testing.md")

    async def conversation(agent: Agent) -> None:
        for tool, more in (("revise", {"content": "x"}), ("revise", {"append": "x"}), ("erase", {})):
            for id in (path, f"{path}#x"):
                refused = await agent.refused(tool, chunk_id=id, **more)
                assert refused.startswith("PERMISSION_DENIED")
                assert "which Spellbook only reads. Change it in Claude Code" in refused

    talk(book, conversation)
    with pytest.raises(PermissionDenied):
        book.erase(path, hard=True)
    assert state_of(memory) == before
    assert held(memory).keys() == {"MEMORY.md", "feedback_testing.md"}
