"""The index of a vault, opened and up to date, for the verbs of this room, whoever calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

from spellbook.editing import revise, write
from spellbook.index.metrics import Meter
from spellbook.index.opened import Index
from spellbook.search.question import Answer
from spellbook.search.searcher import Searcher
from spellbook.system.errors import PermissionDenied


@dataclass(frozen=True)
class Opened:
    """
    The index of a vault as it is now.

    `answer` answers a search verb as the library does: it embeds new texts first, and counts and times the question.
    `denial` says why nothing can be changed, None where it can.
    """

    index: Index
    searcher: Searcher
    meter: Meter
    answer: Callable[..., Answer]
    denial: PermissionDenied | None = None

    def _scribe(self, chunk: object, **options: Unpack[write.ScribeOptions]) -> write.Scribed:
        """Write one note, with keywords of its own text if it has none."""
        options["labels"] = "derived"
        self._check()
        with self.meter.timed("scribe"):
            return write.scribe(self.index, self.searcher, [chunk], **options)

    def _revise(self, id: str, **change: Any) -> revise.Revised:
        """Change a note; the options are the fields of `editing.revise.Revision`."""
        self._check()
        return revise.revise(self.index, id, revise.Revision(**change))

    def _erase(self, id: str, *, hard: bool = False) -> revise.Erased:
        """Move a whole note to the trash, or delete it for good."""
        self._check()
        return revise.erase(self.index, id, hard=hard, whole=True)

    def _check(self) -> None:
        """Raise PermissionDenied if the vault may only be read, VaultNotFound if it is gone."""
        if self.denial:
            raise self.denial
        self.index.vault.check_there()
