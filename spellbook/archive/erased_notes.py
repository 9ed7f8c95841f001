"""The guard of imports and restores: a note that mostly says what was erased stays away."""

from __future__ import annotations

from collections.abc import Iterable

from spellbook.notes.files import MOST_BYTES
from spellbook.vault.backup_files import is_note
from spellbook.vault.vault import Vault


def is_erased(vault: Vault, path: str, size: int, content: Iterable[bytes], *, is_there: bool) -> bool:
    """
    Say whether a file of `size` bytes for `path` is a note that mostly says what was erased. Raises StorageError.

    Its `content` is read only if that can be. With `is_there`, the sentences of the note at `path` do not count.
    """
    if not vault.has_tombstones or not is_note(path) or size > MOST_BYTES:
        return False
    old = [b"".join(vault.pieces(path))] if is_there else []
    return vault.tombstones.found(path, b"".join(content), old) is not None
