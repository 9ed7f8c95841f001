"""The README says what is so: its tables are those of the code, and its examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spellbook.cli import main
from tests.readme_tables import README, filled

EXAMPLE = re.compile(r"^<!-- example -->\n+```(bash|python)\n(.*?)^```$", re.S | re.M)
LEFT_OUT = ("pip install", "git clone", "make ", "spellbook mcp", "spellbook serve", "spellbook watch")
"""What begins or ends a line of an example that is not run: it would install something, or stay."""


def test_tables_are_up_to_date() -> None:
    """Tools and commands in the README are those there are; `make readme` draws them anew."""
    text = README.read_text("utf-8")
    assert filled(text) == text, "run `make readme`"
    assert "| `rest_end` |" in text
    assert "| `spellbook erase ID` |" in text


def test_it_names_no_other_command() -> None:
    """Every `spellbook VERB` in the README's blocks is a command."""
    blocks = "\n".join(re.findall(r"^```(?:bash|sh)\n(.*?)^```$", README.read_text("utf-8"), re.S | re.M))
    verbs = re.findall(r'(?:^|[\s/|])spellbook (?:--vault (?:"[^"]*"|\S+) )?([a-z]+)', blocks, re.M)
    assert verbs
    assert set(verbs) <= main.commands.keys()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for bash")
def test_examples_run(tmp_path: Path) -> None:
    """The examples, one after another as a reader would type them, all succeed."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SPELLBOOK_STATE": str(tmp_path / "state"),
        "SPELLBOOK_EMBEDDER": "hash",
    }
    examples = EXAMPLE.findall(README.read_text("utf-8"))
    assert {language for language, _ in examples} == {"bash", "python"}
    for language, text in examples:
        lines = [line for line in text.splitlines() if not any(word in line for word in LEFT_OUT)]
        command = [sys.executable, "-c"] if language == "python" else ["bash", "-euo", "pipefail", "-c"]
        done = subprocess.run([*command, "\n".join(lines)], env=environment, cwd=home, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout
