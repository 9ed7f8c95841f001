"""The first answers of a server on stdio: as the SDK's, letter by letter, and none that it would not give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spellbook.mcp import first_answer
from spellbook.mcp.app import keep_first_answers
from spellbook.settings import config
from tests.helpers import PATIENCE, Write
from tests.mcp.agent import command

pytestmark = pytest.mark.slow

PREFIX = first_answer.PREFIX
CLIENT = {"name": "깊이", "version": "1", "title": 'a "b" \\', "description": "\t", "websiteUrl": "https://x"}
ABLE = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}},
    "elicitation": {"form": {"applyDefaults": True}},
    "experimental": {"x": {"y": [1]}},
    "extensions": {f"{PREFIX}ui": {"mimeTypes": ["text/html"]}},
}
LISTS = ("ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list")


def line(id: object, method: object, params: Any = ..., **others: object) -> str:
    given = {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is ... else {"params": params}), **others}
    return json.dumps({key: value for key, value in given.items() if value is not ...}, ensure_ascii=False)


def hello(
    version: object = "2025-06-18", able: object = ..., client: object = ..., id: object = 0, **others: Any
) -> str:
    able, client = {} if able is ... else able, {"name": "t", "version": "1"} if client is ... else client
    return line(id, "initialize", {"protocolVersion": version, "capabilities": able, "clientInfo": client, **others})


def enveloped(id: object, method: str, version: object = "2026-07-28", able: object = ..., **others: Any) -> str:
    meta = {f"{PREFIX}protocolVersion": version, f"{PREFIX}clientCapabilities": {} if able is ... else able, **others}
    return line(id, method, {"_meta": meta})


def hellos(field: str, *values: object) -> list[str]:
    """A greeting with each of these values."""
    return [hello(**{field: value}) for value in values]


ODD: tuple[object, ...] = (None, 1.5, True, [], {})
READY = line(..., "notifications/initialized")
GIVEN_UP = line(..., "notifications/cancelled", {"requestId": 1, "reason": "too late"})
INFO = {f"{PREFIX}clientInfo": CLIENT}

ANSWERED: dict[str, list[str]] = {
    **{
        f"version {version}": [
            hello(version, ABLE, CLIENT),
            READY,
            *(line(id, each) for id, each in enumerate(LISTS, 1)),
        ]
        for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "x", "")
    },
    "ids and params": [
        hello(id="시작", _meta={"progressToken": "t"}),
        *(line(id, "tools/list", {}) for id in ("7", "\t\"\\/'\x7f é", "", -3, 0, 10**30)),
        line(8, "tools/list", {"_meta": {"progressToken": 5}}),
        '{"id": 1, "id": 2, "jsonrpc": "2.0", "method": "x", "method": "ping"}',
        '  {"jsonrpc":"2.0","id":-0,"method":"ping"}  ',
    ],
    "modern": [
        enveloped(1, "server/discover", able=ABLE, **INFO),
        GIVEN_UP,
        *(enveloped(id, each, progressToken=id) for id, each in enumerate(LISTS[1:], 2)),
    ],
    "a trial": [enveloped(1, "server/discover"), GIVEN_UP, hello(id=2), READY, line(3, "tools/list")],
    "cancelled": [hello(), READY, line(1, "tools/list"), GIVEN_UP, line(1, "ping"), line(2, "ping")],
}
"""Conversations that need no SDK."""

REFUSED: dict[str, list[str]] = {
    **{
        f"initialize {number}": [each, line(1, "ping"), line(2, "tools/list")]
        for number, each in enumerate(
            [
                *hellos("able", [], None, {"roots": 5}, {"roots": {"listChanged": {}}}, {"sampling": []}),
                *hellos("able", {"experimental": {"x": 1}}, {"extensions": {"x": True}}, {"new": 1}),
                *hellos("able", {"tasks": {"requests": 1}}, {"elicitation": {"form": 1}}),
                *hellos("client", {}, {"name": 5, "version": "1"}, {"name": "t"}, [], "t"),
                *(
                    hello(client={"name": "t", "version": "1", **more})
                    for more in ({"icons": 1}, {"title": 1}, {"x": 1})
                ),
                *(hello(version) for version in (None, 5, ["2025-06-18"])),
                hello(_meta={"progressToken": True}),
                hello(_meta={f"{PREFIX}protocolVersion": "2026-07-28"}),
                *(line(0, "initialize", params) for params in (..., "x", *ODD)),
                hello().replace("2.0", "1.0"),
                hello().replace('"t"', '"\\ud800"'),
                hello().replace('"t"', '"\\uae4a"'),
                hello(able={"experimental": {"x": json.loads('{"a":' * 300 + "1" + "}" * 300)}}),
                "\ufeff" + hello(),
            ]
        )
    },
    **{
        f"request {number}": [hello(), READY, each, line(9, "tools/list")]
        for number, each in enumerate(
            [
                *(line(1, "tools/list", {"cursor": cursor}) for cursor in ("x", 5, None)),
                *(line(1, "tools/list", {"_meta": {"progressToken": it}}) for it in ODD),
                *(line(1, "tools/list", params) for params in ("x", 5, {"_meta": 5}, {"x": 1}, *ODD)),
                *(line(1, method) for method in ("nothing/such", "", "server/discover", "resources/subscribe")),
                *(line(1, method) for method in (5, None, ["ping"])),
                *(line(id, "ping") for id in ODD),
                line(1, "ping", x=1),
                line(1, "ping", result={}),
                line(1, "tools/call", {"name": "nothing_such", "arguments": {}}),
                hello("2024-11-05", id=1),
                enveloped(1, "tools/list"),
                *("", "{", "[]", f"[{line(1, 'ping')}]", "5", "null", '"x"', "\\", '{"jsonrpc":"2.0","id":1}'),
                f"{line(1, 'ping')}{line(2, 'ping')}",
                '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":NaN}}}',
            ]
        )
    },
    "lists first": [line(1, "tools/list"), line(2, "ping"), hello(id=3), line(4, "tools/list")],
    "modern, then not": [enveloped(1, "tools/list"), line(2, "tools/list"), hello(id=3), enveloped(4, "tools/list")],
    "modern, then initialize": [enveloped(1, "server/discover"), enveloped(2, "tools/list"), hello(id=3)],
    "cancelled too late": [
        hello(id=1),
        GIVEN_UP,
        READY,
        line(2, "tools/list"),
        line(3, "nothing/such"),
        line(4, "ping"),
    ],
    "modern, cancelled": [enveloped(1, "tools/list"), GIVEN_UP, enveloped(2, "ping"), enveloped(3, "tools/list")],
    "no trial": [enveloped(1, "ping"), hello(id=2)],
    "a legacy trial": [line(1, "server/discover"), hello(id=2), line(3, "tools/list")],
    **{
        f"envelope {number}": [each, hello(id=2), line(3, "tools/list")]
        for number, each in enumerate(
            [
                *(enveloped(1, "server/discover", version) for version in ("2027-01-01", "2025-06-18", 5, None)),
                enveloped(1, "server/discover", able=[]),
                enveloped(1, "server/discover", able={"roots": 5}),
                enveloped(1, "server/discover", **{f"{PREFIX}clientInfo": {"name": "x"}}),
                enveloped(1, "server/discover", **{f"{PREFIX}logLevel": "loud"}),
                enveloped(1, "server/discover").replace("clientCapabilities", "x"),
            ]
        )
    },
}
"""Conversations in which some line needs the SDK, most of them malformed."""

TALK = r"""
import json, os, sys, threading
from pathlib import Path
import spellbook
from mcp.types import JSONRPCRequest, jsonrpc_message_adapter
from spellbook.mcp import first_answer
from spellbook.mcp.app import build, run_stdio

