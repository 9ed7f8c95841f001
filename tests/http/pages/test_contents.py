"""The table of contents, the page that searches, and the page of a note with its pictures."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from spellbook.http.pages import contents_and_search, excerpts
from spellbook.http.served import Served
from spellbook.library.book import Spellbook
from spellbook.search import presentation
from spellbook.search.scores import FOREIGN
from spellbook.vault import pictures
from tests.helpers import Write
from tests.search.candidates import candidate

from ..running import shows
from .conftest import Browser


def rows(page: str) -> dict[str, int]:
    """The rows of a page's trees, with their counts."""
    found = re.findall(r'<li><a href="/contents[^"]*">([^<]*)</a> <span class="small">([\d,]+)</span>', page)
    return {unescape(name): int(count.replace(",", "")) for name, count in found}


@pytest.mark.parametrize(
    ("title", "text", "line"),
    [
        ("Keel", "# Keel\n\nWood.\n", "Wood."),
        ("We sail…", "We sail at noon.", "at noon."),
        ("We sail", "We sail; the tide turns.", "the tide turns."),
        ("배", "배포는 화요일.", "배포는 화요일."),
        ("Same.", "Same.", ""),
        ("", "", ""),
        ("x", "<!-- 2026-01-01 ab -->\n> **You:** hi\n- [ ] tick\n| a | b |", "You: hi tick a b"),
        ("x", "word " * 200, "word " * 43 + "word …"),
        ("x", "a" * 900, "a" * 220 + " …"),
    ],
)
def test_a_line_of_a_note(title: str, text: str, line: str) -> None:
    """It says what the title does not, without marks, and is short."""
    assert excerpts.gist(candidate().chunk._replace(title=title, packed=text)) == line


@pytest.mark.parametrize(
    ("title", "text", "rest"),
    [
        ("We sail", "We sail.", ""),
        ("We sail.", "We sail.\n", ""),
        ("We sail", "**We sail.** The tide turns.", "The tide turns."),
        ("Do we sail?", "Do we sail? At noon.", "At noon."),
        ("배는 정오에 떠난다", "배는 정오에  떠난다.\n\n비가 오면 쉰다.", "비가 오면 쉰다."),
        ("We sail at…", "We sail at noon.", "noon."),
        ("Keel", "# Keel\n\nKeel. Wood.", "Wood."),
        ("Keel", "Keel and mast.", None),
        ("배", "배포는 화요일.", None),
        ("Log", "We sail.", None),
        ("…", "… and we sail.", None),
        ("", "We sail.", None),
    ],
)
def test_a_title_that_is_the_first_sentence_is_known(title: str, text: str, rest: str | None) -> None:
    """A title repeats a text if it is its first sentence, whole or cut by "…"; a word that both begin with is none."""
    assert excerpts.after_title(title, text) == rest


def test_a_title_that_repeats_the_text_is_shown_once(browser: Browser, write_note: Write, book: Spellbook) -> None:
    """In lists, among hits, on the note's page and in its editor; the heading stays for those who cannot see."""
    write_note("m/a.md", "The <spare> key hangs in the hall.", title="The <spare> key hangs in the hall")
    write_note("m/b.md", "The ladder stands in the cellar. Ask Mina.", title="The ladder stands in the cellar")
    book.reindex()
    once = re.compile("key hangs in the hall|ladder stands in the cellar")

    def shown(place: str) -> str:
        return re.sub(r"<mark>|</mark>|<title>.*?</title>|<input[^>]*>", "", browser.open(place))

    for place in ("/", "/contents?folder=m", "/search?q=hall", "/search?q=ladder"):
        found = Counter(once.findall(shown(place)))
        assert found, place
        assert set(found.values()) == {1}, place
    shows(browser.open("/search?q=ladder"), '<p class="text">Ask Mina.</p>')
    for place in ("/note/m/a", "/note/m/b", "/note/m/a?edit=m/a%23", "/note/m/a?edit=m/a"):
        page = shown(place).partition('<aside class="aside"')[0]
        seen = re.sub('<(h1|span) class="skip">.*?</\\1>|aria-label="[^"]*"', "", page)
        assert len(once.findall(page)) > len(once.findall(seen)) == 1, place
    shows(browser.open("/note/m/a"), '<h1 class="skip">The &lt;spare&gt; key hangs in the hall</h1>')


