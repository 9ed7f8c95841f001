"""Search by words: the queries for SQLite's full-text index, what they find, and synonyms."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.index import sync
from spellbook.index.opened import Index
from spellbook.search import presentation, synonyms, weights, words
from spellbook.search.question import Question
from spellbook.search.scores import hit_of
from spellbook.search.searcher import Searcher
from spellbook.text.terms import index_form, parts
from tests.helpers import Write, empty_catalog, opened


class Shelf:
    """Texts in the catalog's full-text table."""

    def __init__(self, *texts: str) -> None:
        self.db = empty_catalog()
        self.db.executemany(
            "INSERT INTO words (rowid, body, parts) VALUES (?, ?, ?)",
            [(i, index_form(t), parts(t)) for i, t in enumerate(texts)],
        )

    def __del__(self) -> None:
        self.db.close()

    def frequency(self, part: Any) -> Any:
        return self.db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (str(part),)).fetchone()[0]

    def ask(self, question: Any) -> Any:
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
        pytest.param("use state", "the useState hook is useful", "nobody could state it", id="camel case in two words"),
        pytest.param("fetchUser", "how to fetch user data", "another user came by", id="a name in its parts"),
        pytest.param("error_boundary", "an error_boundary", "the boundary of an error", id="snake case"),
        pytest.param("--dry-run", "with --dry-run", "run until it is dry", id="a flag"),
        pytest.param("1.2.3", "since v1.2.3", "chapter 1 of 3, page 2", id="a version"),
        pytest.param("src/app/page.tsx", "see src/app/page.tsx", "the page of the app in src", id="a path"),
        pytest.param("C++", "we write C++ here", "we write C here", id="C++"),
        pytest.param("C++의 장점", "C++로 쓴다", "C로 쓴다", id="C++ with a particle"),
        pytest.param("what is .env?", "the `.env` file", "an env of its own", id="a file that begins with a point"),
        pytest.param("React를 쓰는", "React가 쓰인다", "를 이라는 조사", id="a particle after a Latin word"),
        pytest.param("컴포넌트에서의 오류", "컴포넌트는 오류를 낸다", "에서의 사용", id="a particle after Korean"),
        pytest.param("어떻게 배포하나요", "배포 방법", "어떻게 지내나요", id="a Korean question word"),
        pytest.param("what is the harbour", "a harbour", "what is the matter with the", id="English question words"),
        pytest.param("городами", "большого города", "горький", id="a Russian case"),
        pytest.param("Việt Nam", "ở Việt Nam", "nam châm và việt vị", id="Vietnamese syllables"),
        pytest.param("猫", "猫が好き", "犬が好き", id="one Han letter"),
        pytest.param("✅", "all done ✅", "all done", id="an emoji"),
    ],
)
def test_the_better_text_comes_first(question: str, first: str, second: str) -> None:
    """Whole names, stems and content words rank before texts that share only parts of words."""
    assert Shelf(*FILLER, second, first).ask(question)[0] == len(FILLER) + 1


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ('"error boundary"', {0}),
        ("「오류 경계」", {1}),
        ("„error boundary“ reset", {0}),
        ('where is "오류 경계"?', {1}),
        ("error boundary", {0, 2, 3}),
        ('50" by 30" boundary', {0, 2}),
        ('say("error") boundary', {0, 3}),
        ('an unclosed "error boundary', {0, 2, 3}),
        ('"?!" error', {0, 3}),
        ('the error of "Moby Dick"', {0, 3}),  # nowhere: asked by its words
        ('"Moby Dick"', set()),  # unless it is only a quotation
        ("error -reset", {0, 3}),  # a minus excludes nothing
    ],
)
def test_what_is_quoted_is_required(question: str, expected: Any) -> None:
    """Only texts with the quoted phrase are found; empty or unbalanced quotes require nothing."""
    shelf = Shelf("the error boundary is reset", "오류 경계는 여기", "the boundary", "an error here", *FILLER)
    assert set(shelf.ask(question)) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_finds_itself(text: str) -> None:
    """A text used as a query finds itself, if it has any terms."""
    query = words.parse(text)
    assert Shelf("other", text).ask(text)[:1] == [1] * bool(query.terms or query.required)


