"""prose: what it parses at once is parsed as the parser's own rules do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spellbook import notes
from spellbook.notes import Block, blocks

STARTS = st.sampled_from(
    [
        "",
        "",
        "",
        " ",
        "  ",
        "   ",
        "    ",
        "\t",
        "\xa0",
        "- ",
        "* ",
        "+ ",
        "-",
        "1. ",
        "7) ",
        "12. ",
        "> ",
        ">",
        "- - ",
        "  - ",
        "    - ",
        "> - ",
    ]
)
TEXTS = st.sampled_from(
    ["word", "word more", "낱말 둘", "é", "", "", "#", "# head", "## head ##", "####### no", "#tag", "---", "===", "- - -", "***", "|a|b|", "|--|--|", ":-:|", "a | b",
     "--|--", "```", "~~~ x", "<div>", "</div>", "<!-- c", "-->", "[a]: /b", "[a]:", "'title'", "-", "-\t", "1.", "\\# x", "_x_", "word  ", "\x0cword", "ª", "٣. x"]
)  # fmt: skip
LINES = st.builds(lambda starts, text: "".join(starts) + text, st.lists(STARTS, max_size=3), TEXTS)


def plainly(text: str) -> list[Block]:
    """The blocks of a text by the parser's own rules alone."""
    parser = notes._markdown.__wrapped__()
    parser.disable("prose")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(notes, "_markdown", lambda: parser)
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
    """Every field of every block is the same, whatever is mixed."""
    assert [*blocks(text)] == plainly(text)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "vault").rglob("*.md")), ids=lambda path: path.stem)
def test_real_notes_too(path: Path) -> None:
    """So it is with notes as people write them."""
    text = path.read_text("utf-8")
    assert [*blocks(text)] == plainly(text)
