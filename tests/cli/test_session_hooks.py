"""Session hooks of Claude Code and Codex: added beside those of others, taken out to the byte."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spellbook.cli.clients import clients
from spellbook.library.book import Spellbook
from tests.commands import spellbook

OTHERS = """\
{
  "model": "opus",
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "say done"}]}
    ],
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check"}]}]
  },
  "허용": ["a"]
}
"""

TEXTS = {
    "no file": None,
    "other hooks": OTHERS,
    "tabs": OTHERS.replace("  ", "\t"),
    "CRLF": OTHERS.replace("\n", "\r\n"),
    "no hooks": '{\n  "model": "opus"\n}\n',
    "hooks, but none": '{\n  "hooks": {}\n}\n',
    "an empty list": '{\n  "hooks": {\n    "Stop": []\n  }\n}\n',
    "one line": '{"hooks": {"Stop": []}, "a": 1}',
    "an empty object": "{}",
    "an empty file": "",
}


@pytest.fixture
def home(home: Path) -> Path:
    """A home folder with Claude Code and Codex in it."""
    (home / ".claude").mkdir()
    (home / ".codex").mkdir()
    return home


install = partial(spellbook, "install", "claude-code")
FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}


def commands(file: Path) -> dict[str, list[str]]:
    """The commands of each event."""
    hooks = json.loads(file.read_text("utf-8-sig"))["hooks"]
    return {event: [run["command"] for group in groups for run in group["hooks"]] for event, groups in hooks.items()}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("client", FILES)
def test_there_and_back(home: Path, vault: Path, client: str, text: str | None) -> None:
    """Whatever the settings are, installing twice adds once, and uninstalling leaves the old bytes, or no file."""
    file = home / FILES[client]
    if text is not None:
        file.write_text(text, "utf-8", newline="")
    told = spellbook("install", client, "--vault", vault, "--hooks", "--recall").stdout
    assert ("open /hooks" in told) == (client == "codex")
    after = file.read_bytes()
    assert {"SessionStart", "UserPromptSubmit", "PreCompact", "SessionEnd"} <= commands(file).keys()
    spellbook("install", client, "--vault", vault, "--hooks", "--recall")
    assert file.read_bytes() == after
    spellbook("install", client, "--uninstall")
    assert (file.read_bytes().decode() if file.exists() else None) == text
    assert not (home / ".claude.json").exists()
    assert not (home / ".codex" / "config.toml").exists()


def test_what_runs_when(home: Path, vault: Path) -> None:
    """
    Each event runs its command of the vault. Codex trusts a hook by its text: if a line here changes, each person has
    to trust it anew.
    """
    capture = ["manual|auto", "capture hook", 5]
    both = {
        "SessionStart": ["startup|resume|clear|compact", "context --session-start --scope x", 5],
        "UserPromptSubmit": [None, "context --prompt --scope x", 5],
    }
    expected = {
        "claude-code": {
            **both,
            "PreCompact": ["manual|auto", "context --reminder --scope x", 5, *capture],
            "SessionEnd": [None, "capture hook", 5],
        },
        "codex": {**both, "PreCompact": capture, "SessionEnd": [None, "capture hook", 3]},
    }
    named = ("--vault", vault, "--scope", "x", "--name", "notes")
    begin, end = (
        shlex.join([*clients.launch(), "--vault", str(vault.resolve()), ""])[:-2],
        '# spellbook hook of "notes"',
    )
    for client, name in FILES.items():
        spellbook("install", client, *named, "--hooks", "--recall", **dict.fromkeys(clients.carried(os.environ)))
        found: dict[str, list[Any]] = {}
        for event, groups in json.loads((home / name).read_text())["hooks"].items():
            for group in groups:
                (run,) = group["hooks"]
                command = run["command"].removeprefix(begin).removesuffix(f" {end}")
                found.setdefault(event, []).extend([group.get("matcher"), command, run["timeout"]])
        assert found == expected[client]


def test_windows_has_no_shell_for_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows Codex has no shell that runs our lines: hooks are refused, and nothing is written."""
    monkeypatch.setattr("sys.platform", "win32")
    assert "POSIX shell" in spellbook("install", "codex", "--hooks", code=2).stderr
    assert list((home / ".codex").iterdir()) == []


