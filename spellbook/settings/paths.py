"""Folders: the vault, its index, its snapshots. Plain strings: a `reindex` with nothing to do loads little else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256

from spellbook.system import platform

MARKER = ".spellbook"
"""The folder inside a vault that holds the vault's own settings."""

OBSIDIAN = tuple(
    f".obsidian/{name}.json"
    for name in ("app", "templates", "daily-notes", "plugins/templater-obsidian/data", "plugins/periodic-notes/data")
)
"""Files of Obsidian's settings in a vault that are read; see `vault/obsidian.py`."""

_MOST_LETTERS = 4_096
"""Letters of the path of a vault: the longest path of Linux."""

LOGSEQ = "logseq/config.edn"
"""The file of a Logseq graph's settings; see `vault/logseq.py`."""

_PLAIN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-")


_REASONS = (
    "SPELLBOOK_VAULT names it",
    "it is the folder of this place",
    "it is the vault of this machine: `spellbook use DIR` chooses another",
    "no other vault is chosen: `spellbook use DIR` chooses one",
)
"""Reasons for the vault that is used where none is named, in the order of `chosen`."""


def vault(named: str = "") -> str:
    """Return the vault that `chosen` chooses."""
    return chosen(named)[0]


def chosen(named: str = "") -> tuple[str, str]:
    """
    Return the vault, and why it is this one.

    It is `named`, SPELLBOOK_VAULT, the nearest folder upwards with `.spellbook/`, this machine's, or `~/spellbook`.
    """
    if named:
        return os.path.expanduser(named), ""
    folders = (os.environ.get("SPELLBOOK_VAULT"), upwards(MARKER, os.path.isdir), of_this_machine(), "~/spellbook")
    folder, reason = next((each, why) for each, why in zip(folders, _REASONS, strict=True) if each)
    return os.path.expanduser(folder), reason


def default_file() -> str:
    """Return the file that names the vault of this machine, in one line."""
    return common("default-vault")


def of_this_machine() -> str:
    """Return the vault that `spellbook init` or `use` chose for this machine, "" if there is none."""
    try:
        with open(default_file(), encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_MOST_LETTERS).strip("\r\n")
    except OSError:
        return ""


def starter() -> str:
    """Return the folder of the starter vault that comes with Spellbook."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packaged = os.path.join(package, "starter")
    return packaged if os.path.isdir(packaged) else os.path.join(os.path.dirname(package), "vault")


def listed(value: str) -> list[str]:
    """Return the folders in the value of a variable, which has the separator of PATH between them."""
    return [folder for folder in value.split(os.pathsep) if folder.strip()]


def project(environment: Mapping[str, str] = os.environ, folder: str = "") -> str:
    """
    Return the folder of a project, "" if it is none.

    That is `folder`, else the one that the client names (CLAUDE_PROJECT_DIR), else the nearest git repository upwards
    from the working directory.
    """
    return folder or environment.get("CLAUDE_PROJECT_DIR", "") or upwards(".git", os.path.exists)


def state(root: str, base: str = "") -> str:
    """Return the index folder of the vault at the real path `root`: in `base`, SPELLBOOK_STATE, or the system's."""
    return _of(root, base or os.environ.get("SPELLBOOK_STATE") or of_system("state"))


def real(folder: str) -> str:
    """Return the real path of a vault, in the true case of its names; what another case led to becomes its own."""
    named = os.path.realpath(folder)
    root = platform.real_path(named)
    if root != named:
        for place in (state, data, snapshots):
            _moved(place(named), place(root))
    return root


_OF_VAULT = ("capture-off", "capture", "tokens.json")
"""Data that earlier versions kept in a vault's state folder on Windows and macOS; tokens are moved last."""


def data(root: str) -> str:
    """Return the folder of the vault at the real path `root` for its tokens and its capture."""
    base, before = _data()
    folder, old = _of(root, base), _of(root, before or base)
    is_moved = all(_moved(os.path.join(old, name), os.path.join(folder, name)) for name in _OF_VAULT)
    return folder if is_moved else old


def tombstones(root: str) -> str:
    """Return the file for the tombstones of the vault at the real path `root`; see `vault/tombstones.py`."""
    return os.path.join(data(root), "tombstones.db")


def snapshots(root: str) -> str:
    """Return the folder for the snapshots of the vault at the real path `root`."""
    return _of(root, common("snapshots"))


def common(name: str) -> str:
    """Return the folder `name` that all vaults of this machine share: in SPELLBOOK_DATA, or the system's folder."""
    base, before = _data()
    place, old = os.path.join(base, name), os.path.join(before or base, name)
    return place if _moved(old, place) else old


def _data() -> tuple[str, str]:
    """Return the folder for data, and the one in which earlier versions kept it, "" for the same."""
    folder = os.environ.get("SPELLBOOK_DATA") or of_system("data")
    base = os.path.abspath(os.path.expanduser(folder))
    if os.environ.get("SPELLBOOK_DATA") or folder != of_system("state"):
        return base, ""
    # Windows and macOS have one folder for both. Deleting the index must not delete the tokens.
    return os.path.join(base, "data"), base


def _moved(old: str, new: str) -> bool:
    """Move what is at `old` to `new`, if only that is there; return whether nothing is left to move."""
    if old == new or os.path.lexists(new) or not os.path.lexists(old):
        return True
    try:
        os.makedirs(os.path.dirname(new), 0o700, exist_ok=True)
        platform.rename(old, new)
    except OSError:  # open elsewhere, or another process was first
        return not os.path.lexists(old)
    return True


def _of(root: str, base: str) -> str:
    # The real path is hashed, so that two links to one vault share one index.
    digest = sha256(os.fsencode(root)).hexdigest()[:10]
    words = "".join(letter if letter in _PLAIN else " " for letter in os.path.basename(root)).split()
    return os.path.join(os.path.abspath(os.path.expanduser(base)), f"{'-'.join(words).strip('-') or 'vault'}-{digest}")


def upwards(name: str, is_there: Callable[[str], bool], folder: str = "") -> str:
    """Return `folder` (the working directory), or the nearest folder above it, that has `name`; "" if none has."""
    try:
        folder = os.path.abspath(folder or os.getcwd())
    except OSError:
        return ""
    while not is_there(os.path.join(folder, name)):
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
    return folder


def of_system(kind: str) -> str:
    """Return the system's folder for the user's "cache", "data" or "state"."""
    named = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
    if sys.platform == "linux" and (not named or named[0] == "/"):
        # As platformdirs says, whose import takes half as long as a look at 6,000 notes.
        usual = {"cache": "~/.cache", "data": "~/.local/share", "state": "~/.local/state"}
        return os.path.join(named or usual[kind], "spellbook")
    import platformdirs

    folder: str = getattr(platformdirs, f"user_{kind}_dir")("spellbook", appauthor=False)
    return folder