def test_a_large_vault_is_a_small_page(browser: Browser, vault: Path, book: Spellbook, write_note: Write) -> None:
    """
    Of three hundred folders with as many in them, the first level comes, bounded, and says what is left out.

    Spellbook's own guides are in no tree. Hostile names of folders, tags and topics stay text, on the page and in addresses.
    """
    write_note("system/en/chunking.md", "How to cut.", category="system", guide="chunking", tags="[guide]")
    for number in range(210):
        folder = vault / f"folder {number}" / "inner"
        folder.mkdir(parents=True)
        (folder / "note.md").write_text(f"Note {number}.", "utf-8")
    book.reindex()
    page = browser.open("/contents")
    assert "and 10 more; the filter finds them" in page
    assert not re.search("inner|system|tag=guide", page)
    assert len(page) < 120_000
    assert rows(browser.open("/contents?find=folder 209/")) == {"folder 209/inner": 1}
    evil = '"><script>alert(1)<script>'
    write_note(f"{evil}/&amp;/deep/x.md", "x", tags='["<svg onload=1>"]', category="'<i>'", topic="'<b onclick=1>'")
    book.reindex()
    for place in ("", f"?folder={quote(evil)}", "?find=script", f"?folder={quote(evil)}/%26amp;"):
        page = browser.open(f"/contents{place}")
        assert "<script>a" not in page, place
        assert not re.search("<svg onload|<b onclick|<i>", page), place
    assert rows(browser.open(f"/contents?folder={quote(evil)}")) == {"&amp;": 1}


PART = {"hx-request": "true"}


def hits(page: str) -> list[str]:
    """The addresses of a page's hits, in order."""
    return [unescape(each) for each in re.findall(r'<h2><a data-hit href="([^"]+)"', page)]


@pytest.fixture
def many(vault: Path, book: Spellbook) -> None:
    """Twenty-three notes about one thing, one of which has four sections about it."""
    for number in range(22):
        (vault / f"day {number}.md").write_text(f"# Day {number}\n\nThe lighthouse blinks, {number} times.\n", "utf-8")
    sections = "".join(f"## Watch {number}\n\nThe lighthouse, the lighthouse!\n\n" for number in range(4))
    (vault / "keeper.md").write_text(f"# Keeper of the light\n\n{sections}", "utf-8")
    book.reindex()


def test_ten_hits_and_more_on_demand(browser: Browser, many: None) -> None:
    """
    Each note is a hit once, over three pages; a link leads on without a script, and a script appends the hits behind it.

    The other sections of a note are folded links below its hit. Whatever the address says, a page has at most ten hits.
    The dialog gets at most eight, a line each, and the way to all, for a script alone; without one the address is the page.
    """
    page, seen = browser.open("/search?q=lighthouse&mode=find"), list[str]()
    assert "23 notes, best first" in page
    assert "2·" not in page
    for count in (10, 10, 3):
        assert len(hits(page)) == count
        seen += hits(page)
        more = re.search(r'class="button" data-hit href="([^"]+)" hx-get="\1"', page)
        assert bool(more) is (count == 10)
        if more:
            address = unescape(more[1])
            page = browser.open(address)
            first = page.partition('<article class="hit">')[2].partition("</article>")[0]
            assert "autofocus" in first  # the keys go on at the first new hit
    assert len({each.partition("#")[0] for each in seen}) == len(seen) == 23
    page = browser.open("/search?q=lighthouse&mode=find")
    (keeper,) = [each for each in re.findall('<article class="hit">.*?</article>', page, re.S) if "Keeper" in each]
    assert "3 more sections" in keeper
    assert len(set(re.findall(r'href="(/note/keeper#s-watch-\d)"', keeper))) == 4
    for offset in ("-1", "x", "7", "999999999", "<script>"):
        assert len(hits(browser.open(f"/search?q=lighthouse&offset={offset}"))) <= 10
    part = browser.client.get("/search?brief=1&q=lighthouse", headers=PART).text
    assert part.count("<li>") == 8
    shows(part, 'href="/search?q=lighthouse"', 'data-question="lighthouse"')
    assert "<h1>" in browser.open("/search?brief=1&q=lighthouse")
    assert hits(browser.client.get("/search?brief=1&q=", headers=PART).text) == []
    assert "Nothing" in browser.client.get("/search?brief=1&q=zzzzqq&mode=find", headers=PART).text
    page = Browser(browser.client, "ko").open("/search?q=lighthouse&mode=find")
    shows(page, "노트 23개, 관련도순", "다른 섹션 3개")


