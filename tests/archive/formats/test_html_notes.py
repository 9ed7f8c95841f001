"""Notes that are HTML or text files, as exporters of Apple Notes write them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from tests.archive.formats.incoming import body, notes, written, zipped

PNG = b"\x89PNG" + bytes(50)
PAGE = (
    "<!DOCTYPE html><html><head><meta charset='utf-8'><title>Trip</title><meta name='created' content='2024-03-01T10:00:00Z'>"
    "<meta name='keywords' content='sea, 부산'><style>body {}</style></head><body><h1>Trip</h1><div>We <b>go</b></div><div>today</div>"
    "<div><br></div><ul class='com-apple-note-checklist'><li class='done'>ask</li><li>pack</li></ul>"
    "<div><img src='Trip%20(Attachments)/sea.png'><a href='Trip (Attachments)/plan.pdf'>plan</a> <a href='../Work/List.html'>list</a></div>"
    f"<div><img src='data:image/png;base64,{base64.b64encode(PNG).decode()}'><img src='data:image/png;base64,!'></div>"
    "<pre style='white-space: pre-wrap'>a<br>  b</pre></body></html>"
)
EXPORT: dict[str, str | bytes] = {
    "iCloud/Trip.html": PAGE,
    "iCloud/Trip (Attachments)/sea.png": PNG,
    "iCloud/Trip (Attachments)/plan.pdf": b"%PDF-",
    "Work/List.html": "<div><h1>List</h1></div><div>milk [x] #tea</div>",
    "Work/메모.html": "<div>메모</div><div>한글</div>".encode("cp949"),
}


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_folder_of_html(book: Spellbook, tmp_path: Path, is_zip: bool) -> None:
    """Text, checklists, tables, files and links are kept; titles and dates are the note's; nothing comes twice."""
    place = tmp_path / "notes.zip"
    if is_zip:
        place.write_bytes(zipped(EXPORT))
    else:
        place = written(tmp_path / "notes", EXPORT)
    done = book.import_(place, dry_run=True)
    done = book.import_(place)
    image = next(path for path in done.added if "/image-" in path)
    assert sorted(done.added) == sorted(
        [
            "Work/List.md",
            "Work/메모.md",
            "iCloud/Trip (Attachments)/plan.pdf",
            "iCloud/Trip (Attachments)/sea.png",
            "iCloud/Trip.md",
            image,
        ]
    )
    assert (book.config.vault / image).read_bytes() == PNG
    name = image.rpartition("/")[2]
    assert body(book, "iCloud/Trip.md") == (
        "We **go**  \ntoday\n\n- [x] ask\n- [ ] pack\n\n"
        "![sea.png](Trip%20%28Attachments%29/sea.png)[plan](Trip%20%28Attachments%29/plan.pdf) [list](../Work/List.md)  \n"
        f"![{name}](Trip/{name})\n\n```\na\n  b\n```"
    )
    assert body(book, "Work/List.md") == "milk \\[x\\] \\#tea"
    assert body(book, "Work/메모.md") == "한글"
    trip = next(each for each in notes(book).values() if each.path == "iCloud/Trip.md")
    assert (trip.title, trip.tags, trip.created[:10]) == ("Trip", ("sea", "부산"), "2024-03-01")
    assert {"List"} <= {link.title for link in book.around(trip.note).links}
    assert book.import_(place).added == []
    book.move("Work/List.md", "List.md")
    assert book.import_(place).added == []


def test_files_of_text(book: Spellbook, tmp_path: Path) -> None:
    """They are notes where there is nothing else; one file may be given alone."""
    place = written(tmp_path / "notes", {"a.txt": "First\n\n- milk\n", "b/c.txt": "\ufeffx", "b/p.png": PNG})
    assert sorted(book.import_(place).added) == ["a.md", "b/c.md", "b/p.png"]
    assert body(book, "a.md") == "First\n\n- milk"
    assert book.import_(place / "a.txt").added == []
    (tmp_path / "one.htm").write_text("<p>hello")
    assert book.import_(tmp_path / "one.htm").added == ["one.md"]
    assert body(book, "one.md") == "hello"


def test_html_beside_markdown_stays_a_file(book: Spellbook, tmp_path: Path) -> None:
    """In a folder of Markdown, nothing is converted."""
    place = written(tmp_path / "notes", {"a.md": "A", "page.html": "<p>x</p>", "b.txt": "y"})
    assert sorted(book.import_(place).added) == ["a.md", "b.txt", "page.html"]
    assert (book.config.vault / "page.html").read_text() == "<p>x</p>"
