"""Terms: indexed terms and query terms match in SQLite's full-text index; the language of a text where its script does not tell."""

import sqlite3
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spellbook.library.book import Spellbook
from spellbook.models import calibration
from spellbook.search import script_and_language
from spellbook.text.korean import stem
from spellbook.text.languages import language, of_note
from spellbook.text.terms import estimate_tokens, index_form, parts, phrase, scripts, terms, token_weight
from tests.helpers import Write, empty_catalog

anything = st.text(st.characters(exclude_categories=["Cs"]))
hangul = st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1, max_size=12)
identifiers = st.from_regex(r"[a-zA-Z0-9_.+#/:@-]{1,12}( [a-zA-Z0-9_.+#/:@-]{1,12})?", fullmatch=True)


@cache
def catalog() -> sqlite3.Connection:
    """An empty full-text table for all of these tests."""
    return empty_catalog()


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    catalog().close()


def found(text: str, asked: object) -> bool:
    """Whether the full-text table finds `text` by the expression `asked`."""
    catalog().execute("BEGIN")
    try:
        catalog().execute("INSERT INTO words (body, parts) VALUES (?, ?)", (index_form(text), parts(text)))
        return bool(catalog().execute("SELECT count(*) FROM words WHERE words MATCH ?", (str(asked),)).fetchone()[0])
    finally:
        catalog().execute("ROLLBACK")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("도커를", " 도커 커를 "),
        ("東京タワー", " 東京 京タ タワ ワー "),
        ("가", " 가 "),
        ("ภาษาไทย", " ภาษา ษาไท ไทย "),
        ("ＡＰＩ と ｱﾌﾟﾘ", "API  と   アプ プリ "),
        ("كِتَــاب أحمد", "كتاب احمد"),
        ("done✅", "done u2705 "),
        ("हिन्दी", "हिन्दी"),
        ("", ""),
    ],
)
def test_index_form(text: str, form: str) -> None:
    """Runs of CJK become overlapping pairs; the rest stays."""
    assert index_form(text) == form


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Docker docker DOCKER", ["docker"]),
        ("도커 설치", ["도커", "설치"]),
        ("k8s의 v1.2", ["k8s", "의", "v1", "2"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा।"]),
        ("?! ...", []),
        (" ".join(map(str, range(100))), [str(i) for i in range(64)]),
    ],
)
def test_terms(question: str, expected: Any) -> None:
    """A query's terms are its distinct words and pairs in order, at most 64."""
    assert terms(question) == expected


@pytest.mark.parametrize(
    ("text", "asked", "hit"),
    [
        ("도커를 설치한다", "도커", True),
        ("도커를 설치한다", "커를 설", True),
        ("도커를 설치한다", "커를 치", False),
        ("React를쓴다", "React를", True),
        ("도커를 설치한다", "도", True),
        ("도커를", "를", False),
        ("x AND y", 'x" OR "y', False),
        ("東京タワー", "京タワ", True),
        ("ภาษาไทย", "ไทย", True),
        ("हिन्दी में", "हिन्दी", True),
        ("हिन्दी में", "हिन्दू", False),
        ("İstanbul’da", "istanbul", True),
        ("ΟΔΟΣ", "οδός", True),
        ("tiếng Việt", "tieng viet", True),
        ("کتاب می‌خوانم", "میخوانم", True),
        ("a 🧙‍♂️ wizard", "🧙", True),
        ("a wizard", "🧙", False),
        ("the useState hook", "useState", True),
        ("the useState hook", "use state", True),
        ("class HTTPServer:", "server", True),
        ("all APIs", "AP", False),
        ("an error_boundary here", "error_boundary", True),
        ("an error boundary here", "error_boundary", True),
        ("run it with --dry-run", "dry run", True),
        ("since v1.2.3 it works", "1.2.3", True),
        ("since v1.2.4, of 3 parts", "1.2.3", False),
        ("see src/app/page.tsx", "page.tsx", True),
        ("written in C++, not C", "C++", True),
        ("C++로 쓴다", "c++", True),
        ("written in C", "C++", False),
        ("put it in `.env`", ".env", True),
        ("the env", ".env", False),
    ],
)
def test_phrase(text: str, asked: str, hit: bool) -> None:
    """A phrase finds the text that contains it, in CJK letter by letter, and is never read as syntax."""
    assert found(text, phrase(asked)) is hit


