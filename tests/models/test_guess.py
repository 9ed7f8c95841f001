"""The language model that guesses further texts: what it is asked, and that nothing it does harms a search."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spellbook.cli import main
from spellbook.models.services.guess import guess
from spellbook.settings import config
from spellbook.system.errors import InvalidInput
from tests.guessing import Answer, Handler, Model, message, serving
from tests.helpers import until

KEY = "sk-very-secret-0123456789"
TEXTS = ("Keys are rotated every 90 days.", "열쇠 교체 주기")

Serve = Callable[[Answer], Model]
Guess = tuple[tuple[str, ...], str]
Ask = Callable[[str, str], Guess]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(serving(answer))


@pytest.fixture
def ask(vault: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Guess for a question as a search does, by the environment."""

    def asked(question: str, name: str) -> Guess:
        monkeypatch.setenv("SPELLBOOK_GUESSER", name)
        return guess(config.load(vault).guesser, question)

    return asked


# -- what it is asked


@pytest.mark.parametrize(
    ("form", "path", "named"),
    [
        ("tiny@{}", "/v1/chat/completions", "tiny"),
        ("tiny@{}/v1", "/v1/chat/completions", "tiny"),
        ("qwen3:4b@{}/v1/", "/v1/chat/completions", "qwen3:4b"),
        ("tiny@{}/v1/chat/completions", "/v1/chat/completions", "tiny"),
        ("openai:org/tiny@{}/v1beta/openai", "/v1beta/openai/chat/completions", "org/tiny"),
        ("ollama:gemma3:4b@{}", "/v1/chat/completions", "gemma3:4b"),
        ("llamacpp@{}", "/v1/chat/completions", ""),
    ],
)
def test_any_address_of_chat_completions_is_asked(serve: Serve, ask: Ask, form: str, path: str, named: str) -> None:
    """Ollama, llama.cpp and services are asked at their chat completions, with or without /v1 in the address."""
    model = serve(lambda *_: message())
    assert ask("when do keys change?", form.format(model.url)) == (TEXTS, "")
    ((where, body, _),) = model.asked
    assert (where, body["model"]) == (path, named)


