"""The table of mechanisms in docs/design.md: which modules each one is, and its size, which `make readme` counts anew."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.house.rooms import MODULES, ROOT

DESIGN = ROOT.parent / "docs" / "design.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| (`[^|]+`) \| ([\d,]+) \|$", re.M)
_SUM = re.compile(r"(?<=<!-- sum -->)[\d,]+")


class Mechanism(NamedTuple):
    """A row of the table: what it is, for whom, the names of its modules, and its size in lines of code."""

    name: str
    reason: str
    modules: list[str]
    size: int


def mechanisms(text: str) -> list[Mechanism]:
    """Return the rows of the table in a page."""
    rows = (row.groups() for row in _ROW.finditer(text))
    return [
        Mechanism(name, reason, re.findall(r"`([^`]+)`", names), int(size.replace(",", "")))
        for name, reason, names, size in rows
    ]


def owners(text: str) -> dict[str, str | None]:
    """Return for each module the name in the table that it has: the longest that fits, None if none does."""
    names = sorted((each for row in mechanisms(text) for each in row.modules), key=len, reverse=True)
    paths = (path.relative_to(ROOT).as_posix() for path in MODULES)
    return {path: next((name for name in names if _fits(path, name)), None) for path in paths}


def sizes(text: str) -> list[int]:
    """Return the lines of code of each row, in tens."""
    code: dict[str | None, int] = {}
    for path, name in owners(text).items():
        code[name] = code.get(name, 0) + _code(MODULES[ROOT / path])
    return [max(10, round(sum(code.get(name, 0) for name in row.modules), -1)) for row in mechanisms(text)]


def sized(text: str) -> str:
    """Return a page with the sizes as the code is now."""
    counted = sizes(text)
    following = iter(counted)
    text = _ROW.sub(lambda row: f"| {row[1]} | {row[2]} | {row[3]} | {next(following):,} |", text)
    return _SUM.sub(f"{sum(counted):,}", text)


def _fits(path: str, name: str) -> bool:
    return path.startswith(name) if name.endswith("/") else fnmatchcase(path, name)


def _code(tree: ast.Module) -> int:
    """Return the lines of a module with one statement a line, without docstrings and texts below constants."""
    lines = sum(bool(line.strip()) for line in ast.unparse(tree).splitlines())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            texts = [each for each in node.body if isinstance(each, ast.Expr) and _is_text(each.value)]
            docstring = ast.get_docstring(node, clean=False)
            lines -= len(texts) if docstring is None else len(texts) - 1 + _lines(docstring)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            lines += len(node.value.elts) - 1
    return lines


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _lines(docstring: str) -> int:
    return sum(bool(line.strip()) for line in f'"""{docstring}"""'.splitlines())
