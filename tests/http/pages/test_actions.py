"""What a person does on the pages, by plain forms: each says what changed, and can be undone; no text is lost. Sessions."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import threading
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from starlette.routing import Route

from spellbook.http import pages
from spellbook.http.pages import view
from spellbook.library.book import Spellbook
from tests.helpers import held, session_writer

from ..running import shows
from .conftest import NOTES, Browser

NOTE = "projects/배포"
PLACE = f"/note/{NOTE}"


def undone(browser: Browser, page: str) -> str:
    """Press the button that a page offers after a change."""
    assert "entry" in page
    return browser.press(page, "/do/undo", 'name="entry"')


def section(page: str, text: str) -> str:
    """The address of the editor of the section that contains a text."""
    (found,) = [part for part in re.findall(r'<section class="section".*?</section>', page, re.S) if text in part]
    return re.search(r'href="([^"#]*\?edit=[^"#]*)', found)[1].replace("&amp;", "&")


def test_a_section_is_edited(browser, full, vault, book):
    """
    The text of a section is saved, found at once, and undone; nothing else of the file changes.

    An editor begins with the text, without an empty line, which would be taken out of the file as well. A section is
    added at the end, below its heading if it has one; what is refused is not lost, and replaces nothing. Only
    properties whose fields were changed are written, each as YAML; an empty one is taken away.
    """
    page = browser.open(section(browser.open(PLACE), "git revert"))
    form = browser.form(page, "/do/edit")
    assert form["content"].startswith("## Rollback")
    text = "## Rollback\r\n\r\nRedeploy the tag before: `zanzibar`.\r\n\r\n</textarea><script>x</script>\r\n"
    shown = browser.send("/do/edit", **{**form, "content": text}).text
    shows(shown, "zanzibar", "Saved.")
    assert "<script>x" not in shown
    now = (vault / f"{NOTE}.md").read_text("utf-8")
    assert now.startswith(NOTES[f"{NOTE}.md"].partition("## Rollback")[0])
    assert "\r" not in now
    assert "<mark>zanzibar</mark>" in browser.open("/search?q=zanzibar&mode=find")
    assert "Undone." in undone(browser, shown)
    assert (vault / f"{NOTE}.md").read_text("utf-8") == NOTES[f"{NOTE}.md"]
    text = "---\ntopic: x\n---\n\n\nFirst.\n\n## Second\n\nEnd.\n\n\n"
    (vault / "a.md").write_text(text, "utf-8")
    book.reindex()
    for id in ("a", "a#", "a#second"):
        form = browser.form(browser.open(f"/note/a?edit={id.replace('#', '%23')}"), "/do/edit")
        assert form["content"].strip("\n") == form["content"]
        browser.send("/do/edit", **form)
        assert (vault / "a.md").read_text("utf-8") == text
    file = vault / f"{NOTE}.md"
    form = browser.form(browser.open(f"{PLACE}?add=yes"), "/do/edit")
    undone(browser, browser.send("/do/edit", **form | {"heading": " After\r\nit ", "content": "Rest.\r\nSleep."}).text)
    assert file.read_text("utf-8") == NOTES[f"{NOTE}.md"]
    browser.send("/do/edit", **form | {"heading": "After it", "content": "Rest."})
    assert file.read_text("utf-8") == NOTES[f"{NOTE}.md"] + "\n## After it\n\nRest.\n"
    page = browser.send("/do/edit", 400, **form | {"content": "The password: hunter2-Zq8!kP"}).text
    kept = browser.form(page, "/do/edit")
    assert kept["content"].endswith("hunter2-Zq8!kP")
    browser.send("/do/edit", **kept | {"content": "It is in the safe."})
    assert file.read_text("utf-8") == NOTES[f"{NOTE}.md"] + "\n## After it\n\nRest.\n\nIt is in the safe.\n"
    form = browser.form(browser.open(PLACE), "/do/properties")
    assert form["is.tags"] == "[ops, 배포]"
    page = browser.send(
        "/do/properties", **{**form, "is.topic": "", "is.tags": "[ops]", "new": "owner", "value": "민수"}
    ).text
    meta = book.show(NOTE)[0].meta
    assert (meta["tags"], meta["owner"], "topic" in meta, meta["title"]) == (["ops"], "민수", False, "배포 절차")
    undone(browser, page)
    assert book.show(NOTE)[0].meta["topic"] == "deploy"
    browser.send("/do/properties", 400, **form)


def test_nothing_is_written_over_what_others_wrote(browser, full, vault, book):
    """
    The second of two tabs to save sees both texts, and nothing is written until they choose.

    Whoever edits a section that was removed meanwhile gets their text back, and the first words of a note replace no
    others that came before them. A long section has one editor; a change elsewhere in the note is no conflict.
    """
    file = vault / f"{NOTE}.md"
    first = second = browser.form(browser.open(section(browser.open(PLACE), "git revert")), "/do/edit")
    browser.send("/do/edit", **{**first, "content": "## Rollback\n\nMine."})
    page = browser.send("/do/edit", 409, **{**second, "content": "## Rollback\n\nYours, with <b>care</b>."}).text
    shows(page, "Mine.", "Yours, with &lt;b&gt;care&lt;/b&gt;.")
    assert "Yours" not in file.read_text("utf-8")
    browser.press(page, "/do/edit")
    assert "Yours, with <b>care</b>." in file.read_text("utf-8")
    file.write_text(NOTES[f"{NOTE}.md"].partition("## Rollback")[0], "utf-8")
    assert "Long work." in browser.send("/do/edit", 409, **{**second, "content": "## Rollback\n\nLong work."}).text
    page = browser.send("/do/edit", 400, **{**second, "id": f"{NOTE}#순서", "hash": "", "content": " "}).text
    assert "The new content is empty." in page
    (vault / "a.md").write_text("---\ntopic: x\n---\n", "utf-8")
    book.reindex()
    form = browser.form(browser.open("/note/a?edit=a"), "/do/edit")
    (vault / "a.md").write_text("---\ntopic: x\n---\nTheirs.\n", "utf-8")
    assert "Mine." in browser.send("/do/edit", 409, **form | {"content": "Mine."}).text
    assert "Theirs." in (vault / "a.md").read_text("utf-8")
    paragraphs = "\n\n".join(f"Paragraph {n}. " + "word " * 80 for n in range(12))
    text = f"# Long\n\n## One\n\n{paragraphs}\n\n## Two\n\nEnd.\n".replace("\n", "\r\n")
    (vault / "long.md").write_bytes(text.encode())
    book.reindex()
    form = browser.form(browser.open(section(browser.open("/note/long"), "Paragraph 7.")), "/do/edit")
    assert form["old"].rstrip() == form["content"].rstrip()
    assert [each in form["content"] for each in ("Paragraph 0.", "Paragraph 11.", "## Two")] == [True, True, False]
    (vault / "long.md").write_bytes((vault / "long.md").read_bytes().replace(b"End.", b"Ended."))
    changed = form["content"].replace("Paragraph 7.", "Paragraph seven.").replace("\n", "\r\n")
    browser.send("/do/edit", **{**form, "content": changed, "old": form["old"].replace("\n", "\r\n")})
    wanted = text.replace("End.", "Ended.").replace("Paragraph 7.", "Paragraph seven.")
    assert (vault / "long.md").read_bytes().decode() == wanted
    assert "Paragraph seven." in browser.send("/do/edit", 409, **{**form, "content": changed}).text
    assert (vault / "long.md").read_bytes().decode() == wanted


def test_a_note_is_edited_whole(browser, full, vault, book):
    """
    All of its text and no property; what others wrote meanwhile stays, and both texts are shown.

    The tick of a step stands in its note, as tools write it.
    """
    file, before = vault / f"{NOTE}.md", NOTES[f"{NOTE}.md"]
    form = browser.form(browser.open(f"{PLACE}?edit={NOTE}"), "/do/edit")
    assert form["content"] == form["old"] == before.partition("---\n# ")[2].join(["# ", ""]).rstrip("\n")
    browser.send("/do/pin", id=NOTE, pinned="true")
    text = form["content"].replace("# 배포 절차", "# 배포\r\n\r\n첫 줄.").replace("Use ", "Try ")
    page = browser.send("/do/edit", **form | {"content": text}).text
    assert "첫 줄." in page
    assert "pinned: true" in file.read_text("utf-8")
    assert file.read_text("utf-8").endswith("Try `git revert`." + before.rpartition("Use `git revert`.")[2])
    page = browser.send("/do/edit", 409, **form | {"content": "Mine alone."}).text
    shows(page, "Mine alone.", "첫 줄.")
    assert "Mine" not in file.read_text("utf-8")
    form = browser.form(page, "/do/edit")
    assert "The new content is empty" in browser.send("/do/edit", 400, **form | {"content": " \r\n"}).text
    browser.send("/do/edit", **form)
    assert file.read_text("utf-8").endswith("---\nMine alone.\n")
    form = browser.form(browser.open("/decisions"), "/do/tick", "Write tests")
    page = browser.send("/do/tick", **form).text
    shows(book.show(full["checkpoint"])[0].text, "- [x] Write tests", "- [ ] 편집 페이지")
    browser.press(page, "/do/tick", "Write tests")
    assert "- [ ] Write tests" in book.show(full["checkpoint"])[0].text
    assert "not there any more" in browser.send("/do/tick", 409, **{**form, "step": "Sleep"}).text


BOXES = (
    "# List\n\n- [ ] milk\n- [x] **bread** and [[a|jam]]\n- [ ] milk\n  more\n\n"
    "> [!tip] T\n> - [ ] quoted\n\n```\n- [ ] code\n```\n\n1. [X] one\n   - [ ] inner\n\n- [] none\n"
)


TICKS = (
    ("milk", "- [ ] milk", "- [x] milk"),
    ("bread and jam", "- [x] **bread**", "- [ ] **bread**"),
    ("milk more", "- [ ] milk\n  more", "- [x] milk\n  more"),
    ("quoted", "> - [ ] quoted", "> - [x] quoted"),
    ("one", "1. [X] one", "1. [ ] one"),
    ("inner", "   - [ ] inner", "   - [x] inner"),
)
"""For each box its label, its line, and its line once it was pressed."""


@pytest.mark.parametrize("head", ["", "---\ntitle: List\n---\n", "Text above.\n\n"])
def test_a_box_is_ticked(browser, vault, book, head):
    """One byte changes, also where two boxes are alike or something in code looks like one; undo brings it back."""
    text = head + BOXES
    (vault / "list.md").write_text(text, "utf-8")
    book.reindex()
    for number, (label, line, ticked) in enumerate(TICKS):
        page = browser.open("/note/list")
        buttons = re.findall(r'<button class="box[^"]*" ([^>]*)>', page)
        assert len(buttons) == 6
        fields = dict(re.findall(r'([\w-]+)="([^"]*)"', buttons[number]))
        assert " ".join(fields["aria-label"].split()) == label
        form = browser.form(page, "/do/tick")
        assert f'id="{fields["form"]}"' in page
        page = browser.send("/do/tick", **form, at=fields["value"]).text
        where = text.index(line) if label != "milk more" else text.rindex(line)
        assert (vault / "list.md").read_text("utf-8") == text[:where] + ticked + text[where + len(line) :]
        undone(browser, page)
        assert (vault / "list.md").read_text("utf-8") == text


def test_a_box_of_a_changed_note_is_not_ticked(browser, vault, book):
    """Nor one that the form makes up. A box is ticked also where lines end as on old Macs, or are blank around it."""
    (vault / "list.md").write_text(BOXES, "utf-8")
    book.reindex()
    form = browser.form(browser.open("/note/list"), "/do/tick")
    for at in ("0", "10", "99", "-1", "x", "²"):
        browser.send("/do/tick", 409, **form, at=at)
    (vault / "list.md").write_text(BOXES.replace("- [ ] milk", "- [ ] tea\n- [ ] milk", 1), "utf-8")
    browser.send("/do/tick", 409, **form, at="2")
    assert "[x] tea" not in (vault / "list.md").read_text("utf-8")
    for text in ("a\rb\r\r- [ ] one\r- [ ] two\r", "  \na\n\n- [ ] one\n- [ ] two\n  \n"):
        (vault / "list.md").write_bytes(text.encode())
        page = browser.open("/note/list")
        at = re.findall(r'<button class="box[^>]* value="(\d+)"', page)[1]
        browser.press(page, "/do/tick", at=at)
        assert (vault / "list.md").read_bytes().decode() == text.replace("[ ] two", "[x] two")


def test_a_running_job_is_shown_until_its_end(browser, full, served, monkeypatch, write_note):
    """
    Its bar is on every page and asks for itself, a second one is refused, its button ends it, and so the asking.

    Similar notes, which a job finds, are merged after a look at what the merge would make.
    """
    go = threading.Event()

    def work(report: Callable[[str, int, int], None]) -> None:
        while not go.wait(0.01):
            report("reading", 3, 7)

    job = served.jobs.start("reindex", work)
    try:
        page = browser.open("/contents")
        for part in (page, browser.open("/job")):
            shows(part, "Running: reindex", '<div hx-get="/job" hx-trigger="every 2s" hx-target="#job">')
        refusal = f"Another job is running: reindex (job {job.id})."
        assert refusal in browser.send("/do/snapshot", 409).text
        answer = browser.client.post("/api/snapshots")
        assert (answer.status_code, answer.json()["error"]["message"]) == (409, refusal)
        browser.press(page, "/do/cancel")
        assert served.jobs.wait(job.id, 10).state == "cancelled"
    finally:
        go.set()
    for part in (browser.open("/contents"), browser.open("/job")):
        assert "Ended: reindex" in part
        assert 'hx-trigger="every' not in part
    monkeypatch.setattr(view, "ENDED", dt.timedelta(0))
    assert "Ended: reindex" not in browser.open("/contents")
    assert "Ended: reindex" in browser.open("/job")
    for name in "ab":
        write_note(f"{name}.md", "The quick brown fox jumps over the lazy dog near the river bank.", topic="fox")
    browser.send("/do/check", to="/upkeep")
    assert served.jobs.wait(served.jobs.all()[0].id, 30).state == "done"
    merged = browser.press(browser.open("/upkeep"), "/do/merge", "a.md")
    assert "b.md" in merged
    assert "quick brown fox" in browser.press(merged, "/do/merge", "sure")


def test_every_action_is_tried():
    """An action without a case here or in a transcript fails."""
    places = (*Path(__file__).parent.glob("test_*.py"), *Path(__file__).parents[2].glob("transcripts/pages_*.tesh"))
    source = "".join(each.read_text("utf-8") for each in places)
    actions = [each.path for module in pages.MODULES for each in module.ROUTES if isinstance(each, Route)]
    assert [
        path for path in actions if path.startswith("/do/") and not re.search(f'"{path}"|send {path} ', source)
    ] == []


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
