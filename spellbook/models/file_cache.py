"""
A small cache file of facts about model files that are slow to compute.

If it cannot be read or written, they are computed again.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from spellbook.models import places
from spellbook.system import disk

_SETTLED = 2_000_000_000
"""Nanoseconds after which a second write to a file has another time than the first, on any file system."""


def recall(kind: str, key: str) -> Any:
    """Return the value that `remember` keeps under `key`, or None."""
    return _read().get(kind, {}).get(key)


def remember(kind: str, key: str, value: Any) -> None:
    """Keep `value`, as JSON has it, as long as the cache is there and can be written."""
    file, kept = _file(), _read()
    kept.setdefault(kind, {})[key] = value
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with disk.replacing(file) as target:
            target.write(json.dumps(kept).encode("utf-8"))


def sum_of(file: Path) -> str:
    """Return the SHA-256 of `file`, in hexadecimal, from the cache if size and time are the same. Raises OSError."""
    state = file.stat()
    stamp = [state.st_size, state.st_mtime_ns]
    kept = recall("sums", str(file))
    if isinstance(kept, list) and kept[:2] == stamp:
        return str(kept[2])
    digest = disk.hash_of(file)
    if time.time_ns() - state.st_mtime_ns > _SETTLED:
        remember("sums", str(file), [*stamp, digest])
    return digest


def _file() -> Path:
    return places.cache() / "models" / "known.json"


def _read() -> dict[str, dict[str, Any]]:
    try:
        kept = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and all(isinstance(facts, dict) for facts in kept.values()) else {}
