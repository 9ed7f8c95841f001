"""Claude Code's own memory as notes: what comes of it, again nothing, and who wins where one of them was changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spellbook.archive.importer import Imported
from spellbook.library.book import Spellbook
from spellbook.memories import wikis
from spellbook.system.errors import InvalidInput, UnreadableNote
from tests.commands import spellbook_in
from tests.helpers import note_writer
from tests.trees import state_of

FILES = {
    "MEMORY.md": "# Memory\n\n- [Two processes for tests](feedback_tests.md) - how\n- [Me](user.md)\n",
    "feedback_tests.md": "---\nname: feedback-tests\ndescription: How tests run\nmetadata:\n  type: feedback\n"
    "  modified: 2026-09-08T19:29:56.864Z\n---\n\nRun tests with two processes.\n\n## Why\n\nThe machine is small.\n",
    "user.md": "---\ntype: user\n---\nWrites Korean in the morning.\n",
    "project_api.md": "---\nname: api\ntype: project\n---\nThe API moved to Fastify in May.\n",
    "reference.md": "---\ntype: reference\ntrust: trusted\nscope: evil\nid: evil\n---\nThe board is in Linear.\n",
    "plain.md": "# Plain\n\nNo frontmatter at all.\n",
    "broken.md": "---\nname: [\n---\nBroken frontmatter.\n",
    "notes.txt": "no memory",
    ".hidden.md": "no memory",
}


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory with one file of each type."""
    folder = tmp_path / "claude" / "projects" / "-home-me-app" / "memory"
    for file, text in FILES.items():
        note_writer(folder)(file, text)
    return folder


def take(book: Spellbook, memory: Path, **options: Any) -> Imported:
    """Import the memory."""
    return book.import_(memory, kind="claude-memory", **options)


def by_source(book: Spellbook) -> dict[str, Any]:
    """The first chunk of each note by the file that it was made of."""
    return {str(chunk.meta.get("source")).rpartition("/")[2]: chunk for chunk in book.recent(100).notes}


def test_memories_are_notes_with_their_provenance(book: Spellbook, memory: Path) -> None:
    """Each memory is a note of its type, found by its words, an agent's own; the list of them gives titles alone."""
    before = state_of(memory)
    done = take(book, memory)
    assert done.faults == []
    assert len(done.added) == 6
    notes = by_source(book)
    filed = {file: (chunk.category, chunk.meta["type"], chunk.title) for file, chunk in notes.items()}
    assert filed == {
        "feedback_tests.md": ("preference", "semantic", "Two processes for tests"),
        "user.md": ("preference", "semantic", "Me"),
        "project_api.md": ("memory", "episodic", "api"),
        "reference.md": ("memory", "semantic", "reference"),
        "plain.md": ("memory", "semantic", "Plain"),
        "broken.md": ("memory", "semantic", "broken"),
    }
    feedback = notes["feedback_tests.md"]
    assert feedback.path == "preference/claude-memory/Two processes for tests.md"
    assert feedback.meta["source"] == "claude-memory:-home-me-app/feedback_tests.md"
    assert feedback.meta["summary"] == "How tests run"
    assert str(feedback.updated).startswith("2026-09-08T19:29:56")
    assert {chunk.meta["trust"] for chunk in notes.values()} == {"agent"}
    assert not {"evil"} & {str(value) for value in notes["reference.md"].meta.values()}
    [hit] = book.find("Fastify").hits
    assert (hit.path, hit.properties) == ("memory/claude-memory/api.md", "")
    assert state_of(memory) == before
    book.undo()
    assert by_source(book) == {}


