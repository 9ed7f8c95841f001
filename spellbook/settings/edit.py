"""Set or remove a setting at the top of a vault's config.toml, or add to `[categories]`; every other byte stays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from spellbook.notes.note import newline
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex

_CATEGORIES = regex(r"^[ \t]*\[[ \t]*categories[ \t]*\][ \t]*(?:#.*)?(?:\r?\n|\Z)", re.M)
"""The line that begins the table."""


def with_setting(toml: str, key: str, value: str) -> str:
    """Return settings with `key` set to `value`, or without it if that is empty. Raises InvalidInput for bad TOML."""
    import tomlkit

    text = toml.removeprefix("\ufeff")
    try:
        settings = tomlkit.parse(text)
        if key in settings:
            item = settings.item(key)
            if value or (isinstance(item, tomlkit.items.Item) and item.trivia.comment):
                settings[key] = value
            else:
                del settings[key]
            text = settings.as_string()
        elif value:
            # tomlkit would put a new key after the others, with its own line end.
            text = f"{key} = {json.dumps(value, ensure_ascii=False)}{newline(text)}{text}"
    except tomlkit.exceptions.TOMLKitError as error:
        raise InvalidInput(f"config.toml cannot be read ({error}).", "Fix or delete the file.") from error
    return f"\ufeff{text}" if toml.startswith("\ufeff") else text


def with_categories(toml: str, rules: Mapping[str, str]) -> str:
    """Return settings with tags and folders for categories; existing entries stay. Raises InvalidInput if unsafe."""
    import tomlkit

    text = toml.removeprefix("\ufeff")
    end = newline(text)
    lines = [f"{json.dumps(key, ensure_ascii=False)} = {json.dumps(name)}" for key, name in rules.items()]
    begin = _CATEGORIES.search(text)
    at = begin.end() if begin else len(text)
    before = end if at and text[at - 1] != "\n" else ""
    header = [] if begin else ["[categories]"]
    changed = text[:at] + before + end.join([*header, *lines, ""]) + text[at:]
    try:
        held = tomlkit.parse(changed).unwrap().get("categories")
    except tomlkit.exceptions.TOMLKitError as error:
        raise InvalidInput(f"config.toml cannot be changed ({error}).", "Write the lines there by hand.") from error
    if not isinstance(held, dict) or any(held.get(key) != name for key, name in rules.items()):
        raise InvalidInput("config.toml cannot be changed automatically.", "Write the lines there by hand.")
    return f"\ufeff{changed}" if toml.startswith("\ufeff") else changed
