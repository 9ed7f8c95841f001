"""
What the conditions of a filter mean in SQL, on the table notes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from spellbook.database import Database
from spellbook.errors import InvalidInput
from spellbook.filters import Condition

_MOST = 100
_COMMON_FIELDS = {"category", "topic", "tags", "keywords", "entities", "kind", "scope", "importance", "path", "created", "updated"}


def in_sql(database: Database, conditions: Sequence[Condition]) -> tuple[str, dict[str, object]]:
    """Return the SQL that `conditions` mean and its values. Raises InvalidInput for an unknown key."""
    if len(conditions) > _MOST:
        raise InvalidInput(f"The filter has {len(conditions)} keys.", f"{_MOST} are the most.")
    parts: list[str] = ["1"]
    values: dict[str, object] = {}
    for number, condition in enumerate(conditions):
        sql = _condition(database, condition, f"c{number}", values)
        parts.append(f"NOT ({sql})" if condition.negated else f"({sql})")
    return " AND ".join(parts), values


def _condition(database: Database, condition: Condition, name: str, values: dict[str, object]) -> str:
    key = condition.key
    if condition.low is not None or condition.high is not None:
        column = {"importance": "importance", "created": "instant(created)"}.get(key, "coalesce(instant(updated), mtime_ns / 1e9)")
        values |= {f"{name}low": condition.low, f"{name}high": condition.high}
        bounds = [f"{column} >= :{name}low"] * (condition.low is not None) + [f"{column} <= :{name}high"] * (condition.high is not None)
        return f"coalesce({' AND '.join(bounds)}, 0)"
    # One value however long the list: SQLite bounds how many there are, and how deep an expression is.
    values[f"{name}any"] = json.dumps(condition.values)
    if key == "path":
        return f"EXISTS (SELECT 1 FROM json_each(:{name}any) AS pattern WHERE path_glob(notes.path, pattern.value))"
    values[name] = key
    if not database.rows("SELECT 1 FROM fields WHERE key = ? LIMIT 1", (key,)) and key not in _COMMON_FIELDS:
        present = sorted({row[0] for row in database.rows("SELECT DISTINCT key FROM fields")} | _COMMON_FIELDS)
        raise InvalidInput(f"No note has the key {key!r} to filter by.", f"Keys here are {', '.join(present[:40])}.")
    has = f"note IN (SELECT note FROM fields WHERE key = :{name} AND value IN (SELECT value FROM json_each(:{name}any)))"
    return f"{has} OR note NOT IN (SELECT note FROM fields WHERE key = :{name})" if condition.or_absent else has
