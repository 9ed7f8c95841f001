"""Plain blocks are parsed as one token, and as the Markdown parser's own rules parse them."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spellbook.notes import markdown
from spellbook.notes.note import Block, blocks

TAKEN = {"table", "paragraph", "heading", "bullet_list", "blockquote"}
STARTS = st.sampled_from(
    ["", "", "", " ", "  ", "   ", "    ", "\t", "\xa0", "- ", "* ", "+ ", "-", "1. ", "7) ", "12. ", "> ", ">", "- - ", "  - ", "    - ", "> - "]
)  # fmt: skip
TEXTS = st.sampled_from(
    ["word", "word more", "낱말 둘", "é", "", "", "#", "# head", "## head ##", "####### no", "#tag", "---", "===", "- - -", "***", "|a|b|", "|--|--|", ":-:|", "a | b",
     "--|--", "| a | b |", "|---|:-:|", "|-|", "|c|", "```", "```a`b", "`c` d", "`` ```", "**b** c", "**", "__u__", "[ ] task", "[x]", "[[wiki]] x", "[a](b) c", "[a", "[^1]: x", "2024 x", "1.5", "3) y", "123456789. x", "1234567890. x", "~~~ x", "<div>", "</div>", "<!-- c", "-->", "[a]: /b", "[a]:", "'title'", "-", "-\t", "1.", "\\# x", "_x_", "word  ", "\x0cword", "ª", "٣. x",
     "![[p]]", "{{q}}", "((r))", "==m==", "==", "= =", "~~s~~", "~~", "$5", "$$", "***b*** c", "_ _ _", "__", "# a | b", "#1", "😀 x", "“q”", ":x", "\u3000x"]
)  # fmt: skip
LINES = st.builds(lambda starts, text: "".join(starts) + text, st.lists(STARTS, max_size=3), TEXTS)
MARKERS = st.sampled_from(
    ["- ", "- ", "- ", "* ", "+ ", "1. ", "2. ", "1) ", "10. ", "-    ", "-     ", "-\t", "- - ", "> ", "", "", "\t"]
)
ITEMS = st.builds(
    lambda indent, marker, text: indent + marker + text,
    st.one_of(st.integers(0, 10).map(" ".__mul__), st.integers(0, 4).map("\t".__mul__), st.just("\t  ")),
    MARKERS,
    st.sampled_from(
        ["a", "b c", "[ ] d", "**e**", "", "---", "# f", "## j", "```", "|g|", "[h]: i", "k:: l", "![[m]]", "=="]
    ),
)


def plainly(text: str) -> list[Block]:
    """The blocks of a text by the parser's own rules alone."""
    parser = markdown.block_parser.__wrapped__()
    parser.disable(["plain"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(markdown, "block_parser", lambda: parser)
        return [*blocks(text)]


@settings(max_examples=500)
@given(st.lists(LINES, max_size=12).map("\n".join))
@example("a\n===")
@example("a | b\n--|--\n1 | 2")
@example("# a | b\n--|--")
@example("- a\n- b\n\n  c\n-\n- d")
@example("- a\n - b\n  - c\n   - d\n    - e")
@example("> a\nlazy\n- b")
@example("1. a\n   b\n2. c")
def test_blocks_are_the_parsers_own(text: str) -> None:
    """Every field of every block is equal, in any mixture."""
    assert [*blocks(text)] == plainly(text)


@settings(max_examples=1000)
@given(
    st.lists(ITEMS, min_size=2, max_size=10),
    st.sampled_from(["\n", "\n", "\r\n"]),
    st.sampled_from(["", "\n", "\n\n \n"]),
)
def test_so_are_lists(items: list[str], newline: str, end: str) -> None:
    """The same holds for nested lists of any depth, with or without blank lines."""
    text = newline.join(items) + end
    assert [*blocks(text)] == plainly(text)


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        pytest.param("- a\n- b\n  - c\n  - d\n- e", True, id="nested"),
        pytest.param("- [ ] a\n- [x] b", True, id="tasks"),
        pytest.param("7. a\n8. b\n", False, id="numbered from seven"),
        pytest.param("- a\n\n- b\n\nc", True, id="loose, then a paragraph"),
        pytest.param("- # a\n\t- [[b]]\n\t  c:: d\n\t\t- e\n- f", True, id="a page of Logseq"),
        pytest.param("- a\n  - b\n\t- c", False, id="tabs and blanks"),
        pytest.param("- # a\n  b", False, id="text under a heading in an item"),
        pytest.param("# a\n- b", True, id="a heading, then a list"),
        pytest.param("# a | b\n--|--", False, id="a heading that is the head of a table"),
        pytest.param("- a\nlazy\n# h", False, id="a lazy line, then a heading"),
        pytest.param("- a\n* b", False, id="another marker"),
        pytest.param("- a\n      - b", False, id="a marker too deep to be one"),
        pytest.param("- a\n-     b", False, id="code after the marker"),
        pytest.param("- a\n  ===", False, id="an underline"),
        pytest.param("- a\n---", False, id="a rule"),
        pytest.param("- a\n-", False, id="an empty item"),
        pytest.param("- a\n- <div>", False, id="HTML"),
        pytest.param("- a | b\n  --|--", False, id="a table in an item"),
        pytest.param("\n".join(f"{'  ' * depth}- a" for depth in range(8)), True, id="eight deep"),
        pytest.param("\n".join(f"{'  ' * depth}- a" for depth in range(12)), False, id="deeper than the parser goes"),
        pytest.param("| a | b |\n|---|:-:|\n| 1 |\n\nc", True, id="a table"),
        pytest.param("| a |\n|---|---|\n", False, id="a bar too much under its head"),
        pytest.param("| a \\| b |\n|---|---|\n", False, id="an escaped bar in its head"),
        pytest.param("| a |\n|---|\n| 1 |\nb", False, id="a row without bars"),
        pytest.param("a\n*b* c\n#tag [d](e)\n2024\n\n", True, id="a paragraph"),
        pytest.param("a\n===", False, id="text above an underline"),
        pytest.param("# a  \n\nb", True, id="a heading"),
        pytest.param("# a #\n", False, id="a heading with closing marks"),
        pytest.param("> a\n> [!c] d\n\ne", True, id="a plain quote"),
        pytest.param("```py\n# a\n~~~\n  ```` \nb", True, id="fence"),
        pytest.param("````\n```\n    ````\n```` x\n````", True, id="a fence with what does not close it"),
        pytest.param("```\na\n\n", False, id="a fence of backticks that nobody closes"),
        pytest.param("> a\nb", False, id="a quote that goes on lazily"),
        pytest.param("> - a", False, id="a list in a quote"),
        pytest.param("- > a\n- b", True, id="a quote in an item"),
        pytest.param("- > a\n  > b", False, id="a quote of two lines in an item"),
        pytest.param("- ## #tag\n- b", True, id="a tag in the heading of an item"),
        pytest.param("- ## ##\n- b", False, id="an empty heading with closing marks"),
    ],
)
def test_what_is_taken_at_once(text: str, is_taken: bool) -> None:
    """A plain block is one token; anything else, and what only resembles one, is left to the parser's own rules."""
    first = markdown.block_parser().parse(f"{text}\n")[0]
    is_fence = first.type == "fence" and not first.markup
    assert (is_fence or (first.nesting == 0 and first.type in TAKEN)) is is_taken
    assert [*blocks(text)] == plainly(text)


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "vault").rglob("*.md")), ids=lambda path: path.stem
)
def test_real_notes_too(path: Path) -> None:
    """The same holds for real notes."""
    text = path.read_text("utf-8")
    assert [*blocks(text)] == plainly(text)
