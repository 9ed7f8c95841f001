"""REST sessions: a client reads the guides before it writes, and the session expires."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from spellbook.editing import guides
from spellbook.index.catalog.sessions import Session
from spellbook.index.filters import conditions
from spellbook.index.opened import Index
from spellbook.notes.note import Note, parse
from spellbook.system.errors import InvalidInput, MemoryNotFound, RestRequired

SESSION_SECONDS = 3600.0  # how long a session is live after it began


def check_language(language: str) -> None:
    """Raise InvalidInput if there are no guides in `language`."""
    if language not in guides.LANGUAGES:
        raise InvalidInput(f"There are no guides in {language!r:.80}.", f"Languages are {', '.join(guides.LANGUAGES)}.")


def begin(index: Index, language: str) -> tuple[Session, dict[str, Any], dict[str, Any]]:
    """Open a session; return it with the chunking guide and the metadata rules, as far as there is room for them."""
    session = index.catalog.sessions.begin(f"rest-{os.urandom(12).hex()}", SESSION_SECONDS, language)
    notes = _guides(index, language)
    return session, *guides.fit(guides.chunking(notes), guides.metadata_rules(notes))


def live(index: Index, session_id: str | None) -> Session:
    """Return a live session. Raises RestRequired, RestInvalid, RestExpired."""
    return index.catalog.sessions.live(_require_id(session_id))


def end(index: Index, session_id: str | None) -> Session:
    """End a live session and return it. Raises as `live` does."""
    return index.catalog.sessions.end(_require_id(session_id))


def _require_id(session_id: str | None) -> str:
    if not session_id or not session_id.strip():
        raise RestRequired("Writing needs a REST session.", "Call rest() first and pass its session_id.")
    return session_id.strip()


def _guides(index: Index, language: str) -> dict[str, Note]:
    """The vault's own guides, the packaged ones where it has none."""
    notes = dict(guides.packaged(language))
    for guide in notes:
        limits = conditions({"category": "system", "guide": guide, "language": language})
        with contextlib.suppress(InvalidInput, MemoryNotFound):
            for path in index.catalog.paths(limits)[:1]:
                notes[guide] = parse(path, index.vault.read(path)[0])
    return notes
