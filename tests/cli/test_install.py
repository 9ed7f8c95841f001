"""Installing into clients' settings keeps every other byte, and uninstalling leaves no trace."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import click
import pytest

from spellbook.capture.ledger import CLAUDE_MEMORY, Ledger
from spellbook.cli import main, output
from spellbook.cli.clients import jsonc, known_clients, session_hooks, settings_entry
from spellbook.cli.clients.changes import FileChange
from spellbook.settings import environment
from spellbook.system.errors import Conflict
from spellbook.text.json_values import mapping_of
from tests.cli.conftest import AT, DESKTOP, servers
from tests.commands import on_a_terminal, spellbook
from tests.helpers import PATIENCE


@pytest.fixture
def desktop(home: Path) -> Path:
    """Settings of Claude Desktop with other servers in them."""
    file = known_clients.places("claude-desktop", sys.platform, os.environ, home)[0].file
    file.parent.mkdir(parents=True)
    file.write_text(DESKTOP, "utf-8", newline="")
    file.chmod(0o600)
    return file


install = partial(spellbook, "install")


# -- as a person does it


def test_there_and_back(desktop: Path, vault: Path, tmp_path: Path) -> None:
    """
    Beside other servers, our entry comes and goes: the file then has its old bytes and mode, as have its copies.

    A second vault has its own entry, which is removed alone. An entry that changes keeps what its owner added to it.
    What the client or its owner added to the file since stays, and an object for servers that was made for ours goes.
    Another server of our name is neither replaced nor removed, unless forced. Without a vault there is nothing to
    install; uninstalling needs none.
    """
    nowhere, other = tmp_path / "nowhere", tmp_path / "other"
    other.mkdir()
    assert "spellbook init" in install("claude-desktop", "--vault", nowhere, code=1).stderr
    assert "has no 'spellbook'" in install("claude-desktop", "--uninstall", "--vault", nowhere).stdout
    before = desktop.read_bytes()
    install("claude-desktop", "--vault", vault)
    ours = servers(desktop)["spellbook"]
    assert Path(ours["command"]).is_absolute()
    install("claude-desktop", "--vault", vault, "--name", "work")
    install("claude-desktop", "--uninstall", "--name", "work")
    desktop.write_text(jsonc.put(desktop.read_text("utf-8"), (*AT, "disabled"), True), "utf-8")
    install("claude-desktop", "--vault", other)
    assert servers(desktop)["spellbook"] == ours | {"args": ["--vault", str(other), "mcp"], "disabled": True}
    install("claude-desktop", "--uninstall")
    assert json.loads(desktop.read_text("utf-8")) == json.loads(before)
    desktop.write_bytes(before)
    install("claude-desktop", "--vault", vault)
    install("claude-desktop", "--uninstall")
    assert desktop.read_bytes() == before
    copies = [file for file in desktop.parent.iterdir() if file != desktop]
    assert before in [copy.read_bytes() for copy in copies]
    assert os.name == "nt" or {stat.S_IMODE(file.stat().st_mode) for file in (desktop, *copies)} == {0o600}

    install("claude-desktop", "--vault", vault)
    desktop.write_text(jsonc.put(desktop.read_text("utf-8"), ("mcpServers", "later"), {"command": "x"}), "utf-8")
    desktop.write_text(jsonc.put(desktop.read_text("utf-8"), ("preferences", "theme"), "light"), "utf-8")
    install("claude-desktop", "--uninstall")
    expected = json.loads(DESKTOP)
    expected["mcpServers"]["later"] = {"command": "x"}
    expected["preferences"]["theme"] = "light"
    assert json.loads(desktop.read_text("utf-8")) == expected
    desktop.write_text('{"theme": "dark"}')
    install("claude-desktop", "--vault", vault)
    desktop.write_text(json.dumps({**json.loads(desktop.read_text()), "theme": "light"}, indent=2))
    install("claude-desktop", "--uninstall")
    assert json.loads(desktop.read_text()) == {"theme": "light"}

    desktop.write_text('{"mcpServers": {"spellbook": {"command": "npx", "args": ["wizard"]}}}')
    before = desktop.read_bytes()
    assert "--name" in install("claude-desktop", "--vault", vault, code=2).stderr
    assert "--name" in install("claude-desktop", "--uninstall", code=2).stderr
    assert desktop.read_bytes() == before
    install("claude-desktop", "--vault", vault, "--force")
    assert settings_entry.is_ours(servers(desktop)["spellbook"])


def test_the_client_starts_spellbook(
    desktop: Path, vault: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    The entry's command answers `initialize` from any working folder.

    Variables that decide which index is used are copied into it, with absolute paths; keys never are, and a message
    says so.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPELLBOOK_STATE", "state")
    monkeypatch.setenv("SPELLBOOK_WIKI", os.pathsep.join(["docs", str(tmp_path / "manual")]))
    monkeypatch.setenv("SPELLBOOK_API_KEY", "sk-secret")
    assert "SPELLBOOK_API_KEY" in install("claude-desktop", "--vault", vault).stderr
    assert "sk-secret" not in desktop.read_text("utf-8")
    ours = servers(desktop)["spellbook"]
    wikis = os.pathsep.join([str(tmp_path / "docs"), str(tmp_path / "manual")])
    expected = {"SPELLBOOK_STATE": str(tmp_path / "state"), "SPELLBOOK_EMBEDDER": "hash", "SPELLBOOK_WIKI": wikis}
    assert expected.items() <= ours["env"].items()
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong click')")
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    done = subprocess.run(
        [ours["command"], *ours["args"]],
        input=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}) + "\n",
        capture_output=True,
        text=True,
        env={**os.environ, **ours["env"], "SPELLBOOK_WIKI": ""},
        timeout=PATIENCE,
    )
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "spellbook", done.stderr


@pytest.mark.parametrize(
    ("client", "project"),
    [
        ("claude-desktop", ""),
        ("claude-code", ".mcp.json"),
        ("codex", ".codex/config.toml"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("copilot-cli", ".mcp.json"),
        ("gemini-cli", ".gemini/settings.json"),
        ("qwen-code", ".qwen/settings.json"),
        ("cline", ""),
        ("opencode", "opencode.json"),
        ("antigravity", ".agents/mcp_config.json"),
        ("zed", ""),
        ("lmstudio", ""),
        ("windsurf", ""),
        ("devin", ""),
    ],
)
def test_a_command_and_an_address(tmp_path: Path, home: Path, vault: Path, client: str, project: str) -> None:
    """
    In the file that is named, and in that of a project, an entry for a command and one for an address replace each
    other whole; other servers keep their bytes.

    For a client that was never started nothing is made, unless its file is named: that is removed with the entry.
    """
    about, file = known_clients.CLIENTS[client], tmp_path / "new" / ("x.toml" if client == "codex" else "x.json")
    if not about.by_hand:
        assert "is not installed" in install(client, "--vault", vault, code=2).stderr
    others = '[mcp_servers.other]\ncommand = "npx"\n' if client == "codex" else DESKTOP.replace("mcpServers", about.key)
    places = [(file, ("--file", file)), (tmp_path / project, ("--project", tmp_path))][: 1 + bool(project)]
    for place, option in places:
        for before in ("", others):
            place.parent.mkdir(exist_ok=True)
            place.write_text(before, "utf-8") if before else None
            seen = []
            for args in ((), ("--url", "--with-token"), (), ("--url", "--with-token")):
                if not args or client != "claude-desktop":
                    install(client, *option, "--vault", vault, *args, stdin="spb_x\n")
                seen.append(servers(place, about.key)["spellbook"])
            assert seen[:2] == seen[2:]
            both = {"type", *about.more}
            assert not seen[0].keys() & seen[1].keys() - both or client == "claude-desktop"
            assert [entry.get(name) for entry in seen for name in about.more] == [*about.more.values()] * len(seen)
            assert client == "claude-desktop" or settings_entry.is_ours(seen[1])
            assert ("spb_x" in place.read_text("utf-8")) == (client not in {"codex", "claude-desktop"})
            install(client, *option, "--uninstall")
            assert (place.read_text("utf-8") if place.exists() else "") == before
    assert [*home.iterdir()] == []


@pytest.mark.parametrize("client", ["cursor", "codex", "opencode"])
def test_no_secret_of_this_shell_is_written(
    vault: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """Other settings of the shell are copied, so that the server sees them, a key or a token never, nor by a preview."""
    secret = [name for name in environment.VARIABLES if name.endswith(("_KEY", "_TOKEN"))]
    assert len(secret) > 4
    for name in secret:
        monkeypatch.setenv(name, "canary-0123456789abcdef")
    monkeypatch.setenv("SPELLBOOK_WATCH", "0")
    file = tmp_path / ("x.toml" if client == "codex" else "x.json")
    for options in (("--dry-run",), ()):
        told = install(client, "--file", file, *options, "--vault", vault)
        assert "canary" not in told.stdout + told.stderr
    assert "SPELLBOOK_WATCH" in file.read_text()
    assert "canary" not in "".join(each.read_text() for each in tmp_path.rglob("*") if each.is_file())


def test_every_client_has_its_name() -> None:
    """The names that `install` takes are those of the clients, and each with hooks is asked for them."""
    (argument,) = (param for param in main.commands["install"].params if param.name == "client")
    assert isinstance(argument.type, click.Choice)
    assert set(argument.type.choices) == {*known_clients.CLIENTS, "obsidian", "git-hooks", "git-merge"}
    for client in known_clients.CLIENTS:
        told = install(client, "--hooks", "--file", "x", code=2).stderr
        assert (f"{client}" in told) == (client in session_hooks.RUNS)


@pytest.mark.skipif(not os.path.isdir("/proc/self") or os.name == "nt", reason="needs a place where nobody can write")
def test_files_that_are_not_plain(home: Path, vault: Path, desktop: Path, tmp_path: Path) -> None:
    """
    A place that cannot be written is named, and nothing is half done; a read-only file keeps its mode.

    Settings behind a link are changed at its target, and the link stays, even if its target does not exist yet. If
    another program writes the file during the change, that version is kept.
    """
    assert "/proc/self/x" in install("cursor", "--vault", vault, "--file", "/proc/self/x/y.json", code=1).stderr
    (home / ".codex").mkdir()
    file = home / ".codex" / "config.toml"
    file.write_text("model = 1\n")
    file.chmod(0o400)
    install("codex", "--vault", vault)
    assert stat.S_IMODE(file.stat().st_mode) == 0o400
    install("codex", "--uninstall")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("model = 1\n", 0o400)
    real, link = tmp_path / "dotfiles" / "mcp.json", home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    for before in (None, DESKTOP):
        real.write_text(before, "utf-8") if before else None
        install("cursor", "--vault", vault)
        assert "spellbook" in servers(real)
        install("cursor", "--uninstall")
        assert link.is_symlink()
        assert (real.read_text("utf-8") if real.exists() else None) == before
    with pytest.raises(Conflict):
        FileChange(desktop, b"what it was", b"what it would be").make()
    assert desktop.read_text("utf-8") == DESKTOP
    assert list(desktop.parent.iterdir()) == [desktop]


# -- Claude Code's own memory


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_an_update_carries_what_holds_now(
    home: Path, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """
    Installed again, the entry and the hooks that are there have one vault and the variables of this shell: an earlier one
    of ours goes, what its owner added stays.
    """
    (home / f".{client.partition('-')[0]}").mkdir()
    file = known_clients.places(client, sys.platform, os.environ, home)[0].file
    settings = known_clients.hooks_file(client, None, os.environ, home)
    install(client, "--vault", vault, "--hooks", "--recall")
    if client == "codex":
        text = file.read_text("utf-8").replace("[mcp_servers.spellbook]", "[mcp_servers.spellbook]\nrequired = true", 1)
        file.write_text(text.replace("[mcp_servers.spellbook.env]", '[mcp_servers.spellbook.env]\nMINE = "1"'), "utf-8")
    else:
        file.write_text(jsonc.put(file.read_text("utf-8"), (*AT, "env", "MINE"), "1"), "utf-8")
    before = settings.read_text("utf-8")
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.delenv("SPELLBOOK_STATE")
    install(client, "--vault", other)
    entry = _EDITORS[client](file.read_text("utf-8"))
    assert "SPELLBOOK_STATE" not in entry["env"]
    assert {"SPELLBOOK_DATA", "MINE"} <= entry["env"].keys()
    assert str(other) in entry["args"]
    assert client != "codex" or entry["required"] is True
    after = settings.read_text("utf-8")
    assert ("SPELLBOOK_STATE" in before, "SPELLBOOK_STATE" in after) == (True, False)
    assert str(vault) not in after
    assert after.count(str(other)) == before.count(str(vault))
    assert "UserPromptSubmit" in after


_EDITORS = {
    "claude-code": lambda text: json.loads(text)["mcpServers"]["spellbook"],
    "codex": lambda text: tomllib.loads(text)["mcp_servers"]["spellbook"],
}


def test_capture_is_told(home: Path, vault: Path) -> None:
    """
    At an install of hooks a person reads whether sessions are kept, and how that ends; at the end, that it goes on.

    The list of clients says whether the hooks are there.
    """
    (home / ".claude").mkdir()
    on = f"Capture is on for {vault.resolve()}; `spellbook --vault {vault.resolve()} capture off` switches it off."
    assert "Capture is off." in install("claude-code", "--vault", vault, "--hooks").stdout
    assert "Capture is off." in install("claude-code", "--uninstall").stdout
    assert "With --hooks it also writes" in install().stdout
    assert on in install("claude-code", "--vault", vault, "--hooks", "--capture").stdout
    assert f"{home / '.claude/settings.json'} has its hooks." in install().stdout
    assert "Capture" not in install("claude-code", "--uninstall", "--dry-run").stdout
    assert on in install("claude-code", "--uninstall").stdout
    assert on in install("claude-code", "--vault", vault, "--hooks").stdout
    assert "Capture is off." in install("claude-code", "--vault", vault, "--hooks", "--no-capture").stdout


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
@pytest.mark.parametrize(
    "text", ["~/My Notes", "it's $HOME `x`", "~/notes", "note#a", "#a", "노트/가 나", "a\\b", "~x", "a;b"]
)
def test_a_printed_command_can_be_pasted(text: str) -> None:
    """A path in a command that is printed is one word of the shell; one below the home folder needs no quotes."""
    done = subprocess.run(["sh", "-c", f"printf %s {output.argument(text)}"], capture_output=True, env={"HOME": "/h"})
    assert done.stdout.decode() in {text, text.replace("~/", "/h/")}


def switched(vault: Path) -> list[object]:
    """Whether sessions are kept, and Claude Code's own memory is searched; None was never said."""
    switches = Ledger(str(vault.resolve())).all("switch")
    return [mapping_of(switches.get(name)).get("on") for name in ("", CLAUDE_MEMORY)]


