"""
Ways into a vault and out of it: export, import and snapshots, and pages of the web.

A backup contains the vault's files, byte for byte, and nothing of the index, which is derived from them.
"""
