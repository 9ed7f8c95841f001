"""Edits: one key or one section changes, and no other byte."""

import contextlib
import datetime as dt
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing.edits import merged, rewrite, with_meta, without
from spellbook.notes.chunks import cut
from spellbook.notes.frontmatter import LABELS, as_label
from spellbook.notes.note import Note, lines, parse
from spellbook.system.errors import Conflict, InvalidInput

ENTRIES = {
    "topic": [
        *("infra", "'one ''quoted'' text'", '"double \\"quoted\\" # no comment"', "plain text  # a comment", "", "~"),
        *("&t infra", "|\n  literal\n  lines", ">-\n  folded\n  text"),
    ],
    "tags": [
        *("[ops, dev]", "[ops, # why\n  dev]", "\n  - ops\n  - dev  # why\n  # between\n  - web", "\n- ops\n- dev"),
        *("ops", "[]", "['#a', \"b\"]"),
    ],
    "keywords": ["Docker, Compose", "[Docker, 'a, b']", "\n    - &k Docker\n    - Compose", "[[nested], {a: b}]"],
    "questions": ["[방법은?]", "\n  - 방법은?  # 묻는 말\n  - 왜?", "What"],
    "entities": ["[{name: Docker, type: a}, Compose]", "\n  - name: Docker\n    type: a\n  - Compose"],
    "importance": ["high", "0.75", "1", "1.10"],
    "created": ["2026-11-21", "2026-11-21T20:15:00+09:00", "'2026-11-21'"],
    "time": ["12:30", "1.10", "yes", "0o17", "1_000", "!!str 5", "2026-02-30"],
    "map": ["{a: 1, b: [x]}", "\n  a: 1\n  # inside\n  b:\n    c: deep", "&m {a: 1}"],
    "별칭": ["[가, 나]", "값"],
    '"quoted: key"': ["1", "'x'"],
    "url": ["https://x.y/#z", "a#b"],
}


Parts = list[tuple[str, str, str]]
BETWEEN = ["", "", "", "# a comment\n", "\n", "  # indented\n", "#\n"]
entries = st.lists(
    st.sampled_from(list(ENTRIES)).flatmap(
        lambda key: st.tuples(st.just(key), st.sampled_from(ENTRIES[key]), st.sampled_from(BETWEEN))
    ),
    unique_by=lambda entry: entry[0],
    max_size=6,
)
bodies = st.sampled_from(["", "\n# T\n\n## A\n\nx\n", "## A\n\n---\n\nb\n", "x", "\r\ny\n", "\n\n"])


def file_of(parts: Parts, body: str, end: str, bom: str) -> str:
    header = "".join(f"{key}: {value}\n{between}" for key, value, between in parts)
    return bom + f"---\n{header}---\n".replace("\n", end) + body


TEXTS = (
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
)
LISTS: tuple[list[str], ...] = (
    ["ops"],
    ["ops", "dev"],
    ["dev"],
    ["ops", "new"],
    ["a, b", "c: d"],
    [],
    ["Docker"],
    ["방법은?", "왜?"],
)
OTHERS = (True, 0, 1, 0.5, dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), {"a": 1}, None)
new_values = st.one_of(
    st.sampled_from([*TEXTS, "\xa0"]),
    st.sampled_from([*LISTS, [{"name": "Docker", "type": "concept"}]]),
    st.sampled_from(OTHERS),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
)


keys = st.sampled_from([*(key.strip('"') for key in ENTRIES), "brand new", "새 열쇠"])


def owner(parts: Parts, end: str) -> Iterator[tuple[str | None, str]]:
    """Return each header line with its key; None for comments and blank lines in between."""
    for key, value, between in parts:
        yield from ((key.strip('"'), line + end) for line in f"{key}: {value}".split("\n"))
        # Below a literal what is indented is its text.
        name = key if value[:1] in {"|", ">"} and between.startswith(" ") else None
        yield from ((name, line + end) for line in between.split("\n")[:-1])


