"""Installing into clients' settings keeps every other byte, and uninstalling leaves no trace."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
import tomlkit
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spellbook.capture.ledger import Ledger
from spellbook.cli import main
from spellbook.cli.clients import clients, jsonc, session_hooks, toml
from spellbook.cli.clients.changes import FileChange
from spellbook.memories import claude
from spellbook.system.errors import Conflict
from tests.commands import on_a_terminal, spellbook
from tests.helpers import PATIENCE

OURS = {"command": "/x/spellbook", "args": ["--vault", "/notes", "mcp"]}
AT = ("mcpServers", "spellbook")

DESKTOP = """\
{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me"]
    },
    "메모": {"command": "uvx", "args": ["memo"], "env": {"KEY": "secret"}}
  },
  "preferences": { "theme": "dark" }
}
"""

TEXTS = {
    "other servers": DESKTOP,
    "no newline at the end": DESKTOP.rstrip(),
    "tabs": DESKTOP.replace("  ", "\t"),
    "CRLF": DESKTOP.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + DESKTOP,
    "no servers": '{\n  "globalShortcut": ""\n}\n',
    "an open object": "{\n\n}\n",
    "one line": '{"a": 1, "mcpServers": {"b": {}}}\n',
    "one line, no servers": '{"mcpServers":{}}',
    "an empty file": "",
    "blank lines": "\r\n\r\n",
    "comments and commas": '// mine\n{\n  "mcpServers": {\n    "a": {}, // first\n    /* the\n       second */\n    "b": {}, // last\n    // "c": {},\n  }, // end\n}\n// bye',
    "comments alone inside": '{\n  "mcpServers": {\n    // none yet\n  }\n}\n',
    "a comment in a line": '{ "mcpServers": { "a": {} } // one\n}',
}


CODEX = """\
# mine
model = "x"

[mcp_servers.other] # a server
command = "npx"
args = [
  "a", # first
  "b",
]

