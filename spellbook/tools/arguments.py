"""
Types of tool arguments, forgiving of what clients really send.

Some clients send an optional argument as the text "null", and a list or an
object as its JSON text. The schemas stay plain: every argument is described
and bounded, every array names its items.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema


def _absent(value: object) -> object:
    return None if isinstance(value, str) and value.strip() in {"", "null", "None", "undefined"} else value


def _decoded(value: object) -> object:
    value = _absent(value)
    if isinstance(value, str) and value.strip()[:1] in {"[", "{"}:
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _listed(value: object) -> object:
    value = _decoded(value)
    return [value] if isinstance(value, str) else value


_STRINGS = {"type": "array", "items": {"type": "string"}}

CHUNK_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A finished chunk: it stands alone, holds one idea, and has 100 to 512 tokens.",
    "properties": {
        "text": {"type": "string", "description": "The text to keep, in Markdown."},
        "metadata": {
            "type": "object",
            "properties": {
                "topic": {"type": "string", "description": "What it is filed under; reuse a topic from get_index where one fits."},
                "keywords": {**_STRINGS, "description": "3 to 10 exact terms that somebody would look for."},
                "questions": {**_STRINGS, "description": "2 to 5 questions that this chunk answers completely."},
                "entities": {
                    "type": "array",
                    "description": "Named things it is about.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "type": {"type": "string", "enum": ["person", "project", "technology", "organization", "concept"]},
                        },
                        "required": ["name"],
                    },
                },
                "importance": {"type": "string", "enum": ["high", "medium", "low"]},
                "category": {"type": "string", "description": "project, preference, knowledge, decision, article, …"},
                "tags": _STRINGS,
                "source": {"type": "string", "description": "Where it comes from: a path, a URL, a person."},
            },
            "required": ["topic", "keywords"],
        },
    },
    "required": ["text", "metadata"],
}

_FILTER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": (
        "Limits the search before it runs. Keys: category, topic, tags, keywords, entities, kind, importance (at least), "
        "path (a glob), created and updated (2026-11-01..2026-11-30), or any frontmatter key. A list means any of it; "
        'a key that ends in "!" is negated.'
    ),
    "additionalProperties": True,
}


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}], "description": schema.get("description", ""), "default": None}


Query = Annotated[str, Field(min_length=1, max_length=20_000, description="A question or a sentence, in any language.")]
Keywords = Annotated[
    list[Annotated[str, Field(max_length=200)]],
    BeforeValidator(_listed),
    Field(min_length=1, max_length=32, description='Exact terms, each matched as a phrase: ["Qdrant", "embedded mode"].'),
]
Limit = Annotated[int, Field(ge=1, le=50, description="Most hits to return.")]
MinScore = Annotated[
    float | None, BeforeValidator(_absent), Field(ge=0, le=1, description="Leave out weaker hits: 0.5 is related, 0.7 relevant.")
]
MaxTokens = Annotated[int, Field(ge=50, le=50_000, description="Most tokens of text in the answer; what does not fit is a pointer.")]
Filter = Annotated[Any, BeforeValidator(_decoded), WithJsonSchema(_optional(_FILTER_SCHEMA))]
SessionId = Annotated[str | None, BeforeValidator(_absent), Field(max_length=200, description="The session_id that rest() returned.")]
ChunkArgument = Annotated[Any, BeforeValidator(_decoded), WithJsonSchema(CHUNK_SCHEMA)]
Chunks = Annotated[
    Any,
    BeforeValidator(_decoded),
    WithJsonSchema({"anyOf": [CHUNK_SCHEMA, {"type": "array", "items": CHUNK_SCHEMA, "maxItems": 100}]}),
]
Metadata = Annotated[
    Any,
    BeforeValidator(_decoded),
    WithJsonSchema(
        _optional(
            {
                "type": "object",
                "description": "Frontmatter keys to set; null removes a key. Keys not named stay as they are.",
                "additionalProperties": True,
            }
        )
    ),
]
MemoryId = Annotated[str, Field(min_length=1, max_length=2_000, description="The id of a chunk, as a hit names it.")]


def text(description: str, most: int = 2_000) -> Any:
    """Return the type of an optional text argument."""
    return Annotated[str | None, BeforeValidator(_absent), Field(max_length=most, description=description)]


Source = text("Where it comes from, if the metadata does not say: a path, a URL, a person.")
Category = text("Its category, if the metadata does not say: project, preference, knowledge, decision, article.", 200)
Scope = text("Limit to one scope, category or folder.", 500)
MaybeId = text("The id of a chunk, or the path of a note for the whole note.")
MaybeTopic = text("A topic, as `topic` or `category/topic`.")
Content = text("The new text of the section; its heading stays unless the text brings one.", 200_000)
ExpectedHash = text("The hash that get_topic showed for the chunk: refuse if it changed since.", 64)
Flag = Annotated[bool, BeforeValidator(lambda value: False if _absent(value) is None else value)]
