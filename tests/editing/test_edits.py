"""Edits: one key or one section changes, and no other byte."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing.edits import rewrite, with_meta, without
from spellbook.notes.chunks import cut
from spellbook.notes.frontmatter import LABELS, as_label
from spellbook.notes.note import lines, parse
from spellbook.system.errors import Conflict, InvalidInput

ENTRIES = {
    "topic": [
        "infra",
        "'single ''quoted'''",
        '"double \\"quoted\\" # no comment"',
        "plain text  # a comment",
        "",
        "~",
        "&t infra",
        "|\n  literal\n  lines",
        ">-\n  folded\n  text",
    ],
    "tags": [
        "[ops, dev]",
        "[ops, # why\n  dev]",
        "\n  - ops\n  - dev  # why\n  # between\n  - web",
        "\n- ops\n- dev",
        "ops",
        "[]",
        "['#a', \"b\"]",
    ],
    "keywords": ["Docker, Compose", "[Docker, 'a, b']", "\n    - &k Docker\n    - Compose", "[[nested], {a: b}]"],
    "questions": ["[방법은?]", "\n  - 방법은?  # 묻는 말\n  - 왜?", "What: why"[:4]],
    "entities": [
        "[{name: Docker, type: technology}, Compose]",
        "\n  - name: Docker\n    type: technology\n  - Compose",
    ],
    "importance": ["high", "0.75", "1", "1.10"],
    "created": ["2026-11-21", "2026-11-21T20:15:00+09:00", "'2026-11-21'"],
    "time": ["12:30", "1.10", "yes", "0o17", "1_000", "!!str 5", "2026-02-30"],
    "map": ["{a: 1, b: [x]}", "\n  a: 1\n  # inside\n  b:\n    c: deep", "&m {a: 1}"],
    "별칭": ["[가, 나]", "값"],
    '"quoted: key"': ["1", "'x'"],
    "url": ["https://x.y/#z", "a#b"],
}
BETWEEN = ["", "", "", "# a comment\n", "\n", "  # indented\n", "#\n"]
entries = st.lists(
    st.sampled_from(list(ENTRIES)).flatmap(
        lambda key: st.tuples(st.just(key), st.sampled_from(ENTRIES[key]), st.sampled_from(BETWEEN))
    ),
    unique_by=lambda entry: entry[0],
    max_size=6,
)
bodies = st.sampled_from(["", "\n# T\n\n## A\n\nx\n", "## A\n\n---\n\nb\n", "x", "\r\ny\n", "\n\n"])


def file_of(parts, body, end, bom):
    header = "".join(f"{key}: {value}\n{between}" for key, value, between in parts)
    return bom + f"---\n{header}---\n".replace("\n", end) + body


files = st.builds(file_of, entries, bodies, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["", "\ufeff"]))
new_values = st.one_of(
    st.sampled_from(
        [
            "x",
            "a: b",
            "# no comment",
            "yes",
            "12:30",
            "1.10",
            "방법은?",
            "",
            " ",
            "two\nlines",
            "'",
            '"',
            "- a",
            "[",
            "*x",
            "ops",
            "\xa0",
        ]
    ),
    st.sampled_from(
        [
            ["ops"],
            ["ops", "dev"],
            ["dev"],
            ["ops", "new"],
            ["a, b", "c: d"],
            [],
            ["Docker"],
            ["방법은?", "왜?"],
            [{"name": "Docker", "type": "concept"}],
        ]
    ),
    st.sampled_from(
        [True, 0, 1, 0.5, dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), {"a": 1}, None]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
)
keys = st.sampled_from([*(key.strip('"') for key in ENTRIES), "brand new", "새 열쇠"])


def owner(parts, end):
    """Return each header line with its key; None for comments and blank lines in between."""
    for key, value, between in parts:
        yield from ((key.strip('"'), line + end) for line in f"{key}: {value}".split("\n"))
        # Below a literal what is indented is its text.
        name = key if value[:1] in {"|", ">"} and between.startswith(" ") else None
        yield from ((name, line + end) for line in between.split("\n")[:-1])


@given(entries, bodies, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["", "\ufeff"]), keys, new_values)
def test_with_meta_changes_one_key(parts, body, end, bom, key, value):
    """Setting a key keeps all other values, header lines and the body."""
    note = parse("a.md", file_of(parts, body, end, bom).encode())
    try:
        text = with_meta(note, {key: value})
    except Conflict:
        return
    after = parse("a.md", text.encode())
    expected = {**note.meta, key: as_label(value) if key in LABELS else value}
    assert after.meta == {name: each for name, each in expected.items() if name != key or each is not None}
    assert after.body == note.body
    assert text.startswith(bom + "---" + end)
    there = iter(lines(text))
    assert all(any(line == each for each in there) for name, line in owner(parts, end) if name != key)


@given(entries, bodies, st.sampled_from(["\n", "\r\n"]), keys, st.sampled_from(["plain", 0.5, ["ops", "new"], None]))
def test_with_meta_hardly_ever_refuses(parts, body, end, key, value):
    """Only values tied together by an anchor, a tag or nesting are refused; ordinary frontmatter can be changed."""
    note = parse("a.md", file_of(parts, body, end, "").encode())
    if not any("&" in each or "!!" in each for _, each, _ in parts):
        after = parse("a.md", with_meta(note, {key: value}).encode())
        assert after.meta.get(key) == (as_label(value) if key in LABELS else value)


@given(files)
def test_the_same_value_changes_nothing(text):
    """Setting every key to its own value leaves the file unchanged, spelling included."""
    note = parse("a.md", text.encode())
    assert with_meta(note, dict(note.meta)) == text


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        pytest.param("text\n", {"a": 1}, "---\na: 1\n---\ntext\n", id="no frontmatter"),
        pytest.param(
            "\ufefftext\r\n",
            {"a": 1, "b": "x"},
            "\ufeff---\r\na: 1\r\nb: x\r\n---\r\ntext\r\n",
            id="no frontmatter, BOM, CRLF",
        ),
        pytest.param("", {"a": 1}, "---\na: 1\n---\n", id="empty file"),
        pytest.param("---\na: |\n  x\nb: 1\n---\n", {"a": None}, "---\nb: 1\n---\n", id="remove a literal"),
        pytest.param(
            "---\na:\n- |\n  x\n- y\n---\n", {"a": ["y"]}, "---\na:\n- y\n---\n", id="a literal out of a list"
        ),
        pytest.param("---\n---\n", {"a": 1}, "---\na: 1\n---\n", id="empty frontmatter"),
        pytest.param("---\na: 1\n---\n", {"a": None}, "---\n---\n", id="remove the only key"),
        pytest.param("---\na: 1\n---\n", {"b": None}, "---\na: 1\n---\n", id="remove what is not there"),
        pytest.param("---\na: 1.10\nb: yes\n---\n", {"c": 1}, "---\na: 1.10\nb: yes\nc: 1\n---\n", id="spellings stay"),
        pytest.param("---\na: 'x' # c\n---\n", {"a": "y"}, "---\na: 'y' # c\n---\n", id="quotes and comment stay"),
        pytest.param("---\na:\n---\n", {"a": "y"}, "---\na: y\n---\n", id="empty value"),
        pytest.param(
            "---\na: 1\n---\n",
            {"a": ["no", "12:30", "0755", "0899", "1e3", "0o7", "1_0"]},
            "---\na: ['no', '12:30', '0755', '0899', '1e3', '0o7', '1_0']\n---\n",
            id="a text that YAML 1.1 or 1.2 takes for something else",
        ),
        pytest.param(
            "---\nTags: [a] # c\n---\n", {"tags": ["a", "b"]}, "---\nTags: [a, b] # c\n---\n", id="another case"
        ),
        pytest.param("---\nTITLE: a\n---\n", {"title": None}, "---\n---\n", id="another case, removed"),
        pytest.param("---\ntags: [1.0]\n---\n", {"tags": ["1.0", 2]}, "---\ntags: [1.0, '2']\n---\n", id="labels"),
        pytest.param("---\na: [x, y, z]\n---\n", {"a": ["x", "z"]}, "---\na: [x, z]\n---\n", id="out of a flow list"),
        pytest.param(
            "---\na: [x] # c\n---\n", {"a": ["x", "y: z"]}, "---\na: [x, 'y: z'] # c\n---\n", id="onto a flow list"
        ),
        pytest.param(
            "---\na:\n  - x # c\n  - y\nb: 1\n---\n",
            {"a": ["x", "z"]},
            "---\na:\n  - x # c\n  - z\nb: 1\n---\n",
            id="in a block list",
        ),
        pytest.param("---\na:\n- x\n- y\n---\n", {"a": ["y"]}, "---\na:\n- y\n---\n", id="first of a block list"),
        pytest.param("---\na: [x, x]\n---\n", {"a": ["x"]}, "---\na: [x]\n---\n", id="one of two equal"),
        pytest.param(
            "---\na:\n  - x\n  # why\n  - y\nb: 1\n---\n",
            {"a": "z"},
            "---\na: z\n# why\nb: 1\n---\n",
            id="comment inside survives",
        ),
        pytest.param(
            "---\na:\n  b:\n    c: 1\n\n# of d\nd: 1\n---\n",
            {"a": "z"},
            "---\na: z\n\n# of d\nd: 1\n---\n",
            id="comment after nested values",
        ),
        pytest.param(
            "---\na: |\n  x\n  y\n\n# c\nb: 1\n---\n", {"a": "z"}, "---\na: z\n\n# c\nb: 1\n---\n", id="literal"
        ),
        pytest.param("---\na: 2026-02-30\n---\n", {"a": "x"}, "---\na: x\n---\n", id="an odd value is mended"),
        pytest.param("---\n{a: 1}\n---\n", {"b": 2}, "---\n{a: 1, b: 2}\n---\n", id="all in braces"),
        pytest.param("---\n  a: 1\n---\n", {"b": 2}, "---\n  a: 1\n  b: 2\n---\n", id="indented"),
        pytest.param("---\na: x\n---\nn\0\n", {"b": 1}, "---\na: x\nb: 1\n---\nn\0\n", id="NUL in the body"),
        pytest.param(
            "---\r\na: x\r\n---\r\n",
            {"a": "p\nq"},
            '---\r\na: "p\\nq"\r\n---\r\n',
            id="a text of two lines stands on one",
        ),
        pytest.param("---\na: 1\n---\n", {"a": True}, "---\na: true\n---\n", id="1 is not true"),
        pytest.param("---\nyes: 1\n---\n", {"yes": 2}, "---\nyes: 2\n---\n", id="a key that YAML takes for true"),
        pytest.param("---\nunclosed\n", {"a": 1}, "---\na: 1\n---\n---\nunclosed\n", id="a rule at the top"),
    ],
)
def test_with_meta(before, changes, after):
    """The changed file equals the expected one, byte for byte."""
    assert with_meta(parse("a.md", before.encode()), changes) == after


@pytest.mark.parametrize("header", ["a: b: c", "a: 1\na: 2", "- a", "a: [", "prose"])
def test_faulty_frontmatter_is_not_edited(header):
    """Faulty frontmatter is never changed; the message names the line."""
    with pytest.raises(InvalidInput, match=r"a\.md, line "):
        with_meta(parse("a.md", f"---\n{header}\n---\n".encode()), {"b": 1})


@pytest.mark.parametrize(
    ("header", "changes"),
    [
        pytest.param("a: &x 1\nb: *x", {"a": 2}, id="an anchor that is used"),
        pytest.param("a: &x 1\nb: *x", {"a": None}, id="the same, removed"),
        pytest.param("{a: 1, b: 2}", {"a": None}, id="out of braces"),
        pytest.param("? a\n: 1", {"a": None}, id="explicit key"),
        pytest.param("a: 1", {"a": "x\0"}, id="NUL"),
        pytest.param("a: 1", {"a": "\ud800"}, id="half a letter"),
    ],
)
def test_what_hangs_together_is_refused(header, changes):
    """A change that would affect another key, or that could not be read back, is a Conflict."""
    with pytest.raises(Conflict, match="nothing was changed"):
        with_meta(parse("a.md", f"---\n{header}\n---\n".encode()), changes)


def test_a_deep_value_is_refused():
    """A value with endless nesting is a Conflict, not a crash."""
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(Conflict):
        with_meta(parse("a.md", b"x"), {"a": value})


SECTIONS = [
    "# T\n",
    "\nlead\n\n",
    "## A\n\nx\n\n",
    "## A\ny\n",
    "text\n---\n\nz\n\n",
    "## B",
    "```\n## c\n```\n\n",
    "### Sub\n\n- a\n",
    "\n",
    "<!-- c -->\n\n",
]
notes = st.builds(
    lambda parts, end, head: (head + "".join(parts)).replace("\n", end),
    st.lists(st.sampled_from([*SECTIONS, "## Long\n\n" + "word word. " * 200 + "\n\n"]), max_size=7),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "---\na: 1\n---\n", "\ufeff", "---\n"]),
)
contents = st.one_of(
    st.sampled_from(
        [
            "new",
            "## Own\n\nnew",
            "# Own",
            "Own\n---\n\nnew",
            "```\nopen",
            "```\nclosed\n```",
            "<!-- open",
            "---\nx: y\n---\nz",
            "===",
            "- a\n",
            "    code",
            "[a]: <b",
            "> q",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip),
)


def outline(note, low, high):
    """Return the headings outside of two positions of a note; those behind are counted from the end."""
    starts = [note.body_at + len("".join(lines(note.body)[: block.start])) for block in note.blocks]
    found = [(at, block) for at, block in zip(starts, note.blocks, strict=True) if block.kind == "heading"]
    return [(at if at < low else at - len(note.text), b.level, b.text) for at, b in found if at < low or at >= high]


@given(notes, st.integers(0, 20), contents)
def test_rewrite_stays_inside_the_section(text, which, content):
    """Rewriting a section keeps the text around it and its meaning, or is refused."""
    note = parse("a.md", text.encode())
    pieces = cut(note)
    piece = pieces[which % len(pieces)]
    try:
        after = parse("a.md", rewrite(note, piece, content).encode())
    except InvalidInput:
        return
    assert after.text.startswith(note.text[: piece.start])
    assert after.text.endswith(note.text[piece.end :])
    behind = len(note.text) - piece.end
    assert outline(after, piece.start, len(after.text) - behind) == outline(note, piece.start, piece.end)
    assert after.meta == note.meta
    assert content.strip("\r\n").replace("\r\n", "\n").replace("\r", "\n") in after.text.replace("\r\n", "\n").replace(
        "\r", "\n"
    )


@given(notes, st.integers(0, 20))
def test_without_cuts_the_section_alone(text, which):
    """Cutting a section keeps the text around it and its meaning, or is refused."""
    note = parse("a.md", text.encode())
    pieces = cut(note)
    piece = pieces[which % len(pieces)]
    try:
        after = parse("a.md", without(note, piece).encode())
    except InvalidInput:
        return
    kept = len(note.text) - (piece.end - piece.start)
    assert after.text.startswith(note.text[: piece.start])
    assert after.text.endswith(note.text[piece.end :])
    assert kept <= len(after.text) <= kept + 4
    behind = len(note.text) - piece.end
    assert outline(after, piece.start, len(after.text) - behind) == outline(note, piece.start, piece.end)


NOTE = "# T\n\nlead\n\n## A\n\nold\nold\n\n\n## B\n\nb\n"


@pytest.mark.parametrize(
    ("before", "suffix", "content", "after"),
    [
        pytest.param(NOTE, "#a", "new", "# T\n\nlead\n\n## A\n\nnew\n\n\n## B\n\nb\n", id="text"),
        pytest.param(NOTE, "#a", "## Z\nnew\n", "# T\n\nlead\n\n## Z\nnew\n\n\n## B\n\nb\n", id="own heading"),
        pytest.param(
            NOTE, "#a", "Z\n---\nnew\n", "# T\n\nlead\n\nZ\n---\nnew\n\n\n## B\n\nb\n", id="own setext heading"
        ),
        pytest.param(
            NOTE, "#a", "### Z\nnew", "# T\n\nlead\n\n## A\n\n### Z\nnew\n\n\n## B\n\nb\n", id="lower heading"
        ),
        pytest.param(NOTE, "#b", "new", "# T\n\nlead\n\n## A\n\nold\nold\n\n\n## B\n\nnew\n", id="last section"),
        pytest.param(NOTE, "#", "new", "# T\n\nnew\n\n## A\n\nold\nold\n\n\n## B\n\nb\n", id="under the title"),
        pytest.param("## A\n## B\n", "#a", "x", "## A\n\nx\n## B\n", id="heading alone"),
        pytest.param("## A", "#a", "x", "## A\n\nx", id="heading alone, no newline"),
        pytest.param("## A\n\nx", "#a", "y\n", "## A\n\ny", id="no newline at the end stays none"),
        pytest.param("## A\r\n\r\nx\r\n\r\n## B\r\n", "#a", "y\nz", "## A\r\n\r\ny\r\nz\r\n\r\n## B\r\n", id="CRLF"),
        pytest.param("Title\n---\n\nx\n", "#title", "y", "Title\n---\n\ny\n", id="under a setext heading"),
        pytest.param("  \n## A\n\nx\n", "#a", "y", "  \n## A\n\ny\n", id="blanks above"),
        pytest.param("## A\n\nx\n  \n", "#a", "\n \ny\n  \n\n", "## A\n\ny\n  \n", id="lines of blanks around both"),
        pytest.param("", "#", "x", "x", id="empty file"),
        pytest.param("\ufeff---\na: 1\n---\n", "#", "x\n", "\ufeff---\na: 1\n---\nx", id="frontmatter alone"),
    ],
)
def test_rewrite(before, suffix, content, after):
    """The file with the rewritten section equals the expected one, byte for byte."""
    note = parse("a.md", before.encode())
    assert rewrite(note, next(piece for piece in cut(note) if piece.suffix == suffix), content) == after


@pytest.mark.parametrize(
    ("before", "which", "content"),
    [
        *((NOTE, 1, content) for content in ("```\nopen", "<!-- open", "~~~", "x\ud800")),
        *(("text\n\n## A\n", 0, content) for content in ("---\nid: x\n---\ny", "---\n---\ny")),
    ],
)
def test_rewrite_refuses_to_swallow(before, which, content):
    """Text that would absorb the next section, or make a first section frontmatter, is refused."""
    note = parse("a.md", before.encode())
    with pytest.raises(InvalidInput, match="nothing was changed"):
        rewrite(note, cut(note)[which], content)


@pytest.mark.parametrize(
    ("before", "suffix", "after"),
    [
        pytest.param(NOTE, "#a", "# T\n\nlead\n\n## B\n\nb\n", id="middle"),
        pytest.param(NOTE, "#b", "# T\n\nlead\n\n## A\n\nold\nold\n\n\n", id="last"),
        pytest.param("x\n## A\n\ny\n\nB\n---\n", "#a", "x\n\nB\n---\n", id="a blank line where one is needed"),
    ],
)
def test_without(before, suffix, after):
    """The file without the section equals the expected one, byte for byte."""
    note = parse("a.md", before.encode())
    assert without(note, next(piece for piece in cut(note) if piece.suffix == suffix)) == after
