"""The date in a note's name: by Obsidian's formats, or as people write dates; nothing else is a date."""

from __future__ import annotations

import time
import unicodedata

import pytest

from spellbook.notes.daily import day_in


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2026-10-15", "2026-10-15"),
        ("2026.10.15", "2026-10-15"),
        ("2026_10_15", "2026-10-15"),
        ("20261015", "2026-10-15"),
        ("202610151432", "2026-10-15"),
        ("20261015143209 새 노트", "2026-10-15"),
        ("2026년 10월 15일", "2026-10-15"),
        ("2026년 3월 2일 회의", "2026-03-02"),
        ("2026. 3. 2. 회의", "2026-03-02"),
        ("2026-10-15 주간회의", "2026-10-15"),
        ("2026-10-15-10-ideas", "2026-10-15"),
        ("주간회의 2026-10-15", "2026-10-15"),
        ("회의20261015", "2026-10-15"),
        ("Release 2026.10.15", "2026-10-15"),
        ("2024-02-29", "2024-02-29"),
        ("2025年3月22日", "2025-03-22"),
        ("22. März 2025", "2025-03-22"),
        ("22 mars 2025 réunion", "2025-03-22"),
        ("22 марта 2025", "2025-03-22"),
        ("22 de marzo de 2025", "2025-03-22"),
        ("sexta-feira, 7 de março de 2025", "2025-03-07"),
        ("Meeting March 22nd, 2025", "2025-03-22"),
        ("22 févr. 2025", "2025-02-22"),
        ("22_maart_2025", "2025-03-22"),
        ("22 czerwca 2025", "2025-06-22"),
        ("22. července 2025", "2025-07-22"),
        ("22 березня 2025", "2025-03-22"),
        ("22 Mayıs 2025", "2025-05-22"),
        ("2025-Mar-22", "2025-03-22"),
        # words that begin like months
        ("Marketing 5 2024", None),
        ("Set 12 2025", None),
        ("12 products 2025", None),
        ("31 April 2025", None),
        ("March 2025", None),
        # versions, tickets, phone numbers, and days that no calendar has
        ("1.2.2026", None),
        ("2026.1.2", None),
        ("v2026.10.15", None),
        ("2026.10.15.3", None),
        ("2026-1234", None),
        ("ABC-20261015x", None),
        ("010-2026-1015", None),
        ("010-2026-10-15", None),
        ("02-20261015", None),
        ("120261015", None),
        ("2026-02-29", None),
        ("20261345", None),
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
        ("YYYY년 M월 D일 dddd", "2026년 10월 5일 월요일", "2026-10-05"),
        ("MMM D, YYYY", "10월 5, 2026", "2026-10-05"),
        ("YYMMDD", "261015", "2026-10-15"),
        ("[Day] D.M.YYYY", "Day 5.6.2026", "2026-06-05"),
        ("YYYY-MM-DD_HHmm", "2026-10-15_0930", "2026-10-15"),
        ("YYYY-DDDD", "2026-288", "2026-10-15"),
        ("gggg-[W]ww", "2026-W42", "2026-10-12"),
        ("gggg-[W]ww-E", "2026-W42-6", "2026-10-17"),
        ("GGGG-[W]WW-e", "2026-W42-0", "2026-10-12"),
        ("gggg-[W]ww-d", "2026-W42-0", "2026-10-18"),
        ("D. MMMM YYYY", "22. März 2025", "2025-03-22"),
        ("dddd D MMM YYYY", "samedi 22 févr. 2025", "2025-02-22"),
        ("D [de] MMMM [de] YYYY", "22 de marzo de 2025", "2025-03-22"),
        ("MMMM YYYY", "март 2025", "2025-03-01"),
        ("Do MMMM YYYY", "1er août 2025", "2025-08-01"),
        ("YYYY MMMM D", "2025 三月 22", "2025-03-22"),
        ("MMM. D, YYYY", "Oct. 5, 2026", "2026-10-05"),
        ("YYYY-MM", "2026-10", "2026-10-01"),
        ("YYYY-[Q]Q", "2026-Q4", "2026-10-01"),
        ("DD-MM-YYYY", "2025/05-06-2026", "2026-06-05"),
        ("YYYY-DD-MM", "2026-05-06", "2026-06-05"),
        # no day, no year, no date
        ("DD-MM-YYYY", "31-02-2026", None),
        ("YYYY-DDDD", "2026-366", None),
        ("gggg-[W]ww", "2026-W99", None),
        ("gggg-[W]ww-E", "2026-W42-8", None),
        ("D MMMM YYYY", "22 monday 2025", None),
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


def test_hostile_names_take_no_time() -> None:
    """Formats and names of the worst form are read in milliseconds."""
    started = time.monotonic()
    for format in ("dddd" * 20 + "YYYY", "MMMM" * 20 + "YYYY", "[" * 90 + "YYYY", "D" * 90 + "YYYY", "HmsAYYYY" * 12):
        for name in ("a" * 250, "1" * 250, "10월" * 80, "2026-" * 50, "jan1" * 60, "1 a " * 60):
            day_in(f"D/{name}.md", (("D", format),))
    assert time.monotonic() - started < 30
