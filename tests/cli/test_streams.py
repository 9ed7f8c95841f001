"""
Commands as shells start them: closed streams, full disks, a reader that stops, too little memory, waits, the tab key,
words with dashes, and text that is not Unicode.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.system import lock
from tests.commands import spellbook
from tests.fuzz.servers import Server
from tests.helpers import PATIENCE, Write, until
from tests.mcp.agent import Agent, talk

posix = pytest.mark.skipif(sys.platform == "win32", reason="streams are closed by a shell of POSIX")

MCP = '{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}'


def run(vault: Path, shell: str, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run `shell`, in which $S is Spellbook, on the vault."""
    script = f'S() {{ "{sys.executable}" -m spellbook "$@"; }}; {shell}'
    environment = {**os.environ, "SPELLBOOK_VAULT": str(vault), "SPELLBOOK_EMBEDDER": "hash"}
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=PATIENCE, **given
    )


@pytest.fixture
def notes(vault: Path, book: Spellbook, write_note: Write) -> Path:
    """A vault whose index is up to date."""
    write_note("a.md", "# A\n\nThe lantern hangs by the quay.\n" * 3_000, age=100)
    book.reindex()
    book.reindex()
    return vault


@posix
@pytest.mark.slow
def test_output_that_cannot_be_written(notes: Path) -> None:
    """A closed stdout and a full disk give one line and exit code 1; a reader that stops early is no error."""
    full = "/dev/full" if Path("/dev/full").exists() else "&-"
    for command, to in product(("find lantern --json", "export -"), ("&-", full)):
        done = run(notes, f"S {command} >{to}")
        assert (done.returncode, done.stderr.count("\n"), done.stderr[:11]) == (1, 1, "spellbook: "), (command, to)
    assert run(notes, "S --help >&-").returncode == run(notes, f"S reindex >{full}").returncode == 1
    assert run(notes, "S find lantern --json >&- 2>&-").returncode == 1
    for command in ("find lantern --json", "export -"):
        done = run(notes, f"S {command} | true; echo ${{PIPESTATUS[0]}}")
        assert (done.stdout, done.stderr) == ("0\n", ""), command


@posix
@pytest.mark.slow
def test_closed_streams_that_nobody_needs(notes: Path) -> None:
    """
    A command that prints nothing needs no open stream; one that reads a closed stdin reports it. A server whose client
    has gone ends as at the end of stdin.
    """
    assert run(notes, "S reindex --quiet <&- >&- 2>&-; echo $?").stdout == "0\n"
    assert run(notes, "S find lantern <&- | grep -c quay").stdout != "0\n"
    gone = run(notes, f"echo '{MCP}' | S mcp | true; echo ${{PIPESTATUS[1]}}")
    assert (gone.stdout, gone.stderr) == ("0\n", "")
    for command in (
        "S scribe - --topic t -k a <&-",
        "S mcp <&-",
        f"echo '{MCP}' | S mcp >&-",
        f"echo '{MCP}' | S mcp >/dev/full",
    ):
        done = run(notes, command)
        assert (done.returncode, done.stderr.count("\n"), done.stderr[:11]) == (1, 1, "spellbook: "), (
            command,
            done.stderr,
        )


