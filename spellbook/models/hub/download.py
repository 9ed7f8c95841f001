"""
Download a model from a hub or a web server on request: resumable, verified, and complete or absent.

The protocol is that of the Hugging Face hub: `/api/models/REPO/tree/main` lists the files with their checksums,
`/REPO/resolve/main/FILE` is one of them. Any other server must have a folder as `store` keeps it, with its manifest.

The package huggingface-hub would not do: version 2.4 begins anew after a kill, compares no checksum, and writes all
that comes before it compares the length.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spellbook import __version__
from spellbook.models import places
from spellbook.models.hub import store
from spellbook.models.onnx import sbert_config
from spellbook.models.services.client import connect
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError, InvalidInput, StorageError
from spellbook.system.lazy import httpx

ENDPOINT = "https://huggingface.co"
"""The hub unless HF_ENDPOINT names another."""

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes in all."""

_WANTED = re.compile(
    r"config\.json|tokenizer\.json|tokenizer_config\.json|sentence_bert_config\.json|modules\.json|config_sentence_transformers\.json"
    r"|\d+_\w+/config\.json|\d+_Dense/model\.safetensors"
)
_TRIES = 5
"""Failures one after the other, without a new byte, after which a download is given up."""

_TIMEOUT = (10.0, 30.0, 30.0, 30.0)
"""Seconds to connect, to read, to write and to wait for a connection."""

PAUSE = 0.5
"""Seconds before the second try, doubled before each further one."""

_SPARE = 50_000_000
"""Bytes that stay free on the disk."""


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    """A file to fetch: `digest` is `sha256:…`, or `git:…` for the SHA-1 that git gives a file."""

    path: str
    url: str
    size: int
    digest: str


class _Broken(Exception):
    """An interrupted download that can be resumed."""


def pull(name: str, source: str = "", progress: Progress | None = None) -> tuple[store.Pulled, bool]:
    """
    Return the model `name` (of `store.GOOD`, or OWNER/NAME), and whether it had to be fetched.

    `source` is the address of a repository on the hub, or of a folder with a manifest on any web server; without it the
    model comes from the hub. If the model is here already, nothing is requested. Raises InvalidInput, StorageError, and
    EmbeddingError if it cannot be fetched.
    """
    short, repository = store.names(name)
    hub = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    if source.startswith(f"{hub}/"):
        source, repository = "", re.sub(r"/(tree|blob|resolve)/.*", "", source.removeprefix(f"{hub}/").rstrip("/"))
    origin = source.rstrip("/") or f"{hub}/{repository}"
    if not source and not repository:
        raise InvalidInput(
            f"There is no model {name!r:.80} among those known here.",
            f"They are {', '.join(store.GOOD)}; or say OWNER/NAME, or --from URL.",
        )
    if not re.match(r"https?://[^/]", origin):
        raise InvalidInput(f"{origin!r:.120} is not a web address.", "It begins with https:// or http://.")
    if here := store.find(short):
        if here.source == origin or (not source and here.model == repository):
            return here, False
        raise InvalidInput(
            f"{short} is here already, from {here.source}.", f"Run `spellbook model remove {short}` first."
        )
    folder = places.pulled() / short
    headers = {"User-Agent": f"spellbook/{__version__}"}
    try:
        # The hub sends on to where it keeps large files; checksums come from the hub itself.
        with locked(folder), connect(origin, origin, headers, follow_redirects=True, timeout=_TIMEOUT) as http:
            model, parts = _manifest(http, origin, short) if source else (repository, _list(http, hub, repository))
            return _download(http, parts, store.Pulled(folder, origin, model, {}), progress), True
    except OSError as error:
        raise StorageError(
            f"{error.filename or folder} cannot be written ({error.strerror or error}).",
            "Make room there, or set SPELLBOOK_MODELS.",
        ) from error


