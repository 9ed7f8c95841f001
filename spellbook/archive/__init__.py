"""
Backups: export, import and snapshots of a vault.

A backup contains the vault's files, byte for byte, and nothing of the index, which is derived from them.
"""