# the end
[projects."/home/me"]
trust_level = "trusted"
"""

TOML_TEXTS = {
    "other servers": CODEX,
    "no newline at the end": CODEX.rstrip(),
    "CRLF": CODEX.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + CODEX,
    "an empty file": "",
    "blank lines": "\r\n\r\n",
    "servers, but none": "[mcp_servers]\n",
    "servers apart": "[mcp_servers.a]\ncommand = 'a'\n[other]\n[mcp_servers.b]\ncommand = 'b'",
    "dotted keys": "mcp_servers.a.command = 'a'\n",
}

WRITTEN = [name for name, client in clients.CLIENTS.items() if client.format]


@pytest.fixture
def desktop(home: Path) -> Path:
    """Settings of Claude Desktop with other servers in them."""
    file = clients.places("claude-desktop", sys.platform, os.environ, home)[0].file
    file.parent.mkdir(parents=True)
    file.write_text(DESKTOP, "utf-8", newline="")
    file.chmod(0o600)
    return file


install = partial(spellbook, "install")


def servers(file: Path, key: str = "mcpServers") -> dict[str, Any]:
    text = file.read_bytes().decode()
    return toml.get(text, (key,)) if file.suffix == ".toml" else jsonc.get(text, (key,))


# -- as a person does it


def test_there_and_back(desktop: Path, vault: Path) -> None:
    """
    After installing beside other servers and uninstalling, the file has its old bytes and mode; in between the client
    finds the server. A second vault gets its own entry, which is removed alone.
    """
    before = desktop.read_bytes()
    told = install("claude-desktop", "--vault", vault).stdout
    assert str(desktop) in told
    assert "Quit Claude Desktop" in told
    found = json.loads(desktop.read_text("utf-8"))
    ours = found["mcpServers"].pop("spellbook")
    assert found == json.loads(before)
    assert Path(ours["command"]).is_absolute()
    assert str(vault.resolve()) in ours["args"]
    install("claude-desktop", "--vault", vault, "--name", "work")
    install("claude-desktop", "--uninstall", "--name", "work")
    assert "spellbook" in servers(desktop)
    install("claude-desktop", "--uninstall")
    assert desktop.read_bytes() == before
    assert stat.S_IMODE(desktop.stat().st_mode) == 0o600 or os.name == "nt"
    copies = [file for file in desktop.parent.iterdir() if file != desktop]
    assert before in [copy.read_bytes() for copy in copies]
    assert os.name == "nt" or {stat.S_IMODE(copy.stat().st_mode) for copy in copies} == {0o600}


def test_what_the_client_starts_is_spellbook(
    desktop: Path, vault: Path, write_note: Callable[..., Path], tmp_path: Path
) -> None:
    """The command in the settings answers `initialize` from any working folder."""
    write_note("a.md", "lantern")
    install("claude-desktop", "--vault", vault)
    ours = servers(desktop)["spellbook"]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "click.py").write_text("raise SystemExit('the wrong click')")
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        [ours["command"], *ours["args"]],
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        cwd=tmp_path / "elsewhere",
        env={**os.environ, **ours["env"], "SPELLBOOK_EMBEDDER": "hash"},
        timeout=PATIENCE,
    )
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "spellbook", done.stderr


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("client", ["claude-desktop", "vscode"])
def test_every_shape_of_settings(tmp_path: Path, vault: Path, client: str, text: str) -> None:
    """However the settings are formatted, other entries keep every byte, and uninstalling restores the file."""
    about = clients.CLIENTS[client]
    file = tmp_path / "settings.json"
    file.write_bytes(text.replace('"mcpServers"', json.dumps(about.key)).encode())
    before = file.read_bytes()
    if "//" in text and about.format != "jsonc":
        assert ", line " in install(client, "--file", file, "--vault", vault, code=2).stderr
        assert file.read_bytes() == before
        assert not list(tmp_path.glob("settings.json.*"))
        return
    install(client, "--file", file, "--vault", vault)
    assert clients.is_ours(servers(file, about.key)["spellbook"])
    letters = iter(file.read_text("utf-8"))
    assert all(letter in letters for letter in before.decode() if not letter.isspace())
    install(client, "--file", file, "--uninstall")
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", TOML_TEXTS.values(), ids=TOML_TEXTS)
def test_every_shape_of_toml(tmp_path: Path, vault: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In TOML, too, our table is added and brought up to date, all else keeps every byte, and uninstalling restores it."""
    monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_bytes(text.encode())
    install("codex", "--file", file, "--vault", vault)
    added = file.read_bytes().decode()
    assert added.startswith(text)
    assert clients.is_ours(servers(file, "mcp_servers")["spellbook"])
    assert "\n" not in added.replace("\r\n", "") or "\r\n" not in text
    at = added.rindex("args = ")
    theirs = f"{added[:at]}enabled = false # for now\n{added[at:]}\n# later\n[later]\na = 1\n"
    file.write_bytes(theirs.encode())
    install("codex", "--file", file, "--vault", vault, "--scope", "x")
    said = file.read_bytes().decode()
    assert said.replace(', "--scope", "x"', "") == theirs
    install("codex", "--file", file, "--vault", vault, SPELLBOOK_EMBEDDER="")
    install("codex", "--file", file, "--vault", vault)  # a variable more
    assert servers(file, "mcp_servers")["spellbook"].keys() == {"command", "args", "env", "enabled"}
    for copy in tmp_path.glob("config.toml.*"):
        copy.unlink()
    install("codex", "--file", file, "--uninstall")
    assert "".join(file.read_bytes().decode().split()) == "".join(f"{text}# later[later]a = 1".split())
    file.write_bytes(text.encode())
    install("codex", "--file", file, "--vault", vault)
    install("codex", "--file", file, "--uninstall")
    assert file.read_bytes() == text.encode()


@pytest.mark.parametrize(
    ("client", "path"),
    [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("opencode", "opencode.json"),
        ("antigravity", ".agents/mcp_config.json"),
        ("zed", ""),
        ("goose", ""),
    ],
)
def test_files_of_a_project(tmp_path: Path, vault: Path, client: str, path: str) -> None:
    """--project writes the file that the client reads there, if it reads one, and --uninstall removes it."""
    project = ("--vault", vault, "--project", tmp_path)
    assert path or "no settings for a project" in install(client, *project, code=2).stderr
    if path:
        install(client, *project)
        assert (tmp_path / path).exists()
        install(client, *project, "--uninstall")
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and vault not in file.parents]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('mcp_servers = { a = { command = "a" } }\n', 1, id="servers in one line"),
        pytest.param("[[mcp_servers]]\n", 1, id="a list"),
        pytest.param("mcp_servers = 1\n", 1, id="no table"),
        pytest.param('a = 1\nb = "\n', 2, id="an open text"),
        pytest.param("a = 1\n\na = 2\n", 3, id="a key twice"),
        pytest.param("a = " + "[" * 100_000, 1, id="deep"),
    ],
)
def test_toml_that_is_not_changed(tmp_path: Path, vault: Path, text: str, line: int) -> None:
    """What Codex could not read, and what only a person can change, is named by file and line and left untouched."""
    file = tmp_path / "config.toml"
    file.write_text(text)
    assert f"{file}, line {line}: " in install("codex", "--file", file, "--vault", vault, code=2).stderr
    assert file.read_text() == text
    assert list(tmp_path.glob("config.toml*")) == [file]


