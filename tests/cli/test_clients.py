"""
Clients on each system: where their settings are, and hooks in lines that the shells of Windows run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spellbook.cli.clients import known_clients, session_hooks
from spellbook.library.book import Spellbook
from tests.commands import spellbook

DESKTOP = "Claude/claude_desktop_config.json"
EXTENSION = "Code/User/globalStorage/saoudrizwan.claude-dev"
LIBRARY, CLI = "Library/Application Support", ".gemini/antigravity-cli"
PACKAGE = "AppData/Local/Packages/Claude_x/LocalCache/Roaming/" + DESKTOP

USUAL = {
    "claude-desktop": (f".config/{DESKTOP}", f"{LIBRARY}/{DESKTOP}", f"Roaming/{DESKTOP}"),
    "claude-code": (".claude.json",) * 3,
    "codex": (".codex/config.toml",) * 3,
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": (".config/Code/User/mcp.json", f"{LIBRARY}/Code/User/mcp.json", "Roaming/Code/User/mcp.json"),
    "copilot-cli": (".copilot/mcp-config.json",) * 3,
    "gemini-cli": (".gemini/settings.json",) * 3,
    "qwen-code": (".qwen/settings.json",) * 3,
    "cline": (".cline/data/settings/cline_mcp_settings.json",) * 3,
    "opencode": (".config/opencode/opencode.jsonc",) * 3,
    "antigravity": (".gemini/config/mcp_config.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "Roaming/Zed/settings.json"),
    "lmstudio": (".lmstudio/mcp.json",) * 3,
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "devin": (".config/devin/mcp_config.json", ".config/devin/mcp_config.json", "Roaming/devin/mcp_config.json"),
    "goose": (".config/goose/config.yaml", ".config/goose/config.yaml", "Roaming/Block/goose/config/config.yaml"),
    "openclaw": (".openclaw/openclaw.json",) * 3,
}
"""The place that each client's documentation names, for Linux, macOS and Windows, from the home folder."""


def test_usual_places(tmp_path: Path) -> None:
    """Each client's settings are looked for in the place of that system first; without it, the client is not there."""
    given = {"APPDATA": str(tmp_path / "Roaming")}
    there = {
        client: tuple(
            known_clients.places(client, system, given, tmp_path)[0].file.relative_to(tmp_path).as_posix()
            for system in ("linux", "darwin", "win32")
        )
        for client in known_clients.CLIENTS
    }
    assert there == USUAL
    for client in known_clients.CLIENTS:
        assert known_clients.found(known_clients.places(client, "win32", given, tmp_path)) is None


@pytest.mark.parametrize(
    ("client", "system", "environ", "there", "expected"),
    [
        ("claude-desktop", "win32", {}, [f"{PACKAGE}.x", f"AppData/Roaming/{DESKTOP}"], PACKAGE),
        ("claude-code", "linux", {}, [".claude/x"], ".claude.json"),
        ("claude-code", "darwin", {"CLAUDE_CONFIG_DIR": "alt"}, ["alt/x"], "alt/.claude.json"),
        ("vscode", "linux", {}, [".config/VSCodium/User/x"], ".config/VSCodium/User/mcp.json"),
        ("codex", "linux", {"CODEX_HOME": "alt"}, ["alt/x"], "alt/config.toml"),
        ("opencode", "darwin", {}, [".config/opencode/x"], ".config/opencode/opencode.json"),
        ("opencode", "linux", {"XDG_CONFIG_HOME": "xdg"}, ["xdg/opencode/x"], "xdg/opencode/opencode.json"),
        ("antigravity", "linux", {}, [".gemini/settings.json"], None),
        ("antigravity", "linux", {}, [f"{CLI}/brain/x"], ".gemini/config/mcp_config.json"),
        ("antigravity", "linux", {}, [f"{CLI}/mcp_config.json"], f"{CLI}/mcp_config.json"),
        ("antigravity", "linux", {}, [f"{CLI}/mcp_config.json", ".gemini/config/x"], ".gemini/config/mcp_config.json"),
        ("gemini-cli", "linux", {}, [f"{CLI}/brain/x", ".gemini/config/x"], None),
        ("gemini-cli", "win32", {"GEMINI_CLI_HOME": "alt"}, ["alt/.gemini/settings.json"], "alt/.gemini/settings.json"),
        ("qwen-code", "win32", {"QWEN_HOME": "alt"}, ["alt/x"], "alt/settings.json"),
        ("copilot-cli", "win32", {"COPILOT_HOME": "alt"}, ["alt/x"], "alt/mcp-config.json"),
        ("cline", "darwin", {"CLINE_DIR": "alt"}, ["alt/data/x"], "alt/data/settings/cline_mcp_settings.json"),
        ("cline", "win32", {"CLINE_DATA_DIR": "alt"}, ["alt/x"], "alt/settings/cline_mcp_settings.json"),
        *(
            ("cline", system, {}, [f"{apps}/{EXTENSION}/x"], f"{apps}/{EXTENSION}/settings/cline_mcp_settings.json")
            for system, apps in (("linux", ".config"), ("darwin", LIBRARY), ("win32", "AppData/Roaming"))
        ),
    ],
)
def test_other_places(
    tmp_path: Path, client: str, system: str, environ: dict[str, str], there: list[str], expected: str | None
) -> None:
    """
    A client is found where its variable, an earlier version or an extension keeps the settings.

    The file of an earlier Antigravity is used only where it is the only one, a package of Windows has its own folder,
    and a variant of VS Code its own file; the folder of another program says nothing.
    """
    for path in there:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    given = {name: str(tmp_path / value) for name, value in environ.items()}
    found = known_clients.found(known_clients.places(client, system, given, tmp_path))
    assert found == (expected and tmp_path / expected)


