"""
Where agents write: below the chosen folder, else in the folder that stands for a category, else by its name. The guides
that they read before: packaged ones are complete, and take the place of a guide of the vault that makes no sense.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from spellbook.cli import output
from spellbook.editing import rest_guides
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import SpellbookError
from tests.commands import spellbook_in
from tests.helpers import Write
from tests.mcp.agent import talk

CATEGORIES = '[categories]\n"#plan" = "project"\n"*/p.md" = "project"\n"Projects/" = "Project"\n"Brain/" = "memory"\n'


def written(vault: Path, settings: str) -> list[str]:
    """Write by each way that agents have, and return the folders."""
    (vault / ".spellbook").mkdir(exist_ok=True)
    (vault / ".spellbook" / "config.toml").write_text(settings, "utf-8")
    exported = vault.parent / "memory"
    exported.mkdir(exist_ok=True)
    (exported / "tea.md").write_text("Likes tea in the morning.", "utf-8")
    with books.open(vault, embedder="hash") as book:
        chunks = [
            {"text": f"Heron {topic} speaks.", "metadata": {"topic": topic, "category": "project", "keywords": ["a"]}}
            for topic in ("Heron", "Projects/Heron")
        ]
        paths = [note.path for note in book.scribe_all(chunks).written]
        paths.append(book.memories.remember("The sky is blue.")["path"])
        paths.append(book.memories.decisions.save("db", "We use Postgres.")["path"])
        paths.append(book.memories.articles.save("a talk", ["web"], text="A page about tides. " * 9)["path"])
        paths += book.import_(exported, kind="claude-memory").added
    return [path.rpartition("/")[0] for path in paths]


@pytest.mark.parametrize(
    ("settings", "folders"),
    [
        pytest.param(
            "",
            [
                "project/Heron",
                "project/Projects/Heron",
                "memory/inbox",
                "decision/db",
                "article/web",
                "memory/claude-memory",
            ],
            id="neither",
        ),
        pytest.param(
            CATEGORIES,
            ["Projects/Heron", "Projects/Heron", "Brain/inbox", "decision/db", "article/web", "Brain/claude-memory"],
            id="folders of categories",
        ),
        pytest.param(
            f'[folders]\nmemories = "Agent/말/"\n{CATEGORIES}',
            [
                *("Agent/말/project/Heron", "Agent/말/project/Projects/Heron", "Agent/말/memory/inbox"),
                *("Agent/말/decision/db", "Agent/말/article/web", "Agent/말/memory/claude-memory"),
            ],
            id="one folder",
        ),
    ],
)
def test_where_agents_write(vault: Path, settings: Any, folders: list[str] | list[Any]) -> None:
    """One rule for `scribe`, memories, decisions, articles and memories of Claude Code."""
    assert written(vault, settings) == folders


def test_init_with_categories_leads_there(vault: Path, write_note: Write) -> None:
    """After `init --categories` an agent's note of a project lies beside the person's."""
    write_note("Projects/Heron/Plan.md", "# Plan\n\nHeron speaks HTTP.")
    spellbook_in(vault, "init", str(vault), "--categories")
    labels = ("--topic", "Heron", "--category", "project", "-k", "a", "-k", "b", "-k", "c")
    done = spellbook_in(vault, "scribe", "-", *labels, stdin="Heron is written in Rust, since June of last year.")
    assert done.stdout.startswith("Projects/Heron/")


def test_what_is_no_folder_for_notes_is_refused(vault: Path) -> None:
    """A folder outside the vault, hidden, excluded or behind a link is named in an error, and nothing is written."""
    (vault / ".spellbookignore").write_text("out/\n", "utf-8")
    (vault.parent / "elsewhere").mkdir()
    refused = ["../x", "/etc", ".hidden", "a/.b", "a//b", "~", "C:\\\\x", "out", "a\\u0000"]
    if sys.platform != "win32":  # where links need a right
        (vault / "link").symlink_to(vault.parent / "elsewhere")
        refused.append("link")
    for folder in refused:
        with pytest.raises(SpellbookError, match=r"folders\.memories|inside the vault"):
            written(vault, f'[folders]\nmemories = "{folder}"\n')
    assert not [*vault.rglob("*.md"), *(vault.parent / "elsewhere").iterdir()]


def test_commands_say_what_they_do(vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    In a long reindex without a terminal a line comes now and then on stderr, none in a short run, with --quiet or
    --json. With the first token this machine's own dashboard asks for one, and `token add` says so; not with a second.
    """
    write_note("a.md", "# A\n\ntext", age=100)
    assert spellbook_in(vault, "reindex").stderr == ""
    monkeypatch.setattr(output, "EVERY", 0.0)
    shown = spellbook_in(vault, "reindex", "--full")
    assert ("reading: 100 % so far" in shown.stderr, "so far" in shown.stdout) == (True, False)
    assert spellbook_in(vault, "reindex", "--full", "--quiet").output == ""
    json.loads(spellbook_in(vault, "reindex", "--full", "--json").output)
    assert "dashboard" in spellbook_in(vault, "token", "add", "phone").stderr
    assert "dashboard" not in spellbook_in(vault, "token", "add", "laptop").stderr


