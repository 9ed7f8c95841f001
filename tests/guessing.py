"""A language model on a loopback port that says what a test tells it to, and records what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler", str], object]
"""What becomes of a question: a text is the model's message, bytes are a body, None if it has written by itself."""


def message(sentence: object = "Keys are rotated every 90 days.", words: object = "열쇠 교체 주기") -> str:
    """Return a message as a model should give it."""
    return json.dumps({"sentence": sentence, "words": words}, ensure_ascii=False)


class Model(ThreadingHTTPServer):
    """Answers `/v1/chat/completions`; `asked` are path, body and headers of each request."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.name = f"tiny@{self.url}"

    @property
    def questions(self) -> list[str]:
        """The questions that it was asked."""
        return [body["messages"][-1]["content"].rpartition("The question: ")[2] for _, body, _ in self.asked]

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked may have gone away."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body, {name.lower(): value for name, value in self.headers.items()}))
        given = self.server.answer(self, self.server.questions[-1])
        if isinstance(given, str):
            given = json.dumps({"choices": [{"message": {"role": "assistant", "content": given}}]}).encode()
        if isinstance(given, bytes):
            self.reply(200, given)

    def reply(self, status: int, content: bytes, **headers: str) -> None:
        """Answer with a body."""
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(answer: Answer) -> Iterator[Model]:
    """Yield a model that is served."""
    with Model(answer) as model:
        threading.Thread(target=model.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield model
        finally:
            model.over.set()
            model.shutdown()
