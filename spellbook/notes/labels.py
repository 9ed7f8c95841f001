"""Labels as callers write them: a list, one text with commas, or JSON in a text. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

TAGS_APART = r"[,\s]+"
"""Divides tags in one text, as in frontmatter: `tags: a, b`."""

DECISION, CHECKPOINT = "decision", "checkpoint"
"""Categories of notes that agents write by the toolset of decisions."""

SESSION = "session"
"""Category of a captured session: its title is its first request, and counts for its first section alone."""

ENTITY_TYPES = ("person", "project", "technology", "organization", "concept")


def listed(value: object, apart: str = ",") -> Any:
    """Return a text as a list: JSON decoded, else divided at the pattern `apart`, if any; other values as they are."""
    if not isinstance(value, str):
        return value
    text, quotes = value.strip(), ""
    if re.match(r"\[(?!\[)", text):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
        if apart and text.endswith("]"):  # `[a, b]`, as YAML and Python write lists
            text, quotes = text[1:-1], "'\""
    parts = re.split(apart, text) if apart else [text]
    return [part for each in parts if (part := each.strip().strip(quotes))]


def tags(value: object) -> Any:
    """Return tags as Obsidian reads them, a list of texts without `#`, commas and blanks; other values as they are."""
    if not isinstance(given := listed(value, TAGS_APART), list | tuple):
        return given
    parts = [part for each in given for part in (isinstance(each, str) and listed(each)) or [each]]
    return ["-".join(part.split()).lstrip("#") if isinstance(part, str) else part for part in parts]


def texts(value: object) -> list[str]:
    """Return the texts of a key of frontmatter that may hold one or a list."""
    return [str(item) for item in (value if isinstance(value, list) else [value]) if item not in (None, "")]