def is_answered(text):
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(text), JSONRPCRequest)
    except ValueError:
        return "ud800" in text or text.count("{") > 200  # refused in words of Spellbook

def serve(server, file):
    wire = first_answer.Wire(file)
    wire.wait()
    run_stdio(server, wire) if server else threading.Event().wait()

def talk(lines, *how):
    (in_, to), (from_, out) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.dup2(in_, 0)
        os.dup2(out, 1)
        for number in (in_, to, from_, out):
            os.close(number)
        serve(*how)
        os._exit(0)
    os.close(in_), os.close(out)
    answers = []
    with open(to, "w", encoding="utf-8") as given, open(from_, encoding="utf-8") as told:
        for line in lines:
            given.write(line + "\n")
            given.flush()
            if is_answered(line):
                answers.append(told.readline())
        given.close()
        answers.append(told.read())
    return [*answers, os.wait()[1]]

file, (vault, alone, mixed, broken) = Path(sys.argv[1]), json.load(sys.stdin)
with spellbook.open(vault) as book:
    server = build(book, live=False)
    told = [[talk(lines, server, None), talk(lines, None, file)] for lines in alone]
    told += [[talk(lines, server, None), talk(lines, server, file)] for lines in mixed]
    told += [[talk(lines, server, None), talk(lines, server, Path(each))] for each, lines in broken]
    print(json.dumps(told))
