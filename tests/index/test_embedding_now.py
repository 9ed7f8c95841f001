"""While a process embeds, nobody is told to run `reindex`; once none does, everybody is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.models.embedders import HashEmbedder
from spellbook.settings import config
from spellbook.watch.watcher import Watcher
from tests.commands import spellbook as run
from tests.helpers import PATIENCE, Failing, Write

TELLS = "`spellbook reindex`"


@dataclass
class Held(HashEmbedder):
    """An embedder that reports when it starts a text, and waits for permission to finish."""

    begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def embed_passages(self, texts: Sequence[str]) -> Any:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return HashEmbedder.embed_passages(self, texts)


@pytest.fixture
def notes(vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    monkeypatch.setenv("SPELLBOOK_VAULT", str(vault))
    for name in ("crane", "quay", "dock"):
        write_note(f"{name}.md", f"# {name}\n\nThe {name} of the harbour.", questions="[Where is it?]")
    return vault


@pytest.fixture(params=["reindex", "watch"])
def busy(notes: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Start a run or a watcher that embeds; call the result to let it finish."""
    embedder = Held()
    with Spellbook(config.load(notes, embedder="hash"), embedder) as book:
        watcher, thread = Watcher(book), threading.Thread(target=book.reindex)
        (watcher if request.param == "watch" else thread).start()

        def finish() -> None:
            embedder.go.set()
            if request.param == "watch":
                watcher.stop(within=60)
            else:
                thread.join(PATIENCE)

        try:
            assert embedder.begun.wait(PATIENCE)
            yield finish
        finally:
            finish()


def test_nobody_is_told_to_do_what_is_being_done(notes: Path, busy: Callable[[], None]) -> None:
    """Answers, `status`, `doctor` and tools say that embedding is under way, until it is done."""
    told = {verb: run(verb, *words) for verb, *words in (("search", "crane"), ("status",), ("doctor",))}
    assert "3 texts not embedded yet: another process is embedding them now." in told["search"].stderr
    assert "0 of 3 texts by meaning; the others are being embedded now" in told["status"].stdout
    assert "embeddings (3 texts being embedded now)" in told["doctor"].stdout
    assert not [verb for verb in told if TELLS in told[verb].output]
    with books.open(notes) as book:
        assert book.memorize("crane").as_dict()["index"]["embedding"] is True
        assert "3 texts not yet findable by meaning (being embedded now)" in render.indexline(book.state())
        assert book.why("crane").index["embedding"] is True
        assert book.status()["embedding"] is True
    busy()
    assert "embedded" not in run("search", "crane").stderr
    assert "embedding" not in json.loads(run("search", "crane", "--json").stdout)["index"]


def test_where_nobody_embeds_it_is_said_who_does(notes: Path) -> None:
    """If no process embeds, the hint for pending texts is `reindex`."""
    with Spellbook(config.load(notes, embedder="hash"), Failing()) as book:
        book.reindex(words_only=True)
        answer = book.memorize("crane")
        assert answer.index.pending == 3
        assert "embedding" not in answer.index.as_dict()
        assert TELLS in "".join(line for _, problems in book.doctor() for line in problems)
