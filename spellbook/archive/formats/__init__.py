"""Other programs' exports as notes: each module reads one format and writes nothing."""
