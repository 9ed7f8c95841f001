"""Search: filters apply first, scores add up, answers stay within budget, and no query breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spellbook.index import sync
from spellbook.index.catalog import schema, text_bytes
from spellbook.search import explain, packing, ranking
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import EmbeddingError, InvalidInput
from spellbook.text.terms import estimate_tokens
from tests.helpers import Failing, note_writer, opened

MODES = ("semantic", "keyword", "both")


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A small vault of Korean and English notes; no test changes it."""
    vault = tmp_path_factory.mktemp("searched")
    write_note = note_writer(vault)
    write_note("infra/docker.md", "# Docker\n\n도커를 설정하고 컨테이너를 올린다.\n\n## Compose\n\ncompose file for the lighthouse server", category="project",
               importance="high", keywords="[docker, compose]", updated="2026-05-01")  # fmt: skip
    write_note(
        "infra/keys.md",
        "# Keys\n\nThe keys are rotated every Monday by the harbour master.",
        category="decision",
        importance="low",
    )
    write_note("cats.md", "# Cats\n\nThe cat slept on the windowsill.", pinned="true")
    for i in range(80):
        write_note(f"many/{i:02}.md", f"The server number {i} is called lighthouse.", category="server")
    with opened(vault, state=tmp_path_factory.mktemp("state")) as opening:
        sync.run(opening)
        yield opening


def ask(index, text="", mode="both", **asked):
    return Searcher(index).ask(Question(text, mode, **asked))


def found(answer):
    return [hit.path for hit in answer.hits]


# -- scores


def shares(hit):
    legs = [hit.why[name]["share"] for name in ("semantic", "keyword") if name in hit.why]
    return sum(legs) + sum(each["share"] for each in hit.why["adjustments"])


QUESTIONS = st.text(alphabet="도커를설정 lighthouse the cat keys 0123456789\"'()*:^-", min_size=1, max_size=40)


@settings(max_examples=60)
@given(QUESTIONS.filter(str.strip), st.sampled_from(MODES))
@example("lighthouse server", "both")
@example("keys rotated Monday", "semantic")
@example("도커 설정", "keyword")
def test_the_shares_of_a_hit_add_up_to_its_score(index, text, mode):
    """Each hit's named shares add up to its score, and hits are in order of score, whatever is asked."""
    hits = ask(index, text, mode, limit=10).hits
    for hit in hits:
        assert shares(hit) == pytest.approx(hit.score, abs=1e-9)
        assert 0 <= hit.score <= 1
        assert ("keyword" in hit.why) <= (mode != "semantic")
        assert ("semantic" in hit.why) <= (mode != "keyword")
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


# -- filters and limits


@pytest.mark.parametrize("mode", MODES)
def test_filters_cut_before_the_legs(index, mode):
    """A filter by a rare category still fills the result with its notes, and by a common one the limit."""
    rare = ask(index, "lighthouse server number Monday", mode, limit=5, filter={"category": "decision"}, min_score=0)
    assert found(rare) == ["infra/keys.md"]
    assert len(ask(index, "lighthouse", mode, limit=70, filter={"category": "server"}).hits) == 70
    assert ask(index, "lighthouse", mode, filter={"path": "nowhere/*"}).hits == ()


def test_min_score_and_limit_bound_the_hits(index):
    """No hit is below `min_score`, and there are never more than `limit`."""
    everything = ask(index, "lighthouse server 7", limit=100).hits
    least = everything[3].score
    assert [hit.id for hit in ask(index, "lighthouse server 7", limit=100, min_score=least).hits] == [
        hit.id for hit in everything if hit.score >= least
    ]
    assert [len(ask(index, "lighthouse", limit=limit).hits) for limit in (1, 7)] == [1, 7]


