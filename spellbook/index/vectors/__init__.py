"""Nearest vectors: exact search in memory, Chroma as approximate index of large vaults. The only Chroma."""

from spellbook.system.lazy import late

late(__name__, "server")