# -- guides


PARTS = {"principles", "ideal_chunk_size", "examples"}


@pytest.mark.parametrize("language", rest_guides.LANGUAGES)
def test_the_packaged_guides_say_everything(language: str) -> None:
    """Each language has three guides, and each list in them has one-line items."""
    notes = rest_guides.packaged(language)
    assert set(notes) == {"chunking", "metadata", "examples"}
    chunking, rules = rest_guides.chunking(notes), rest_guides.metadata_rules(notes)
    assert set(chunking) == PARTS
    # Without their heading they must not read as things to keep.
    negative = "^Keep no" if language == "en" else "않습니다|만 적습니다|적고|옮기지 말고|쓰지 말고"
    assert all(re.search(negative, item) for item in chunking["principles"][-7:])
    assert 0 < chunking["ideal_chunk_size"]["min_tokens"] < chunking["ideal_chunk_size"]["max_tokens"]
    assert 0 < rules["keyword_count"]["min"] < rules["keyword_count"]["max"]
    ends = ("guidelines", "extraction", "category", "importance")
    lists = [chunking["principles"], *(value for key, value in rules.items() if key.endswith(ends))]
    assert len(lists) == 6
    assert all(lists)
    assert all(item and "\n" not in item and not item.startswith(("-", "*")) for items in lists for item in items)
    assert all(example.startswith("## ") for example in chunking["examples"])


@pytest.mark.parametrize("language", rest_guides.LANGUAGES)
def test_what_rest_gives_has_a_size(book: Spellbook, write_note: Write, language: str) -> None:
    """However long the guides of a vault are, principles come first and the answer has at most 3,500 letters."""
    principles = "\n".join(f"- {number}: {'keep ' * 20}" for number in range(2_000))
    names = {"en": ("Principles", "Keywords"), "ko": ("원칙", "키워드")}[language]
    write_note("a.md", f"## {names[0]}\n\n{principles}\n", category="system", guide="chunking", language=language)
    write_note("b.md", f"## {names[1]}\n\n- {'x' * 90_000}\n", category="system", guide="metadata", language=language)
    text = talk(book, lambda agent: agent.call("rest", language=language))
    assert 2_500 < len(text) <= 3_500
    given = json.loads(text)
    assert given["chunking_guide"]["principles"][0].startswith("0: keep")
    assert given["metadata_rules"]["keyword_guidelines"] == []
    assert "system" in given["status"]


def test_a_guide_that_makes_no_sense_is_passed_over(book: Spellbook, write_note: Write) -> None:
    """An invalid number in a guide is ignored; if a guide disappears or breaks meanwhile, `rest` still answers."""
    packaged = book.rest()[1:]
    guide = {"category": "system", "guide": "chunking", "language": "en"}
    for value in ("many", "-3", "0", "true", "[1]"):
        file = write_note("guide.md", "text", **guide, max_tokens=value)
        assert book.rest()[1]["ideal_chunk_size"] == packaged[0]["ideal_chunk_size"]
    file.write_bytes(b"\xff\xfa" * 50)
    assert book.rest()[1:] == packaged
    file.unlink()
    assert book.rest()[1:] == packaged
