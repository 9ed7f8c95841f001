"""Pages and PDFs as safe Markdown: the text, who wrote it and when, in Korean too; what a stranger wrote acts nowhere."""

import contextlib
import json
import random
import re
import unicodedata
from collections.abc import Iterator, Sequence

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from spellbook.archive.pages.html import day, decoded, extract
from spellbook.archive.pages.pdf import extract as extract_pdf
from spellbook.archive.pages.safe_markdown import line, safe
from spellbook.notes import links
from spellbook.notes.note import parse
from spellbook.system.errors import FetchError, InvalidInput
from tests.archive.pages.documents import HEAD, LONG, PAGES, PARAGRAPH, page, pdf


def test_the_article_becomes_markdown() -> None:
    """
    Headings, lists, a table, code with its language, quotes and links; no navigation, no repeated title. Title, site,
    date, description and its own address, by JSON-LD's graph, `meta` and `link`. Dates are read in ISO 8601 and the
    Korean ways to write them. Under 200 letters of text there is nothing to save.
    """
    assert extract(page(), "https://news.example/a/1?utm_source=x")["markdown"] == (
        f"""\
## 수익 구조

{PARAGRAPH}

[그림: 카트 \\[\\[Note\\]\\]](https://news.example/img/a.jpg)

- 첫째 [링크](https://news.example/b?x=1#part)
- 둘째 **앱**에 남긴다
  - 중첩

1. 하나
2. 둘

| 연도 | 방문객 |
| --- | --- |
| 2025 | 90만 \\| 명 |

```python
def f(x):
    return x  # [[kept]]
```

> 우리는 \\[\\[기록\\]\\]을 판다. \\#태그

1 < 2 & \\*별표\\* \\<script>alert(1)\\</script> 나쁜 링크
"""
    )
    graph = {"@graph": [{"@type": "WebSite"}, {"@type": ["NewsArticle"], "datePublished": "2026-03-14T00:30:00+09:00"}]}
    head = (
        f'{HEAD}<script type="application/ld+json">not json</script>'
        f'<script type="application/ld+json">{json.dumps(graph)}</script>'
        '<meta property="og:title" content="제주 테마파크, 재방문율 70%의 비밀"><meta property="og:site_name" content=" 제주신문 ">'
        '<meta name="description" content="주행 횟수로\n 번다.">'
        '<link rel="canonical" href="/article/1">'
    )
    found = extract(page(head), "https://news.example/m/1")
    assert found.pop("markdown")
    assert found == {
        "title": "제주 테마파크, 재방문율 70%의 비밀",
        "author": "",
        "published": "2026-03-14",
        "description": "주행 횟수로 번다.",
        "canonical": "https://news.example/article/1",
        "site": "제주신문",
    }
    texts = ("2026-03-14T09:30:00+09:00", "2026.3.4. 오전 9:30", "입력 2026년 3월 14일", "2026/2/30", "14 March")
    assert [day(text) for text in texts] == ["2026-03-14", "2026-03-04", "2026-03-14", "", ""]
    for body in (b"", b" ", b"<html>", page()[:400], b"\x00\xff", "<p>짧은 글".encode() * 9, b"\x89PNG\x01" * 999):
        with pytest.raises(FetchError, match="No article text found"):
            extract(body)


def linked(**said: object) -> str:
    data = {"@context": "https://schema.org", "@type": "NewsArticle", **said}
    return f'{HEAD}<script type="application/ld+json">{json.dumps(data, ensure_ascii=False)}</script>'


KIM = {"@type": "Person", "name": "김철수 기자 kim@jeju.example"}
AUTHORS = [
    pytest.param(linked(author=KIM), "", "김철수", id="person"),
    pytest.param(linked(author=[KIM, {"name": "홍길동"}]), "", "김철수, 홍길동", id="two"),
    pytest.param(linked(author="By Ann Lee"), "", "Ann Lee", id="text"),
    pytest.param(f"{HEAD}<meta property='dable:author' content='이영희 선임기자'>", "", "이영희", id="dable"),
    pytest.param(f"{HEAD}<meta name='author' content='이영희'>", "", "이영희", id="meta"),
    pytest.param(
        linked(author={"@type": "Organization", "name": "제주신문"}, publisher={"name": "제주신문"}),
        '<p class="byline">박민수 기자 park@jeju.example</p>',
        "박민수",
        id="the paper is nobody",
    ),
    pytest.param(f"{HEAD}<meta property='article:author' content='https://facebook.example/x'>", "", "", id="address"),
    pytest.param(HEAD, '<span class="reporter">최지우 특파원</span>', "최지우", id="byline"),
    pytest.param(f"{HEAD}<meta name='author' content='[[Note]] <% x %>'>", "", "Note] < % x %>", id="hostile"),
    pytest.param(HEAD, "", "", id="unsaid"),
]


@pytest.mark.parametrize(("head", "byline", "author"), AUTHORS)
def test_authors_of_korean_pages(head: str, byline: str, author: str) -> None:
    """By JSON-LD, else `meta`, else the line under the title, without office and address."""
    assert extract(page(head, byline), "https://news.example/a")["author"] == author


