"""The form of a chunk as JSON Schema: its text, and the labels of a memory."""

from __future__ import annotations

from typing import Any

from spellbook.notes.labels import ENTITY_TYPES
from spellbook.settings.limits import MOST_LINE
from spellbook.verbs.declare import MOST_LETTERS

LINE = {"type": "string", "maxLength": MOST_LINE}
STRINGS = {"type": "array", "items": LINE, "maxItems": 50}

CHUNK: dict[str, Any] = {
    "type": "object",
    "description": "One idea, up to 512 tokens. Other labels: category, tags, source, title, supersedes, pinned.",
    "properties": {
        "text": {"type": "string", "maxLength": MOST_LETTERS, "description": "Markdown."},
        "metadata": {
            "type": "object",
            "properties": {
                "topic": {**LINE, "description": "Reuse one of get_index."},
                "keywords": {**STRINGS, "description": "3 to 10 exact search terms."},
                "questions": {**STRINGS, "description": "2 to 5 questions it answers completely."},
                "entities": {
                    "type": "array",
                    "maxItems": 50,
                    "description": "Named things in it.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": LINE,
                            "type": {"type": "string", "enum": [*ENTITY_TYPES]},
                        },
                        "required": ["name"],
                    },
                },
                "importance": {"type": "string", "enum": ["high", "medium", "low"]},
            },
            "required": ["topic", "keywords"],
        },
    },
    "required": ["text", "metadata"],
}
