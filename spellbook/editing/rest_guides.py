"""
The guides that `rest` returns, and its sessions.

Guides are notes that people may edit, completed by the packaged ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from spellbook.editing import good_chunks
from spellbook.index.catalog.usage import Session
from spellbook.index.filters import conditions, fold
from spellbook.index.opened import Index
from spellbook.notes.note import Note, parse
from spellbook.settings import paths
from spellbook.settings.translate import language_of_tools
from spellbook.system.errors import InvalidInput, MemoryNotFound, RestRequired
from spellbook.text.quoting import json_of

LANGUAGES = ("en", "ko")
SESSION_SECONDS = 3600.0  # how long a session is live after it began

_MOST_LETTERS = 2_900
"""Letters of the lists that `rest` returns; its whole answer has at most 3,500."""

_HEADINGS = {
    "principles": ("principles", "원칙"),
    "size": ("size", "크기"),
    "keep": ("what to keep", "남길 것"),
    "leave": ("what not to keep", "남기지 않을 것"),
    "keywords": ("keywords", "키워드"),
    "questions": ("questions", "질문"),
    "entities": ("entities", "개체"),
    "topic": ("topic and category", "주제와 분류"),
    "importance": ("importance", "중요도"),
}


@cache
def packaged(language: str) -> dict[str, Note]:
    """Return the packaged guides of a language by name: chunking, metadata, examples."""
    folder = Path(paths.starter(), "system", language)
    notes = [parse(f"system/{language}/{file.name}", file.read_bytes()) for file in sorted(folder.glob("*.md"))]
    return {str(note.meta.get("guide")): note for note in notes}


def chunking(notes: Mapping[str, Note]) -> dict[str, Any]:
    """Return `{principles, ideal_chunk_size {min_tokens, max_tokens}, examples}` from the guides by name."""
    guide = notes["chunking"]
    return {
        "principles": _items_of(guide, "principles") + _items_of(guide, "leave"),
        "ideal_chunk_size": {
            "min_tokens": _number(guide, "min_tokens", good_chunks.MIN_TOKENS),
            "max_tokens": _number(guide, "max_tokens", good_chunks.MAX_TOKENS),
        },
        "examples": _sections(notes["examples"]) or _sections(_original(notes["examples"])),
    }


def metadata_rules(notes: Mapping[str, Note]) -> dict[str, Any]:
    """Return `{required_fields, keyword_count {min, max}, question_guidelines, …}` from the guides by name."""
    guide = notes["metadata"]
    required = guide.meta.get("required_fields")
    return {
        "required_fields": required if isinstance(required, list) else ["topic", "keywords"],
        "keyword_count": {
            "min": _number(guide, "keyword_min", good_chunks.MIN_KEYWORDS),
            "max": _number(guide, "keyword_max", good_chunks.MAX_KEYWORDS),
        },
        "keyword_guidelines": _items_of(guide, "keywords"),
        "question_guidelines": _items_of(guide, "questions"),
        "entity_extraction": _items_of(guide, "entities"),
        "topic_and_category": _items_of(guide, "topic"),
        "importance": _items_of(guide, "importance"),
    }


def fit(chunking: dict[str, Any], rules: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both guides with only the items that `rest` has room for: principles go first, examples last."""
    room = _MOST_LETTERS
    lists = [(rules, name) for name, value in rules.items() if isinstance(value, list)]
    for guide, name in ((chunking, "principles"), *lists, (chunking, "examples")):
        sizes = [len(json_of(item)) + len(", ") for item in guide[name]]
        fitting = sum(end <= room for end in accumulate(sizes))
        guide[name], room = guide[name][:fitting], room - sum(sizes[:fitting])
    return chunking, rules


def _number(note: Note, key: str, default: int) -> int:
    value = note.meta.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _items_of(note: Note, name: str) -> list[str]:
    """Return the list items of a section, or of the packaged guide."""
    return _items(note, name) or _items(_original(note), name)


def _original(note: Note) -> Note:
    # Matched as filters match it, whatever its case.
    language, guide = fold(note.meta.get("language")), fold(note.meta.get("guide"))
    return packaged(language if language in LANGUAGES else LANGUAGES[0])[guide]


def _items(note: Note, name: str) -> list[str]:
    source = note.body_lines
    inside = False
    items: list[str] = []
    for block in note.blocks:
        if block.kind == "heading" and block.level <= 2:
            inside = block.text.casefold() in _HEADINGS[name]
        elif inside and block.items:
            texts = ("".join(source[a:b]) for a, b in pairwise([*block.items, block.end]))
            items += [" ".join(text.split()).lstrip("-*+ ").strip() for text in texts]
    return items


def _sections(note: Note) -> list[str]:
    source = note.body_lines
    starts = [block.start for block in note.blocks if block.kind == "heading" and block.level == 2]
    return ["".join(source[a:b]).strip() for a, b in pairwise([*starts, len(source)])]


# -- sessions: a client reads the guides before it writes


def begin(index: Index, language: str) -> tuple[Session, dict[str, Any], dict[str, Any]]:
    """
    Open a session; return it with the chunking guide and the metadata rules, as far as there is room for them.

    Without a `language` it is that of tools. Raises InvalidInput if there are no guides in it.
    """
    language = language or language_of_tools()
    if language not in LANGUAGES:
        raise InvalidInput(f"There are no guides in {language!r:.80}.", f"Languages are {', '.join(LANGUAGES)}.")
    session = index.catalog.sessions.begin(f"rest-{os.urandom(12).hex()}", SESSION_SECONDS, language)
    notes = dict(packaged(language))  # the vault's own take their place
    for guide in notes:
        limits = conditions({"category": "system", "guide": guide, "language": language})
        with suppress(InvalidInput, MemoryNotFound):
            for path in index.catalog.paths(limits)[:1]:
                notes[guide] = parse(path, index.vault.read(path)[0])
    return session, *fit(chunking(notes), metadata_rules(notes))


def session(index: Index, session_id: str | None, *, ends: bool = False) -> Session:
    """Return a live session, which `ends` now if that is set. Raises RestRequired, RestInvalid, RestExpired."""
    if not session_id or not session_id.strip():
        raise RestRequired("Writing needs a REST session.", "Call rest() first and pass its session_id.")
    sessions = index.catalog.sessions
    return (sessions.end if ends else sessions.live)(session_id.strip())
