"""Arguments for tools, right and wrong, made from their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

JUNK: Sequence[Any] = (
    None, "", " ", "null", "None", 0, -1, 2**63, 2**80, 1.5, float("nan"), float("inf"), True, [], {}, [None], [[]],
    {"a": None}, "\0", "\ud800", "a\udfffb", "\u2028", "../../etc/passwd", "/etc/passwd", "C:\\x", "~", ".git/config",
    "a.md", "a#one", "a#", "a~2", "x" * 5_000, "[" * 500, '{"a": [1', "*a*a*a*a*b", '"', "'", "%s%s", "{0}",
    "category=x", "--vault", "🜂", "한글 메모", "a OR b", "NEAR(",
)  # fmt: skip
NAMES = (
    "category", "topic", "tags", "path", "created", "when", "importance", "language", "scope", "own key", "kind!",
    "path!", "__proto__", "",
)  # fmt: skip


def arguments(random: Random, schema: Mapping[str, Any], known: Sequence[str] = ()) -> dict[str, Any]:
    """
    Return arguments for a tool with this input schema: most are valid, some are anything; `known` are existing ids.
    """
    given: dict[str, Any] = {}
    for name, wanted in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or random.random() < 0.4:
            given[name] = value(random, wanted, known)
    if random.random() < 0.05:
        given[random.choice(["extra", "self", "ctx", ""])] = random.choice(JUNK)
    return given


def value(random: Random, schema: Mapping[str, Any], known: Sequence[str] = (), depth: int = 0) -> Any:
    """Return a value for a schema, or anything one time in eight."""
    if random.random() < 0.12:
        return random.choice(JUNK)
    if random.random() < 0.05:
        return json.dumps(value(random, schema, known, depth + 1), ensure_ascii=False, default=str)
    if "anyOf" in schema:
        return value(random, random.choice(schema["anyOf"]), known, depth)
    if "enum" in schema or "const" in schema:
        return random.choice(schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "object":
        wanted = schema.get("properties", {})
        found = {name: value(random, wanted[name], known, depth + 1) for name in wanted if random.random() < 0.7}
        if not wanted or schema.get("additionalProperties"):
            found |= {
                random.choice(NAMES): value(random, {"type": "string"}, known, depth + 1)
                for _ in range(random.randrange(3))
            }
        return found
    if kind == "array":
        return (
            [value(random, schema.get("items", {}), known, depth + 1) for _ in range(random.randrange(4))]
            if depth < 5
            else []
        )
    if kind == "integer":
        return random.choice([1, 2, 5, schema.get("minimum", 0), schema.get("maximum", 100), random.randrange(1000)])
    if kind == "number":
        return random.choice([0, 0.5, 1, random.random()])
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "null":
        return None
    return _text(random, known)


def _text(random: Random, known: Sequence[str]) -> str:
    if known and random.random() < 0.6:
        return random.choice(known)
    words = [
        "lantern", "granite", "배포", "금요일", "## One", "\n\n", "[[a]]", "3 ms", "never",
        "one two three four five six seven",
    ]  # fmt: skip
    return " ".join(random.choices(words, k=random.randrange(1, 12)))
