"""Conditions of a filter as SQL on the table notes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from spellbook.index.filters import HELD, NO_GUIDES, WAITS, Condition, Unmatched, alike
from spellbook.settings.limits import MOST_KEYS
from spellbook.system.errors import InvalidInput
from spellbook.system.sqlite import Database

_MOST_COMPARED = 1_000
"""Values that a misspelt one is compared with: a judgement, for somebody waits for the message."""

OF_GUIDES = f"""
SELECT chunk FROM fields JOIN notes USING (note) JOIN chunks USING (note)
WHERE fields.key = 'guide' AND value IN ({", ".join(f"'{each}'" for each in NO_GUIDES.values)}) AND category = 'system'
"""
"""The numbers of the chunks that the condition `NO_GUIDES` leaves out."""

_COLUMNS = {"importance": "importance", "created": "instant(created)", "when": "moment(created, updated, mtime_ns)"}
_COLUMNS["updated"] = "coalesce(instant(updated), mtime_ns / 1e9)"
"""Columns that a range is compared with. Under other keys, and in the text, the written dates are compared."""

_COMMON = "category topic tags keywords entities kind scope importance path created updated when"
_COMMON_FIELDS = frozenset(_COMMON.split())
"""Keys that a filter may have whatever the notes have."""

_WRITTEN = "categories type outcome status scope privacy_scope source saved_from trust pinned agent task due by tier"
_OF_TOOLS = frozenset(_WRITTEN.split())
"""Keys that are filtered by before a note has them: then nothing is found, and that is no error."""


def in_sql(database: Database, conditions: Sequence[Condition], chunks: bool = False) -> tuple[str, dict[str, object]]:
    """Return `conditions` as SQL, of `chunks` or else notes, and its values. Raises InvalidInput for unknown keys."""
    if len(conditions) > MOST_KEYS:
        raise InvalidInput(f"The filter has {len(conditions)} keys.", f"{MOST_KEYS} are the most.")
    clauses: list[str] = ["1"]
    values: dict[str, object] = {}
    for number, condition in enumerate(conditions):
        sql = _condition(database, condition, f"c{number}", values, chunks)
        clauses.append(f"NOT ({sql})" if condition.negated else f"({sql})")
    return " AND ".join(clauses), values


def select(
    database: Database, sql: str, conditions: Sequence[Condition], chunks: bool = False, **values: object
) -> list[Any]:
    """Return the rows of `sql`, in which `{where}` stands for `conditions` as `in_sql` has them."""
    where, own = in_sql(database, conditions, chunks)
    return database.rows(sql.replace("{where}", where), {**own, **values})


def _condition(database: Database, condition: Condition, name: str, values: dict[str, object], chunks: bool) -> str:
    key = values[name] = condition.key
    # One value for the whole list: SQLite limits the number of values and the depth of an expression.
    values |= {f"{name}any": json.dumps(condition.values), f"{name}low": condition.low, f"{name}high": condition.high}
    bounds = [f">= :{name}low"] * (condition.low is not None) + [f"<= :{name}high"] * (condition.high is not None)
    if key == "path":
        return f"EXISTS (SELECT 1 FROM json_each(:{name}any) AS pattern WHERE path_glob(notes.path, pattern.value))"
    if key == HELD:
        begun = f"coalesce(bound(json_extract(meta, '$.valid_from'), 0), instant(created), :{name}low) <= :{name}low"
        ends = f"bound(json_extract(meta, '$.valid_until'), 1) >= :{name}low"
        return f"{begun} AND coalesce({ends}, path NOT IN (SELECT value FROM json_each(:{name}any)))"
    if key == WAITS:  # as `privacy.waits` has it
        drafts = "SELECT note FROM fields WHERE key = 'status' AND value = 'draft' AND ordinal < 0"
        by = "coalesce(json_extract(meta, '$.generated.by'), json_extract(meta, '$.agent'), 'human:')"
        own = f"SELECT value FROM json_each(:{name}any)"
        return f"note IN ({drafts}) AND {by} NOT LIKE 'human:%' AND notes.id NOT IN ({own})"
    has_value = f"value IN (SELECT value FROM json_each(:{name}any))"
    if key == NO_GUIDES.key:
        guides = f"SELECT note FROM fields WHERE key = 'guide' AND {has_value}"
        return f"category = 'system' AND note IN ({guides})"
    if bounds:
        has_value = " AND ".join(f"instant(upper(value)) {bound}" for bound in bounds)
    rows = f"FROM fields WHERE key = :{name} AND {has_value}"
    has = f"note IN (SELECT note {rows})"
    if chunks:
        has = f"note IN (SELECT note {rows} AND ordinal < 0) OR (note, ordinal) IN (SELECT note, ordinal {rows})"
    if bounds and key in _COLUMNS:
        return f"coalesce({' AND '.join(f'{_COLUMNS[key]} {bound}' for bound in bounds)}, 0) OR {has}"
    is_there = database.rows("SELECT 1 FROM fields WHERE key = ? LIMIT 1", (key,))
    if not is_there and key not in _COMMON_FIELDS | _OF_TOOLS:
        listed = sorted({*_distinct(database, "key", "1"), *_COMMON_FIELDS})
        keys = f"Keys here are {', '.join(listed[:40])}."
        meant = f"Did you mean {' or '.join(similar)}? {keys}" if (similar := alike(key, listed)) else keys
        raise InvalidInput(f"No note has the key {key!r:.80} to filter by.", meant)
    return f"{has} OR note NOT IN (SELECT note FROM fields WHERE key = :{name})" if condition.or_absent else has


def unmatched(
    database: Database, wanted: Sequence[Condition], visible: Sequence[Condition], *, paths: bool = True
) -> tuple[Unmatched, ...]:
    """Return values of `wanted` that no visible note has, with the nearest ones; globs only with `paths` (slow)."""
    missing = [
        (condition.key, value)
        for condition in wanted
        if condition.values and (paths or condition.key != "path") and not condition.or_absent
        if not (condition.negated and condition.key == "tier")
        for value in _missing(database, condition.key, condition.values, visible)
    ]
    return tuple(
        Unmatched(key, value, () if key == "path" else _nearest_values(database, key, value, visible))
        for key, value in missing
    )


def _missing(database: Database, key: str, listed: Sequence[str], visible: Sequence[Condition]) -> list[str]:
    """Return those of `listed` that no note has under `key`."""
    if key == "path":
        there = "SELECT 1 FROM notes WHERE path_glob(path, given.value)"
    else:
        there = "SELECT 1 FROM fields CROSS JOIN notes USING (note) WHERE key = :key AND fields.value = given.value"
    # By their numbers: SQLite cannot return every text.
    sql = f"SELECT given.key FROM json_each(:given) AS given WHERE NOT EXISTS ({there} AND {{where}})"
    return [listed[number] for (number,) in select(database, sql, visible, key=key, given=json.dumps(listed))]


def _nearest_values(database: Database, key: str, value: str, visible: Sequence[Condition]) -> tuple[str, ...]:
    there = _distinct(database, "value", "key = :key", key)
    if len(there) >= _MOST_COMPARED:  # then those that begin like it
        there = [
            text
            for share in (1, 2, 3)
            for text in _distinct(database, "value", "key = :key", key, value[: len(value) * share // 4])
        ]
    suggestions = alike(value, filter(None, there), 10 if visible else 3)
    hidden = set(_missing(database, key, suggestions, visible)) if suggestions and visible else set()
    return tuple(each for each in suggestions if each not in hidden)[:3]


def _distinct(database: Database, column: str, where: str, key: str = "", first: str = "") -> list[str]:
    sql = f"SELECT DISTINCT {column} FROM fields WHERE {where} AND {column} >= :first ORDER BY 1 LIMIT :most"
    first = first.encode("utf-8", "ignore").decode()
    return [word for (word,) in database.rows(sql, {"key": key, "first": first, "most": _MOST_COMPARED})]
