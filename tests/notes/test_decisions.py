"""Decisions and checkpoints are written as a person reads them, and read as a person may have written them."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.notes.decision_text import (
    Checkpoint,
    CheckpointTask,
    Decision,
    checkpoint_text,
    decision_text,
    read_checkpoint,
    read_decision,
    with_outcome,
)
from spellbook.notes.titles import title

DAY = dt.date(2026, 12, 3)


def test_a_decision_reads_well_and_comes_back() -> None:
    """Labels are in the language of the text."""
    body = decision_text("닭 모델은 복셀 32×32×32로 만든다. 색은 여덟 가지다.", "16에서는 부리가 보이지 않는다.")
    assert body == "닭 모델은 복셀 32×32×32로 만든다. 색은 여덟 가지다.\n\n이유: 16에서는 부리가 보이지 않는다."
    assert read_decision(body) == Decision(
        "닭 모델은 복셀 32×32×32로 만든다. 색은 여덟 가지다.", "16에서는 부리가 보이지 않는다."
    )
    assert decision_text("Use PostgreSQL.", "One store.") == "Use PostgreSQL.\n\nReasoning: One store."
    assert decision_text("Use PostgreSQL.") == "Use PostgreSQL."


def test_outcomes_are_a_list_that_grows() -> None:
    """
    The first makes the list, each further one ends it, and earlier ones stay. Success, failure, success of one day: the
    changed text is found once. Of an outcome a person may leave out the date and the result; the rest is its reason.
    """
    body = decision_text("Use PostgreSQL.")
    for result in ("success", "failed", "success"):
        old, new = with_outcome(body, result, "as told", DAY)
        assert body.count(old) == 1 or not old
        body = body.replace(old, new) if old else f"{body}\n\n{new}"
    assert len(read_decision(body).outcomes) == 3
    for line in ("2026-12-03 실패: 느리다", "failed: 느리다", "2026-12-03: 느리다", "느리다"):
        assert Decision("x", "", (line,)).outcome_reason == "느리다"
    body = decision_text("Use PostgreSQL.", "One store.")
    old, new = with_outcome(body, "partial", "Slow\nat night.", DAY)
    assert (old, new) == ("", "Outcome:\n- 2026-12-03 partial: Slow at night.")
    body = f"{body}\n\n{new}"
    assert read_decision(body).outcome_reason == "Slow at night."
    old, new = with_outcome(body, "failed", "", DAY)
    assert body.count(old) == 1
    body = body.replace(old, new)
    assert read_decision(body) == Decision(
        "Use PostgreSQL.", "One store.", ("2026-12-03 partial: Slow at night.", "2026-12-03 failed")
    )
    assert read_decision(body).outcome_reason == ""
    old, new = with_outcome(body, "failed", "", DAY)
    assert old == new


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("그냥 쓴 글.\n\n둘째 문단.", Decision("그냥 쓴 글.\n\n둘째 문단.")),
        ("Do it.\n\nreasoning:\nfirst\n\nsecond", Decision("Do it.", "first\n\nsecond")),
        ("Do it.\n\n결과:\n* 2026-12-03 실패: 느리다\n", Decision("Do it.", "", ("2026-12-03 실패: 느리다",))),
        ("이유: only this", Decision("", "only this")),
        ("", Decision("")),
    ],
)
def test_what_a_person_writes_is_read(body: str, expected: Any) -> None:
    """Labels may be missing, in either language and in any case; a reason may have paragraphs."""
    assert read_decision(body) == expected


def test_a_checkpoint_reads_well_and_ticked_boxes_come_back() -> None:
    """Steps are tasks that Obsidian shows as boxes."""
    body = checkpoint_text(
        "로그인 세션을 옮기는 중.", ["`SessionStore.write`를 바꾼다", "두\n줄"], ["src/auth/session.py"]
    )
    assert body == (
        "로그인 세션을 옮기는 중.\n\n다음 할 일:\n- [ ] `SessionStore.write`를 바꾼다\n- [ ] 두 줄\n\n"
        "열린 파일:\n- `src/auth/session.py`"
    )
    ticked = body.replace("- [ ] 두 줄", "- [x] 두 줄")
    assert read_checkpoint(ticked) == Checkpoint(
        "로그인 세션을 옮기는 중.",
        (CheckpointTask("`SessionStore.write`를 바꾼다"), CheckpointTask("두 줄", done=True)),
        ("src/auth/session.py",),
    )
    assert checkpoint_text("Nothing more.") == "Nothing more."


_LINE = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1).filter(
    lambda text: not text.startswith(("[", "`"))
)


@given(st.lists(_LINE, max_size=4), st.lists(_LINE, max_size=4))
def test_steps_and_files_come_back(steps: Any, files: Any) -> None:
    """Whatever they hold, backticks and marks too."""
    read = read_checkpoint(checkpoint_text("Summary.", steps, files))
    assert [each.text for each in read.steps] == steps
    assert list(read.files) == files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use PostgreSQL. It is one store.", "Use PostgreSQL"),
        ("닭은 복셀로 만든다. 색은 여덟.", "닭은 복셀로 만든다"),
        ("# Heading\nmore", "Heading"),
        ("word " * 100, "word " * 22 + "word…"),
    ],
)
def test_a_title_is_the_first_sentence(text: str, expected: str) -> None:
    """On one line, and bounded."""
    assert title(text) == expected
