"""The index, which is derived from the vault and can be deleted: the catalog, the vectors, and their upkeep."""