"""


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")


def kept(vault: Path) -> Path:
    """The file of the first answers for a vault, made by a server that was started once."""
    with subprocess.Popen(command(vault), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.read() == b""
    assert process.returncode == 0
    return first_answer.place(("core",), config.load(str(vault)))


BROKEN: dict[str, Callable[[str], str]] = {
    "a half": lambda right: right[:-9],
    "no object": lambda right: '{"2025-06-18": ["x"]}',
    "no message": lambda right: '{"2025-06-18": {"initialize": "}"}}',
    "deep": lambda right: "[" * 100_000,
}
"""Files of first answers that count as none, made from a right one."""


@pytest.mark.skipif(sys.platform == "win32", reason="the server is forked")
def test_answers_are_those_of_the_sdk(vault: Path, tmp_path: Path) -> None:
    """
    Each line gets, letter by letter, the answer that the SDK gives it, in both eras, whether or not it is malformed, and
    where the kept answers are broken.
    """
    file = kept(vault)
    broken = [tmp_path / name for name in BROKEN]
    for each in broken:
        each.write_text(BROKEN[each.name](file.read_text("utf-8")), "utf-8")
        each.chmod(0o600)
    assert (file.stat().st_mode & 0o777, file.parent) == (0o600, config.load(str(vault)).state)
    tried = [(str(each), ANSWERED["version 2025-06-18"]) for each in broken]
    given = json.dumps([str(vault), [*ANSWERED.values()], [*REFUSED.values()], tried])
    ran = subprocess.run([sys.executable, "-c", TALK, file], input=given, capture_output=True, text=True, check=True)
    told = dict(zip((*ANSWERED, *REFUSED, *BROKEN), json.loads(ran.stdout), strict=True))
    assert {name: both for name, both in told.items() if both[0] != both[1]} == {}
    assert "깊이" not in ran.stdout
    assert all(len(told[name][0]) == 2 + sum('"id"' in each for each in lines) for name, lines in ANSWERED.items())
    trials = [*(name for name in told if name.startswith("envelope")), "a trial", "a legacy trial"]
    assert not [name for name in trials if '"id":2,"result"' not in "".join(map(str, told[name][0]))]


class Talk:
    """A server that a client starts, line by line."""

    def __init__(self, start: list[str], **environment: str) -> None:
        env = {**os.environ, **environment}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(start, **pipes, text=True, encoding="utf-8", env=env)

    def say(self, *lines: str) -> None:
        assert self.process.stdin
        self.process.stdin.write("".join(f"{each}\n" for each in lines))
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def end(self, code: int = 0) -> list[dict[str, Any]]:
        """Close stdin, and return what is still said."""
        said, errors = self.process.communicate(timeout=PATIENCE)
        assert (self.process.returncode, "Traceback" in errors) == (code, False), errors
        return [json.loads(each) for each in said.splitlines()]


CALL = line("call", "tools/call", {"name": "get_index", "arguments": {}})


def test_the_sdk_takes_over(vault: Path, write_note: Write) -> None:
    """Lines that come while the SDK is loaded are answered once each, and a call is answered by a tool."""
    write_note("a.md", "# A\n\nThe crane lifts.\n", topic="harbour")
    kept(vault)
    talk = Talk(command(vault))
    talk.say(
        hello("2025-06-18"),
        READY,
        line(1, "tools/list"),
        CALL,
        "broken",
        "[]",
        line("1", "ping"),
        line(2, "tools/list"),
    )
    heard = [talk.hear() for _ in range(5)]
    assert [each["id"] for each in heard[:2]] == [0, 1]
    answers = {json.dumps(each["id"]): each["result"] for each in heard}
    assert len(answers) == 5
    assert answers["1"] == answers["2"]
    assert "harbour" in answers['"call"']["content"][0]["text"]
    assert talk.end() == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals end a process at once")
def test_it_ends_while_the_sdk_is_loaded(vault: Path) -> None:
    """SIGTERM ends a server that has answered from what is kept, and closed stdin one that was asked nothing more."""
    kept(vault)
    for is_told in (True, False):
        talk = Talk(command(vault))
        talk.say(hello(), line(1, "tools/list"))
        assert [talk.hear()["id"], talk.hear()["id"]] == [0, 1]
        if is_told:
            talk.process.terminate()
            talk.process.wait(PATIENCE)
        assert talk.end(143 if is_told else 0) == []


def test_wrong_answers_are_made_anew(vault: Path) -> None:
    """
    The SDK's list is right: if another was kept, the client is told to list again. What is broken, of another form or
    open to others counts as none. The next server finds what is right.
    """
    file = kept(vault)
    right = file.read_text("utf-8")
    stale = right.replace("long-term memory", "old \\ud800 memory").replace('"name": "remember"', '"name": "forgotten"')
    assert "forgotten" in stale
    for text, mode in ((stale, 0o600), (BROKEN["a half"](right), 0o600), (stale, 0o622)):
        file.write_text(text, "utf-8")
        file.chmod(mode)
        is_told = text == stale and (mode == 0o600 or os.name == "nt")
        talk = Talk(command(vault))
        talk.say(hello(), READY, line(1, "tools/list"))
        first, listed = talk.hear(), json.dumps(talk.hear())
        assert ("old ? memory" in first["result"]["instructions"], "forgotten" in listed) == (is_told, is_told)
        if is_told:
            assert talk.hear()["method"] == "notifications/tools/list_changed"
        talk.say(line(2, "tools/list"))
        assert "forgotten" not in json.dumps(talk.hear())
        assert talk.end() == []
        assert (file.read_text("utf-8"), file.stat().st_mode & 0o077 if os.name != "nt" else 0) == (right, 0)


def test_answers_are_of_one_server(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers with other toolsets, settings or languages share no answers. Those of eight servers are kept."""
    monkeypatch.setenv("SPELLBOOK_LANG", "en")
    places = {
        first_answer.place(("core",), config.load(vault)),
        first_answer.place(("core", "wiki"), config.load(vault)),
    }
    places |= {first_answer.place(("core",), config.load(vault, scope="x"))}
    monkeypatch.setenv("SPELLBOOK_LANG", "ko")
    places |= {first_answer.place(("core",), config.load(vault))}
    assert len(places) == 4
    keep_first_answers(("core",), config.load(vault))
    for number in range(10):
        first_answer.write(config.load(vault).state / f"first-answers-{number}.json", {})
    assert len([*config.load(vault).state.glob("first-answers-*.json")]) == 8