def test_what_others_added_since_stays(desktop: Path, vault: Path) -> None:
    """
    Entries that the client or the user added after installing stay when ours is removed; an object for servers that
    was made for ours goes with it.
    """
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


def test_installed_twice(desktop: Path, vault: Path, tmp_path: Path) -> None:
    """Installing the same again writes nothing; another vault updates our entry and keeps what the user added to it."""
    install("claude-desktop", "--vault", vault)
    first = desktop.read_bytes()
    assert "already" in install("claude-desktop", "--vault", vault).stdout
    assert desktop.read_bytes() == first
    assert len(list(desktop.parent.iterdir())) == 2
    desktop.write_text(jsonc.put(first.decode(), (*AT, "disabled"), True), "utf-8")
    (tmp_path / "other").mkdir()
    install("claude-desktop", "--vault", tmp_path / "other")
    ours = servers(desktop)["spellbook"]
    assert str(tmp_path / "other") in ours["args"]
    assert ours["disabled"] is True
    install("claude-desktop", "--uninstall")
    assert json.loads(desktop.read_text("utf-8")) == json.loads(DESKTOP)


def test_anothers_entry_of_our_name(desktop: Path, vault: Path) -> None:
    """A foreign server with our name is neither replaced nor removed unless forced."""
    desktop.write_text('{"mcpServers": {"spellbook": {"command": "npx", "args": ["wizard"]}}}')
    before = desktop.read_bytes()
    assert "--name" in install("claude-desktop", "--vault", vault, code=2).stderr
    assert "--name" in install("claude-desktop", "--uninstall", code=2).stderr
    assert desktop.read_bytes() == before
    install("claude-desktop", "--vault", vault, "--force")
    assert clients.is_ours(servers(desktop)["spellbook"])


def test_a_client_that_is_not_here(home: Path, vault: Path) -> None:
    """For a client that was never started nothing is created, unless its file is named."""
    for client in WRITTEN:
        if not clients.CLIENTS[client].by_hand:
            assert "is not installed" in install(client, "--vault", vault, code=2).stderr
    assert list(home.iterdir()) == []
    for client in WRITTEN:
        file = home / client / "new" / f"settings.{'toml' if client == 'codex' else 'json'}"
        install(client, "--vault", vault, "--file", file)
        assert servers(file, clients.CLIENTS[client].key).keys() == {"spellbook"}
        install(client, "--uninstall", "--file", file)
        assert list(file.parent.iterdir()) == []


COMMAND = [*clients.launch(), "--vault", "V", "mcp"]
STDIO = {"command": COMMAND[0], "args": COMMAND[1:]}
REMOTE = {"url": "http://127.0.0.1:17950", "headers": {"Authorization": "Bearer spb_x"}}
HTTP = {"type": "http", **REMOTE}
NO_SETTINGS = dict.fromkeys(("SPELLBOOK_STATE", "SPELLBOOK_DATA", "SPELLBOOK_CACHE", "SPELLBOOK_MODELS"))
SERVER_URL = {"serverUrl": REMOTE["url"], "headers": REMOTE["headers"]}


