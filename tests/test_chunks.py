"""
chunks.cut: a note in, its sections out.

`cases/NAME.md` is a note, byte for byte; `cases/NAME.txt` what it is cut into,
a line a chunk: the file's lines, the suffix of the id (`-` for none), the
heading path, and how its text begins. A line with `!` is a fault.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.chunks import Chunk, cut, slug
from spellbook.notes import Note, lines, parse
from spellbook.terms import token_weight

CASES = Path(__file__).parent / "cases"

PIECES = [
    *("# Title", "## Part", "## Part", "### Sub", "#### 소제목", "Setext\n---", "Big\n===", "##", "---", "## 🚀", "## a-2", "## a"),
    *("```", "~~~~", "    ## code", "- item", "  - nested", "1. one", "> ## quoted", "| a | b |\n| - | - |\n| 1 | 2 |"),
    *("<!--", "-->", "<div>", "</div>", "[a]: /b", "%%", "title: x", "\ufeff", "\0", "\u2028", "\x0c## x", "#tag `#no`"),
    *("", "", "", "\t", " ", "word", "한글 문장입니다. " * 40, "가" * 700, "x " * 300, "a.b! c? " * 50),
]
markdown = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["\n", "\n\n", "\r\n", "\r", ""]))).map(
    lambda pairs: "".join(piece + end for piece, end in pairs)
)
texts = st.one_of(
    markdown, st.text(st.characters(exclude_categories=["Cs"]), max_size=200), markdown.map(lambda text: f"---\ntitle: x\n---\n{text}")
).filter(lambda text: text.count("\0") * 3 <= len(text))  # what is mostly NUL is no note


def shown(note: Note) -> str:
    faults = [f"! {fault.line} {fault.reason}" for fault in note.faults]
    return "".join(f"{line}\n" for line in [*faults, *map(row, cut(note))])


def row(chunk: Chunk) -> str:
    begins = ascii_safe(next((line.strip() for line in lines(chunk.text) if line.strip()), ""))
    return f"{chunk.line}-{chunk.end_line} {chunk.suffix or '-'} [{' > '.join(chunk.heading)}] {begins[:60]}".rstrip()


def ascii_safe(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.md")), ids=lambda path: path.stem)
def test_case(path):
    """Each note of the table is cut, numbered and named as written beside it."""
    note = parse(path.name, path.read_bytes())
    assert shown(note) == path.with_suffix(".txt").read_text(encoding="utf-8")


def test_every_case_has_its_expectation():
    """No note of the table stands without an expectation, and none is left over."""
    assert {path.stem for path in CASES.glob("*.md")} == {path.stem for path in CASES.glob("*.txt")}


@given(texts, st.sampled_from([8, 40, 256]))
def test_nothing_is_lost(text, most):
    """The chunks joined are the body, in order, each where it says it is, and the file's bytes come back."""
    data = text.encode()
    note = parse("a.md", data)
    chunks = cut(note, most)
    assert "".join(chunk.text for chunk in chunks) == note.body
    assert [note.text[chunk.start : chunk.end] for chunk in chunks] == [chunk.text for chunk in chunks]
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert note.encode() == data


@given(texts, st.sampled_from([8, 40, 256]))
def test_suffixes_are_unique(text, most):
    """No two chunks of a note share an id."""
    suffixes = [chunk.suffix for chunk in cut(parse("a.md", text.encode()), most)]
    assert len(set(suffixes)) == len(suffixes) > 0


@given(texts, st.sampled_from([8, 40, 256]))
def test_lines_are_the_files(text, most):
    """The file's lines from `line` to `end_line` hold the chunk's text, and no line at either end is without it."""
    note = parse("a.md", text.encode())
    source = lines(note.text)
    for chunk in cut(note, most):
        written = chunk.text.strip()
        if written:
            span = source[chunk.line - 1 : chunk.end_line]
            assert written in "".join(span)
            assert lines(written)[0].rstrip("\r\n") in span[0]
            assert lines(written)[-1] in span[-1]


