"""Dates of the frontmatter, in the forms in which people, Obsidian's plugins and other programs write them."""

from __future__ import annotations

import time
import unicodedata

import pytest

from spellbook.notes.dates import iso


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("[[2024-01-05]]", "2024-01-05"),
        ("[[Journal/2024-01-05|Friday]]", "2024-01-05"),
        ([["2024-01-05"]], "2024-01-05"),
        ("January 5, 2024", "2024-01-05"),
        ("5 January 2024", "2024-01-05"),
        ("Jan 5th 2024", "2024-01-05"),
        ("Friday, January 5th 2024, 3:04 PM", "2024-01-05T15:04:00"),
        ("Friday, January 5th 2024, 12:04:05 am", "2024-01-05T00:04:05"),
        ("Freitag, 5. Januar 2024 um 15:04 Uhr", "2024-01-05T15:04:00"),
        ("vendredi 5 janvier 2024 à 15:04", "2024-01-05T15:04:00"),
        ("viernes, 5 de enero de 2024", "2024-01-05"),
        ("5 января 2024 г., 15:04", "2024-01-05T15:04:00"),
        ("2024-01-05 3:04 PM", "2024-01-05T15:04:00"),
        ("2024-01-05T15:04:05.5+09:00", "2024-01-05T15:04:05.500000+09:00"),
        ("2024-01-05 15:04:05 +0900", "2024-01-05T15:04:05+09:00"),
        ("Fri, 05 Jan 2024 15:04:05 GMT", "2024-01-05T15:04:05+00:00"),
        ("Fri Jan 05 2024 15:04:05 GMT+0900 (Korean Standard Time)", "2024-01-05T15:04:05+09:00"),
        ("2024/1/5 15:04", "2024-01-05T15:04:00"),
        ("2024. 1. 5.", "2024-01-05"),
        ("5.1.2024", "2024-01-05"),
        ("2024년 1월 5일 금요일 오후 3:04", "2024-01-05T15:04:00"),
        ("2024년 1월 5일 오전 12시 4분", "2024-01-05T00:04:00"),
        ("2024年1月5日 下午3:04", "2024-01-05T15:04:00"),
        ("202401051504", "2024-01-05T15:04:00"),
        (1704412800000, "2024-01-05T00:00:00+00:00"),
        ("1704412800", "2024-01-05T00:00:00+00:00"),
        # not one day, or none that every reader takes for the same
        *((text, None) for text in ("soon", "3:04 PM", "2024", "2024-13-05", "January 32, 2024", "01/05/2024")),
        *((text, None) for text in ("2024-01-05 to 2024-01-07", "2024-01-05 25:00", "5 Foo 2024", "1.10.5", "")),
        *((value, None) for value in (True, 12, 1.5, None, {}, [], ["2024-01-05", "2024-01-06"])),
    ],
)
def test_a_date_in_any_form(value: object, date: str | None) -> None:
    """Each form gives the day and the time it names in ISO 8601; what may be another day is none."""
    assert iso(value) == date
    assert iso(unicodedata.normalize("NFD", value) if isinstance(value, str) else value) == date


def test_hostile_dates_take_no_time() -> None:
    """Texts of the worst form are refused in milliseconds."""
    started = time.process_time()
    for text in (
        "1 " * 50,
        "a " * 50,
        "2024-01-05" + " a" * 45,
        "2024-01-05" + "(" * 89,
        "Jan 5 2024" + " aaaa" * 18,
        "1" * 10**6,
    ):
        iso(text)
    assert time.process_time() - started < 10
