"""The index, which is derived from the vault and can be deleted: the catalog, the vectors, and their upkeep."""

from spellbook.system.lazy import late

late(__name__, "embed", "extract", "reader_processes", "suggestions")
