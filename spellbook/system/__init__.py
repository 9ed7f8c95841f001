"""What the operating system gives: atomic files, SQLite connections, locks, processes, memory. Knows nothing of notes."""
