"""Texts and vectors come back from the catalog: exactly, and as unit vectors of the same direction and width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spellbook.index.catalog.text_bytes import FUNCTIONS, packed, unpacked
from spellbook.index.catalog.vector_bytes import compact, restored, width_of
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


@pytest.mark.parametrize("width", [1, 2, 3, 384, 1_025])
def test_a_vector_keeps_its_direction(width):
    """What is read back is a unit vector, as wide as before, and so near that no ranking changes."""
    block = np.random.default_rng(width).standard_normal((50, width)).astype("<f4")
    block /= np.linalg.norm(block, axis=1, keepdims=True)
    stored = [compact(row.tobytes()) for row in block]
    assert {(len(each), width_of(len(each))) for each in stored} == {((3 * width + 1) // 2, width)}
    back = np.stack([np.frombuffer(each, "<f4") for each in restored(stored)])
    assert back.shape == block.shape
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
    assert (np.vecdot(back, block) > 1 - 1e-6).all()
    assert [compact(each) for each in restored(stored)] == stored


def test_vectors_of_several_widths_and_of_nothing():
    """Vectors of two embedders are read together, and a vector of zeros stays one."""
    vectors = [np.eye(1, width, dtype="<f4").tobytes() for width in (4, 7, 4)] + [bytes(16)]
    assert restored([compact(each) for each in vectors]) == vectors
    assert restored([]) == []
