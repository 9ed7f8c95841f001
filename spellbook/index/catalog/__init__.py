"""The catalog: files, notes, chunks, words and vectors in one SQLite file. The only SQL."""
