"""Search by words: the queries for SQLite's full-text index, and what they find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.index import sync
from spellbook.search import words
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.text.terms import index_form, parts
from tests.helpers import empty_catalog, opened


class Shelf:
    """Texts in the catalog's full-text table."""

    def __init__(self, *texts):
        self.db = empty_catalog()
        self.db.executemany(
            "INSERT INTO words (rowid, body, parts) VALUES (?, ?, ?)",
            [(i, index_form(t), parts(t)) for i, t in enumerate(texts)],
        )

    def __del__(self):
        self.db.close()

    def frequency(self, part):
        return self.db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (str(part),)).fetchone()[0]

    def ask(self, question):
        """The numbers of the texts that a question finds, best first."""
        expression = words.parse(question).chosen(self.frequency, 100).expression
        rows = (
            self.db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words)", (str(expression),))
            if expression
            else ()
        )
        return [number for (number,) in rows]


FILLER = tuple(f"nothing of note number {i} is said here" for i in range(20))


@pytest.mark.parametrize(
    ("question", "first", "second"),
    [
        pytest.param("useState", "the useState hook", "use of a state", id="camel case"),
        pytest.param("usestate", "the useState hook", "use of a state", id="camel case, small"),
        pytest.param("use state", "the useState hook is useful", "nobody could state it", id="camel case in two words"),
        pytest.param("fetchUser", "how to fetch user data", "another user came by", id="a name in its parts"),
        pytest.param("error_boundary", "an error_boundary", "the boundary of an error", id="snake case"),
        pytest.param("--dry-run", "with --dry-run", "run until it is dry", id="a flag"),
        pytest.param("1.2.3", "since v1.2.3", "chapter 1 of 3, page 2", id="a version"),
        pytest.param("v1.2.3", "version 1.2.3 is out", "v1 of 3, page 2", id="a version with a v"),
        pytest.param("src/app/page.tsx", "see src/app/page.tsx", "the page of the app in src", id="a path"),
        pytest.param("C++", "we write C++ here", "we write C here", id="C++"),
        pytest.param("C++의 장점", "C++로 쓴다", "C로 쓴다", id="C++ with a particle"),
        pytest.param("what is .env?", "the `.env` file", "an env of its own", id="a file that begins with a point"),
        pytest.param("React를 쓰는", "React가 쓰인다", "를 이라는 조사", id="a particle after a Latin word"),
        pytest.param("컴포넌트에서의 오류", "컴포넌트는 오류를 낸다", "에서의 사용", id="a particle after Korean"),
        pytest.param("설정하셨습니까", "설정을 바꾼다", "확인하셨습니까", id="an ending"),
        pytest.param("훅의 규칙", "훅은 규칙이 있다", "그것의 규범", id="a Korean word of one letter"),
        pytest.param("어떻게 배포하나요", "배포 방법", "어떻게 지내나요", id="a Korean question word"),
        pytest.param("what is the harbour", "a harbour", "what is the matter with the", id="English question words"),
        pytest.param("городами", "большого города", "горький", id="a Russian case"),
        pytest.param("Kaffeehäusern", "das Kaffeehaus", "Kabel", id="a German case"),
        pytest.param("Việt Nam", "ở Việt Nam", "nam châm và việt vị", id="Vietnamese syllables"),
        pytest.param("भारतीयों", "एक भारतीय", "भारी", id="Hindi"),
        pytest.param("猫", "猫が好き", "犬が好き", id="one Han letter"),
        pytest.param("✅", "all done ✅", "all done", id="an emoji"),
    ],
)
def test_the_better_text_comes_first(question, first, second):
    """Whole names, stems and content words rank before texts that share only parts of words."""
    assert Shelf(*FILLER, second, first).ask(question)[0] == len(FILLER) + 1


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ('"error boundary"', {0}),
        ("“error boundary”", {0}),
        ("「오류 경계」", {1}),
        ("„error boundary“ reset", {0}),
        ('where is "오류 경계"?', {1}),
        ('reset "error boundary" "오류"', set()),
        ("error boundary", {0, 2, 3}),
        ('50" by 30" boundary', {0, 2}),
        ('say("error") boundary', {0, 3}),
        ('an unclosed "error boundary', {0, 2, 3}),
        ('"" error', {0, 3}),
        ('"?!" error', {0, 3}),
        ('the error of "Moby Dick"', {0, 3}),  # nowhere: asked by its words
        ('"Moby Dick"', set()),  # unless it is only a quotation
        ("error -reset", {0, 3}),  # a minus excludes nothing
    ],
)
def test_what_is_quoted_is_required(question, expected):
    """Only texts with the quoted phrase are found; empty or unbalanced quotes require nothing."""
    shelf = Shelf("the error boundary is reset", "오류 경계는 여기", "the boundary", "an error here", *FILLER)
    assert set(shelf.ask(question)) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_finds_itself(text):
    """A text used as a query finds itself, if it has any terms."""
    query = words.parse(text)
    assert Shelf("other", text).ask(text)[:1] == [1] * bool(query.terms or query.required)


LONG = ("word " * 4_000, "x" * 20_000, "가" * 20_000, "가 나를 " * 4_000, '"a" ' * 5_000, "a.b" * 6_000, "é" * 20_000)


@pytest.mark.parametrize("text", [*LONG, "「" * 20_000, "가" * 19_999 + "x", '"a' * 10_000])
def test_a_question_of_any_length_is_bounded(text):
    """Any question gives at most 64 terms of limited length."""
    chosen = words.parse(text).chosen(lambda part: 0, 100)
    assert len(chosen.words) <= 128
    assert len(str(chosen.expression or "")) < 25_000


# -- in a vault


LABELS = {"title": "zeppelin", "entities": "[{name: zeppelin}]", **dict.fromkeys(("keywords", "tags", "aliases"), "[zeppelin]")}  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
def test_frontmatter_counts_more_than_a_mention(vault, write_note, label):
    """
    A note with the word in its frontmatter ranks before an equally long one that mentions it, with a score near 1.
    """
    body = "An airship of some length is described here, at about the same length as the other."
    write_note("b.md", body, **{label: LABELS[label]})
    write_note("a.md", f"{body} zeppelin")  # the first, if nothing but names decided
    for i in range(20):
        write_note(f"{i}.md", f"{body} {i}")
    with opened(vault) as index:
        sync.scan(index)
        hits = Searcher(index).ask(Question("zeppelin", "keyword")).hits
    assert [hit.path for hit in hits] == ["b.md", "a.md"]
    assert 0.9 < hits[0].score <= 1


def test_the_depth_of_a_note_hides_nothing(vault, write_note):
    """The first, middle and last words of a 2 MB note are found in their places."""
    line = "Nothing of interest is said in this sentence, whose number is {}.\n\n"
    lines = [line.format(i) for i in range(30_000)]
    for at, word in ((0, "aardvark"), (15_000, "중간단어"), (-1, "zyzzyva")):
        lines[at] += word + "\n\n"
    write_note("long.md", "".join(lines))
    assert (vault / "long.md").stat().st_size > 2_000_000
    with opened(vault) as index:
        sync.scan(index)
        for word in ("aardvark", "중간단어", "zyzzyva"):
            [hit] = Searcher(index).ask(Question(word, "keyword")).hits
            assert word in hit.text
