"""Services on a loopback port: embedders and rerankers that give prepared answers."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any

import numpy as np

from spellbook.models.embedders import HashEmbedder


class Speaking(ThreadingHTTPServer):
    """A service on a loopback port that gives prepared answers and records requests."""

    daemon_threads = True

    def __init__(self, answer: Callable[..., object]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[tuple[str, dict[str, object], dict[str, str]]] = []
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def bodies(self) -> Any:
        return [body for _, body, _ in self.asked]

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked may have gone away."""


class _Handler(BaseHTTPRequestHandler):
    server: Speaking

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body, {name.lower(): value for name, value in self.headers.items()}))
        given = self.server.answer(self.path, body)
        status, headers, content = given if isinstance(given, tuple) else (200, {}, given)
        if isinstance(content, Iterator):  # pieces, as slowly as they come
            data, pieces = b"", content
        else:
            data, pieces = content if isinstance(content, bytes) else json.dumps(content).encode(), iter(())
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in chain([data], pieces):
            self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Serve = Callable[[Any], Speaking]
"""Starts a service that gives the answers of a function of path and body, or one that it is given."""


def vectors(texts: Sequence[str]) -> Any:
    """Vectors that are not of length one, as many services return."""
    return (HashEmbedder().embed_passages(texts) * 3).tolist()


def ollama(path: str, body: Any) -> Any:
    return {"model": body["model"], "embeddings": vectors(body["input"])}


def openai(path: str, body: Any) -> Any:
    items = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(vectors(body["input"]))]
    return {"object": "list", "data": items[::-1], "model": body["model"]}


def as_base64(path: str, body: Any) -> Any:
    rows = np.array(vectors(body["input"]), dtype="<f4")
    return {"data": [{"index": i, "embedding": base64.b64encode(row.tobytes()).decode()} for i, row in enumerate(rows)]}


def llamacpp(form: Any) -> Any:
    """llama.cpp's own `/embedding` in one of its forms; the list of an old one is one text, joined."""

    def answer(path: str, body: Any) -> Any:
        if path != "/embedding":
            return 404, {}, b"File Not Found"
        text = body["content"] if isinstance(body["content"], str) else " ".join(body["content"])
        return form(vectors([text])[0])

    return answer


FORMS = {
    "2023": lambda row: {"embedding": row},
    "2024": lambda row: {"results": [{"embedding": row}]},
    "2025": lambda row: [{"index": 0, "embedding": [row]}],
    "flat": lambda row: [{"index": 0, "embedding": row}],
}


def nowhere() -> Any:
    """An address where nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def dripping() -> Any:
    """The address of a service that sends its headers a letter at a time, for ever."""
    over = threading.Event()

    def serve() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nx-")
            while not over.wait(0.1):
                connection.sendall(b"a")

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        over.set()


def tei(path: str, body: Any) -> Any:
    return [{"index": i, "score": 1 / (i + 1)} for i in reversed(range(len(body["texts"])))]


def jina(path: str, body: Any) -> Any:
    return {"results": [{"index": i, "relevance_score": 1 / (i + 1)} for i in reversed(range(len(body["documents"])))]}


def logits(path: str, body: Any) -> Any:
    return {"results": [{"index": i, "relevance_score": 4.0 - 4 * i} for i in range(len(body["documents"]))]}
