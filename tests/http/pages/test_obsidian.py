"""The text of a note is shown as Obsidian shows it, within its reader's rights, and bounded."""

import html.parser
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.http.pages import note_html
from spellbook.http.served import Served
from spellbook.http.tokens import SCOPES
from spellbook.library.book import Spellbook
from tests.helpers import Write, note_writer
from tests.http.pages.conftest import Browser

from ..running import lacks, shows


def drawn(text: str, embed: note_html.Embed = lambda _: None) -> str:
    """Return a text as a page has it."""
    page = note_html.Page({"known": "/note/known"}, {}, embed, lambda english, *values: english.format(*values))
    return page.rendered([(text, "")], "")[0]


SHOWN = {
    "a ==mark **b**== c": "a <mark>mark <strong>b</strong></mark> c",
    "==하이라이트==를": "<mark>하이라이트</mark>를",
    "a == b": "a == b",
    "====": "====",
    "`==code==`": "<code>==code==</code>",
    "a %%hidden%% b": "<p>a  b</p>",
    "%%\nhidden\n\nmore\n%%\n\nseen": "<p>seen</p>",
    "%% hidden %%": "",
    "%%open": "<p>%%open</p>",
    "100%% sure": "<p>100%% sure</p>",
    "$a^2$": "<msup><mi>a</mi><mn>2</mn></msup>",
    "$5 and $6": "<p>$5 and $6</p>",
    "$5/$6": "<p>$5/$6</p>",
    "$x$ is 5": "<p><math display=",
    "`$a$`": "<code>$a$</code>",
    "$$\n\\frac{1}{2}\n$$": '<div class="wide" role="region" tabindex="0" aria-label="Formula 1"><math display="block">',
    r"$\frac$": r"<code>\frac</code>",
    "see https://example.com/a_b_c.": '<a href="https://example.com/a_b_c" class="away" rel="noopener',
    "example.com": "<p>example.com</p>",
    "a #tag/한글 b": '<a class="hashtag" href="/contents?tag=tag%2F%ED%95%9C%EA%B8%80"',
    "#일정.": ">#일정</a>.",
    "#123 a#b `#c`": "<p>#123 a#b <code>#c</code></p>",
    "text ^block-1": "<p>text </p>",
    "**#bold** (#no) #a.": '<strong><a class="hashtag"',
    "a == b and c == d": "<p>a == b and c == d</p>",
    f"${'x+' * 9}x$": '<span class="wide" role="region" tabindex="0" aria-label="Formula 1"><math',
    "```\n[^1]: no\n```\n\na[^1]\n\n[^1]: yes": '<li id="fn1"><p>yes',
    "before\n\n%%\n# Hidden\n\n- a\n%%\n\nafter": "<p>before</p>\n<p>after</p>",
    "x ^2 y": "<p>x ^2 y</p>",
    "a[^1]\n\n[^1]: The *note*.": '<li id="fn1"><p>The <em>note</em>.',
    "a^[at once]": "<p>at once ",
    "```mermaid\na-->b\n```": '<p class="small">Diagram (Mermaid), as text</p><pre role="region" tabindex="0"',
    "- [x] ==m== #t": '<span class="box done">☑</span> <mark>m</mark> <a class="hashtag"',
    "| a |\n|---|\n| ==1,200== |": '<div class="wide" role="region" tabindex="0" aria-label="Table 1"><table>',
    "![[known]]": '<a class="wiki" href="/note/known"',
}


@pytest.mark.parametrize("text", SHOWN)
def test_obsidians_marks_are_shown_as_obsidian_shows_them(text: str) -> None:
    """Each mark of Obsidian is drawn or hidden; a text that only looks like one stays as it is."""
    page = drawn(text)
    assert SHOWN[text] in page if SHOWN[text] else not page.strip()


