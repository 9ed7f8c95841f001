"""Texts as the catalog stores them: deflated. Of a chunk's embedded text only the lines above its text are stored."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spellbook.system.lazy import lazy

if TYPE_CHECKING:
    from spellbook.notes import chunks
else:  # It compiles many patterns, and a search by words needs none.
    (chunks,) = lazy("spellbook.notes", "chunks")

_LEVEL = 6
_MEMORY = 5
"""zlib's level of compression and of memory."""

_WINDOW = -13
"""Deflate without a header, within 8 kB: few chunks are longer, and a larger window takes three times as long."""


def packed(text: str) -> bytes:
    """Return `text` deflated."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return deflate.compress(text.encode("utf-8", "surrogatepass")) + deflate.flush()


def unpacked(data: bytes) -> str:
    """Return the text that `packed` was given."""
    return zlib.decompress(data, _WINDOW).decode("utf-8", "surrogatepass")


def _embedded_text(above: str, lead: str, text: bytes, tail: str) -> str:
    return chunks.embedded(above, lead, unpacked(text), tail)


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "unpacked": (1, unpacked),
    "embedded_text": (4, _embedded_text),
}
"""The same for SQL; `embedded_text(above, lead, text, tail)` is the embedded text of a chunk, from its columns."""
