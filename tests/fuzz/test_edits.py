"""Any note: an edit changes only what was asked, and undoing all edits restores every byte."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from tests.fuzz import bounded
from tests.fuzz.texts import block, note, sentence

META = st.dictionaries(
    st.sampled_from(["topic", "tags", "keywords", "own key", "importance", "새 키"]),
    st.one_of(
        st.none(),
        st.sampled_from(["plain", "12:30", "yes", "[[a]]", "# no comment"]),
        st.lists(st.sampled_from(["x", "y"]), max_size=2),
    ),
    min_size=1,
    max_size=2,
)
EDITS = st.one_of(
    st.fixed_dictionaries({"append": sentence()}),
    st.fixed_dictionaries({"content": block()}),
    st.fixed_dictionaries({"metadata": META}),
)


@bounded(60)
@given(note(), st.lists(st.tuples(EDITS, st.integers(0, 9)), max_size=5))
def test_any_note_is_edited_without_a_stray_byte(text: str, edits: list[tuple[dict[str, Any], int]]) -> None:
    """Text around an edited section stays, the body stays when the header changes, and undo restores all."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vault" / "a.md"
        file.parent.mkdir()
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        with books.open(file.parent, embedder="hash", state=Path(folder) / "state") as book:
            book.reindex()
            states = [file.read_bytes()]
            for asked, which in edits:
                _edit(book, file, asked, which)
                if file.read_bytes() != states[-1]:
                    states.append(file.read_bytes())
            while len(states) > 1:
                states.pop()
                book.undo()
                assert file.read_bytes() == states[-1]


def _edit(book: Spellbook, file: Path, asked: dict[str, Any], which: int) -> None:
    """Make one edit and check that it changed only what it may."""
    before = file.read_bytes()
    try:
        chunks = book.show("a.md")
        chunk = chunks[which % len(chunks)]
        book.revise("a.md" if "metadata" in asked else chunk.id, **asked)
    except (Conflict, InvalidInput, MemoryNotFound):
        assert file.read_bytes() == before
        return
    then, now = parse("a.md", before), parse("a.md", file.read_bytes())
    if "metadata" in asked:
        assert now.text[now.body_at :] == then.text[then.body_at :]
        return
    pieces = cut(then, book.config.chunk_tokens)
    section = [
        piece for piece in pieces if piece.suffix.partition("~")[0] == pieces[chunk.ordinal].suffix.partition("~")[0]
    ]
    assert now.text[now.body_at :].startswith(then.text[then.body_at : section[0].start].rstrip())
    assert now.text.endswith(then.text[section[-1].end :])
