"""Several machines, one Chroma server: each takes the vectors that another one made, and none changes another's."""

import contextlib
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spellbook.editing import erase
from spellbook.index import embed, sync
from spellbook.index.opened import Index
from spellbook.index.vectors import follow
from spellbook.index.vectors.chroma import Chroma, Unavailable
from spellbook.index.vectors.server import Server
from spellbook.library import doctor, status
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import InvalidInput
from tests.helpers import Counting, Write, note_writer, opened, until
from tests.models.speaking import nowhere

NOTES = 80
CHECKED = 2
"""One in fifty of them, and never less."""
QUESTION = "the lighthouse keeper of island 7"


@contextlib.contextmanager
def running(folder: Path, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Chroma server, and yield its address and process."""
    with socket.create_server(("127.0.0.1", port)) as free:
        port = free.getsockname()[1]
    program = (sys.executable, "-c", "from chromadb.cli.cli import app; app()")
    command = [*program, "run", "--path", folder, "--host", "127.0.0.1", "--port", port]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: answers(port))
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
        return True
    return False


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("chroma")) as (address, _):
        yield address


def client(url: str) -> Any:
    import chromadb

    return chromadb.HttpClient(host="127.0.0.1", port=int(url.rpartition(":")[2]))


@pytest.fixture
def url(service: str) -> str:
    """The address of a server that holds nothing."""
    for collection in client(service).list_collections():
        client(service).delete_collection(collection.name)
    return service


@contextlib.contextmanager
def machine(folder: Path, url: str, *, word: str = "lighthouse", notes: int = NOTES, **settings: Any) -> Iterator[Any]:
    """A machine with its own copy of a vault and its own state; its index, kept up. Without `url` the environment says it."""
    vault = folder / "vault"
    if not vault.exists():
        write = note_writer(vault)
        for i in range(notes):
            write(f"{i:02}.md", f"# Island {i}\n\nThe {word} keeper of island {i} has {i * 7} lamps.\n")
    settings |= {"chroma_url": url} if url else {}
    with opened(vault, Counting(asked=True), state=folder / "state", **settings) as index:
        keep_up(index)
        yield index


def keep_up(index: Index) -> sync.Report:
    report = sync.run(index)
    with contextlib.suppress(Unavailable):
        follow.complete(index)
    return report


def ask(index: Index, text: str = QUESTION) -> tuple[list[tuple[str, float]], bool]:
    answer = Searcher(index).ask(Question(text, "semantic", limit=10))
    return [(hit.path, round(hit.score, 4)) for hit in answer.hits], answer.index.degraded


def names(url: str) -> list[tuple[str, int]]:
    return sorted((each.name, each.count()) for each in client(url).list_collections())


def test_another_machine_embeds_one_text_in_fifty(tmp_path: Path, url: str) -> None:
    """
    A second machine takes the vectors, titles' too, embeds one in fifty to compare it, and answers with the same hits
    and scores, small or large. Notes that one machine adds later, another finds on the server with its next large change.
    """
    with machine(tmp_path / "one", url) as one:
        assert len(one.embedder.texts) == 1 + 2 * NOTES  # "width", to learn its length
        before = names(url)
        assert [count for _, count in before] == [NOTES, NOTES]
        for name, _ in before:
            told = client(url).get_collection(name).get(include=["metadatas", "documents"])
            assert {*told["metadatas"], *told["documents"]} == {None}
        with pytest.raises(InvalidInput, match="Chroma is a server here"):
            follow.copy(one, tmp_path / "copy")
        with machine(tmp_path / "two", url) as two:
            assert (two.embedder.taken(), two.catalog.counts().pending) == (1 + 2 * CHECKED, 0)
            assert ask(two) == ask(one)
            mine, theirs = ({k: v for k, v, _ in each.catalog.vectors.since(0)} for each in (one, two))
            assert mine == theirs
        assert names(url) == before
    with machine(tmp_path / "one", url, exact_most=1) as one, machine(tmp_path / "three", url, exact_most=1) as three:
        assert three.embedder.taken() == 1 + 2 * CHECKED
        assert ask(three) == ask(one)
        for count, embedded in ((40, 2), (1, 2)):
            three.embedder.taken()
            for index in (one, three):
                for i in range(count):
                    note_writer(index.config.vault)(f"{count}/{i}.md", f"# Harbour {count}.{i}\n\nThe crane {i}.\n")
                keep_up(index)
            assert three.embedder.taken() == embedded


def test_another_vault_on_the_server_changes_nothing(tmp_path: Path, url: str) -> None:
    """A far larger vault whose notes are as near changes no hit of the first, and neither deletes the other's rows."""
    with machine(tmp_path / "one", url, exact_most=1) as one:
        before = ask(one)
        assert len(before[0]) == 10
        with machine(tmp_path / "other", url, word="lighthouse's", notes=400, exact_most=1) as other:
            assert ask(one) == before
            assert [count for _, count in names(url)] == [400, NOTES + 400]  # titles are the same in part
            for path in sorted(other.config.vault.glob("*.md"))[200:]:
                path.unlink()
            keep_up(other)
            assert other.catalog.counts().notes == 200
        assert names(url)[1][1] == NOTES + 400
        assert ask(one) == before


def test_a_server_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Answers go on exactly, and say so; the machine embeds for itself, and brings the server up to date later. If it cannot
    be reached, notes are indexed and found exactly, and no Chroma is made beside them.
    """
    with running(tmp_path / "data") as (url, process), machine(tmp_path / "one", url, exact_most=1) as one:
        before, degraded = ask(one)
        assert not degraded
        process.kill()
        process.wait()
        assert ask(one) == (before, True)
        write = note_writer(one.config.vault)
        for i in range(70):
            write(f"late/{i}.md", f"# Late {i}\n\nA late note {i}.\n")
        assert keep_up(one).embedded == 70
        assert ask(one, "A late note 60")[0][0][0] == "late/60.md"
        assert not list(one.config.state.glob("chroma-[0-9]*"))
    port = int(url.rpartition(":")[2])
    monkeypatch.setenv("SPELLBOOK_CHROMA_URL", url)
    with running(tmp_path / "anew", port), machine(tmp_path / "one", "", exact_most=1) as one:  # it comes back empty
        assert [count for _, count in names(url)] == [NOTES + 70, NOTES + 70]
        assert ask(one) == (before, False)


@pytest.mark.parametrize("wrong", ["width", "length", "nothing"])
def test_wrong_vectors_are_refused(tmp_path: Path, url: str, wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    """Vectors of another width or length, and rows that are no numbers of use, are embedded here instead."""
    with machine(tmp_path / "one", url) as one:
        texts = client(url).get_collection(names(url)[1][0])
        keys = texts.get()["ids"]
        if wrong == "width":
            client(url).delete_collection(texts.name)
            made = client(url).create_collection(texts.name, embedding_function=None)
            made.upsert(ids=keys, embeddings=[[1.0, 0.0]] * len(keys))
        else:
            row = [3.0 if wrong == "length" else 0.0] * 256
            texts.update(ids=keys[:7], embeddings=[row] * 7)
        expected = ask(one)
        with caplog.at_level(logging.WARNING), machine(tmp_path / "two", url) as two:
            assert len(set(two.embedder.texts)) >= 7
            assert ask(two) == expected
    assert "no unit vectors" in caplog.text


@pytest.mark.parametrize("wrong", ["texts", "labels"])
def test_a_collection_with_another_vector_is_not_believed(
    tmp_path: Path, url: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    """
    One vector that differs from our own, where it is compared, is enough: none of that collection is taken or searched,
    `status` and `doctor` name it, and own vectors are made; the other collection is taken. A new collection under the
    name is believed again.
    """
    with machine(tmp_path / "one", url, exact_most=0) as one:
        expected = ask(one)
        [name] = [name for name, _ in names(url) if name.endswith(wrong)]
        collection = client(url).get_collection(name)
        keys = collection.get()["ids"]
        turned = [[0.0] * i + [1.0] + [0.0] * (255 - i) for i in range(len(keys))]
        collection.update(ids=keys, embeddings=turned)
    with caplog.at_level(logging.WARNING), machine(tmp_path / "two", url, exact_most=0) as two:
        embedded, (hits, degraded) = two.embedder.taken(), ask(two)
        assert embedded == 1 + NOTES + CHECKED
        assert (hits, degraded) == (expected[0], wrong == "texts")
        assert status.chroma(two)["doubted"] == [name]
        told = dict(doctor.checks(two, ""))["Chroma server"]
        assert name in told[0]
        assert follow.is_due(two) is False, "nothing is added to it, so nothing is to be done"
    assert "not those of this machine's model" in caplog.text
    client(url).delete_collection(name)
    with machine(tmp_path / "two", url, exact_most=0) as two:
        follow.complete(two)
        assert (ask(two), status.chroma(two).get("doubted")) == (expected, None)
        assert [count for _, count in names(url)] == [NOTES, NOTES]


def test_what_was_taken_before_a_wrong_vector_is_dropped(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the second request of a call brings wrong vectors, those of the first are made here too; titles' are kept."""
    given, whole = list[int](), Server.fetch

    def fetch(server: Server, part: str, keys: Sequence[str], width: int) -> dict[str, bytes]:
        found = whole(server, part, keys, width)
        if part == "labels" or not found:
            return found
        given.append(len(found))
        return found if len(given) == 1 else dict.fromkeys(found, np.eye(1, width, dtype="<f4").tobytes())

    with machine(tmp_path / "one", url, exact_most=0) as one:
        expected = ask(one)
    monkeypatch.setattr(embed, "COPIED", NOTES // 2)
    monkeypatch.setattr(Server, "fetch", fetch)
    with machine(tmp_path / "two", url) as two:
        assert given == [NOTES // 2] * 2
        assert len(set(two.embedder.texts)) == 1 + NOTES + CHECKED
        assert ask(two) == expected


BROKEN = [
    "[1]",
    "null",
    "[" * 100_000,
    '{"failed": "x"}',
    '{"folder": 5, "fingerprint": "f", "seq": "x", "NAME": 5}',
    '{"folder": ".", "fingerprint": "f", "form": "x", "rows": [], "NAME": ["id", "x", 1e999]}',
    '{"NAME": ["id"], "failed": 1e999}',
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_beside_the_catalog_says_nothing(tmp_path: Path, text: str) -> None:
    """What chroma.json and chroma-server.json hold is no error of a question: the vectors are compared without Chroma."""
    server, chroma = Server(tmp_path, "f", nowhere()), Chroma(tmp_path, "f")
    for file in ("chroma.json", "chroma-server.json"):
        (tmp_path / file).write_text(text.replace("NAME", f"{server.name}-texts"), "utf-8")
    for each in (server, chroma):
        assert (each.seq >= 0, each.rows >= 0, list(each.doubted)) == (True, True, [])
        with pytest.raises(Unavailable):
            each.nearest(np.ones(3, dtype=np.float32), 3)


# -- servers that are none


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def whole(answer: object, status: bytes = b"200 OK", more: bytes = b"") -> Iterator[bytes]:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    yield b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, more, len(body), body)


def dripping(begin: bytes = b"") -> Iterator[bytes]:
    """A byte at a time, for ever."""
    yield begin
    while True:
        time.sleep(0.1)
        yield b"a"


def endless() -> Iterator[bytes]:
    yield HEAD + b"\r\n"
    while True:
        yield b"[" * 100_000


def one_answer(query: object, count: object = 9) -> Callable[[bytes], Iterator[bytes]]:
    """A server that answers as Chroma does until it is asked for what is near."""

    def answer(asked: bytes) -> Iterator[bytes]:
        if b"/count" in asked:
            return whole(count)
        return whole(query if b"/query" in asked else {"id": "1234"})

    return answer


SLOW = {
    "silent": lambda asked: iter(()),
    "dripping headers": lambda asked: dripping(HEAD + b"x-"),
    "stalled": lambda asked: iter([HEAD + b"content-length: 10\r\n\r\n"]),
    "dripping body": lambda asked: dripping(HEAD + b"content-length: 100000\r\n\r\n["),
}
WRONG = {
    "endless": lambda asked: endless(),
    "redirect": lambda asked: whole(b"", b"307 Go", b"location: /elsewhere\r\n"),
    "failing": lambda asked: whole({"error": "Ignore all"}, b"500 No"),
    "no JSON": lambda asked: whole(b"<html>Ignore all"),
    "nothing": lambda asked: whole([]),
    "no HTTP": lambda asked: iter([b"Ignore all\r\n\r\n"]),
    "a count in words": one_answer({}, "Ignore all"),
    "no keys": one_answer({"ids": None}),
    "keys that are none": one_answer({"ids": [[{}, [1], None]]}),
    "deep": one_answer(b"[" * 900_000),
    "large": one_answer(b'"' + b"a" * 2_000_000 + b'"'),
}


@contextlib.contextmanager
def pretending(answer: Callable[[bytes], Iterator[bytes]]) -> Iterator[tuple[str, list[bytes]]]:
    """Run a server that sends what `answer` yields, and yield its address and the requests that came."""
    asked: list[bytes] = []
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(100_000):
                head, _, body = data.partition(b"\r\n\r\n")
                size = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
                )
                while len(body) < size:
                    body += connection.recv(100_000)
                asked.append(head)
                sent = False
                for part in answer(head):
                    sent = True
                    connection.sendall(part)
                    if over.is_set():
                        return
                if not sent:
                    over.wait(60)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        finally:
            over.set()
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("name", [*SLOW, *WRONG])
def test_a_question_goes_on_without_a_server_that_is_none(
    tmp_path: Path, write_note: Write, vault: Path, name: str
) -> None:
    """
    Whatever the server does, a question waits two seconds for it in all, answers exactly, and says so, in none of the
    server's words. Questions after it, in this process or another, do not ask for a while. What stands in a key is no hit.
    """
    for i in range(12):
        write_note(f"{i}.md", f"# Island {i}\n\nThe lighthouse keeper of island {i} has {i * 7} lamps.\n")
    with pretending((SLOW | WRONG)[name]) as (url, asked), opened(vault, chroma_url=url, exact_most=0) as index:
        sync.scan(index)
        embed.embed_texts(index)
        started = time.monotonic()
        answer = Searcher(index).ask(Question(QUESTION, "semantic", limit=10, also=("lamps", "an island")))
        waited = time.monotonic() - started
        if name == "keys that are none":
            assert (len(answer.hits), answer.index.degraded) == (10, False)
            return
        assert (answer.hits[0].path, len(answer.hits), answer.index.degraded) == ("7.md", 10, True)
        assert "Ignore" not in answer.index.reason
        assert waited < 20, "it would be a minute"
        assert waited > 1.5 or name not in SLOW
        count = len(asked)
        with opened(vault, chroma_url=url, exact_most=0) as other:
            for each in (index, other):
                assert ask(each) == (ask(each)[0], True)
        assert len(asked) == count


def test_what_is_erased_for_good_leaves_the_server(tmp_path: Path, url: str) -> None:
    """Its vectors are deleted there, those of titles too; the others stay, and the other machine goes on with them."""
    with machine(tmp_path / "one", url, notes=5) as one, machine(tmp_path / "two", url, notes=5) as two:
        keys = one.catalog.vectors.keys_of(["03.md"])
        before = dict(names(url))
        held = {key for each in client(url).list_collections() for key in each.get(ids=[*keys])["ids"]}
        assert len(keys) == len(held) == 2
        erase.erase(one, "03", hard=True)
        assert not {key for each in client(url).list_collections() for key in each.get(ids=[*keys])["ids"]}
        assert sum(before.values()) - sum(dict(names(url)).values()) == 2
        keep_up(one)
        assert [path for path, _ in ask(one)[0]] == [path for path, _ in ask(two)[0] if path != "03.md"]
