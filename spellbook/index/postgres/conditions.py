"""
What the conditions of a filter mean in PostgreSQL, on the table `notes`; `catalog.conditions` says it for SQLite.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from spellbook.index.catalog.conditions import COMMON_FIELDS, OF_TOOLS, check_count, unknown
from spellbook.index.filters import NO_GUIDES, Condition

_COLUMNS = {"importance": "notes.importance", "created": "notes.created_at", "when": "notes.moment"}
_HAS = """EXISTS (SELECT 1 FROM fields
    WHERE fields.vault = ANY(%(vaults)s) AND fields.vault = notes.vault AND fields.note = notes.note
    AND md5(fields.key) = md5(%({name})s) AND fields.key = %({name})s{value})"""
_ONE_OF = """(vault, note) IN (SELECT fields.vault, fields.note FROM fields
    WHERE fields.vault = ANY(%(vaults)s) AND md5(fields.key) = md5(%({name})s)
    AND md5(fields.value) = ANY(SELECT md5(each) FROM unnest(%({name}any)s::text[]) AS each)
    AND fields.key = %({name})s AND fields.value = ANY(%({name}any)s))"""


def in_sql(
    conditions: Sequence[Condition], keys: Callable[[], set[str]], names: Mapping[int, str] = {}
) -> tuple[str, dict[str, object]]:
    """
    Return `conditions` as SQL on `notes`, and its values; `%(vaults)s` is for the caller to give.

    `keys` tells the keys that notes have. A path is that in its vault; with `names` of vaults, by their numbers, also
    that with the vault's name before it. Raises InvalidInput for an unknown key.
    """
    check_count(conditions)
    clauses, values = ["true"], dict[str, object]()
    if names and any(condition.key == "path" for condition in conditions):
        values["vault_names"] = json.dumps(names)
    for number, condition in enumerate(conditions):
        sql = _condition(condition, f"c{number}", values, keys)
        clauses.append(f"NOT coalesce(({sql}), false)" if condition.negated else f"({sql})")
    return " AND ".join(clauses), values


def _condition(condition: Condition, name: str, values: dict[str, object], keys: Callable[[], set[str]]) -> str:
    key = condition.key
    if condition.low is not None or condition.high is not None:
        column = _COLUMNS.get(key, "coalesce(notes.updated_at, notes.mtime_ns / 1e9)")
        values |= {f"{name}low": condition.low, f"{name}high": condition.high}
        bounds = [f"{column} >= %({name}low)s::float8"] * (condition.low is not None)
        bounds += [f"{column} <= %({name}high)s::float8"] * (condition.high is not None)
        return f"coalesce({' AND '.join(bounds)}, false)"
    values[f"{name}any"] = list(map(clean, condition.values))
    if key == "path":
        values[f"{name}any"] = [regex(each) for each in condition.values]
        shown = "(%(vault_names)s::jsonb ->> notes.vault::text) || '/' || notes.path"
        paths = ("notes.path", *([shown] if "vault_names" in values else []))
        return " OR ".join(f"normalize({path}, NFC) ~ ANY(%({name}any)s)" for path in paths)
    if key == NO_GUIDES.key:
        values[name] = "guide"
        return f"notes.category = 'system' AND {_ONE_OF.format(name=name)}"
    values[name] = clean(key)
    if key not in COMMON_FIELDS | OF_TOOLS and key not in (present := keys()):
        raise unknown(key, present)
    has = _ONE_OF.format(name=name)
    return f"({has}) OR NOT {_HAS.format(name=name, value='')}" if condition.or_absent else has


def only(key: str, shown: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return SQL for the notes that have one of the values `shown` under `key`, and no other value."""
    inside = _HAS.format(name="only", value=" AND fields.value = ANY(%(shown)s)")
    outside = _HAS.format(name="only", value=" AND fields.value <> ALL(%(shown)s)")
    return f"{inside} AND NOT {outside}", {"only": key, "shown": list(shown)}


def clean(text: str) -> str:
    """Return a text as PostgreSQL can store it: without NUL and half letters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def regex(glob: str) -> str:
    """Return the glob of a path as a regular expression of PostgreSQL; `filters.path_glob` says what it means."""
    glob = unicodedata.normalize("NFC", clean(glob))
    inside = f"^{_regex(glob.removesuffix('/') + '/*')}$"
    return inside if glob.endswith("/") else f"^{_regex(glob)}$|{inside}"


def _regex(glob: str) -> str:
    made, at = "", 0
    while at < len(glob):
        letter, at = glob[at], at + 1
        if letter == "*":
            made += "" if made.endswith(".*") else ".*"
        elif letter == "?":
            made += "."
        elif letter == "[" and (end := glob.find("]", at + 1 + glob.startswith("!", at))) > 0:
            listed, at = glob[at:end], end + 1
            inside = _ranges(listed.removeprefix("!"))
            if listed[0] == "!":
                made += f"[^{inside}]" if inside else "."
            else:
                made += f"[{inside}]" if inside else "(?!.)."
        else:
            made += re.sub(r"[\\^$.|?*+()\[\]{}]", r"\\\g<0>", letter)
    return f"(?:{made})"


def _ranges(listed: str) -> str:
    """Return the letters and ranges of a set; a range that runs backwards holds none, as in `fnmatch`."""
    parts = re.findall(r"(.)-(.)|(.)", listed, re.DOTALL)
    pairs = [(ord(low or one), ord(high or one)) for low, high, one in parts]
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in pairs if low <= high)
