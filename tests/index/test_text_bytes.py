"""text_bytes: texts come back exactly as they were."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from spellbook.index.catalog.text_bytes import FUNCTIONS, packed, unpacked
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse


@given(st.text(st.characters()))
@example("\ud800")
@example("\0")
@example("도커 " * 9_000)
def test_any_text_comes_back(text):
    """Whatever a text holds, NUL and half letters too, it is read back."""
    assert unpacked(packed(text)) == text


def test_what_is_embedded_is_made_of_what_is_stored():
    """From the columns of a chunk comes what is embedded of it, also of a part of a table or of code."""
    rows = "\n".join(f"| keeper {i} | lighthouse {i * 7} |" for i in range(200))
    code = "\n".join(f"light[{i}] = keeper({i * 7})" for i in range(200))
    text = f"# Log\n\n## Year\n\n| who | where |\n|---|---|\n{rows}\n\n## Code\n\n```py\n{code}\n```\n"
    chunks = cut(parse("a.md", text.encode()))
    assert {bool(chunk.lead) for chunk in chunks} == {bool(chunk.tail) for chunk in chunks} == {True, False}
    _, embedded = FUNCTIONS["embedded_text"]
    for chunk in chunks:
        assert embedded(chunk.above, chunk.lead, packed(chunk.text), chunk.tail) == chunk.embedded
        assert chunk.embedded.startswith("Log")
