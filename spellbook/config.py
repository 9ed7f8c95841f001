"""
Settings, read once: defaults, the vault's config.toml, SPELLBOOK_*, flags.

The vault is the only thing that must be known; everything derived from it
lives outside, in the state folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spellbook.errors import InvalidInput, VaultNotFound

MARKER = ".spellbook"
"""The folder in a vault that holds settings which travel with it."""

_KINDS: dict[str, type] = {"embedder": str, "chunk_tokens": int, "cache_mb": int, "exact_most": int, "threads": int}


@dataclass(frozen=True, slots=True)
class Config:
    """
    What one run of Spellbook works with.

    `chunk_tokens`: most tokens of a chunk, estimated. `cache_mb`: vectors kept
    on disk, those in use included. `exact_most`: up to so many chunks, search by
    meaning is exact and in memory; above, Chroma answers. `threads`: of the embedder.
    `chroma_url`: a Chroma server instead of the embedded one; from the environment
    alone, so that no vault that somebody hands you sends its vectors anywhere.
    """

    vault: Path
    state: Path
    embedder: str = ""
    chunk_tokens: int = 256
    cache_mb: int = 512
    # An exact search over so many takes half a millisecond, as Chroma does, is always fresh, and misses nothing.
    exact_most: int = 20_000
    threads: int = 1
    chroma_url: str = ""
    chroma_token: str = field(default="", repr=False)


def load(vault: str | Path | None = None, *, embedder: str | None = None, state: str | Path | None = None) -> Config:
    """
    Return the settings for `vault`, or for the vault that `find_vault` finds.

    Raises VaultNotFound if the folder is not there, InvalidInput if
    config.toml is not TOML or holds a key or a value it cannot hold.
    """
    root = find_vault(vault)
    file = root / MARKER / "config.toml"
    settings = _read_settings(file)
    chosen = embedder or os.environ.get("SPELLBOOK_EMBEDDER") or settings.pop("embedder", "")
    settings.pop("embedder", None)
    base = Path(state or os.environ.get("SPELLBOOK_STATE") or _default_state()).expanduser()
    url, token = os.environ.get("SPELLBOOK_CHROMA_URL", ""), os.environ.get("SPELLBOOK_CHROMA_TOKEN", "")
    if url and not re.match(r"https?://[^/?#]", url):
        raise InvalidInput(f"SPELLBOOK_CHROMA_URL={url!r:.80} is no http address.", "For example http://localhost:8000, or unset it.")
    state_folder = base.absolute() / _state_name(root)
    return Config(vault=root, state=state_folder, embedder=str(chosen), chroma_url=url, chroma_token=token, **settings)


def find_vault(vault: str | Path | None = None) -> Path:
    """
    Return the real path of the vault that the person means.

    The argument, else SPELLBOOK_VAULT, else the nearest folder upwards with
    `.spellbook/`, else `~/spellbook`. Raises VaultNotFound if it is no folder.
    """
    named = vault or os.environ.get("SPELLBOOK_VAULT") or _nearest() or Path("~/spellbook")
    try:
        root = Path(named).expanduser()
        what = "" if root.is_dir() else "is a file" if root.exists() else "does not exist"
    except (RuntimeError, ValueError):  # `~nobody`, or NUL in the name
        root, what = Path(named), "does not exist"
    if what:
        raise VaultNotFound(
            f"{root}: the vault folder {what}.",
            "Give the folder of your notes with --vault DIR or SPELLBOOK_VAULT, or make one with `spellbook init DIR`.",
        )
    return root.resolve()


def _nearest() -> Path | None:
    try:
        start = Path.cwd()
        return next((folder for folder in (start, *start.parents) if (folder / MARKER).is_dir()), None)
    except OSError:
        return None


def _default_state() -> Path:
    from platformdirs import user_state_path  # only when no SPELLBOOK_STATE is set

    return user_state_path("spellbook", appauthor=False)


def _state_name(root: Path) -> str:
    # The real path decides, so that two ways to one vault share one index.
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:10]
    return f"{re.sub(r'[^0-9A-Za-z_-]+', '-', root.name).strip('-') or 'vault'}-{digest}"


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        raw: Mapping[str, Any] = tomllib.loads(file.read_text("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{file}: the settings cannot be read ({error}).", "Mend or delete the file.") from error
    for key, value in raw.items():
        kind = _KINDS.get(key)
        if kind is None:
            raise InvalidInput(f"{file}: there is no setting {key!r}.", f"Settings are {', '.join(_KINDS)}.")
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 1):
            wanted = "a positive whole number" if kind is int else "text"
            raise InvalidInput(f"{file}: {key} must be {wanted}, not {value!r}.", "Mend the line and try again.")
    return dict(raw)
