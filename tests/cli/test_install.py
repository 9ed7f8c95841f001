"""Installing into clients' settings keeps every other byte, and uninstalling leaves no trace."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spellbook.capture.ledger import Ledger
from spellbook.cli.clients import clients, jsonc
from spellbook.cli.clients.changes import FileChange
from spellbook.memories import claude
from spellbook.system.errors import Conflict
from tests.commands import spellbook
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
    "four blanks": DESKTOP.replace("  ", "    "),
    "CRLF": DESKTOP.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + DESKTOP,
    "no servers": '{\n  "globalShortcut": ""\n}\n',
    "servers, but none": '{\n  "mcpServers": {}\n}\n',
    "an empty object": "{}",
    "an open object": "{\n\n}\n",
    "one line": '{"a": 1, "mcpServers": {"b": {}}}\n',
    "one line, no servers": '{"mcpServers":{}}',
    "an empty file": "",
    "blank lines": "\r\n\r\n",
    "comments and commas": '// mine\n{\n  "mcpServers": {\n    "a": {}, // first\n    /* the\n       second */\n    "b": {}, // last\n    // "c": {},\n  }, // end\n}\n// bye',
    "comments alone inside": '{\n  "mcpServers": {\n    // none yet\n  }\n}\n',
    "a comment in a line": '{ "mcpServers": { "a": {} } // one\n}',
}


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
    return jsonc.get(file.read_bytes().decode(), (key,))


# -- as a person does it


def test_there_and_back(desktop: Path, vault: Path) -> None:
    """
    After installing beside other servers and uninstalling, the file has its old bytes and mode; in between the client
    finds the server.
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
    install("claude-desktop", "--uninstall")
    assert desktop.read_bytes() == before
    assert stat.S_IMODE(desktop.stat().st_mode) == 0o600 or os.name == "nt"
    copies = [file for file in desktop.parent.iterdir() if file != desktop]
    assert [copy.read_bytes() for copy in copies] == [before]
    assert os.name == "nt" or stat.S_IMODE(copies[0].stat().st_mode) == 0o600


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
@pytest.mark.parametrize("client", clients.CLIENTS)
def test_every_shape_of_settings(tmp_path: Path, vault: Path, client: str, text: str) -> None:
    """However the settings are formatted, other entries keep every byte, and uninstalling restores the file."""
    about = clients.CLIENTS[client]
    file = tmp_path / "settings.json"
    file.write_bytes(text.replace('"mcpServers"', json.dumps(about.key)).encode())
    before = file.read_bytes()
    if "//" in text and not about.comments:
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


def test_what_others_added_since_stays(desktop: Path, vault: Path) -> None:
    """Entries that the client or the user added after installing stay when ours is removed."""
    install("claude-desktop", "--vault", vault)
    desktop.write_text(jsonc.put(desktop.read_text("utf-8"), ("mcpServers", "later"), {"command": "x"}), "utf-8")
    desktop.write_text(jsonc.put(desktop.read_text("utf-8"), ("preferences", "theme"), "light"), "utf-8")
    install("claude-desktop", "--uninstall")
    expected = json.loads(DESKTOP)
    expected["mcpServers"]["later"] = {"command": "x"}
    expected["preferences"]["theme"] = "light"
    assert json.loads(desktop.read_text("utf-8")) == expected


def test_a_key_that_was_not_there_goes_again(desktop: Path, vault: Path) -> None:
    """An `mcpServers` object that we created is removed again, even if the client wrote other settings since."""
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


def test_two_vaults(desktop: Path, vault: Path, tmp_path: Path) -> None:
    """A second vault gets its own entry, and each is removed separately."""
    before = desktop.read_bytes()
    (tmp_path / "work").mkdir()
    install("claude-desktop", "--vault", vault)
    install("claude-desktop", "--vault", tmp_path / "work", "--name", "work")
    assert servers(desktop).keys() >= {"spellbook", "work"}
    install("claude-desktop", "--uninstall", "--name", "work")
    assert servers(desktop).keys() >= {"spellbook"}
    install("claude-desktop", "--uninstall")
    assert desktop.read_bytes() == before