@given(anything, hangul, st.integers(0, 11), st.integers(2, 12), identifiers)
@example("0:\u0dcf:0 0:\u0dd2:0 0:\u0301:0 0:\ufe0f:0 0:\u064b:0 0:\u0941:0 0:\u20dd:0 0:\u3099:0", "가나", 0, 2, "a")
# The same texts each time: of signs that came into Unicode lately, SQLite's table and Python's do not say the same.
@settings(derandomize=True)
def test_every_word_of_a_text_finds_it(text: str, run: Any, start: Any, length: Any, identifier: Any) -> None:
    """
    Each word of a text finds it, in any script and Unicode form; two or more letters of a run of Hangul, and an
    identifier of any letters, digits and marks as written, in any case.
    """
    asked = [(text, unicodedata.normalize(form, word)) for word in text.split() for form in ("NFC", "NFD")]
    asked += [(identifier, form) for word in identifier.split() for form in (word, word.lower(), word.upper())]
    if len(part := run[start : start + length]) > 1:
        asked.append((f"앞 {run} 뒤", part))
    for whole, word in asked:
        assert not phrase(word) or found(whole, phrase(word)), (whole, word)


@pytest.mark.parametrize("text", ["1A", "A.b", "aA", "a", "1.", ".", "A+", "é"])
def test_parts_take_linear_time(text: str) -> None:
    """A megabyte of any text takes seconds at most, and binary data is no identifier."""
    assert len(parts("v" + text * (1_000_000 // len(text)))) <= 1_000_001


@given(anything, anything)
def test_weights_add_up(a: Any, b: Any) -> None:
    """The weight of two texts is the sum of their weights, and the estimate, near to the tokeniser's, is the rounded."""
    assert token_weight(a + b) == pytest.approx(token_weight(a) + token_weight(b))
    assert estimate_tokens(a) == round(token_weight(a))
    for text, low, high in (("word ", 0.9, 1.2), ("한글 문장을 쓴다 ", 3.5, 6.5), ("1234 ", 1.6, 2.6)):
        assert 100 * low <= estimate_tokens(text * 100) <= 100 * high


STEMS = {"도커를": "도커", "도커에서의": "도커", "사용자들에게는": "사용자", "설정합니다": "설정", "훅을": "훅"}
STEMS |= {"친절하셨습니다": "친절", "아이": "아이", "지도": "지도", "도커": "도커", "를": "를", "": ""}


@pytest.mark.parametrize(
    ("text", "expected"), [("Docker 설정", {"latin": 0.75, "hangul": 0.25}), ("カタかな漢字", {"han": 1.0}), ("", {})]
)
def test_scripts(text: str, expected: dict[str, Any]) -> None:
    """
    Letters count by their script, Japanese as one; digits and signs do not count. Scripts are in the order of the text,
    as of equal shares the first counts. Particles and endings are removed; similar endings of other words stay.
    """
    assert scripts(text) == pytest.approx(expected)
    assert [*scripts(f"1 가é{text} 漢")] == [*scripts("가 é 漢")] == ["hangul", "latin", "han"]
    assert [*scripts("가 ab 漢字")] == ["hangul", "latin", "han"]
    assert [*scripts("가 漢字 ab")] == ["hangul", "han", "latin"]
    assert {word: stem(word) for word in STEMS} == STEMS


# -- languages

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
    "text", ["", "docker compose", "Panthers 2015", "const [a, setA] = useState(i);", "la", "🙂", "12:30"]
)
def test_what_is_unclear_is_not_guessed(text: str) -> None:
    """
    Names, code and single words have no language, nor has a text whose script tells. However long the lines of a list
    are, its language is that of its words.
    """
    assert language(text) == language("배포는 무슨 요일에 하나요?") == ""
    for line in ("a 안녕하세요\n", "k1 사과다\n", "1234567 항구의 등대는 밤에만 켜진다 a\n"):
        assert of_note(line * 200) == "ko"
    for name in ("el", "hi", "th"):
        assert {(language(passage), of_note(passage)) for passage in PASSAGES[name]} == {("", name)}


@pytest.mark.parametrize(
    ("title", "text", "asked", "is_other"),
    [
        ("2026-11-03", "Met Ann.", "when did we deploy?", False),
        ("Trip", "Drive from Los Angeles to El Paso, then Las Cruces.", "where did we go?", False),
        ("12", "12, 44, 2026-11-03", "배포는 언제 하나요?", False),
        ("Menu", "La soupe du jour est avec du pain et des pommes de terre.", "what is there to eat?", True),
        ("메뉴", "오늘의 국은 감자국이다.", "what is there to eat?", True),
    ],
)
def test_an_answer_in_another_language_need_not_hold_the_words(
    book: Spellbook, write_note: Write, title: str, text: str, asked: str, is_other: bool
) -> None:
    """
    A text in another language gets credit for the words of a question; a short text, one with foreign names, one with a
    single foreign word or without letters gets none.
    """
    write_note("a.md", f"# {title}\n\n{text}")
    book.reindex()
    [chunk] = book.index.catalog.at("a.md")
    foreign = script_and_language.Writing(asked).foreign(
        script_and_language.Writing(chunk.text, f"{chunk.title} {chunk.heading}"), 0.0
    )
    assert (foreign > 0) is is_other
