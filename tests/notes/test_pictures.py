"""Pictures of a note: which links embed one, and what kind of picture some bytes are."""

from __future__ import annotations

import pytest

from spellbook.notes import pictures
from spellbook.notes.note import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("![[a.png]]", ["a.png"]),
        ("![[ sub/그림 1.JPG |300]]", ["sub/그림 1.JPG"]),
        ('![alt](a.webp) ![](<b c.gif>) ![x]( ../d%20e.jpeg "title")', ["a.webp", "b c.gif", "../d e.jpeg"]),
        ("[![alt [1]](a.png)](b.md)", ["a.png"]),
        ("[[a.png]] and [alt](b.png)", []),
        ("\\![alt](a.png)", []),
        ("![[a.svg]] ![[a.pdf]] ![[note]] ![](script.html)", []),
        ("```\n![[a.png]]\n```\n`![](b.png)` %%![[c.png]]%%", []),
        ('---\ncover: "[[a.png]]"\n---\nText', []),
        ("![x](https://elsewhere.test/a.png) ![](//elsewhere.test/b.png)", []),
    ],
)
def test_what_a_note_embeds(text: str, expected: list[str]) -> None:
    """Both forms, also inside a link; not plain links, code, comments, other files and other hosts."""
    assert [link.target for link in pictures.embedded(parse("n.md", text.encode()))] == expected


def test_a_label_without_end_costs_little() -> None:
    """A label longer than any person writes is no picture."""
    text = f"![{'[' * 5000}{'x' * 5000}](a.png)"
    assert pictures.embedded(parse("n.md", text.encode())) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\n\x00\r\x00WEBPVP8 ", "image/webp"),
        (b"RIFFxxxxWAVE", ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", ""),
        (b"<html><script>alert(1)</script>", ""),
        (b"", ""),
    ],
)
def test_bytes_say_what_a_picture_is(data: bytes, expected: str) -> None:
    """The name of a file says nothing of what a browser is told."""
    assert pictures.media_type(data) == expected
