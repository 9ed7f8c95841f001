"""Atomic files, SQLite connections, locks, processes and memory of the operating system. Knows nothing of notes."""
