"""Search: filters apply first, scores add up, answers stay within budget, and no query breaks it; `why` explains all."""

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spellbook.index import sync
from spellbook.index.catalog import rows as stored
from spellbook.index.opened import Index
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.search import choice, explain, packing
from spellbook.search.question import VERBS, Question, question
from spellbook.search.scores import Mode
from spellbook.search.searcher import Searcher
from spellbook.system.errors import EmbeddingError, InvalidInput, MemoryNotFound
from spellbook.text.terms import estimate_tokens
from tests.helpers import Failing, Write, note_writer, opened, watched
from tests.mcp.agent import Agent, talk, text_of

MODES: tuple[Mode, ...] = ("semantic", "keyword", "both")
ASKED = "where is our bird"
GUESS = "The owl sleeps behind the shelf."
NOTES = {
    "cats.md": "---\npinned: true\n---\n# Cats\n\nThe cat slept on the windowsill.",
    "owl.md": "The owl of the archive sleeps behind the third shelf.",
    "boat.md": "We paint the boat blue in April.",
    "bread.md": "Rye bread needs nine hours of rest.",
    "effects.md": "# 정리\n\n이펙트를 정리한다. 상태 끌어올리기와 같다.",
}
DOCKER = "# Docker\n\n도커를 설정하고 컨테이너를 올린다.\n\n## Compose\n\ncompose file for the lighthouse server"
KEYS = "# Keys\n\nThe keys are rotated every Monday by the harbour master.\n\n## Spare\n\nSpare harbour keys hang in the office."


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spellbook]:
    """A small vault of Korean and English notes; no test changes it."""
    vault = tmp_path_factory.mktemp("searched")
    write_note = note_writer(vault)
    labels = {"category": "project", "importance": "high", "keywords": "[docker, compose]", "updated": "2026-05-01"}
    write_note("infra/docker.md", DOCKER, **labels)
    write_note("infra/keys.md", KEYS, category="decision", importance="low")
    for path, text in NOTES.items():
        write_note(path, text)
    for i in range(80):
        write_note(f"many/{i:02}.md", f"The server number {i} is called lighthouse.", category="server")
    with books.open(vault, embedder="hash", state=tmp_path_factory.mktemp("state")) as book:
        book.reindex()
        watched(book)
        yield book


@pytest.fixture(scope="module")
def index(small: Spellbook) -> Index:
    """Its index."""
    return small.index


def ask(index: Index, text: str = "", mode: Mode = "both", **asked: Any) -> Any:
    return Searcher(index).ask(Question(text, mode, **asked))


def found(answer: Any) -> Any:
    return [hit.path for hit in answer.hits]


def shares(hit: Any) -> Any:
    legs = [hit.why[name]["share"] for name in ("semantic", "keyword") if name in hit.why]
    return sum(legs) + sum(each["share"] for each in hit.why["adjustments"])


QUESTIONS = st.text(alphabet="도커를설정 lighthouse the cat keys 0123456789\"'()*:^-", min_size=1, max_size=40)


