"""
Change the `embedder` line of a vault's config.toml, and no other byte.
"""

from __future__ import annotations

import json
import re
import tomllib

from spellbook.errors import InvalidInput

_TABLE = re.compile(r"^[ \t]*\[", re.M)
_LINE = re.compile(r"""^[ \t]*embedder[ \t]*=[ \t]*(?P<value>"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*')(?P<bare>[ \t]*(?:\r?\n|\Z))?""", re.M)
_EXAMPLE = re.compile(r"^#[ \t]*embedder[ \t]*=.*(?:\r?\n#[ \t]{5,}.*)*(?:\r?\n|\Z)", re.M)
"""The commented-out example line, with the indented comments below it."""


def with_embedder(toml: str, name: str) -> str:
    """
    Return settings with `embedder` set to `name`; "" removes the line, so that the default applies.

    Raises InvalidInput if they are not TOML, or written so that only a person can change them.
    """
    top = toml[: found.start()] if (found := _TABLE.search(toml)) else toml
    line = _LINE.search(top)
    value = json.dumps(name, ensure_ascii=False)
    if line and not name and line["bare"]:
        changed = toml[: line.start()] + toml[line.end() :]
    elif line:
        changed = toml[: line.start("value")] + value + toml[line.end("value") :]
    elif name:
        newline = "\r\n" if "\r\n" in toml else "\n"
        example = _EXAMPLE.search(top)
        at = example.end() if example else len("\ufeff") if toml.startswith("\ufeff") else 0
        before = newline if example and not example[0].endswith("\n") else ""
        changed = f"{toml[:at]}{before}embedder = {value}{newline}{toml[at:]}"
    else:
        changed = toml
    if _read(changed) != {**_read(toml), "embedder": name}:
        raise InvalidInput(
            "config.toml sets its embedder in a way that cannot be changed automatically.", f"Write embedder = {value} there."
        )
    return changed


def _read(toml: str) -> dict[str, object]:
    try:
        return {"embedder": "", **tomllib.loads(toml.removeprefix("\ufeff"))}
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"config.toml cannot be read ({error}).", "Fix or delete the file.") from error
