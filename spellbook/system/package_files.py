"""Notice that the package's files were replaced while they run, as an update does under a server."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_Stamps = frozenset[tuple[str, int, int]]
"""The path, size and time of each file, but for those that Python writes itself."""


@cache
def at_start() -> _Stamps:
    """Return the files as they were at the first call, which a server makes when it starts."""
    return _now()


def are_replaced() -> bool:
    """Return whether a file is another one than at the first call of `at_start`."""
    return _now() != at_start()


def _now() -> _Stamps:
    root = Path(__file__).parents[1]
    found = (Path(folder, name) for folder, _, names in os.walk(root) for name in names if not name.endswith(".pyc"))
    return frozenset((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found if path.exists())
