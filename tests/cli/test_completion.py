"""The tab key completes commands and options, in a process as the shell starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.commands import spellbook
from tests.helpers import PATIENCE


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -"), ("zsh", "#compdef spellbook"), ("fish", "complete ")]
)
def test_each_shell_gets_its_script(shell, word):
    """The script is the shell's own, and asks spellbook."""
    shown = spellbook("completion", shell).stdout
    assert word in shown
    assert f"_SPELLBOOK_COMPLETE={shell}_complete" in shown


def test_another_shell_is_wrong_usage():
    """And the answer names the three."""
    assert "fish" in spellbook("completion", "tcsh", code=2).stderr


@pytest.mark.parametrize(
    ("words", "expected"), [("spellbook rec", "plain,recent"), ("spellbook search --fil", "plain,--filter")]
)
def test_the_shell_is_answered(words, expected):
    """What bash asks while a person types is answered, and nothing is opened or made for it."""
    asked = {"_SPELLBOOK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'spellbook'; from spellbook.__main__ import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.splitlines() == [expected]


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_bash_takes_the_script():
    """It has no syntax error."""
    script = spellbook("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=PATIENCE)
