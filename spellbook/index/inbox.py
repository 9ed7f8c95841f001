"""The folder of a new note: by settings, the vault's own inbox, or by its category."""

from __future__ import annotations

import contextlib
import os
import re

from spellbook.index.filters import fold
from spellbook.index.opened import Index
from spellbook.notes.labels import INBOX, MEMORY
from spellbook.system.errors import InvalidInput, PathOutsideVault, UnreadableNote
from spellbook.system.lazy import regex
from spellbook.text.unicode import composed, folded
from spellbook.vault.names import folders_of, safe_parts
from spellbook.vault.obsidian import new_notes
from spellbook.vault.vault import Vault

_NAMES = regex(rf"[\W\d_]*(?:{INBOX}|인박스|수집함|받은 ?편지함)[\W_]*", re.I)
"""The name of an inbox: also `00 Inbox`, `_inbox` and `📥 Inbox`."""

_LEVELS = 3
"""Levels of folders in which an inbox is looked for, as `areas/work/Inbox`. By hand: each folder there is listed."""

_MADE = {f"{MEMORY}/{INBOX}", f"knowledge/{INBOX}"}
"""Inboxes that Spellbook makes, and made in 0.3.0: none of the vault's own."""


def folder_of(index: Index, category: str, topic: str) -> str:
    """Return the folder of a new note: by settings, the inbox, or by its category. Raises InvalidInput."""
    config = index.config
    chosen = composed(config.folders.get("memories", "")).removesuffix("/")
    home = "/".join(safe_parts(chosen))
    if chosen and not (chosen == home and index.vault.is_note(f"{home}/x.md")):
        wrong = f"folders.memories = {chosen!r:.80} is no folder for notes inside the vault."
        raise InvalidInput(wrong, "Write one that is neither hidden nor excluded into .spellbook/config.toml.")
    rules = (rule[:-1] for rule, of in config.categories.items() if rule[-1:] == "/" and fold(of) == fold(category))
    own = next((rule for rule in rules if "/".join(safe_parts(rule)) == rule), category)
    if not home and (own, topic) == (MEMORY, INBOX) and (inbox := _inbox(index.vault)):
        return inbox
    home = f"{home}/{category}" if home else own
    return f"{home}/{topic.removeprefix(f'{home}/')}"


def _inbox(vault: Vault) -> str:
    """
    Return the vault's own folder for new notes, "" if there is none: nothing says so, or it cannot be used.

    It is the one that Obsidian's settings name, else the folder with the name of an inbox that is nearest to the top.
    Of several at equal depth none is taken.
    """
    levels = [[""]]
    for _ in range(_LEVELS):
        levels.append([path for folder in levels[-1] for path in vault.folders(folder)])
    named = new_notes(vault.root) if vault.obsidian else ""
    spelled = [path for level in levels for path in level if folded(path) == folded(named)]
    inboxes = ([each for each in level if _NAMES.fullmatch(each.rpartition("/")[2])] for level in levels)
    for found in ([*spelled, named][:1], *inboxes):
        if usable := [path for path in found if path and path not in _MADE and _is_for_notes(vault, path)]:
            return usable[0] if len(usable) == 1 else ""
    return ""


def _is_for_notes(vault: Vault, folder: str) -> bool:
    """Say whether notes can be written to a folder, under just this path, and are then read."""
    with contextlib.suppress(PathOutsideVault, UnreadableNote, InvalidInput):
        vault.check_new(folder, "x")
        above = [vault.root / place for place in (folder, *folders_of(folder))]
        is_free = all(place.is_dir() or not os.path.lexists(place) for place in above)
        return is_free and "/".join(safe_parts(folder)) == folder
    return False