LONG = ("word " * 4_000, "x" * 20_000, "가" * 20_000, "가 나를 " * 4_000, '"a" ' * 5_000, "a.b" * 6_000, "é" * 20_000)


@pytest.mark.parametrize("text", [*LONG, "「" * 20_000, "가" * 19_999 + "x", '"a' * 10_000])
def test_a_question_of_any_length_is_bounded(text: str) -> None:
    """Any question gives at most 64 terms of limited length."""
    chosen = words.parse(text).chosen(lambda part: 0, 100)
    assert len(chosen.words) <= 128
    assert len(str(chosen.expression or "")) < 25_000


# -- in a vault


LABELS = {"title": "zeppelin", "entities": "[{name: zeppelin}]", **dict.fromkeys(("keywords", "tags", "aliases"), "[zeppelin]")}  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
def test_frontmatter_counts_more_than_a_mention(vault: Path, write_note: Write, label: Any) -> None:
    """
    A note with the word in its frontmatter ranks before an equally long one that mentions it, with a score near 1. Of
    two with the highest score the better match comes first, however old it is.
    """
    body = "An airship of some length is described here, at about the same length as the other."
    write_note("b.md", body, **{label: LABELS[label]}, category="decision", updated="2026-01-01")
    write_note("c.md", "zeppelin " * 9, category="decision", updated="2020-01-01")
    write_note("a.md", f"{body} zeppelin")  # the first, if nothing but names decided
    for i in range(20):
        write_note(f"{i}.md", f"{body} {i}")
    with opened(vault) as index:
        sync.scan(index)
        hits = Searcher(index).ask(Question("zeppelin", "keyword")).hits
    assert [hit.path for hit in hits] == ["c.md", "b.md", "a.md"]
    assert 0.9 < hits[1].score <= hits[0].score == 1


# -- synonyms


def own(vault: Path, text: str) -> Any:
    """Write the vault's own synonyms."""
    place = vault / ".spellbook" / "synonyms.yaml"
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, "utf-8")
    return place


@pytest.fixture
def index(vault: Path, write_note: Write) -> Iterator[Index]:
    """Notes about a cache in two languages, and about other things."""
    write_note("cache.md", "# Sessions\n\nThe redis server keeps them for an hour.")
    write_note("pay.md", "# Money\n\nA refund takes three days.")
    write_note("ship.md", "# Shipping\n\n배포는 금요일에 하지 않는다.")
    write_note("both.md", "# Deploy\n\nWe deploy at noon.")
    write_note("giraffe.md", "# Giraffe\n\nThe giraffe sends bills.")
    for n in range(20):
        write_note(f"other{n}.md", f"# Other {n}\n\nNothing of that, number {n}.")
    with opened(vault) as index:
        sync.run(index)
        yield index


def by_words(index: Index, text: str, **options: Any) -> Any:
    """The chunks that have a score by words, by path, as candidates."""
    found = Searcher(index).rank(Question(text, **options))
    return {each.chunk.path: each for each in found.candidates if each.keyword and each.keyword.score}


def test_the_shipped_table_is_sound() -> None:
    """Each row is read without a fault, no word is in two rows, and each word is found when it is asked for."""
    file = synonyms.__file__.replace(".py", ".yaml")
    with open(file, encoding="utf-8") as opened_file:
        rows, wrong = synonyms.read(opened_file.read())
    assert wrong == ()
    assert rows == synonyms.shipped_rows()
    assert 300 <= len(rows) <= 600
    assert [word for word, count in Counter(word for row in rows for word in row).items() if count > 1] == []
    table = synonyms.of(Path("nowhere"))
    lost = [word for word in table if synonyms.same(table, word)[0] != word]
    assert lost == []


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("법카로", "법인카드"),
        ("사원증을", "출입카드"),
        ("밥값은", "식대"),
        ("연차는", "휴가"),
        ("반차", "반일휴가"),
        ("건보", "건강보험"),
        ("육휴", "육아휴직"),
    ],
)
def test_short_forms_of_the_office_find_the_full_ones(short: str, full: str) -> None:
    """A question by the short form, with a particle, asks for the full form that notes have, too."""
    assert full in synonyms.same(synonyms.of(Path("nowhere")), short)[1]


