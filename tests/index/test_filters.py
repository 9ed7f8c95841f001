"""Filters: parsed once into conditions; invalid ones are named."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.index.filters import Condition, conditions, day_of, fold, from_pairs, instant
from spellbook.system.errors import InvalidInput


def at(*parts: int) -> float:
    return dt.datetime(*parts).timestamp()


@pytest.mark.parametrize(
    ("given_filter", "expected"),
    [
        (None, ()),
        ({}, ()),
        ({"category": "Project"}, (Condition("category", ("project",)),)),
        ({"tags": ["#Ops", "dev"]}, (Condition("tags", ("ops", "dev")),)),  # without #
        ({"tags!": "ops"}, (Condition("tags", ("ops",), negated=True),)),
        ({"path": "A/*.md"}, (Condition("path", ("A/*.md",)),)),  # keeps its case
        ({"importance": "high"}, (Condition("importance", low=0.8),)),
        ({"importance": 0.3}, (Condition("importance", low=0.3),)),
        ({"importance": "0.3"}, (Condition("importance", low=0.3),)),
        ({"draft": True, "n": 1.0}, (Condition("draft", ("true",)), Condition("n", ("1",)))),
        ({"topic": "한글"}, (Condition("topic", ("한글",)),)),  # NFC
        ({" topic ": " x "}, (Condition("topic", ("x",)),)),
        ({"path": ["x"] * 2_000}, (Condition("path", ("x",) * 2_000),)),
        ({"path": "x" * 1_000}, (Condition("path", ("x" * 1_000,)),)),
    ],
)
def test_conditions(given_filter, expected):
    """Each form of a filter becomes folded conditions; 2,000 globs of 1,000 letters are accepted."""
    assert conditions(given_filter) == expected


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("2026-11-21", at(2026, 11, 21), at(2026, 11, 22)),
        ("2026-11", at(2026, 11, 1), at(2026, 12, 1)),
        ("2026-12", at(2026, 12, 1), at(2027, 1, 1)),
        ("2026", at(2026, 1, 1), at(2027, 1, 1)),
        (2026, at(2026, 1, 1), at(2027, 1, 1)),
        ("2026-11-01..2026-11-15", at(2026, 11, 1), at(2026, 11, 16)),
        ("2026-11-01..", at(2026, 11, 1), None),
        ("..2026-11", None, at(2026, 12, 1)),
        (">=2026-11-01", at(2026, 11, 1), None),
        ("<=2026-11-01", None, at(2026, 11, 2)),
        ({"from": "2026-11-01", "to": None}, at(2026, 11, 1), None),
        ({"to": dt.date(2026, 11, 1)}, None, at(2026, 11, 2)),
        ("2026-11-21T20:15:00+09:00..", dt.datetime(2026, 11, 21, 11, 15, tzinfo=dt.UTC).timestamp(), None),
    ],
)
def test_dates(value, low, high):
    """A date is the whole day, month or year, in local time; a range may be open; a time with a zone is that instant."""
    (found,) = conditions({"created": value})
    assert found.low == low
    assert found.high == (None if high is None else pytest.approx(high, abs=0.01))
    assert high is None or found.high < high


@pytest.mark.parametrize(
    ("given_filter", "names"),
    [
        ("category=x", "map keys to values"),
        *[({"category": value}, "category") for value in (None, [], {"a": 1})],
        ({"!": "x"}, "key without a name"),
        *[({"importance": value}, "importance") for value in ("often", 2, "nan", True)],
        *[({"created": value}, "created") for value in ("soon", "2026-13", "2026-1-2-3", "2026-02-30", "..", "", {})],
        *[({"created": value}, "created") for value in ({"from": None}, {"since": "2026"})],
        ({"updated": "99999-01-01"}, "updated"),
        *[({"path": value}, "too much") for value in (["x"] * 2_001, "x" * 1_001)],
    ],
)
def test_nonsense(given_filter, names):
    """An invalid filter, or one of too many or too long globs, is refused by its key, with an example."""
    with pytest.raises(InvalidInput, match=names) as caught:
        conditions(given_filter)
    assert caught.value.hint


@given(
    st.dictionaries(
        st.text(max_size=8) | st.sampled_from(["created", "importance", "tags", "path!"]),
        st.text() | st.none() | st.booleans() | st.floats() | st.lists(st.text()),
    )
)
def test_any_filter_is_read_or_refused(given_filter):
    """Any filter becomes one condition for each key, or InvalidInput."""
    try:
        found = conditions(given_filter)
    except InvalidInput:
        return
    assert len(found) == len(given_filter)


def test_from_pairs():
    """KEY=VALUE pairs become a filter; a repeated key takes any of its values; no other form is accepted."""
    for pairs, expected in (
        ([], {}),
        (["a=b=c"], {"a": "b=c"}),
        (["a=x", "a=y", "a=z"], {"a": ["x", "y", "z"]}),
        (["a!=x", "b="], {"a!": "x", "b": ""}),
    ):
        assert from_pairs(pairs) == expected
    for pair in ("a", "=x", "!=x", ""):
        with pytest.raises(InvalidInput, match="not KEY=VALUE"):
            from_pairs([pair])


def test_values_are_compared_folded():
    """Values compare without case, blanks and number form. An ISO date is seconds since 1970; a file's time is a day."""
    values = [(" Ab ", "ab"), (True, "true"), (2.0, "2"), (2.5, "2.5"), ("STRASSE", "strasse"), ("straße", "strasse")]
    assert [fold(value) for value, _ in values] == [folded for _, folded in values]
    times = {"1970-01-01T00:00:00+00:00": 0.0, "2026-11-21": at(2026, 11, 21), "soon": None, "": None, None: None}
    assert {text: instant(text) for text in times} == times
    for when in (at(2026, 11, 21), at(1999, 12, 31)):
        assert day_of(int(when * 1e9)) == dt.datetime.fromtimestamp(when).date().isoformat()
