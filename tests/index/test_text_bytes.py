"""text_bytes: texts come back exactly as they were."""

from __future__ import annotations

import hashlib

from hypothesis import example, given
from hypothesis import strategies as st

from spellbook.index.catalog.text_bytes import packed, packed_embedded, short_key, unpacked
from spellbook.models.base import short_hash
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse


@given(st.text(st.characters()), st.text(st.characters()))
@example("\ud800", "\0")
@example("도커 " * 9_000, "도커 컨테이너 " * 9_000)
def test_any_text_comes_back(text, like):
    """Whatever a text holds, NUL and half letters too, and whatever it is like, it is read back."""
    assert unpacked(packed(text)) == text
    assert unpacked(packed(text, like), like) == text


def test_what_is_embedded_takes_hardly_more_than_the_text():
    """What is embedded of a chunk takes a small part of what it would by itself."""
    lines = "\n".join(f"On day {i} the keeper of lighthouse {i * 7} wrote of wind {i * i}." for i in range(200))
    chunks = cut(parse("a.md", f"# Log\n\n## Year\n\n{lines}\n".encode()))
    assert len(chunks) > 3
    alike = sum(len(packed_embedded(chunk.embedded, " > ".join(chunk.heading), chunk.text)) for chunk in chunks)
    assert alike < sum(len(packed(chunk.embedded)) for chunk in chunks) / 4


def test_a_key_of_before_becomes_the_key_of_today():
    """The hash that named a text before is shortened to what names it now, so its vector is found."""
    for data in (b"", b"harbor", "도커".encode()):
        assert short_key(hashlib.sha256(data).hexdigest()) == short_hash(data)
