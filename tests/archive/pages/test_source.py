"""Reading a page: web, file or text; from public addresses alone, by a child process, within limits of time and bytes."""

import gzip
import os
import signal
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from spellbook.archive.pages import parser_process
from spellbook.archive.pages.article_page import ArticlePage, read
from spellbook.archive.pages.fetch import MOST_HTML, MOST_PDF, checked, fetch, public
from spellbook.archive.pages.page_address import canonical, normalized
from spellbook.system.errors import FetchError, InvalidInput, PermissionDenied, SpellbookError
from tests.archive.pages.documents import HEAD, PAGES, PARAGRAPH, page, pdf
from tests.archive.pages.site import Site
from tests.helpers import PATIENCE, audited


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
        parser_process.parse("text", b"a\n" * 4_000_000, "The text", alive=gone)
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
        parser_process.parse("pdf", bomb, "bomb.pdf", memory=300_000_000, seconds=20)
    with pytest.raises(InvalidInput, match=r"The text cannot be read.*1 s"):
        parser_process.parse("text", b"[" * 300_000, "The text", seconds=1)
    (tmp_path / "{x}.pdf").write_bytes(pdf([[]]))
    with pytest.raises(InvalidInput, match=r"\{x\}\.pdf has no text, only pictures"):
        read(str(tmp_path / "{x}.pdf"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("SPELLBOOK_API_KEY", "k")
    seen: list[tuple[str, Any]] = []
    with audited(lambda *event: seen.append(event)):
        parser_process.parse("text", b"x", "x")
    given = next(environment for event, (*_, environment) in seen if event == "subprocess.Popen")
    assert "PATH" in given
    assert not {"OPENAI_API_KEY", "SPELLBOOK_API_KEY"} & given.keys()


def answering(*addresses: str) -> Callable[..., list[tuple[object, ...]]]:
    """A resolver that gives these addresses for every name."""

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return resolve


LOCAL = (
    *("127.0.0.1", "localhost", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127。0。0。1"),
    "①②⑦.0.0.1",
    *("[::1]", "[::]", "0.0.0.0", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]"),
    *("[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1%25lo]", "[fec0::1]", "[fd00:ec2::254]"),
    *("[2600:1f18::5efe:7f00:1]", "[ff02::1]", "169.254.169.254", "168.63.129.16", "10.0.0.1", "172.16.0.1"),
    *("192.168.0.1", "100.64.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "93.184.216.34:22", "93.184.216.34:6379", "user@127.0.0.1", "user:key@example.com"),
    *("127.0.0.1\\@example.com", "127.0.0.1%2f@example.com"),
)


def test_no_spelling_of_a_local_address_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nothing is connected to, and the code is PERMISSION_DENIED; INVALID_INPUT where it is no address at all. Never is it
    a traceback of a library. Public are IPv4, IPv6, and IPv4 behind NAT64, which networks without IPv4 use.
    """
    connected: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *args, **_: connected.append(args))
    no_address = {"0177.0.0.1", "①②⑦.0.0.1", "[fe80::1%25lo]"}
    for host in LOCAL:
        with pytest.raises((PermissionDenied, InvalidInput)) as refused:
            fetch(f"http://{host}/", seconds=5)
        assert refused.value.code == ("INVALID_INPUT" if host in no_address else "PERMISSION_DENIED"), host
    odd = (
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "",
        "http://",
        "http:///x",
        "https://a b.example/",
        "http://[x]/",
    )
    for url in (*odd, "http://a" + "b" * 2_000):
        with pytest.raises(SpellbookError):
            fetch(url, seconds=5)
    assert not connected
    addresses = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822")
    assert all(public(address, 443) for address in addresses)


def test_the_checked_address_is_the_one_dialed(site: Site) -> None:
    """
    A name that answers with an allowed address first and another one later is resolved once. A name with a public and a
    private address is refused before anything is connected to.
    """
    site.add("/page", "hello")
    asked = []

    def rebinding(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return answering("127.0.0.1" if len(asked) == 1 else "127.0.0.2")(host, port)

    def allowed(address: str, port: int) -> bool:
        return address == "127.0.0.1"

    got = fetch(site.url("/page", "rebind.example"), allowed=allowed, resolve=rebinding)
    assert (got.body, asked) == (b"hello", ["rebind.example"])
    assert site.seen == [("/page", f"rebind.example:{site.port}", "")]
    with pytest.raises(PermissionDenied, match=r"rebind\.example"):
        fetch(site.url("/page", "rebind.example"), allowed=allowed, resolve=rebinding)
    with pytest.raises(PermissionDenied, match=r"10\.0\.0\.7"):
        fetch("http://both.example/", allowed=public, resolve=answering("93.184.216.34", "10.0.0.7"))
    assert len(site.seen) == 1


def test_tls_is_asked_for_the_name_not_the_address() -> None:
    """The first bytes of TLS carry the name of the page, over a connection to the checked address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        hello = []

        def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
            return answering("127.0.0.1")(host, port)

        def accept() -> None:
            connection, _ = listening.accept()
            with connection:
                hello.append(connection.recv(4_096))

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(FetchError):
            fetch(f"https://page.example:{port}/", allowed=lambda *_: True, resolve=resolve, seconds=10)
        thread.join()
    assert b"page.example" in hello[0]


def test_redirects(site: Site) -> None:
    """
    Each redirect is checked as the first address was. Whatever a page names as its new address is followed, or is an
    error of ours; so is such an address itself. Five are followed, also relative ones; the sixth is an error, and a
    cookie is never sent back.
    """
    inward = site.add("/in", status=302, Location="http://169.254.169.254/latest/")

    def allowed(address: str, port: int) -> bool:
        return port == site.port or public(address, port)

    with pytest.raises(PermissionDenied, match=r"169\.254\.169\.254"):
        fetch(inward, allowed=allowed)
    for target in ("file:///etc/passwd", f"http://u:p@127.0.0.1:{site.port}/", "gopher://x/"):
        with pytest.raises(PermissionDenied):
            fetch(site.add("/in", status=302, Location=target), allowed=allowed)
    for target in ODD:
        start = site.add("/odd", status=302, Location=target)
        with pytest.raises((FetchError, PermissionDenied)):
            fetch(start, allowed=lambda *_: True, resolve=no_names)
        if "//xn--" in target.lower():
            with pytest.raises(InvalidInput):
                checked(target if ":" in target else f"http:{target}")
    for number in range(7):
        site.add(f"/{number}", status=301, Location=f"{number + 1}", Set_Cookie="key=value")
    site.add("/6", "there")
    got = fetch(site.url("/1"))
    assert (got.url, got.body) == (site.url("/6"), b"there")
    assert {cookie for _, _, cookie in site.seen} == {""}
    with pytest.raises(FetchError, match="more than 5 times"):
        fetch(site.url("/0"))


ODD = (
    *("javascript:1", "mailto:a@b", "mailto:", "data:text/html,x", "view-source:http://x", "x:" * 900),
    *("http:foo", "https:", "http://xn--a/", "//xn--a/", "http://xn--/", "HTTP://a.xn--A/", "http://[::1", "//["),
    *("http://a b/", "http://a%00b/", "http://x:abc/", "http://[v1.x]/", "ftp://x/", "http://a..b/", "?", "#"),
)


def no_names(host: str, *_: object, **__: object) -> list[Any]:
    """Resolve addresses alone."""
    if host != "127.0.0.1":
        raise OSError("no such name")
    return [(0, 0, 0, "", (host, 0))]


def packed(times: int) -> bytes:
    data = b"<html>" + b"\0" * (2 * MOST_HTML)
    for _ in range(times):
        data = gzip.compress(data, 1)
    return data


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        pytest.param({}, b"x" * (MOST_HTML + 1), "over 10 MB", id="long"),
        pytest.param({"Content_Encoding": "gzip"}, packed(1), "over 10 MB", id="bomb"),
        pytest.param({"Content_Encoding": "gzip, gzip"}, packed(2), "packed as", id="bomb in a bomb"),
        pytest.param({"Content_Encoding": "br"}, b"x", "packed as br", id="not asked for"),
        pytest.param({"Content_Encoding": "gzip"}, b"no gzip", "damaged", id="no gzip"),
        pytest.param({"Content_Encoding": "gzip"}, gzip.compress(b"x" * 999)[:-9], "broke off", id="cut gzip"),
        pytest.param({"content_length": "99"}, b"x", "cannot be fetched", id="cut"),
        pytest.param({"content_type": "image/png"}, b"x", "is image/png", id="image"),
        pytest.param({"content_type": "application/octet-stream"}, b"x" * (MOST_HTML + 1), "over 10 MB", id="unsaid"),
    ],
)
def test_what_is_too_large_or_no_page_is_refused(site: Site, headers: dict[str, str], body: bytes, said: str) -> None:
    """Sizes count after decompression, of one layer; types that are neither page nor PDF end at the header."""
    with pytest.raises(FetchError, match=said):
        fetch(site.add("/x", body, 200, **headers))


def test_what_an_answer_says(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The content type decides, not the ending of the address; where a server says nothing, the first bytes do. One layer
    of gzip is read whole, and `Link: rel=canonical` is told. No proxy is used: it would resolve names where nothing is
    checked. An error carries HTTP's number, and what to do next.
    """
    for content_type, body, expected in (
        ("text/html; charset=EUC-KR", b"%PDF-1.7", ("text/html", "euc-kr")),
        ("application/pdf", b"<html>", ("application/pdf", "")),
        ("application/octet-stream", b"%PDF-1.7", ("application/pdf", "")),
        ("", b"<html>", ("text/html", "")),
        ("application/xhtml+xml", b"<html>", ("text/html", "")),
    ):
        got = fetch(site.add("/x.pdf", body, content_type=content_type))
        assert (got.content_type, got.charset, got.body) == (*expected, body)
    body = zlib.compress(b"y" * 3_000_000, wbits=31)
    got = fetch(site.add("/x", body, Content_Encoding="gzip", Link='</the%20page>; rel="canonical"'))
    assert got.body == b"y" * 3_000_000
    assert got.canonical == site.url("/the%20page")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert fetch(site.add("/x", "hello")).body == b"hello"
    hints = {401: "login", 402: "login", 403: "login", 404: "no such page", 429: "Wait", 500: "Wait", 304: "text"}
    for status, hint in hints.items():
        with pytest.raises(FetchError, match=f"HTTP {status}") as failed:
            fetch(site.add("/x", "no", status))
        assert failed.value.status == status
        assert hint in failed.value.hint


def drip(piece: bytes, ended: Callable[[float], bool]) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        while not ended(0.05):
            request.wfile.write(piece)
            request.wfile.flush()

    return answer


DRIPS = (
    *(b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: y"),
    b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nx",
)


@pytest.mark.parametrize("piece", DRIPS, ids=["silent", "never begins", "header", "body"])
def test_a_server_that_drips_is_left(site: Site, piece: bytes) -> None:
    """However it keeps the connection busy, all ends at the time given."""
    with pytest.raises(FetchError, match="did not answer within"):
        fetch(site.act("/slow", drip(piece, site.ended.wait)), seconds=0.4)


def test_what_is_not_there_is_said(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A closed port and an unknown name are FETCH_ERROR. A name server that says nothing costs no more than the time given.
    Of a file it is INVALID_INPUT or PERMISSION_DENIED, never a traceback.
    """
    monkeypatch.chdir(tmp_path)
    if os.name != "nt":
        (tmp_path / "loop").symlink_to("loop")
    for source in ("", "gone.html", "a\0b", "loop", "x" * 5_000, "~no-such-user/a.pdf", "file:///etc/passwd"):
        with pytest.raises((InvalidInput, PermissionDenied)):
            read(source)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(FetchError, match="cannot be fetched"):
        fetch(f"http://127.0.0.1:{port}/", allowed=lambda *_: True)
    with pytest.raises(FetchError, match="cannot be resolved"):
        fetch("http://nowhere.example/", resolve=no_names)
    with pytest.raises(FetchError, match="did not answer within"):
        fetch("http://slow.example/", seconds=0.2, resolve=lambda *_, **__: [()] * site.ended.wait(PATIENCE))


# -- addresses as names


def test_normalized() -> None:
    """
    Fragment, tracking and default port do not name a page; all else stays as it is. A page names only
    pages of its site: else it could pass for an article of another site, which then would count as saved.
    """
    for url, same in (
        ("HTTPS://Example.COM:443/a?utm_source=x&b=1&fbclid=2#part", "https://example.com/a?b=1"),
        ("http://example.com", "http://example.com/"),
        ("http://example.com:8080/?gclid=1", "http://example.com:8080/"),
        ("https://n.news.naver.com/a?sid=1&n_media=2&NaPm=3", "https://n.news.naver.com/a?sid=1"),
        ("https://example.com/%EA%B0%80?q=%20&x", "https://example.com/%EA%B0%80?q=%20&x"),
        ("https://example.com/?q=[[Note]]", "https://example.com/?q=%5B%5BNote%5D%5D"),
    ):
        assert normalized(url) == normalized(same) == same
    for url, named, expected in (
        ("https://m.hani.co.kr/a/1?x=1", "https://www.hani.co.kr/a/1#x", "https://www.hani.co.kr/a/1"),
        ("https://evil.example/a", "https://good.example/b", ""),
        ("https://a.example/x", "https://b.a.example/y", "https://b.a.example/y"),
        ("https://a.example/x", "https://a.example/", ""),
        ("https://a.example/x", "javascript:alert(1)", ""),
        ("https://a.example/x", "https://u:p@a.example/y", ""),
        ("https://a.example/x", "http://[", ""),
        ("", "https://a.example/x", ""),
    ):
        assert canonical(url, named) == expected