@given(entries, bodies, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["", "\ufeff"]), keys, new_values)
def test_with_meta_changes_one_key(parts: Parts, body: str, end: str, bom: str, key: str, value: object) -> None:
    """
    Setting a key keeps all other values, header lines and the body. Setting every key to its own value leaves the file
    unchanged, spelling included.
    """
    note = parse("a.md", file_of(parts, body, end, bom).encode())
    assert with_meta(note, dict(note.meta)) == note.text
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
def test_with_meta_hardly_ever_refuses(parts: Parts, body: str, end: str, key: str, value: object) -> None:
    """Only values tied together by an anchor, a tag or nesting are refused; ordinary frontmatter can be changed."""
    note = parse("a.md", file_of(parts, body, end, "").encode())
    if not any("&" in each or "!!" in each for _, each, _ in parts):
        after = parse("a.md", with_meta(note, {key: value}).encode())
        assert after.meta.get(key) == (as_label(value) if key in LABELS else value)


def headed(*lines: str, body: str = "") -> str:
    return "---\n" + "".join(f"{line}\n" for line in lines) + f"---\n{body}"


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("text\n", {"a": 1}, headed("a: 1", body="text\n")),
        ("\ufefftext\r\n", {"a": 1, "b": "x"}, "\ufeff---\r\na: 1\r\nb: x\r\n---\r\ntext\r\n"),
        ("", {"a": 1}, headed("a: 1")),
        (headed("a: |", "  x", "b: 1"), {"a": None}, headed("b: 1")),
        (headed("a:", "- |", "  x", "- y"), {"a": ["y"]}, headed("a:", "- y")),
        (headed(), {"a": 1}, headed("a: 1")),
        (headed("a: 1"), {"a": None}, headed()),
        (headed("a: 1"), {"b": None}, headed("a: 1")),
        (headed("a: 1.10", "b: yes"), {"c": 1}, headed("a: 1.10", "b: yes", "c: 1")),
        (headed("a: 'x' # c"), {"a": "y"}, headed("a: 'y' # c")),
        (headed("a:"), {"a": "y"}, headed("a: y")),
        # texts that YAML 1.1 or 1.2 takes for something else
        (
            headed("a: 1"),
            {"a": ["no", "12:30", "0755", "1e3", "1_0"]},
            headed("a: ['no', '12:30', '0755', '1e3', '1_0']"),
        ),
        (headed("a: 1"), {"a": ["0899", "0o7"]}, headed("a: ['0899', '0o7']")),
        (headed("Tags: [a] # c"), {"tags": ["a", "b"]}, headed("Tags: [a, b] # c")),
        (headed("TITLE: a"), {"title": None}, headed()),
        (headed("tags: [1.0]"), {"tags": ["1.0", 2]}, headed("tags: [1.0, '2']")),
        (headed("a: [x, y, z]"), {"a": ["x", "z"]}, headed("a: [x, z]")),
        (headed("a: [x] # c"), {"a": ["x", "y: z"]}, headed("a: [x, 'y: z'] # c")),
        (headed("a:", "  - x # c", "  - y", "b: 1"), {"a": ["x", "z"]}, headed("a:", "  - x # c", "  - z", "b: 1")),
        (headed("a:", "- x", "- y"), {"a": ["y"]}, headed("a:", "- y")),
        (headed("a: [x, x]"), {"a": ["x"]}, headed("a: [x]")),
        (
            headed("a:", "- b: 1 # c", "  d: 2", "- x"),
            {"a": [{"b": 1, "d": 2}, "y"]},
            headed("a:", "- b: 1 # c", "  d: 2", "- y"),
        ),
        # comments survive
        (headed("a:", "  - x", "  # why", "  - y", "b: 1"), {"a": "z"}, headed("a: z", "# why", "b: 1")),
        (headed("a:", "  b:", "    c: 1", "", "# of d", "d: 1"), {"a": "z"}, headed("a: z", "", "# of d", "d: 1")),
        (headed("a: |", "  x", "  y", "", "# c", "b: 1"), {"a": "z"}, headed("a: z", "", "# c", "b: 1")),
        (headed("a: 2026-02-30"), {"a": "x"}, headed("a: x")),
        (headed("{a: 1}"), {"b": 2}, headed("{a: 1, b: 2}")),
        (headed("  a: 1"), {"b": 2}, headed("  a: 1", "  b: 2")),
        (headed("a: x", body="n\0\n"), {"b": 1}, headed("a: x", "b: 1", body="n\0\n")),
        ("---\r\na: x\r\n---\r\n", {"a": "p\nq"}, '---\r\na: "p\\nq"\r\n---\r\n'),
        (headed("a: 1"), {"a": True}, headed("a: true")),
        (headed("yes: 1"), {"yes": 2}, headed("yes: 2")),
        ("---\nunclosed\n", {"a": 1}, headed("a: 1", body="---\nunclosed\n")),
    ],
)
def test_with_meta(before: Any, changes: dict[str, Any], after: Any) -> None:
    """The changed file equals the expected one, byte for byte."""
    assert with_meta(parse("a.md", before.encode()), changes) == after


