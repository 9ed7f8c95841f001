"""
Killed at any moment, repaired by the next run.

SPELLBOOK_CRASHES is the number of kills for each test (10 by default, 50 for the long form).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import spellbook
from tests.helpers import held
from tests.scratch import assert_equal_to_scratch

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("SPELLBOOK_CRASHES", "10"))
SCRIBE = """
import sys
import spellbook
with spellbook.open(sys.argv[1]) as book:
    for i in range(1000):
        text = f"crashword{sys.argv[2]}x{i} " + "the tide table of the harbor " * 20
        done = book.scribe({"text": text, "metadata": {"topic": "crash", "keywords": ["a", "b", "c"]}}, force=True)
        print(f"crashword{sys.argv[2]}x{i}", done.written[0].path, flush=True)
"""


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault of 300 notes."""
    monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    folder = tmp_path / "vault"
    for i in range(300):
        file = folder / f"{i % 10}" / f"note {i}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Note {i}\n\nlead {i}\n\n## One\n\n{'granite ' * (i % 40)}{i}\n\n## Two\n\nmeadow {i}\n")
    return folder


def killed(args: list[str], after: float, *, begun: bool = False) -> str:
    """Run a child, SIGKILL it some seconds after its start, or its first line if it must have `begun`; return its output."""
    child = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout
    first = child.stdout.readline() if begun else ""
    time.sleep(after)
    child.kill()
    return first + child.communicate()[0]


def reindexed(vault: Path) -> dict[str, object]:
    """Run `spellbook reindex` and return its report."""
    done = subprocess.run(
        [sys.executable, "-m", "spellbook", "--vault", str(vault), "reindex", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def test_reindex_killed(vault: Path, tmp_path: Path) -> None:
    """After SIGKILL at random moments of a reindex the next one completes the index, and the vault is unchanged."""
    random.seed(3)
    before = {file: file.read_bytes() for file in vault.rglob("*.md")}
    for i in range(ROUNDS):
        for file in random.sample(sorted(before), 30):
            before[file] = file.read_bytes() + f"\nround {i}\n".encode()
            file.write_bytes(before[file])
        killed(
            [sys.executable, "-m", "spellbook", "--vault", str(vault), "reindex", "--quiet"],
            0.15 + random.random() * 1.2,
        )
        if i % 5 == 4:
            reindexed(vault)
            assert_equal_to_scratch(vault, tmp_path / f"scratch {i}")
    reindexed(vault)
    assert_equal_to_scratch(vault, tmp_path / "scratch")
    assert {file: file.read_bytes() for file in vault.rglob("*") if file.is_file()} == before


def test_scribe_killed(vault: Path, tmp_path: Path) -> None:
    """After SIGKILL at random moments every acknowledged memory is found, and no file is half written."""
    random.seed(4)
    acknowledged: dict[str, str] = {}
    for i in range(ROUNDS):
        lines = killed([sys.executable, "-c", SCRIBE, str(vault), str(i)], random.random(), begun=i % 3 > 0)
        acknowledged |= dict(line.split(" ", 1) for line in lines.splitlines() if " " in line and line.endswith(".md"))
    assert acknowledged
    reindexed(vault)
    for file in vault.rglob("knowledge/**/*.md"):
        text = file.read_text()
        assert text.startswith("---\nid: ")
        assert text.endswith("harbor \n")
    with spellbook.open(vault) as book:
        for word, path in acknowledged.items():
            assert [hit.path for hit in book.find(word).hits] == [path]
    assert_equal_to_scratch(vault, tmp_path / "scratch")
    for stray in vault.rglob(".spellbook-*.tmp"):
        # A temporary file of a killed process holds nothing that anybody was told is kept.
        assert not stray.name.endswith(".md")


MV = """
import os, signal, sys
import spellbook
left = int(sys.argv[2])
def hook(event, arguments):
    global left
    if event in {"os.rename", "os.remove", "os.mkdir", "os.symlink"}:
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
with spellbook.open(sys.argv[1]) as book:
    book.reindex()
    sys.addaudithook(hook)
    book.move(sys.argv[3], sys.argv[4])
"""


@pytest.mark.parametrize(("old", "new"), [("a", "b/c"), ("a/x.md", "y.md")], ids=["folder", "note"])
def test_mv_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """After SIGKILL between any two disk operations nothing is lost, and undo restores every byte."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    texts = {
        "a/x.md": "# X\n\n[[z]] [p](p.png) [out](../home.md)\n",
        "a/z.md": "# Z\n\n[x](x.md) [[a/x]]\n",
        "home.md": "[[a/x]] [[x]] ![p](a/p.png)\n",
        "log/1.md": "[x](../a/x.md#x) [[z]]\n",
        "log/2.md": f"[[{new.removesuffix('.md')}]] [x](../b/c/x.md)\n",
    }
    undone = 0
    for step in range(1, 100):
        vault = tmp_path / f"vault {step}"
        monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / f"state {step}"))
        for path, text in {**texts, "a/p.png": "png"}.items():
            (vault / path).parent.mkdir(parents=True, exist_ok=True)
            (vault / path).write_text(text)
        before = held(vault)
        child = subprocess.run([sys.executable, "-c", MV, str(vault), str(step), old, new], check=False)
        assert len([path for path in held(vault) if ".spellbook-" not in path]) == len(before)
        with spellbook.open(vault) as book:
            if entries := book.log():
                assert [entry.verb for entry in entries] == ["mv"]
                undone += entries[0].state == "unfinished"
                book.undo()
            book.reindex()
        assert {path: data for path, data in held(vault).items() if ".spellbook-" not in path} == before
        assert_equal_to_scratch(vault, tmp_path / f"scratch {step}")
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL
    assert undone > 3