# -- hooks in the shells of Windows

POWER = shutil.which("pwsh") or shutil.which("powershell") or ""
SHELLS = [
    *(pytest.param((shell, "-c"), id=shell) for shell in ("sh", "bash", "dash", "zsh", "mksh") if shutil.which(shell)),
    pytest.param(
        (POWER, "-NoProfile", "-NonInteractive", "-Command"),
        id="powershell",
        marks=pytest.mark.skipif(not POWER, reason="there is no PowerShell on this machine"),
    ),
]
"""Shells as clients start them; on Windows that is Git's bash or PowerShell."""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("folder", ["노트 it's $(echo x) & `y`", "a\u2019b ; # 나"])
def test_one_line_for_each_shell(tmp_path: Path, shell: tuple[str, ...], folder: str) -> None:
    """
    The line of a hook gives its program the arguments, the variables and the input, whatever they hold.

    Without the program it says the hint alone, or nothing, and ends with 0.
    """
    (tmp_path / folder).mkdir()
    script = tmp_path / folder / "tell.py"
    script.write_text(
        "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['A'], sys.stdin.read()]))", "utf-8"
    )
    command, mark = [sys.executable, str(script), "--vault", f"C:\\{folder}"], session_hooks.mark("메모")
    for program, expected in ((command, [["--vault", f"C:\\{folder}"], folder, "{}"]), (["/gone", "x"], {"a": "it's"})):
        line = session_hooks.any_line(program, {"A": folder}, json.dumps({"a": "it's"})) + mark
        done = subprocess.run([*shell, line], input=b"{}", capture_output=True, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(done.stdout) == expected
    line = session_hooks.any_line(["/gone"], {}, "") + mark
    assert subprocess.run([*shell, line], capture_output=True, check=True).stdout.strip() == b""


def test_a_line_for_powershell_quotes_what_it_holds() -> None:
    """Quotes of PowerShell, also curly ones, are doubled; no backtick is left, which would end the part for it."""
    line = session_hooks.power_line(["C:/it's here/spellbook.exe", "--vault", "C:/a\u2019b`"], {"X": "1 2"}, "")
    program = "'C:/it''s here/spellbook.exe'"
    there = f"if (Get-Command {program} -ErrorAction SilentlyContinue)"
    vault = "('C:/a\u2019\u2019b'+[char]96+'')"
    assert line == f"{there} {{ $env:X = '1 2'; & {program} '--vault' {vault} }} else {{  }}; exit 0"


@pytest.mark.parametrize(
    ("client", "file", "keys"),
    [
        ("claude-code", ".claude/settings.json", {"type", "command", "timeout", "shell"}),
        ("codex", ".codex/hooks.json", {"type", "command", "timeout"}),
    ],
)
def test_hooks_on_windows(
    home: Path, tmp_path: Path, book: Spellbook, monkeypatch: pytest.MonkeyPatch, client: str, file: str, keys: set[str]
) -> None:
    """
    On Windows both clients get one line for PowerShell and Git's bash, which tells of the vault, is found again by its
    mark, takes the place of a line of an earlier version, and goes without a trace.
    """
    settings, strange = home / file, tmp_path / "it's a `노트` $vault"
    settings.parent.mkdir()
    strange.mkdir()
    (strange / "pin.md").write_text("---\npinned: true\ntitle: Pinned here\n---\nRead this first.", "utf-8")
    spellbook("--vault", strange, "reindex", "--words-only")
    spellbook("install", client, "--vault", strange, "--hooks")
    earlier = settings.read_bytes()
    with monkeypatch.context() as seam:
        seam.setattr("sys.platform", "win32")
        spellbook("install", client, "--vault", strange, "--hooks")
        written = settings.read_bytes()
        spellbook("install", client, "--vault", strange, "--hooks")
        assert settings.read_bytes() == written
        assert (written != earlier) == (os.name != "nt")  # there the first lines are of Windows, too
        spellbook("install", client, "--uninstall")
    assert not settings.exists()
    groups = json.loads(written)["hooks"]
    assert {event: len(listed) for event, listed in groups.items()} == dict.fromkeys(json.loads(earlier)["hooks"], 1)
    runs = [run for listed in groups.values() for group in listed for run in group["hooks"]]
    assert all(run.keys() == keys and run.get("shell", "powershell") == "powershell" for run in runs)
    assert all(">$null" in run["command"] and ">/dev/null" in run["command"] for run in runs)
    if os.name != "nt":
        state = {name: value for name, value in os.environ.items() if name != "SPELLBOOK_STATE"}  # the line carries it
        command = ["bash", "-c", groups["SessionStart"][0]["hooks"][0]["command"]]
        while (
            b"context within" in (done := subprocess.run(command, input=b"{}", capture_output=True, env=state)).stderr
        ):
            pass
        assert b"Pinned here" in done.stdout
