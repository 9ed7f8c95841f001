"""
What lays answers out, imported at the first answer: an idle server stays small.

Imported as a server starts, these modules and what they need would make the answer to `initialize` 10 % later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spellbook.system.lazy import lazy

__all__ = ["articles", "earlier", "remembered", "render"]

if TYPE_CHECKING:
    from spellbook.library import earlier
    from spellbook.server import articles, remembered, render
else:
    (earlier,) = lazy("spellbook.library", "earlier")
    articles, remembered, render = lazy("spellbook.server", "articles", "remembered", "render")