def test_anothers_entry_of_our_name(desktop: Path, vault: Path) -> None:
    """A foreign server with our name is neither replaced nor removed unless forced."""
    desktop.write_text('{"mcpServers": {"spellbook": {"command": "npx", "args": ["wizard"]}}}')
    before = desktop.read_bytes()
    assert "--name" in install("claude-desktop", "--vault", vault, code=2).stderr
    assert "--name" in install("claude-desktop", "--uninstall", code=2).stderr
    assert desktop.read_bytes() == before
    install("claude-desktop", "--vault", vault, "--force")
    assert clients.is_ours(servers(desktop)["spellbook"])


def test_dry_run(desktop: Path, vault: Path) -> None:
    """--dry-run shows a unified diff, and changes nothing."""
    before = desktop.read_bytes()
    shown = install("claude-desktop", "--vault", vault, "--dry-run").stdout
    assert shown.startswith(f"--- {desktop}\n+++ {desktop}\n@@ ")
    assert '+    "spellbook": {' in shown
    assert desktop.read_bytes() == before
    assert list(desktop.parent.iterdir()) == [desktop]


def test_a_client_that_is_not_here(home: Path, vault: Path) -> None:
    """For a client that was never started nothing is created, unless its file is named."""
    for client in clients.CLIENTS:
        assert "is not installed" in install(client, "--vault", vault, code=2).stderr
    assert list(home.iterdir()) == []
    file = home / "new" / "settings.json"
    install("cursor", "--vault", vault, "--file", file)
    assert servers(file).keys() == {"spellbook"}
    install("cursor", "--uninstall", "--file", file)
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("others", ["", '{"%s": {"a": {"command": "x"}}}\n'], ids=["no file", "another server"])
@pytest.mark.parametrize(("client", "path", "key"), [("claude-code", ".mcp.json", "mcpServers"), ("vscode", ".vscode/mcp.json", "servers"), ("cursor", ".cursor/mcp.json", "mcpServers")])  # fmt: skip
def test_for_a_project(vault: Path, tmp_path: Path, client: str, path: str, key: str, others: str) -> None:
    """
    --project writes the file that the client reads in a project folder: a command with the scope of that project, or
    the address of a server that runs already, the usual one, or a named one with a token that is asked for. Nothing of
    the one stays beside the other, other servers keep their bytes, and uninstalling leaves no trace.
    """
    file, project = tmp_path / path, ("--project", tmp_path, "--vault", vault)
    before = others and others % key
    if before:
        file.parent.mkdir(exist_ok=True)
        file.write_text(before)
    for _ in range(2):
        install(client, *project, "--scope", "auto")
        ours = servers(file, key)["spellbook"]
        assert ours["type"] == "stdio"
        assert ours["args"][-2:] == ["--scope", "auto"]
        assert "url" not in ours
        install(client, *project, "--url")
        assert servers(file, key)["spellbook"] == {"type": "http", "url": "http://127.0.0.1:17950"}
    install(client, *project, "--url", "https://notes.example/mcp", "--with-token", stdin="spb_secret\n")
    assert servers(file, key)["spellbook"] == {
        "type": "http",
        "url": "https://notes.example/mcp",
        "headers": {"Authorization": "Bearer spb_secret"},
    }
    install(client, *project, "--uninstall", "--force")
    assert (file.read_text() if file.exists() else "") == before
    assert file.exists() == bool(before)


