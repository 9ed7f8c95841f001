"""Put quotes around values of frontmatter that is no YAML, where only one reading is possible."""

from __future__ import annotations

from spellbook.editing.moves import Relinking
from spellbook.editing.relinking import Mended
from spellbook.editing.repair_links import Offer, carry_out
from spellbook.index import sync
from spellbook.index.opened import Index
from spellbook.notes.broken_headers import CAUSES, quoted
from spellbook.notes.frontmatter import FRONTMATTER, BadHeader, known_key, load
from spellbook.notes.note import Note, parse


def mend(index: Index, *, dry_run: bool) -> Offer:
    """
    Put the quotes that are certain into notes, as one entry of the journal; `dry_run` only says where.

    The offer names no broken links; the `links` of a changed note are its values in quotes.
    """
    sync.scan(index)
    planned = Relinking(index.vault)
    for fault in (each for each in index.catalog.notes.faults() if each.reason in CAUSES):
        left = len(planned.left)
        planned.plan(fault.path, fault.path, lambda note: Mended(*with_quotes(note)))
        if fault.path not in planned.texts and len(planned.left) == left:
            planned.left.append(fault)
    return carry_out(index, planned, "properties", (), dry_run=dry_run)


def with_quotes(note: Note) -> tuple[str, int]:
    """Return a note's text with quotes around the values that need them, and their number; 0 if that is not certain."""
    match = FRONTMATTER.match(note.text)
    if match is None or note.editable:
        return note.text, 0
    values = quoted(match[1], _is_yaml)
    lines = match[1].splitlines(keepends=True)
    for each in values:
        end = lines[each.line][len(lines[each.line].rstrip("\r\n")) :]
        lines[each.line] = each.new + end
    text = note.text[: match.start(1)] + "".join(lines) + note.text[match.end(1) :]
    after = parse(note.path, note.encode(text))
    texts = [str(item) for value in after.meta.values() for item in (value if isinstance(value, list) else [value])]
    is_read = all(
        after.meta.get(known_key(each.key.strip())) == each.text if each.key else each.text in texts for each in values
    )
    is_exact = after.editable and is_read and after.body == note.body
    return (text, len(values)) if values and is_exact else (note.text, 0)


def _is_yaml(line: str) -> bool:
    try:
        load(f"---\n{line.lstrip()}\n---\n")
    except BadHeader as error:
        return error.is_text
    return True
