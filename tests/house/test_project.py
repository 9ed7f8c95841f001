"""The developer's tools: make targets, pre-commit checks, the workflow, mutants and the guides."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml

from scripts import mutants
from spellbook.system import errors
from tests.readme_tables import KOREAN_PAGES, PAGES
from tests.trees import grow

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
GUIDE = (ROOT / "tests" / "README.md").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.M))


@pytest.mark.skipif(sys.platform == "win32", reason="the Makefile is for POSIX")
def test_make_help_lists_every_target() -> None:
    """`make` and `make help` list each target with its comment."""
    plain, helped = (
        subprocess.run(["make", *args], cwd=ROOT, capture_output=True, text=True).stdout for args in ([], ["help"])
    )
    assert plain == helped
    assert set(re.findall(r"^make ([a-z-]+) +\S", plain, re.M)) == TARGETS
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert set(phony.split()) == TARGETS


def test_the_checks_before_a_commit() -> None:
    """
    The pre-commit configuration is valid, runs the tools of `make lint`, and skips the test cases, whose bytes must not
    change.
    """
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}
    assert {"ruff", "ruff-format", "mypy", "trailing-whitespace", "large-files"} <= hooks.keys()
    assert all({"name", "entry", "language"} <= hook.keys() for hook in hooks.values())
    tools = {hook["entry"].split()[0] for hook in hooks.values() if hook["language"] == "system"}
    assert {f"$(BIN)/{Path(tool).name}" for tool in tools} <= set(MAKEFILE.split())
    assert re.match(config["exclude"], "tests/cases/crlf.md")


def test_the_workflow() -> None:
    """The workflow runs lint, and tests on Linux, macOS and Windows with each supported Python."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    assert workflow.keys() == {"name", True, "permissions", "concurrency", "jobs"}  # YAML 1.1 reads `on` as true
    assert workflow[True].keys() == {"push", "pull_request"}
    lint, test = workflow["jobs"]["lint"], workflow["jobs"]["test"]
    matrix = test["strategy"]["matrix"]
    classifiers = [each.rpartition(":: ")[2] for each in PROJECT["project"]["classifiers"] if "Python :: 3." in each]
    assert matrix["python"] == classifiers
    assert {each.partition("-")[0] for each in matrix["os"]} == {"ubuntu", "macos", "windows"}
    steps = [*lint["steps"], *test["steps"]]
    assert {step["uses"].partition("@")[0] for step in steps if "uses" in step} == {
        "actions/checkout",
        "actions/setup-python",
    }
    commands = [step["run"] for step in steps if "run" in step]
    assert "make lint" in commands
    command = commands[-1].removeprefix("python -m ")
    assert command.replace(" 2 ", " $(JOBS) ") in MAKEFILE


def test_the_tools_are_installed_with_dev() -> None:
    """What the Makefile runs from .venv is in the `dev` extra; `make hooks` installs pre-commit itself."""
    names = {re.split(r"[>=\[; ]", each)[0] for each in PROJECT["project"]["optional-dependencies"]["dev"]}
    run = set(re.findall(r"\$\(BIN\)/([a-z-]+)", MAKEFILE)) - {"python", "spellbook", "pre-commit"}
    assert run <= names
    assert {"pytest", "pytest-xdist"} <= names