def test_ollama_is_where_it_says(serve: Serve, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ollama:MODEL` needs no address: OLLAMA_HOST has it."""
    model = serve(lambda *_: message())
    monkeypatch.setenv("OLLAMA_HOST", model.url)
    assert ask("keys", "ollama:gemma3:4b") == (TEXTS, "")


def test_it_gets_the_question_and_its_own_key_alone(
    serve: Serve, ask: Ask, monkeypatch: pytest.MonkeyPatch, vault: Path
) -> None:
    """Beside the question it gets a fixed prompt: nothing of the vault, and no other service's key."""
    for name in ("SPELLBOOK_API_KEY", "SPELLBOOK_RERANKER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-of-another")
    monkeypatch.setenv("SPELLBOOK_GUESSER_API_KEY", KEY)
    model = serve(lambda *_: message())
    (vault / "secret.md").write_text("# Secret\n\nkeys keys keys\n")
    ask("when do keys change?", model.name)
    ask("언제\0 바꾸지?", model.name)
    assert model.questions == ["when do keys change?", "언제  바꾸지?"]
    (_, first, headers), (_, second, _) = model.asked
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "sk-of-another" not in str(model.asked)
    assert first.keys() == {"model", "messages", "stream"}
    assert len(first["messages"]) == 1
    before = [body["messages"][0]["content"].rpartition("The question: ")[0] for body in (first, second)]
    assert before[0] == before[1]


def test_a_question_is_asked_once(serve: Serve, ask: Ask) -> None:
    """Guesses are kept by question; the oldest of hundreds are dropped; a long question is cut."""
    model = serve(lambda _, question: message(f"about {question}"))
    for question in ("a", "b", "a", " a "):
        assert ask(question, model.name)[0][0] == f"about {question.strip()}"
    assert model.questions == ["a", "b"]
    for number in range(320):
        ask(f"q{number}", model.name)
    ask("a", model.name)
    assert model.questions.count("a") == 2
    ask("x" * 30_000, model.name)
    assert len(model.questions[-1]) < 5_000


# -- what it answers


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (f"```json\n{message()}\n```", TEXTS),
        (f"<think>a {{note}} perhaps</think>\nHere it is:\n{message()}\nDone.", TEXTS),
        (message("use {id} here", ["key", "rotation", 3]), ("use {id} here", "key rotation")),
        ('{"sentence": "a", "words": ' + "[" * 900 + "]" * 900 + "}", ("a",)),
        (message(words=None), TEXTS[:1]),
        (message("  ", TEXTS[1]), TEXTS[1:]),
        (message("x" * 9_000, "y"), ("x" * 300, "y")),
        (message(["long"] * 900, 7), (" ".join(["long"] * 20),)),
        (json.dumps({"sentence": "a\n\x1b[31mb\0\ud800c\u0085d", "words": "w"}), ("a [31mb c d", "w")),
        (json.dumps({"sentence": "a", "words": "b", "more": ["c"], "also": "d"}), ("a", "b")),
    ],
    ids=[
        "fenced",
        "thinks",
        "a list",
        "deep",
        "one text",
        "the other",
        "long",
        "a long list",
        "control letters",
        "more keys",
    ],
)
def test_what_it_guesses_is_bounded(serve: Serve, ask: Ask, content: str, texts: tuple[str, ...]) -> None:
    """However a model wraps its two texts, they are read; each is one line of at most 300 letters, and there is no third."""
    assert ask("keys", serve(lambda *_: content).name) == (texts, "")


def _message(content: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"choices": []}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": {"0": 1}}',
        b"[" * 100_000,
        b"9" * 100_000,
        _message(None),
        _message(["a"]),
        _message(""),
        _message("I do not know."),
        _message("} {"),
        _message("[" * 50_000),
        _message('{"sentence":' * 50_000 + "}" * 50_000),
        _message('{"sentence": ' + "9" * 50_000 + "}"),
        _message('{"sentence": 3, "words": {"a": "b"}}'),
        _message('{"sentence": "", "words": " "}'),
        _message(json.dumps(["sentence", "words"])),
    ],
    ids=lambda body: body[:50].decode("latin-1"),
)
def test_what_is_no_guess_is_said(serve: Serve, ask: Ask, body: bytes) -> None:
    """A wrong answer, whatever its shape and depth, gives no texts and a short reason with the model's address."""
    model = serve(lambda *_: body)
    texts, failure = ask("keys", model.name)
    assert texts == ()
    assert model.url in failure
    assert len(failure) < 400


@pytest.mark.parametrize(
    ("status", "content", "headers", "reason"),
    [
        (500, b"boom \x1b[31m" + b"x" * 9_000, {}, "HTTP 500"),
        (404, b'{"error": {"message": "model not found"}}', {}, "model not found"),
        (401, f'{{"error": "wrong key {KEY}"}}'.encode(), {}, "refuses the key"),
        (429, b"{}", {"retry-after": "9999999999"}, "less often"),
        (302, b"", {"location": "http://127.0.0.1:1/"}, "another address"),
        (200, b"\x1f\x8b" + b"\0" * 100, {"content-encoding": "gzip"}, "not JSON"),
    ],
)
def test_a_refusal_is_said(
    serve: Serve,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    content: bytes,
    headers: dict[str, str],
    reason: str,
) -> None:
    """What a service refuses is said on one short line, without the key and without control letters."""
    monkeypatch.setenv("SPELLBOOK_GUESSER_API_KEY", KEY)

    def answer(handler: Handler, _: str) -> None:
        handler.reply(status, content, **headers)

    texts, failure = ask("keys", serve(answer).name)
    assert texts == ()
    assert reason in failure
    assert KEY not in failure
    assert "\x1b" not in failure
    assert len(failure) < 500


def test_nobody_there_is_said(ask: Ask) -> None:
    """An address where nothing listens is a failure in words; the next question within seconds is not even sent."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        name = f"tiny@http://127.0.0.1:{server.getsockname()[1]}"
    assert "cannot be reached" in ask("keys", name)[1]
    assert "asked again in" in ask("doors", name)[1]


def test_a_huge_answer_is_not_read(serve: Serve, ask: Ask) -> None:
    """An endless answer is left after a megabyte."""
    written = []

    def endless(handler: Handler, _: str) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            written.append(handler.wfile.write(b" " * 65_536))

    assert "more than 1 MB" in ask("keys", serve(endless).name)[1]
    assert sum(written) < 100_000_000


@pytest.mark.slow
def test_a_slow_answer_is_not_waited_for_and_kept(serve: Serve, ask: Ask) -> None:
    """After 3 s the search goes on without; the answer that comes later is there for the same question."""
    ready = threading.Event()

    def late(handler: Handler, _: str) -> str:
        ready.wait(60)
        return message()

    model = serve(late)
    began = time.monotonic()
    assert "did not answer within 3 s" in ask("keys", model.name)[1]
    assert 2.5 < time.monotonic() - began < 15
    ready.set()
    until(lambda: ask("keys", model.name)[0] == TEXTS)
    assert model.questions == ["keys"]


@pytest.mark.slow
def test_one_that_never_ends_holds_four_requests(serve: Serve, ask: Ask) -> None:
    """Whoever sends its header letter by letter is asked four questions at most, and each search waits 3 s."""

    def drip(handler: Handler, _: str) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
        while not handler.server.over.wait(0.2):
            handler.wfile.write(b"x")

    model = serve(drip)
    guesses: list[Guess] = []
    began = time.monotonic()
    threads = [
        threading.Thread(target=lambda n=number: guesses.append(ask(f"q{n}", model.name))) for number in range(12)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert time.monotonic() - began < 15
    assert len(model.asked) == 4
    assert sum("did not answer within 3 s" in why for _, why in guesses) == 4
    assert sum("is still answering earlier questions" in why for _, why in guesses) == 8


# -- the setting


def test_none_is_asked_by_default(vault: Path) -> None:
    """Without the variable there is no language model."""
    assert config.load(vault).guesser == ""


@pytest.mark.parametrize(
    "name",
    [
        "on",
        "gemma3",
        "http://127.0.0.1:11434",
        "tei@http://127.0.0.1:1",
        "rerank:m@http://127.0.0.1:1",
        "tiny@ftp://127.0.0.1",
        "tiny@http://ann:pass@127.0.0.1",
        "tiny?prefix=none@http://127.0.0.1:1",
        "ollama",
    ],
)
def test_what_names_no_model_is_refused(vault: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A word alone never goes to a service by default; a wrong form says what to write, and repeats no password."""
    monkeypatch.setenv("SPELLBOOK_GUESSER", name)
    with pytest.raises(InvalidInput) as caught:
        config.load(vault)
    assert caught.value.hint
    assert "pass" not in str(caught.value).replace("password", "")


def test_a_vault_cannot_name_one(vault: Path) -> None:
    """A vault that somebody hands over cannot have questions sent anywhere, not even on this machine."""
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text("guesser = 'ollama:gemma3:4b'\n")
    with pytest.raises(InvalidInput, match="no setting 'guesser'"):
        config.load(vault)


# -- the command


def search(vault: Path, *options: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["--vault", str(vault), "search", *options])
    assert done.exit_code == code, done.stderr
    return done


@pytest.fixture
def keys(vault: Path, write_note: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault with a note that only the guess has words of."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    write_note("ops/keys.md", "# Rotation\n\nKeys are rotated every 90 days.\n")
    write_note("tea.md", "# Tea\n\nGreen tea steeps for two minutes.\n")
    return vault


def test_the_command_asks_where_it_is_told_to(keys: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--guess` searches by both texts too, prints them on stderr, and JSON has them; without it nobody is asked."""
    model = serve(lambda *_: message())
    monkeypatch.setenv("SPELLBOOK_GUESSER", model.name)
    assert "Rotation" not in search(keys, "how often do certificates change?").stdout
    assert not model.asked
    found = search(keys, "how often do certificates change?", "--guess", "--json")
    answer = json.loads(found.stdout)
    assert answer["also"] == list(TEXTS)
    assert [hit["path"] for hit in (*answer["hits"], *answer.get("closest", ()))][:1] == ["ops/keys.md"]
    assert f"Also asked: {TEXTS[0]} · {TEXTS[1]}\n" in found.stderr
    assert len(model.asked) == 1
    both = search(keys, "certificates", "--guess", "--json", "--also", "x y", "--also", "z")
    assert json.loads(both.stdout)["also"] == ["x y", "z", TEXTS[0]]
    assert f"Also asked: x y · z · {TEXTS[0]}\n" in both.stderr
    assert (
        "maximum"
        in search(
            keys, "a", "--guess", *["--also", "b"] * 2, *["--also", "c", "--also", "d", "--also", "e"], code=2
        ).stderr
    )


def test_the_command_answers_without_a_guess(keys: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the model fails, that is said on stderr, and the answer is the plain one; without a setting it is refused."""
    plain = json.loads(search(keys, "rotated keys", "--json").stdout)
    monkeypatch.setenv("SPELLBOOK_GUESSER", serve(lambda *_: b"{}").name)
    found = search(keys, "rotated keys", "--guess", "--json")
    assert "Asked without a guess: The language model at http://127.0.0.1" in found.stderr
    assert [hit["id"] for hit in json.loads(found.stdout)["hits"]] == [hit["id"] for hit in plain["hits"]]
    assert "also" not in json.loads(found.stdout)
    search(keys, "--guess", "--filter", "category=x", code=2)
    monkeypatch.delenv("SPELLBOOK_GUESSER")
    assert "SPELLBOOK_GUESSER" in search(keys, "rotated keys", "--guess", code=2).stderr