HOSTILE = {
    r"$\href{javascript:alert(1)}{x}$": "href",
    r"$\style{position:fixed}{x}$": "style",
    r"$\class{hostile}{x}$": "hostile",
    r"$\text{<script>alert(1)</script>}$": "<script",
    r"$\text{</mtext></math><img src=x onerror=alert(1)>}$": "<img",
    "$<annotation-xml>$": "<annotation",
    "a[^<b>]\n\n[^<b>]: <script>x</script>": "<script",
    'a[^"onload]\n\n[^"onload]: x': 'fn"onload',
    "^[<img src=x onerror=alert(1)>]": "<img",
    '#"><script>': "<script",
    "==<script>==": "<script",
    "https://evil.test/<script>": "<script",
    "![[known#<script>]]": "<script",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_no_mark_brings_markup_of_its_own(text: str) -> None:
    """Formulas, footnotes, tags and embeds bring no tag, address, class or style that a note chose."""
    lacks(drawn(text, lambda target: (target, target)), HOSTILE[text])


PIECES = (
    *("$", "$$\n", "==", "%%", "[^a]", "[^a]: ", "^[", "#", "^id", "[[", "]]", "![[known", "> [!x] ", "- [ ] "),
    *("| a |\n|---|\n", "```mermaid\n", "<script>", "</math>", "<img src=x onerror=y>", "\\href{javascript:x}"),
    *("\\text{", "{", "}", "\\frac", "\\left(", "\\begin{matrix}", "&", "\\\\", "https://x.test/", "](javascript:x)"),
    *("[", "](", '"', "'", "**", "~~", "`", "\n\n", "한", "a b", "\x00", "\u202e", "style=x", "&lt;script&gt;"),
    *("\\color{red}", "\\class{x}", "\\overset{a}{b}"),
)  # fmt: skip


class _Tags(html.parser.HTMLParser):
    """Collects the tags of a page, each with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


NOTED = {
    "a", "b", "blockquote", "br", "button", "code", "dd", "del", "div", "dl", "dt", "em", "h2", "h3", "h4", "h5", "h6",
    "hr", "img", "li", "mark", "ol", "p", "pre", "s", "span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr",
    "ul",
}  # fmt: skip
MATH = {
    "math", "menclose", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom", "mprescripts", "mroot",
    "mrow", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover",
}  # fmt: skip
PLAIN = {
    "class", "title", "start", "align", "alt", "width", "loading", "tabindex", "role", "aria-label", "rel", "display",
    "notation", "linethickness", "mathvariant", "stretchy", "fence", "largeop", "movablelimits", "minsize", "maxsize",
    "separator", "form", "columnalign", "rowspacing", "columnspacing",
}  # fmt: skip
"""Attributes that neither run nor load anything, and name no part of the page."""


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=80))
def test_any_text_has_tags_and_attributes_of_the_list_only(text: str) -> None:
    """Whatever a note says, its page has no other tag or attribute, and each address and id is of a kind that is known."""
    for tag, attributes in _Tags(drawn(text, lambda target: (target, f"{target} $x$ ![[known]]"))).found:
        assert tag in {*NOTED, *MATH}
        assert re.match("(https?://|mailto:|/note/|/contents|#fn)", attributes.pop("href", None) or "/note/")
        assert re.fullmatch(r"fn(ref)?(-e\d+-)?\d+(:\d+)?", attributes.pop("id", None) or "fn1")
        assert attributes.keys() <= PLAIN


LARGE = {
    "formula": f"${'x+' * 25_000}$",
    "formulas": "$x$ " * 12_500,
    "deep": f"${'{' * 1900}$\n\n" * 25,
    "dollars": "$" * 50_000,
    "footnotes": "\n".join(f"[^{n}]: x\n\na[^{n}]" for n in range(5_000)),
    "brackets": "[^" * 25_000,
    "highlights": "==a " * 12_500,
    "highlights that end": "==a==b" * 8_000,
    "comments": "%%a\n\n" * 10_000,
    "tags": "#a " * 16_500,
    "addresses": "https://" * 6_250,
    "embeds": "![[known]]\n\n" * 1000,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_hostile_section_is_bounded(name: str) -> None:
    """A section of 50,000 letters that is all formulas, footnotes or embeds takes seconds, and has at most 20 embeds."""
    begun = time.process_time()
    page = drawn(LARGE[name], lambda target: (target, "![[known]] " * 2000))
    assert time.process_time() - begun < 10
    assert page.count("<blockquote") <= 20
    assert page.count("<math") <= 20_000


def test_an_embed_shows_what_its_reader_may_see(
    browser: Browser, served: Served, guarded: Browser, vault: Path, book: Spellbook
) -> None:
    """
    An embedded note, section or block is shown one level deep; footnotes are numbered through all sections.

    A reader who may not see a note sees nothing of it where another note embeds it. A note that embeds itself ends.
    """
    write = note_writer(vault)
    (vault / ".spellbookignore").write_text("drafts/\n", "utf-8")
    embeds = "\n\n".join(f"![[{name}]]" for name in ("b", "b#Two", "b#^id", "secret", "drafts/d", "../outside", "a"))
    end = "x[^n]\n\n## End\n\ny[^m]\n\n[^n]: Nn.\n[^m]: Mm.\n"
    write("a.md", f"# A\n\n{embeds}\n\n{end}", privacy_scope="team")
    write("b.md", "# B\n\nFirst.\n\n![[c]]\n\n## Two\n\nSecond.\n\nThird. ^id\n", privacy_scope="team")
    write("c.md", "# C\n\nDeep text.\n")
    write("secret.md", "# Secret\n\nHidden treasure.\n", privacy_scope="private")
    write("drafts/d.md", "# Draft\n\nUnfinished thing.\n", privacy_scope="team")
    (vault.parent / "outside.md").write_text("Foreign text.\n", "utf-8")
    book.reindex()
    page = browser.open("/note/a")
    assert [page.count(each) for each in ("First.", "Second.", "Third.")] == [1, 2, 3]
    shows(page, "Hidden treasure.", '<li id="fn1"><p>Nn.', '<li id="fn2"><p>Mm.')
    lacks(page, "Deep text.", "Third. ^id", "Unfinished thing.", "Foreign text.")
    assert len(re.findall(' id="([^"]*)"', page)) == len({*re.findall(' id="([^"]*)"', page)})
    for privacy, seen in zip(SCOPES[1:], (3, 0), strict=True):
        guarded.send("/login", token=served.tokens.add(privacy, "read", privacy))
        page = guarded.client.get("/note/a").text
        assert page.count("Third.") == seen
        lacks(page, "Hidden treasure.", "Secret", "Unfinished thing.", "Foreign text.")


PREVIEWED = (
    "A ==marked word==, ~~gone~~ and **bold** cost $a^2$ %%hidden%% here[^1] for $5 and $6. ^block\n\n[^1]: Why.\n"
)


def test_lists_show_no_signs_of_a_note(browser: Browser, book: Spellbook, write_note: Write) -> None:
    """Titles of memories, and first words in lists and among hits, have no signs of emphasis, formulas and footnotes."""
    write_note("a.md", f"# Alpha\n\n{PREVIEWED}")
    write_note("b.md", f"# Beta\n\n$$\nx^2\n$$\n\n%%\nhidden\n%%\n\n{PREVIEWED}")
    book.memories.remember(f"Remember: {PREVIEWED}")
    book.memories.decisions.save("database", "Use ==SQLite== for **now** %%hidden%%.", "It is ==small== and $x$.")
    book.reindex()
    for address in ("/", "/contents", "/contents?folder=memory", "/search?q=marked+word", "/decisions"):
        page = re.sub("<textarea.*?</textarea>|<input[^>]*>", "", browser.open(address), flags=re.S)
        found = re.findall(r".{20}(?:~~|==|\*\*|%%|hidden<|\$[ax]|\$\$|\^block|\[\^).{20}", page)
        assert found == [], address
    shows(browser.open("/search?q=marked+word"), "$5 and $6")