def test_another_language_is_told_only_of_another_script(
    book: Spellbook, write_note: Write, browser: Browser, vault: Path
) -> None:
    """
    Of a text in the script of the question the pages do not say so: languages of short texts are mistaken.

    A synonym that led to a note is marked in it, as it is written there, and the reason tells both. An excerpt is cut
    around the sentence that answers.
    """
    write_note("es.md", "El puerto fue reconstruido tras la inundación y está abierto a los barcos del norte.")
    book.reindex()
    asked = "what is the name of the pilot who was there?"
    (hit,) = book.search(asked, min_score=0.0).hits
    korean = replace(hit, chunk=hit.chunk._replace(packed="항구는 북쪽에서 오는 배에 열려 있다."))
    for shown, is_told in (
        (hit, True),
        (contents_and_search.explained(hit, asked), False),
        (contents_and_search.explained(korean, asked), True),
    ):
        assert any(FOREIGN in reason for reason in presentation.reasons(shown)) is is_told
    (vault / "store.md").write_text("# Store\n\nLogins lie in Redis, not in a redistribution.\n", "utf-8")
    (vault / "saeng.md").write_text("# 저장소\n\n레디스는 빠르다.\n", "utf-8")
    book.reindex()
    page = browser.open("/search?q=레디스")
    shows(page, "<mark>Redis</mark>, not in a redistribution", "<mark>레디스</mark>는", "words: 레디스 = Redis")
    page = Browser(browser.client, "ko").open("/search?q=redis")
    shows(page, "<mark>레디스</mark>는", "단어: redis = 레디스")
    write_note("long.md", f"{'Tea and rain. ' * 60}The lighthouse blinks. {'Rain. ' * 90}")
    page = Browser(browser.client).open("/search?q=lighthouse")
    (bold,) = re.findall('<p class="text">.*?<strong>(.*?)</strong>.*?</p>', page)
    assert re.sub("</?mark>", "", bold) == "The lighthouse blinks."


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff"
    "5cc9b2a00000000049454e44ae426082"
)
NOTE = """# 그림 일기

![[하늘.png|300]] ![바다](media/바다.jpg) ![[media/움직임.gif]]

![멀리](https://elsewhere.test/far.png) ![[없는 그림.png]] ![[logo.svg]] ![x](javascript:alert(1))

[[숨김.png]] `![[코드.png]]`
"""