def test_a_server_waits_for_its_vault(tmp_path: Path) -> None:
    """
    Without a vault, and with one that cannot be opened, the server lists its tools, answers each call with what to do,
    and creates nothing. A vault that is made meanwhile is used.
    """
    vault = tmp_path / "notes"
    talk = Talk(command(vault, "-W", "error"), HOME=str(tmp_path))
    talk.say(hello(), READY, line(1, "tools/list"), CALL)
    answers = {each["id"]: each["result"] for each in (talk.hear() for _ in range(3))}
    assert {"get_index", "remember"} <= {each["name"] for each in answers[1]["tools"]}
    refused = answers["call"]
    assert refused["isError"]
    assert refused["content"][0]["text"].startswith(
        f"VAULT_NOT_FOUND: {vault}: the vault folder does not exist. Give the"
    )
    talk.say(line(2, "resources/read", {"uri": "memory://index"}))
    assert talk.hear()["error"]["message"].startswith("VAULT_NOT_FOUND: ")
    assert not vault.exists()
    (vault / ".spellbook").mkdir(parents=True)
    (vault / ".spellbook/config.toml").write_text("nothing = 1\n", "utf-8")
    talk.say(CALL)
    assert "INVALID_INPUT" in talk.hear()["result"]["content"][0]["text"]
    (vault / ".spellbook/config.toml").unlink()
    (vault / "a.md").write_text("# A\n\nThe crane lifts.\n", "utf-8")
    talk.say(CALL)
    assert not talk.hear()["result"].get("isError")
    assert talk.end() == []
