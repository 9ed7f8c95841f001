"""
Texts as the catalog stores them: deflated, what is embedded of a chunk with the chunk's own text as the dictionary.

Most of what is embedded of a chunk is its text again, so it takes some fifty bytes. Either can be read back exactly.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping
from typing import Any

_LEVEL = 6
_MEMORY = 5
"""zlib's level of compression and of memory."""

_WINDOW = -13
"""Deflate without a header, within 8 kB: few chunks are longer, and a larger window takes three times as long."""


def packed(text: str, like: str = "") -> bytes:
    """Return `text` deflated; what it shares with `like`, which must be given to read it, takes hardly any space."""
    settings = _LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY
    deflate = zlib.compressobj(*settings, _bytes(like)) if like else zlib.compressobj(*settings)
    return deflate.compress(_bytes(text)) + deflate.flush()


def unpacked(data: bytes, like: str = "") -> str:
    """Return the text that `packed` was given."""
    if not like:
        return zlib.decompress(data, _WINDOW).decode("utf-8", "surrogatepass")
    inflate = zlib.decompressobj(_WINDOW, _bytes(like))
    return (inflate.decompress(data) + inflate.flush()).decode("utf-8", "surrogatepass")


def packed_embedded(embedded: str, heading: str, text: str) -> bytes:
    """Return what is embedded of the chunk `text` below `heading` as the catalog stores it."""
    return packed(embedded, f"{heading}\n{text}")


def _embedded_text(data: bytes, heading: str, text: bytes) -> str:
    return unpacked(data, f"{heading}\n{unpacked(text)}")


def short_key(key: str) -> str:
    """Return the `models.base.short_hash` for a whole SHA-256 in hexadecimal, as keys were before."""
    return base64.urlsafe_b64encode(bytes.fromhex(key)[:15]).decode("ascii")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "packed": (1, packed),
    "packed_embedded": (3, packed_embedded),
    "unpacked": (1, unpacked),
    "embedded_text": (3, _embedded_text),
    "short_key": (1, short_key),
}
"""The same for SQL; `embedded_text(embedded, heading, text)` is what is embedded of a chunk, from its columns."""
