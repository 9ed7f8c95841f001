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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell):
    """The script asks spellbook, and its shell, if it is here, finds no syntax error."""
    script = spellbook("completion", shell).stdout
    assert f"_SPELLBOOK_COMPLETE={shell}_complete" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=PATIENCE)
