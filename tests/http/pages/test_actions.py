"""What a person does on the pages, by plain forms: each says what changed, and can be undone; no text is lost. Sessions."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.routing import Route

from spellbook.http import pages
from spellbook.http.pages import view
from spellbook.http.served import Served
from spellbook.http.tokens import SCOPES
from spellbook.library.book import Spellbook
from tests.helpers import Write, held, session_writer
from tests.http.pages.conftest import Browser

from ..running import form, lacks, shows


def test_a_long_section_has_one_editor(browser: Browser, full: dict[str, str], vault: Path, book: Spellbook) -> None:
    """
    A change elsewhere in the note is no conflict, and the file keeps the ends of its lines.

    The tick of a step stands in its note, as tools write it.
    """
    paragraphs = "\n\n".join(f"Paragraph {n}. " + "word " * 80 for n in range(12))
    text = f"# Long\n\n## One\n\n{paragraphs}\n\n## Two\n\nEnd.\n".replace("\n", "\r\n")
    (vault / "long.md").write_bytes(text.encode())
    book.reindex()
    sent = browser.form(browser.open("/note/long?edit=long%23one"), "/do/edit")
    assert sent["old"].rstrip() == sent["content"].rstrip()
    assert [each in sent["content"] for each in ("Paragraph 0.", "Paragraph 11.", "## Two")] == [True, True, False]
    (vault / "long.md").write_bytes((vault / "long.md").read_bytes().replace(b"End.", b"Ended."))
    changed = sent["content"].replace("Paragraph 7.", "Paragraph seven.").replace("\n", "\r\n")
    browser.send("/do/edit", **{**sent, "content": changed, "old": sent["old"].replace("\n", "\r\n")})
    wanted = text.replace("End.", "Ended.").replace("Paragraph 7.", "Paragraph seven.")
    assert (vault / "long.md").read_bytes().decode() == wanted
    assert "Paragraph seven." in browser.send("/do/edit", 409, **{**sent, "content": changed}).text
    assert (vault / "long.md").read_bytes().decode() == wanted
    sent = browser.form(browser.open("/decisions"), "/do/tick", "Write tests")
    page = browser.send("/do/tick", **sent).text
    shows(book.show(full["checkpoint"])[0].text, "- [x] Write tests", "- [ ] 편집 페이지")
    browser.press(page, "/do/tick", "Write tests")
    assert "- [ ] Write tests" in book.show(full["checkpoint"])[0].text
    assert "not there any more" in browser.send("/do/tick", 409, **{**sent, "step": "Sleep"}).text


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
def test_a_box_is_ticked(browser: Browser, vault: Path, book: Spellbook, head: str) -> None:
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
        sent = browser.form(page, "/do/tick")
        assert f'id="{fields["form"]}"' in page
        page = browser.send("/do/tick", **sent, at=fields["value"]).text
        where = text.index(line) if label != "milk more" else text.rindex(line)
        assert (vault / "list.md").read_text("utf-8") == text[:where] + ticked + text[where + len(line) :]
        browser.press(page, "/do/undo")
        assert (vault / "list.md").read_text("utf-8") == text


def test_a_box_of_a_changed_note_is_not_ticked(browser: Browser, vault: Path, book: Spellbook) -> None:
    """Nor one that the form makes up. A box is ticked also where lines end as on old Macs, or are blank around it."""
    (vault / "list.md").write_text(BOXES, "utf-8")
    book.reindex()
    sent = browser.form(browser.open("/note/list"), "/do/tick")
    for at in ("0", "10", "99", "-1", "x", "²"):
        browser.send("/do/tick", 409, **sent, at=at)
    (vault / "list.md").write_text(BOXES.replace("- [ ] milk", "- [ ] tea\n- [ ] milk", 1), "utf-8")
    browser.send("/do/tick", 409, **sent, at="2")
    assert "[x] tea" not in (vault / "list.md").read_text("utf-8")
    for text in ("a\rb\r\r- [ ] one\r- [ ] two\r", "  \na\n\n- [ ] one\n- [ ] two\n  \n"):
        (vault / "list.md").write_bytes(text.encode())
        page = browser.open("/note/list")
        at = re.findall(r'<button class="box[^>]* value="(\d+)"', page)[1]
        browser.press(page, "/do/tick", at=at)
        assert (vault / "list.md").read_bytes().decode() == text.replace("[ ] two", "[x] two")


def test_a_running_job_is_shown_until_its_end(
    browser: Browser,
    full: dict[str, str],
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    write_note: Write,
    vault: Path,
) -> None:
    """
    Its bar is on every page and asks for itself, a second one is refused, its button ends it, and so the asking.

    Similar notes, which a job finds, are merged after a look at what the merge would make. Backup, check and index are
    jobs of the page of health, whose lines warn until all is well.
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
    line = re.compile(r'<p class="line (\w+)">([^<]*)')
    assert [kind for kind, _ in line.findall(browser.open("/links"))] == ["warn"] * 4 + ["good"]
    for path in ("broken.md", "projects/배포.md", "projects/데이터베이스.md", "projects/marks.md"):
        (vault / path).unlink()
    for kind in ("snapshot", "check", "reindex"):
        browser.send(f"/do/{kind}", to="/")
        job = served.jobs.wait(served.jobs.all()[0].id, 30)
        assert (job.kind, job.state) == (kind, "done")
    _, *well = line.findall(browser.open("/links"))
    said = ("No two notes say the same.", "No link is broken.", "Every note can be read.", "Everything can be found.")
    assert well == [("good", each) for each in said]


