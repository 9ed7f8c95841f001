"""Exports of Evernote: what comes of notes and their files, that nothing comes twice, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import io
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import pytest

from spellbook.archive.formats import evernote
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput
from tests.archive.formats.incoming import notes, zipped

PNG, PDF = b"\x89PNG" + bytes(200), b"%PDF-1.4 " + bytes(500)
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE en-export SYSTEM "http://xml.evernote.com/pub/evernote-export4.dtd">\n'
ENML = '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<!DOCTYPE en-note SYSTEM "http://xml.evernote.com/pub/enml2.dtd">'


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def resource(data: bytes, mime: str, name: str = "") -> str:
    named = f"<resource-attributes><file-name>{name}</file-name></resource-attributes>" if name else ""
    lines = base64.encodebytes(data).decode()
    return f'<resource>\n<data encoding="base64">\n{lines}</data>\n<mime>{mime}</mime>\n{named}</resource>'


def note(title: str, body: str = "", more: str = "", created: str = "20240112T072527Z", tail: str = "") -> str:
    return (
        f"<note>\n<title>\n\t{title}\n</title><created>{created}</created><updated>20240113T072741Z</updated>{more}"
        f"<content>\n<![CDATA[{ENML}<en-note>{body}</en-note>      ]]>\n</content>{tail}</note>"
    )


def enex(*given: str) -> str:
    return f'{HEAD}<en-export export-date="20240112T072747Z" application="Evernote" version="10.70.2">{"".join(given)}</en-export>\n'


PLAN = note(
    "Trip &amp; plan: 부산",
    "<div>We go by <b>train</b>, see <a href='evernote:///view/24/s470/27698765-eecc-2897-74d7-81098e4f2f48/d8/'>Packing</a>.</div>"
    "<div>Or # not, [[x]]&nbsp;*y*.</div><div><br/></div><div><en-todo checked='true'/>book</div><div><en-todo/>pack</div>"
    f'<div><en-media type="image/png" hash="{md5(PNG)}"/></div><div><en-media type="application/pdf" hash="{md5(PDF)}"/></div>'
    '<div style="--en-task-group:true; --en-id:g1;"><div>tasks</div></div>'
    '<en-crypt hint="pet" cipher="AES" length="128">RU5DMCR2</en-crypt>',
    "<tag>travel</tag><tag>korea</tag><note-attributes><author>ann</author>"
    "<source-url>https://example.org/a</source-url><reminder-time>20250101T000000Z</reminder-time></note-attributes>",
    tail="<task><title>Pay</title><taskStatus>open</taskStatus><taskGroupNoteLevelID>g1</taskGroupNoteLevelID><sortWeight>B</sortWeight></task>"
    "<task><title>Ask</title><taskStatus>completed</taskStatus><taskGroupNoteLevelID>g1</taskGroupNoteLevelID><sortWeight>A</sortWeight></task>"
    + resource(PNG, "image/png", "../../sea.png")
    + resource(PDF, "application/pdf"),
)
PACKING = note("Packing", "<ul><li>socks</li><ul><li>warm</li></ul><li>tea</li></ul>", created="20240112T072528Z")


def test_notes_with_their_files(book: Spellbook, tmp_path: Path) -> None:
    """Text, tasks, tags, dates, source and links are kept; files lie beside the note; nothing comes twice."""
    file = tmp_path / "Travel.enex"
    file.write_text(enex(PLAN, PACKING), "utf-8")
    assert len(book.import_(file, dry_run=True).added) == 4
    assert notes(book) == {}
    done = book.import_(file)
    assert done.faults == []
    png, pdf = f"sea-{md5(PNG)[:8]}.png", f"file-{md5(PDF)[:8]}.pdf"
    folder = "Travel/Trip & plan- 부산"
    assert sorted(done.added) == sorted(["Travel/Packing.md", f"{folder}.md", f"{folder}/{png}", f"{folder}/{pdf}"])
    assert (book.config.vault / folder / png).read_bytes() == PNG
    assert (book.config.vault / folder / pdf).read_bytes() == PDF
    text = (book.config.vault / f"{folder}.md").read_text("utf-8")
    assert text.split("---\n\n", 1)[1] == (
        "We go by **train**, see [Packing](Packing.md).  \nOr \\# not, \\[\\[x\\]\\] \\*y\\*.\n\n"
        "- [x] book\n- [ ] pack\n\n"
        f"![../../sea.png](Trip%20&%20plan-%20부산/{png})  \n[{pdf}](Trip%20&%20plan-%20부산/{pdf})\n\n"
        "- [x] Ask\n- [ ] Pay\n\ntasks\n\n"
        "Encrypted in Evernote (AES, 128). Hint: pet\n\n```\nRU5DMCR2\n```\n"
    )
    found = notes(book)
    plan = next(each for each in found.values() if each.title == "Trip & plan: 부산")
    assert (plan.tags, plan.created, plan.meta["author"]) == (("travel", "korea"), "2024-01-12T07:25:27+00:00", "ann")
    assert plan.meta["source"] == "https://example.org/a"
    assert plan.note.startswith("evernote-")
    assert {link.title for link in book.around(plan.note).links} >= {"Packing"}
    again = book.import_(file)
    assert (again.added, again.unchanged) == ([], 4)
    book.move("Travel/Packing.md", "list.md")
    file.write_text(enex(note("New", "<div>new</div>"), PACKING, PLAN), "utf-8")
    assert book.import_(file).added == ["Travel/New.md"]


@pytest.mark.parametrize("is_zip", [False, True])
def test_notebooks_of_a_folder_or_a_zip(book: Spellbook, tmp_path: Path, is_zip: bool) -> None:
    """Each file is a notebook; a link leads into another one; titles of one name stay apart."""
    link = "<a href='evernote:///view/1/s1/aaaaaaaa-1/b/'>Packing</a> <a href='evernote:///view/1/s1/aaaaaaaa-2/b/'>Same</a>"
    files: dict[str, bytes | str] = {
        "Work.enex": enex(note("Links", link), note("Same", "<div>1</div>"), note("same", "<div>2</div>")),
        "Stack/Home.enex": enex(PACKING, note("Same", "<div>3</div>")),
    }
    place = tmp_path / "export.zip"
    if is_zip:
        place.write_bytes(zipped(files))
    else:
        place = tmp_path / "export"
        for name, data in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(str(data), "utf-8")
    assert len(book.import_(place, into="ever").added) == 5
    text = next((book.config.vault / "ever/Work").glob("Links.md")).read_text("utf-8")
    assert "[Packing](../Stack/Home/Packing.md) [Same](evernote:///view/1/s1/aaaaaaaa-2/b/)" in text
    bodies = {path.read_text("utf-8").rpartition("---")[2].strip() for path in book.config.vault.rglob("[Ss]ame*.md")}
    assert bodies == {"1", "2", "3"}
    assert book.import_(place, into="ever").unchanged == 5


BOMB = '<!DOCTYPE en-export [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><en-export><note><title>&b;</title></note></en-export>'
OUTSIDE = '<!DOCTYPE en-export [<!ENTITY a SYSTEM "file:///etc/passwd">]><en-export><note><title>&a;</title></note></en-export>'
WHOLE = enex(PLAN, PACKING)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (BOMB, "declares entities"),
        (OUTSIDE, "declares entities"),
        ("<html><note/></html>", "begins with en-export"),
        (enex(), "no note"),
        ("", "breaks off"),
        (WHOLE[: len(WHOLE) // 2], "breaks off|line"),
        (WHOLE[:-5], "breaks off|line"),
        (WHOLE.replace("</data>", "!</data>"), "damaged"),
        (WHOLE.replace('base64">\n', 'base64">\nabc'), "damaged"),
        (enex("<note>" + "<a>" * 30 + "</a>" * 30 + "</note>"), "too deep"),
    ],
)  # fmt: skip
def test_bad_exports(book: Spellbook, tmp_path: Path, given: str, why: str) -> None:
    """Nothing is written, and no entity is expanded or opened."""
    file = tmp_path / "x.enex"
    file.write_text(given, "utf-8")
    with pytest.raises(InvalidInput, match=why):
        book.import_(file)
    assert list(book.config.vault.rglob("*")) == []


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("../../../etc/passwd", "etc-passwd"),
        ("/absolute", "absolute"),
        ("con", "con-"),
        ("a" * 10_000, "a" * 80),
        ("", "Untitled"),
        ("\u202egnp.exe", "gnp.exe"),
        (".git", "git"),
    ],
)
def test_titles_that_are_no_names(book: Spellbook, tmp_path: Path, title: str, name: str) -> None:
    """A title becomes a name that every system accepts, and is kept whole in the note."""
    file = tmp_path / "x.enex"
    file.write_text(enex(note(title, "<div>text</div>")), "utf-8")
    (added,) = book.import_(file).added
    assert added == f"x/{name}.md"
    assert title.replace("\u202e", "").replace("_", "\\_") in (book.config.vault / added).read_text("utf-8")


def test_a_large_file_takes_little_memory() -> None:
    """Files in notes pass through; neither reading holds them."""
    data = bytes(range(256)) * 40_000
    text = enex(note("Big", "<div>x</div>", tail=resource(data, "video/mp4", "film.mp4"))).encode()
    tracemalloc.start()
    try:
        source = evernote.files([evernote.Notebook("x", lambda: nullcontext(io.BytesIO(text)))])
        sizes = [sum(map(len, each.pieces)) for each in source]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sizes[0] == len(data)
    assert peak < len(data) / 4


def test_what_one_second_made(book: Spellbook, tmp_path: Path) -> None:
    """Notes of one title and one second stay several; a note that is in two files is one, with its files."""
    first, second = note("Untitled", "<div>one</div>"), note("Untitled", "<div>two</div>")
    place = tmp_path / "export"
    place.mkdir()
    (place / "a.enex").write_text(enex(first, second, PLAN, PACKING), "utf-8")
    (place / "b.enex").write_text(enex(PLAN, note("Other"), first), "utf-8")
    assert len(book.import_(place).added) == 7
    assert book.import_(place).added == []
