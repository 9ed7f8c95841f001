"""What keeps a catalog's database fast and small, on demand."""

from __future__ import annotations

from spellbook.system.sqlite import Database


def run(database: Database, action: str) -> int:
    """Do `analyze`, `index` or `vacuum`; return the number of tables. Raises StorageError if another process writes."""
    kind = {"analyze": "type = 'table' AND name NOT LIKE 'sqlite%'", "index": "sql LIKE '%USING fts5%'"}
    where = kind.get(action, "type = 'table' AND name NOT LIKE 'sqlite%'")
    tables = [name for (name,) in database.rows(f"SELECT name FROM sqlite_master WHERE {where}")]
    if action == "vacuum":
        database.vacuum()
        return len(tables)
    with database.transaction("IMMEDIATE") as connection:
        if action == "analyze":
            connection.execute("ANALYZE")
        else:
            for table in tables:
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    return len(tables)
