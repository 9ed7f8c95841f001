"""HTML of notes as Markdown: shapes that Evernote and Apple Notes write, broken HTML, and hostile HTML."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.archive.formats.rich_text import AttachedFile, HtmlReferences, convert

TODO = '<ul style="--en-todo:true;"><li style="--en-checked:%s;"><div>%s</div></li>%s</ul>'


def markdown(html: str, title: str = "") -> str:
    return convert(html, HtmlReferences(), title).markdown


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        pytest.param("<div>a</div><div>b</div><div><br/></div><div>c</div>", "a  \nb\n\nc", id="lines and a gap"),
        pytest.param("<div><br/>a</div><table><li>b</table>", "a\n\n- b", id="a break before text, an item in a table"),
        pytest.param("<p>a</p><p>b</p>", "a\n\nb", id="paragraphs"),
        pytest.param("<ul><li><div>a</div></li><ul><li><div>b</div></li></ul><li>c</li></ul>", "- a\n  - b\n- c", id="a list in a list"),
        pytest.param("<ol><li>a<ul><li>b</ul><li>c</ol>", "1. a\n   - b\n2. c", id="items left open"),
        pytest.param("<div><en-todo/>a</div><div><en-todo checked='true'/>b</div>c", "- [ ] a\n- [x] b\n\nc", id="checkboxes in lines"),
        pytest.param("<en-note><en-todo/>a<br/><en-todo/>b<br/>c</en-note>", "- [ ] a\n- [ ] b\n\nc", id="checkboxes between breaks"),
        pytest.param("<ul><li><div><en-todo/>a</div></li></ul>", "- [ ] a", id="a checkbox in an item"),
        pytest.param(TODO % ("false", "a", TODO % ("true", "b", "")), "- [ ] a\n  - [x] b", id="a checklist"),
        pytest.param('<ul class="checklist"><li class="done">a</li><li>b</li></ul>', "- [x] a\n- [ ] b", id="a checklist by class"),
        pytest.param('<li><input type="checkbox" checked> a</li>', "- [x] a", id="an input"),
        pytest.param('<div style="-en-codeblock:true;"><div># a</div><div><br/></div><div>  b</div></div>', "```\n# a\n\n  b\n```", id="a code block of lines"),
        pytest.param('<div style="--en-codeblock:true;--en-codeblockLanguage:python;x: y"><div>if a:</div><div>&nbsp; b</div></div>', "```python\nif a:\n  b\n```", id="a language"),
        pytest.param('<pre><code class="language-python">a\n  *b*</code></pre>', "```python\na\n  *b*\n```", id="pre"),
        pytest.param("a <code>x*y</code> b", "a `x*y` b", id="code in a line"),
        pytest.param("<table><tr><td><div>A</div><div>B</div></td><td>x|y</td></tr><tr><td>1</td></tr></table>z", "| A B | x\\|y |\n| --- | --- |\n| 1 |\n\nz", id="a table"),
        pytest.param("<table><tr><td>a</td><td><table><tr><td>b</td><td>c</td></tr></table>d</td></tr></table>", "| a | b c d |\n| --- | --- |", id="a table in a table"),
        pytest.param("<table>x<tr><td>a<td>b<tr>y</table>", "| x |  |\n| --- | --- |\n| a | b |\n| y |", id="text between cells"),
        pytest.param("<b>a</b> <i>b</i> <s>c</s> <span style='font-weight: bold'>d<span>e</span></span>", "**a** *b* ~~c~~ **de**", id="emphasis"),
        pytest.param("<h2><div>a <b>b</b></div></h2>c", "## a **b**\n\nc", id="a heading"),
        pytest.param("<blockquote>a<p>b</blockquote>", "> a\n>\n> b", id="a quote"),
        pytest.param('<a href="https://x.org/a_b">t</a> <a href="tel:1">u</a>', "[t](https://x.org/a_b) [u](tel:1)", id="links"),
        pytest.param('<a href="javascript:f()">t</a> <a href="file:///etc">u</a>', "t u (file\\:///etc)", id="links that lead nowhere"),
        pytest.param('<a href="https://x.org"><div>t</div></a>', "[https://x.org](https://x.org)\n\nt", id="a link around a block"),
        pytest.param('<img src="https://x.org/a.png" alt="b">', "[image: b](https://x.org/a.png)", id="an image of the web"),
        pytest.param("a<hr>b", "a\n\n***\n\nb", id="a rule"),
        pytest.param("# a\n<div>- b</div><div>[[c]] #d `e`</div>", "\\# a\n\n\\- b  \n\\[\\[c\\]\\] \\#d \\`e\\`", id="text that looks like Markdown"),
        pytest.param("<script>x<b></script><style>y</style>a<!-- z --><![CDATA[<w>]]>", "a\\<w>", id="what is not shown"),
        pytest.param("a &amp; b &lt;c&gt; &nbsp;&#9999999999999; &bogus; < d", "a & b \\<c> \\&\\#9999999999999; \\&bogus; < d", id="entities"),
        pytest.param("<a b<c href='>d", "\\<a b\\<c href='>d", id="tags that break off"),
    ],
)  # fmt: skip
def test_shapes(html: str, expected: str) -> None:
    """Each as its program shows it."""
    assert markdown(html) == expected


def test_the_title_is_not_repeated() -> None:
    """A first line that says the title again is left out."""
    page = "<html><head><title>My Note</title><meta name='Created' content='2020'></head><body><h1>My <b>Note</b></h1>a</body></html>"
    made = convert(page, HtmlReferences())
    assert (made.markdown, made.title, made.meta) == ("a", "My Note", {"created": "2020"})
    assert markdown("<div>Plan!</div><div>a</div>", "Plan") == "Plan\\!  \na"


def test_files_and_links_of_the_note() -> None:
    """They lead to where their note finds them."""
    around = HtmlReferences(
        lambda address, text: "Other.md" if address == "note:1" else "",
        lambda given: (
            AttachedFile("a b.png", "x/a%20b.png", "png" in given.get("type", "")) if "hash" in given else None
        ),
    )
    html = "<en-media hash='1' type='image/png'/><en-media hash='1' type='audio/x'/><en-media type='text/x'/> <a href='note:1'>t</a>"
    assert (
        convert(html, around).markdown
        == "![a b.png](x/a%20b.png)[a b.png](x/a%20b.png)(attached: text/x) [t](Other.md)"
    )


HOSTILE = (
    "<div>", "<b>", "<ul><li>", "<table><tr><td>", "<a ", "<!--", "<![CDATA[", "&#", "<a href='", '<a "<a', "</div>", "<p>", "<font size=%d>", "<en-todo/>",
    "<", "<!", "</", "<pre>", "<div>x</div>", "<span style='font-weight:bold'>", "<script>", "<li>", "<td>", "<h1>", "<a href=x>", "<en-crypt>", "<tr><td><table>",
)  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_html(part: str) -> None:
    """Neither depth nor what is left open costs more than the length of the text."""
    page = "".join(part % number if "%" in part else part for number in range(6_000)) + "end"
    start = time.process_time()
    assert "end" in markdown(page) or part == "<script>"
    assert time.process_time() - start < 5


WHOLE = [each for each in HOSTILE if each.endswith(">") and "%" not in each and each != "<script>"]
CLOSED = [
    "</ul>",
    "</li>",
    "</table>",
    "</td>",
    "</tr>",
    "</a>",
    "</b>",
    "</pre>",
    "</span>",
    "</p>",
    "</h1>",
    "<br>",
    "<en-note>",
]


@settings(max_examples=500)
@given(st.lists(st.sampled_from([*WHOLE, *CLOSED, "one ", " two "]), max_size=30))
def test_no_word_is_lost(parts: list[str]) -> None:
    """Whatever the tags, the words stay, in their order."""
    shown = re.findall("one|two", markdown("".join(parts)))
    assert shown == re.findall("one|two", "".join(parts))
