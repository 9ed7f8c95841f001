"""Several machines, one Chroma server: each takes the vectors that another one made, and none changes another's."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spellbook.index import sync
from spellbook.index.vectors import follow
from spellbook.index.vectors.chroma import Unavailable
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import InvalidInput
from tests.helpers import Counting, note_writer, opened, until

NOTES = 80
QUESTION = "the lighthouse keeper of island 7"


@contextlib.contextmanager
def running(folder: Path, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Chroma server, and yield its address and process."""
    with socket.create_server(("127.0.0.1", port)) as free:
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder, "--host", "127.0.0.1", "--port", port]
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


def client(url: str):
    import chromadb

    return chromadb.HttpClient(host="127.0.0.1", port=int(url.rpartition(":")[2]))


@pytest.fixture
def url(service: str) -> str:
    """The address of a server that holds nothing."""
    for collection in client(service).list_collections():
        client(service).delete_collection(collection.name)
    return service


@contextlib.contextmanager
def machine(folder: Path, url: str, *, word: str = "lighthouse", notes: int = NOTES, **settings):
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


def keep_up(index):
    report = sync.run(index)
    with contextlib.suppress(Unavailable):
        follow.catch_up(index.catalog, index.chroma)
    return report


def ask(index, text=QUESTION):
    answer = Searcher(index).ask(Question(text, "semantic", limit=10))
    return [(hit.path, round(hit.score, 4)) for hit in answer.hits], answer.index.degraded


def names(url):
    return sorted((each.name, each.count()) for each in client(url).list_collections())


def test_another_machine_embeds_nothing(tmp_path, url):
    """
    A second machine takes all vectors, titles' too, and answers with the same hits and scores, small or large. Notes
    that one machine adds later, another finds on the server with its next large change; few are embedded.
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
            assert (two.embedder.texts, two.catalog.counts().pending) == (["width"], 0)
            assert ask(two) == ask(one)
            mine, theirs = ({k: v for k, v, _ in each.catalog.vectors.since(0)} for each in (one, two))
            assert mine == theirs
        assert names(url) == before
    with machine(tmp_path / "one", url, exact_most=1) as one, machine(tmp_path / "three", url, exact_most=1) as three:
        assert three.embedder.texts == ["width"]
        assert ask(three) == ask(one)
        for count, embedded in ((40, 0), (1, 2)):
            three.embedder.taken()
            for index in (one, three):
                for i in range(count):
                    note_writer(index.config.vault)(f"{count}/{i}.md", f"# Harbour {count}.{i}\n\nThe crane {i}.\n")
                keep_up(index)
            assert three.embedder.taken() == embedded


def test_another_vault_on_the_server_changes_nothing(tmp_path, url):
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


def test_a_server_that_dies(tmp_path, monkeypatch):
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
def test_wrong_vectors_are_refused(tmp_path, url, wrong, caplog):
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
