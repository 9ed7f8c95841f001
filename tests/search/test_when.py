"""when: what a question says of time, what it does not say, and what a date does to a score."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from spellbook.index import sync
from spellbook.search import time_in_question
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.helpers import Write, opened

TODAY = dt.date(2026, 11, 20)  # a Friday


@pytest.mark.parametrize(
    ("text", "reason", "rest"),
    [
        ("지난주에 정한 것", "from 2026-11-09 to 2026-11-15: 지난주에", "정한 것"),
        ("2025년 3월에 정한 색", "from 2025-03-01 to 2025-03-31: 2025년 3월에", "정한 색"),
        ("12월 회의", "from 2025-12-01 to 2025-12-31: 12월", "회의"),
        ("11월 3일 회의", "from 2026-11-03 to 2026-11-03: 11월 3일", "회의"),
        ("3월부터 5월까지 쓴 일기", "from 2026-03-01 to 2026-05-31: 3월부터 5월까지", "쓴 일기"),
        ("작년 이후 바뀐 규칙", "since 2025-01-01: 작년 이후", "바뀐 규칙"),
        ("사흘 전에 한 말", "from 2026-11-17 to 2026-11-17: 사흘 전에", "한 말"),
        ("최근 2주간 회의", "from 2026-11-06 to 2026-11-20: 최근 2주간", "회의"),
        ("마지막으로 정한 색", "newest: 마지막으로", "정한 색"),
        ("the plan in May", "from 2026-05-01 to 2026-05-31: in May", "the plan"),
        ("what changed since March", "since 2026-03-01: since March", "what changed"),
        ("notes from last week", "from 2026-11-09 to 2026-11-15: from last week", "notes"),
        ("what we said before 2025", "until 2024-12-31: before 2025", "what we said"),
        ("two weeks ago in the office", "from 2026-11-02 to 2026-11-08: two weeks ago", "in the office"),
        ("call of last Monday", "from 2026-11-16 to 2026-11-16: of last Monday", "call"),
        ("last decision about the queue", "newest: last", "decision about the queue"),
        ("yesterday", "from 2026-11-19 to 2026-11-19: yesterday", "yesterday"),
    ],
)
def test_times_are_read(text: str, reason: str, rest: str) -> None:
    """A time becomes a range or an order, and leaves the question unless nothing else is in it."""
    found = time_in_question.read(text, TODAY)
    assert found is not None
    assert (found.reason, found.rest) == (reason, rest)


ALL = (
    "지난주에 정한 것",
    "지난주에 뭐 했지?",
    "5월에 무슨 결정을 했나",
    "어제",
    "last week",
    "what did we decide in May?",
)
NOT_ALL = ("어제 회의", "지난주에 정한 색", "the plan in May", "사흘 전에 한 말", "최근 결정")


@pytest.mark.parametrize("text", [*ALL, "What happened yesterday", "notes from last week", *NOT_ALL])
def test_a_question_for_nothing_but_a_time(text: str) -> None:
    """It names no subject; one for the newest of something is not of that kind."""
    found = time_in_question.read(text, TODAY)
    assert found is not None
    assert found.is_all is (text not in NOT_ALL)


@pytest.mark.parametrize(
    "text",
    [
        *("May I edit a page", "who can and may edit", "in the march of progress", "march of the penguins"),
        *("last line of the log", "latest version", "the last week of the plan", "next week", "a weekly report"),
        *('find "last week" exactly', "`yesterday` as a variable", "in 2000 words", "on 2025-02-30", "13월 회의"),
        *("지난 버전", "마지막 줄", "최신 버전", "오늘날의 도시", "12개월 할부", "한 주에 한 번", "다음 주 할 일"),
        *("last week and last month", "how to reconnect", ""),
        *("until 9999-12-31", "after 9999-12-31", "before 0001-01-01", "9999-12-31 회의"),  # no day before or after
    ],
)
def test_what_is_no_time(text: str) -> None:
    """A word that may mean something else is left alone."""
    assert time_in_question.read(text, TODAY) is None


def test_no_day_breaks_it() -> None:
    """Every day of four years is a today on which all words mean some range, or none."""
    texts = ("지난달", "작년 2월 29일", "2 months ago", "last week", "last Sunday", "999 weeks ago", "999년 전")
    for i in range(0, 1_461, 5):
        for text in texts:
            found = time_in_question.read(text, dt.date(2023, 1, 1) + dt.timedelta(days=i))
            assert found is None or found.first is None or found.last is None or found.first <= found.last


def at(day: dt.date) -> float:
    return dt.datetime.combine(day, dt.time(12)).timestamp()


def test_a_date_adds_a_share_and_hides_nothing(vault: Path, write_note: Write) -> None:
    """
    The reason is among the shares; notes of another time are still found; a filter by date leaves the words alone. A
    question for nothing but a time has the notes of then as its hits; without such a note it is as any other.
    """
    write_note("old.md", "정한 것은 파란색 the harbour decision", created="2026-05-03")
    write_note("new.md", "결제의 이름은 지라프 the harbour decision", created="2026-11-12")
    with opened(vault) as index:
        sync.run(index)
        searcher = Searcher(index, lambda: at(TODAY))

        def ask(text: str, **asked: Any) -> Any:
            return {
                hit.path: [each["reason"] for each in hit.why["adjustments"] if " old" not in each["reason"]]
                for hit in searcher.ask(Question(text, **asked)).hits
            }

        in_may = ask("harbour decision in May", min_score=0.0)
        assert [*in_may.items()] == [("old.md", ["from 2026-05-01 to 2026-05-31: in May"]), ("new.md", [])]
        assert next(iter(ask("last decision harbour", min_score=0.0).items())) == ("new.md", ["newest: last"])
        assert ask("harbour decision in May", filter={"when": "2026-11"}, min_score=0.0) == {"new.md": []}
        assert searcher.ask(Question("harbour decision in May")).query == "harbour decision in May"
        found = {"지난주에 정한 것": "new.md", "what did we decide in May?": "old.md", "지난주에 정한 파란색": "old.md"}
        for text, path in (found | {"2년 전에 정한 것": "old.md"}).items():
            assert next(iter(ask(text))) == path, text
        assert [*ask("지난주에 정한 것")] == ["new.md"]