@pytest.mark.parametrize(
    "asked",
    [{"limit": 0}, {"limit": 101}, {"limit": -1}, {"min_score": -0.1}, {"min_score": 1.1}, {"min_score": float("nan")}, {"max_tokens": 49},
     {"filter": {"importance": 2}}, {"filter": {"created": "soon"}}, {"filter": {"colour": "red"}}, {"filter": ["category"]},
     {"text": " \n"}, {"text": "x" * 20_001}, {"keywords": ("x" * 20_001,)}, {"keywords": ("x",) * 201}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_next_step(index, asked):
    """A bad limit, score, budget, filter or query is INVALID_INPUT with a hint."""
    with pytest.raises(InvalidInput) as caught:
        ask(index, **{"text": "lighthouse", **asked})
    assert caught.value.hint


# -- words


def test_a_keyword_is_a_phrase_and_any_or_all_must_match(index):
    """`any` finds chunks with one keyword, `all` with every one; the words of a phrase stand together."""

    def find(*words, match_all=False):
        return set(found(ask(index, " ".join(words), "keyword", keywords=words, match_all=match_all)))

    assert find("harbour master", "windowsill") == {"infra/keys.md", "cats.md"}
    assert find("harbour", "keys", match_all=True) == {"infra/keys.md"}
    assert find("harbour", "windowsill", match_all=True) == set()
    assert find("master harbour") == set()
    assert find("keys are rotating") == {"infra/keys.md"}


def test_words_are_found_by_their_stem_and_korean_by_its_part(index):
    """`rotate` finds `rotated`, `도커` finds `도커를`, a single letter a word that begins with it."""
    docker = dict.fromkeys(("도커", "컨테이너", "컨"), "infra/docker.md")
    for word, path in {"rotate": "infra/keys.md", **docker}.items():
        assert path in found(ask(index, word, "keyword", keywords=(word,))), word
    assert found(ask(index, "커도", "keyword", keywords=("커도",))) == []


ODD = ['"', '""', "'", "a AND", "OR", "NOT x", "NEAR(a b, 3)", "(", ")(", "*", "a*", "^a", "a:b", "title:x", "-", "--", "{a b}", "a\0b", "\0", "\ud800",
       ";DROP TABLE notes", "%_", "\\", "🧙‍♂️", "..", "?", "+", "x" * 19_000, "가" * 19_000, "a b " * 4_700, "words\n\n\twords", "²", "_", "ﷺ"]  # fmt: skip


@pytest.mark.parametrize("text", ODD, ids=lambda text: repr(text[:20]))
def test_no_query_breaks_the_search(index, text):
    """Operators, quotes, brackets, NUL and long queries are searched as words, never an error."""
    for mode in MODES:
        assert ask(index, text, mode).query == text
    for match_all in (False, True):
        ask(index, text, "keyword", keywords=(text, "lighthouse"), match_all=match_all)


# -- the state of the index


def test_an_answer_says_what_answered(vault, write_note):
    """Its index block counts notes, chunks and pending vectors, and names the generation."""
    write_note("a.md", "## One\n\nlighthouse\n\n## Two\n\nzebra")
    with opened(vault) as index:
        sync.run(index)
        state = ask(index, "lighthouse").index
        assert (state.notes, state.chunks, state.pending, state.degraded) == (1, 2, 0, False)
        assert state.generation == index.catalog.generation
        write_note("new.md", "another zebra")
        sync.scan(index)
        state = ask(index, "zebra").index
        assert (state.notes, state.pending, state.generation) == (2, 1, index.catalog.generation)


def test_without_its_embedder_search_goes_by_words_and_says_so(vault, write_note):
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


@pytest.mark.parametrize("mode", MODES)
def test_a_question_asked_again_looks_at_no_text_but_those_of_its_hits(index, monkeypatch, mode):
    """Of most candidates the text is never looked at: how it is written is known, and nothing of it is shown."""
    searcher, question = Searcher(index), Question("lighthouse server", mode)
    assert len(searcher.rank(question).candidates) > question.limit
    read = []
    schema.inflated.cache_clear()
    monkeypatch.setattr(schema, "unpacked", lambda packed: read.append(packed) or text_bytes.unpacked(packed))
    answer = searcher.ask(question)
    assert 0 < len(read) <= len(answer.hits) == question.limit


def test_a_long_lived_searcher_sees_every_change(vault, write_note):
    """A searcher that stays open sees new, changed, deleted and restored notes at once."""
    with opened(vault) as index:
        searcher = Searcher(index)

        def now(text):
            sync.run(index)
            return [hit.text for hit in searcher.ask(Question(text, "semantic", min_score=0.9)).hits]

        file = write_note("a.md", "a lighthouse")
        assert now("a lighthouse") == ["a lighthouse"]
        file.write_text("another zebra")
        assert (now("a lighthouse"), now("another zebra")) == ([], ["another zebra"])
        file.unlink()
        assert now("another zebra") == []
        write_note("b.md", "a lighthouse")
        assert now("a lighthouse") == ["a lighthouse"]


def test_one_entry_a_note_and_how_many_there_are(vault, write_note):
    """`per_note` bounds the chunks of a note; `found` counts what it leaves, before the limit; `why` says what it took."""
    write_note("a.md", "".join(f"## Part {i}\n\nlighthouse {i}\n\n" for i in range(4)))
    write_note("b.md", "the lighthouse")
    with opened(vault) as index:
        sync.run(index)
        for per_note, limit, paths, count in ((0, 5, 5, 5), (1, 5, 2, 2), (2, 5, 3, 3), (1, 1, 1, 2), (0, 2, 2, 5)):
            answer = ask(index, "lighthouse", "keyword", per_note=per_note, limit=limit)
            assert (len(answer.hits), answer.found) == (paths, count)
        verdicts = [
            row.verdict
            for row in explain.why(index, Searcher(index), Question("lighthouse", "keyword", per_note=1)).rows
        ]
        assert sorted(verdicts) == [*["beyond 1 chunk of one note"] * 3, "hit 1", "hit 2"]
        assert ask(index, "nothing", "keyword").found == 0
    with pytest.raises(InvalidInput, match="per_note=-1"):
        Question("x", per_note=-1)


def test_an_answer_says_how_long_it_took_and_whether_its_vector_was_cached(book, write_note):
    """`ms` and `found` are in the JSON; the second time a question is asked, its vector is not made again."""
    write_note("a.md", "the lighthouse")
    book.reindex()
    answers = [book.search("lighthouse"), book.search("lighthouse"), book.find("lighthouse")]
    assert [each.is_cached for each in answers] == [False, True, None]
    assert all(0 < each.as_dict()["ms"] < 60_000 and each.as_dict()["found"] == 1 for each in answers)
    day = book.stats()["day"]
    assert (day["by_meaning"], day["caches"]["query_vectors"]) == (2, {"hits": 1, "misses": 1})


# -- what is a hit at all


def test_a_question_that_nothing_has_to_do_with_finds_nothing(index):
    """Off-topic questions have no hits by default; `min_score=0` or a filter shows the nearest."""
    for mode in ("both", "semantic"):
        assert ask(index, "quantum chromodynamics lattice", mode).hits == ()
        assert ask(index, "quantum chromodynamics lattice", mode, min_score=0.0).hits != ()
    assert found(ask(index, "keys of chromodynamics", filter={"category": "decision"})) == ["infra/keys.md"]


def test_what_is_near_and_not_sure_is_shown_by_its_best_passage(index, monkeypatch):
    """Without a confident match up to three near notes are shown, each with a passage, within the budget."""
    monkeypatch.setattr(ranking, "least", lambda chunks: 1.1)
    answer = ask(index, "where is the lighthouse server?")
    assert (answer.hits, len(answer.closest)) == ((), 3)
    assert len({hit.path for hit in answer.closest}) == 3
    assert [hit["text"] for hit in answer.as_dict()["closest"]] == [hit.text for hit in answer.closest]
    assert all(1 <= estimate_tokens(hit.text) <= packing.PASSAGE for hit in answer.closest)
    assert "lighthouse" in answer.closest[0].text
    [row] = explain.why(index, Searcher(index), Question("where is the lighthouse server?"), answer.closest[0].id).rows
    assert row.verdict.startswith("a closest note: its evidence")
    assert len(ask(index, "where is the lighthouse server?", filter={"category": "server"}).closest) == 3
    for asked in ({"min_score": 0.9}, {"mode": "keyword"}, {"max_tokens": 50}):
        assert ask(index, "where is the lighthouse server?", **asked).closest == ()
    assert ask(index, 'where is the "lighthouse tower server"?').closest == ()
    assert "closest" not in ask(index, "quantum chromodynamics lattice").as_dict()


def test_a_word_in_common_is_not_near(vault, write_note):
    """A text without a vector that shares a common word with the question is not named as near."""
    for number in range(30):
        write_note(f"{number}.md", f"The train {'goes' if number < 3 else 'stays'} here, number {number}.")
    with opened(vault) as index:
        sync.scan(index)
        answer = ask(index, "which ferry goes there?")
    assert (answer.hits, answer.closest) == ((), ())


def test_a_part_of_a_table_is_shown_with_its_header_and_one_of_code_with_its_fence(vault, write_note):
    """A part of a table is shown with its header, a part of code with its fence."""
    rows = "\n".join(f"| part{i} | the lighthouse keeper number {i} reads the barometer |" for i in range(60))
    code = "\n\n".join(f"def step{i}():\n    return lighthouse.signal({i}, 'barometer', retries=3)" for i in range(60))
    write_note("table.md", f"# Parts\n\n| name | task |\n| --- | --- |\n{rows}\n")
    write_note("code.md", f"# Code\n\n```python\n{code}\n```\n")
    with opened(vault) as index:
        sync.run(index)
        [table] = ask(index, "part41", "keyword", keywords=("part41",), limit=1).hits
        assert (table.text.splitlines()[0], "part41" in table.text) == ("| name | task |", True)
        [piece] = ask(index, "step41", "keyword", keywords=("step41",), limit=1).hits
        first, *lines, last = piece.text.splitlines()
        assert (first, last, any("step41" in line for line in lines)) == ("```python", "```", True)


# -- a reranker


class Judge:
    """A reranker that prefers texts with `word`, or fails."""

    name = "judge"

    def __init__(self, word, error=None):
        self.word, self.error, self.given = word, error, []

    def rerank(self, query, texts, seconds):
        self.given.append((query, list(texts), seconds))
        if self.error:
            raise self.error
        return [float(self.word in text) for text in texts]


def test_a_reranker_judges_the_first_before_they_are_cut_to_the_limit(index):
    """A reranker gets twenty whole texts and a time limit, reorders them, and the shares still add up."""
    judge = Judge("number 7 ")
    hits = ask(replace(index, reranker=judge), "lighthouse server 7", limit=2).hits
    [(query, texts, seconds)] = judge.given
    assert (query, len(texts), 0 < seconds <= 5) == ("lighthouse server 7", 20, True)
    assert "number 7 " in hits[0].text
    assert next(each["reason"] for each in hits[1].why["adjustments"]) == "reranked 0.00 by judge"
    for hit in hits:
        assert shares(hit) == pytest.approx(hit.score, abs=1e-9)
    ask(replace(index, reranker=judge), "lighthouse", "keyword")
    assert len(judge.given) == 1  # words alone are not judged


def test_a_reranker_that_fails_is_skipped_and_told(index):
    """If the reranker fails, the order is that of the search, and the answer says so."""
    judge = Judge("", EmbeddingError("The reranker is down.", "Start it."))
    answer = ask(replace(index, reranker=judge), "lighthouse server")
    assert [hit.id for hit in answer.hits] == [hit.id for hit in ask(index, "lighthouse server").hits]
    assert (answer.index.degraded, "not reranked: The reranker is down." in answer.index.reason) == (True, True)
