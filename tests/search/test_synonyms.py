"""Synonyms: the shipped table, the vault's own rows, and what they find."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from spellbook.index import sync
from spellbook.search import presentation, synonyms, weights, words
from spellbook.search.question import Question
from spellbook.search.ranking import hit_of
from spellbook.search.searcher import Searcher
from tests.helpers import opened


def own(vault, text):
    """Write the vault's own synonyms."""
    place = vault / ".spellbook" / "synonyms.yaml"
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, "utf-8")
    return place


@pytest.fixture
def index(vault, write_note):
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


def by_words(index, text, **options):
    """The chunks that have a score by words, by path, as candidates."""
    found = Searcher(index).rank(Question(text, **options))
    return {each.chunk.path: each for each in found.candidates if each.keyword and each.keyword.score}


def test_the_shipped_table_is_sound():
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
    ("asked", "path", "said"),
    [
        ("레디스를 어디에 쓰나요", "cache.md", "레디스 = redis"),
        ("환불했던 것", "pay.md", "환불 = refund"),
        ("Deployments on Friday", "ship.md", "deployment = 배포"),
        ("refunds", "pay.md", None),
    ],
)
def test_a_word_finds_what_its_synonyms_find(index, asked, path, said):
    """In either direction, with Korean particles and English endings; `why` says which word stood for which."""
    found = by_words(index, asked)
    assert path in found
    leg = found[path].legs["keyword"]
    if said:
        assert said.split(" = ")[1] in leg["synonyms"][0].split(" = ")[1]
        assert f"words: {leg['synonyms'][0]}" in presentation.reasons(hit_of(found[path]))
    else:
        assert "synonyms" not in leg


def test_a_synonym_counts_less_than_the_word_itself(index):
    """Where the vault has both, the word comes first; where it has the synonym only, that is worth the same share."""
    found = by_words(index, "deploy")
    assert found["ship.md"].keyword.score < found["both.md"].keyword.score
    assert 0 < by_words(index, "레디스")["cache.md"].keyword.score <= weights.SYNONYM


def test_a_common_synonym_is_worth_no_more_than_itself(index, write_note, vault):
    """A word that is everywhere does not rise to the weight of the rare one that was asked for."""
    own(vault, "- [giraffe, number]\n")
    found = by_words(index, "giraffe sessions")
    others = [each.keyword.score for path, each in found.items() if path.startswith("other")]
    assert max(others, default=0.0) < found["cache.md"].keyword.score / 10
    assert found["giraffe.md"].keyword.score > 0.3


def test_words_that_the_question_names_itself_are_asked_for_once(index):
    """`레디스 redis` is not asked for by two more synonyms, and quotes ask for what they hold."""
    table = synonyms.of(index.config.vault)
    assert all(term.same == () for term in words.parse("레디스 redis", table).terms)
    assert by_words(index, '"레디스"') == {}
    assert Searcher(index).ask(Question("레디스", "keyword", ("레디스",))).hits == ()


def test_a_vault_adds_its_own_rows_and_changes_are_read(index, vault):
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
    "word": "list of rows",
    "redis: 레디스": "list of rows",
    "[[c, [d, e]], [f]]": "list of rows",
    "&x [*x, c]": "alias",
    "[a, '?!']": "not a word",
    f"[a, {'b' * 61}]": "not a word",
    f"{[f'w{n}' for n in range(13)]}": "at most 12",
    "[a, b\n- c": "not YAML",
    "[a\x07, b]": "not YAML",
    "[x]\n" + "- [x]\n" * 100: "two words",
    "[" * 90_000: "list of rows|nesting depth",
}


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[:12])
def test_faults_have_a_line_and_are_not_fatal(vault, row):
    """What makes no sense is told with its line; the sound row before it holds, and the number told is bounded."""
    own(vault, f"- [a1, b1]\n- {row}\n")
    told = synonyms.faults(vault)
    assert (told[0].line, 1 <= len(told) <= 21) == (0 if "\x07" in row else 2, True)
    assert any(each in told[0].reason for each in WRONG[row].split("|"))
    assert ("b1" in synonyms.of(vault).get("a1", ())) is ("\x07" not in row)


def test_a_file_that_cannot_be_read_is_a_fault(vault):
    """Too large, not text, a folder: the shipped rows hold, and `doctor` says what is wrong."""
    place = own(vault, "- [a1, b1]\n" * 30_000)
    assert "0.2 MB" in synonyms.faults(vault)[0].reason
    place.write_bytes(b"- [\xff, b]\n")
    assert "UTF-8" in synonyms.faults(vault)[0].reason
    place.unlink()
    place.mkdir()
    assert len(synonyms.faults(vault)) == 1
    assert "redis" in synonyms.of(vault)["레디스"]
