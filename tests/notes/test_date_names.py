"""Names of months and days of the week, in all languages, in names of notes and in values."""

import datetime as dt
import string
import unicodedata
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spellbook.notes.date_names import key, meanings, table
from spellbook.notes.dates import day_in, iso

NAMES = table("date_names.toml")
MONTHS = [(int(number), name) for number, names in NAMES["months"].items() for name in names.split()]
DAYS = [(int(number), name) for number, names in NAMES["days"].items() for name in names.split()]


def test_the_table_is_whole_and_says_its_source() -> None:
    """Each month and day has names of hundreds of languages, in the form in which they are compared, each once."""
    assert [len({number for number, _ in names}) for names in (MONTHS, DAYS)] == [12, 7]
    for names, several, most in ((MONTHS, NAMES["several"]["months"], 12), (DAYS, NAMES["several"]["days"], 7)):
        listed = [name for _, name in names]
        assert len(listed) == len({*listed, *several}) - len(several) > 3_000
        assert all(name == key(name) for name in (*listed, *several))
        assert all(len(numbers) > 2 - bool(numbers[0]) and 0 <= numbers[0] <= most for numbers in several.values())
    assert min(len(names.split()) for names in NAMES["months"].values()) > 300


@pytest.mark.parametrize(
    ("format", "name", "day"),
    [
        # wide and abbreviated, genitive and stand-alone, one word and several
        ("D. MMMM YYYY", "22. maaliskuuta 2025", "2025-03-22"),  # Finnish
        ("MMMM YYYY", "maaliskuu 2025", "2025-03-01"),
        ("YYYY. MMMM D.", "2025. március 22.", "2025-03-22"),  # Hungarian
        ("D MMMM YYYY", "22 Μαρτίου 2025", "2025-03-22"),  # Greek
        ("MMMM YYYY", "Μάρτιος 2025", "2025-03-01"),
        ("D MMMM YYYY", "22 MARTIE 2025", "2025-03-22"),  # Romanian
        ("D MMM YYYY", "22 มี.ค. 2025", "2025-03-22"),  # Thai
        ("D MMMM YYYY", "22 มีนาคม 2025", "2025-03-22"),
        ("D. MMMM YYYY.", "22. ožujka 2025.", "2025-03-22"),  # Croatian
        ("YYYY [m.] MMMM D [d.]", "2025 m. kovo 22 d.", "2025-03-22"),  # Lithuanian
        ("D MMMM YYYY", "22 मार्च 2025", "2025-03-22"),  # Hindi
        ("D MMMM YYYY", "22 Mawrth 2025", "2025-03-22"),  # Welsh
        ("D [de] MMMM [de] YYYY", "22 de març de 2025", "2025-03-22"),  # Catalan
        ("DD [tháng] MM, YYYY", "22 tháng 03, 2025", "2025-03-22"),  # Vietnamese
        ("D MMMM YYYY", "22 tháng 3 2025", "2025-03-22"),
        ("YYYY MMMM", "2025 3월", "2025-03-01"),  # Korean
        ("D MMMM YYYY", "22 كانون الثاني 2025", "2025-01-22"),  # Arabic of the Levant
        ("D MMMM YYYY", "22 MART 2025", "2025-03-22"),  # Turkish
        ("D MMMM YYYY", "5 KASIM 2025", "2025-11-05"),
        ("YYYY/MM-MMM/YYYY-MM-DD dddd", "2025/03-märts/2025-03-22 laupäev", "2025-03-22"),  # Estonian
        ("dddd, D MMMM YYYY", "e shtunë, 22 mars 2025", "2025-03-22"),  # Albanian
        # the day of the week decides between two months of one name
        ("D. MMMM YYYY", "15. listopada 2025", "2025-11-15"),
        ("dddd, D. MMMM YYYY", "srijeda, 15. listopada 2025", "2025-10-15"),
        ("dddd D MMMM YYYY", "sobota 15 listopada 2025", "2025-11-15"),
        ("D MMM YYYY", "5 May 2025", "2025-05-05"),
        ("D MMM YYYY", "5 kol 2025", None),  # August in Croatian, February in Sesotho
        # it also decides the day of a week
        ("gggg-[W]ww dddd", "2026-W42 Thursday", "2026-10-15"),
        ("gggg-[W]ww dddd", "2026-W42 목요일", "2026-10-15"),
        ("gggg-[W]ww ddd", "2026-W42 czw.", "2026-10-15"),
        ("dddd GGGG-[W]WW", "quinta-feira 2026-W42", "2026-10-15"),
        ("gggg-[W]ww dddd", "2026-W42 thứ năm", "2026-10-15"),
        ("gggg-[W]ww dddd", "2026-W42 יום חמישי", "2026-10-15"),
        ("gggg-[W]ww (dd)", "2026-W42 (木)", "2026-10-15"),
        ("gggg-[W]ww dddd", "2026-W42 Sunday", "2026-10-18"),
        ("gggg-[W]ww dddd", "2026-W42 Notes", "2026-10-12"),
        # digits of other scripts
        ("YYYY-MM-DD", "٢٠٢٦-١٠-١٥", "2026-10-15"),
        ("D MMMM YYYY", "१५ अक्टूबर २०२६", "2026-10-15"),
        ("YYYY-[W]ww", "২০২৬-W৪২", "2026-10-12"),
    ],
)
def test_a_format_with_names_of_any_language(format: str, name: str, day: str | None) -> None:
    """In the folder of daily notes, names of months and days count in every language, case and form."""
    for form in ("NFC", "NFD"):
        assert day_in(f"D/{unicodedata.normalize(form, name)}.md", (("D", format),)) == day


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("lauantai 22. maaliskuuta 2025", "2025-03-22"),
        ("2025. március 22.", "2025-03-22"),
        ("Σάββατο 22 Μαρτίου 2025", "2025-03-22"),
        ("sâmbătă, 22 martie 2025", "2025-03-22"),
        ("22 มี.ค. 2025", "2025-03-22"),
        ("суббота, 22 марта 2025 г.", "2025-03-22"),
        ("2025 m. kovo 22 d., šeštadienis", "2025-03-22"),
        ("Marso 22, 2025", "2025-03-22"),
        ("thứ bảy, 22 tháng 3 năm 2025", "2025-03-22"),
        ("22 مارس، 2025", "2025-03-22"),
        ("٢٢ مارس ٢٠٢٥", "2025-03-22"),
        ("יום שבת, 22 במרץ 2025", "2025-03-22"),
        ("22 मार्च 2025", "2025-03-22"),
        ("２０２５年３月２２日", "2025-03-22"),
        ("๒๐๒๕-๐๓-๒๒", "2025-03-22"),
        ("२०२५-०३-२२T१०:००", "2025-03-22T10:00:00"),
        # a year of an era counts where the era is named
        ("22 มีนาคม พ.ศ. 2568", "2025-03-22"),
        ("令和7年3月22日", "2025-03-22"),
        ("平成元年3月22日", "1989-03-22"),
        ("民國114年3月22日", "2025-03-22"),
        ("22 มีนาคม 2568", None),
        ("7年3月22日", None),
        # words that are no month
        *((text, None) for text in ("22 Foo 2025", "5 lines of 2025", "12 here 2025", "Room 12, 2025", "3 a 2025")),
        *((text, None) for text in ("32. maaliskuuta 2025", "30 février 2025")),
    ],
)
def test_a_date_in_words_of_any_language(text: str, day: str | None) -> None:
    """A value is a date in every language, with digits of every script; a word that names no month is none."""
    assert iso(text) == iso(unicodedata.normalize("NFD", text)) == day
    if "T" not in text and "šeštadienis" not in text:
        assert day_in(f"{text}.md") == day