def test_every_action_is_tried() -> None:
    """An action without a case here or in a transcript fails."""
    places = (*Path(__file__).parent.glob("test_*.py"), *Path(__file__).parents[2].glob("transcripts/pages_*.tesh"))
    source = "".join(each.read_text("utf-8") for each in places)
    actions = [each.path for module in pages.MODULES for each in module.ROUTES if isinstance(each, Route)]
    assert [
        path for path in actions if path.startswith("/do/") and not re.search(f'"{path}"|(send|press) {path} ', source)
    ] == []


TEXT = "The lighthouse keeper counts the ships at dusk,\r\nand writes their names into a book."
SECRET = "The key is ghp_" + "a1B2c3D4e5" * 4


def typed(page: str) -> dict[str, str]:
    """What stands in the form, and the button below it that saves this very text."""
    anyway = re.search(r'<button form="note" name="anyway" value="(\w+)"', page)
    return form(page, "/do/new") | ({"anyway": anyway[1]} if anyway else {})


def test_what_was_erased_is_saved_by_a_second_press(browser: Browser, vault: Path, write_note: Write) -> None:
    """A section that says again what was erased is saved if that very text is sent once more by its own button."""
    write_note("tides.md", TEXT)
    write_note("ferry.md", "The ferry leaves at nine.\n")
    browser.open("/")
    browser.send("/do/erase", id="tides", sure="yes")
    sent = {"note": "ferry", "id": "ferry#", "content": TEXT}
    page = browser.send("/do/edit", 400, **sent).text
    [anyway] = re.findall(r'name="anyway" value="(\w+)"', page)
    browser.send("/do/edit", 400, **{**sent, "content": f"{TEXT} ", "anyway": "yes"})
    assert "lighthouse" not in (vault / "ferry.md").read_text("utf-8")
    browser.send("/do/edit", **sent, anyway=anyway)
    assert "lighthouse" in (vault / "ferry.md").read_text("utf-8")


