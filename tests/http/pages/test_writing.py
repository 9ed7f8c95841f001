"""New note passes the checks of a memory, and is never lost; sessions are listed, kept, corrected and erased."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from tests.helpers import held, session_writer

from .test_actions import section, undone

TEXT = "The lighthouse keeper counts the ships at dusk,\r\nand writes their names into a book."
SECRET = "The key is ghp_" + "a1B2c3D4e5" * 4


def typed(page: str) -> dict[str, str]:
    """What stands in the form."""
    form = page.partition('action="/do/new"')[2].partition("</form>")[0]
    area = re.search(r'<textarea name="text"[^>]*>\n(.*?)</textarea>', form, re.S)[1]
    fields = dict(re.findall(r'<input name="(\w+)" value="([^"]*)"', form))
    anyway = re.search(r'<button form="note" name="anyway" value="(\w+)"', page)
    return {
        **{name: unescape(value) for name, value in fields.items()},
        "text": unescape(area),
        **({"anyway": anyway[1]} if anyway else {}),
    }


def test_a_text_is_never_lost(browser, vault):
    """
    A text that is shared stands in the form as text. What is no secret, or no duplicate, is saved by saying so of this
    very text, with a button of its own. NUL is refused, and whatever the disk says, the text is not lost.
    """
    script = "</textarea><script>x</script>"
    page = browser.open(f"/new?title=Tides&text={script}")
    assert "<script>x" not in page
    assert typed(page) | {"text": script, "title": "Tides"} == typed(page)
    assert typed(browser.send("/do/new", 400, text=f"{TEXT}\0").text)["text"] == f"{TEXT}\0"
    form = typed(browser.send("/do/new", 400, text=SECRET, tags="ships").text)
    assert (form["text"], form["tags"]) == (SECRET, "ships")
    browser.send("/do/new", 400, **{**form, "anyway": "yes"})
    assert held(vault) == {}
    browser.send("/do/new", **form)
    browser.send("/do/new", text=TEXT)
    form = typed(browser.send("/do/new", 409, text=TEXT, title="Once more").text)
    assert form["text"] == TEXT
    # Pressed for another text than it was shown for, the checks are made again.
    assert "looks like" in browser.send("/do/new", 400, **{**form, "text": SECRET}).text
    assert len(held(vault)) == 2
    browser.send("/do/new", **form)
    assert len(held(vault)) == 3
    shutil.rmtree(vault / "memory")
    (vault / "memory").write_text("a file where the folder should be")
    page = browser.client.post("/do/new", data={"text": TEXT}, headers={"origin": "http://localhost:17950"})
    assert page.status_code >= 400
    assert typed(page.text)["text"] == TEXT


KEPT = "Rotate the signing keys every ninety days."
LONG = f"배포는 화요일에 한다. {'이유를 길게 말한다. ' * 300}끝."


@pytest.fixture
def sessions(vault: Path, book: Spellbook) -> Path:
    """A session with two exchanges, one of them long."""
    file = session_writer(vault)("new", KEPT, "I rotated them.", LONG, created="2026-11-20T10:00:00")
    book.reindex()
    return file


def test_sessions_have_a_menu_and_pages(browser, full, vault, book):
    """
    Without a session the page says how to get one, and no menu leads to it. Twenty are on a page.

    The form that keeps an exchange has all of its words, however many; other notes have no way to be kept.
    """
    assert 'href="/sessions"' not in browser.open("/")
    assert "spellbook capture on" in browser.open("/sessions")
    write = session_writer(vault)
    for number in range(25):
        write(f"s{number}", f"Words of {number}.", created=f"2026-09-01T10:00:{number:02}")
    file = write("long", LONG, created="2026-11-20T10:00:00")
    assert 'href="/sessions"' in browser.open("/")
    assert 'href="/sessions?offset=20"' in browser.open("/sessions")
    page = browser.open("/sessions?offset=20")
    assert (page.count("Words of"), "Words of 0." in page) == (6, True)
    assert "from a session<" in browser.open("/")
    place = browser.open("/note/session-long").split('href="/new?keep=')[1].partition('"')[0]
    assert browser.form(browser.open(f"/new?keep={place}"), "/do/new")["text"] == LONG
    file.write_text(file.read_text("utf-8").replace("trust: agent", "trust: trusted"), "utf-8")
    assert "/new?keep=" not in browser.open("/note/session-long")


def test_an_exchange_is_corrected_and_erased(browser, sessions, book, guarded, served):
    """
    The editor of every note changes its words; erased, it is in the trash, and undo brings every byte back.

    A reader's token has no buttons; one that is limited sees no session, which is private.
    """
    before = sessions.read_bytes()
    page = browser.open("/note/session-new")
    assert "from a session, not kept on purpose" in page
    form = browser.form(browser.open(section(page, "I rotated them.")), "/do/edit")
    page = browser.send("/do/edit", **form | {"content": form["content"].replace("ninety", "thirty")}).text
    assert b"every thirty days" in sessions.read_bytes()
    assert b"trust: agent\n" in sessions.read_bytes()
    undone(browser, page)
    assert sessions.read_bytes() == before
    place = browser.open("/note/session-new")
    asked = browser.press(place, "/do/erase", "session-new#10")
    page = browser.press(asked, "/do/erase")
    assert b"I rotated" not in sessions.read_bytes()
    undone(browser, page)
    assert sessions.read_bytes() == before
    for sees, is_there in (("private", True), ("team", False)):
        guarded.client.cookies.clear()
        guarded.send("/login", token=served.tokens.add(sees, "read", sees))
        assert ("Rotate" in guarded.open("/sessions")) is is_there
        assert ('href="/sessions"' in guarded.open("/")) is is_there
        assert ("/new?keep=" in guarded.open("/note/session-new", 200 if is_there else 404)) is False
