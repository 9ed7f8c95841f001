"""What is derived from the vault and can be deleted: the catalog, the vectors, and keeping both up to date."""
