"""A vault whose embedder or reranker is a service."""

from __future__ import annotations

import pytest

from spellbook.library import book as books
from spellbook.settings import config
from spellbook.system.errors import AuthenticationError, EmbeddingError
from tests.models.speaking import nowhere, ollama, vectors


def test_a_vault_without_its_service_is_searched_by_words(vault, write_note, serve, monkeypatch):
    """Without its service notes stay pending and words find them; when it is back they are embedded."""
    server = serve(ollama)
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", f"ollama:nomic-embed-text@{server.url}")
    write_note("a.md", "the lighthouse keeper")
    write_note("b.md", "something else")
    with books.open(vault) as book:
        assert book.reindex(words_only=True).pending == 2
        assert not server.asked
        server.answer = lambda path, body: (401, {}, {})
        with pytest.raises(AuthenticationError):
            book.reindex()
        found = book.search("lighthouse")
        assert [hit.path for hit in found.hits] == ["a.md"]
        assert (found.index.degraded, found.index.pending) == (True, 2)
        assert "by words only: Ollama at" in found.index.reason
        labels = {"topic": "keys", "category": "knowledge", "keywords": ["keys"], "questions": ["Who has the keys?"]}
        scribed = book.scribe({"text": "## Keys\nThe harbour master rotates them every spring.", "metadata": labels})
        assert (len(scribed.written), book.state().pending) == (1, 3)
        server.answer = ollama
        assert book.reindex().embedded == 3
        found = book.search("lighthouse", min_score=0)
        assert (found.hits[0].path, found.index.degraded, found.index.pending) == ("a.md", False, 0)
        assert all(body["model"] == "nomic-embed-text" for body in server.bodies)


def test_a_dead_service_does_not_hold_up_a_search(vault, write_note, monkeypatch):
    """If nothing listens, searches are answered by words; reindex ends with what to do."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", f"ollama:nomic-embed-text@{nowhere()}")
    write_note("a.md", "the lighthouse keeper")
    with books.open(vault) as book:
        assert book.search("lighthouse").index.degraded
        assert [hit.path for hit in book.search("keeper").hits] == ["a.md"]
        with pytest.raises(EmbeddingError, match=r"Ollama at \S+ \(nomic-embed-text\) cannot be reached") as caught:
            book.reindex()
    assert "ollama serve" in caught.value.hint


def test_another_model_under_the_old_name_is_found_out(vault, write_note, serve, monkeypatch):
    """If the service's vectors have another width, a later process stores none and says why."""
    server = serve(lambda path, body: {"embeddings": [row[:width] for row in vectors(body["input"])]})
    width = 256
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", f"ollama:m@{server.url}")
    write_note("a.md", "the lighthouse keeper is called Lena")
    with books.open(vault) as book:
        assert book.reindex().embedded == 1
    width = 200
    write_note("b.md", "the harbour master is called Ole and has a dog")
    with books.open(vault) as book:
        with pytest.raises(EmbeddingError, match="vectors of 200 numbers; those of this index have 256"):
            book.reindex()
        assert book.state().pending == 1
        found = book.search("lighthouse")
        assert ([hit.path for hit in found.hits], found.index.degraded) == (["a.md"], True)
        assert "its model changed" in found.index.reason
        width = 256
    with books.open(vault) as book:
        assert book.reindex().embedded == 1


def test_an_index_has_the_reranker_that_is_configured(vault, monkeypatch):
    """SPELLBOOK_RERANKER sets the index's reranker; by default there is none."""
    with books.open(vault, embedder="hash") as book:
        assert book.index.reranker is None
    monkeypatch.setenv("SPELLBOOK_RERANKER", "tei:bge@http://127.0.0.1:1")
    with books.open(vault, embedder="hash") as book:
        assert book.index.reranker.name == "tei:bge"
        assert config.load(vault).reranker == "tei:bge@http://127.0.0.1:1"