def test_a_text_is_never_lost(browser: Browser, vault: Path) -> None:
    """
    A text that is shared stands in the form as text. What is no secret, or no duplicate, is saved by saying so of this
    very text, with a button of its own. NUL is refused, and whatever the disk says, the text is not lost.
    """
    script = "</textarea><script>x</script>"
    page = browser.open(f"/new?title=Tides&text={script}")
    assert "<script>x" not in page
    assert typed(page) | {"text": script, "title": "Tides"} == typed(page)
    assert typed(browser.send("/do/new", 400, text=f"{TEXT}\0").text)["text"] == f"{TEXT}\0"
    kept = typed(browser.send("/do/new", 400, text=SECRET, tags="ships").text)
    assert (kept["text"], kept["tags"]) == (SECRET, "ships")
    browser.send("/do/new", 400, **{**kept, "anyway": "yes"})
    assert held(vault) == {}
    browser.send("/do/new", **kept)
    browser.send("/do/new", text=TEXT)
    kept = typed(browser.send("/do/new", 409, text=TEXT, title="Once more").text)
    assert kept["text"] == TEXT
    # Pressed for another text than it was shown for, the checks are made again.
    assert "looks like" in browser.send("/do/new", 400, **{**kept, "text": SECRET}).text
    assert len(held(vault)) == 2
    browser.send("/do/new", **kept)
    assert len(held(vault)) == 3
    shutil.rmtree(vault / "memory")
    (vault / "memory").write_text("a file where the folder should be")
    answer = browser.client.post("/do/new", data={"text": TEXT}, headers={"origin": "http://localhost:17950"})
    assert answer.status_code >= 400
    assert typed(answer.text)["text"] == TEXT


KEPT = "Rotate the signing keys every ninety days."
LONG = f"배포는 화요일에 한다. {'이유를 길게 말한다. ' * 300}끝."


@pytest.fixture
def sessions(vault: Path, book: Spellbook) -> Path:
    """A session with two exchanges, one of them long."""
    file = session_writer(vault)("new", KEPT, "I rotated them.", LONG, created="2026-11-20T10:00:00")
    book.reindex()
    return file


def test_sessions_have_a_menu_and_pages(browser: Browser, full: dict[str, str], vault: Path, book: Spellbook) -> None:
    """
    Without a session the page leads to the switch of capture, and no menu leads to it. Twenty are on a page.

    The form that keeps an exchange has all of its words, however many; other notes have no way to be kept.
    """
    assert 'href="/sessions"' not in browser.open("/")
    assert 'href="/settings#sessions"' in browser.open("/sessions")
    assert '<h2 id="sessions">' in browser.open("/settings")
    write = session_writer(vault)
    for number in range(25):
        write(f"s{number}", f"Words of {number}.", created=f"2026-09-01T10:00:{number:02}")
    file = write("long", LONG, created="2036-11-20T10:00:00")
    assert 'href="/sessions"' in browser.open("/")
    assert 'href="/sessions?offset=20"' in browser.open("/sessions")
    page = browser.open("/sessions?offset=20")
    assert (page.count("Words of"), "Words of 0." in page) == (6, True)
    assert "from a session<" in browser.open("/")
    place = browser.open("/note/session-long").split('href="/new?keep=')[1].partition('"')[0]
    assert browser.form(browser.open(f"/new?keep={place}"), "/do/new")["text"] == LONG
    file.write_text(file.read_text("utf-8").replace("trust: agent", "trust: trusted"), "utf-8")
    book.reindex()
    assert "/new?keep=" not in browser.open("/note/session-long")


def test_who_sees_sessions(sessions: Path, guarded: Browser, served: Served) -> None:
    """A reader's token has no buttons, and reads how capture is switched on; a limited one sees no private session."""
    for sees, is_there in zip(SCOPES, (True, False), strict=False):
        guarded.client.cookies.clear()
        guarded.send("/login", token=served.tokens.add(sees, "read", sees))
        page = guarded.open("/sessions")
        assert ("Rotate" in page) is is_there
        assert ("spellbook capture on" in page) is not is_there
        lacks(page, "/settings#sessions")
        assert ('href="/sessions"' in guarded.open("/")) is is_there
        assert ("/new?keep=" in guarded.open("/note/session-new", 200 if is_there else 404)) is False
