"""Random texts and names, as people, programs and attackers write them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

PATHS = ("a.md", "b.md", "B note.md", "x/a.md", "x/y/c.md", "한글/메모.md", "x/v1.2.md", "z (1)/d#e.md", "z/index.md")
"""Paths of notes: two of one name, blanks, dots, brackets, a fragment's mark, Korean."""

TARGETS = (
    "a", "b", "c", "x/a", "../a", "메모", "한글/메모", "B note", "nowhere", "x/y/c", "v1.2", "alias", "d#e", "index", "new",
    "a.md",
)  # fmt: skip

WORDS = (
    "anchor", "lantern", "granite", "배포", "금요일", "3 ms", "never", "e\u0301", "é", "Ünï", "`code`", "**bold**",
    "a_b_c", "#tag", "#태그/하위",
)  # fmt: skip
"""What sentences are made of."""

_ODD = (
    "\u2028", "\x0c", "\x85", "\t", "\u200b", "\ufeff", "\\", "%%", "<!--", "-->", "~~~", "```", "$$", "[[", "]]",
    "![](", "---", "===", "|", ">",
)  # fmt: skip


def sentence() -> st.SearchStrategy[str]:
    """A sentence of one line."""
    return st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")


def link(targets: Sequence[str] = TARGETS) -> st.SearchStrategy[str]:
    """A link in any form that people write."""
    forms = (
        "[[{}]]", "[[{}|shown]]", "![[{}]]", "[[{}#One]]", "[shown]({}.md)", "[shown](<{}.md>)", "`[[{}]]`",
        "[[{}^x]]", "[ref]: {}.md",
    )  # fmt: skip
    return st.builds(lambda form, target: form.format(target), st.sampled_from(forms), st.sampled_from(targets))


def block() -> st.SearchStrategy[str]:
    """A piece of Markdown of one or a few lines."""
    heading = st.builds(
        lambda depth, text: f"{'#' * depth} {text}",
        st.integers(1, 4),
        st.sampled_from(["One", "Two", "One", "셋", "a b", ""]),
    )
    table = st.just("| a | b |\n| - | - |\n| 1 | 2 |\n| 3 | 4 |")
    fence = st.builds(
        lambda mark, text: f"{mark}\n{text}\n{mark}", st.sampled_from(["```", "~~~~", "````"]), sentence()
    )
    listed = st.lists(sentence(), min_size=1, max_size=3).map(lambda items: "\n".join(f"- {item}" for item in items))
    quote = sentence().map(lambda text: f"> [!note] {text}\n> more")
    odd = st.lists(st.sampled_from([*_ODD, "x", " "]), min_size=1, max_size=5).map("".join)
    return st.one_of(heading, sentence(), link(), table, fence, listed, quote, odd)


def value() -> st.SearchStrategy[str]:
    """A frontmatter value in YAML, valid or not."""
    plain = st.sampled_from(
        [
            *(
                "yes",
                "1.10",
                "12:30",
                "2300-01-01",
                "0001-01-01",
                "-.inf",
                "1e999",
                "9" * 400,
                "null",
                "~",
                "'it''s'",
                '"a\\u0000b"',
            ),
            *(
                "[a, b]",
                "{a: b}",
                "[[a]]",
                '"[[a]]"',
                "- a\n- b",
                "|\n  text\n  more",
                "&x y",
                "*x",
                "!!python/object:os.system x",
            ),
            *("# comment", "%", "@", "a: b", "\t"),
        ]
    )
    return st.one_of(plain, sentence().map(json.dumps), st.text(max_size=8))


def frontmatter() -> st.SearchStrategy[str]:
    """A header, "" for none."""
    keys = (
        "topic", "category", "title", "tags", "keywords", "questions", "aliases", "id", "created", "updated",
        "importance", "own key", "scope", "entities",
    )  # fmt: skip
    lines = st.lists(st.tuples(st.sampled_from(keys), value()), max_size=5)
    header = lines.map(lambda pairs: "---\n" + "".join(f"{key}: {each}\n" for key, each in pairs) + "---\n")
    return st.one_of(st.just(""), st.just("---\ntopic: infra\naliases: [alias]\n---\n"), header)


@st.composite
def note(draw: st.DrawFn) -> str:
    """The text of a note: any header, blocks, and line ends of one kind."""
    blocks = draw(st.lists(block(), max_size=6))
    text = (
        draw(frontmatter())
        + draw(st.sampled_from(["\n\n", "\n"])).join(blocks)
        + draw(st.sampled_from(["\n", "", "\n\n\n"]))
    )
    return draw(st.sampled_from(["", "", "", "\ufeff"])) + text.replace(
        "\n", draw(st.sampled_from(["\n", "\n", "\r\n"]))
    )
