"""
Spellbook: a memory for people and their AI agents, in Markdown files they own.

    import spellbook

    with spellbook.open("~/notes") as book:
        answer = book.search("how do we rotate keys", limit=5)
        for hit in answer.hits:
            print(hit.score, hit.path, hit.line, hit.title)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook, open
    from spellbook.system.errors import SpellbookError

__version__ = "0.3.0"

__all__ = ["Spellbook", "SpellbookError", "__version__", "open"]

if not TYPE_CHECKING:  # a type checker would otherwise accept any misspelt name

    def __getattr__(name: str) -> Any:
        # Imported on first use, so that `spellbook --help` starts fast.
        if name in {"Spellbook", "open"}:
            from spellbook.library import book

            return getattr(book, name)
        if name == "SpellbookError":
            from spellbook.system.errors import SpellbookError

            return SpellbookError
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
