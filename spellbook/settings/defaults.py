"""Defaults that several rooms share. Those of a vault's config.toml are the fields of `config.Settings`."""

from __future__ import annotations

HOST, PORT = "127.0.0.1", 17950
"""Address on which `spellbook serve` listens."""

ADDRESS = f"http://{HOST}:{PORT}"
"""Address that clients on this machine ask."""

JOURNAL_MB, JOURNAL_DAYS = 100, 90
"""Bounds of `spellbook undo`."""
