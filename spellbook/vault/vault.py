"""The vault: a folder of notes that is changed by whole entries of its journal, and has a trash."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import cached_property

from spellbook.notes.labels import INBOX, MEMORY
from spellbook.system.errors import (
    InvalidInput,
    PathOutsideVault,
    SpellbookError,
    UnreadableNote,
)
from spellbook.system.lazy import regex
from spellbook.text.unicode import composed, folded
from spellbook.vault import names
from spellbook.vault.journal import net
from spellbook.vault.mover import Mover
from spellbook.vault.names import IGNORE_FILE
from spellbook.vault.obsidian import SETTINGS, new_notes
from spellbook.vault.revert import Step, revert
from spellbook.vault.trash import Trash

_INBOX = regex(rf"[\W\d_]*(?:{INBOX}|인박스|수집함|받은 ?편지함)[\W_]*", re.I)
"""The name of an inbox: also `00 Inbox`, `_inbox` and `📥 Inbox`."""

_INBOX_LEVELS = 3
"""Levels of folders in which an inbox is looked for, as `areas/work/Inbox`. By hand: each folder there is listed."""

_MADE = {f"{MEMORY}/{INBOX}", f"knowledge/{INBOX}"}
"""Inboxes that Spellbook makes, and made in 0.3.0: none of the vault's own."""


class Vault(Mover):
    """The folder `root` of notes that can be changed; `state` holds the write lock and the journal of all changes."""

    @cached_property
    def trash(self) -> Trash:
        """Where erased and replaced files go."""
        return Trash(self)

    @contextlib.contextmanager
    def change(
        self,
        verb: str,
        what: str = "",
        *,
        undoes: int | None = None,
        for_good: bool = False,
        session: str = "",
        again: bool = False,
    ) -> Iterator[None]:
        """
        Record what this thread writes as one entry (see `Journal.entry`), reverted if it ends in an error.

        With `again` it may write what was erased, and takes its tombstones away; see `check_erased`.
        """
        with self.journal.entry(verb, what, undoes=undoes, for_good=for_good, session=session) as draft:
            draft.again |= again
            before = set(draft.made)
            moved_before = len(draft.moves)
            try:
                yield
                if draft.lifted:
                    self.tombstones.lift(draft.lifted)
            except BaseException:
                with self.journal.reverting():
                    while len(draft.moves) > moved_before:
                        path, to = draft.moves.pop()
                        with contextlib.suppress(SpellbookError):  # else its notes go back one by one
                            self.move(to, path)
                    made = net([trace for number, trace in draft.made.items() if number not in before])
                    steps = [Step(trace.path, trace.after, trace.before, trace.mode) for trace in reversed(made)]
                    revert(self.trash, steps, hard=True)
                raise

    def inbox(self) -> str:
        """
        Return the vault's own folder for new notes, "" if there is none: nothing says so, or it cannot be used.

        It is the one that Obsidian's settings name, else the folder with the name of an inbox that is nearest to the
        top. Of several at equal depth none is taken.
        """
        levels = [[""]]
        for _ in range(_INBOX_LEVELS):
            levels.append([path for folder in levels[-1] for path in self._folders(folder)])
        named = new_notes(self.root) if self._obsidian else ""
        spelled = [path for level in levels for path in level if folded(path) == folded(named)]
        inboxes = ([each for each in level if _INBOX.fullmatch(each.rpartition("/")[2])] for level in levels)
        for found in ([*spelled, named][:1], *inboxes):
            if usable := [path for path in found if path and path not in _MADE and self._is_for_notes(path)]:
                return usable[0] if len(usable) == 1 else ""
        return ""

    def _folders(self, folder: str) -> list[str]:
        """Return the paths of the folders in a folder that Spellbook can name, but for hidden ones."""
        inside, found, _ = next(self._walk_names(folder), ("", [], []))
        return [path for name in found if (self.root / (path := composed(inside + name))).is_dir()]

    def _is_for_notes(self, folder: str) -> bool:
        """Say whether notes can be written to a folder, under just this path, and are then read."""
        with contextlib.suppress(PathOutsideVault, UnreadableNote, InvalidInput):
            self.check_new(folder, "x")
            above = [self.root / place for place in (folder, *names.folders_of(folder))]
            is_free = all(place.is_dir() or not os.path.lexists(place) for place in above)
            return is_free and "/".join(names.safe_parts(folder)) == folder
        return False

    def create(self, folder: str, name: str, data: bytes) -> str:
        """
        Write a new note `<folder>/<name>.md` and return its path in the vault.

        Characters that file systems refuse are replaced, and a number is added to a used name. Raises as `check_new`
        does, and StorageError.
        """
        self.check_new(folder, name)
        return self.write_numbered(names.safe_parts(folder), name, data)

    def check_new(self, folder: str, name: str) -> None:
        """Raise PathOutsideVault or InvalidInput if a note of this name cannot be written, or would be ignored."""
        path = "/".join([*names.safe_parts(folder), f"{names.note_name(name, names.MOST_NEW - 3)}.md"])
        self.check_target(path)
        if not self.is_note(path):
            raise InvalidInput(
                f"{IGNORE_FILE if self.ignores(path) else SETTINGS} leaves out {path[:200]!r}.",
                "What is written there is never found: choose another topic or title.",
            )