def test_claude_codes_own_memory_is_searched_if_a_person_says_so(home: Path, vault: Path) -> None:
    """The option says so for this vault on this machine; without it, and without a terminal, all stays as it was."""
    (home / ".claude").mkdir()
    for args, after in (
        ((), None),
        (("--claude-memory", "--dry-run"), None),
        (("--claude-memory",), True),
        ((), True),
        (("--no-claude-memory",), False),
    ):
        install("claude-code", "--vault", vault, *args)
        assert switched(vault) == [None, after]


@pytest.mark.slow
def test_a_person_is_asked_once_on_a_terminal(home: Path, vault: Path, tmp_path: Path) -> None:
    """About sessions and about Claude Code's own memory; who only presses Enter says no to sessions."""
    (home / ".claude").mkdir()
    (other := tmp_path / "other").mkdir()
    questions = ("as notes in sessions/", "Search Claude Code's own memory of a project too?")

    def asked(folder: Path, typed: str) -> list[int]:
        shown = on_a_terminal("install", "claude-code", "--vault", folder, "--hooks", typed=typed)
        return [shown.count(question) for question in questions]

    assert (asked(vault, "y\ny\n"), switched(vault)) == ([1, 1], [True, True])
    assert (asked(vault, "n\nn\n"), switched(vault)) == ([0, 0], [True, True])
    assert (asked(other, "\nn\n"), switched(other)) == ([1, 1], [False, False])
