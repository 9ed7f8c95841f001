"""
Where models are stored on this machine.

Prepared models are in the cache, which may be deleted at any time. Downloaded models are in the user's data folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SHIPPED = Path(sys.prefix, "share", "spellbook")
"""Where whoever installs Spellbook may have prepared the models, as a container's image does; it is only read."""


def cache() -> Path:
    """Return the folder for what can be made again: SPELLBOOK_CACHE, or the system's."""
    folder = os.environ.get("SPELLBOOK_CACHE")
    return Path(folder).expanduser().absolute() if folder else _default("cache")


def prepared(name: str) -> Path:
    """Return the folder of the prepared model `name`: the one that came with the installation, or in the cache."""
    shipped = SHIPPED / "models" / name
    return shipped if (shipped / "manifest.json").is_file() else cache() / "models" / name


def pulled() -> Path:
    """Return the folder of the models that were pulled: SPELLBOOK_MODELS, or the system's for data."""
    folder = os.environ.get("SPELLBOOK_MODELS")
    return Path(folder).expanduser().absolute() if folder else _default("data") / "models"


def _default(kind: str) -> Path:
    """Return the system's folder for the user's "cache" or "data"."""
    import platformdirs

    folder = platformdirs.user_cache_path if kind == "cache" else platformdirs.user_data_path
    return folder("spellbook", appauthor=False)