@pytest.mark.parametrize(
    ("header", "changes", "error", "said"),
    [
        *(
            (header, {"b": 1}, InvalidInput, r"a\.md, line ")
            for header in ("a: b: c", "a: 1\na: 2", "- a", "a: [", "prose")
        ),
        ("a: &x 1\nb: *x", {"a": 2}, Conflict, "nothing was changed"),
        ("a: &x 1\nb: *x", {"a": None}, Conflict, "nothing was changed"),
        ("{a: 1, b: 2}", {"a": None}, Conflict, "nothing was changed"),
        ("? a\n: 1", {"a": None}, Conflict, "nothing was changed"),
        ("a: 1", {"a": "x\0"}, Conflict, "nothing was changed"),
        ("a: 1", {"a": "\ud800"}, Conflict, "nothing was changed"),
    ],
)
def test_what_is_faulty_or_hangs_together_is_refused(
    header: str, changes: dict[str, object], error: type[Exception], said: str
) -> None:
    """
    Faulty frontmatter is never changed; the message names the line. A change that would affect another key, or that
    could not be read back, such as one with endless nesting, is a Conflict.
    """
    value: list[object] = []
    for _ in range(10_000):
        value = [value]
    for each in (changes, {"c": value}):
        with pytest.raises(error, match=said):
            with_meta(parse("a.md", f"---\n{header}\n---\n".encode()), each)


SECTIONS = [
    *("# T\n", "\nlead\n\n", "## A\n\nx\n\n", "## A\ny\n", "text\n---\n\nz\n\n", "## B", "```\n## c\n```\n\n"),
    *("### Sub\n\n- a\n", "\n", "<!-- c -->\n\n"),
]


notes = st.builds(
    lambda parts, end, head: (head + "".join(parts)).replace("\n", end),
    st.lists(st.sampled_from([*SECTIONS, "## Long\n\n" + "word word. " * 200 + "\n\n"]), max_size=7),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "---\na: 1\n---\n", "\ufeff", "---\n"]),
)
CONTENTS = (
    *("new", "## Own\n\nnew", "# Own", "Own\n---\n\nnew", "```\nopen", "```\nclosed\n```", "<!-- open"),
    *("---\nx: y\n---\nz", "===", "- a\n", "    code", "[a]: <b", "> q"),
)
contents = st.one_of(
    st.sampled_from(CONTENTS),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip),
)


def outline(note: Note, low: int, high: int) -> list[tuple[int, int, str]]:
    """Return the headings outside of two positions of a note; those behind are counted from the end."""
    starts = [note.body_at + len("".join(lines(note.body)[: block.start])) for block in note.blocks]
    found = [(at, block) for at, block in zip(starts, note.blocks, strict=True) if block.kind == "heading"]
    return [(at if at < low else at - len(note.text), b.level, b.text) for at, b in found if at < low or at >= high]


@given(notes, st.integers(0, 20), contents)
def test_a_change_stays_inside_the_section(text: str, which: int, content: str) -> None:
    """Rewriting a section, and cutting it, keeps the text around it and its meaning, or is refused."""
    note = parse("a.md", text.encode())
    pieces = cut(note)
    piece = pieces[which % len(pieces)]
    behind = len(note.text) - piece.end
    for change in (partial(rewrite, note, piece, content), partial(without, note, piece)):
        try:
            after = parse("a.md", change().encode())
        except InvalidInput:
            continue
        assert after.text.startswith(note.text[: piece.start])
        assert after.text.endswith(note.text[piece.end :])
        assert outline(after, piece.start, len(after.text) - behind) == outline(note, piece.start, piece.end)
        assert after.meta == note.meta
    with contextlib.suppress(InvalidInput):
        assert one_end(content.strip("\r\n")) in one_end(rewrite(note, piece, content))
        assert 0 <= len(without(note, piece)) - (len(note.text) - (piece.end - piece.start)) <= 4


