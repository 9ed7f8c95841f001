"""Nearest vectors: exact search in memory, SimHash for large vaults, Chroma as approximate index. The only Chroma."""
