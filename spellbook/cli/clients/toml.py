"""TOML, edited as text as `jsonc` edits JSON. An edit that would change anything else is Malformed."""

from __future__ import annotations

import contextlib
import tomllib
from typing import Any

import tomlkit

from spellbook.cli.clients.jsonc import Malformed, nest
from spellbook.notes.note import newline
from spellbook.system.lazy import regex

Path = tuple[str, ...]

_BOM = "\ufeff"
_LINES = regex(r"[^\n]*\n|[^\n]+")
_NUMBER = regex(r"line (\d+)")


def parse(text: str, *, comments: bool = True) -> dict[str, Any]:
    """Return what `text` holds; `comments` are always allowed. Raises Malformed."""
    try:
        return tomllib.loads(text.removeprefix(_BOM))
    except (ValueError, RecursionError) as error:
        line = _NUMBER.search(str(error))
        raise Malformed(int(line[1]) if line else text.count("\n") + 1, "this is not TOML") from error


def get(text: str, path: Path) -> Any:
    """Return what stands at `path`, None if nothing does. Raises Malformed."""
    value: Any = parse(text)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put(text: str, path: Path, data: Any) -> str:
    """Return `text` with `data` at `path`; a table is written anew, at the end. Raises Malformed."""
    if (there := get(text, path)) == data:
        return text
    if isinstance(data, dict):
        before = text if there is None else remove(text, path)
        line_end = newline(text)
        gap = line_end * (1 + (not before.endswith("\n"))) if before.removeprefix(_BOM) else ""
        after = before + gap + tomlkit.dumps(nest(path, data)).replace("\n", line_end)
    elif there is None:
        return put(text, path[:-1], {**(get(text, path[:-1]) or {}), path[-1]: data})
    else:
        holder: Any = (document := tomlkit.parse(text.removeprefix(_BOM)))
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = data
        after = text[: text.startswith(_BOM)] + document.as_string()
    return _checked(text, after, path, data)


def remove(text: str, path: Path) -> str:
    """Return `text` without the table at `path`; comments stay. Raises Malformed."""
    kept: list[str] = []
    is_ours = False
    for line in _LINES.findall(text):
        if line.lstrip(f"{_BOM} \t").startswith("["):
            with contextlib.suppress(Malformed):  # a part of a list
                is_ours = get(line, path) is not None
            if is_ours and kept and not kept[-1].strip():
                kept.pop()
        if not is_ours or not line.split("#")[0].strip():
            kept.append(line)
    return _checked(text, "".join(kept), path, None)


def _checked(text: str, after: str, path: Path, data: Any) -> str:
    """Return `after` if it differs from `text` by `data` at `path` alone, None for none. Raises Malformed."""
    with contextlib.suppress(Malformed):
        same = repr(_others(parse(after), path)) == repr(_others(parse(text), path))
        if same and get(after, path) == data:
            return after
    raise Malformed(1, f"{path[0]} is set in a way that only a person can change")


def _others(value: Any, path: Path) -> Any:
    """Return a table without what stands at `path`, and without tables that hold nothing else."""
    if not path or not isinstance(value, dict):
        return {}
    inner = {name: _others(part, path[1:]) if name == path[0] else part for name, part in value.items()}
    return {name: part for name, part in inner.items() if part != {}}