@pytest.mark.parametrize(
    ("client", "command", "address"),
    [
        ("claude-desktop", STDIO, None),
        ("claude-code", {"type": "stdio", **STDIO}, HTTP),
        ("codex", STDIO, {"url": REMOTE["url"], "bearer_token_env_var": "SPELLBOOK_TOKEN"}),
        ("cursor", {"type": "stdio", **STDIO}, HTTP),
        ("vscode", {"type": "stdio", **STDIO}, HTTP),
        ("opencode", {"type": "local", "command": COMMAND}, {"type": "remote", **REMOTE}),
        ("antigravity", STDIO, SERVER_URL),
        ("zed", STDIO, REMOTE),
        ("lmstudio", STDIO, REMOTE),
        ("windsurf", STDIO, SERVER_URL),
        ("devin", STDIO, REMOTE),
    ],
)
def test_what_each_client_reads(
    tmp_path: Path, vault: Path, client: str, command: dict[str, Any], address: dict[str, Any] | None
) -> None:
    """An entry has the words of its client, for a command and for an address, and one replaces the other whole."""
    file = tmp_path / ("x.toml" if client == "codex" else "x.json")
    environment = "environment" if client == "opencode" else "env"
    assert f"+++ {file}" in install(client, "--file", file, "--vault", vault, "--dry-run").stdout
    assert not file.exists()
    for _ in range(2):
        install(client, "--file", file, "--vault", vault, **NO_SETTINGS)
        ours = servers(file, clients.CLIENTS[client].key)["spellbook"]
        assert ours.pop(environment) == {"SPELLBOOK_EMBEDDER": "hash"}
        assert json.loads(json.dumps(ours).replace(json.dumps(str(vault.resolve())), '"V"')) == command
        if address:
            given = ("--file", file, "--vault", vault, "--url", "--with-token")
            told = install(client, *given, stdin="spb_x\n").stderr
            assert ("SPELLBOOK_TOKEN" in told) == (client == "codex")
            assert servers(file, clients.CLIENTS[client].key)["spellbook"] == address
    assert ("spb_x" in file.read_text()) == (client not in {"codex", "claude-desktop"})
    install(client, "--file", file, "--uninstall")
    assert not file.exists()


@pytest.mark.parametrize(
    ("settings", "is_second"),
    [
        ({}, False),
        ({"mcp": {"a": {"type": "local", "command": ["a"]}}}, False),
        ({"mcp": {"servers": {"type": "local", "command": ["a"]}}}, False),
        ({"mcp": {"servers": {"a": {"type": "local", "command": ["a"]}}}}, True),
        ({"mcp": {"timeout": {}}, "cli.json": True}, True),
        ({"cli.json": True}, True),
    ],
)
def test_both_forms_of_opencode(home: Path, vault: Path, settings: dict[str, Any], is_second: bool) -> None:
    """OpenCode 2 gets its entry in `mcp.servers`; one that version 1 has is brought up to date where it is."""
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    if settings.pop("cli.json", False):
        (folder / "cli.json").write_text("{}")
    file = folder / "opencode.json"
    before = json.dumps(settings, indent=2) + "\n"
    file.write_text(before)
    install("opencode", "--vault", vault)
    said = servers(file, "mcp")
    assert "spellbook" in (said["servers"] if is_second else said)
    if not is_second:
        (folder / "cli.json").write_text("{}")  # its second version comes
        assert "already has" in install("opencode", "--vault", vault).stdout
    install("opencode", "--uninstall")
    assert file.read_text() == before
    file.rename(folder / "opencode.jsonc")
    install("opencode", "--vault", vault)
    assert not file.exists()


@pytest.mark.parametrize("client", ["windsurf", "devin", "openclaw", "goose"])
def test_what_is_set_up_by_hand(home: Path, vault: Path, client: str) -> None:
    """Where no file is written, the command is printed, or the lines, of which nothing is secret."""
    told = install(client, "--vault", vault, "--name", "my notes", SPELLBOOK_API_KEY="sk-secret", **NO_SETTINGS)
    command = [*clients.launch(), "--vault", str(vault.resolve()), "mcp"]
    shown = shlex.split(told.stdout)
    if client == "goose":
        ours = yaml.safe_load(told.stdout)["extensions"]["my notes"]
        assert ([ours["cmd"], *ours["args"]], ours["envs"]) == (command, {"SPELLBOOK_EMBEDDER": "hash"})
    elif client == "openclaw":
        assert shown[:4] == ["openclaw", "mcp", "set", "my notes"]
        assert json.loads(shown[4])["args"] == command[1:]
    else:
        added = ["devin", "mcp", "add", "-s", "user", "my notes", "--", "env", "SPELLBOOK_EMBEDDER=hash"]
        assert shown == [*added, *command]
    assert "nothing was written" in told.stderr
    assert "sk-secret" not in told.output
    assert list(home.iterdir()) == []
    for option in ("--url", "--uninstall"):
        assert "by hand" in install(client, "--vault", vault, option, code=2).stderr


