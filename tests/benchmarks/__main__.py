"""
Print all figures as one Markdown table: `make bench`, `make bench ARGS="--only stages,queries --notes 1000"`.

Each part runs in its own process, so a part that fails loses no other figures. Progress is printed to stderr. A missed aim
fails nothing: machines are shared and noisy, so read the ratios, which compare figures of the same run.
"""

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

from tests.benchmarks.table import HEAD, Sizes
from tests.benchmarks.timing import apart

PARTS = ("stages", "processes", "queries", "large", "scorecard")
"""Modules of this package that have `figures(folder, sizes)`."""


def main() -> None:
    """Measure the requested parts and print the table, even after a failure or Ctrl-C."""
    given = _arguments()
    sizes = Sizes(given.notes, given.chunks, given.large)
    rows: list[str] = []
    started, before = time.monotonic(), load()
    with tempfile.TemporaryDirectory(prefix="spellbook-bench-", ignore_cleanup_errors=True) as place:
        for name in [name for name in os.environ if name.startswith("SPELLBOOK_")]:
            del os.environ[name]
        os.environ["SPELLBOOK_CACHE"] = str(Path(place) / "cache")
        try:
            for row in measured(given.only, sizes, Path(place)):
                print(f"{time.monotonic() - started:5.0f} s {row}", file=sys.stderr, flush=True)
                rows.append(row)
        except KeyboardInterrupt:
            rows.append(_failed("remaining parts", "interrupted"))
    print(f"{machine()}; load {before} before and {load()} after {time.monotonic() - started:,.0f} s.\n")
    print("\n".join([HEAD, *rows]))


def measured(parts: Sequence[str], sizes: Sizes, place: Path) -> Iterator[str]:
    """Measure the parts in order, each in a temporary folder in `place`; yield rows of the table."""
    for part in parts:
        print(f"{part} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
            try:
                for figure in apart(import_module(f"tests.benchmarks.{part}").figures, Path(folder), sizes):
                    yield figure.row
            except (ImportError, RuntimeError) as error:
                yield _failed(part, str(error))


def _failed(part: str, why: str) -> str:
    return f"| {part} | | failed: {why} | | no |"


def _arguments() -> argparse.Namespace:
    usual = Sizes()
    parser = argparse.ArgumentParser(prog="make bench", description="Print one table of figures and aims.")
    parts = f"parts to run, of {', '.join(PARTS)}; default: all"
    parser.add_argument("--only", type=_parts, default=PARTS, metavar="PART,…", help=parts)
    for name, about in {
        "notes": "notes in the indexed vault",
        "chunks": "chunks in the searched vault",
        "large": "notes in the large vault",
    }.items():
        parser.add_argument(f"--{name}", type=int, default=getattr(usual, name), help=f"{about} (%(default)s)")
    return parser.parse_args()


def _parts(listed: str) -> tuple[str, ...]:
    parts = tuple(listed.split(","))
    if unknown := set(parts) - set(PARTS):
        raise argparse.ArgumentTypeError(f"unknown part {', '.join(sorted(unknown))}")
    return parts


def machine() -> str:
    """Return the system, its processors and the Python."""
    processors = "processor"
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processors = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{platform.system()}, {os.cpu_count()} × {processors}, Python {platform.python_version()}"


def load() -> str:
    """Return the load of the last minute, where the system says it."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


if __name__ == "__main__":
    main()