def _download(
    http: httpx.Client, parts: Sequence[_RemoteFile], model: store.Pulled, progress: Progress | None
) -> store.Pulled:
    """Fetch `parts` into the folder of `model`; return it with its files. Raises as `pull` does, and OSError."""
    folder, done = model.folder, 0
    files: dict[str, tuple[int, str]] = {}
    stage, total = store.staging(folder.name), sum(part.size for part in parts)
    stage.mkdir(parents=True, exist_ok=True)
    here = sum(file.stat().st_size for file in stage.rglob("*") if file.is_file())
    if shutil.disk_usage(stage).free < total - here + _SPARE:
        raise StorageError(
            f"{stage.parent} has no room for {total / 1e6:,.0f} MB.",
            "Make room, or set SPELLBOOK_MODELS to another disk.",
        )

    def report(here: int) -> None:
        if progress:
            progress(done + here, total)

    for part in parts:
        _fetch(http, part, stage / part.path, report)
        files[part.path] = part.size, disk.hash_of(stage / part.path)
        done += part.size
    for file in [*stage.rglob("*")]:
        if file.is_file() and file.relative_to(stage).as_posix() not in files:
            file.unlink()  # left by an earlier try from another source
    try:
        sbert_config.read(stage)
    except sbert_config.Unusable as error:
        raise EmbeddingError(f"{model.source} holds no model that can be run: {error}", error.hint) from error
    model = replace(model, files=files)
    (stage / store.MANIFEST).write_text(model.manifest(), "utf-8")
    disk.fsync(stage / store.MANIFEST)
    shutil.rmtree(folder, ignore_errors=True)  # an incomplete model
    stage.rename(folder)
    disk.fsync(folder.parent)
    return model


# -- which files


def _list(http: httpx.Client, hub: str, repository: str) -> list[_RemoteFile]:
    """Return the parts of a repository on a hub that a model needs."""
    url = f"{hub}/api/models/{quote(repository)}/tree/main?recursive=true"
    entries: dict[str, Any] = {}
    while url:
        response = _get(http, url, f"{hub}/{repository}")
        try:
            entries |= {str(entry["path"]): entry for entry in response.json() if entry["type"] == "file"}
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddingError(f"{url} is not a list of files.", "Is HF_ENDPOINT a hub?") from error
        url = response.links.get("next", {}).get("url", "")
        if url and not url.startswith(f"{hub}/"):
            raise EmbeddingError(f"{hub} sends on to {url}.", "Is HF_ENDPOINT a hub?")
    needed = _needed(list(entries), f"{hub}/{repository}")
    try:
        return [_part(entries[path], f"{hub}/{repository}/resolve/main/{quote(path)}") for path in needed]
    except (ValueError, KeyError, TypeError) as error:
        raise EmbeddingError(
            f"{hub}/{repository} does not say how long its files are, or what their checksums.", "Is HF_ENDPOINT a hub?"
        ) from error


def _needed(paths: Sequence[str], where: str) -> list[str]:
    """Return those of a repository's files that a model needs, the small ones first."""
    graph = next(iter(sbert_config.graphs(paths)), "")
    if not graph:
        raise EmbeddingError(
            f"{where} has no ONNX graph.",
            "Another repository may; or make one: `optimum-cli export onnx --model NAME FOLDER`, and onnx:FOLDER.",
        )
    folder, _, name = graph.rpartition("/")
    beside = [path for path in paths if path.rpartition("/")[0] == folder]
    # Weights beside the graph; some exporters give large constants a file each, without an ending.
    data = [
        path for path in beside if sbert_config.belongs(path.rpartition("/")[2], name) or (folder and "." not in path)
    ]
    small = [path for path in paths if _WANTED.fullmatch(path)]
    if "tokenizer.json" not in small:
        small += [path for path in beside if path.endswith("/tokenizer.json")]
    return [path for path in (*small, *data, graph) if store.is_safe(path)]


def _part(entry: Any, url: str) -> _RemoteFile:
    large = entry.get("lfs")
    digest = f"sha256:{large['oid'].removeprefix('sha256:')}" if large else f"git:{entry['oid']}"
    return _RemoteFile(entry["path"], url, int((large or entry)["size"]), digest)


def _manifest(http: httpx.Client, source: str, short: str) -> tuple[str, list[_RemoteFile]]:
    """Return the name that its makers give to the model in a folder, and its parts."""
    url = f"{source}/{store.MANIFEST}"
    try:
        manifest = _get(http, url, source).json()
        files = store.files_of(manifest)
        model = str(manifest.get("model", short))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "Name a folder that `spellbook model pull` made, or a repository on the hub."
        raise EmbeddingError(f"{url} is not a manifest of a model.", hint) from error
    return model, [
        _RemoteFile(path, f"{source}/{quote(path)}", size, f"sha256:{sha}") for path, (size, sha) in files.items()
    ]


# -- one file


