"""A web server on this machine whose pages a test writes."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Serves `pages`, bodies or functions of the request by path; `seen` has the paths, hosts and cookies asked for."""

    port: int = 0
    pages: dict[str, object] = field(default_factory=dict)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def add(self, path: str, body: bytes | str = b"", status: int = 200, **headers: str) -> str:
        """Serve `body` at `path`, as text/html unless `content_type` says otherwise; return its address."""
        data = body.encode() if isinstance(body, str) else body
        said = {"content_type": "text/html", **headers}

        def answer(request: BaseHTTPRequestHandler) -> None:
            send(request, data, status, said)

        self.pages[path] = answer
        return self.url(path)

    def act(self, path: str, answer: Callable[[BaseHTTPRequestHandler], object]) -> str:
        """Let `answer` answer requests for `path`; return its address."""
        self.pages[path] = answer
        return self.url(path)


def send(request: BaseHTTPRequestHandler, data: bytes, status: int, headers: Mapping[str, str]) -> None:
    request.send_response(status)
    for name, value in headers.items():
        if value:
            request.send_header(name.replace("_", "-"), value)
    if "content_length" not in headers:
        request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    with contextlib.suppress(OSError):  # who asked has heard enough
        request.wfile.write(data)


@contextlib.contextmanager
def serving(address: str = "127.0.0.1", port: int = 0) -> Iterator[Site]:
    """Serve a site until the block ends."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.seen.append((self.path, self.headers.get("Host", ""), self.headers.get("Cookie", "")))
            answer = site.pages.get(self.path)
            if callable(answer):
                answer(self)
            else:
                send(self, b"nothing here", 404, {})

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    with Server((address, port), Handler) as server:
        site.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield site
        finally:
            site.ended.set()
            server.shutdown()
            thread.join()
