"""The article of an HTML page: its text as Markdown, who wrote it and when, in the encodings that pages have."""

from __future__ import annotations

import json

import pytest

from spellbook.archive.pages.html import day, decoded, extract
from spellbook.system.errors import FetchError
from tests.archive.pages.documents import HEAD, PARAGRAPH, page


def test_the_article_becomes_markdown() -> None:
    """Headings, lists, a table, code with its language, quotes and links; no navigation, no repeated title."""
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


def test_what_a_page_says_of_itself() -> None:
    """Title, site, date, description and its own address, by JSON-LD's graph, `meta` and `link`."""
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


def test_dates() -> None:
    """ISO 8601 and the Korean ways to write a date."""
    texts = ("2026-03-14T09:30:00+09:00", "2026.3.4. 오전 9:30", "입력 2026년 3월 14일", "2026/13/40", "14 March")
    assert [day(text) for text in texts] == ["2026-03-14", "2026-03-04", "2026-03-14", "", ""]


def test_a_shell_is_no_article() -> None:
    """Under 200 letters of text there is nothing to save."""
    for body in (b"", b" ", b"<html>", page()[:400], b"\x00\xff", "<p>짧은 글".encode() * 9, b"\x89PNG\x01" * 999):
        with pytest.raises(FetchError, match="No article text found"):
            extract(body)


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
