"""The page of a note: its folders and neighbours, its properties as a person reads them, and its pictures."""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from spellbook.http.pages import notes as pages
from spellbook.library.book import Spellbook
from spellbook.vault import folder

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


def test_pictures_of_the_vault_are_shown(browser, diary, monkeypatch):
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
    monkeypatch.setattr(folder, "MOST_PICTURE", 10)
    answer = browser.client.get(picture("Attachments/하늘.png"))
    assert answer.status_code >= 400
    assert PNG not in answer.content


def test_a_limited_token_sees_pictures_of_its_notes_alone(guarded, diary, served):
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


def test_dates_beyond_all_clocks_stay_text() -> None:
    """What is no date stays text, also a date that no calendar has, and one beyond all clocks."""
    meta = {"a": "0001-01-01T00:00:00+14:00", "b": "2026-13-01", "c": "9999-12-31 23:59:59-12:00", "d": "2026-05-02x"}
    read = {each.key: each.kind for each in pages.listed_properties(meta, (), lambda text, *_: text)}
    assert (read["b"], {*read.values()} <= {"text", "date"}) == ("text", True)
