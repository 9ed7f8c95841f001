"""The debug log: a line for each call of a tool, without arguments and texts."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spellbook.system import disk
from spellbook.text.quoting import json_of
from spellbook.text.terms import estimate_tokens

DEBUG_LOG = "mcp_debug.log"
_MOST_BYTES = 1_000_000
"""Then the log becomes mcp_debug.log.1, in place of the one before."""

Write = Callable[[str, float, str, str], None]
"""Writes what a tool answered: its name, its milliseconds, the answer's text, the code of its error or ""."""


def wants_log(is_asked: bool = False) -> bool:
    """Say whether the log is to be written: by an option, or by SPELLBOOK_DEBUG_LOG=1."""
    return is_asked or os.environ.get("SPELLBOOK_DEBUG_LOG", "").strip() not in {"", "0"}


def open_log(state: Path, door: str) -> Write:
    """
    Return what writes into the debug log in the state folder: a line of JSON a call, without arguments and texts.

    `door` is how the server is reached.
    """

    def write(tool: str, ms: float, text: str, code: str) -> None:
        row: dict[str, Any] = {
            "time": dt.datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "door": door,
            "tool": tool,
            "letters": len(text),
            "tokens": estimate_tokens(text),
            "ms": round(ms, 1),
        }
        disk.append_line(state / DEBUG_LOG, json_of(row | ({"error": code} if code else {})), _MOST_BYTES)

    return write