def one_end(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


NOTE = "# T\n\nlead\n\n## A\n\nold\nold\n\n\n## B\n\nb\n"


@pytest.mark.parametrize(
    ("before", "suffix", "content", "after"),
    [
        (NOTE, "#a", "new", NOTE.replace("old\nold", "new")),
        (NOTE, "#a", "## Z\nnew\n", NOTE.replace("## A\n\nold\nold", "## Z\nnew")),
        (NOTE, "#a", "Z\n---\nnew\n", NOTE.replace("## A\n\nold\nold", "Z\n---\nnew")),
        (NOTE, "#a", "### Z\nnew", NOTE.replace("old\nold", "### Z\nnew")),  # a lower heading
        (NOTE, "#b", "new", NOTE.replace("\nb\n", "\nnew\n")),
        (NOTE, "#", "new", NOTE.replace("lead", "new")),
        ("## A\n## B\n", "#a", "x", "## A\n\nx\n## B\n"),
        ("## A", "#a", "x", "## A\n\nx"),
        ("## A\n\nx", "#a", "y\n", "## A\n\ny"),  # no newline at the end stays none
        ("## A\r\n\r\nx\r\n\r\n## B\r\n", "#a", "y\nz", "## A\r\n\r\ny\r\nz\r\n\r\n## B\r\n"),
        ("Title\n---\n\nx\n", "#title", "y", "Title\n---\n\ny\n"),
        ("  \n## A\n\nx\n", "#a", "y", "  \n## A\n\ny\n"),
        ("## A\n\nx\n  \n", "#a", "\n \ny\n  \n\n", "## A\n\ny\n  \n"),  # blanks around both
        ("", "#", "x", "x"),
        ("\ufeff---\na: 1\n---\n", "#", "x\n", "\ufeff---\na: 1\n---\nx"),
        *((NOTE, "#a", content, None) for content in ("```\nopen", "<!-- open", "~~~", "x\ud800")),
        *(("text\n\n## A\n", "#", content, None) for content in ("---\nid: x\n---\ny", "---\n---\ny")),
        (NOTE, "#a", None, "# T\n\nlead\n\n## B\n\nb\n"),
        (NOTE, "#b", None, "# T\n\nlead\n\n## A\n\nold\nold\n\n\n"),
        ("x\n## A\n\ny\n\nB\n---\n", "#a", None, "x\n\nB\n---\n"),  # a blank line where one is needed
    ],
)
def test_a_section_is_rewritten_or_cut_out(before: str, suffix: str, content: str | None, after: str | None) -> None:
    """
    The file with the section rewritten, or without it (no content), equals the expected one, byte for byte. Text that
    would absorb the next section, or make a first section frontmatter, is refused (nothing is expected).
    """
    note = parse("a.md", before.encode())
    piece = next(piece for piece in cut(note) if piece.suffix == suffix)
    if after is not None:
        assert (without(note, piece) if content is None else rewrite(note, piece, content)) == after
    else:
        with pytest.raises(InvalidInput, match="nothing was changed"):
            rewrite(note, piece, content or "")


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        pytest.param("abxd", "zbcd", "zbxd", id="apart"),
        pytest.param("axcd", "axcd", "axcd", id="the same"),
        pytest.param("axcy", "axcd", "axcy", id="the same, and more"),
        pytest.param("acd", "abcdx", "acdx", id="deleted and added"),
        pytest.param("axcd", "aycd", None, id="one line"),
        pytest.param("axcd", "abyd", None, id="lines that touch"),
        pytest.param("abxcd", "abycd", None, id="inserted at one place"),
        pytest.param("acd", "axcd", None, id="deleted and changed"),
        pytest.param("", "abyd", None, id="all deleted"),
    ],
)
def test_two_changes_of_lines(ours: str, theirs: str, wanted: str | None) -> None:
    """Undo over a later edit keeps both, in either order; where they meet at one place it decides nothing."""
    base, ours, theirs = ("".join(f"{letter}\r\n" for letter in text) for text in ("abcd", ours, theirs))
    both = merged(base, ours, theirs)
    assert both == merged(base, theirs, ours)
    assert (both and both.replace("\r\n", "")) == wanted