@posix
@pytest.mark.slow
def test_a_command_says_what_stops_or_holds_it(notes: Path, book: Spellbook) -> None:
    """
    Too little memory gives one line. A command that waits says for what on stderr, after a second, also where that is
    no terminal; never beside --json.
    """
    done = run(notes, "ulimit -v 30000; S status")
    if "Fatal Python error" not in done.stderr and done.returncode != 127:  # else not even Python starts
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "too little memory" in done.stderr
    (notes / "new.md").write_text("# New\n\ntext\n", "utf-8")
    command = [sys.executable, "-m", "spellbook", "--vault", str(notes), "recent"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with lock.held(book.config.state / "sync.lock") as is_ours:
        assert is_ours
        silent, heard = (subprocess.Popen([*command, *more], **pipes) for more in (["--json"], []))
        assert heard.stderr is not None
        assert heard.stderr.readline() == "spellbook: another Spellbook is at work here; this waits for it …\n"
    out, rest = heard.communicate(timeout=PATIENCE)
    assert (heard.returncode, rest, "a.md" in out) == (0, "", True)
    out, rest = silent.communicate(timeout=PATIENCE)
    assert (silent.returncode, rest, len(json.loads(out)["notes"])) == (0, "", 2)


@posix
@pytest.mark.slow
def test_ctrl_c_is_told_in_a_line(vault: Path, book: Spellbook, write_note: Write) -> None:
    """An interrupted command and its child processes print no traceback."""
    for number in range(3_000):
        write_note(f"{number % 50}/{number}.md", f"# N{number}\n\nword{number} and a few more.\n" * 5)
    command = [sys.executable, "-m", "spellbook", "--vault", str(vault), "reindex", "--full"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's background ignores it
    ) as child:
        until(lambda: book.index.catalog.counts().notes)
        os.killpg(child.pid, signal.SIGINT)
        _, told = child.communicate(timeout=PATIENCE)
    assert (child.returncode, told.strip()) == (1, "Aborted!")


# -- the tab key


def test_the_tab_key_completes(vault: Path) -> None:
    """
    A shell's question while a person types is answered, and nothing is opened or made for it. Each shell's script asks
    spellbook, and its shell, if it is here, finds no syntax error.
    """
    program = "import sys; sys.argv[0] = 'spellbook'; from spellbook.__main__ import main; main()"
    for words, expected in (("spellbook rec", "plain,recent\n"), ("spellbook search --fil", "plain,--filter\n")):
        asked = {"_SPELLBOOK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, timeout=PATIENCE)
        assert done.stdout == expected
    for shell in ("bash", "zsh", "fish"):
        script = spellbook("completion", shell).stdout
        assert f"_SPELLBOOK_COMPLETE={shell}_complete" in script
        if found := shutil.which(shell):
            subprocess.run([found, "-n"], input=script, text=True, check=True, timeout=PATIENCE)


# -- words that begin with dashes


@pytest.mark.parametrize(
    ("verb", "option"),
    [("find", "--limt"), ("search", "--filtr"), ("memorize", "--max-token"), ("search", "--minscore")],
)
def test_a_misspelt_option_is_refused(verb: str, option: str) -> None:
    """It is refused with the right option, and the way to search for the word."""
    refused = spellbook(verb, "dry", option, "3", code=2).stderr
    assert "No such option" in refused
    assert "Did you mean" in refused or "Possible options" in refused  # as the version of click has it
    assert f"spellbook {verb} -- --word" in refused


# -- text that is no Unicode

HALF = "x\ud800y"


def test_every_verb_has_the_door(book: Spellbook) -> None:
    """Every public method of a book checks its text arguments."""
    verbs = {name: verb for name, verb in inspect.getmembers(Spellbook, callable) if name[0] != "_"}
    assert len(verbs) > 40
    assert [name for name, verb in verbs.items() if not hasattr(verb, "__wrapped__")] == []


@posix
@pytest.mark.slow
def test_a_command_names_the_argument(notes: Path) -> None:
    """
    An argument that is not UTF-8 is a usage error, and nothing is done.

    Only text must be Unicode: a file outside of the vault may have any name.
    """
    for command, named in (
        ("find ", "WORDS[0]"),
        ("show ", "ID"),
        ("revise a --set k=", "--set[0]"),
        ("find a --filter category=", "--filter[0]"),
        ("find a --scope ", "--scope"),
        ("snapshot restore ", "NAME"),
    ):
        done = run(notes, f"S {command}$'x\\xffy'")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"spellbook: {named} is not valid Unicode: the byte 0xff is at position")
    if sys.platform != "darwin":  # which has no such names
        file = notes.parent / os.fsdecode(b"export-\xff.json")
        done = run(notes, f"cd '{notes.parent}'; S export $'export-\\xff.json'; S import $'export-\\xff.json'")
        assert (done.returncode, file.exists()) == (0, True), done.stderr


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_names_the_argument(book: Spellbook, mode: str) -> None:
    """Half a surrogate pair in any text argument of any tool is refused by its name."""

    async def ask(agent: Agent) -> dict[tuple[str, str], str]:
        return {
            (tool.name, name): await agent.refused(tool.name, **{name: HALF})
            for tool in (await agent.client.list_tools()).tools
            for name in tool.input_schema.get("properties", {})
        }

    said = talk(book, ask, mode, ["core", "desk", "backup"])
    assert len(said) > 40
    for (_, name), text in said.items():
        assert f"INVALID_INPUT: {name} is not valid Unicode: half a character, \\ud800," in text


@pytest.mark.slow
def test_a_call_that_the_sdk_cannot_read_is_answered(notes: Path) -> None:
    """JSON with half a surrogate pair gets an error for its id, and the server goes on."""
    with Server(notes) as server:
        answer = server.ask("tools/call", {"name": "find", "arguments": {"keywords": ["a", HALF]}})
        assert "INVALID_INPUT: keywords[1] is not valid Unicode" in answer["content"][0]["text"]
        assert answer["isError"]
        for method, given, named in (
            ("tools/call", {"name": "find", "arguments": {HALF: 1}}, "A key of params.arguments"),
            ("tools/call", {"name": HALF, "arguments": {}}, "params.name"),
            ("resources/read", {"uri": f"note://{HALF}"}, "params.uri"),
        ):
            assert (
                f"{named} is not"
                in server.ask(method, given, id="four" if named == "params.name" else None)["error"]["message"]
            )
        server.send({"method": "notifications/cancelled", "params": {"reason": HALF}})
        assert "lantern" in server.call("find", {"keywords": ["lantern"]})[1]
        assert not server.said
