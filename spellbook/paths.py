"""
Where things are: the vault, the folder of its index, the folder of its snapshots.

This module uses plain strings and few imports: a `reindex` with nothing to do loads it and little else.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:  # hashlib would load OpenSSL, which is slow; Python's own SHA-256 is enough here
        sha256 = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except ImportError:
        from hashlib import sha256

MARKER = ".spellbook"
"""The folder inside a vault that holds the vault's own settings."""

_PLAIN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-")


def vault(named: str = "") -> str:
    """
    Return the vault folder: `named`, else SPELLBOOK_VAULT, else the nearest parent folder with `.spellbook/`, else
    `~/spellbook`.
    """
    return os.path.expanduser(named or os.environ.get("SPELLBOOK_VAULT") or _nearest() or "~/spellbook")


def state(root: str, base: str = "") -> str:
    """
    Return the folder of the index of the vault at the real path `root`.

    It is in `base`, else in SPELLBOOK_STATE, else in the system's folder for state.
    """
    return _of(root, base or os.environ.get("SPELLBOOK_STATE") or _default_state())


def snapshots(root: str) -> str:
    """
    Return the folder of the snapshots of the vault at the real path `root`.

    It is in SPELLBOOK_DATA, else in the system's folder for data.
    """
    return _of(root, os.path.join(os.environ.get("SPELLBOOK_DATA") or _default_data(), "snapshots"))


def _of(root: str, base: str) -> str:
    # The real path is hashed, so that two links to one vault share one index.
    digest = sha256(os.fsencode(root)).hexdigest()[:10]
    words = "".join(letter if letter in _PLAIN else " " for letter in os.path.basename(root)).split()
    return os.path.join(os.path.abspath(os.path.expanduser(base)), f"{'-'.join(words).strip('-') or 'vault'}-{digest}")


def _nearest() -> str:
    try:
        folder = os.getcwd()
    except OSError:
        return ""
    while not os.path.isdir(os.path.join(folder, MARKER)):
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
    return folder


def _default_data() -> str:
    if sys.platform == "linux" and "XDG_DATA_HOME" not in os.environ:
        return "~/.local/share/spellbook"
    from platformdirs import user_data_path

    return str(user_data_path("spellbook", appauthor=False))


def _default_state() -> str:
    if sys.platform == "linux" and "XDG_STATE_HOME" not in os.environ:
        return "~/.local/state/spellbook"  # the same as platformdirs says, without its slow import
    from platformdirs import user_state_path

    return str(user_state_path("spellbook", appauthor=False))
