"""Faults as lines for a person: one for each, and one for all notes whose frontmatter is broken by the same cause."""

from __future__ import annotations

from collections.abc import Iterable

from spellbook.notes.broken_headers import CAUSES
from spellbook.notes.files import Fault
from spellbook.text.quoting import counted

_MOST_NAMED = 5
"""Notes that are named of those with one cause."""


def grouped(faults: Iterable[Fault]) -> list[str]:
    """Return a line for each fault, and one for all notes whose frontmatter has the same of CAUSES."""
    alike: dict[str, list[Fault]] = {}
    for fault in faults:
        alike.setdefault(fault.reason if fault.reason in CAUSES else str(fault), []).append(fault)
    warnings: list[str] = []
    for reason, same in alike.items():
        notes, more = counted(len(same), "note"), len(same) - _MOST_NAMED
        places = ", ".join(f"{fault.path}:{fault.line}" for fault in same[:_MOST_NAMED])
        if len(same) == 1:
            warnings.append(str(same[0]))
        elif more <= 0:
            warnings.append(f"{notes}: {reason} ({places})")
        else:
            warnings.append(f"{notes}: {reason}; the first {_MOST_NAMED}: {places}, and {more:,} more")
    return warnings
