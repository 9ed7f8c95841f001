"""Linux, macOS and Windows: names that all of them store, and one module that calls each of them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.house.rooms import MODULES, ROOT

CLONE = Path(__file__).parents[2]
REFUSED = re.compile(r"(?i)^(con|prn|aux|nul|com\d|lpt\d)(\..*)?$|[<>:\"|?*\\\x00-\x1f]|[ .]$")
"""Names of files and folders that Windows refuses: devices, with any ending, some signs, and a dot or space at the end."""


def test_every_system_can_check_the_repository_out() -> None:
    """No file of the repository has a name that Windows refuses, and no two are alike but for case."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CLONE, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no clone")
    paths = list(filter(None, listed.stdout.decode().split("\0")))
    assert len(paths) > 100
    assert [path for path in paths if any(map(REFUSED.search, path.split("/")))] == []
    folders = {str(folder) for path in paths for folder in Path(path).parents}
    alike = Counter(name.casefold() for name in {*paths, *folders})
    assert [name for name, count in alike.items() if count > 1] == []


STARTS = {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
CALLS = {
    **dict.fromkeys(("replace", "rename", "renames", "unlink", "remove", "link", "system", "popen", "startfile"), "os"),
    **dict.fromkeys(STARTS, "subprocess"),
    "move": "shutil",
}
"""Functions that name files anew, remove them or start programs, each with its module."""


def called(node: ast.Call) -> str:
    """The call as text if it renames, removes or starts by itself, else ""."""
    function = node.func
    if not isinstance(function, ast.Attribute):
        return ""
    owner, name = ast.unparse(function.value), function.attr
    if CALLS.get(name) == owner or (owner == "os" and name.startswith(("exec", "spawn", "posix_spawn"))):
        return f"{owner}.{name}"
    # A path's own methods: others of these names take other arguments, as `str.replace`.
    count = len(node.args) + len(node.keywords)
    is_own = owner in {"platform", "os"} or owner.startswith("self")
    is_path = (name in {"rename", "replace"} and len(node.args) == 1 == count) or (name == "unlink" and not node.args)
    return f"{owner}.{name}" if is_path and not is_own else ""


def test_files_are_renamed_and_programs_started_in_one_module() -> None:
    """
    Only `system/platform.py` replaces, renames and removes files and starts programs, so that each of them waits for a
    program that holds a file on Windows, and is found there as a shell finds it. A second link to a file is made in
    `system/disk.py`.
    """
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {call}"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (call := called(node))
    }
    assert "system/platform.py: subprocess.Popen" in found
    assert {each for each in found if not each.startswith("system/platform.py")} == {"system/disk.py: os.link"}
