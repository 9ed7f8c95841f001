"""Small PDFs, written by hand: pages of lines, an outline, document information, Korean letters without a font file."""

import zlib
from collections.abc import Sequence


def pdf(
    pages: Sequence[Sequence[str]],
    *,
    title: str = "",
    author: str = "",
    created: str = "",
    outline: Sequence[tuple[str, int]] = (),
    stream: bytes | None = None,
    extra_trailer: bytes = b"",
) -> bytes:
    """
    Return a PDF whose pages hold these lines, from top to bottom.

    `outline` has titles with the pages (from 0) they lead to. `stream` replaces the content of the first page, packed.
    """
    objects: list[bytes] = [b""] * 5
    letters = sorted({letter for page in pages for line in page for letter in line})
    glyphs = {letter: number for number, letter in enumerate(letters, 1)}
    lines = "\n".join(f"<{glyphs[each]:04x}> <{each.encode('utf-16-be').hex()}>" for each in letters)
    unicode = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
        "1 begincodespacerange <0000> <ffff> endcodespacerange\n"
        f"{len(letters)} beginbfchar\n{lines}\nendbfchar\nendcmap end end"
    ).encode()
    objects[2] = (
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Test /Encoding /Identity-H /DescendantFonts [4 0 R]"
        b" /ToUnicode 5 0 R >>"
    )
    objects[3] = (
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Test /DW 500 /FontDescriptor << /Type /FontDescriptor /FontName"
        b" /Test /Flags 4 /FontBBox [0 0 1000 1000] /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 /ItalicAngle 0 >>"
        b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    )
    objects[4] = b"<< /Length %d >> stream\n%s\nendstream" % (len(unicode), unicode)

    def add(data: bytes) -> int:
        objects.append(data)
        return len(objects)

    kids = []
    for number, page in enumerate(pages):
        shown = "BT /F 10 Tf 14 TL 50 800 Td\n" + "\n".join(
            f"<{''.join(f'{glyphs[letter]:04x}' for letter in line)}> Tj T*" for line in page
        )
        content = zlib.compress(stream if stream is not None and not number else f"{shown}\nET".encode())
        made = add(b"<< /Filter /FlateDecode /Length %d >> stream\n%s\nendstream" % (len(content), content))
        kids.append(
            add(
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R /Resources << /Font << /F 3 0 R >> >> >>"
                % made
            )
        )
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    root = b""
    if outline:
        first = len(objects) + 2
        top = add(b"<< /First %d 0 R /Last %d 0 R >>" % (first, first + len(outline) - 1))
        for number, (name, page_number) in enumerate(outline):
            later = b" /Next %d 0 R" % (first + number + 1) if number + 1 < len(outline) else b""
            add(
                b"<< /Title %s /Parent %d 0 R /Dest [%d 0 R /Fit]%s >>"
                % (_text(name), top, kids[page_number] if page_number < len(kids) else 9_999, later)
            )
        root = b" /Outlines %d 0 R" % top
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R%s >>" % root
    about = add(b"<< /Title %s /Author %s /CreationDate (%s) >>" % (_text(title), _text(author), created.encode()))
    return _file(objects, b"/Root 1 0 R /Info %d 0 R %s" % (about, extra_trailer))


def _text(text: str) -> bytes:
    return b"<feff" + text.encode("utf-16-be").hex().encode() + b">"


def _file(objects: Sequence[bytes], trailer: bytes) -> bytes:
    data, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return data + b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (
        size,
        table,
        size,
        trailer,
        len(data),
    )


PARAGRAPH = (
    "제주 테마파크는 입장권이 아니라 주행 횟수로 돈을 번다. 방문객은 중력만으로 달리는 카트를 타고 기록을 남긴다. "
    "같은 코스를 여러 번 타면서 기록을 줄이는 재미가 재방문을 부른다고 회사는 설명한다. "
    "회사는 이 방식으로 지난해 처음 흑자를 냈고, 올해는 두 번째 코스를 열 계획이라고 밝혔다. "
    "업계는 입장료 중심이던 국내 테마파크의 수익 구조가 바뀌는 신호로 본다. "
    "전문가들은 계절을 타지 않는 실내 코스가 다음 과제라고 말한다."
)


PAGE = f"""<!doctype html><html lang="ko"><head>%s</head><body>
<nav><a href="/">홈</a><a href="/news">뉴스</a></nav>
<article><h1>제주 테마파크, 재방문율 70%%의 비밀</h1>%s
<h2>수익 구조</h2><p>{PARAGRAPH}</p>
<figure><img src="/img/a.jpg" alt="카트 [[Note]]"></figure>
<ul><li>첫째 <a href="../b?x=1#part">링크</a></li><li>둘째 <b>앱</b>에 남긴다<ul><li>중첩</li></ul></li></ul>
<ol><li>하나</li><li>둘</li></ol>
<table><tr><th>연도</th><th>방문객</th></tr><tr><td>2025</td><td>90만 | 명</td></tr></table>
<pre><code class="language-python">def f(x):
    return x  # [[kept]]
</code></pre>
<blockquote><p>우리는 [[기록]]을 판다. #태그</p></blockquote>
<p>1 &lt; 2 &amp; *별표* &lt;script&gt;alert(1)&lt;/script&gt; <a href="javascript:alert(1)">나쁜 링크</a></p>
</article><footer>저작권 문의</footer></body></html>"""


HEAD = '<meta charset="utf-8"><title>제주 테마파크, 재방문율 70%의 비밀 - 제주신문</title>'


def page(head: str = HEAD, byline: str = "") -> bytes:
    return (PAGE % (head, byline)).encode()


LONG = "우리는 로그인 세션을 PostgreSQL에 보관한다. 장애 뒤에 끝난 세션이 되살아났기"


PAGES = [
    ["Annual report 2026", "소개", LONG, "때문이다.", "둘째 문단은 짧다.", "1 / 3"],
    [
        "Annual report 2026",
        "1.2 Why [[Redis]] failed",
        "The failover brought back many ses-",
        "sions that had ended.",
        "2 / 3",
    ],
    ["Annual report 2026", "#tag <script>alert(1)</script> and more text here", "3 / 3"],
]
