"""Labels as callers write them: a list, one text with commas, or JSON in a text. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

from spellbook.notes.frontmatter import label_of

COMMA = (
    ",;\u055d\u060c\u061b\u07f8\u1363\u1364\u1802\u1808\u204f\u2e32\u2e34\u2e35\u2e41\u2e49\u2e4c\u3001\ua4fe\ua60d\ua6f5\ua6f6"
    "\ufe10\ufe11\ufe14\ufe50\ufe51\ufe54\uff0c\uff1b\uff64\U0001144d\U0001145a\U00016e97\U0001da87\U0001da89"
)
"""
All punctuation (category Po) that Unicode names a comma or a semicolon; letters, accents, quotation marks and numbers
with a comma in their name are none.
"""
COMMAS = f"[{COMMA}]"
"""Divides labels in one text: `tags: a, b`."""

DECISION, CHECKPOINT = "decision", "checkpoint"
"""Categories of notes that agents write by the toolset of decisions."""

MEMORY, INBOX = "memory", "inbox"
"""Category and topic of a note that was given none; such notes go to the vault's one inbox (`index.lookup`)."""

SESSION = "session"
"""Category of a captured session: its title is its first request, and counts for its first section alone."""

MOST_LABELS = 1_000
"""Labels of one kind that are indexed of a note: every hit in it is shown with them."""

ENTITY_TYPES = ("person", "project", "technology", "organization", "concept")


def listed(value: Any, apart: str = ",") -> Any:
    """
    Return a text as a list: JSON decoded, else divided at the pattern `apart`, if any.

    A list loses its empty texts and nulls; other values are returned as they are.
    """
    if not isinstance(value, str):
        is_list = isinstance(value, list | tuple)
        return [each for each in value if each is not None and str(each).strip()] if is_list else value
    text, quotes = value.strip(), ""
    if re.match(r"\[(?!\[)", text):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
        if apart and text.endswith("]") and "](" not in text:  # `[a, b]`, as YAML and Python write lists
            text, quotes = text[1:-1], "'\""
    parts = re.split(apart, text) if apart else [text]
    return [part for each in parts if (part := each.strip().strip(quotes))]


def tags(value: object) -> Any:
    """
    Return tags as Obsidian writes them, a list of texts without `#`, commas and blanks; other values as they are.

    Blanks divide only tags that have their `#`: `#a #b`; `two words` is `two-words`.
    """
    if not isinstance(given := listed(value, COMMAS), list):
        return given
    return [tag for each in given for tag in (_tags_in(each) if isinstance(each, str) else [each])]


def _tags_in(text: str) -> list[str]:
    rows = [label_of(part).split() for part in listed(text, COMMAS)]
    parts = [row if all(word.startswith("#") for word in row) else ["-".join(row)] for row in rows]
    return [tag for row in parts for each in row if (tag := each.lstrip("#"))]


def texts(value: object) -> list[str]:
    """Return the texts of a key of frontmatter that may hold one or a list."""
    return [str(item) for item in (value if isinstance(value, list) else [value]) if item not in (None, "")]