def test_the_clients_of_this_machine(home: Path, vault: Path) -> None:
    """Without a name, the clients that are here are listed, with what each would get; nothing is written."""
    assert install().stdout.startswith("No client was found")
    for folder in (".claude", ".codex", ".config/goose", ".cursor"):
        (home / folder).mkdir(parents=True)
    install("cursor", "--vault", vault)
    (home / ".codex" / "config.toml").write_text("= broken")
    before = sorted(home.rglob("*"))
    assert install().stdout.splitlines() == [
        f"Claude Code: `spellbook install claude-code` adds 'spellbook' to {home / '.claude.json'}.",
        f"  With --hooks it also writes {home / '.claude' / 'settings.json'}.",
        f"Codex: `spellbook install codex` adds 'spellbook' to {home / '.codex' / 'config.toml'}.",
        f"  With --hooks it also writes {home / '.codex' / 'hooks.json'}.",
        f"Cursor: {home / '.cursor' / 'mcp.json'} has 'spellbook'.",
        f"Goose: `spellbook install goose` prints what to add to {home / '.config' / 'goose' / 'config.yaml'}.",
    ]
    assert sorted(home.rglob("*")) == before


def test_every_client_has_its_name() -> None:
    """The names that `install` takes are those of the clients, and each with hooks is asked for them."""
    (argument,) = (param for param in main.commands["install"].params if param.name == "client")
    assert isinstance(argument.type, click.Choice)
    assert set(argument.type.choices) == {*clients.CLIENTS, "obsidian", "git-hooks", "git-merge"}
    for client in clients.CLIENTS:
        told = install(client, "--hooks", "--file", "x", code=2).stderr
        assert (f"{client}" in told) == (client in session_hooks.RUNS)


def test_toolsets(tmp_path: Path, vault: Path) -> None:
    """An entry says nothing of toolsets unless they are named; named again, or no longer, it is brought up to date."""
    file = tmp_path / "x.json"
    given = ("cursor", "--file", file, "--vault", vault)
    for options, expected in (((), []), (("--toolsets", "core, wiki"), ["--toolsets", "core,wiki"]), ((), [])):
        install(*given, *options)
        args = servers(file)["spellbook"]["args"]
        assert args[args.index("mcp") + 1 :] == expected
    assert "no toolset 'x'" in install(*given, "--toolsets", "x", code=2).stderr
    assert "spellbook serve" in install(*given, "--toolsets", "core", "--url", code=2).stderr


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a place where nobody can write")
def test_where_nothing_can_be_written(home: Path, vault: Path) -> None:
    """A place that cannot be written is named, and nothing is half done; a read-only file keeps its mode."""
    assert "/proc/self/x" in install("cursor", "--vault", vault, "--file", "/proc/self/x/y.json", code=1).stderr
    (home / ".codex").mkdir()
    file = home / ".codex" / "config.toml"
    file.write_text(CODEX)
    file.chmod(0o400)
    install("codex", "--vault", vault)
    assert stat.S_IMODE(file.stat().st_mode) == 0o400
    install("codex", "--uninstall")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (CODEX, 0o400)


def test_without_a_vault(desktop: Path, tmp_path: Path) -> None:
    """Installing needs an existing vault; uninstalling needs none."""
    assert "spellbook init" in install("claude-desktop", "--vault", tmp_path / "nowhere", code=1).stderr
    assert desktop.read_text("utf-8") == DESKTOP
    assert "has no 'spellbook'" in install("claude-desktop", "--uninstall", "--vault", tmp_path / "nowhere").stdout


def test_settings_of_this_shell_go_along(
    desktop: Path, vault: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    Variables that decide which index is used are copied, with absolute paths; keys never are, and a message says so.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPELLBOOK_STATE", "state")
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "openai:m@http://127.0.0.1:1")
    monkeypatch.setenv("SPELLBOOK_WIKI", os.pathsep.join(["docs", str(tmp_path / "manual")]))
    monkeypatch.setenv("SPELLBOOK_API_KEY", "sk-secret")
    result = install("claude-desktop", "--vault", vault)
    env = servers(desktop)["spellbook"]["env"]
    assert env["SPELLBOOK_STATE"] == str(tmp_path / "state")
    assert env["SPELLBOOK_EMBEDDER"] == "openai:m@http://127.0.0.1:1"
    assert env["SPELLBOOK_WIKI"] == os.pathsep.join([str(tmp_path / "docs"), str(tmp_path / "manual")])
    assert "sk-secret" not in desktop.read_text("utf-8")
    assert "SPELLBOOK_API_KEY" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("leads", [True, False])
