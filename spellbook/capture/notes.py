"""
The notes of a session: a section for each exchange, which is appended once and never written again.

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
from spellbook.capture.transcripts import OMITTED, Exchange
from spellbook.editing.edits import with_meta
from spellbook.notes.frontmatter import compose
from spellbook.notes.note import Note, newline, parse
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from spellbook.text import credentials
from spellbook.text.unicode import composed
from spellbook.vault.vault import Vault, digest

_MOST_PROMPT, _MOST_ANSWER, _MOST_WORDS = 4_000, 2_000, 60  # letters
_MOST_SECTIONS, _MOST_BYTES = 200, 400_000  # of one note
_KEY = re.compile(r"(?m)^<!-- \d{4}-\d\d-\d\d ([0-9a-f]{16}) -->\r?$")
_MARKS = re.compile(r"[#\[\]<>%|`*_]+")


def clean(exchange: Exchange) -> Exchange:
    """Take secrets and private parts out of an exchange, count them, cut its texts, and give it its key."""
    exchange.prompt, removed = _cleaned(exchange.prompt, _MOST_PROMPT)
    exchange.answer, more = _cleaned("" if removed else exchange.answer, _MOST_ANSWER)  # it may say it again
    exchange.removed = removed + more
    exchange.key = sha256(f"{exchange.at.isoformat()}\n{exchange.prompt}".encode()).hexdigest()[:16]
    return exchange


def _cleaned(text: str, most: int) -> tuple[str, int]:
    """Return at most so many letters of a text without secrets and private parts, and how many of these there were."""
    masked = credentials.masked(text, likely=True)
    kept = masked.replace(OMITTED, "").strip()
    removed = masked.count("…") - composed(text).count("…") + text.count(OMITTED)
    return kept if len(kept) <= most else f"{kept[: most - 2]} …", removed


def _section(exchange: Exchange, name: str) -> str:
    """Return the text of an exchange with the client `name`; its times are those of this machine's zone."""
    at, words = exchange.at.astimezone(), on_one_line(_MARKS.sub(" ", exchange.prompt[: 4 * _MOST_WORDS]))[:_MOST_WORDS]
    turns = (("You", exchange.prompt), (name, exchange.answer))
    quoted = ((who, re.sub(r"(?m)^", "> ", text)) for who, text in turns if text)
    turned = "\n".join(f"**{who}:**\n\n{text}\n" for who, text in quoted)
    return f"## {at:%H:%M} {words}\n<!-- {at:%Y-%m-%d} {exchange.key} -->\n\n{turned}"


def append(vault: Vault, stem: str, last: int, name: str, new: Sequence[Exchange], meta: Mapping[str, Any]) -> int:
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
            _write(vault, path, note, "\n".join(text for _, text in left[:fits]), own)
            left = left[fits:]
        part += bool(left)
    return part


def _write(vault: Vault, path: str, note: Note | None, body: str, meta: dict[str, Any]) -> None:
    if note is None:
        vault.place(path, [compose(meta, body).encode()])
        return
    text, end = note.text, newline(note.text)
    with contextlib.suppress(InvalidInput, Conflict, TypeError, ValueError):  # frontmatter that a person changed stays
        removed = meta["removed"] + int(note.meta.get("removed", 0))
        text = with_meta(note, {"updated": meta["updated"], "removed": removed})
    gap = end if text.endswith(("\n", "\r")) else end * 2
    vault.write(path, note.encode(text + gap + body.replace("\n", end)), digest(note.encode()))
