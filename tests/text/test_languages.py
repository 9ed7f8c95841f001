"""The language of a text, where its script alone does not tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from spellbook.models import calibration
from spellbook.search import candidates
from spellbook.text.languages import language, of_note

QUESTIONS, PASSAGES = calibration.sample()
KNOWN = ("en", "de", "es", "fr", "it", "pt", "ro", "nl", "pl", "tr", "vi", "id", "ru", "uk", "ar", "ja", "zh")


@pytest.mark.parametrize("name", KNOWN)
def test_the_sample_in_its_languages(name: str) -> None:
    """Most passages and many questions are recognized, and hardly any is taken for another language."""
    for texts, least in ((PASSAGES[name], 0.4), (QUESTIONS[name], 0.35)):
        told = [language(text) for text in texts]
        assert told.count(name) >= least * len(texts), told
        assert sum(each not in {"", name} for each in told) <= len(texts) // 5, told


@pytest.mark.parametrize(
    "text",
    [
        "",
        "docker compose",
        "Panthers 2015",
        "const [a, setA] = useState(i); return a;",
        "배포는 무슨 요일에 하나요?",
        "12:30",
        "🙂",
        "la",
    ],
)
def test_what_is_unclear_is_not_guessed(text: str) -> None:
    """Names, code and single words have no language."""
    assert language(text) == ""


def test_an_answer_in_another_language_need_not_hold_the_words(
    book: Spellbook, write_note: Callable[..., Path]
) -> None:
    """Of two texts without the question's words, the one in another language gets credit for them."""
    write_note("en.md", "The harbor was rebuilt after the flood, and it is open to all ships that come from the north.")
    write_note(
        "es.md", "El puerto fue reconstruido tras la inundación y está abierto a los barcos que vienen del norte."
    )
    book.reindex()
    shares = {
        hit.path: [each["reason"] for each in hit.why["adjustments"]]
        for hit in book.search("what is the name of the pilot who was there?", min_score=0.0).hits
    }
    assert "in another language" not in shares["en.md"]
    assert "in another language" in shares["es.md"]


@pytest.mark.parametrize(
    ("title", "text", "asked", "is_other"),
    [
        ("2026-11-03", "Met Ann.", "when did we deploy?", False),
        ("Trip", "Drive from Los Angeles to El Paso, then Las Cruces.", "where did we go?", False),
        ("Standup", "Ann, Bob. Die cast order late", "what is late?", False),
        ("12", "12, 44, 2026-11-03", "배포는 언제 하나요?", False),
        ("Menu", "La soupe du jour est avec du pain et des pommes de terre.", "what is there to eat?", True),
        ("메뉴", "오늘의 국은 감자국이다.", "what is there to eat?", True),
    ],
)
def test_english_is_not_in_another_language(book, write_note, title, text, asked, is_other):
    """A short text, one with foreign names, one with a single foreign word or without letters gets no such credit."""
    write_note("a.md", f"# {title}\n\n{text}")
    book.reindex()
    [chunk] = book.index.catalog.at("a.md")
    foreign = candidates.TextScripts.of(asked).foreign(chunk, candidates.ChunkScripts(chunk), 0.0)
    assert (foreign > 0) is is_other


@pytest.mark.parametrize("line", ["a 안녕하세요\n", "k1 사과다\n", "1234567 항구의 등대는 밤에만 켜진다 a\n"])
def test_lines_of_one_length_are_not_told_by_one_column(line: str) -> None:
    """However long the lines of a list are, its language is that of its words."""
    assert of_note(line * 200) == "ko"