def test_a_link_stays_one(home: Path, vault: Path, tmp_path: Path, leads: bool) -> None:
    """Settings behind a link are changed at the target, and the link stays, even if its target does not exist yet."""
    (home / ".cursor").mkdir()
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "mcp.json"
    if leads:
        real.write_text(DESKTOP)
    link = home / ".cursor" / "mcp.json"
    link.symlink_to(real)
    install("cursor", "--vault", vault)
    assert link.is_symlink()
    assert "spellbook" in servers(real)
    install("cursor", "--uninstall")
    assert link.is_symlink()
    assert real.read_text() == DESKTOP if leads else not real.exists()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param('{\n  "a": 1\n  "b": 2\n}', 3, "this is not JSON", id="no comma"),
        pytest.param('{"a": 1,}', 1, "this is not JSON", id="a comma too many"),
        pytest.param("{\n\n'a': 1}", 3, "double quotes", id="single quotes"),
        pytest.param('{"a": NaN}', 1, "NaN is no number", id="no value"),
        pytest.param('{"a": {\n', 2, "this is not JSON", id="cut short"),
        pytest.param("{}\n{}", 2, "this is not JSON", id="two"),
        pytest.param("[]", 1, "an object in braces", id="a list"),
        pytest.param('{\n"mcpServers": null}', 2, "an object in braces", id="null for servers"),
        pytest.param('{"a":' + "[" * 100_000, 1, "too deeply nested", id="deep"),
    ],
)
def test_broken_settings(desktop: Path, vault: Path, text: str, line: int, reason: str) -> None:
    """Settings that the client could not read are named by file and line and left untouched."""
    desktop.write_text(text)
    said = install("claude-desktop", "--vault", vault, code=2).stderr
    assert f"{desktop}, line {line}: " in said
    assert reason in said
    assert desktop.read_text() == text
    assert list(desktop.parent.iterdir()) == [desktop]
    desktop.write_bytes(DESKTOP.encode("utf-16"))  # as PowerShell writes it
    assert "UTF-8" in install("claude-desktop", "--vault", vault, code=2).stderr
    assert desktop.read_bytes() == DESKTOP.encode("utf-16")


def test_changed_meanwhile(desktop: Path) -> None:
    """If another program writes the file during the change, that version is kept."""
    change = FileChange(desktop, b"what it was", b"what it would be")
    with pytest.raises(Conflict):
        change.make()
    assert desktop.read_text("utf-8") == DESKTOP
    assert list(desktop.parent.iterdir()) == [desktop]


def test_what_is_refused(vault, tmp_path):
    """
    A client that takes no address, a text that is none, another server of that name, and options that mean nothing
    together; nothing is written.
    """
    for args in (
        ("claude-desktop", "--project", "."),
        ("cursor", "--project", ".", "--file", "x"),
        ("cursor", "--project", "nowhere"),
        ("--uninstall",),
        ("cursor", "--json"),
    ):
        assert len(install(*args, "--vault", vault, code=2).stderr) > 20
    said = install("claude-desktop", "--file", tmp_path / "x.json", "--vault", vault, "--url", code=2).stderr
    assert "Install it without --url." in said
    project = ("--project", tmp_path, "--vault", vault)
    for url in ("localhost:17950", "ftp://x", "http://", "http://u:p@x", "http://x:99999", "http://x\ny"):
        assert "this is not an address" in install("claude-code", *project, "--url", url, code=2).stderr
    assert "needs --url" in install("claude-code", *project, "--with-token", code=2).stderr
    (tmp_path / ".mcp.json").write_text(
        '{"mcpServers": {"spellbook": {"type": "http", "url": "https://other.example"}}}'
    )
    assert "another server" in install("claude-code", *project, "--url", code=2).stderr


# -- places


