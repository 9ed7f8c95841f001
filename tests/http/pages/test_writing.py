"""New note: what a person writes on a page passes the checks of an agent's memory, and is never lost."""

from __future__ import annotations

import re
import shutil
from html import unescape

import pytest

from tests.helpers import held

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


def test_a_note_is_written_found_and_undone(browser, vault, book):
    """
    It has the title, topic, tags and source that were typed; the page that follows offers to undo it.

    Title, text and address that another app shares stand in the form, as text; nothing is written.
    """
    assert typed(browser.open("/new")) == {"title": "", "topic": "", "tags": "", "source": "", "text": ""}
    fields = {"title": "Ships at dusk", "topic": "harbour", "tags": "ships, #sea ,", "source": "Anna"}
    page = browser.send("/do/new", text=TEXT, **fields).text
    assert "counts the ships" in page
    [chunk] = book.find("lighthouse").hits
    meta = book.show(chunk.id)[0].meta
    assert {key: meta[key] for key in ("title", "topic", "category", "tags", "source")} == {
        "title": "Ships at dusk",
        "topic": "harbour",
        "category": "memory",
        "tags": ["ships", "sea"],
        "source": "Anna",
    }
    assert "\r" not in (vault / chunk.path).read_bytes().decode()
    browser.press(page, "/do/undo", 'name="entry"')
    assert held(vault) == {}
    script = "</textarea><script>x</script>"
    page = browser.open(f"/new?title=Tides&text={script}&url=https://example.com/tides")
    assert "<script>x" not in page
    assert typed(page) | {"text": script, "title": "Tides", "source": "https://example.com/tides"} == typed(page)
    assert typed(browser.open("/new?title=T&url=https://example.com/a"))["text"] == "https://example.com/a"
    assert typed(browser.open("/new?text=https://example.com/b"))["source"] == "https://example.com/b"
    assert "javascript:" not in re.sub(r'value="[^"]*"', "", browser.open("/new?url=javascript:alert(1)&text=x"))
    assert held(vault) == {}


def test_a_duplicate_is_named_first(browser, vault):
    """The near note is there to open, the text stays, and it is written if one says so of this very text."""
    browser.send("/do/new", text=TEXT)
    before = held(vault)
    page = browser.send("/do/new", 409, text=TEXT, title="Once more", tags="ships").text
    assert "You may have this already." in page
    assert re.search(r'<a class="title" href="/note/[^"]+" target="_blank">', page)
    form = typed(page)
    assert (form["title"], form["tags"]) == ("Once more", "ships")
    assert form["text"] == TEXT
    assert held(vault) == before
    # Pressed for another text than it was shown for, the checks are made again.
    assert "looks like" in browser.send("/do/new", 400, **{**form, "text": SECRET}).text
    assert held(vault) == before
    browser.send("/do/new", **form)
    assert len(held(vault)) == len(before) + 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": SECRET}, "a GitHub token"),
        ({"text": TEXT, "title": "t" * 301}, "Nothing was saved; your text is below."),
        ({"text": TEXT, "tags": f"x, {SECRET}"}, "a GitHub token"),
        ({"text": f"{TEXT}\0"}, "Nothing was saved; your text is below."),
        ({"text": " "}, "Nothing was saved; your text is below."),
    ],
    ids=["a secret", "a long title", "a secret in a tag", "NUL", "nothing"],
)
def test_what_is_refused_keeps_its_text(browser, vault, fields, reason):
    """
    The page says why, nothing is written, and all that was typed is in the form.

    What is no secret is saved by saying so, with a button of its own, which only this page gives.
    """
    page = browser.send("/do/new", 400, **fields).text
    assert reason in page
    assert {name: typed(page)[name] for name in fields} == fields
    browser.send("/do/new", 400, **{**typed(page), "anyway": "yes"})
    assert held(vault) == {}
    if fields["text"] == SECRET:
        browser.send("/do/new", **typed(page))
        assert len(held(vault)) == 1


def test_a_topic_leads_nowhere_else(browser, vault, book):
    """
    Whatever its name, the note is in the vault's folder of memories; without one, in the inbox.

    Whatever the disk says, the text is not lost.
    """
    browser.send("/do/new", text="우산은 현관 신발장 위에 있다.")
    assert [(each.topic, each.category) for each in book.recent().notes] == [("inbox", "memory")]
    for number, topic in enumerate(("../../etc", "/etc", "a\\b", "..", "<b>/x")):
        browser.send("/do/new", text=f"Fact {number * 7919} of the harbour.", topic=topic)
    assert {path.split("/")[0] for path in held(vault)} == {"memory"}
    assert {each.name for each in vault.parent.iterdir()} <= {"vault", "state", "data", "cache", "models"}
    shutil.rmtree(vault / "memory")
    (vault / "memory").write_text("a file where the folder should be")
    page = browser.client.post("/do/new", data={"text": TEXT}, headers={"origin": "http://localhost:17950"})
    assert page.status_code >= 400
    assert typed(page.text)["text"] == TEXT


def test_only_our_form_writes(guarded, served, vault):
    """A cookie alone writes nothing, and neither does a token that may only read."""
    guarded.send("/login", token=served.tokens.add("me", "write"))
    assert "not from a page of this server" in guarded.send("/do/new", 403, text=TEXT).text
    csrf = guarded.form(guarded.open("/new"), "/do/new")["csrf"]
    assert held(vault) == {}
    guarded.send("/do/new", text=TEXT, csrf=csrf)
    assert len(held(vault)) == 1
    guarded.client.cookies.clear()
    guarded.send("/login", token=served.tokens.add("reader", "read"))
    csrf = guarded.form(guarded.open("/"), "/logout")["csrf"]
    assert guarded.client.get("/new").status_code == 403
    guarded.send("/do/new", 403, text="Another text about the northern cape.", csrf=csrf)
    assert len(held(vault)) == 1
