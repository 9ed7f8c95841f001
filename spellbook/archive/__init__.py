"""
Export, import and snapshots of a vault, and web pages. A backup holds the vault's files, byte for byte, not the index.
"""
