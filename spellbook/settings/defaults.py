"""Defaults that several rooms share. Those of a vault's config.toml are the fields of `config.Settings`."""

from __future__ import annotations

HOST, PORT = "127.0.0.1", 17950
"""Where `spellbook serve` listens."""

ADDRESS = f"http://{HOST}:{PORT}"
"""Where clients on this machine ask it."""

JOURNAL_MB, JOURNAL_DAYS = 100, 90
"""How much `spellbook undo` can take back."""
