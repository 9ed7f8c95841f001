"""The contract of engines, on each of them: this machine's catalog, and a copy of it in PostgreSQL."""

from __future__ import annotations

import random

import numpy as np
import pytest

from spellbook.index import sync
from spellbook.index.filters import NO_GUIDES, Condition, conditions
from spellbook.index.postgres import matching, words
from spellbook.index.postgres.engine import Postgres, PublishedSource
from spellbook.index.postgres.publish import publish
from spellbook.search import fts_query
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import InvalidInput
from spellbook.text.expressions import AllOf, AnyOf, Phrase, Without
from spellbook.text.terms import phrase
from tests.helpers import note_writer, opened

NOTES = {
    "db/redis.md": (
        "# Redis cache\n\nThe session cache lives in Redis.\n\n## Eviction policy\n\nKeys expire after one hour.\n",
        {"topic": "db", "category": "project", "tags": "[ops, cache]", "importance": "high", "created": "2026-03-01"},
    ),
    "db/postgres.md": (
        "# PostgreSQL\n\nThe ledger is in PostgreSQL. Caches are not.\n\n## Backup\n\nA dump every night, kept for a week.\n",
        {"topic": "db", "category": "project", "tags": "[ops]", "created": "2026-05-01"},
    ),
    "ko/배포.md": (
        "# 배포 방법\n\n컴포넌트에서의 오류는 오류 경계가 잡는다.\n\n## 되돌리기\n\n이전 이미지를 다시 배포한다.\n",
        {"topic": "배포"},
    ),
    "web/hooks.md": (
        "# Hooks\n\nThe useState hook keeps state. An error boundary resets it.\n",
        {"questions": "[How do I keep the lighthouse state?]", "keywords": "[React, state]"},
    ),
    "web/old.md": (
        "# Old choice\n\nWe render on the server, decided in spring.\n",
        {"category": "decision", "id": "OLD"},
    ),
    "web/new.md": (
        "# New choice\n\nWe render on the client now.\n\n- supersedes [[old]]\n",
        {"category": "decision", "id": "NEW", "created": "2026-06-01"},
    ),
    "[odd] 100% & 'quoted'.md": (
        "# Odd 'name'\n\nA backslash \\ and a quote ' and 50% of {braces}, C++ and .env too.\n",
        {},
    ),
    "dup/a.md": ("# Same\n\nThe very same paragraph stands twice.\n", {}),
    "dup/b.md": ("# Same\n\nThe very same paragraph stands twice.\n", {}),
}


@pytest.fixture
def index(vault):
    """A small vault, indexed with the hash embedder."""
    write = note_writer(vault)
    for path, (body, meta) in NOTES.items():
        write(path, body, **meta)
    for i in range(30):
        write(f"filler/{i:02}.md", f"# Filler {i}\n\nNothing of note number {i} is said about harbour {i % 7}.\n")
    with opened(vault) as found:
        sync.run(found)
        yield found


@pytest.fixture(params=["local", "postgres"])
def source(request, index):
    """What a search is given: the index itself, or its copy."""
    if request.param == "local":
        return index
    database = request.getfixturevalue("database")
    publish(index, database)
    return PublishedSource(index.config, database, index.embedder, index.second)


@pytest.fixture
def engine(source):
    return source.engine()


@pytest.fixture
def local(index):
    return index.engine()


def ids(engine, numbers):
    return {each.number: each.id for each in engine.by_number(list(numbers))}


def named(engine, rows):
    names = ids(engine, [number for number, _ in rows])
    return [(names[number], round(score, 4)) for number, score in rows]