@pytest.mark.parametrize("text", [CONTRIBUTING, GUIDE], ids=["CONTRIBUTING.md", "tests/README.md"])
def test_what_the_guides_name_is_there(text: str) -> None:
    """Every test and every marker that a guide names exists; the guide of the tests has each variable that they read."""
    sources = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("*.py"))
    tests = set(re.findall(r"`(test_\w+)`", text))
    assert tests
    assert [name for name in tests if f"def {name}(" not in sources] == []
    markers = {each.partition(":")[0] for each in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    assert set(re.findall(r"@pytest\.mark\.(\w+)", text)) <= markers
    variables = set(re.findall(r'environ\.get\("(SPELLBOOK_\w+)"', sources))
    assert "SPELLBOOK_CRASHES" in variables
    assert variables <= set(re.findall(r"`(SPELLBOOK_\w+)`", GUIDE))


def test_targets_are_those_of_the_makefile() -> None:
    """Every `make TARGET` that a page or a guide shows is one; `.ci/run` runs `make lint` and `make test`."""
    pages = (*PAGES, *KOREAN_PAGES, ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md", ROOT / ".ci/run")
    shown = {each for page in pages for each in re.findall(r"(?m)(?:`|^)make ([a-z-]+)", page.read_text("utf-8"))}
    assert {"demo", "lint", "test", "readme"} <= shown
    assert shown <= TARGETS


def test_the_measured_numbers_are_in_the_code() -> None:
    """Every `room.module.NAME` in the benchmarks' list of measured numbers exists in the package."""
    page = (ROOT / "tests/benchmarks/README.md").read_text("utf-8")
    section = page.partition("## Numbers in the code that were measured elsewhere")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z]\w*(?:\.\w+)+)`", section)
    assert len(named) > 5
    for name in named:
        assert resolve_name(f"spellbook.{name}") is not None


SOURCE = '''
"""Docstring of 1 line."""
import logging
_log = logging.getLogger(__name__)
def most(values: list[int], few: bool = False) -> int:
    """Return 1."""
    _log.info("looked at %d", 1)
    if not values or few and len(values) < 3:
        values.append(7)
    return values[0] + 1
'''


@pytest.mark.slow
def test_mutants_that_no_test_notices_are_listed(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """
    Mutants change one comparison, number, operator, constant or call at a time, and no text for people. One that no test
    notices is listed, and the project itself stays unchanged.
    """
    made = list(mutants.mutants("m.py", SOURCE))
    assert {
        *((5, "False", "True"), (8, "len(values) < 3", "len(values) <= 3"), (8, "not values", "not not values")),
        *((8, "few and len(values) < 3", "few or len(values) < 3"), (8, "3", "4"), (9, "values.append(7)", "pass")),
        *((9, "7", "8"), (10, "values[0] + 1", "values[0] - 1")),
    } <= {(each.line, each.before, each.after) for each in made}
    assert not {each.line for each in made} & {2, 3, 4, 6, 7}
    assert all(compile(each.source, "m.py", "exec") for each in made)
    assert len({each.source for each in made}) == len(made)

    module, tests = tmp_path / "spellbook/bounds.py", tmp_path / "tests/test_bounds.py"
    source = "def is_small(n, most):\n    return n < most\n\ndef is_large(n, most):\n    return n > most\n"
    test = "from spellbook import bounds\n\ndef test_it():\n    assert not bounds.is_small(1, 1)\n"
    files = {
        "spellbook/__init__.py": "",
        "spellbook/bounds.py": source,
        "tests/__init__.py": "",
        "tests/test_bounds.py": test,
    }
    settings = {"pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow']\n"}
    grow(tmp_path, {path: text.encode() for path, text in (files | settings).items()})
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert mutants.tests_of(module) == [tests]
    assert mutants.main([str(module)]) == 0
    table = "| Survived | Was | Became |\n| --- | --- | --- |\n| spellbook/bounds.py:5 | `n > most` | `n >= most` |\n"
    assert capsys.readouterr().out == f"1 of 2 mutants were noticed.\n\n{table}"
    assert module.read_text() == source
    tests.write_text(test.replace("not ", ""))
    assert mutants.main([str(module)]) == 1
    assert "Without a mutant the tests failed" in capsys.readouterr().err


@pytest.mark.parametrize("guide", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_modules_that_the_guides_name_are_there(guide: str) -> None:
    """Each module and folder that a guide or picture names exists."""
    text = (ROOT / guide).read_text("utf-8")
    package = ROOT / "spellbook"
    tests = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    folders = {path.name for path in package.rglob("*") if path.is_dir()} | tests | {"tests", "docs", "vault"}
    drawn = [package / name for name in re.findall(r"(?m)participant \w+ as ([a-z_]+/[a-z_]+)$", text)]
    named = [ROOT / name for name in re.findall(r"`(spellbook/[a-z_/]+(?:\.py)?)`", text)]
    assert set(re.findall(r"`([a-z_]+\.py)`", text)) <= {path.name for path in package.rglob("*.py")}
    assert {name for name in re.findall(r"`(?:[a-z_]+/)?([a-z_]+)/`", text)} <= folders
    assert [path for path in (*drawn, *named) if not path.exists() and not path.with_suffix(".py").exists()] == []


def test_every_error_is_raised() -> None:
    """Each class of `errors.py` is raised somewhere, or is a base class."""
    classes = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.SpellbookError)
    ]
    source = "".join(path.read_text("utf-8") for path in (ROOT / "spellbook").rglob("*.py") if path.name != "errors.py")
    unused = [each.__name__ for each in classes if not each.__subclasses__() and f"{each.__name__}(" not in source]
    assert not unused


def test_rules_are_where_the_map_says() -> None:
    """Each rule of the map in CONTRIBUTING.md is a name that its module assigns; the map has thirty at least."""
    rows = re.findall(r"(?m)^\| [^|]+ \| `([\w/]+\.py)` \| `(\w+)` \|$", CONTRIBUTING)
    assert len(rows) >= 30
    for module, name in rows:
        tree = ast.parse((ROOT / "spellbook" / module).read_text("utf-8"))
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        assert name in {node.id for node in assigned}, f"{module} assigns no {name}"
