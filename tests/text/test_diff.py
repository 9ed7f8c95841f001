"""Differences: changed numbers and negations are told from other changes, in Korean and English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.text.diff import contradiction, masked


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Backups are kept for 30 days.", ["30days"]),
        ("1,234.5 kB, then 1234.5kB", ["1234.5kb", "1234.5kb"]),
        ("5 % of $1,000,000", ["5%", "$1000000"]),
        ("-5 °C, 3-5 hours, sha256", ["-5°c", "3-5hours", "256"]),
        ("백업은 30일, 로그는 3개월을 둔다", ["30일", "3개월"]),
        ("2026년 11월 3일 오후 2시 30분", ["2026년", "11월", "3일", "2시", "30분"]),
        ("5 servers and 7 stars", ["5", "7"]),
    ],
)
def test_numbers_are_found_with_their_units(text: str, found: list[str]) -> None:
    """A number includes thousands separators, date or version and unit; words that begin like a unit stay words."""
    assert list(masked(text)[1]) == found


@pytest.mark.parametrize(
    ("a", "b", "left", "right"),
    [
        ("We keep it for 30 days.", "We keep it for 14 days.", "… it for 30 days", "… it for 14 days"),
        ("The limit is 30 minutes", "The limit is 30 seconds", "… limit is 30 minutes", "… limit is 30 seconds"),
        ("백업은 30일 동안 보관한다.", "백업은 14일 동안 보관한다.", "백업은 30일 동안 …", "백업은 14일 동안 …"),
        ("We deploy on Fridays", "We never deploy on Fridays", "We deploy …", "We never deploy …"),
        ("세션은 저장한다.", "세션은 저장하지 않는다.", "세션은 저장한다", "세션은 저장하지 않는다"),
        ("금요일에는 배포합니다", "금요일에는 배포 안 합니다", "금요일에는 배포합니다", "금요일에는 배포 안 합니다"),
    ],
)
def test_contradictions_are_shown_side_by_side(a: str, b: str, left: str, right: str) -> None:
    """Texts that differ only in numbers, units or a negation contradict; the parts are shown with some words around."""
    assert contradiction(a, b) == ((left, right),)
    assert contradiction(b, a) == ((right, left),)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The same text, 5 times.", "the same text: 5 times"),
        ("Cache: 1,234.5 kB", "Cache: 1234.5kB"),
        ("We retry the call", "We retry the call 3 times"),
        ("안전 지침을 따른다", "안내 지침을 따른다"),
        ("We deploy on Fridays", "We never deploy anything that the harbour master did not see on Fridays"),
    ],
)
def test_other_differences_are_none(a: str, b: str) -> None:
    """Other punctuation, words, an added number or clause is no contradiction."""
    assert contradiction(a, b) == ()


NUMBERS = st.one_of(st.integers(0, 10**6).map(str), st.integers(1000, 10**6).map("{:,}".format), st.dates().map(str))
WORDS = st.sampled_from(["keys of", "백업은", "the harbour", "보관한다", "is", "동안"])


@given(
    st.lists(st.tuples(WORDS, NUMBERS, NUMBERS), min_size=1, max_size=6),
    st.sampled_from(["days", "일", " GB", "%", ""]),
    st.text("0123456789.,:-% \nab한글일분not안没", max_size=60),
)
def test_whatever_the_numbers_are(parts: list[tuple[str, str, str]], unit: str, text: str) -> None:
    """Texts with other numbers have one mask and contradict where numbers differ; no text contradicts itself."""
    assert contradiction(text, text) == ()
    a = " ".join(f"{word} {number}{unit} end" for word, number, _ in parts)
    b = " ".join(f"{word} {number}{unit} end" for word, _, number in parts)
    assert masked(a)[0] == masked(b)[0]
    differing = sum(one.replace(",", "") != other.replace(",", "") for _, one, other in parts)
    assert len(contradiction(a, b)) == differing
