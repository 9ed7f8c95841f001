"""
The opened vault, as rooms below `library` use it.

`library` has the classes and lies above, so that these protocols stand here. They are for type checkers alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol, Unpack

from spellbook.index.metrics import Meter
from spellbook.index.opened import Index, Progress
from spellbook.index.sync import Report
from spellbook.search.question import Answer, SearchOptions, State
from spellbook.search.searcher import Searcher
from spellbook.settings.config import Config
from spellbook.system.errors import PermissionDenied


class Book(Protocol):
    """A vault, or the part of it that a token sees: `library.reader.Reader`, which says what each member does."""

    index: Index
    config: Config
    meter: Meter
    opening: threading.Lock

    @property
    def searcher(self) -> Searcher: ...

    @property
    def denial(self) -> PermissionDenied | None: ...

    def ask(
        self,
        verb: str,
        query: str | Sequence[str],
        match: str = "any",
        *,
        scans: bool = True,
        **options: Unpack[SearchOptions],
    ) -> Answer: ...

    def state(self) -> State: ...

    def follow(self) -> None: ...

    def use(self, index: Index) -> None: ...


class WholeBook(Book, Protocol):
    """A vault whose index is kept up to date here: `library.book.Spellbook`."""

    def refresh(self, *, embed: bool = False, scans: bool = True, whole: bool = False) -> None: ...

    def reindex(self, *, full: bool = False, words_only: bool = False, progress: Progress | None = None) -> Report: ...
