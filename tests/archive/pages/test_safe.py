"""Safe Markdown: what a stranger wrote acts nowhere, and a reader still sees it. tests/transcripts/hostile.tesh has a page."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterator, Sequence

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from spellbook.archive.pages.safe import line, safe
from spellbook.notes import links
from spellbook.notes.note import parse

BROWSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
"""Reads Markdown as a viewer does that lets raw HTML through."""


def tokens(found: Sequence[Token]) -> Iterator[Token]:
    for token in found:
        yield token
        yield from tokens(token.children or ())


def active(text: str) -> list[str]:
    """Everything in a safe text that a viewer with raw HTML, Obsidian or a plugin would act on."""
    acts = []
    for token in tokens(BROWSER.parse(text)):
        address = str(token.attrGet("href") or "https:")
        is_bad = token.type in {"html_block", "html_inline", "image"} or not re.match("https?:|mailto:", address)
        if token.type == "fence" and token.info not in {"", "python", "js"}:
            is_bad = True
        if token.type == "code_inline" and re.match(r"\s*\$?=", token.content):
            is_bad = True
        acts += [f"{token.type} {token.content}"] if is_bad else []
    note = parse("x.md", f"---\ntitle: x\n---\n\n{text}".encode())
    prose = re.sub(r"(?ms)^[> ]*(`{3,}).*?^[> ]*\1$|(`+)(?!`).*?(?<!`)\2(?!`)", "", text.replace("\\`", "x"))
    acts += [f"link {each.target}" for each in links.find(note)]
    acts += [f"tag {tag}" for tag in note.tags]
    acts += ["template"] * ("<%" in text)
    acts += re.findall(r"(?m)%%|!\[\[|(?<!\\)\$|(?:^|\s)\^[\w-]+$|(?<![\\\w])#\w+|^\s*[-*+] \[.\]|^> \[!", prose)
    return acts


FRAGMENTS = [
    *("[[", "]]", "![[", "[", "]", "(", ")", "](", "#tag", "#", "%%", "`", "``", "```", "~~~", "\n", "\n\n", "\n> "),
    *("- ", "1. ", "2) ", "    ", "  \n", "\t", "<%", "%>", "<b>", "</b>", "<script>", "<!--", "-->", "a", "한글", " "),
    *("|", "|---|---|\n", "| a | b |\n", "$=", "=", "= x", "^block", "::", "\\", "\\\n", "&lt;", "&#35;", "&amp;lt;"),
    *("https://x.example/", "javascript:", "data:", "*", "**", "_", "~~", "---\n", "===\n", "Note.md", "[x]: N.md\n"),
    *("<https://a.example>", "obsidian://x", "```dataviewjs\n", "\r", "\u200b", '"', "{", "!", "<a href='x'>", "[^1]"),
    *("- [ ] ", "$", "> [!x] ", "\U000e0041", "\0", "\u2028", "#️⃣", "＃tag"),
]


@pytest.mark.parametrize("seed", range(4))
def test_no_mixture_acts(seed: int) -> None:
    """Whatever marks stand beside each other, and after a second pass too."""
    chosen, acting = random.Random(seed), 0
    for _ in range(400):
        text = "".join(chosen.choice(FRAGMENTS) for _ in range(chosen.randint(1, 25)))
        once = safe(text)
        assert (active(once), text) == ([], text)
        assert (active(safe(once)), text) == ([], text)
        acting += bool(active(text))
    assert acting > 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 * 3, snake_case, C#, a#b, f(x)[0], 1 < 2, AT&T", "2 \\* 3, snake_case, C#, a#b, f(x)\\[0\\], 1 < 2, AT&T"),
        ("std::vector a:: b", "std::vector a:\\: b"),
        ("* a\n* b\n\n  c\n\n1. x\n1) y", "* a\n\n* b\n\n  c\n\n1. x\n\n1) y"),
        ("- a\n  - b\n    1. c\n- d", "- a\n  - b\n    1. c\n- d"),
        ("> q\n> - x\n>\n> y", "> q\n>\n> - x\n>\n> y"),
        ("a  \nb\\\nc\nd", "a  \nb  \nc\nd"),
        ("Head\n===\n\nHead 2\n---\n***", "# Head\n\n## Head 2\n\n***"),
        ("## 1. Head ##\n\\# no head", "## 1. Head\n\n\\# no head"),
        ("**굵게** *em* ~~x~~ `co``de`", "**굵게** *em* ~~x~~ `co``de`"),
        ("    indented\n", "```\nindented\n```"),
        ("````C++ {.x}\n```\n````", "````c++\n```\n````"),
        ("[a b](<https://x.example/(a) b?q=%20#p> 't')", "[a b](https://x.example/%28a%29%20b?q=%20#p)"),
        ("[![a](https://x.example/i)](https://y.example)", "[image: a](https://y.example)"),
        ("---\na: 1\n---\nrest", "rest"),
        ("---\n\nrest\n\n---\n\nmore", "***\n\nrest\n\n***\n\nmore"),
        ("", ""),
        (" \n\u200b\n", ""),
    ],
)
def test_what_is_harmless_reads_as_before(text: str, expected: str) -> None:
    """Each form has one spelling, and only what could act is escaped."""
    assert safe(text) == (f"{expected}\n" if expected else "")
    assert safe(safe(text)) == safe(text)


def test_letters_that_nobody_sees_are_left_out() -> None:
    """
    Tags of Unicode can spell a whole order to a model; joiners of scripts and emoji stay. A title is one line that
    links nowhere: it stands in frontmatter, where Obsidian and Spellbook read wikilinks. Nesting and repetition
    neither overflow nor hang.
    """
    order = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all")
    assert safe(f"a\u200b{order}\u202eb\0c\x1b[1m") == "abc\\[1m\n"
    assert safe("می\u200cخواهم 👨\u200d👩") == "می\u200cخواهم 👨\u200d👩\n"
    assert safe(unicodedata.normalize("NFD", "한글")) == "한글\n"
    assert line("a\n [[Note]]\u202e <% x %>", 80) == "a [Note] < % x %>"
    assert line("가" * 90, 80) == "가" * 79 + "…"
    table = "|" * 2_000 + "\n" + "|-" * 2_000
    for text in ("[" * 3_000, "> " * 500 + "x", "- " * 300 + "x", "*a **b " * 2_000, "`" * 5_000, table, "<" * 9_999):
        assert active(safe(text)) == []
