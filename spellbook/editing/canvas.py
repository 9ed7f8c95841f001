"""The links of an Obsidian canvas, to files and in text cards. Pure; only changed links are rewritten."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from spellbook.editing.relink import Mended
from spellbook.notes import links
from spellbook.notes.note import Note, parse, replaced
from spellbook.system.errors import UnreadableNote
from spellbook.text.unicode import is_whole

# A quote within a string of JSON has a backslash in front of it, a key has none.
_VALUE = re.compile(r'(?<!\\)"(file|background|text)"\s*:\s*("(?:[^"\\]|\\.)*+")')


def cards(path: str, text: str) -> Iterator[tuple[re.Match[str], int, Note]]:
    """Yield the texts and files of a canvas, each with its line and as a note. Raises UnreadableNote if not JSON."""
    try:
        json.loads(text.lstrip("\ufeff").strip() or "null")
    except (ValueError, RecursionError) as error:
        raise UnreadableNote("it is not valid JSON; its links are as they were") from error
    line, at = 1, 0
    for match in _VALUE.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        value = json.loads(match[2])
        if is_whole(value) and (match[1] != "text" or "[" in value):
            markdown = value if match[1] == "text" else f"[file]({links.destination(f'/{value}')})"
            yield match, line, parse(path, markdown.encode())


def mend_cards(path: str, text: str, mend: Callable[[Note], Mended]) -> Mended:
    """Rewrite the links of a canvas as `mend` does those of a note; raise as `cards` does."""
    changes, left, count = [], [], 0
    for match, line, note in cards(path, text):
        done = mend(note)
        left += [replace(link, line=line) for link in done.left]
        count += done.count
        if done.count:
            is_text = match[1] == "text"
            new = done.text if is_text else links.find(parse(path, done.text.encode()))[0].target[1:]
            changes.append((*match.span(2), json.dumps(new, ensure_ascii="\\u" in match[2])))
    return Mended(replaced(text, changes), count, tuple(left))