@pytest.mark.parametrize(
    "args",
    [
        ["claude-desktop", "--project", "."],
        ["cursor", "--project", ".", "--file", "x"],
        ["cursor", "--project", "nowhere"],
        ["emacs"],
    ],
)
def test_wrong_usage(home: Path, vault: Path, args: list[str]) -> None:
    """Invalid options end with a message and exit code 2."""
    assert len(install(*args, "--vault", vault, code=2).stderr) > 20


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
        pytest.param('{\n  "a": 1\n  "b": 2\n}', 3, "a comma or a closing bracket should stand here", id="no comma"),
        pytest.param('{\n  "a": 1,\n}', 2, "a comma before }", id="a comma too many"),
        pytest.param("{\n\n'a': 1}", 3, "double quotes", id="single quotes"),
        pytest.param('{"a": NaN}', 1, "a value should stand here", id="no value"),
        pytest.param('{"a": 01}', 1, "should stand here, not '1}'", id="no number"),
        pytest.param('{"a": "\n"}', 1, "does not end on its line", id="an open text"),
        pytest.param('{"a": {\n', 2, "the end of the file", id="cut short"),
        pytest.param("{}\n{}", 2, "nothing should follow", id="two"),
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
    """A client that takes no address, a text that is none, and another server of that name; nothing is written."""
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
        ("claude-desktop", "linux", {"XDG_CONFIG_HOME": "{home}/xdg"}, "xdg/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {"APPDATA": "{home}/Roaming"}, "Roaming/Claude/claude_desktop_config.json"),
        ("claude-code", "linux", {}, ".claude.json"),
        ("claude-code", "darwin", {"CLAUDE_CONFIG_DIR": "{home}/alt"}, "alt/.claude.json"),
        ("vscode", "darwin", {}, "Library/Application Support/Code/User/mcp.json"),
        ("vscode", "linux", {}, ".config/Code/User/mcp.json"),
        ("vscode", "win32", {"APPDATA": "{home}/Roaming"}, "Roaming/Code/User/mcp.json"),
        ("cursor", "win32", {}, ".cursor/mcp.json"),
    ],
)
def test_places(tmp_path: Path, client: str, system: str, environ: dict[str, str], expected: str) -> None:
    """Each client's settings are looked for in the place of that system."""
    told = {name: value.format(home=tmp_path) for name, value in environ.items()}
    assert clients.places(client, system, told, tmp_path)[0].file == tmp_path / expected


def test_claude_as_a_package_of_windows(tmp_path: Path) -> None:
    """If Claude Desktop is a Windows package, its own settings folder is used instead of the usual one."""
    package = tmp_path / "Local" / "Packages" / "Claude_pzs8sxrjxfjjc"
    (tmp_path / "Roaming" / "Claude").mkdir(parents=True)
    (tmp_path / "Roaming" / "Claude" / "claude_desktop_config.json").write_text("{}")
    package.mkdir(parents=True)
    found = clients.places(
        "claude-desktop",
        "win32",
        {"APPDATA": str(tmp_path / "Roaming"), "LOCALAPPDATA": str(tmp_path / "Local")},
        tmp_path,
    )
    assert (
        clients.choose("claude-desktop", found)
        == package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"
    )


def test_a_variant_of_vscode(home: Path) -> None:
    """If only a variant of VS Code is installed, its settings are used."""
    (home / ".config" / "VSCodium" / "User").mkdir(parents=True)
    found = clients.places("vscode", "linux", {}, home)
    assert clients.choose("vscode", found) == home / ".config" / "VSCodium" / "User" / "mcp.json"


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


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_beside_other_servers_taking_out_undoes_putting_in(data: st.DataObject) -> None:
    """Beside other servers, removing our entry restores every space and comment without other records."""
    others = data.draw(st.dictionaries(NAMES, DATA, min_size=1, max_size=3))
    text = data.draw(texts({**data.draw(st.dictionaries(NAMES, DATA, max_size=3)), "mcpServers": others}))
    assert jsonc.remove(jsonc.put(text, AT, OURS), AT) == text


@given(st.text(alphabet='{}[]",:/*\\ \n1-aetrufls.', max_size=40))
def test_no_text_ends_the_reader(text: str) -> None:
    """JSON is read as Python reads it; anything else raises Malformed with its line."""
    try:
        expected: Any = json.loads(text)
    except ValueError:
        with pytest.raises(jsonc.Malformed) as error:
            jsonc.parse(text, comments=False)
        assert 1 <= error.value.line <= text.count("\n") + 1
    else:
        assert jsonc.parse(text, comments=False).root.data == expected


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
@pytest.mark.skipif(os.name == "nt", reason="terminals of Unix")
@pytest.mark.parametrize(("typed", "after"), [("y", True), ("n", False)])
def test_a_terminal_asks_about_claude_codes_own_memory(home: Path, vault: Path, typed: str, after: bool) -> None:
    """On a terminal a person is asked, once."""
    (home / ".claude").mkdir()
    ours, theirs = os.openpty()
    os.write(ours, f"{typed}\n".encode())
    command = [sys.executable, "-m", "spellbook", "install", "claude-code", "--vault", str(vault)]
    shown = b""
    for _ in range(2):
        subprocess.run(command, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=True)
        assert Ledger(str(vault.resolve())).all("switch")[claude.SWITCH]["on"] is after
        shown += os.read(ours, 100_000)
        os.write(ours, f"{typed}\n".encode())
    assert shown.count(b"Search Claude Code's own memory of a project too?") == 1
    os.close(ours)
    os.close(theirs)
