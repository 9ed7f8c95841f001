"""Dates of the frontmatter, in the forms in which people, Obsidian's plugins and other programs write them."""

import time
import unicodedata

import pytest

from spellbook.notes.dates import day_in, iso


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("[[2024-01-05]]", "2024-01-05"),
        ("[[Journal/2024-01-05|Friday]]", "2024-01-05"),
        ([["2024-01-05"]], "2024-01-05"),
        ("January 5, 2024", "2024-01-05"),
        ("Friday, January 5th 2024, 3:04 PM", "2024-01-05T15:04:00"),
        ("Freitag, 5. Januar 2024 um 15:04 Uhr", "2024-01-05T15:04:00"),
        ("5 января 2024 г., 15:04", "2024-01-05T15:04:00"),
        ("2024-01-05T15:04:05.5+09:00", "2024-01-05T15:04:05.500000+09:00"),
        ("2024-01-05 15:04:05 +0900", "2024-01-05T15:04:05+09:00"),
        ("Fri Jan 05 2024 15:04:05 GMT+0900 (Korean Standard Time)", "2024-01-05T15:04:05+09:00"),
        ("2024. 1. 5.", "2024-01-05"),
        ("5.1.2024", "2024-01-05"),
        ("2024년 1월 5일 금요일 오후 3:04", "2024-01-05T15:04:00"),
        ("2024년 1월 5일 오전 12시 4분", "2024-01-05T00:04:00"),
        ("2024年1月5日 下午3:04", "2024-01-05T15:04:00"),
        ("202401051504", "2024-01-05T15:04:00"),
        (1704412800000, "2024-01-05T00:00:00+00:00"),
        # not one day, or none that every reader takes for the same
        *((text, None) for text in ("soon", "3:04 PM", "2024", "2024-13-05", "January 32, 2024", "01/05/2024")),
        *((text, None) for text in ("2024-01-05 to 2024-01-07", "2024-01-05 25:00", "5 Foo 2024", "1.10.5", "")),
        *((value, None) for value in (True, 12, 1.5, None, ["2024-01-05", "2024-01-06"])),
        ({}, None),
        ([], None),
    ],
)
def test_a_date_in_any_form(value: object, date: str | None) -> None:
    """Each form gives the day and the time it names in ISO 8601; what may be another day is none."""
    assert iso(value) == date
    assert iso(unicodedata.normalize("NFD", value) if isinstance(value, str) else value) == date


# -- the date in a note's name: by Obsidian's formats, or as people write dates; nothing else is a date


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2026-10-15", "2026-10-15"),
        ("2026.10.15", "2026-10-15"),
        ("20261015", "2026-10-15"),
        ("202610151432", "2026-10-15"),
        ("20261015143209 새 노트", "2026-10-15"),
        ("2026년 10월 15일", "2026-10-15"),
        ("2026. 3. 2. 회의", "2026-03-02"),
        ("주간회의 2026-10-15", "2026-10-15"),
        ("Release 2026.10.15", "2026-10-15"),
        ("2025年3月22日", "2025-03-22"),
        ("22. März 2025", "2025-03-22"),
        ("22 de marzo de 2025", "2025-03-22"),
        ("sexta-feira, 7 de março de 2025", "2025-03-07"),
        ("Meeting March 22nd, 2025", "2025-03-22"),
        ("22 févr. 2025", "2025-02-22"),
        ("22. července 2025", "2025-07-22"),
        ("2025-Mar-22", "2025-03-22"),
        # words that begin like months
        ("Marketing 5 2024", None),
        ("Set 12 2025", None),
        ("31 April 2025", None),
        ("March 2025", None),
        # versions, tickets, phone numbers, and days that no calendar has
        ("1.2.2026", None),
        ("2026.10.15.3", None),
        ("2026-1234", None),
        ("ABC-20261015x", None),
        ("010-2026-10-15", None),
        ("120261015", None),
        ("2026-02-29", None),
        ("2026-10", None),
        ("1426-10-15", None),
        ("a 2026-10-15 b", None),
        ("", None),
    ],
)
def test_a_date_at_the_beginning_or_the_end_of_a_name(name: str, day: str | None) -> None:
    """In any folder, a date as ISO 8601 or Koreans write it counts; numbers that only look like it do not."""
    assert day_in(f"어느 폴더/{name}.md") == day
    assert day_in(unicodedata.normalize("NFD", f"{name}.md")) == day


@pytest.mark.parametrize(
    ("format", "name", "day"),
    [
        ("DD-MM-YYYY", "05-06-2026", "2026-06-05"),
        ("YYYY/MM/YYYY-MM-DD", "2026/10/2026-10-15", "2026-10-15"),
        ("YYYY/MMMM/D", "2026/October/5", "2026-10-05"),
        ("dddd, MMMM Do YYYY", "Thursday, October 15th 2026", "2026-10-15"),
        ("YYMMDD", "261015", "2026-10-15"),
        ("[Day] D.M.YYYY", "Day 5.6.2026", "2026-06-05"),
        ("YYYY-MM-DD_HHmm", "2026-10-15_0930", "2026-10-15"),
        ("YYYY-DDDD", "2026-288", "2026-10-15"),
        ("gggg-[W]ww", "2026-W42", "2026-10-12"),
        ("gggg-[W]ww-E", "2026-W42-6", "2026-10-17"),
        ("D. MMMM YYYY", "22. März 2025", "2025-03-22"),
        ("D [de] MMMM [de] YYYY", "22 de marzo de 2025", "2025-03-22"),
        ("MMMM YYYY", "март 2025", "2025-03-01"),
        ("MMM. D, YYYY", "Oct. 5, 2026", "2026-10-05"),
        ("YYYY-MM", "2026-10", "2026-10-01"),
        ("YYYY-[Q]Q", "2026-Q4", "2026-10-01"),
        ("DD-MM-YYYY", "2025/05-06-2026", "2026-06-05"),
        # no day, no year, no date
        ("DD-MM-YYYY", "31-02-2026", None),
        ("YYYY-DDDD", "2026-366", None),
        ("gggg-[W]ww-E", "2026-W42-8", None),
        ("YYYY/MM/YYYY-MM-DD", "2026/10/x", None),
        ("MM-DD", "10-15", None),
        ("Y" * 400, "2026", None),
        ("(YYYY", "(2026", "2026-01-01"),
    ],
)
def test_a_format_of_obsidian(format: str, name: str, day: str | None) -> None:
    """In the folder of daily notes, the format of the settings says what a name means."""
    formats = (("일기/Daily", format),)
    assert day_in(f"일기/Daily/{name}.md", formats) == day
    if format == "DD-MM-YYYY":
        assert day_in(f"elsewhere/{name}.md", formats) is None


def test_hostile_dates_and_names_take_no_time() -> None:
    """Texts of the worst form are refused in milliseconds. Formats and names of the worst form are read in them."""
    started = time.process_time()
    for text in (
        "1 " * 50,
        "a " * 50,
        "1" * 10**6,
        *(f"2024-01-05{tail}" for tail in (" a" * 45, "(" * 89, " aaaa" * 18)),
    ):
        iso(text)
    for format in ("dddd" * 20 + "YYYY", "MMMM" * 20 + "YYYY", "[" * 90 + "YYYY", "D" * 90 + "YYYY", "HmsAYYYY" * 12):
        for name in ("a" * 250, "1" * 250, "10월" * 80, "2026-" * 50, "jan1" * 60, "1 a " * 60):
            day_in(f"D/{name}.md", (("D", format),))
    assert time.process_time() - started < 10