@settings(max_examples=60)
@given(QUESTIONS.filter(str.strip), st.sampled_from(MODES))
@example("lighthouse server", "both")
@example("keys rotated Monday", "semantic")
@example("도커 설정", "keyword")
def test_the_shares_of_a_hit_add_up_to_its_score(index: Index, text: str, mode: Any) -> None:
    """Each hit's named shares add up to its score, and hits are in order of score, whatever is asked."""
    hits = ask(index, text, mode, limit=10).hits
    for hit in hits:
        assert shares(hit) == pytest.approx(hit.score, abs=1e-9)
        assert 0 <= hit.score <= 1
        assert ("keyword" in hit.why) <= (mode != "semantic")
        assert ("semantic" in hit.why) <= (mode != "keyword")
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("mode", MODES)
def test_filters_cut_before_the_legs_and_limits_after(
    index: Index, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """
    A filter by a rare category still fills the result with its notes, and by a common one the limit. No hit is below
    `min_score`, and there are never more than `limit`. Of most candidates the text is never read.
    """
    rare = ask(index, "lighthouse server number Monday", mode, limit=5, filter={"category": "decision"}, min_score=0)
    assert set(found(rare)) == {"infra/keys.md"}
    assert len(ask(index, "lighthouse", mode, limit=70, filter={"category": "server"}).hits) == 70
    assert ask(index, "lighthouse", mode, filter={"path": "nowhere/*"}).hits == ()
    everything = ask(index, "lighthouse server 7", mode, limit=100).hits
    least = everything[3].score
    high = ask(index, "lighthouse server 7", mode, limit=100, min_score=least).hits
    assert [hit.id for hit in high] == [hit.id for hit in everything if hit.score >= least]
    assert [len(ask(index, "lighthouse", mode, limit=limit).hits) for limit in (1, 7)] == [1, 7]
    searcher, asked = Searcher(index), Question("lighthouse server", mode)
    assert len(searcher.rank(asked).candidates) > asked.limit
    read = Mock(wraps=stored.unpacked)
    stored.inflated.cache_clear()
    monkeypatch.setattr(stored, "unpacked", read)
    assert 0 < len(searcher.ask(asked).hits) == asked.limit >= read.call_count > 0


REFUSED = [{"limit": 0}, {"limit": 101}, {"limit": -1}, {"min_score": -0.1}, {"min_score": 1.1}, {"max_tokens": 49}]
REFUSED += [{"filter": {"importance": 2}}, {"filter": {"created": "soon"}}, {"filter": {"colour": "red"}}]
REFUSED += [{"filter": ["category"]}, {"query": " \n"}, {"query": "x" * 20_001}, {"min_score": float("nan")}]
REFUSED += [{"verb": "find", "query": words} for words in (["x" * 20_001], [f"x{n}" for n in range(201)])]
REFUSED += [{"also": also} for also in (["a", "b", "c", "d"], ["a", 7], ["x" * 20_001])]


@pytest.mark.parametrize("asked", [*REFUSED, {"verb": "guess"}, {"per_note": -1}])
def test_what_makes_no_sense_is_refused_with_the_next_step(index: Index, asked: Any) -> None:
    """A bad limit, score, budget, filter, further text, verb or query is INVALID_INPUT with a hint, before a search."""
    with pytest.raises(InvalidInput) as caught:
        Searcher(index).ask(question(**{"verb": "search", "query": "lighthouse", **asked}))
    assert caught.value.hint


def test_words(index: Index) -> None:
    """
    `any` finds chunks with one keyword, `all` with every one; the words of a phrase stand together. `rotate` finds
    `rotated`, `도커` finds `도커를`, a single letter a word that begins with it.
    """

    def find(*words: Any, match_all: bool = False) -> Any:
        return set(found(ask(index, " ".join(words), "keyword", keywords=words, match_all=match_all)))

    assert find("harbour master", "windowsill") == {"infra/keys.md", "cats.md"}
    assert find("harbour", "keys", match_all=True) == {"infra/keys.md"}
    assert find("harbour", "windowsill", match_all=True) == find("master harbour") == find("커도") == set()
    for word, path in {"keys are rotating": "infra/keys.md", "rotate": "infra/keys.md"}.items():
        assert find(word) == {path}
    assert all("infra/docker.md" in find(word) for word in ("도커", "컨테이너", "컨"))


@pytest.fixture
def korean(vault: Path, write_note: Write) -> Iterator[Index]:
    """Notes about servers, each with another particle; the last ones are as fresh, pinned and full of the word as can be."""
    write_note(
        "exact.md", f"서버에서 로그를 본다. {'다른 이야기도 길게 있다. ' * 60}", importance="low", created="2020-01-01"
    )
    for name, text in {
        "object": "서버를 서버를 서버를 켠다.",
        "of": "웹서버의 설정",
        "with": "로그는 서버로 간다.",
    }.items():
        write_note(f"{name}.md", text, pinned="true", importance="high", category="server")
    write_note("react.md", "React는 빠르다.")
    write_note("child.md", "아이 둘이 논다.")
    write_note("other.md", "나이가 많은 아빠다.")
    write_note("cpp.md", "C++는 어렵다.")
    write_note("old.md", "The language C is old.")
    with opened(vault) as index:
        sync.scan(index)
        yield index


@pytest.mark.parametrize(
    ("words", "match_all", "first", "others"),
    [
        (["서버에서"], False, ["exact"], ["object", "of", "with"]),
        (["서버를"], False, ["object"], ["exact", "of", "with"]),
        (["서버에서는"], False, [], ["exact", "object", "of", "with"]),
        (["React를"], False, [], ["react"]),
        (["아이"], False, ["child"], []),  # its last letter only looks like a particle
        (["서버에서", "로그를"], True, ["exact"], ["with"]),
        (["서버가", "논다"], True, [], []),
        (["웹서버로"], False, [], ["of"]),
        (["로그는 서버에서"], False, [], ["with"]),  # a phrase; its last word may have another particle
        (["서버에서 로그는"], False, [], ["exact"]),
        (["로그로 서버에서"], False, [], []),
        (["C++를"], True, [], ["cpp"]),
    ],
)
def test_a_korean_word_is_found_with_another_particle(
    korean: Any, words: list[str], match_all: bool, first: list[str] | list[Any], others: list[str] | list[Any]
) -> None:
    """
    `find` finds a word with another particle than asked for, below all that have it as it was asked for, however often,
    fresh or pinned; by any or all words, in a phrase, and within a filter.
    """

    def paths(**options: Any) -> Any:
        asked = ask(korean, " ".join(words), "keyword", keywords=tuple(words), match_all=match_all, limit=20, **options)
        scores = [hit.score for hit in asked.hits]
        assert scores == sorted(scores, reverse=True)
        assert all(hit.why["words"] for hit in asked.hits)
        return [hit.path.removesuffix(".md") for hit in asked.hits]

    listed = paths()
    assert (listed[: len(first)], sorted(listed[len(first) :])) == (first, others)
    within = {"object", "of", "with"}
    assert sorted(paths(filter={"category": "server"})) == sorted(within & {*first, *others})


ODD = ['"', '""', "'", "a AND", "OR", "NOT x", "NEAR(a b, 3)", "(", ")(", "*", "a*", "^a", "a:b", "title:x", "-", "--", "{a b}", "a\0b", "\0", "\ud800",
       ";DROP TABLE notes", "%_", "\\", "🧙‍♂️", "..", "?", "+", "x" * 19_000, "가" * 19_000, "a b " * 4_700, "words\n\n\twords", "²", "_", "ﷺ"]  # fmt: skip


@pytest.mark.parametrize("text", ODD, ids=lambda text: repr(text[:20]))
def test_no_query_breaks_the_search(index: Index, text: str) -> None:
    """Operators, quotes, brackets, NUL and long queries are searched as words, never an error."""
    for mode in MODES:
        assert ask(index, text, mode).query == text
    for match_all in (False, True):
        ask(index, text, "keyword", keywords=(text, "lighthouse"), match_all=match_all)


# -- further texts


def test_further_texts(small: Spellbook) -> None:
    """
    The note that holds a guessed sentence is found, and the answer says which texts were asked and what each gave; `why`
    takes the same texts. The score is the mean of the best two, so that one wrong guess costs little, and the shares add
    up to it. Nothing, blanks, and the question once more are no further text. A quoted phrase in a guess is no demand,
    one in the question is; a filter is the question's. A guess that says "yesterday" prefers no note of yesterday.
    """
    assert small.search(ASKED).hits == ()
    answer = small.search(ASKED, also=[GUESS, "부엉이 책장 뒤"])
    assert (found(answer)[0], answer.also) == ("owl.md", (GUESS, "부엉이 책장 뒤"))
    texts = answer.hits[0].why["texts"]
    assert [text["text"] for text in texts] == [ASKED, GUESS, "부엉이 책장 뒤"]
    assert max(texts, key=lambda text: text["score"])["text"] == GUESS
    assert [row.verdict for row in small.why(ASKED, "owl.md", also=[GUESS]).rows] == ["hit 1"]
    boat, bread = "paint the boat blue", "rye bread needs nine hours"
    answers = [small.search("the blue boat", also=also, min_score=0.0) for also in ((), [boat], [boat, bread])]
    for answer in answers:
        assert found(answer)[0] == "boat.md"
        assert all(shares(hit) == pytest.approx(hit.score, abs=1e-3) for hit in answer.hits)
    plain, helped, misled = (answer.hits[0] for answer in answers)
    assert helped.score == pytest.approx(sum(text["score"] for text in helped.why["texts"]) / 2, abs=0.02)
    assert misled.score == pytest.approx(helped.score, abs=0.02)
    for also in ("", ["  "], "the blue boat", ["the blue boat ", ""]):
        answer = small.search("the blue boat", also=also, min_score=0.0)
        assert (answer.hits[0], answer.also) == (plain, ())
    assert "boat.md" in found(small.search("the blue boat", also=['they said "purple unicorn" once'], min_score=0.0))
    assert found(small.search('"rye bread"', also=[NOTES["boat.md"]], min_score=0.0)) == ["bread.md"]
    assert found(small.search("the blue boat", also=[NOTES["owl.md"]], filter={"path": "boat.md"}, min_score=0.0)) == [
        "boat.md"
    ]
    day = Searcher(small.index, lambda: dt.datetime(2026, 5, 2, 12).timestamp())
    for text, further, is_read in (("compose yesterday", (), True), ("compose", ("compose yesterday",), False)):
        hits = day.ask(Question(text, also=further, min_score=0.0)).hits
        assert ("yesterday" in str([hit.why["adjustments"] for hit in hits])) is is_read


def test_further_texts_over_mcp(small: Spellbook) -> None:
    """search, recall and memory_injection take it, and an answer without a sure hit tells an agent to use it."""

    async def conversation(agent: Agent) -> None:
        for tool, also in (
            ("search", [GUESS]),
            ("recall", [GUESS]),
            ("search", GUESS),
            ("recall", json.dumps([GUESS])),
        ):
            assert "Ask again with also" in await agent.call(tool, query=ASKED)
            assert "owl.md" in await agent.call(tool, query=ASKED, also=also)
        assert "Ask again" not in await agent.call("search", query="zebra", also=["quagga"])
        given = await agent.client.get_prompt("memory_injection", {"query": ASKED, "also": f"{GUESS}\nthe bird"})
        assert "owl of the archive" in text_of(given.messages[0].content)

    talk(small, conversation, toolsets=("core", "memento"))


# -- why


@pytest.mark.parametrize("verb", VERBS)
def test_why(small: Spellbook, verb: Any) -> None:
    """
    Rows have the order and scores of the search, and each row's shares add up. A note's id explains all its chunks, a
    chunk's id only that one; an unknown one is an error that says so.
    """
    given = small.why("harbour keys", verb=verb, limit=2)
    hits = getattr(small, verb)("harbour keys", limit=2).hits
    assert [(row.id, row.score) for row in given.rows if row.place] == [(hit.id, hit.score) for hit in hits]
    assert [row.verdict for row in given.rows[: len(hits)]] == [f"hit {place}" for place in range(1, len(hits) + 1)]
    assert hits
    for row in given.rows:
        parts = [leg["share"] for leg in row.legs.values()] + [one["share"] for one in row.adjustments]
        assert sum(parts) == pytest.approx(row.score)
    for id, ids in (("infra/keys.md", {"infra/keys#", "infra/keys#spare"}), ("infra/keys#spare", {"infra/keys#spare"})):
        assert {row.id for row in small.why("harbour keys", id, verb=verb).rows} == ids
    with pytest.raises(MemoryNotFound):
        small.why("harbour", "nowhere.md", verb=verb)


def test_why_tells_the_words_and_the_time(small: Spellbook) -> None:
    """
    Each word comes with the number of chunks that contain it; words that no chunk contains are marked, and one that
    matches by its stem counts as matched. Korean words are told as they were typed, synonyms too. `why` says which days
    a question means, also where no note is of then; of no other question. A note that is no hit has the reason that kept
    it out.
    """
    given = small.why("harbour kraken")
    assert [(word.text, word.chunks) for word in given.words] == [('"harbour"', 2), ('"krake"*', 0)]
    assert given.known is not None
    assert 0 < given.known < 1
    assert [(row.words, row.lacks) for row in given.rows[:1]] == [(("harbour",), ("krake*",))]
    [row, *_] = small.why("rotating key", "infra/keys#").rows
    assert (row.words, row.lacks) == (("rotating", "key"), ())
    [row] = small.why("effect 끌어올리기 정리", "effects#").rows
    assert set(row.words) == {"이펙트", "끌어올리기", "정리"}
    assert small.search("effect 정리").hits[0].why["keyword"]["synonyms"] == ["effect = 이펙트"]
    assert small.why("harbour keys in May 2011").when == "from 2011-05-01 to 2011-05-31: in May 2011"
    assert small.why("harbour keys").when == ""
    missed: dict[str, dict[str, Any]] = {
        "it does not contain the quoted text": {"query": '"spare harbour keys" in the office', "id": "infra/keys#"}
    }
    missed |= {"neither its meaning nor its words match": {"query": "harbour keys", "id": "cats.md", "verb": "find"}}
    for verdict, asked in missed.items():
        assert [row.verdict for row in small.why(**asked).rows[:1]] == [verdict]


# -- the state of the index


def test_an_answer_says_what_answered(book: Spellbook, write_note: Write) -> None:
    """
    Its index block counts notes, chunks and pending vectors, and names the generation. `ms` and `found` are in the JSON;
    the second time a question is asked, its vector is not made again. A searcher that stays open sees new, changed,
    deleted and restored notes at once.
    """
    file, index = write_note("a.md", "## One\n\na lighthouse\n\n## Two\n\nzebra"), book.index
    sync.run(index)
    answers = [book.search("lighthouse"), book.search("lighthouse"), book.find("lighthouse")]
    assert [each.is_cached for each in answers] == [False, True, None]
    assert all(0 < each.as_dict()["ms"] < 60_000 and each.as_dict()["found"] == 1 for each in answers)
    day, searcher = book.stats()["day"], Searcher(index)
    assert (day["by_meaning"], day["caches"]["query_vectors"]) == (2, {"hits": 1, "misses": 1})

    def now(text: str) -> Any:
        answer = searcher.ask(Question(text, "semantic", min_score=0.9))
        state = answer.index
        assert (state.degraded, state.generation) == (False, index.catalog.generation)
        return [hit.text for hit in answer.hits], (state.notes, state.chunks, state.pending)

    assert now("another zebra")[1] == (1, 2, 0)
    file.write_text("another zebra")
    sync.scan(index)
    assert now("another zebra")[1] == (1, 1, 1)
    sync.run(index)
    assert now("another zebra") == (["another zebra"], (1, 1, 0))
    for text in ("", "another zebra"):
        file.write_text(text) if text else file.unlink()
        sync.run(index)
        assert now("another zebra")[0] == [text] * bool(text)


def test_without_its_embedder_search_goes_by_words_and_says_so(vault: Path, write_note: Write) -> None:
    """If the embedder fails the answer is by words and degraded, not empty, as `why` says; `find` never needs it."""
    write_note("a.md", "lighthouse keeper")
    with opened(vault, Failing()) as index:
        sync.scan(index)
        for mode in ("both", "semantic"):
            answer = ask(index, "lighthouse", mode)
            assert (found(answer), answer.index.degraded, "down" in answer.index.reason) == (["a.md"], True, True)
            assert shares(answer.hits[0]) == pytest.approx(answer.hits[0].score)
        given = explain.why(index, Searcher(index), Question("lighthouse"), "a.md")
        assert (given.index["degraded"], given.rows[0].place, given.rows[0].evidence) == (True, 1, None)
        assert ask(index, "lighthouse", "keyword").index.degraded is False


def test_one_entry_a_note_and_how_many_there_are(vault: Path, write_note: Write) -> None:
    """
    `per_note` bounds the chunks of a note; `found` counts what it leaves, before the limit; `why` says what it took. A
    text without a vector that shares a common word with the question is not named as near.
    """
    write_note("a.md", "".join(f"## Part {i}\n\nlighthouse {i}\n\n" for i in range(4)))
    write_note("b.md", "the lighthouse")
    with opened(vault) as index:
        sync.run(index)
        for per_note, limit, paths, count in ((0, 5, 5, 5), (1, 5, 2, 2), (2, 5, 3, 3), (1, 1, 1, 2), (0, 2, 2, 5)):
            answer = ask(index, "lighthouse", "keyword", per_note=per_note, limit=limit)
            assert (len(answer.hits), answer.found) == (paths, count)
        rows = explain.why(index, Searcher(index), Question("lighthouse", "keyword", per_note=1)).rows
        assert sorted(row.verdict for row in rows) == [*["beyond 1 section of one note"] * 3, "hit 1", "hit 2"]
        for number in range(30):
            write_note(f"{number}.md", f"The train {'goes' if number < 3 else 'stays'} here, number {number}.")
        sync.scan(index)
        answer = ask(index, "which ferry goes there?")
        assert (answer.hits, answer.closest) == ((), ())


# -- what is a hit at all


def test_what_is_near_and_not_sure_is_shown_by_its_best_passage(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Off-topic questions have no hits by default; `min_score=0` or a filter shows the nearest. Where nothing is sure up
    to three near notes are shown within the budget: the first as a hit, the others with a passage. Without one that has
    most of the evidence for a sure hit nothing is shown.
    """
    for mode in ("both", "semantic"):
        assert ask(index, "quantum chromodynamics lattice", mode).hits == ()
        assert ask(index, "quantum chromodynamics lattice", mode, min_score=0.0).hits != ()
    assert set(found(ask(index, "keys of chromodynamics", filter={"category": "decision"}))) == {"infra/keys.md"}
    sure = ask(index, "where is the lighthouse server?")
    assert sure.as_dict()["sure"]
    monkeypatch.setattr(choice, "least", lambda chunks: 0.95)
    answer = ask(index, "where is the lighthouse server?")
    first, *others = answer.closest
    assert (answer.hits, len({hit.path for hit in answer.closest}), len(others)) == ((), 3, 2)
    shown = answer.as_dict()
    assert (shown["sure"], [hit["text"] for hit in shown["closest"]]) == (False, [hit.text for hit in answer.closest])
    assert shown["closest"][0].keys() == sure.hits[0].as_dict().keys()
    assert (first.text, first.why["text"]) == (first.chunk.whole, "whole")
    assert all(1 <= estimate_tokens(hit.text) <= packing.PASSAGE for hit in others)
    assert "lighthouse" in first.text
    [row] = explain.why(index, Searcher(index), Question("where is the lighthouse server?"), answer.closest[0].id).rows
    assert row.verdict.startswith("a closest note: its evidence")
    assert len(ask(index, "where is the lighthouse server?", filter={"category": "server"}).closest) == 3
    [short] = ask(index, "where is the lighthouse server?", max_tokens=50).closest
    assert (short.id, short.text) == (first.id, "")
    for asked in ({"min_score": 0.9}, {"mode": "keyword"}):
        assert ask(index, "where is the lighthouse server?", **asked).closest == ()
    assert ask(index, 'where is the "lighthouse tower server"?').closest == ()
    assert "closest" not in ask(index, "quantum chromodynamics lattice").as_dict()


# -- a reranker


class Judge:
    """A reranker that prefers texts with `word`, or fails."""

    name = "judge"

    def __init__(self, word: Any, error: Any = None) -> None:
        self.word, self.error, self.given = word, error, list[Any]()

    def rerank(self, query: Any, texts: Sequence[str], seconds: Any) -> Any:
        self.given.append((query, list(texts), seconds))
        if self.error:
            raise self.error
        return [float(self.word in text) for text in texts]


def test_a_reranker_judges_the_first_before_they_are_cut_to_the_limit(index: Index) -> None:
    """
    A reranker gets twenty whole texts and a time limit, reorders them, and the shares still add up. If it fails, the
    order is that of the search, and the answer says so.
    """
    judge = Judge("number 7 ")
    hits = ask(replace(index, reranker=judge), "lighthouse server 7", limit=2).hits
    [(query, texts, seconds)] = judge.given
    assert (query, len(texts), 0 < seconds <= 5) == ("lighthouse server 7", 20, True)
    assert "number 7 " in hits[0].text
    assert next(each["reason"] for each in hits[1].why["adjustments"]) == "reranked 0.00 by judge"
    last = ask(replace(index, reranker=judge), "lighthouse server 7", limit=40).hits[-1]
    assert "not seen by judge" in {each["reason"] for each in last.why["adjustments"]}
    assert all(shares(hit) == pytest.approx(hit.score, abs=1e-9) for hit in hits)
    ask(replace(index, reranker=judge), "lighthouse", "keyword")
    assert len(judge.given) == 2  # words alone are not judged
    failing = Judge("", EmbeddingError("The reranker is down.", "Start it."))
    answer = ask(replace(index, reranker=failing), "lighthouse server")
    assert [hit.id for hit in answer.hits] == [hit.id for hit in ask(index, "lighthouse server").hits]
    assert (answer.index.degraded, "not reranked: The reranker is down." in answer.index.reason) == (True, True)
