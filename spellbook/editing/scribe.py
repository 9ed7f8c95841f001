"""
Scribe: chunks that a model has finished become notes, all of them or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from spellbook.editing import memory, write
from spellbook.editing.write import Duplicate, Written
from spellbook.errors import InvalidInput
from spellbook.index.opened import Index
from spellbook.search.searcher import Searcher
from spellbook.text import credentials


class Options(TypedDict, total=False):
    """What `Spellbook.scribe` takes by keyword, as `Spellbook.scribe_all` does."""

    source: str | None
    category: str | None
    force: bool
    session: str | None


@dataclass(frozen=True, slots=True)
class Scribed:
    """What became of chunks: what was `written`, if anything, and for each the chunks that it repeats, or may repeat."""

    written: tuple[Written, ...]
    duplicates: tuple[tuple[Duplicate, ...], ...]
    warnings: tuple[tuple[str, ...], ...]


def scribe(index: Index, searcher: Searcher, given: Sequence[object], source: str | None, category: str | None, *, force: bool) -> Scribed:
    """
    Keep finished chunks, each as one note.

    All are checked first. Raises InvalidInput if one of them is no chunk;
    if one repeats what is there already, nothing is written unless `force`.
    The same goes for what looks like a secret, but that raises InvalidInput.
    """
    findings = [memory.check(each, source=source, category=category, scope=index.scope) for each in given]
    wrong = [f"chunk {i}: {error}" for i, found in enumerate(findings, 1) for error in found.errors]
    if wrong or not findings:
        raise InvalidInput("; ".join(wrong or ["there is no chunk"]) + ".", "Nothing was written; scribe_validate checks a chunk.")
    secrets = [f"chunk {i}: {each}" for i, found in enumerate(findings, 1) for each in found.secrets]
    if secrets and not force:
        raise InvalidInput(f"{'; '.join(secrets)}.", credentials.HINT)
    memories = [found.memory for found in findings if found.memory]
    written, repeats = write.write(index, searcher, memories, force=force)
    return Scribed(tuple(written), tuple(map(tuple, repeats)), tuple(tuple(found.warnings) for found in findings))


def validate(
    index: Index, searcher: Searcher, chunk: object, source: str | None, category: str | None
) -> tuple[memory.Findings, list[Duplicate]]:
    """Check a chunk without writing it; return what was found and what it would repeat."""
    found = memory.check(chunk, source=source, category=category, scope=index.scope)
    return found, write.duplicates(index, searcher, found.memory) if found.memory else []
