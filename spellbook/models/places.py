"""
Where models are stored on this machine.

Prepared models are in the cache, which may be deleted at any time. Downloaded models are in the user's data folder.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """Return the folder for what can be made again: SPELLBOOK_CACHE, or the system's."""
    from platformdirs import user_cache_path

    given = os.environ.get("SPELLBOOK_CACHE")
    return Path(given).expanduser().absolute() if given else user_cache_path("spellbook", appauthor=False)


def pulled() -> Path:
    """Return the folder of the models that were pulled: SPELLBOOK_MODELS, or the system's for data."""
    from platformdirs import user_data_path

    given = os.environ.get("SPELLBOOK_MODELS")
    return Path(given).expanduser().absolute() if given else user_data_path("spellbook", appauthor=False) / "models"
