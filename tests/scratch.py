"""What an index says, in a form that two indexes of one vault share if they are equal."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import spellbook
from spellbook import config

_QUESTIONS = {
    "notes": "SELECT path, id, declared, title, topic, category, kind, importance, created, updated, keywords, tags, meta FROM notes",
    "fields": "SELECT path, key, value FROM fields JOIN notes USING (note)",
    "links": "SELECT path, ordinal, links.name, target, fragment, markdown, line FROM links JOIN notes USING (note)",
    "chunks": "SELECT path, ordinal, suffix, heading, line, end_line, text, embedded, same, key FROM chunks JOIN notes USING (note)",
    "words": (
        "SELECT path, ordinal, words.title, words.heading, words.keywords, words.questions, words.body, words.parts "
        "FROM words JOIN chunks ON chunk = words.rowid JOIN notes USING (note)"
    ),
    "stray words": "SELECT rowid FROM words WHERE rowid NOT IN (SELECT chunk FROM chunks)",
    "stray chunks": "SELECT chunk FROM chunks WHERE note NOT IN (SELECT note FROM notes)",
    "files": "SELECT path, size, sha256 FROM files",
    "faults": "SELECT path, line, reason FROM faults",
    "without a vector": "SELECT key FROM chunks WHERE key NOT IN (SELECT key FROM vectors)",
    "vectors": "SELECT key, vector FROM vectors WHERE key IN (SELECT key FROM chunks)",
}


def says(catalog: Path) -> dict[str, list[Any]]:
    """Return everything that a catalog derives from its vault."""
    connection = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)
    try:
        return {name: sorted(connection.execute(sql).fetchall(), key=repr) for name, sql in _QUESTIONS.items()}
    finally:
        connection.close()


def catalog_of(vault: Path, state: Path | None = None) -> Path:
    """Return where the catalog of `vault` lies."""
    return config.load(vault, state=state).state / "catalog.db"


def assert_equal_to_scratch(vault: Path, fresh_state: Path, embedder: str = "hash") -> None:
    """Assert that the index of `vault` is the one that would be built from nothing."""
    with spellbook.open(vault, embedder=embedder, state=fresh_state) as book:
        book.reindex()
    actual, expected = says(catalog_of(vault)), says(catalog_of(vault, fresh_state))
    for name in _QUESTIONS:
        assert actual[name] == expected[name], name
    assert not actual["stray words"]
    assert not actual["stray chunks"]
    assert not actual["without a vector"]
