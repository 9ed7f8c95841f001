"""Arguments that several verbs share: defaults, bounds and help, for all doors; see also `settings.limits`."""

from __future__ import annotations

from typing import Any

from spellbook.notes.labels import ENTITY_TYPES
from spellbook.settings.limits import MOST_ALSO, MOST_HITS, MOST_LINE, MOST_OFFSET, MOST_QUERY
from spellbook.verbs.declare import MOST_LETTERS, choice, flag, mapping, needed, number, share, text, texts

MOST_CHUNKS = 100
"""Chunks that one call may write."""

ABSENT = ("", "null", "None", "undefined")
"""Texts that some clients send for a missing argument."""


def is_absent(value: object) -> bool:
    """Say whether a value stands for a missing argument: null, or one of those texts."""
    return value is None or (isinstance(value, str) and value.strip() in ABSENT)


QUERY = needed("A question or sentence.", MOST_QUERY)
ID = needed("Id, path or title.")
LIMIT = number("Maximum hits.", 5, 1, MOST_HITS)
FILTER = mapping(
    'As {"tags": ["db"]}.',
    20_000,
    additionalProperties=True,
    typed="Only notes with this: category, topic, tags, path (a glob), importance (at least), created, updated, when, "
    "or any frontmatter key. K!=V for all others; repeat for more.",
)
MAX_TOKENS = number("Maximum tokens of text.", 2_000, 50, 50_000)
FORM = choice("Answer format.", "text json", "text")
EXPLAIN = flag("Also how each score is made.", typed="Also print how each score is made: the share of each part.")
DRY_RUN = flag("Only show what would change.")
DRY_FIRST = DRY_RUN.but(default=True)
FORCE = flag("Write even a duplicate or a likely secret.")
FORCE_SECRET = flag("Write even a likely secret.")
HARD = flag(
    "Delete for good.",
    typed="Delete permanently instead of moving to the trash; only earlier snapshots and git's history still have it.",
)
MODE = choice("How to search.", "search memorize find", "search")
ONLY_CATEGORY = text("Only this category.", 200)
SKIPPED = number("Notes to skip.", 0, 0, MOST_OFFSET)

ALSO = texts(
    "Guesses: a sentence of the note; its words in the other language.",
    MOST_QUERY,
    MOST_ALSO,
    typed="A further text to search by, such as the sentence you expect; up to 3, repeat it.",
)
MIN_SCORE = share(
    "Minimum score.", typed="Leave out hits below this score (0 to 1), instead of using the built-in limit."
)
AS_OF = text("What held then: a date.", 40)
PER_NOTE = number("Maximum chunks of one note; 0 is no bound.", 0, 0, 100)

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
"""The form of a chunk as JSON Schema: its text, and the labels of a memory."""
