"""Changes of notes: write, revise, erase, merge, move, undo. Each is one journal entry and changes what was asked."""

from spellbook.system.lazy import late

late(
    __name__,
    "erase",
    "keep",
    "memory",
    "merge",
    "moves",
    "repair_links",
    "repair_properties",
    "rest_guides",
    "revise",
    "scribed",
    "undo",
    "write",
)
