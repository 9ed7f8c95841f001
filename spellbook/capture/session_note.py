"""
The notes of sessions: a section for each exchange, which is appended once and never written again.

Text of a transcript is quoted, so that no heading, fence or comment in it ends its section. A comment under the heading
has the day and the key of the exchange, which is known by it if a kill came between the note and the ledger.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import Any

from spellbook.archive.formats.conversations import on_one_line
from spellbook.capture.ledger import LONG_ID, Ledger, SessionNote
from spellbook.capture.transcript import CLIENTS, Exchange
from spellbook.editing.edits import with_meta
from spellbook.editing.erase import erase_notes
from spellbook.index import privacy
from spellbook.index.filters import conditions
from spellbook.index.lookup import named
from spellbook.index.opened import Index
from spellbook.index.project_name import project_names
from spellbook.notes.frontmatter import compose
from spellbook.notes.note import Note, newline, parse
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from spellbook.system.lazy import regex
from spellbook.text import credentials
from spellbook.vault.folder import digest
from spellbook.vault.journal import BY_ITSELF
from spellbook.vault.names import safe_name
from spellbook.vault.vault import Vault

_MOST_TITLE = 80  # letters
_MOST_WORDS = 60  # letters of a heading
_MOST_SECTIONS = 200  # of one note
_MOST_BYTES = 400_000  # of one note
_KEY = regex(r"(?m)^<!-- \d{4}-\d\d-\d\d ([0-9a-f]{16}) -->\r?$")
_MARKS = regex(r"[#\[\]<>%|`*_]+")
_PICTURE = regex(r"(?i)\[(?:image|picture|screenshot|file|pasted|이미지|그림|사진)\b[^\[\]]*\]")
_WORD = regex(r"[^\W_]+")
_SAYS_NOTHING = regex(
    r"(?i)go|on|ahead|continue|proceed|keep|going|resume|try|again|next|thanks?|thank|you|thx|ty|please|pls|ok|okay|k"
    r"|y|yes|yep|yeah|no|nope|n|sure|right|good|great|nice|perfect|cool|fine|done|lgtm|looks|works|well|very|much|so"
    r"|commit|push|it|that|this|them|and|now|then|do|for|me|let|s|us|is|to|all|hi|hello|hey|there|morning"
    r"|(?:계속|진행|고마|고맙|감사|커밋|푸시|부탁|안녕|수고|잘했|해줘|해주|주세요|오케이|그래|다시)\w*"
    r"|네|넵|예|응|좋아요?|좋습니다|이제|그럼|그리고|다음|하고|해|줘|이거|그거|이어서|그대로|됐어요?|ㅇㅋ|ㅇㅇ"
)
"""A word that names no topic, in a request such as `go on` or `thanks, commit it`."""


def write(index: Index, known: SessionNote, new: list[Exchange]) -> SessionNote:
    """Write exchanges of a session; return its note as it is `known` after that."""
    client, session = known.client, known.session
    begun, number = new[0].asked.at.astimezone(), sha256(session.encode()).hexdigest()[:8]
    project = next(iter(project_names(index.config.projects, folder=new[0].asked.folder)), "")
    scope = credentials.masked(project, likely=True)
    stem = known.stem or _stem(index.vault, number) or f"{begun:%Y-%m-%d}-{safe_name(scope or client, 40)}-{number}"
    meta = {
        **{"id": f"session-{number}", "session": session, "title": _title(new)},
        **{"category": "session", "type": "episodic", "importance": "low", "trust": "agent"},
        **{"privacy_scope": "private", **({"scope": scope} if scope else {}), "source": client},
        **{"created": begun, "updated": new[-1].asked.at.astimezone()},
        privacy.GENERATED: {"by": f"{client}/{new[-1].version or 'unknown'}", "at": new[-1].asked.at.astimezone()},
    }
    meta |= {"status": privacy.DRAFT} if index.config.review else {}
    with index.vault.change(BY_ITSELF, stem):
        part = _append(index.vault, stem, known.part, CLIENTS[client][0], new, meta)
    return known._replace(stem=stem, part=part)


def _stem(vault: Vault, number: str) -> str:
    """Return the name of a session's note that another machine made, "" if there is none."""
    found = (path for path in sorted(vault.files("sessions")) if path.endswith(f"-{number}.md"))
    return next(found, "").removeprefix("sessions/").removesuffix(".md")


