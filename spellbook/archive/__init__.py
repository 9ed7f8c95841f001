"""
Backups: a vault written into one file, read back from it, and kept as it was on earlier days.

What a backup holds is the vault's files, byte for byte, and nothing of the
index, which is derived from them.
"""
