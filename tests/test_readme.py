"""The READMEs say what is so: their tables are those of the code, and their examples run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spellbook import golden, models
from spellbook.cli import main
from spellbook.install.clients import CLIENTS, entry, places
from spellbook.notes import parse
from tests.readme_tables import KOREAN, README, filled

BLOCK = re.compile(r"^(<!-- example -->\n+)?```(\w+)\n(.*?)^```$", re.S | re.M)
LEFT_OUT = ("pip install", "-m venv", "make ", "model pull")
"""What a line of an example holds that is not run: it would install or download something, or has a test of its own."""


def blocks(file: Path) -> list[tuple[bool, str, str]]:
    """Every block of code: whether it is an example to run, its language and its text."""
    return [(bool(marked), language, text) for marked, language, text in BLOCK.findall(file.read_text("utf-8"))]


def test_tables_are_up_to_date() -> None:
    """Tools and commands in the README are those there are; `make readme` draws them anew."""
    text = README.read_text("utf-8")
    assert filled(text) == text, "run `make readme`"
    assert "| `rest_end` |" in text
    assert "| `spellbook erase ID` |" in text


def test_the_korean_one_says_the_same() -> None:
    """It has the same sections, the same code but for its comments, and the same commands, tools, places and variables in its tables."""
    english, korean = ([*_outline(file)] for file in (README, KOREAN))
    assert korean == english


def _outline(file: Path) -> list[str]:
    text = file.read_text("utf-8")
    code = [re.sub(r"\s+# .*$", "", each, flags=re.M) for marked, language, each in blocks(file) if language != "markdown"]
    prose = BLOCK.sub("", text)
    heads = [heading for heading in re.findall(r"^#+(?= )", prose, re.M)]
    named = re.findall(r"^\| (`[^|]+`) \|", prose.replace("\\|", "/"), re.M)
    return [*heads, *code, *named]


@pytest.mark.parametrize("file", [README, KOREAN], ids=["en", "ko"])
def test_it_names_no_other_command(file: Path) -> None:
    """Every `spellbook VERB` that is shown is a command."""
    verbs = re.findall(r'(?:^|[\s/|`])spellbook (?:--vault (?:"[^"]*"|\S+) )?([a-z]+)', file.read_text("utf-8"), re.M)
    assert verbs
    assert set(verbs) <= main.commands.keys()


def test_whatever_can_run_is_run() -> None:
    """Blocks of commands and of code are examples, but for those of nothing but lines that are left out."""
    for marked, language, text in blocks(README):
        if not marked and language in {"bash", "python", "sh"}:
            assert all(any(word in line for word in LEFT_OUT) for line in text.splitlines()), text


def test_what_is_shown_is_valid() -> None:
    """Settings are what `install` writes, queries are read by `check`, and the memory is one."""
    shown = {language: [text for _, each, text in blocks(README) if each == language] for language in ("json", "yaml", "markdown")}
    [settings], [queries], [_, memory] = shown["json"], shown["yaml"], shown["markdown"]
    arguments = entry(CLIENTS["claude-desktop"], Path("/home/you/notes"), "", {})["args"]
    assert json.loads(settings)["mcpServers"]["spellbook"]["args"] == arguments[-3:]
    assert [query.mode for query in golden.parse(queries, "queries.yaml")] == ["search", "memorize", "search"]
    note = parse("decision/infra/sessions.md", memory.encode())
    assert not note.faults
    assert (note.declared_id, note.topic, note.category, len(note.questions)) == ("01KAJ3W5V0ZT4N9GJ4X0QK8R1C", "infra", "decision", 1)


def test_models_are_named_as_they_are_understood() -> None:
    """Every embedder and reranker that an example sets is one."""
    text = README.read_text("utf-8")
    embedders, rerankers = (re.findall(rf"export SPELLBOOK_{kind}=(\S+)", text) for kind in ("EMBEDDER", "RERANKER"))
    assert len([models.create(name) for name in embedders]) == 5
    assert all(models.reranker(name) for name in rerankers)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for bash")
def test_examples_run(tmp_path: Path) -> None:
    """The examples, one after another as a reader would type them, all succeed."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SPELLBOOK_STATE": str(tmp_path / "state"),
        "SPELLBOOK_EMBEDDER": "hash",
    }
    places("claude-desktop", sys.platform, environment, home)[0].folder.mkdir(parents=True)  # as if it had been started once
    examples = [(language, text) for marked, language, text in blocks(README) if marked]
    assert {language for language, _ in examples} == {"bash", "python"}
    for language, text in examples:
        lines = [line for line in text.splitlines() if not any(word in line for word in LEFT_OUT)]
        command = [sys.executable, "-c"] if language == "python" else ["bash", "-euo", "pipefail", "-c"]
        done = subprocess.run([*command, "\n".join(lines)], env=environment, cwd=home, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout
