"""The version of Spellbook, which everything may know."""

__version__ = "0.1.0"
