"""Small PDFs, written by hand: pages of lines, an outline, document information, Korean letters without a font file."""

from __future__ import annotations

import zlib
from collections.abc import Sequence


def pdf(
    pages: Sequence[Sequence[str]],
    *,
    title: str = "",
    author: str = "",
    created: str = "",
    outline: Sequence[tuple[str, int]] = (),
    mapped: bool = True,
    stream: bytes | None = None,
    extra_trailer: bytes = b"",
) -> bytes:
    """
    Return a PDF whose pages hold these lines, from top to bottom.

    `outline` has titles with the pages (from 0) they lead to. Not `mapped` means that the font does not say which
    letters its glyphs are. `stream` replaces the content of the first page, packed.
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
        + (b" /ToUnicode 5 0 R" if mapped else b"")
        + b" >>"
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
