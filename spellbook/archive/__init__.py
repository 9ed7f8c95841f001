"""Export, import and snapshots of a vault, and web pages. A backup holds the files, byte for byte, not the index."""

from spellbook.system.lazy import late

late(__name__, "export", "importer", "open_knowledge", "snapshots")