EXPRESSIONS = [
    phrase("cache"),
    phrase("session cache"),
    phrase("cache session"),
    phrase("오류 경계"),
    phrase("컴포넌트"),
    phrase("오"),
    Phrase(("postgr",), True),
    Phrase(("kept", "fo"), True),
    phrase("C++"),
    phrase("useState"),
    phrase("Keys"),
    phrase("nowhere at all"),
    AnyOf((phrase("redis"), phrase("ledger"), phrase("harbour"))),
    AllOf((phrase("state"), AnyOf((phrase("hook"), phrase("redis"))))),
    Without("questions", phrase("lighthouse")),
    Without("questions", AnyOf((phrase("lighthouse"), phrase("boundary")))),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_words(engine, local, expression):
    """Every expression finds the same chunks on every engine, as often, with the same bm25."""
    limits = conditions({"path": "*"})
    mine = named(engine, engine.match(expression, limits, 50))
    assert mine == named(local, local.match(expression, limits, 50))
    assert engine.frequencies([], False)(expression) == len(mine)
    if isinstance(expression, Phrase):
        assert engine.frequencies([expression], False)(expression) == len(mine)
    numbers = [number for number, _ in engine.match(expression, (), 50)]
    assert named(engine, engine.match_among(expression, numbers[:2])) == mine[:2]


def test_a_question_is_not_counted_where_notes_are_unprompted(engine):
    """The questions that a note names count, unless they are left out."""
    word = phrase("lighthouse")
    assert engine.frequencies([word], False)(word) == 1
    assert engine.frequencies([word], True)(word) == 0


def test_chunks_that_are_asked_for_come_too(engine, local):
    """`also` adds chunks that match, however low, and none that do not match or that a filter leaves out."""
    word = AnyOf((phrase("harbour"), phrase("redis")))
    every = engine.match(word, (), 50)
    last, best = every[-1][0], every[0][0]
    assert engine.match(word, (), 1, [last]) == [every[0], every[-1]]
    assert [number for number, _ in engine.match(word, conditions({"path": "filler"}), 1, [best])] != [best]
    other = next(each.number for each in engine.at("web/hooks.md"))
    assert engine.match(word, (), 1, [other]) == [every[0]]


FILTERS = [
    {"category": "project"},
    {"category!": "project"},
    {"tags": ["cache", "ops"]},
    {"tags": "cache"},
    {"topic": "배포"},
    {"importance": 0.8},
    {"created": "2026-03..2026-04"},
    {"when": "2026-04-01.."},
    {"updated!": "2020"},
    {"path": "db/*"},
    {"path": "db"},
    {"path": ["ko/", "web/n?w.md"]},
    {"path": "[[]odd] 100% & 'quoted'.md"},
    {"path!": "f*/*"},
    {"path": "[!df]*/[a-h]*.md"},
    *(
        {"path": glob}
        for glob in (
            "[z-a]*",
            "[!z-a]b*",
            "d[z-ab-]/*",
            "[]-^[]odd*",
            "[a-d-f-h]*",
            "[\\w\\]*",
            "[!]w]*",
            "[[:alpha:]b]*",
        )
    ),
    {"path!": "[z-a]*"},
    {"category": "decision", "created": "2026-06-01"},
]


@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_filters(engine, index, given):
    """A filter leaves the same notes on every engine, by words and by meaning, and as many as there are."""
    limits = conditions(given)
    expected = set(index.catalog.paths(limits))
    assert engine.among([*NOTES, *(f"filler/{i:02}.md" for i in range(30))], limits) == expected
    vector = index.embedder.embed_query("harbour")
    near = engine.nearest(vector, limits, 200, [])
    assert {each.path for chunks, _ in near for each in chunks} == expected


def test_a_scope_shows_what_has_none(engine, index):
    """A condition that notes without the key meet lets them through."""
    limits = (Condition("topic", ("db",), or_absent=True), NO_GUIDES)
    assert engine.among(["db/redis.md", "ko/배포.md", "web/old.md"], limits) == index.catalog.among(
        ["db/redis.md", "ko/배포.md", "web/old.md"], limits
    )


@pytest.mark.parametrize(
    "given",
    [{"colour": "red"}, {"catgory": "x"}, {f"k{i}": "x" for i in range(101)}],
    ids=["unknown", "misspelt", "many"],
)
def test_bad_filters(engine, local, given):
    """A key that no note has is an error, with the same words on every engine."""
    with pytest.raises(InvalidInput) as mine:
        engine.match(phrase("redis"), conditions(given), 5)
    with pytest.raises(InvalidInput) as other:
        local.match(phrase("redis"), conditions(given), 5)
    assert str(mine.value) == str(other.value)


def test_unmatched_values(engine, local):
    """A value that no note has is named, with the one that was meant."""
    asked = conditions({"tags": ["opss", "ops"], "path": ["nowhere/*"]})
    assert engine.unmatched(asked, ()) == local.unmatched(asked, ())


def test_meaning(engine, local, index):
    """The nearest texts are the same, each with all its chunks, and so are cosines, notes and labels."""
    for text in ("The session cache lives in Redis.", "stands twice", "오류 경계", "keep the lighthouse state"):
        vector = index.embedder.embed_query(text)
        mine, other = (each.nearest(vector, (), 8, []) for each in (engine, local))
        assert [round(cosine, 2) for _, cosine in mine] == [round(cosine, 2) for _, cosine in other]
        assert {each.id for each in mine[0][0]} == {each.id for each in other[0][0]}
        chunks = [each for some, _ in mine for each in some]
        keys = [each.key for each in chunks]
        assert engine.cosines(vector, keys) == pytest.approx(local.cosines(vector, keys), abs=2e-3)
        told, expected = engine.about(vector, chunks), local.about(vector, chunks)
        assert told.keys() == expected.keys()
        for path in told:
            assert told[path].whole == pytest.approx(expected[path].whole, abs=2e-3)
            assert sorted(kind for kind, _, _ in told[path].labels) == sorted(
                kind for kind, _, _ in expected[path].labels
            )
        vectors = engine.vectors(keys)
        for key, vector in local.vectors(keys).items():
            assert np.abs(vectors[key] - vector).max() < 2e-3
        assert engine.named(index.embedder.embed_query("Redis cache"), ()) != []


def test_rows(engine, local):
    """A chunk is the same on every engine, but for its number and how its text is held."""

    def plain(chunks):
        return [each._replace(number=0, packed=each.text) for each in chunks]

    for path in NOTES:
        mine, other = engine.at(path), local.at(path)
        assert plain(mine) == plain(other)
        assert mine
        assert plain(engine.by_number([each.number for each in mine])) == plain(mine)
    assert engine.at("nowhere.md") == engine.by_number([]) == engine.by_number([1 << 60]) == []
    counts, others = engine.counts(), local.counts()
    assert (counts.notes, counts.chunks, counts.pending) == (others.notes, others.chunks, others.pending)
    assert engine.fingerprint == local.fingerprint


def test_words_of_whole_notes(engine, local):
    """Which notes have a word in any of their chunks."""
    words = [phrase("hour"), phrase("redis"), phrase("nowhere at all")]
    for each in (engine, local):
        notes = [each.at("db/redis.md"), each.at("db/postgres.md")]
        ranges = [(chunks[0].number, chunks[-1].number) for chunks in notes]
        assert each.holding(words, ranges) == [[True, False], [True, False], [False, False]]
        assert each.holding([], []) == []


QUESTIONS = [
    "session cache", "how long are keys kept?", '"error boundary"', "오류 경계", "useState", "배포 방법", "decided in spring",
    "redis 레디스", "what is in C++ and .env?", "harbour 3", "render on the client", "xyzzy", "state in 2026",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["both", "semantic", "keyword"])
def test_questions(source, index, mode):
    """A question has the same hits, in the same order, and what is superseded stands below."""
    mine, other = Searcher(source), Searcher(index)
    for text in QUESTIONS:
        for given in (None, {"category!": "system"}):
            asked = Question(text, mode, keywords=(text,) if mode == "keyword" else (), limit=5, filter=given)
            answer, expected = mine.ask(asked), other.ask(asked)
            assert [hit.id for hit in answer.hits] == [hit.id for hit in expected.hits], text
            assert [hit.score for hit in answer.hits] == pytest.approx([hit.score for hit in expected.hits], abs=0.01)
            assert [hit.backlinks for hit in answer.hits] == [hit.backlinks for hit in expected.hits]
            assert not answer.index.degraded


def test_no_question_asks_for_more_than_the_tree_says(engine):
    """All phrases whose frequency a question may need are known before, so that one call is enough."""
    query = fts_query.parse("the redisCache of 컴포넌트에서의 오류 'error boundary' v1.2.3 React를")
    asked = []
    query.chosen(lambda part: asked.append(part) or 0)
    assert {each for each in asked if isinstance(each, Phrase)} <= set(query.phrases)


def test_rare_words_first_changes_nothing(vault, database, monkeypatch):
    """Where a question's words find many chunks, asking its rare words first gives the same ranking, and less work."""
    rng = random.Random(7)
    write = note_writer(vault)
    usual = [f"word{i}" for i in range(60)]
    for i in range(150):
        text = " ".join(rng.choices(usual, [1 / (n + 1) for n in range(60)], k=rng.randint(5, 60)))
        write(f"n{i}.md", f"# Note {i}\n\n{text}\n", topic=f"t{i % 3}")
    with opened(vault) as index:
        sync.run(index)
        publish(index, database)
    engine = Postgres(database)
    monkeypatch.setattr(matching, "POOL", 12)
    asked_for, rows = [], database.rows

    def told(sql, values=None):
        asked_for.append((values or {}).get("query"))
        return rows(sql, values)

    monkeypatch.setattr(database, "rows", told)
    once = 0
    for _ in range(60):
        asked = AnyOf(tuple(phrase(each) for each in rng.sample(usual, rng.randint(2, 6))))
        limits = conditions({"topic": "t1"}) if rng.random() < 0.3 else ()
        whole = engine.match(asked, limits, 6)
        asked_for.clear()
        with monkeypatch.context() as patched:
            patched.setattr(matching, "MANY", 40)
            assert engine.match(asked, limits, 6) == whole
        once += words.tsquery(asked) not in asked_for
    assert once >= 5


@pytest.fixture
def crowded(tmp_path, database, monkeypatch):
    """Two published vaults, of 90 and of 30 notes, whose chunks nearly all have the words `usual` and `common`."""
    for name, notes in (("large", 90), ("small", 30)):
        write = note_writer(tmp_path / name)
        for i in range(notes):
            rare = "rarity" if i == 29 else "thing"
            meta = {"privacy_scope": ("private", "team")[i % 2], "topic": f"t{i % 30}"}
            write(f"n{i:02}.md", f"# Note {i}\n\nA usual {'common ' * (1 + i % 3)}{rare} of {name}.\n", **meta)
        with opened(tmp_path / name, state=tmp_path / "state") as index:
            sync.run(index)
            publish(index, database)
    monkeypatch.setattr(matching, "SCORED", 12)
    monkeypatch.setattr(matching, "MANY", 6)
    monkeypatch.setattr(matching, "POOL", 10)


def scored(database, monkeypatch, ask):
    """Return what `ask()` returns, and how many rows of chunks each statement that scores reads from the table."""
    rows, read = database.rows, []

    def told(sql, values=None):
        if "AS score" in sql:
            [[[plan]]] = rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", values)
            read.append(sum(_read(plan["Plan"])))
        return rows(sql, values)

    with monkeypatch.context() as patched:
        patched.setattr(database, "rows", told)
        return ask(), read


def _read(node):
    if str(node.get("Relation Name", "")).startswith("chunks"):
        yield node["Actual Rows"] * node["Actual Loops"]
    for each in node.get("Plans", ()):
        yield from _read(each)


@pytest.mark.parametrize("sees", ["", "team"])
@pytest.mark.parametrize(
    "asked",
    [
        phrase("common"),
        phrase("usual common"),
        AnyOf((phrase("common"), phrase("usual"))),
        AllOf((phrase("usual"), AnyOf((phrase("common"), phrase("thing"))))),
        Without("questions", AnyOf((phrase("common"), phrase("usual")))),
    ],
    ids=str,
)
def test_common_words_score_few_chunks(crowded, database, monkeypatch, asked, sees):
    """However many chunks have a question's words, so many are scored as `SCORED` says, of all vaults."""
    engine = Postgres(database, sees=sees)
    found, read = scored(database, monkeypatch, lambda: engine.match(asked, (), 10))
    assert len(found) == 10
    assert {each.path.split("/")[0] for each in engine.by_number([number for number, _ in found])} == {"large", "small"}
    if sees:
        return  # what may be seen is told first, which may read more
    assert sum(read) <= matching.SCORED + 2
    monkeypatch.setattr(matching, "SCORED", 1_000)
    _, read = scored(database, monkeypatch, lambda: engine.match(asked, (), 10))
    assert sum(read) > 40


def test_rare_words_are_found_among_common_ones(crowded, database, monkeypatch):
    """A chunk with a rare word is found whatever else is asked, and common words find what else there is."""
    engine = Postgres(database)
    asked = AnyOf((phrase("common"), phrase("rarity"), phrase("usual")))
    found, read = scored(database, monkeypatch, lambda: engine.match(asked, (), 10))
    assert len(found) == 10
    names = ids(engine, [number for number, _ in found])
    assert {names[number] for number, _ in found[:2]} == {"large/n29#", "small/n29#"}
    assert sum(read) <= 2 * matching.SCORED


def test_a_filter_that_leaves_few_is_exact(crowded, database, monkeypatch):
    """Where a filter leaves few chunks, all of them are scored; where it leaves many, as many as without it."""
    engine = Postgres(database)
    asked = AnyOf((phrase("common"), phrase("usual")))
    few, many = conditions({"topic": "t3"}), conditions({"topic!": "t3"})
    found = engine.match(asked, few, 10)
    assert len(found) == 4
    _, read = scored(database, monkeypatch, lambda: engine.match(asked, many, 10))
    assert sum(read) <= matching.SCORED + 2
    monkeypatch.setattr(matching, "SCORED", 1_000)
    assert engine.match(asked, few, 10) == found


def test_common_words_in_a_row_are_counted_by_a_sample(crowded, database, monkeypatch):
    """How many chunks have a phrase of common words is estimated from a few of them; a rare phrase is counted."""
    monkeypatch.setattr(matching, "SAMPLED", 20)
    count = Postgres(database).frequencies([], False)
    assert 70 <= count(phrase("usual common")) <= 120
    assert count(phrase("common usual")) == 1  # none in the sample may be one elsewhere
    assert count(phrase("common rarity")) == 2
    assert count(AnyOf((phrase("usual"), phrase("common")))) == 120
