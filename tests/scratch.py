"""What an index says of a vault, in a form in which equal indexes are equal values."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import spellbook
from spellbook.settings import config

_QUESTIONS = {
    "notes": "SELECT path, id, declared, title, topic, category, kind, importance, created, updated, keywords, tags, meta FROM notes",
    "fields": "SELECT path, key, value FROM fields JOIN notes USING (note)",
    "links": "SELECT path, ordinal, links.name, target, fragment, markdown, line FROM links JOIN notes USING (note)",
    "chunks": "SELECT path, ordinal, suffix, heading, line, end_line, text, above, same, key FROM chunks JOIN notes USING (note)",
    # What can be found, not what the index would be made of.
    "words": (
        "SELECT path, ordinal, col, group_concat(offset || term, ' ') FROM (SELECT * FROM temp.terms ORDER BY offset, term) "
        "JOIN chunks ON chunk = doc JOIN notes USING (note) GROUP BY doc, col"
    ),
    "stray words": "SELECT doc, term FROM temp.terms WHERE doc NOT IN (SELECT chunk FROM chunks)",
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
        connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab (main, words, instance)")
        return {name: sorted(connection.execute(sql).fetchall(), key=repr) for name, sql in _QUESTIONS.items()}
    finally:
        connection.close()


def catalog_of(vault: Path, state: Path | None = None) -> Path:
    """Return where the catalog of `vault` lies."""
    return config.load(vault, state=state).state / "catalog.db"


def _without_shared_ids(said: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """
    Leave out the ids of notes that declare the same one.

    Two notes share an id if an editor saves a note that was moved at that moment. The id stays with the note that had
    it first, which a new index cannot know.
    """
    declared = Counter(row[2] for row in said["notes"] if row[2])
    notes = [(path, id if declared[name] < 2 else None, name, *rest) for path, id, name, *rest in said["notes"]]
    return {**said, "notes": notes}


def assert_equal_to_scratch(vault: Path, fresh_state: Path, embedder: str = "hash") -> None:
    """Assert that the index of `vault` is the one that would be built from nothing."""
    with spellbook.open(vault, embedder=embedder, state=fresh_state) as book:
        book.reindex()
    actual, expected = (
        _without_shared_ids(says(catalog)) for catalog in (catalog_of(vault), catalog_of(vault, fresh_state))
    )
    for name in _QUESTIONS:
        extra, missing = (
            [row for row in rows if row not in others]
            for rows, others in ((actual[name], expected[name]), (expected[name], actual[name]))
        )
        assert actual[name] == expected[name], (
            f"{name}: only this index has {extra[:3]!r}, only a new one has {missing[:3]!r}"
        )
    assert not actual["stray words"]
    assert not actual["stray chunks"]
    assert not actual["without a vector"]
