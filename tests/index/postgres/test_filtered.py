"""What bounds the time of a question loses nothing that a filter or a reader's scope leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from spellbook.index import sync
from spellbook.index.filters import NO_GUIDES, conditions
from spellbook.index.postgres import engine as engines
from spellbook.index.postgres import matching
from spellbook.index.postgres.engine import Postgres
from spellbook.index.postgres.publish import publish
from spellbook.text.expressions import AnyOf, Phrase
from spellbook.text.terms import phrase
from tests.helpers import note_writer, opened

Published = Callable[[Callable[[int], tuple[str, Mapping[str, Any]]]], Any]
FIRST, LAST = range(20), range(80, 100)


@pytest.fixture
def published(tmp_path, database, monkeypatch) -> Published:
    """A function that publishes a hundred notes, each with what it makes of a number, and then makes the bounds small."""

    def publish_all(make: Callable[[int], tuple[str, Mapping[str, Any]]]) -> Any:
        write = note_writer(tmp_path / "vault")
        for number in range(100):
            body, labels = make(number)
            write(f"{number:03}.md", f"# Note {number}\n\n{body}\n", **labels)
        with opened(tmp_path / "vault", state=tmp_path / "state") as index:
            sync.run(index)
            publish(index, database)
            embed_query = index.embedder.embed_query
        for name, bound in {"SCORED": 12, "SAMPLED": 20, "MANY": 6, "_COUNTED": 6, "POOL": 10}.items():
            monkeypatch.setattr(matching, name, bound)
        monkeypatch.setattr(engines, "EXACT_MOST", 3)
        return embed_query

    return publish_all


@pytest.mark.parametrize("shown", [range(3), range(97, 100)])
def test_a_limited_reader_finds_what_others_hide_in_numbers(published, database, shown):
    """Three public notes are found by a word that many private ones have."""
    published(lambda i: ("A budget of things.", {"privacy_scope": "public" if i in shown else "private"}))
    assert len(Postgres(database, sees="public").match(phrase("budget"), (), 10)) == 3


@pytest.mark.parametrize("only", [0, 99])
def test_common_words_in_a_row_in_one_note(published, database, only):
    """Whether a sample has seen them in a row or not."""
    published(lambda i: ("A usual common thing." if i == only else "A common or usual thing.", {}))
    assert len(Postgres(database).match(phrase("usual common"), (), 10)) == 1


@pytest.mark.parametrize("inside", [FIRST, LAST])
@pytest.mark.parametrize("asked", [AnyOf((phrase("common"), phrase("usual"))), phrase("common")], ids=str)
def test_common_words_within_a_filter(published, database, asked, inside):
    """Whether the notes that it leaves are the latest or not."""
    published(lambda i: ("A common or usual thing.", {"topic": "in" if i in inside else "out"}))
    assert len(Postgres(database).match(asked, conditions({"topic": "in"}), 10)) == 10


@pytest.mark.parametrize("inside", [range(4), range(26, 30)])
def test_the_beginning_of_words_within_a_filter_that_leaves_few(published, database, monkeypatch, inside):
    """However many chunks it is taken to be in."""
    published(lambda i: (f"A wort{i:02}x here." if i < 30 else "A thing.", {"topic": "in" if i in inside else "out"}))
    monkeypatch.setattr(matching, "SCORED", 24)
    assert len(Postgres(database).match(Phrase(("wort",), True), conditions({"topic": "in"}), 10)) == 4


@pytest.mark.parametrize("sees", ["", "team"])
@pytest.mark.parametrize(
    "given",
    [{}, {"path": "01*"}, {"topic": "t1"}, {"topic!": "t1"}, {"importance": "high"}, {"created": ">=2026-03-05"}],
    ids=str,
)
def test_near_in_a_large_database(published, database, given, sees):
    """The index of vectors answers within every filter, and for who sees less."""
    embed_query = published(
        lambda i: (
            f"harbour number {i}",
            {
                "topic": f"t{i % 3}",
                "importance": "high" if i % 2 else "low",
                "privacy_scope": "team" if i % 2 else "private",
                "created": f"2026-03-{1 + i % 28:02}",
            },
        )
    )
    engine, limits = Postgres(database, sees=sees), (*conditions(given or None), NO_GUIDES)
    assert len(engine.nearest(embed_query("harbour 7"), limits, 5, [])) == 5
    assert engine.named(embed_query("harbour 7"), limits)
