"""
Downloaded models: one folder each in the user's data folder, complete or absent.

`manifest.json` has its source, its name there, and size and SHA-256 of each file. Such a folder on any web server
is a source for others.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from spellbook.models import places
from spellbook.models.onnx.sbert_config import Unusable
from spellbook.settings.config import model_path
from spellbook.system.errors import InvalidInput, StorageError

MANIFEST = "manifest.json"

_NAME = re.compile(r"(?:(?P<owner>[A-Za-z0-9][\w.-]*)/)?(?P<short>[A-Za-z0-9][\w.-]*)", re.A)
_PATH = re.compile(r"(?:[\w+-][\w.+-]*/)*[\w+-][\w.+-]*", re.A)


@dataclass(frozen=True, slots=True)
class Good:
    """A model that is known to do: its repository, and what to know before a download."""

    repository: str
    about: str


GOOD: Mapping[str, Good] = {
    "multilingual-e5-small": Good(
        "intfloat/multilingual-e5-small", "490 MB, 384 dimensions: the bundled one, its weights not rounded to 4 bits"
    ),
    "multilingual-e5-base": Good("intfloat/multilingual-e5-base", "1.1 GB, 768 dimensions: four times the work"),
    "multilingual-e5-large": Good("intfloat/multilingual-e5-large", "2.3 GB, 1024 dimensions: fourteen times the work"),
    "bge-m3": Good("BAAI/bge-m3", "2.3 GB, 1024 dimensions: fourteen times the work"),
    "paraphrase-multilingual-MiniLM-L12-v2": Good(
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        "490 MB, 384 dimensions: likeness rather than answers",
    ),
}
"""Multilingual models by the names under which they can be pulled."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """
    A model that is on this machine: its folder, its source and the name that its makers give it.

    `files` has the size and the SHA-256 of each file, by path.
    """

    folder: Path
    source: str
    model: str
    files: Mapping[str, tuple[int, str]]

    @property
    def name(self) -> str:
        """What `onnx:` and `remove` call it."""
        return self.folder.name

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(size for size, _ in self.files.values())

    def manifest(self) -> str:
        """Return the manifest as it is written."""
        files = {path: {"size": size, "sha256": sha} for path, (size, sha) in self.files.items()}
        return json.dumps({"source": self.source, "model": self.model, "files": files}, indent=1)

    @property
    def is_whole(self) -> bool:
        """Say whether every file is there, as long as it was."""
        try:
            return all((self.folder / path).stat().st_size == size for path, (size, _) in self.files.items())
        except OSError:
            return False


def names(model: str) -> tuple[str, str]:
    """Return the short name and the repository ("": unknown) that `NAME` or `OWNER/NAME` means. Raises InvalidInput."""
    parts = _NAME.fullmatch(model)
    if parts is None or ".." in model:
        hint = f"For example {', '.join(GOOD)}, or OWNER/NAME."
        raise InvalidInput(f"{model!r:.120} is not a name of a model.", hint)
    good = GOOD.get(model)
    return parts["short"], good.repository if good else model if parts["owner"] else ""


def resolve(name: str) -> Path:
    """Return the folder, or the graph, that `onnx:NAME` or `onnx:PATH` means. Raises Unusable, InvalidInput."""
    if path := model_path(name):
        try:
            return Path(path).expanduser().absolute()
        except RuntimeError as error:
            raise Unusable(f"{path}: {error}.", "Name a folder by its whole path.") from error
    model = name.removeprefix("onnx:")
    if here := find(model):
        return here.folder
    raise Unusable(
        f"The model {model} is not on this machine.",
        f"Run `spellbook model pull {model}` once; notes are found by words until then.",
    )


def find(model: str) -> Pulled | None:
    """Return the downloaded model `NAME` or `OWNER/NAME`; None if it is missing or incomplete. Raises InvalidInput."""
    short, repository = names(model)
    here = _read(places.pulled() / short)
    return here if here and here.is_whole and ("/" not in model or here.model == repository) else None


def pulled() -> list[Pulled]:
    """Return what was pulled, whole or not, by name."""
    try:
        folders = sorted(places.pulled().iterdir())
    except OSError:
        return []
    return [here for folder in folders if not folder.name.startswith(".") and (here := _read(folder))]


def remove(model: str) -> Pulled:
    """Delete a model and any partial download of it. Raises InvalidInput if it is not here, StorageError."""
    short, _ = names(model)
    folder = places.pulled() / short
    here, rest = _read(folder), staging(short)
    if here is None and not rest.exists():
        known = ", ".join(other.name for other in pulled()) or "none"
        raise InvalidInput(f"There is no model {short} in {folder.parent}.", f"Models here: {known}.")
    try:
        # Renamed first: a half-deleted folder must not look like a model.
        if here:
            gone = folder.with_name(f".{short}.gone")
            shutil.rmtree(gone, ignore_errors=True)  # left by a killed process
            folder.rename(gone)
            shutil.rmtree(gone)
        shutil.rmtree(rest, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be deleted ({error.strerror}).", "Close what uses it, and try again."
        ) from error
    return here or Pulled(folder, "", short, {})


def staging(short: str) -> Path:
    """Return the folder of a download that is not complete yet."""
    return places.pulled() / f".{short}.part"


def files_of(manifest: Any) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of each file of a manifest. Raises ValueError, KeyError, TypeError, AttributeError."""
    files = {str(path): (int(facts["size"]), str(facts["sha256"])) for path, facts in manifest["files"].items()}
    if not files or not all(map(is_safe, files)):
        raise ValueError("it names no files, or one outside its folder")
    return files


def is_safe(path: str) -> bool:
    """Say whether a path of a download stays in its folder, on any system."""
    return bool(_PATH.fullmatch(path)) and ".." not in PurePosixPath(path).parts


def _read(folder: Path) -> Pulled | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        return Pulled(folder, str(manifest["source"]), str(manifest["model"]), files_of(manifest))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