@pytest.mark.parametrize(
    ("client", "system", "environ", "expected"),
    [
        ("claude-desktop", "darwin", {}, "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", {}, ".config/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {"APPDATA": "{home}/Roaming"}, "Roaming/Claude/claude_desktop_config.json"),
        ("claude-code", "linux", {}, ".claude.json"),
        ("claude-code", "darwin", {"CLAUDE_CONFIG_DIR": "{home}/alt"}, "alt/.claude.json"),
        ("vscode", "darwin", {}, "Library/Application Support/Code/User/mcp.json"),
        ("cursor", "win32", {}, ".cursor/mcp.json"),
        ("codex", "win32", {}, ".codex/config.toml"),
        ("codex", "linux", {"CODEX_HOME": "{home}/alt"}, "alt/config.toml"),
        ("opencode", "darwin", {}, ".config/opencode/opencode.json"),
        ("opencode", "linux", {"XDG_CONFIG_HOME": "{home}/xdg"}, "xdg/opencode/opencode.json"),
        ("antigravity", "win32", {}, ".gemini/config/mcp_config.json"),
        ("zed", "darwin", {}, ".config/zed/settings.json"),
        ("zed", "win32", {"APPDATA": "{home}/Roaming"}, "Roaming/Zed/settings.json"),
        ("lmstudio", "win32", {}, ".lmstudio/mcp.json"),
        ("windsurf", "win32", {}, ".codeium/windsurf/mcp_config.json"),
        ("devin", "darwin", {}, ".config/devin/mcp_config.json"),
        ("devin", "win32", {"APPDATA": "{home}/Roaming"}, "Roaming/devin/mcp_config.json"),
        ("goose", "linux", {}, ".config/goose/config.yaml"),
        ("goose", "win32", {"APPDATA": "{home}/Roaming"}, "Roaming/Block/goose/config/config.yaml"),
        ("openclaw", "linux", {}, ".openclaw/openclaw.json"),
    ],
)
def test_places(tmp_path: Path, client: str, system: str, environ: dict[str, str], expected: str) -> None:
    """Each client's settings are looked for in the place of that system."""
    told = {name: value.format(home=tmp_path) for name, value in environ.items()}
    found = clients.places(client, system, told, tmp_path)
    for place in found:  # the one that is made, if only its folder is there
        place.folder.mkdir(parents=True, exist_ok=True) if place.folder != place.file else None
    assert (clients.found(found) or found[0].file) == tmp_path / expected


PACKAGE = "AppData/Local/Packages/Claude_x/LocalCache/Roaming/Claude/claude_desktop_config.json"


@pytest.mark.parametrize(
    ("client", "system", "there", "expected"),
    [
        ("antigravity", "linux", [".gemini/settings.json"], None),
        ("antigravity", "linux", [".gemini/antigravity-cli/brain/x"], ".gemini/config/mcp_config.json"),
        ("antigravity", "linux", [".gemini/antigravity-cli/mcp_config.json"], ".gemini/antigravity-cli/mcp_config.json"),
        ("antigravity", "linux", [".gemini/antigravity-cli/mcp_config.json", ".gemini/config/x"], ".gemini/config/mcp_config.json"),
        ("claude-desktop", "win32", [f"{PACKAGE}.x", "AppData/Roaming/Claude/claude_desktop_config.json"], PACKAGE),
        ("vscode", "linux", [".config/VSCodium/User/x"], ".config/VSCodium/User/mcp.json"),
    ],
)  # fmt: skip
def test_one_of_several_places(
    tmp_path: Path, client: str, system: str, there: list[str], expected: str | None
) -> None:
    """
    The file of an earlier Antigravity is used only where it is the only one, a package of Windows has its own folder,
    and a variant of VS Code its own file; the folder of another program says nothing.
    """
    for path in there:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    assert clients.found(clients.places(client, system, {}, tmp_path)) == (expected and tmp_path / expected)


# -- the text


NAMES = st.sampled_from(["a", "b", "mcpServers", "servers", 'say "hi"', "메모"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SKIPPED = st.sampled_from(["", "", " ", "\n", "\r\n\t", " // c\n", "/* c\n*/", " /**/ "])


@st.composite
def texts(draw: st.DrawFn, data: Any) -> str:
    """Some way to write `data` as JSON with comments."""

    def between() -> str:
        return draw(SKIPPED)

    def written(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        if isinstance(value, dict):
            items = [f"{json.dumps(name)}{between()}:{between()}{written(item)}" for name, item in value.items()]
        else:
            items = [written(item) for item in value]
        trailing = "," + between() if items and draw(st.booleans()) else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + between() + (between() + "," + between()).join(items) + between() + trailing + closing

    return draw(st.sampled_from(["", "\ufeff"])) + between() + written(data) + between()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_text_is_edited_and_nothing_else(data: st.DataObject) -> None:
    """In any JSON with comments an entry is added and removed, and everything else keeps its value and comments."""
    before = data.draw(st.dictionaries(NAMES, DATA, max_size=4))
    if not isinstance(before.get("mcpServers", {}), dict):
        del before["mcpServers"]
    text = data.draw(texts(before))
    after = jsonc.put(text, AT, OURS)
    said = jsonc.parse(after).root.data
    assert said.get("mcpServers", {}).get("spellbook") == OURS
    removed = jsonc.remove(after, AT)
    assert after.count("c") - json.dumps(OURS).count("c") >= text.count("c")
    assert removed.count("/*") + removed.count("//") == text.count("/*") + text.count("//")
    left = jsonc.parse(removed).root.data
    if "mcpServers" not in before:
        assert left.pop("mcpServers") == {}
    assert left == before == jsonc.parse(text).root.data


def test_what_follows_on_a_line_does_not_come_into_a_comment() -> None:
    """An entry is removed from between a comment's end and another entry on the same line, and both stay."""
    text = '{"mcpServers": {"a": 1, // one\n  "spellbook": {}, "b": 2}}'
    assert jsonc.get(jsonc.remove(text, AT), ("mcpServers",)) == {"a": 1, "b": 2}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_beside_other_servers_taking_out_undoes_putting_in(data: st.DataObject) -> None:
    """Beside other servers, removing our entry restores every space and comment without other records."""
    others = data.draw(st.dictionaries(NAMES, DATA, min_size=1, max_size=3))
    text = data.draw(texts({**data.draw(st.dictionaries(NAMES, DATA, max_size=3)), "mcpServers": others}))
    assert jsonc.remove(jsonc.put(text, AT, OURS), AT) == text


@pytest.mark.parametrize(
    ("args", "before", "after"),
    [
        ((), False, False),
        ((), True, True),
        (("--claude-memory",), False, True),
        (("--claude-memory", "--dry-run"), False, False),
        (("--no-claude-memory",), True, False),
        (("--no-claude-memory",), False, False),
    ],
)
def test_claude_codes_own_memory_is_searched_if_a_person_says_so(
    home: Path, vault: Path, args: tuple[str, ...], before: bool, after: bool
) -> None:
    """The option says so for this vault on this machine; without it, and without a terminal, all stays as it was."""
    ledger = Ledger(str(vault.resolve()))
    (home / ".claude").mkdir()
    if before:
        ledger.turn(True, vault, claude.SWITCH)
    spellbook("install", "claude-code", "--vault", vault, *args)
    assert ledger.all("switch").get(claude.SWITCH, {}).get("on", False) is after
    refused = spellbook("install", "cursor", "--vault", vault, "--claude-memory", code=2)
    assert "--claude-memory is for claude-code." in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "after"), [("y", True), ("n", False)])
def test_a_terminal_asks_about_claude_codes_own_memory(home: Path, vault: Path, typed: str, after: bool) -> None:
    """On a terminal a person is asked, once."""
    (home / ".claude").mkdir()
    asked = []
    for _ in range(2):
        shown = on_a_terminal("install", "claude-code", "--vault", vault, typed=f"{typed}\n")
        asked.append("Search Claude Code's own memory of a project too?" in shown)
        assert Ledger(str(vault.resolve())).all("switch")[claude.SWITCH]["on"] is after
    assert asked == [True, False]


TABLES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats() | st.text(alphabet='a#[]{}="\n\\é', max_size=6) | st.lists(st.lists(st.text(max_size=2), max_size=2), max_size=2),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(
    st.dictionaries(NAMES, TABLES, max_size=3),
    st.dictionaries(NAMES, TABLES, max_size=2),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_toml_is_edited_and_nothing_else(others: dict[str, Any], beside: dict[str, Any], newline: str) -> None:
    """In any TOML our table is added, changed and removed; all else keeps its every byte."""
    text = tomlkit.dumps({**others, "mcp_servers": {name: {"x": value} for name, value in beside.items()}})
    text = text.replace("\n", newline)
    place = ("mcp_servers", "spellbook")
    after = toml.put(text, place, OURS)
    assert after.startswith(text)
    assert toml.get(after, place) == OURS
    assert toml.remove(after, place) == text
    other = toml.put(after, (*place, "command"), "/y")
    assert toml.get(other, place) == {**OURS, "command": "/y"}
    assert other.startswith(text)
    assert toml.remove(other, place) == text
