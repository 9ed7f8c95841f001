"""Settings of clients as text: whatever their shape, our entry comes and goes, and all else keeps its every byte."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spellbook.cli.clients import jsonc, settings_entry, toml
from tests.cli.conftest import AT, DESKTOP, servers
from tests.commands import spellbook

install = partial(spellbook, "install")
OURS = {"command": "/x/spellbook", "args": ["--vault", "/notes", "mcp"]}

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


# -- by the command


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_shape_of_settings(tmp_path: Path, vault: Path, text: str) -> None:
    """However the settings are formatted, other entries keep every byte, and uninstalling restores the file."""
    file = tmp_path / "settings.json"
    file.write_bytes(text.encode())
    install("cursor", "--file", file, "--vault", vault)
    assert settings_entry.is_ours(servers(file)["spellbook"])
    letters = iter(file.read_text("utf-8"))
    assert all(letter in letters for letter in text if not letter.isspace())
    install("cursor", "--file", file, "--uninstall")
    assert file.read_bytes() == text.encode()


@pytest.mark.parametrize("text", TOML_TEXTS.values(), ids=TOML_TEXTS)
def test_every_shape_of_toml(tmp_path: Path, vault: Path, text: str) -> None:
    """
    In TOML, too, our table is added and brought up to date, all else keeps every byte, and uninstalling restores it.

    A text that reads like our table is not cut: without a copy, uninstalling says that only a person can.
    """
    file = tmp_path / "config.toml"
    file.write_bytes(text.encode())
    install("codex", "--file", file, "--vault", vault)
    added = file.read_bytes().decode()
    assert added.startswith(text)
    assert settings_entry.is_ours(servers(file, "mcp_servers")["spellbook"])
    assert "\n" not in added.replace("\r\n", "") or "\r\n" not in text
    install("codex", "--file", file, "--uninstall")
    assert file.read_bytes() == text.encode()
    at = added.rindex("args = ")
    theirs = f"{added[:at]}enabled = false # for now\nrequired = true\n{added[at:]}\n# later\n[later]\na = 1\n"
    file.write_bytes(theirs.encode())
    install("codex", "--file", file, "--vault", vault, "--scope", "x")
    assert file.read_bytes().decode().replace(', "--scope", "x"', "") == theirs
    for variable in ({"SPELLBOOK_EMBEDDER": ""}, {}):  # one less, and again
        install("codex", "--file", file, "--vault", vault, code=0, **variable)
    assert servers(file, "mcp_servers")["spellbook"].keys() == {"command", "args", "env", "enabled", "required"}
    for copy in tmp_path.glob("config.toml.*"):
        copy.unlink()
    install("codex", "--file", file, "--uninstall")
    assert "".join(file.read_bytes().decode().split()) == "".join(f"{text}# later[later]a = 1".split())
    file.write_text("notes = '''\n[mcp_servers.spellbook]\ncommand = 1\n'''\n")
    install("codex", "--file", file, "--vault", vault)
    file.write_text(alike := f"{file.read_text()}# more\n")
    assert "only a person can change" in install("codex", "--file", file, "--uninstall", code=2).stderr
    assert file.read_text() == alike


@pytest.mark.parametrize(
    ("client", "text", "line", "reason"),
    [
        pytest.param("cursor", '{\n  "a": 1\n  "b": 2\n}', 3, "this is not JSON", id="no comma"),
        pytest.param("claude-code", '{"a": 1,}', 1, "this is not JSON", id="a comma too many"),
        pytest.param("claude-code", "{}\n// mine", 2, "this is not JSON", id="a comment"),
        pytest.param("cursor", "{\n\n'a': 1}", 3, "double quotes", id="single quotes"),
        pytest.param("cursor", '{"a": NaN}', 1, "NaN is no number", id="no value"),
        pytest.param("cursor", '{"a": {\n', 2, "this is not JSON", id="cut short"),
        pytest.param("cursor", "{}\n{}", 2, "this is not JSON", id="two"),
        pytest.param("cursor", "[]", 1, "an object in braces", id="a list"),
        pytest.param("cursor", '{\n"mcpServers": null}', 2, "an object in braces", id="null for servers"),
        pytest.param("cursor", '{"a":' + "[" * 100_000, 1, "too deeply nested", id="deep"),
        pytest.param("codex", 'mcp_servers = { a = { command = "a" } }\n', 1, "only a person", id="servers in a line"),
        pytest.param("codex", "[[mcp_servers]]\n", 1, "only a person", id="a list in TOML"),
        pytest.param("codex", "mcp_servers = 1\n", 1, "only a person", id="no table"),
        pytest.param("codex", 'a = 1\nb = "\n', 2, "this is not TOML", id="an open text"),
        pytest.param("codex", "a = 1\n\na = 2\n", 3, "this is not TOML", id="a key twice"),
        pytest.param("codex", "a = " + "[" * 100_000, 1, "this is not TOML", id="deep in TOML"),
    ],
)
def test_broken_settings(tmp_path: Path, vault: Path, client: str, text: str, line: int, reason: str) -> None:
    """Settings that the client could not read, and those that only a person can change, are named and left untouched."""
    file = tmp_path / "settings"
    for data, named in ((text.encode(), f"{file}, line {line}: "), (text.encode("utf-16"), "UTF-8")):
        file.write_bytes(data)
        told = install(client, "--file", file, "--vault", vault, code=2).stderr
        assert named in told
        assert reason in told or named == "UTF-8"
        assert file.read_bytes() == data
        assert list(tmp_path.glob("settings*")) == [file]


# -- by the editors of text

NAMES = st.sampled_from(["a", "b", "mcpServers", "servers", 'say "hi"', "메모"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SKIPPED = st.sampled_from(["", "", " ", "\n", "\r\n\t", " // c\n", "/* c\n*/", " /**/ "])
TABLES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats() | st.text(alphabet='a#[]{}="\n\\é', max_size=6) | st.lists(st.lists(st.text(max_size=2), max_size=2), max_size=2),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


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
        trailing = "," + between() if draw(st.booleans()) and items else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + between() + (between() + "," + between()).join(items) + between() + trailing + closing

    return draw(st.sampled_from(["", "\ufeff"])) + between() + written(data) + between()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_text_is_edited_and_nothing_else(data: st.DataObject) -> None:
    """
    In any JSON with comments an entry is added and removed, and everything else keeps its value and comments.

    Beside other servers, removing our entry restores every space without other records.
    """
    before = data.draw(st.dictionaries(NAMES, DATA, max_size=4))
    if not isinstance(before.get("mcpServers", {}), dict):
        del before["mcpServers"]
    text = data.draw(texts(before))
    after = jsonc.put(text, AT, OURS)
    assert jsonc.get(after, AT) == OURS
    removed = jsonc.remove(after, AT)
    assert after.count("c") - json.dumps(OURS).count("c") >= text.count("c")
    assert removed.count("/*") + removed.count("//") == text.count("/*") + text.count("//")
    left = jsonc.parse(removed).root.data
    if "mcpServers" not in before:
        assert left.pop("mcpServers") == {}
    assert left == before == jsonc.parse(text).root.data
    others = data.draw(st.dictionaries(NAMES, DATA, min_size=1, max_size=3))
    text = data.draw(texts({**before, "mcpServers": others}))
    assert jsonc.remove(jsonc.put(text, AT, OURS), AT) == text


def test_text_behind_an_entry_does_not_come_into_a_comment() -> None:
    """An entry is removed from between a comment's end and another entry on the same line, and both stay."""
    text = '{"mcpServers": {"a": 1, // one\n  "spellbook": {}, "b": 2}}'
    assert jsonc.get(jsonc.remove(text, AT), ("mcpServers",)) == {"a": 1, "b": 2}


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
