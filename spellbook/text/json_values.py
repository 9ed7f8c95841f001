"""Values of JSON that other programs wrote, or that may be damaged: each is read as its type, or as nothing. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spellbook.text.unicode import BROKEN

_MOST_NAME = 4_096  # letters of a path or an id
_MOST_NUMBER = 1 << 63


def parsed(data: str | bytes) -> object:
    """Return the value of a JSON text; None for `null`, and for a text that is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return None


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return an object of JSON, {} for another value."""
    return value if isinstance(value, dict) else {}


def name_of(value: object) -> str:
    """Return the name of an event, a path or an id, "" for a value that can be none."""
    return value if isinstance(value, str) and len(value) <= _MOST_NAME and not BROKEN.search(value) else ""


def number_of(value: object) -> int:
    """Return a number of bytes, things or nanoseconds, 0 for a value that can be none."""
    return value if type(value) is int and 0 <= value < _MOST_NUMBER else 0
