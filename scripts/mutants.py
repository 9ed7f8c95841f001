"""
Mutation spot checks: change the code in small ways, and see whether a test fails.

    python scripts/mutants.py spellbook/ranking.py -n 20 --seed 1
    python scripts/mutants.py spellbook/filters.py tests/test_filters.py
    python scripts/mutants.py --breaks

Each mutant is one change: a comparison, a number off by one, a `not` that is
gone, `and` for `or`, a constant, or a call that is not made. It runs in a copy
of the project, so that the working tree never holds a mutant. Prints a table of
the mutants that survived: each is either a missing test, or code that does the
same as before. Exits 0 whatever survived, 1 if the tests fail without a mutant.

With `--breaks` the mutants are those of tests/breaks.toml: breaks of one place
that an adversary would choose, each with the tests that should notice it. Exits
1 if more than two survive. It is a step of each release.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("spellbook", "tests", "scripts", "vault", "pyproject.toml", "Makefile", "*.md")
BREAKS = "tests/breaks.toml"
MOST_MISSED = 2
"""Breaks that may survive in a release."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module: where, what it was, what it is, and the source of the module with it."""

    path: str
    line: int
    before: str
    after: str
    source: str


@dataclass(frozen=True, slots=True)
class Break:
    """One place of a file, before and after; `name` says what then happens, `tests` are those that should notice."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def breaks(root: Path) -> list[Break]:
    """Return the table of breaks of the project at `root`."""
    rows = tomllib.loads((root / BREAKS).read_text("utf-8"))["break"]
    return [Break(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module, in the order of its lines. `path` is only passed on."""
    tree = ast.parse(source)
    for node in _code(tree):
        for change in _changes(node):
            before, fields = ast.unparse(node), vars(node).copy()
            node.__dict__.update(change)
            after, changed = ast.unparse(node), ast.unparse(tree)
            node.__dict__.clear()
            node.__dict__.update(fields)
            if after != before:
                yield Mutant(path, getattr(node, "lineno", 0), before, after, changed)
    for body in _bodies(tree):
        for number, statement in enumerate(body):
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Call)
                and not _is_log(statement.value)
            ):
                body[number] = ast.copy_location(ast.Pass(), statement)
                yield Mutant(path, statement.lineno, ast.unparse(statement), "pass", ast.unparse(tree))
                body[number] = statement


def _changes(node: ast.AST) -> Iterator[dict[str, object]]:
    """Yield the fields of `node` as each mutant has them."""
    match node:
        case ast.Compare(ops=ops):
            for number, operator in enumerate(ops):
                yield {"ops": [*ops[:number], COMPARISONS[type(operator)](), *ops[number + 1 :]]}
        case ast.BoolOp(op=ast.And()):
            yield {"op": ast.Or()}
        case ast.BoolOp():
            yield {"op": ast.And()}
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield {"operand": ast.UnaryOp(ast.Not(), copy.deepcopy(operand))}
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield {"op": OPERATORS[type(operator)]()}
        case ast.Constant(value=bool() as value):
            yield {"value": not value}
        case ast.Constant(value=int() as value):
            yield {"value": value + 1}
        case ast.Constant(value=float() as value):
            yield {"value": value * 2 or 1.0}
        case ast.Constant(value=str() as value) if value.isidentifier():
            yield {"value": f"{value}x"}


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may decide something: no docstrings, annotations, decorators, log lines or code for type checkers."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("__"):
        return
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom) or (isinstance(node, ast.Call) and _is_log(node)):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not (
                isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            ):
                yield from _code(child)


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(body := getattr(node, name, None), list):
                yield body


