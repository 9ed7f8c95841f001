"""Change one setting of a vault's config.toml, by the vault's own write path. The journal keeps notes alone."""

from __future__ import annotations

from spellbook.settings.edit import with_setting
from spellbook.settings.paths import MARKER
from spellbook.system.errors import MemoryNotFound
from spellbook.vault.folder import digest
from spellbook.vault.vault import Vault

_FILE = f"{MARKER}/config.toml"


def write_setting(vault: Vault, key: str, value: str) -> None:
    """Write a setting; an empty one is removed. Raises Conflict if the file changes meanwhile, and InvalidInput."""
    try:
        old = vault.read(_FILE)[0]
    except MemoryNotFound:
        old = b""
    new = with_setting(old.decode("utf-8"), key, value).encode("utf-8")
    if old and new != old:
        vault.write(_FILE, new, digest(old))
    elif new != old:
        vault.place(_FILE, [new])
