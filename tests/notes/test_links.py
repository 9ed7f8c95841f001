"""Links: where they are in a note, where they lead, and how they are rewritten."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from spellbook.notes.links import Link, find, pictures, replaced, spelled, without_folders
from spellbook.notes.note import parse
from spellbook.notes.where_links_lead import By, Files, Reached, key
from spellbook.vault.pictures import media_type


def found(text: str) -> list[tuple[str, str]]:
    """The links of a text: their targets as written, and what follows the target."""
    note = parse("folder/a.md", text.encode())
    return [(note.text[link.start : link.end], link.fragment) for link in find(note)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[[a]] and ![[b.png|100]]", ["a", "b.png"], id="wikilinks and embeds"),
        ("[t](a.md) ![i](b/c.png) [u](<d e.md>)", ["a.md", "b/c.png", "d e.md"]),
        ('[t](a%20b.md "title") [u](c(d)e.md)', ["a%20b.md", "c(d)e.md"]),
        ("[a [b] c](d.md) [![x](y.png)](z.md)", ["d.md", "y.png", "z.md"]),
        pytest.param("[t]: a.md\n[u]: <b c.md> 'title'\n", ["a.md", "b c.md"], id="reference definitions"),
        pytest.param("x[^1]\n\n[^1]: [[a]]\n[^2]: see [[b]]\n", ["a", "b"], id="footnotes"),
        pytest.param("| a | b |\n|---|---|\n| [[c\\|d]] | [e](f.md) |\n", ["c", "f.md"], id="table"),
        pytest.param("- [[a]]\n  - [[b]]\n> [[c]]\n> - [[d]]\n", ["a", "b", "c", "d"], id="lists and quotes"),
        pytest.param("[[#own]] [x](#own) [[^b]]", ["^b"], id="links into the page"),
        ("[a](http://x/y) [b](mailto:x@y) [c](//x) <https://[[x]]> [[1]](https://z)", []),
        pytest.param("`[[a]]` ``[b](c.md) ` ``\n\n    [[d]]\n\n```\n[[e]]\n```\n", [], id="code"),
        pytest.param("- `x\n- [[a]] `y\n", ["a"], id="ticks of two items are no code"),
        pytest.param("$[[a]]=b$ $$[c](d)$$ $[[1,2],[3,4]]$\n\n$$\n[[e]]\n\n[f]: g\n$$\n[[h]]", ["h"], id="formulas"),
        pytest.param("$5 [[a]] $6\n\nUS$ [[b]] $ [c](d) $7", ["a", "b", "d"], id="money"),
        pytest.param(r"\`[[a]] `b` \[[c]] \[d](e.md)", ["a"], id="escaped"),
        pytest.param("%% [[a]]\n\n[[b]] %% [[c]] <!-- [[d]] --> [[e]]", ["c", "e"], id="comments"),
        pytest.param("<div>\n[[a]]\n</div>\n\n<b title='[[c]]'>[[d]]</b> a < b [[e]] c > d", ["d", "e"], id="HTML"),
        pytest.param("[[a\nb]] [[c]d]] [[]] [[e", ["c]d"], id="broken ones"),
        ("---\nup: \"[[a|x]]\"\nsee: ['[[b#h]]', no, [[c]]]\n# '[[d]]'\n---\n[[e]]", ["a", "b", "e"]),
        pytest.param("---\nup: [[a]\n---\n[[b]]", ["b"], id="frontmatter that is not YAML"),
        pytest.param("\ufeff[[노트]]\r\n[[b]]\r\n", ["노트", "b"], id="byte order mark, line ends"),
    ],
)
def test_find(text: str, expected: list[str]) -> None:
    """
    Links are found where Obsidian finds them, and nowhere else. Headings and block ids belong to a link but not to its
    target; a link knows its line. Links find a file by name, ignoring case, ending and Unicode form. The embedded text
    has no folders of links into the vault; web addresses stay.
    """
    note = parse("a.md", b"---\nx: 1\n---\n[[b#H|t]]\n[c](d.md#e) [[f#^g]]\n")
    fragments = [(link.target, link.fragment, link.line) for link in find(note)]
    assert fragments == [("b", "#H", 4), ("d.md", "#e", 5), ("f", "#^g", 5)]
    names = {"a/B.md": "b", "c.MD": "c", "d.png": "d.png", "v1.2.md": "v1.2", "e\u0301.md": "é"}
    assert {path: key(path) for path in names} == names
    foldered = "[[a/b c/d|x]] [t](../a/b.md#h) [u](<c/d e.md>) ![[f/g.png]] [v](http://x/y) a/b (c/d) [[e]]"
    bare = "[[d|x]] [t](b.md#h) [u](<d e.md>) ![[g.png]] [v](http://x/y) a/b (c/d) [[e]]"
    assert without_folders(foldered) == bare
    assert [written for written, _ in found(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("| ` | $a |\n| - | - |\n| x` | [[a]] #a $ |\n| `[[b]] #b`|$c$ \\|$[[c]] #c$|", id="table"),
        pytest.param("> x\n>\n> ` | $a |\n> |-|-|\n> x` | [[a]] #a $ |\n> `[[b]]` `#b`", id="table in a quote"),
        pytest.param("* `\n* $x [[a]] #a `\n* `[[b]]` `#b` $", id="list"),
        pytest.param("- [ ] `\n- [x] [[a]] #a `\n- `[[b]]` `#b`", id="tasks"),
        pytest.param("> [!note] a ` tick $b\n> `[[b]]` `#b` [[a]] #a ` $", id="callout"),
        pytest.param("x[^1]\n\n[^1]: `\n[^2]: [[a]] #a `\n[^3]: `[[b]]\n  #b`", id="footnotes"),
    ],
)
def test_code_ends_with_its_cell_or_item(text: str) -> None:
    """Code and formulas end with their cell, item or paragraph, for links and tags alike."""
    assert [target for target, _ in found(text)] == ["a"]
    assert parse("a.md", text.encode()).tags == ("a",)
    assert [target for target, _ in found(text.replace("\n", "\r\n"))] == ["a"]


@given(
    st.lists(st.sampled_from(["[[a]] b", "c", "- [ ] d", "- [[e]]\n- f", "[g](h.md)", "> `[[i]]` [[j]]", "<!-- m -->"]))
)
def test_every_run_is_looked_through(runs: list[str]) -> None:
    """Text before or after a link does not hide it."""
    assert found("\n\n".join(runs)) == [link for run in runs for link in found(run)]


WORDS = st.text(alphabet="ab é\\`*_[]()<>#!%&.\n", max_size=40)


@given(
    st.lists(
        st.one_of(
            WORDS, st.sampled_from(["[t](x.md)", "![t](<x y.md>)", '[t](a%20b.md "t")', "`", "``", "\n\n", "- ", "> "])
        )
    )
)
def test_markdown_links_are_those_of_commonmark(parts: list[str]) -> None:
    """A Markdown link is found if and only if CommonMark reads it, whatever surrounds it."""
    text = "".join(parts).replace("[[", "[ [").replace("%%", "%")
    meant = {"x.md", "x%20y.md", "a%20b.md"}
    read = [
        str(child.attrs.get("href") or child.attrs.get("src"))
        for token in MarkdownIt("commonmark").enable("table").parse(text)
        for child in token.children or ()
        if child.type in {"link_open", "image"}
    ]
    ours = [written.replace(" ", "%20") for written, _ in found(text)]
    assert {each for each in read if each in meant} <= {each for each in ours if each in meant}


@given(st.text(alphabet="ab[]()<>#|\\`%!\n\"'- ", max_size=80))
def test_a_link_is_its_characters(text: str) -> None:
    """Rewriting every target to itself gives the same text; links are in order and within the text."""
    note = parse("a.md", text.encode())
    links = find(note)
    assert (
        replaced(note.text, [(link.start, link.end, note.text[link.start : link.end]) for link in links]) == note.text
    )
    assert all(a.end <= b.start for a, b in pairwise(links))


FILES = Files(
    ["a.md", "x/b.md", "x/y/b.md", "z/b.md", "x/c.md", "x/pic.png", "pic.png", "z/v1.2.md", "한글/메모.md"],
    {"bee": "z/b.md"},
)


@pytest.mark.parametrize(
    ("source", "target", "is_markdown", "expected"),
    [
        pytest.param("a.md", "c", False, ("x/c.md", By.NAME), id="by name, anywhere"),
        pytest.param("a.md", "C.MD", False, ("x/c.md", By.NAME), id="whatever the case, with its ending"),
        pytest.param("a.md", "b", False, ("x/b.md", By.NAME), id="the shortest path"),
        pytest.param("z/d.md", "b", False, ("z/b.md", By.NAME), id="its own folder first"),
        pytest.param("a.md", "y/b", False, ("x/y/b.md", By.NAME), id="the end of a path"),
        pytest.param("x/c.md", "../z/b", False, ("z/b.md", By.RELATIVE), id="relative wikilink upwards"),
        pytest.param("x/c.md", "/z/b", False, ("z/b.md", By.ROOT), id="slash"),
        pytest.param("x/c.md", "y/b.md", True, ("x/y/b.md", By.RELATIVE), id="Markdown is relative"),
        pytest.param("x/c.md", "z/b.md", True, ("z/b.md", By.PATH), id="else from the vault"),
        pytest.param("x/c.md", "pic.png", False, ("pic.png", By.PATH), id="attachment"),
        pytest.param("a.md", "v1.2", False, ("z/v1.2.md", By.NAME), id="a dot in the name"),
        pytest.param("a.md", "한글/메모", False, ("한글/메모.md", By.PATH), id="decomposed Hangul"),
        pytest.param("a.md", "Bee", False, ("z/b.md", By.ALIAS), id="alias"),
        pytest.param("a.md", "nothing", False, None, id="nowhere"),
        pytest.param("a.md", "x/", False, None, id="a folder"),
    ],
)
def test_follow(source: str, target: str, is_markdown: bool, expected: tuple[str, By] | None) -> None:
    """A link leads where Obsidian goes."""
    assert FILES.follow(source, target, is_markdown) == (Reached(*expected) if expected else None)


WIKI = Link("", "", "wiki", 0, 0, 1)


@pytest.mark.parametrize(
    ("style", "written", "target", "expected"),
    [
        pytest.param("plain", "a%20b.md", "c d/a b.md", "c%20d/a%20b.md", id="blanks"),
        pytest.param("plain", "a%2Db/c.md", "x/a-b/d.md", "x/a%2Db/d.md", id="parts that stay are as they were"),
        pytest.param("plain", "a.md", "메모 하나.md", "메모%20하나.md", id="letters are not encoded"),
        pytest.param("plain", "%EB%A9%94.md", "모.md", "%EB%AA%A8.md", id="unless they were"),
        pytest.param("plain", "a.md", "50% (x) #1?.md", "50%25%20%28x%29%20%231%3F.md", id="what would end a link"),
        pytest.param("angle", "a b.md", "c (d) e%.md", "c (d) e%25.md", id="between < and >"),
        pytest.param("single", "a", "it's", "it''s", id="quoted in YAML"),
        pytest.param("wiki", "a", "b c (d)", "b c (d)", id="wikilink"),
    ],
)
def test_spelled(style: str, written: str, target: str, expected: str) -> None:
    """A new target is spelled in the way of the old one."""
    assert spelled(WIKI._replace(style=style), written, target) == expected  # type: ignore[arg-type]


NAMES = st.text(alphabet="aé 한.%()'&~+,-1", min_size=1, max_size=8).map(str.strip).filter(lambda name: name.strip("."))


@given(
    st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from(["[t](<>)", "[t]()", "[[]]", "---\nx: '[[]]'\n---\n", '---\nx: "[[]]"\n---\n']),
)
def test_what_is_spelled_is_read(parts: list[str], frame: str) -> None:
    """A link written for a file leads to it, whatever the file is called."""
    target = "/".join(parts) + ".md"
    text = frame.replace("()", "(x)").replace("[[]]", "[[x]]").replace("<>", "<x>")
    link = find(parse("a.md", text.encode()))[0]
    written = replaced(text, [(link.start, link.end, spelled(link, "x", target))])
    assert [each.target for each in find(parse("a.md", written.encode()))] == [target]


# -- pictures: which links embed one, and what kind of picture some bytes are


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("![[a.png]]", ["a.png"]),
        ('![alt](a.webp) ![](<b c.gif>) ![x]( ../d%20e.jpeg "title")', ["a.webp", "b c.gif", "../d e.jpeg"]),
        ("[![alt [1]](a.png)](b.md)", ["a.png"]),
        ("\\![alt](a.png)", []),
        (f"![{'[' * 5000}{'x' * 5000}](a.png)", []),  # a label longer than any person writes is no picture
        ("![[a.svg]] ![[a.pdf]] ![[note]] ![](script.html)", []),
        ("```\n![[a.png]]\n```\n`![](b.png)` %%![[c.png]]%%", []),
        ('---\ncover: "[[a.png]]"\n---\nText', []),
        ("![x](https://elsewhere.test/a.png) ![](//elsewhere.test/b.png)", []),
    ],
)
def test_what_a_note_embeds(text: str, expected: list[str]) -> None:
    """Both forms, also inside a link; not plain links, code, comments, other files and other hosts."""
    assert [link.target for link in pictures(parse("n.md", text.encode()))] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\n\x00\r\x00WEBPVP8 ", "image/webp"),
        (b"RIFFxxxxWAVE", ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", ""),
        (b"<html><script>alert(1)</script>", ""),
    ],
)
def test_bytes_say_what_a_picture_is(data: bytes, expected: str) -> None:
    """The name of a file says nothing of what a browser is told."""
    assert media_type(data) == expected
