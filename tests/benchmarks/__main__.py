"""
All figures in one table, as Markdown on stdout: `make bench`, `make bench ARGS="--only stages,queries --notes 1000"`.

Each part of the table is measured in a process of its own, and one that fails loses no other's figures. What is measured is told on
stderr as it is. A figure fails nothing: machines are shared and noisy, so read the ratios, which are taken in one run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from tests.benchmarks.children import apart
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Failure, Figure, table

PARTS = ("stages", "processes", "queries", "vectors", "engine", "growth", "archives", "shapes")
"""Modules of this package that have `figures(folder, sizes)`."""


def main() -> None:
    """Measure what is asked for and print the table, whatever became of it."""
    given = _arguments()
    sizes = Sizes(given.notes, given.chunks, tuple(given.growth), given.rounds)
    rows: list[Figure | Failure] = []
    started, load = time.monotonic(), _load()
    with tempfile.TemporaryDirectory(prefix="spellbook-bench-", ignore_cleanup_errors=True) as place:
        for name in [name for name in os.environ if name.startswith("SPELLBOOK_")]:
            del os.environ[name]
        os.environ["SPELLBOOK_CACHE"] = str(Path(place) / "cache")
        try:
            for row in measured(given.only, sizes, Path(place)):
                print(f"{time.monotonic() - started:5.0f} s {row.row}", file=sys.stderr, flush=True)
                rows.append(row)
        except KeyboardInterrupt:
            rows.append(Failure("what comes after", "interrupted"))
    print(f"{_machine()}; load {load} before and {_load()} after {time.monotonic() - started:,.0f} s.\n")
    print("\n".join(table(rows)))


def measured(parts: Sequence[str], sizes: Sizes, place: Path) -> Iterator[Figure | Failure]:
    """Measure parts one after another, each in a folder in `place` that is gone afterwards."""
    for part in parts:
        print(f"{part} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
            try:
                yield from apart(import_module(f"tests.benchmarks.{part}").figures, Path(folder), sizes)
            except (ImportError, RuntimeError) as error:
                yield Failure(part, str(error))


def _arguments() -> argparse.Namespace:
    usual = Sizes()
    parser = argparse.ArgumentParser(
        prog="make bench", description="Measure and print one table of figures with their aims."
    )
    parser.add_argument(
        "--only", type=_parts, default=PARTS, metavar="PART,…", help=f"parts of {', '.join(PARTS)}; all unless said"
    )
    parser.add_argument(
        "--notes", type=int, default=usual.notes, help="notes of the vault that is indexed (%(default)s)"
    )
    parser.add_argument(
        "--chunks", type=int, default=usual.chunks, help="chunks of the vault that is asked (%(default)s)"
    )
    parser.add_argument(
        "--growth",
        type=int,
        nargs="+",
        default=usual.growth,
        metavar="NOTES",
        help="sizes to compare; 1000 10000 unless said",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=usual.rounds,
        help="questions and edits to endure; 0 leaves them out (%(default)s)",
    )
    return parser.parse_args()


def _parts(listed: str) -> tuple[str, ...]:
    parts = tuple(listed.split(","))
    if unknown := set(parts) - set(PARTS):
        raise argparse.ArgumentTypeError(f"there is no part {', '.join(sorted(unknown))}")
    return parts


def _machine() -> str:
    processors = "processor"
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processors = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{platform.system()}, {os.cpu_count()} × {processors}, Python {platform.python_version()}"


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


if __name__ == "__main__":
    main()
