"""The earlier and later paths of a file, as the journal's entries tell of them."""

from __future__ import annotations

from typing import Any

# A path, and the paths that it was moved from and to. In the entry of a move, one path loses the text that another one
# gains. In that of a replacement, the trash gains the old text and the path stays; in its undo, the trash loses it.
_LINEAGE = """
    WITH RECURSIVE line (path) AS (
        SELECT :path UNION SELECT other.path FROM line JOIN changes AS mine ON mine.path = line.path
        JOIN changes AS other ON other.entry = mine.entry AND other.path <> mine.path
        WHERE (mine.before = other.after AND mine.after IS NULL AND other.before IS NULL)
        OR (mine.after = other.before AND mine.before IS NULL AND other.after IS NULL)
        OR (mine.before = other.after AND other.before IS NULL AND other.path LIKE '.trash/%')
        OR (mine.after = other.before AND other.after IS NULL AND other.path LIKE '.trash/%')
    )
"""

PATHS = f"{_LINEAGE} SELECT path FROM line"
"""Selects the paths of a file (`:path`), itself included."""

ENTRIES = f"{_LINEAGE} SELECT DISTINCT entry FROM changes WHERE path IN (SELECT path FROM line) ORDER BY entry"
"""Selects the entries that changed a file (`:path`) under any of them, the oldest first."""


def forget(connection: Any, path: str) -> None:
    """Delete the texts of the file at `path` and of its earlier paths, unless another file has the same text."""
    connection.execute(
        f"""
        {_LINEAGE}
        DELETE FROM blobs WHERE sha256 IN (
            SELECT before FROM changes WHERE path IN (SELECT path FROM line)
            UNION SELECT after FROM changes WHERE path IN (SELECT path FROM line)
        ) AND NOT EXISTS (
            SELECT 1 FROM changes WHERE path NOT IN (SELECT path FROM line) AND sha256 IN (before, after)
        )
        """,
        {"path": path},
    )


def rename(connection: Any, path: str, label: str) -> None:
    """Call the file at `path` and at its earlier paths `label` in all entries, which say nothing else of it."""
    values = {"path": path, "label": label}
    connection.execute(f"{_LINEAGE} UPDATE changes SET path = :label WHERE path IN (SELECT path FROM line)", values)
    own = "NOT EXISTS (SELECT 1 FROM changes WHERE changes.entry = entries.entry AND path <> :label)"
    sql = f"UPDATE entries SET what = iif({own}, :label, '') WHERE entry IN "
    connection.execute(f"{sql} (SELECT entry FROM changes WHERE path = :label)", values)
