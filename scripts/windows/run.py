"""
Run tests of Spellbook, or Spellbook itself, with the Windows Python of `prepare.py`, under Wine.

    python scripts/windows/run.py                              # all rooms that tests/windows.toml names
    python scripts/windows/run.py --choice                     # those of .ci/run: two minutes
    python scripts/windows/run.py tests/vault tests/notes -k walk
    python scripts/windows/run.py -m spellbook find words      # any arguments of Python
    python scripts/windows/run.py scripts/windows/day.py WHEEL  # a day with Spellbook, see there

Rooms run one after the other, each in a Python of its own: on Windows a test that hangs ends the process. The last line
counts the tests of all. Where Wine is missing, that is said, and the exit code is 3.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from pathlib import Path

from prepare import DEFAULT, ROOT, prepare, wine

TABLE = ROOT / "tests" / "windows.toml"

_EACH = 300
"""Seconds after which a test counts as hung."""

_SILENT = 2 * _EACH
"""Seconds after which all of Wine counts as hung: then not even the clock of a test ends it."""


def run(folder: Path, arguments: list[str]) -> tuple[int, str]:
    """Run Python in the clone, print what it prints, and return its exit code and its last line; ended when silent."""
    child = wine(folder, *arguments)
    assert child.stdout
    output = child.stdout.fileno()
    printed = bytearray()

    def show() -> None:
        while piece := os.read(output, 65_536):
            printed.extend(piece)
            sys.stdout.buffer.write(piece)
            sys.stdout.flush()

    reading = threading.Thread(target=show, daemon=True)  # a program that a hung test started keeps the pipe open
    reading.start()
    before = -1
    while child.poll() is None:
        if len(printed) == before:
            child.kill()
            print(f"\nIt printed nothing for {_SILENT} seconds, and was ended.", flush=True)
        before = len(printed)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_SILENT)
    reading.join(5)
    lines = printed.decode("utf-8", "replace").split("\n")
    return child.returncode, next((line.strip() for line in reversed(lines) if line.strip()), "")


def tested(folder: Path, rooms: list[list[str]], options: list[str]) -> int:
    """Run the tests of each room (files or tests), print how many passed, and return the exit code: 0 if all did."""
    counted: Counter[str] = Counter()
    told, code = [], 0
    for room in rooms:
        began = time.monotonic()
        pytest = ["-m", "pytest", "-p", "no:cacheprovider", "--timeout", str(_EACH), "--tb", "short", "-rfE", "-n", "2"]
        left, last = run(folder, ["-u", *pytest, *room, *options])
        code = code or left
        found = Counter(
            {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
        )
        counted += found
        told.append(f"{' '.join(room)}: {last} ({time.monotonic() - began:.0f} s)")
    print("", *told, sep="\n")
    print(f"{counted['passed']} passed, {counted['failed'] + counted['error']} failed, {counted['skipped']} skipped")
    return code


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run tests under Wine.", allow_abbrev=False, add_help=False)
    parser.add_argument("--folder", type=Path, default=DEFAULT)
    parser.add_argument("--choice", action="store_true")
    given, rest = parser.parse_known_args(arguments)
    if not shutil.which("wine"):
        print("Wine is not installed: no test was run under a Windows Python.")
        return 3
    folder = given.folder.expanduser().resolve()
    prepare(folder)
    first = "".join(rest[:1])
    if first in ("-u", "-m", "-c") or (first.endswith(".py") and not first.startswith("tests")):
        return run(folder, rest)[0]
    table = tomllib.loads(TABLE.read_text("utf-8"))
    named = [each for each in rest if each.startswith("tests")]
    rooms = [[each] for each in named or (f"tests/{room}" for room in table["rooms"])]
    if given.choice:
        rooms = [[f"tests/{test}" for test in table["choice"]]]
    return tested(folder, rooms, [each for each in rest if each not in named])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