def _is_log(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith(("_log.", "logging.", "warnings."))


def tests_of(module: Path) -> list[Path]:
    """Return the test files of the module's room that import it, else all that do; the one of its own name first."""
    parts = module.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    found = [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if name in _imported(file)]
    found.sort(key=lambda file: file.stem != f"test_{parts[-1]}")
    return [file for file in found if file.is_relative_to(ROOT / "tests" / parts[1])] or found


def _imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def run(copied: Path, tests: Sequence[str], seconds: float, marked: str = "not slow") -> str:
    """
    Run the tests that are `marked` so in a copy of the project; return "passed", "failed" or "timed out".

    Raises RuntimeError if there is no test.
    """
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", marked, *tests]
    process = subprocess.Popen(
        command,
        cwd=copied,
        env={**os.environ, "PYTHONPATH": str(copied)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        _end(process)
    if code == 5:
        raise RuntimeError(f"{' '.join(tests)} holds no such test.")
    return "failed" if code else "passed"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the tests and all that they started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def copy_project(target: Path) -> None:
    """Copy what the tests need into `target`."""
    for pattern in COPIED:
        for source in ROOT.glob(pattern):
            if source.is_dir():
                shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make mutants, run the tests on each, and print a table of the survivors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--breaks", action="store_true", help=f"the breaks of {BREAKS} alone; part of a release")
    parser.add_argument(
        "files", nargs="*", help="modules under spellbook/; test files too, where others than those that import them"
    )
    parser.add_argument("-n", "--number", type=int, default=20, help="how many mutants at most (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the mutants; the same seed, the same mutants")
    given = parser.parse_args(arguments)
    if given.breaks:
        return _try_breaks(breaks(ROOT))
    files = [Path(file).resolve() for file in given.files]
    for file in files:
        if not file.exists() or not file.is_relative_to(ROOT):
            parser.error(f"{file} is not in the project.")
    modules = [file for file in files if file.is_relative_to(ROOT / "spellbook") and file.is_file()]
    tests = [file for file in files if file.is_relative_to(ROOT / "tests")]
    tests = tests or list(dict.fromkeys(test for module in modules for test in tests_of(module)))
    if not modules or not tests:
        parser.error("name a module under spellbook/, and the tests to run if no test imports it.")
    made = [
        each for module in modules for each in mutants(module.relative_to(ROOT).as_posix(), module.read_text("utf-8"))
    ]
    chosen = random.Random(given.seed).sample(made, min(given.number, len(made)))
    names = [test.relative_to(ROOT).as_posix() for test in tests]
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        copy_project(copied)
        began = time.monotonic()
        if (result := run(copied, names, 600)) != "passed":
            print(f"Without a mutant the tests {result}: {' '.join(names)}", file=sys.stderr)
            return 1
        seconds = (time.monotonic() - began) * 3 + 30  # a machine may become busy meanwhile
        print(f"{len(chosen)} of {len(made)} mutants, each with {' '.join(names)}", file=sys.stderr)
        survivors = []
        for mutant in sorted(chosen, key=lambda each: (each.path, each.line)):
            file = copied / mutant.path
            original = file.read_bytes()
            file.write_text(mutant.source, "utf-8")
            result = run(copied, names, seconds)
            file.write_bytes(original)
            print(f"{result:>9}  {mutant.path}:{mutant.line}  {_short(mutant.after)}", file=sys.stderr)
            if result == "passed":
                survivors.append(mutant)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were noticed.")
    if survivors:
        print("\n| Survived | Was | Became |\n| --- | --- | --- |")
        for each in survivors:
            print(f"| {each.path}:{each.line} | `{_short(each.before)}` | `{_short(each.after)}` |")
    return 0


def _try_breaks(table: Sequence[Break]) -> int:
    """Try each break with its tests, print those that no test notices, and return the exit code."""
    names = list(dict.fromkeys(test for each in table for test in each.tests))
    survivors: list[Break] = []
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        copy_project(copied)
        # The breaks share the prepared model.
        os.environ.setdefault("SPELLBOOK_CACHE", str(copied / ".cache"))
        began = time.monotonic()
        if (result := run(copied, names, 3_600, "")) != "passed":
            print(f"Without a break the tests {result}.", file=sys.stderr)
            return 1
        seconds = (time.monotonic() - began) * 3 + 30
        for each in table:
            file = copied / each.file
            original = file.read_text("utf-8")
            file.write_text(original.replace(each.before, each.after, 1), "utf-8")
            result = run(copied, each.tests, seconds, "")
            file.write_text(original, "utf-8")
            print(f"{result:>9}  {each.file}: {each.name}", file=sys.stderr)
            if result == "passed":
                survivors.append(each)
    print(f"{len(table) - len(survivors)} of {len(table)} breaks were noticed.")
    for each in survivors:
        print(f"No test noticed in {each.file}: {each.name} ({', '.join(each.tests)}).")
    return int(len(survivors) > MOST_MISSED)


def _short(text: str) -> str:
    line = " ".join(text.split()).replace("|", "\\|")
    return line if len(line) <= 70 else f"{line[:69]}…"


if __name__ == "__main__":
    sys.exit(main())
