"""PDFs: text by section or page, in Korean too; what cannot be read is said."""

from __future__ import annotations

import contextlib

import pytest

from spellbook.archive.pages.child import extract_pdf as extract
from spellbook.system.errors import InvalidInput
from tests.archive.pages.documents import LONG, PAGES, pdf


def test_without_an_outline_a_section_is_a_page() -> None:
    """Lines are joined, cut words too, running heads and page numbers are gone, and nothing acts."""
    assert extract(pdf(PAGES))["markdown"] == (
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


def test_the_outline_makes_sections() -> None:
    """Its headings replace the lines that are them, numbered or not; one that is not found begins its page."""
    outline = [("소개", 0), ("Why [[Redis]] failed", 1), ("Appendix", 2), ("Nowhere", 9)]
    text = extract(pdf(PAGES, outline=outline))["markdown"]
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "## 소개",
        "## Why \\[Redis\\] failed",
        "## Appendix",
    ]
    assert f"## 소개\n\n{LONG} 때문이다." in text
    assert "failed\n\nThe failover" in text


def test_what_a_document_says_of_itself() -> None:
    """Title, author and date of its information; "" where it says nothing."""
    said = extract(pdf(PAGES, title="연간 [[보고서]]", author="홍길동", created="D:20260314093000+09'00'"))
    assert {key: said[key] for key in ("title", "author", "published")} == {
        "title": "연간 [보고서]",
        "author": "홍길동",
        "published": "2026-03-14",
    }
    unsaid = extract(pdf(PAGES, created="D:20269999"))
    assert (unsaid["title"], unsaid["author"], unsaid["published"]) == ("", "", "")


def test_what_repeats_in_a_short_document_is_text() -> None:
    """Two pages that begin alike lose nothing."""
    text = extract(pdf([["Same first line of text"], ["Same first line of text"]]))["markdown"]
    assert text.count("Same first line") == 2


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
        extract(body, "a.pdf")
    assert "a.pdf" in refused.value.message
    assert refused.value.hint


def test_a_cut_file_never_crashes() -> None:
    """pdfium repairs it, or it is refused."""
    body = pdf(PAGES, outline=[("소개", 0)])
    for cut in (100, 400, 900, 1_500, 2_000):
        with contextlib.suppress(InvalidInput):
            assert "소개" in extract(body[:-cut])["markdown"]
