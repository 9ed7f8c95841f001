"""
The modules that lay answers out. They are imported at the first answer, so that an idle server stays small.

Imported at the start, they would delay the answer to `initialize` by 10 %.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spellbook.system.lazy import lazy

__all__ = ["articles", "load", "remembered", "render"]

if TYPE_CHECKING:
    from spellbook.mcp import articles, remembered, render
else:
    articles, remembered, render = lazy("spellbook.mcp", "articles", "remembered", "render")


def load() -> None:
    """Import the layouts of most answers now, before one is asked for."""
    import_module("spellbook.mcp.render")
