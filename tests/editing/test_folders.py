"""Where agents write: below the chosen folder, else in the folder that stands for a category, else by its name."""

from __future__ import annotations

import json

import pytest

from spellbook.cli import output
from spellbook.library import book as books
from spellbook.system.errors import SpellbookError
from tests.commands import spellbook_in

CATEGORIES = '[categories]\n"#plan" = "project"\n"*/p.md" = "project"\n"Projects/" = "Project"\n"Brain/" = "memory"\n'


def written(vault, settings):
    """Write by each way that agents have, and return the folders."""
    (vault / ".spellbook").mkdir(exist_ok=True)
    (vault / ".spellbook" / "config.toml").write_text(settings, "utf-8")
    exported = vault.parent / "mem0.json"
    exported.write_text(json.dumps([{"id": "m1", "memory": "Likes tea in the morning."}]), "utf-8")
    with books.open(vault, embedder="hash") as book:
        chunks = [
            {"text": f"Heron {topic} speaks.", "metadata": {"topic": topic, "category": "project", "keywords": ["a"]}}
            for topic in ("Heron", "Projects/Heron")
        ]
        paths = [note.path for note in book.scribe_all(chunks).written]
        paths.append(book.memories.remember("The sky is blue.")["path"])
        paths.append(book.memories.decisions.save("db", "We use Postgres.")["path"])
        paths.append(book.memories.articles.save("a talk", ["web"], text="A page about tides. " * 9)["path"])
        paths += book.import_(exported).added
    return [path.rpartition("/")[0] for path in paths]


@pytest.mark.parametrize(
    ("settings", "folders"),
    [
        pytest.param(
            "",
            ["project/Heron", "project/Projects/Heron", "memory/inbox", "decision/db", "article/web", "memories/mem0"],
            id="neither",
        ),
        pytest.param(
            CATEGORIES,
            ["Projects/Heron", "Projects/Heron", "Brain/inbox", "decision/db", "article/web", "Brain/mem0"],
            id="folders of categories",
        ),
        pytest.param(
            f'[folders]\nmemories = "Agent/말/"\n{CATEGORIES}',
            [
                *("Agent/말/project/Heron", "Agent/말/project/Projects/Heron", "Agent/말/memory/inbox"),
                *("Agent/말/decision/db", "Agent/말/article/web", "Agent/말/memories/mem0"),
            ],
            id="one folder",
        ),
    ],
)
def test_where_agents_write(vault, settings, folders):
    """One rule for `scribe`, memories, decisions, articles and imported memories."""
    assert written(vault, settings) == folders


def test_init_with_categories_leads_there(vault, write_note):
    """After `init --categories` an agent's note of a project lies beside the person's."""
    write_note("Projects/Heron/Plan.md", "# Plan\n\nHeron speaks HTTP.")
    spellbook_in(vault, "init", str(vault), "--categories")
    labels = ("--topic", "Heron", "--category", "project", "-k", "a", "-k", "b", "-k", "c")
    done = spellbook_in(vault, "scribe", "-", *labels, stdin="Heron is written in Rust, since June of last year.")
    assert done.stdout.startswith("Projects/Heron/")


def test_what_is_no_folder_for_notes_is_refused(vault):
    """A folder outside the vault, hidden, excluded or behind a link is named in an error, and nothing is written."""
    (vault / ".spellbookignore").write_text("out/\n", "utf-8")
    (vault.parent / "elsewhere").mkdir()
    (vault / "link").symlink_to(vault.parent / "elsewhere")
    for folder in ("../x", "/etc", ".hidden", "a/.b", "a//b", "~", "C:\\\\x", "out", "link", "a\\u0000"):
        with pytest.raises(SpellbookError, match=r"folders\.memories|inside the vault"):
            written(vault, f'[folders]\nmemories = "{folder}"\n')
    assert not [*vault.rglob("*.md"), *(vault.parent / "elsewhere").iterdir()]


def test_commands_say_what_they_do(vault, write_note, monkeypatch):
    """
    In a long reindex without a terminal a line comes now and then on stderr, none in a short run, with --quiet or
    --json. With the first token this machine's own dashboard asks for one, and `token add` says so; not with a second.
    """
    write_note("a.md", "# A\n\ntext", age=100)
    assert spellbook_in(vault, "reindex").stderr == ""
    monkeypatch.setattr(output, "EVERY", 0.0)
    shown = spellbook_in(vault, "reindex", "--full")
    assert ("reading: 1 of 1 so far" in shown.stderr, "so far" in shown.stdout) == (True, False)
    assert spellbook_in(vault, "reindex", "--full", "--quiet").output == ""
    json.loads(spellbook_in(vault, "reindex", "--full", "--json").output)
    assert "dashboard" in spellbook_in(vault, "token", "add", "phone").stderr
    assert "dashboard" not in spellbook_in(vault, "token", "add", "laptop").stderr