def _fetch(http: httpx.Client, part: _RemoteFile, file: Path, report: Callable[[int], None]) -> None:
    """Download `part` to `file`, resuming `file`.part. Raises EmbeddingError, OSError."""
    if _is_whole(file, part):
        report(part.size)
        return
    unfinished = file.with_name(f"{file.name}.part")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    furthest = _size(unfinished)
    fresh, tries = not furthest, 0
    while True:
        try:
            _stream(http, part, unfinished, report)
        except _Broken as broken:
            tries = 0 if _size(unfinished) > furthest else tries + 1
            furthest = max(furthest, _size(unfinished))
            if tries >= _TRIES:
                hint = "Try again later; what is here already is kept."
                raise EmbeddingError(f"{part.url} cannot be fetched ({broken}).", hint) from broken
            if tries:
                time.sleep(PAUSE * 2**tries)
            continue
        if _is_whole(unfinished, part):
            unfinished.rename(file)
            return
        unfinished.unlink(missing_ok=True)
        if fresh:
            raise EmbeddingError(
                f"{part.url} is not what its size and checksum say.",
                "Nothing of it was kept. Try again later, or pull it from elsewhere.",
            )
        fresh = True  # what was here already may be of another version of the file


def _stream(http: httpx.Client, part: _RemoteFile, unfinished: Path, report: Callable[[int], None]) -> None:
    """Append the missing bytes to `unfinished`. Raises _Broken, EmbeddingError, OSError."""
    begun = _size(unfinished)
    if begun >= part.size > 0:
        return
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    try:
        with http.stream("GET", part.url, headers=headers) as response:
            if response.status_code == 416:
                return
            if response.status_code not in {200, 206}:
                _refuse(response, part.url)
            covers = response.headers.get("content-range", "")
            goes_on = response.status_code == 206 and covers.startswith(f"bytes {begun}-")
            here = begun if goes_on else 0
            with unfinished.open("ab" if goes_on else "wb") as data:
                for chunk in response.iter_raw():
                    here += len(chunk)
                    if here > part.size:
                        return
                    data.write(chunk)
                    report(here)
                data.flush()
                os.fsync(data.fileno())
            if here < part.size and not response.headers.keys() & {"content-length", "transfer-encoding"}:
                raise _Broken("it ended early")  # httpx raises this itself where the answer names its length
    except httpx.HTTPError as error:
        raise _Broken(str(error) or type(error).__name__) from error


def _get(http: httpx.Client, url: str, what: str) -> httpx.Response:
    """Return a small answer. Raises EmbeddingError."""
    tried = 0
    while True:
        try:
            response = http.get(url)
            if response.status_code != 200:
                _refuse(response, what)
            return response
        except (httpx.HTTPError, httpx.InvalidURL, _Broken) as error:
            tried += 1
            may_pass = httpx.ReadError | httpx.RemoteProtocolError | httpx.TimeoutException | _Broken
            if tried == _TRIES or not isinstance(error, may_pass):
                hint = "Is this machine online? A folder that was copied here can be used as onnx:PATH."
                raise EmbeddingError(f"{what} cannot be reached ({error}).", hint) from error
            time.sleep(PAUSE * 2 ** (tried - 1))


def _refuse(response: httpx.Response, what: str) -> None:
    """Raise the error that an answer without content stands for: _Broken if another try may succeed."""
    status = response.status_code
    if status in {408, 416, 429} or status >= 500:
        raise _Broken(f"HTTP {status}")
    if status in {401, 403}:  # which the hub also says of what does not exist
        raise EmbeddingError(
            f"{what} does not exist, or wants an account (HTTP {status}).",
            "Check the name; or fetch it yourself, and use onnx:PATH.",
        )
    raise EmbeddingError(f"{what} is not there (HTTP {status}).", "Check the name or the address.")


def _is_whole(file: Path, part: _RemoteFile) -> bool:
    """Say whether `file` is all of `part`, to the last bit."""
    if not file.is_file() or _size(file) != part.size:
        return False
    return part.digest == (f"sha256:{disk.hash_of(file)}" if part.digest.startswith("sha256:") else _git_digest(file))


def _git_digest(file: Path) -> str:
    """Return `git:` and the SHA-1 that git gives a file."""
    digest = hashlib.sha1(f"blob {_size(file)}\0".encode(), usedforsecurity=False)
    with file.open("rb") as data:
        return f"git:{hashlib.file_digest(data, lambda: digest).hexdigest()}"


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def locked(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes from pulling to `folder`. Raises OSError, and StorageError if another one does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    busy = StorageError(f"Another process is pulling {folder.name}.", "Wait until it has done so.")
    return disk.alone(folder.with_name(f".{folder.name}.lock"), 0, busy)
