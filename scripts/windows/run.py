"""
Run tests of Spellbook, or Spellbook itself, with the Windows Python of `prepare.py`, under Wine.

    python scripts/windows/run.py                              # all rooms that tests/windows.toml names
    python scripts/windows/run.py --choice                     # those of .ci/run: two minutes
    python scripts/windows/run.py tests/vault tests/notes -k walk
    python scripts/windows/run.py -m spellbook find words      # any arguments of Python

Rooms run one after the other, each in a Python of its own: on Windows a test that hangs ends the process. The last line
counts the tests of all. Where Wine is missing, that is said, and the exit code is 3.
"""

from __future__ import annotations

import argparse
import re
import shutil
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


def run(folder: Path, arguments: list[str]) -> tuple[int, str]:
    """Run Python in the clone, print what it prints, and return its exit code and its last line."""
    child = wine(folder, *arguments)
    last = [""]

    def show() -> None:
        for line in child.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            print(text, flush=True)
            last[0] = text or last[0]

    reading = threading.Thread(target=show, daemon=True)  # a program that a hung test started keeps the pipe open
    reading.start()
    child.wait()
    reading.join(5)
    return child.returncode, last[0]


def tested(folder: Path, rooms: list[str], options: list[str]) -> int:
    """Run the tests of each room, print how many passed, and return the exit code: 0 if all did."""
    counted: Counter[str] = Counter()
    told, code = [], 0
    for room in rooms:
        began = time.monotonic()
        pytest = ["-m", "pytest", "-p", "no:cacheprovider", "--timeout", str(_EACH), "--tb", "short", "-rfE", "-n", "2"]
        left, last = run(folder, ["-u", *pytest, room, *options])
        code = code or left
        found = Counter(
            {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
        )
        counted += found
        told.append(f"{room}: {last} ({time.monotonic() - began:.0f} s)")
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
    if rest[:1] in (["-m"], ["-c"]):
        return run(folder, rest)[0]
    rooms = [each for each in rest if each.startswith("tests")]
    if not rooms:
        table = tomllib.loads(TABLE.read_text("utf-8"))
        rooms = [f"tests/{room}" for room in table["choice" if given.choice else "rooms"]]
    return tested(folder, rooms, [each for each in rest if each not in rooms])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