def korean(meta: str) -> str:
    return f"<html><head><meta {meta}><title>제목</title></head><body>{PARAGRAPH}</body></html>"


@pytest.mark.parametrize(
    ("encoding", "header", "meta"),
    [
        pytest.param("cp949", "euc-kr", "", id="header"),
        pytest.param("cp949", "", 'charset="euc-kr"', id="meta"),
        pytest.param("cp949", "", 'http-equiv=Content-Type content="text/html; charset=ks_c_5601-1987"', id="old meta"),
        pytest.param("cp949", "utf-8", 'charset="utf-8"', id="both lie"),
        pytest.param("cp949", "iso-8859-1", "", id="nobody told the server"),
        pytest.param("cp949", "", "", id="detected"),
        pytest.param("cp949", "x-unknown", "charset=zlib", id="no encoding of text"),
        pytest.param("utf-8", "euc-kr", 'charset="euc-kr"', id="utf-8 that says euc-kr"),
        pytest.param("utf-8", "", "", id="utf-8"),
        pytest.param("utf-8-sig", "euc-kr", "", id="bom"),
        pytest.param("utf-16", "", "", id="utf-16"),
        pytest.param("utf-16-le", "utf-16le", "", id="utf-16 by header"),
    ],
)
def test_encodings(encoding: str, header: str, meta: str) -> None:
    """
    Korean is read right, with letters that EUC-KR has only in its wider form, whatever is said of it. A page in UTF-8
    with one cut letter stays UTF-8; Latin-1 is read too.
    """
    text = korean(meta).replace("회사", "똠방각하 펲시")
    assert decoded(text.encode(encoding), header) == text
    body = korean("charset=utf-8").encode().replace("비밀".encode(), "비".encode() + b"\xeb\xb0")
    assert PARAGRAPH in decoded(body, "utf-8")
    assert decoded("<p>café naïve</p>".encode("latin-1"), "iso-8859-1") == "<p>café naïve</p>"


def test_a_document() -> None:
    """
    Without an outline a section is a page. Lines are joined, cut words too, running heads and page numbers are gone,
    and nothing acts. Two pages that begin alike lose nothing. An outline makes sections: its headings replace the lines
    that are them, numbered or not; one that is not found begins its page. Title, author and date are those of the
    document's information; "" where it says nothing. A cut file is repaired by pdfium, or refused.
    """
    assert extract_pdf(pdf(PAGES))["markdown"] == (
        f"""\
## p. 1

소개

{LONG} 때문이다.

둘째 문단은 짧다.

## p. 2

1.2 Why \\[\\[Redis\\]\\] failed

The failover brought back many sessions that had ended.

## p. 3

\\#tag \\<script>alert(1)\\</script> and more text here
"""
    )
    text = extract_pdf(pdf([["Same first line of text"], ["Same first line of text"]]))["markdown"]
    assert text.count("Same first line") == 2
    outline = [("소개", 0), ("Why [[Redis]] failed", 1), ("Appendix", 2), ("Nowhere", 9)]
    text = extract_pdf(pdf(PAGES, outline=outline))["markdown"]
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "## 소개",
        "## Why \\[Redis\\] failed",
        "## Appendix",
    ]
    assert f"## 소개\n\n{LONG} 때문이다." in text
    assert "failed\n\nThe failover" in text
    said = extract_pdf(pdf(PAGES, title="연간 [[보고서]]", author="홍길동", created="D:20260314093000+09'00'"))
    assert {key: said[key] for key in ("title", "author", "published")} == {
        "title": "연간 [보고서]",
        "author": "홍길동",
        "published": "2026-03-14",
    }
    unsaid = extract_pdf(pdf(PAGES, created="D:20269999"))
    assert (unsaid["title"], unsaid["author"], unsaid["published"]) == ("", "", "")
    body = pdf(PAGES, outline=[("소개", 0)])
    for cut in (100, 400, 900, 1_500, 2_000):
        with contextlib.suppress(InvalidInput):
            assert "소개" in extract_pdf(body[:-cut])["markdown"]


ENCRYPTED = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >> /ID [<00> <00>]" % (
    b"11" * 32,
    b"22" * 32,
)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(pdf(PAGES, extra_trailer=ENCRYPTED), "is encrypted", id="encrypted"),
        pytest.param(pdf([[], []]), "no text", id="scanned"),
        pytest.param(pdf([["Stamp"]]), "no text", id="a stamp"),
        pytest.param(pdf([["\ue001\ue002" * 40]]), "hide the letters", id="private letters"),
        pytest.param(b"%PDF-1.7\n" + b"\xff" * 5_000, "not a PDF that can be read", id="garbage"),
        pytest.param(b"%PDF-", "not a PDF that can be read", id="nothing"),
        pytest.param(pdf([]), "not a PDF", id="no page"),
    ],
)
def test_what_cannot_be_read_is_said(body: bytes, said: str) -> None:
    """INVALID_INPUT with the reason, and what to do."""
    with pytest.raises(InvalidInput, match=said) as refused:
        extract_pdf(body, "a.pdf")
    assert "a.pdf" in refused.value.message
    assert refused.value.hint


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
        ("---\n# Head\n---\nrest", "***\n\n# Head\n\n***\n\nrest"),
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