def test_what_others_did_since_stays(home: Path, vault: Path, tmp_path: Path) -> None:
    """
    Hooks that were added after ours, and to our group, are left, as is the rest.

    With --project they go into the person's own settings of that project; --dry-run writes nothing. Settings that the
    client cannot read, or of another shape, are named with their line and not touched. A Stop hook of an earlier version
    goes by installing again, and by uninstalling.
    """
    file = home / ".claude" / "settings.json"
    file.write_text(OTHERS, "utf-8")
    install("--vault", vault, "--hooks", "--recall")
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    mine = {"type": "command", "command": "mine"}
    data["hooks"]["SessionStart"][0]["hooks"].append(mine)
    data["hooks"]["Notification"] = [{"hooks": [{"type": "command", "command": "bell"}]}]
    data["hooks"]["Stop"].append({"hooks": [data["hooks"]["PreCompact"][0]["hooks"][0]]})
    file.write_text(json.dumps(data), "utf-8")
    install("--vault", vault, "--hooks")  # without --recall
    assert "UserPromptSubmit" not in commands(file)
    assert commands(file)["Stop"] == ["say done"]
    again = json.loads(file.read_text("utf-8"))
    again["hooks"]["Stop"].append(data["hooks"]["Stop"][1])
    file.write_text(json.dumps(again), "utf-8")
    install("--uninstall")
    left = json.loads(OTHERS)
    left["hooks"] |= {"SessionStart": [{"matcher": "startup|resume|clear|compact", "hooks": [mine]}]}
    left["hooks"]["Notification"] = data["hooks"]["Notification"]
    assert json.loads(file.read_text("utf-8")) == left
    local = tmp_path / "project" / ".claude" / "settings.local.json"
    local.parents[1].mkdir()
    project = ("--vault", vault, "--project", local.parents[1])
    assert "+" in install(*project, "--hooks", "--dry-run").stdout
    assert list(local.parents[1].iterdir()) == []
    for options, is_there in ((("--hooks",), True), (("--uninstall",), False)):
        install(*project, *options)
        assert local.exists() is is_there
    assert json.loads(file.read_text("utf-8")) == left
    (home / ".claude.json").unlink(missing_ok=True)
    for text in ('{"hooks": []}', '{"hooks": {"SessionStart": {}}}', "{broken", '{"a": 1} // mine'):
        file.write_text(text, "utf-8")
        assert "line 1" in install("--vault", vault, "--hooks", code=2).stderr
        assert (file.read_text("utf-8"), (home / ".claude.json").exists()) == (text, False)


@pytest.mark.skipif(os.name == "nt", reason="runs a POSIX shell")
def test_the_hook_runs_as_the_client_runs_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, book: Spellbook
) -> None:
    """The line in the settings, given to a shell elsewhere, tells of the vault, whatever its path holds."""
    strange = tmp_path / "it's a $vault"
    strange.mkdir()
    (strange / "pin.md").write_text("---\npinned: true\ntitle: Pinned here\n---\nRead this first.", "utf-8")
    spellbook("--vault", strange, "reindex", "--words-only")
    install("--vault", strange, "--hooks")
    (line,) = commands(home / ".claude" / "settings.json")["SessionStart"]
    monkeypatch.delenv("SPELLBOOK_STATE")  # the line carries it
    late = b"no context within"  # of a busy machine
    while late in (done := subprocess.run(line, shell=True, input=b"{}", capture_output=True, cwd="/")).stderr:
        pass
    assert b"Pinned here" in done.stdout
