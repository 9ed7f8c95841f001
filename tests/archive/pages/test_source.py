"""Reading a page: web, file or given text; by a child process with limits, and never a file that is no document."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spellbook.archive.pages import child
from spellbook.archive.pages.source import ArticlePage, read
from spellbook.settings.limits import MOST_PDF
from spellbook.system.errors import FetchError, InvalidInput, PermissionDenied
from tests.archive.pages.documents import HEAD, PAGES, PARAGRAPH, page, pdf
from tests.archive.pages.site import Site


def test_a_page_of_the_web(site: Site) -> None:
    """In EUC-KR, through a redirect: the address is where it ended, the canonical one without tracking."""
    head = f'{HEAD.replace("utf-8", "euc-kr")}<link rel="canonical" href="/a/1?utm_source=x&amp;id=2">'
    there = site.add("/a/1?id=2", page(head).decode().encode("cp949"), content_type="text/html; charset=euc-kr")
    got = read(site.add("/short", status=302, Location="/a/1?id=2"))
    assert (got.url, got.canonical, got.source_type) == (there, there, "url")
    assert got.title.startswith("제주 테마파크")
    assert PARAGRAPH in got.markdown


def test_a_pdf_of_the_web(site: Site) -> None:
    """The content type says so, whatever the address looks like; one that lies is refused."""
    got = read(site.add("/page.html", pdf(PAGES, title="Report"), content_type="application/pdf"))
    assert (got.title, got.source_type, got.canonical) == ("Report", "url", "")
    assert "## p. 2" in got.markdown
    with pytest.raises(InvalidInput, match="and is none"):
        read(site.add("/page.pdf", page(), content_type="application/pdf"))
    with pytest.raises(FetchError, match="No article text"):
        read(site.add("/page.htm", pdf(PAGES)))


def test_whoever_asked_may_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that nobody waits for any longer is killed at once."""
    started = []
    begin = subprocess.Popen.__init__

    def noted(self: subprocess.Popen[bytes], *args: object, **options: object) -> None:
        started.append(self)
        begin(self, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)

    def gone() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.parse("text", b"a\n" * 4_000_000, "The text", alive=gone)
    assert [each.returncode for each in started] == [-signal.SIGKILL if os.name == "posix" else 1]


def test_files(tmp_path: Path) -> None:
    """A PDF by its first bytes under any name, HTML by its name; they have no address."""
    (tmp_path / "report.data").write_bytes(pdf(PAGES, author="홍길동"))
    (tmp_path / "page.HTM").write_bytes(page(f'{HEAD}<link rel="canonical" href="https://news.example/x">'))
    got = read(str(tmp_path / "report.data"))
    assert (got.author, got.url, got.source_type) == ("홍길동", "", "pdf")
    got = read(str(tmp_path / "page.HTM"))
    assert (got.title[:2], got.url, got.canonical, got.source_type) == ("제주", "", "", "html")


def test_given_text_is_made_safe_and_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no library for pages, no network and no file; an address beside it is only noted."""
    hide(monkeypatch, "trafilatura")
    text = "---\ntags: [x]\n---\n# Head [[Note]]\n\n#tag <b>x</b>"
    assert read("https://news.example/a#b", text) == ArticlePage(
        "Head [Note]", "# Head \\[\\[Note\\]\\]\n\n\\#tag \\<b>x\\</b>\n", url="https://news.example/a#b"
    )
    got = read(str(tmp_path / "gone.pdf"), "only this")
    assert (got.title, got.url, got.source_type) == ("", "", "text")
    with pytest.raises(PermissionDenied, match="password"):
        read("https://ann:key@news.example/", text)
    with pytest.raises(InvalidInput, match="is empty"):
        read("https://news.example/", "---\na: 1\n---\n\u200b")


def hide(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)


def make(folder: Path, kind: str) -> Path:
    """A file that may not be read."""
    file = folder / "page.html"
    if kind == "key":
        (file := folder / "id_rsa").write_text("-----BEGIN")
    elif kind == "hidden folder":
        (folder / ".ssh").mkdir()
        (file := folder / ".ssh" / "page.html").write_bytes(page())
    elif kind == "hidden file":
        (file := folder / ".page.html").write_bytes(page())
    elif kind == "link to a key":
        (folder / "key").write_text("-----BEGIN")
        file.symlink_to(folder / "key")
    elif kind == "link into a hidden folder":
        (folder / ".ssh").mkdir()
        (folder / ".ssh" / "page.html").write_bytes(page())
        file.symlink_to(folder / ".ssh" / "page.html")
    elif kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "large":
        with file.open("wb") as large:
            large.truncate(MOST_PDF + 1)
    elif kind == "large html":
        with file.open("wb") as large:
            large.truncate(10_000_001)
    return file


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links and FIFOs of POSIX")
@pytest.mark.parametrize(
    "kind",
    [
        *("key", "hidden folder", "hidden file", "link to a key", "link into a hidden folder", "folder", "fifo"),
        *("device", "large", "large html"),
    ],
)
def test_a_file_that_is_no_document_is_refused(kind: str, tmp_path: Path) -> None:
    """An agent must not read keys into a vault, and nothing may block."""
    with pytest.raises(PermissionDenied) as refused:
        read(str(make(tmp_path, kind)))
    assert refused.value.hint


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links of POSIX")
@pytest.mark.parametrize(
    "source", ["", "gone.html", "a\0b", "loop", "x" * 5_000, "~no-such-user/a.pdf", "file:///etc/passwd"]
)
def test_what_is_not_there_is_said(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INVALID_INPUT or PERMISSION_DENIED, never a traceback."""
    monkeypatch.chdir(tmp_path)
    path = str(make(tmp_path, "loop")) if source == "loop" else source
    with pytest.raises((InvalidInput, PermissionDenied)):
        read(path)


# -- the child process


def test_a_bomb_ends_in_its_own_process() -> None:
    """A PDF of 20 kB that unpacks to much more than it may is INVALID_INPUT; this process is untouched."""
    bomb = pdf([["x"]], stream=b"BT /F 10 Tf 50 800 Td " + b"<0001> Tj " * 2_000_000 + b"ET")
    assert len(bomb) < 60_000
    with pytest.raises(InvalidInput, match="needs more than"):
        child.parse("pdf", bomb, "bomb.pdf", memory=300_000_000, seconds=20)


def test_what_takes_too_long_is_ended() -> None:
    """Text that takes a parser minutes is given up in time."""
    with pytest.raises(InvalidInput, match=r"The text cannot be read.*1 s"):
        child.parse("text", b"[" * 300_000, "The text", seconds=1)


def test_a_name_with_braces_stands_in_the_message(tmp_path: Path) -> None:
    """What is named in a message is what was given."""
    (tmp_path / "{x}.pdf").write_bytes(pdf([[]]))
    with pytest.raises(InvalidInput, match=r"\{x\}\.pdf has no text, only pictures"):
        read(str(tmp_path / "{x}.pdf"))


def test_the_child_knows_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that is taken over finds no API key in its environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("SPELLBOOK_API_KEY", "k")
    given = []
    begin = subprocess.Popen
    start = lambda *args, env, **more: given.append(env) or begin(*args, env=env, **more)  # noqa: E731
    monkeypatch.setattr(child.subprocess, "Popen", start)
    child.parse("text", b"x", "x")
    assert "PATH" in given[0]
    assert not {"OPENAI_API_KEY", "SPELLBOOK_API_KEY"} & given[0].keys()
