"""Pages and PDFs as Markdown: the text, who wrote it and when, in the encodings that pages have, in Korean too."""

from __future__ import annotations

import contextlib
import json

import pytest

from spellbook.archive.pages.child import extract_pdf
from spellbook.archive.pages.html import day, decoded, extract
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
    texts = ("2026-03-14T09:30:00+09:00", "2026.3.4. 오전 9:30", "입력 2026년 3월 14일", "2026/13/40", "14 March")
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
    """Korean is read right, with letters that EUC-KR has only in its wider form, whatever is said of it."""
    text = korean(meta).replace("회사", "똠방각하 펲시")
    assert decoded(text.encode(encoding), header) == text


def test_a_few_broken_letters_do_not_change_the_encoding() -> None:
    """A page in UTF-8 with one cut letter stays UTF-8; Latin-1 is read too."""
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