cased = st.sampled_from([str.lower, str.title, str.capitalize])


@given(st.sampled_from(MONTHS), st.integers(1, 28), st.booleans(), cased, st.sampled_from(["NFC", "NFD"]))
def test_every_name_of_a_month(
    month: tuple[int, str], day: int, stops: bool, case: Any, form: Literal["NFC", "NFD"]
) -> None:
    """Each name of the table, in each case, with and without a full stop, is its month in formats and in values."""
    number, name = month
    assume(not set(name) & set(",#:"))
    name = case(name)
    assume(key(name) == month[1])  # Python's title case changes words with marks
    name = unicodedata.normalize(form, name + "." * stops)
    for asked, written in (("D MMMM YYYY", f"{day} {name} 2025"), ("YYYY, MMMM D", f"2025, {name} {day}")):
        assert day_in(f"d/{written}.md", (("d", asked),)) == f"2025-{number:02}-{day:02}"
    if not name[0].isdecimal():
        assert iso(f"{day} {name} 2025") == f"2025-{number:02}-{day:02}"


@given(st.sampled_from(DAYS), st.integers(1, 52), cased)
def test_every_name_of_a_day(day: tuple[int, str], week: int, case: Any) -> None:
    """Each name of a day decides the day of a weekly note."""
    number, name = day
    assume(key(case(name)) == name and not set(name) & set("#:/"))
    found = day_in(f"w/2026-W{week:02} {case(name)}.md", (("w", "gggg-[W]ww dddd"),))
    assert found == dt.date.fromisocalendar(2026, week, number).isoformat()


@given(st.sampled_from(MONTHS), st.sampled_from(string.ascii_lowercase), st.integers(0, 20))
def test_a_word_beside_a_name_is_no_month(month: tuple[int, str], letter: str, at: int) -> None:
    """A name with a letter too many is a month only if it is another name of the table; else no date is made of it."""
    _, name = month
    word = name[:at] + letter + name[at:]
    numbers = meanings("months", word)
    assume(numbers[0] == 0)
    assert day_in(f"d/5 {word} 2025.md", (("d", "D MMMM YYYY"),)) is None
    assert iso(f"5 {word} 2025") is None