@pytest.fixture
def diary(vault: Path, book: Spellbook) -> Path:
    """A note with pictures of the vault, and files that it must not show."""
    (vault / "일기" / "media").mkdir(parents=True)
    (vault / "Attachments").mkdir()
    for path in ("Attachments/하늘.png", "숨김.png", "코드.png", "other.png"):
        (vault / path).write_bytes(PNG)
    (vault / "일기/media/바다.jpg").write_bytes(b"\xff\xd8\xff\xe0 a photograph")
    (vault / "일기/media/움직임.gif").write_bytes(b"<html><script>alert(1)</script>")
    (vault / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (vault / "일기/그림.md").write_text(NOTE, "utf-8")
    book.reindex()
    return vault


def picture(path: str, note: str = "일기/그림") -> str:
    """The address of a picture in a note."""
    return f"/image/{quote(note)}?path={quote(path, safe='')}"


def test_pictures_of_the_vault_are_shown(browser: Browser, diary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of both forms, by name and by path, with width and description; each other one says why it is not.

    A picture is sent as one by its bytes, whatever its name; nothing in it may run; asked again, it is not sent again.
    Only what a note embeds is sent: no other file, no other type, nothing outside, hidden, ignored, linked or too
    large.
    """
    page = browser.open("/note/일기/그림")
    shown = {unescape(src): rest for src, rest in re.findall(r'<img src="(/image/[^"]*)"([^>]*)>', page)}
    assert set(shown) == set(map(picture, ("Attachments/하늘.png", "일기/media/바다.jpg", "일기/media/움직임.gif")))
    assert 'alt="하늘" width="300" loading="lazy"' in shown[picture("Attachments/하늘.png")]
    assert 'alt="바다"' in shown[picture("일기/media/바다.jpg")]
    for name, why in (
        ("멀리 · https://elsewhere.test/far.png", "This picture is on another computer"),
        ("없는 그림.png", "There is no such picture in the vault."),
        ("logo.svg", "Pictures of this kind are not shown"),
    ):
        assert re.search(f'<span class="picture">{re.escape(name)}<span class="why">{why}', page), name
    assert not re.search(r'(?:src|href)="[^"]*(?:elsewhere|javascript)', page)
    for path, kind in (("Attachments/하늘.png", "image/png"), ("일기/media/바다.jpg", "image/jpeg")):
        answer = browser.client.get(picture(path))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
        assert answer.content == (diary / path).read_bytes()
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none', default-src 'none';")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == "inline"
        assert answer.headers["cache-control"] == "private, no-cache"
        again = browser.client.get(picture(path), headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    (diary / "Attachments/하늘.png").write_bytes(PNG + b" ")
    known = {"if-none-match": answer.headers["etag"]}
    assert browser.client.get(picture("Attachments/하늘.png"), headers=known).content
    assert "sandbox" not in browser.client.get("/").headers["content-security-policy"]
    (diary.parent / "outside.png").write_bytes(PNG)
    for name in (".hidden", ".spellbook", ".obsidian", "drafts", "일기/media"):
        (diary / name).mkdir(exist_ok=True)
        (diary / name / "secret.png").write_bytes(PNG)
    (diary / ".spellbookignore").write_text("drafts/\n")
    os.symlink(diary.parent / "outside.png", diary / "way-out.png")
    os.symlink(diary / ".hidden" / "secret.png", diary / "way-in.png")
    os.symlink(diary / ".hidden", diary / "folder")
    targets = (
        *(
            "../../outside.png",
            "/etc/passwd.png",
            ".hidden/secret.png",
            "../.hidden/secret.png",
            "/.obsidian/secret.png",
        ),
        *("drafts/secret.png", "/drafts/secret.png", "way-out.png", "way-in.png", "folder/secret.png", "/logo.svg"),
        *("..%2f..%2foutside.png", "../.spellbook/secret.png"),
    )
    text = "\n".join(f"![[{each}]] ![](<{each}>)" for each in targets)
    (diary / "일기/그림.md").write_text(f"{NOTE}\n{text}\n", "utf-8")
    asked = (
        "",
        "other.png",
        "숨김.png",
        "코드.png",
        "일기/그림.md",
        "logo.svg",
        "일기/media/움직임.gif",
        "media/바다.jpg",
    )
    inside = ("outside.png", "drafts/secret.png", ".hidden/secret.png", "일기/../other.png", "\0.png", "a" * 5000)
    for path in (*asked, *inside, *targets, str(diary / "other.png"), "일기/media/secret.png"):
        answer = browser.client.get(picture(path))
        assert answer.status_code in {400, 404, 422}, path
        assert PNG not in answer.content, path
    assert browser.client.get(picture("Attachments/하늘.png", "nowhere")).status_code == 404
    monkeypatch.setattr(pictures, "MOST_PICTURE", 10)
    answer = browser.client.get(picture("Attachments/하늘.png"))
    assert answer.status_code >= 400
    assert PNG not in answer.content


def test_a_limited_token_sees_pictures_of_its_notes_alone(guarded: Browser, diary: Path, served: Served) -> None:
    """A public note's picture is shown; that of another note is not, even while its address is known."""
    (diary / "public.md").write_text("---\nprivacy_scope: public\n---\n![[other.png]] and [[숨김.png]]\n", "utf-8")
    served.book.reindex()
    secret = served.tokens.add("reader", "read", "public")
    assert guarded.client.get(picture("other.png", "public"), headers={"accept": "image/*"}).status_code == 401
    guarded.client.headers["authorization"] = f"Bearer {secret}"
    assert 'alt="other"' in guarded.open("/note/public")
    assert guarded.client.get(picture("other.png", "public")).content == PNG
    for path, note in (
        ("Attachments/하늘.png", "일기/그림"),
        ("Attachments/하늘.png", "public"),
        ("숨김.png", "public"),
    ):
        assert guarded.client.get(picture(path, note)).status_code == 404
    (diary / "public.md").write_text("---\nprivacy_scope: private\n---\n![[other.png]]\n", "utf-8")
    assert guarded.client.get(picture("other.png", "public")).status_code == 404
