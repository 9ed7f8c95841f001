"""Reading a page: web, file or given text; by a child process with limits, and never a file that is no document."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spellbook.archive.pages import child
from spellbook.archive.pages.source import ArticlePage, read
from spellbook.settings.limits import MOST_PDF
from spellbook.system.errors import FetchError, InvalidInput, PermissionDenied
from tests.archive.pages.documents import HEAD, PAGES, PARAGRAPH, page, pdf
from tests.archive.pages.site import Site


def test_pages_and_files(site: Site, tmp_path: Path) -> None:
    """
    Of a page in EUC-KR, through a redirect, the address is where it ended, the canonical one without tracking. A PDF of
    the web is known by its content type, whatever its address looks like; one that lies is refused. Of files, a PDF is
    known by its first bytes under any name, HTML by its name; they have no address.
    """
    head = f'{HEAD.replace("utf-8", "euc-kr")}<link rel="canonical" href="/a/1?utm_source=x&amp;id=2">'
    there = site.add("/a/1?id=2", page(head).decode().encode("cp949"), content_type="text/html; charset=euc-kr")
    got = read(site.add("/short", status=302, Location="/a/1?id=2"))
    assert (got.url, got.canonical, got.source_type) == (there, there, "url")
    assert got.title.startswith("제주 테마파크")
    assert PARAGRAPH in got.markdown
    got = read(site.add("/page.html", pdf(PAGES, title="Report"), content_type="application/pdf"))
    assert (got.title, got.source_type, got.canonical) == ("Report", "url", "")
    assert "## p. 2" in got.markdown
    with pytest.raises(InvalidInput, match="and is none"):
        read(site.add("/page.pdf", page(), content_type="application/pdf"))
    with pytest.raises(FetchError, match="No article text"):
        read(site.add("/page.htm", pdf(PAGES)))
    (tmp_path / "report.data").write_bytes(pdf(PAGES, author="홍길동"))
    (tmp_path / "page.HTM").write_bytes(page(f'{HEAD}<link rel="canonical" href="https://news.example/x">'))
    got = read(str(tmp_path / "report.data"))
    assert (got.author, got.url, got.source_type) == ("홍길동", "", "pdf")
    got = read(str(tmp_path / "page.HTM"))
    assert (got.title[:2], got.url, got.canonical, got.source_type) == ("제주", "", "", "html")


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


def test_given_text_is_made_safe_and_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no library for pages, no network and no file; an address beside it is only noted."""
    monkeypatch.setitem(sys.modules, "trafilatura", None)
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


def large(file: Path, size: int) -> None:
    with file.open("wb") as sparse:
        sparse.truncate(size)


def hidden(folder: Path, name: str) -> Path:
    """A document under a name that is hidden, or in a hidden folder."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(page())
    return folder / name


def key(folder: Path) -> Path:
    (folder / "id_rsa").write_text("-----BEGIN")
    return folder / "id_rsa"


FORBIDDEN = {
    "key": lambda folder, _: key(folder),
    "hidden folder": lambda folder, _: hidden(folder, ".ssh/page.html"),
    "hidden file": lambda folder, _: hidden(folder, ".page.html"),
    "link to a key": lambda folder, file: file.symlink_to(key(folder)),
    "link into a hidden folder": lambda folder, file: file.symlink_to(hidden(folder, ".ssh/page.html")),
    "folder": lambda _, file: file.mkdir(),
    "fifo": lambda _, file: os.mkfifo(file),
    "device": lambda _, file: file.symlink_to("/dev/zero"),
    "large": lambda _, file: large(file, MOST_PDF + 1),
    "large html": lambda _, file: large(file, 10_000_001),
}


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links and FIFOs of POSIX")
@pytest.mark.parametrize("make", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_file_that_is_no_document_is_refused(make: Any, tmp_path: Path) -> None:
    """An agent must not read keys into a vault, and nothing may block."""
    with pytest.raises(PermissionDenied) as refused:
        read(str(make(tmp_path, tmp_path / "page.html") or tmp_path / "page.html"))
    assert refused.value.hint


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links of POSIX")
def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INVALID_INPUT or PERMISSION_DENIED, never a traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    for source in ("", "gone.html", "a\0b", "loop", "x" * 5_000, "~no-such-user/a.pdf", "file:///etc/passwd"):
        with pytest.raises((InvalidInput, PermissionDenied)):
            read(source)


# -- the child process


def test_what_needs_too_much_ends_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A PDF of 20 kB that unpacks to much more than it may, and text that takes a parser minutes, are INVALID_INPUT;
    this process is untouched. What is named in a message is what was given. A parser that is taken over finds no
    API key in its environment.
    """
    bomb = pdf([["x"]], stream=b"BT /F 10 Tf 50 800 Td " + b"<0001> Tj " * 2_000_000 + b"ET")
    assert len(bomb) < 60_000
    with pytest.raises(InvalidInput, match="needs more than"):
        child.parse("pdf", bomb, "bomb.pdf", memory=300_000_000, seconds=20)
    with pytest.raises(InvalidInput, match=r"The text cannot be read.*1 s"):
        child.parse("text", b"[" * 300_000, "The text", seconds=1)
    (tmp_path / "{x}.pdf").write_bytes(pdf([[]]))
    with pytest.raises(InvalidInput, match=r"\{x\}\.pdf has no text, only pictures"):
        read(str(tmp_path / "{x}.pdf"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("SPELLBOOK_API_KEY", "k")
    given = []
    begin = subprocess.Popen
    start = lambda *args, env, **more: given.append(env) or begin(*args, env=env, **more)  # noqa: E731
    monkeypatch.setattr(child.subprocess, "Popen", start)
    child.parse("text", b"x", "x")
    assert "PATH" in given[0]
    assert not {"OPENAI_API_KEY", "SPELLBOOK_API_KEY"} & given[0].keys()