def _title(new: Sequence[Exchange]) -> str:
    """Return the first request that says something, without pictures; the first of all if none does."""
    asked = [on_one_line(_PICTURE.sub(" ", each.prompt)) for each in new]
    telling = (text for text in asked if not all(map(_SAYS_NOTHING.fullmatch, _WORD.findall(text))))
    return next(telling, on_one_line(new[0].prompt))[:_MOST_TITLE]


def _section(exchange: Exchange, name: str) -> str:
    """Return the text of an exchange with the client `name`; its times are those of this machine's zone."""
    at, words = (
        exchange.asked.at.astimezone(),
        on_one_line(_MARKS.sub(" ", exchange.prompt[: 4 * _MOST_WORDS]))[:_MOST_WORDS],
    )
    turns = (("You", exchange.prompt), (name, exchange.answer))
    quoted = ((who, re.sub(r"(?m)^", "> ", text)) for who, text in turns if text)
    turned = "\n".join(f"**{who}:**\n\n{text}\n" for who, text in quoted)
    return f"## {at:%H:%M} {words}\n<!-- {at:%Y-%m-%d} {exchange.key} -->\n\n{turned}"


def _append(vault: Vault, stem: str, last: int, name: str, new: Sequence[Exchange], meta: Mapping[str, Any]) -> int:
    """
    Append the exchanges with the client `name` that a session's note lacks, and return the last part.

    There are `-2` and so on where a part is full or gone; `last` is the one that was written last, 0 for none. Raises
    Conflict if somebody saves the note meanwhile.
    """
    left, part = [(each, _section(each, name)) for each in new], max(1, last)
    while left:
        end, note = f"-{part}" if part > 1 else "", None
        with contextlib.suppress(MemoryNotFound):
            note = parse(path := f"sessions/{stem}{end}.md", vault.read(path)[0])
        is_ours = note is not None and note.meta.get("session") == meta["session"]
        known = set(_KEY.findall(note.text)) if note and is_ours else set()
        left = [row for row in left if row[0].key not in known]
        sizes = accumulate((len(text.encode()) for _, text in left), initial=len(note.encode()) if note else 0)
        room = left[: max(0, _MOST_SECTIONS - len(known))]
        fits = sum(size < _MOST_BYTES for _, size in zip(room, sizes, strict=False))
        if fits and (is_ours or (note is None and part > last)):
            removed = sum(each.removed for each, _ in left[:fits])
            own = {**meta, "id": f"{meta['id']}{end}", "removed": removed}
            _put(vault, path, note, "\n".join(text for _, text in left[:fits]), own)
            left = left[fits:]
        part += bool(left)
    return part


def _put(vault: Vault, path: str, note: Note | None, body: str, meta: dict[str, Any]) -> None:
    if note is None:
        vault.place(path, [compose(meta, body).encode()])
        return
    text, end = note.text, newline(note.text)
    with contextlib.suppress(InvalidInput, Conflict, TypeError, ValueError):  # frontmatter that a person changed stays
        removed = meta["removed"] + int(note.meta.get("removed", 0))
        text = with_meta(note, {**{key: meta[key] for key in ("updated", privacy.GENERATED)}, "removed": removed})
    gap = end if text.endswith(("\n", "\r")) else end * 2
    vault.write(path, note.encode(text + gap + body.replace("\n", end)), digest(note.encode()))


def forget(index: Index, session: str, project: str, since: str, *, dry_run: bool) -> list[str]:
    """Move sessions' notes to the trash for good: by session, scope or day of change; return their paths."""
    index.vault.check_there()
    with contextlib.suppress(MemoryNotFound):
        session = session and str(named(index, session)[0][0].meta.get("session") or session)
    chosen = {"session": session, "scope": project, "updated": since and f"{since}.."}
    wanted = conditions({"source": [*CLIENTS], **{key: value for key, value in chosen.items() if value}})
    chunks = []
    with contextlib.suppress(InvalidInput):  # no note has one of these keys yet
        found = (index.catalog.at(path)[0] for path in index.catalog.paths(wanted))
        chunks = [chunk for chunk in found if chunk.meta.get("session") and chunk.note.startswith("session-")]
    ledger = Ledger(str(index.config.vault))
    if session and not chunks and len(session) < LONG_ID:  # the id of one that has no note yet is taken
        raise InvalidInput(f"No session {session!r:.80} is known.", "Give its id, or the name of its note.")
    if not dry_run:
        sessions = {session, *(str(chunk.meta["session"]) for chunk in chunks)} - {""}
        for each in sessions:
            ledger.forbid(each)
        if chunks:
            erase_notes(index, chunks, "sessions", session or project)
    return [chunk.path for chunk in chunks]