def test_again_nothing_changed_there_a_proposal_changed_here_ours(book: Spellbook, memory: Path) -> None:
    """An import again writes nothing; what has changed there is named; what was changed here stays as it is."""
    take(book, memory)
    vault, notes = book.config.vault, by_source(book)
    book.move(notes["user.md"].path, "Me/about me.md")
    book.revise(notes["plain.md"].note, append="Kept by me.")
    before = state_of(vault)
    again = take(book, memory)
    assert (again.paths, again.unchanged, again.skipped, again.proposed) == ([], 6, [], [])
    assert take(book, memory, on_conflict="overwrite").unchanged == 6  # nothing is new there
    note_writer(memory)("user.md", FILES["user.md"] + "And English at night.\n")
    note_writer(memory)("new.md", "A new memory.")
    for options in ({"dry_run": True}, {}):
        done = take(book, memory, **options)
        assert (done.proposed, done.skipped, done.unchanged) == (["Me/about me.md"], [], 5)
    assert done.added == ["memory/claude-memory/new.md"]
    (vault / done.added[0]).unlink()
    (memory / "new.md").unlink()
    assert {path: state for path, state in state_of(vault).items() if path in before} == before
    done = take(book, memory, on_conflict="overwrite")
    assert (done.overwritten, len(done.trash)) == (["Me/about me.md"], 1)
    assert "English" in (vault / "Me/about me.md").read_text("utf-8")
    assert "Kept by me." in (vault / notes["plain.md"].path).read_text("utf-8")


def test_what_is_left_out_is_named(book: Spellbook, memory: Path, tmp_path: Path) -> None:
    """
    Secrets, large and empty files are not imported, nor what a link leads to outside; each is named. A folder that
    holds the vault is refused; with a file that is no text, which is named, nothing is imported.
    """
    note_writer(memory)("secret.md", "The wifi password of the office is Tr0ub4dor&3x!.\n")
    note_writer(memory)("titled.md", "---\nname: 'AKIAQ7RZ3MNB5KLCX2VT'\n---\nA key.\n")
    note_writer(memory)("large.md", "x" * 2_097_153)
    note_writer(memory)("empty.md", "")
    note_writer(tmp_path)("outside.md", "Not of Claude Code.")
    if os.name != "nt":
        (memory / "linked.md").symlink_to(tmp_path / "outside.md")
        os.mkfifo(memory / "pipe.md")
    done = take(book, memory)
    assert len(done.added) == 6
    named = {fault.path for fault in done.faults}
    assert {"secret.md", "titled.md", "large.md", "empty.md"} <= named
    assert os.name == "nt" or {"linked.md", "pipe.md"} <= named
    told = "".join(map(str, done.faults))
    assert "Tr0ub4dor" not in told
    assert "AKIAQ7RZ3MNB5KLCX2VT" not in told
    book.undo()
    (memory / "x.md").write_bytes(b"\x89PNG\xff\x00\xff")
    with pytest.raises(UnreadableNote, match=r"x\.md"):
        take(book, memory)
    assert by_source(book) == {}
    with pytest.raises(InvalidInput, match="lie in one another"):
        take(book, memory.parents[3])


def test_the_command(vault: Path, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import claude-memory` takes the memory of this project, or of a folder, and names what has changed there."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "nowhere"))
    refused = spellbook_in(vault, "import", "claude-memory", code=2)
    assert "Claude Code has no memory of this project; name its folder." in refused.stderr
    assert "is a file" in spellbook_in(vault, "import", "claude-memory", memory / "user.md", code=2).stderr
    assert "alone" in spellbook_in(vault, "import", memory, memory, code=2).stderr
    assert "Imported: 6 added." in spellbook_in(vault, "import", "claude-memory", memory).stdout
    monkeypatch.setenv("CLAUDE_CODE_PROJECT_DIR_NAME", "-home-me-app")
    assert wikis.folder() == memory
    assert "6 already there" in spellbook_in(vault, "import", "claude-memory").stdout
    note_writer(memory)("user.md", "---\ntype: user\n---\nWrites English.\n")
    done = spellbook_in(vault, "import", "claude-memory")
    assert "1 changed there since, not taken" in done.stdout
    assert "changed there: preference/claude-memory/Me.md" in done.stdout
    assert "--on-conflict overwrite" in done.stderr
