"""Other names of arguments that clients use, for every door, and the error for an unknown name."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from spellbook.index.filters import alike
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import one_line
from spellbook.verbs.arguments import is_absent

_SAME = (
    ("id", "chunk_id", "memory_id", "article_id", "note_id"),
    ("topic_id", "topic", "name", "id"),
    ("query", "q", "question"),
    ("keywords", "query", "q"),
    ("content", "text"),
    ("filter", "filters"),
    ("min_score", "threshold"),
    ("limit", "top_k", "max_results"),
    ("source", "url"),
)
"""Names of one argument. Ours is `id`; toolsets that were described elsewhere list their own."""

_OF_CURSOR = "random_string"
"""The argument that Cursor sends to a tool without arguments."""


def own(given: Mapping[str, Any], takes: Set[str], verb: str) -> dict[str, Any]:
    """Return arguments by the names that a verb `takes`. Raises InvalidInput for an unknown or a repeated one."""
    arguments = {name: value for name, value in given.items() if name in takes}
    for name in given.keys() - takes - {_OF_CURSOR}:
        known = next((same for group in _SAME if name in group for same in group if same in takes), "")
        if not known:
            wrong = f"{one_line(name[:80])} is not an argument of {verb}; it takes: {', '.join(takes) or 'nothing'}."
            near = " or ".join(alike(name[:80], takes))
            raise InvalidInput(wrong, f"{f'Did you mean {near}? ' if near else ''}Nothing was done.")
        if not is_absent(given[name]):
            if not is_absent(arguments.get(known)) and arguments[known] != given[name]:
                raise InvalidInput(f"{name} is another name of {known}; give one.", "Nothing was done.")
            arguments[known] = given[name]
    return arguments
