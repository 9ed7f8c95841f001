"""Nearest vectors: exact search in memory, Chroma as approximate index of large vaults. The only Chroma."""