@given(texts, st.sampled_from([40, 256]))
def test_no_chunk_is_far_too_long(text, most):
    """A chunk holds at most what was asked, and at most as much again for the headings that go with it."""
    for chunk in cut(parse("a.md", text.encode()), most):
        assert token_weight(chunk.text) <= 2 * most + 1


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("a\n\n", id="one-word paragraphs"),
        pytest.param("a\n", id="one-word lines"),
        pytest.param("### a\n", id="headings alone"),
        pytest.param("- a\n", id="list items"),
        pytest.param("> a\n", id="a quote"),
        pytest.param("*", id="a line of marks"),
        pytest.param("가", id="a line of Hangul"),
    ],
)
def test_small_things_add_up(unit):
    """However small its pieces, a section of many tokens is divided into chunks of about the size asked."""
    note = parse("a.md", ("## A\n\n" + unit * 5000).encode())
    weights = [token_weight(chunk.text) for chunk in cut(note)]
    assert max(weights) <= 300
    assert len(weights) < 3 * token_weight(note.body) / 256 + 2


def test_a_heading_goes_with_what_it_heads():
    """A part never ends in a heading whose text is in the next part."""
    text = "".join(f"### Part {i}\n\n#### Below\n\n{'word ' * (i * 7 % 190)}\n\n" for i in range(60))
    for chunk in cut(parse("a.md", text.encode()))[:-1]:
        assert not chunk.text.rstrip().splitlines()[-1].startswith("#")


@pytest.mark.parametrize(
    ("text", "embedded"),
    [
        pytest.param("---\ntitle: T\nkeywords: [a, b]\n---\n## A\n\nx\n", ["T > A\na, b\n## A\n\nx"], id="title, heading, keywords"),
        pytest.param("# T\n\nx\n", ["T\n# T\n\nx"], id="title from the text"),
        pytest.param("x\n", ["x"], id="no title: the file's name is not embedded"),
        pytest.param("## A\0B\n", ["A B\n## A B"], id="NUL is a blank"),
        pytest.param("한글\n", ["한글"], id="NFC"),
    ],
)
def test_embedded(text, embedded):
    """What is embedded is heading path, keywords and text, and nothing of where the file lies."""
    assert [chunk.embedded for chunk in cut(parse("folder/name.md", text.encode()))] == embedded


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Hello, World!", "hello-world"),
        ("설치 방법", "설치-방법"),
        ("snake_case - and more", "snake_case---and-more"),
        ("ที่นี่", "ที่นี่"),
        ("⚙️", "section"),
        ("", "section"),
    ],
)
def test_slug(heading, anchor):
    """A slug is what GitHub makes of the heading, and never empty."""
    assert slug(heading) == anchor


SIZE = 80_000
HOSTILE = {
    "hashes": "#" * SIZE,
    "quotes": ">" * SIZE,
    "brackets": "[" * SIZE,
    "backticks": "`" * SIZE,
    "backtick runs": "#a " + "".join("`" * i + "x" for i in range(1, 400)),
    "one line": "a" * SIZE,
    "blank lines": "\n" * SIZE,
    "tags": "#tag " * (SIZE // 5),
    "items": "- a\n" * (SIZE // 4),
    "many lists": "- a\n\nb\n\n" * (SIZE // 8),
    "equal headings": "## a\n" * (SIZE // 5),
    "clashing headings": "".join(f"## a\n## a-{i}\n" for i in range(SIZE // 16)),
    "subheadings": "### a\n" * (SIZE // 6),
    "setext headings": "a\n-\n" * (SIZE // 4),
    "paragraphs": "a\n\n" * (SIZE // 3),
    "nested list": "".join("  " * i + "- a\n" for i in range(300)),
    "nested quotes": (">" * 1000 + "\n") * (SIZE // 1000),
    "unclosed label": "[" + "c\n" * (SIZE // 2),
    "heading of brackets": "# " + "[" * SIZE,
    "heading of comments": "# " + "{/*" * (SIZE // 3),
    "heading of tags": "# " + "<a" * (SIZE // 2),
    "heading of stars": "# " + "**a" * (SIZE // 3),
    "sentences": "a. " * (SIZE // 3),
    "rules": "---\n" * (SIZE // 4),
    "unclosed frontmatter": "---\n" + "a\n" * (SIZE // 2),
    "carriage returns": "\r" * SIZE,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time(name):
    """No eighty kilobytes take more than a few seconds of a processor; what is quadratic takes minutes."""
    begin = time.process_time()
    note = parse("a.md", HOSTILE[name].encode())
    chunks = cut(note)
    assert note.tags is not None
    assert time.process_time() - begin < 5
    assert "".join(chunk.text for chunk in chunks) == note.body