@pytest.mark.parametrize(
    ("asked", "path", "said"),
    [
        ("레디스를 어디에 쓰나요", "cache.md", "레디스 = redis"),
        ("환불했던 것", "pay.md", "환불 = refund"),
        ("Deployments on Friday", "ship.md", "deployment = 배포"),
        ("refunds", "pay.md", None),
    ],
)
def test_a_word_finds_what_its_synonyms_find(index: Index, asked: str, path: str, said: str | None) -> None:
    """In either direction, with Korean particles and English endings; `why` says which word stood for which."""
    found = by_words(index, asked)
    assert path in found
    leg = found[path].legs["keyword"]
    if said:
        assert said.split(" = ")[1] in leg["synonyms"][0].split(" = ")[1]
        assert f"words: {leg['synonyms'][0]}" in presentation.reasons(hit_of(found[path]))
    else:
        assert "synonyms" not in leg


def test_what_a_synonym_is_worth(index: Index, vault: Path) -> None:
    """
    Where the vault has both, the word comes first; where it has the synonym only, that is worth the same share. A word
    that is everywhere does not rise to the weight of the rare one that was asked for. `레디스 redis` is not asked for by
    two more synonyms, and quotes ask for what they hold.
    """
    found = by_words(index, "deploy")
    assert found["ship.md"].keyword.score < found["both.md"].keyword.score
    assert 0 < by_words(index, "레디스")["cache.md"].keyword.score <= weights.SYNONYM
    table = synonyms.of(index.config.vault)
    assert all(term.same == () for term in words.parse("레디스 redis", table).terms)
    assert by_words(index, '"레디스"') == {}
    assert Searcher(index).ask(Question("레디스", "keyword", ("레디스",))).hits == ()
    own(vault, "- [giraffe, number]\n")
    found = by_words(index, "giraffe sessions")
    others = [each.keyword.score for path, each in found.items() if path.startswith("other")]
    assert max(others, default=0.0) < found["cache.md"].keyword.score / 10
    assert found["giraffe.md"].keyword.score > 0.3


def test_a_vault_adds_its_own_rows_and_changes_are_read(index: Index, vault: Path) -> None:
    """A row holds from the next question on, beside the shipped ones, and is gone when the file is."""
    assert "giraffe.md" not in by_words(index, "지라프")
    place = own(vault, "# ours\n- [지라프, Giraffe]\n- - 기린\n  - giraffe\n")
    assert {"giraffe.md"} == set(by_words(index, "지라프는")) == set(by_words(index, "기린"))
    assert "cache.md" in by_words(index, "레디스")
    own(vault, "- [지라프, refund]\n")
    os.utime(place, ns=(1, 1))
    assert {"pay.md"} == set(by_words(index, "지라프"))
    place.unlink()
    assert by_words(index, "지라프") == {}


WRONG = {
    "[alone]": "two words",
    "redis: 레디스": "list of rows",
    "[[c, [d, e]], [f]]": "list of rows",
    "&x [*x, c]": "alias",
    f"[a, {'b' * 61}]": "not a word",
    f"{[f'w{n}' for n in range(13)]}": "at most 12",
    "[a\x07, b]": "not YAML",
    "[x]\n" + "- [x]\n" * 100: "two words",
    "[" * 90_000: "list of rows|nesting depth",
}


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[:12])
def test_faults_have_a_line_and_are_not_fatal(vault: Path, row: str) -> None:
    """
    What makes no sense is told with its line; the sound row before it holds, and the number told is bounded. Of a file
    that is too large, not text, or a folder, the shipped rows hold, and `doctor` says what is wrong.
    """
    own(vault, f"- [a1, b1]\n- {row}\n")
    told = synonyms.faults(vault)
    assert (told[0].line, 1 <= len(told) <= 21) == (0 if "\x07" in row else 2, True)
    assert any(each in told[0].reason for each in WRONG[row].split("|"))
    assert ("b1" in synonyms.of(vault).get("a1", ())) is ("\x07" not in row)
    place = own(vault, "- [a1, b1]\n" * 30_000)
    assert "0.2 MB" in synonyms.faults(vault)[0].reason
    place.write_bytes(b"- [\xff, b]\n")
    assert "UTF-8" in synonyms.faults(vault)[0].reason
    place.unlink()
    place.mkdir()
    assert len(synonyms.faults(vault)) == 1
    assert "redis" in synonyms.of(vault)["레디스"]
