"""The vault: a folder of notes that is changed by whole entries of its journal, and has a trash."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property

from spellbook.system.errors import (
    InvalidInput,
    SpellbookError,
)
from spellbook.vault import names
from spellbook.vault.journal import net
from spellbook.vault.mover import Mover
from spellbook.vault.obsidian import SETTINGS
from spellbook.vault.revert import Step, revert
from spellbook.vault.trash import Trash


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
                made = [trace for number, trace in draft.made.items() if number not in before]
                draft.reverts = True
                try:
                    while len(draft.moves) > moved_before:
                        path, to = draft.moves.pop()
                        with contextlib.suppress(SpellbookError):  # else its notes go back one by one
                            self.move(to, path)
                            # As of files that were never moved: a note that was saved meanwhile is as it is then.
                            made = [each._replace(path=names.after_move(each.path, to, path)) for each in made]
                    steps = [Step(each.path, each.after, each.before, each.mode) for each in reversed(net(made))]
                    revert(self.trash, steps, hard=True)
                finally:
                    draft.reverts = False
                raise

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
                f"{names.IGNORE_FILE if self.ignores(path) else SETTINGS} leaves out {path[:200]!r}.",
                "What is written there is never found: choose another topic or title.",
            )
