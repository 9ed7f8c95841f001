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
        pytest.param(None, (), id="none"),
        pytest.param({}, (), id="empty"),
        pytest.param({"category": "Project"}, (Condition("category", ("project",)),), id="text"),
        pytest.param({"tags": ["#Ops", "dev"]}, (Condition("tags", ("ops", "dev")),), id="list, tags without #"),
        pytest.param({"tags!": "ops"}, (Condition("tags", ("ops",), negated=True),), id="negated"),
        pytest.param({"path": "A/*.md"}, (Condition("path", ("A/*.md",)),), id="a path keeps its case"),
        pytest.param({"importance": "high"}, (Condition("importance", low=0.8),), id="importance by word"),
        pytest.param({"importance": 0.3}, (Condition("importance", low=0.3),), id="importance by number"),
        pytest.param({"importance": "0.3"}, (Condition("importance", low=0.3),), id="importance by number as text"),
        pytest.param(
            {"draft": True, "n": 1.0}, (Condition("draft", ("true",)), Condition("n", ("1",))), id="other keys"
        ),
        pytest.param({"topic": "한글"}, (Condition("topic", ("한글",)),), id="NFC"),
        pytest.param({" topic ": " x "}, (Condition("topic", ("x",)),), id="blanks"),
    ],
)
def test_conditions(given_filter, expected):
    """Each form of a filter becomes folded conditions."""
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
    ],
)
def test_dates(value, low, high):
    """A date is the whole day, month or year, in local time; a range may be open."""
    (found,) = conditions({"created": value})
    assert found.low == low
    assert found.high == (None if high is None else pytest.approx(high, abs=0.01))
    assert high is None or found.high < high


def test_an_instant_is_exact():
    """A time with a zone is that instant."""
    (found,) = conditions({"updated": "2026-11-21T20:15:00+09:00.."})
    assert found.low == dt.datetime(2026, 11, 21, 11, 15, tzinfo=dt.UTC).timestamp()


@pytest.mark.parametrize(
    ("given_filter", "names"),
    [
        ("category=x", "map keys to values"),
        ({"category": None}, "category"),
        ({"category": []}, "category"),
        ({"category": {"a": 1}}, "category"),
        ({"!": "x"}, "key without a name"),
        ({"importance": "often"}, "importance"),
        ({"importance": 2}, "importance"),
        ({"importance": "nan"}, "importance"),
        ({"importance": True}, "importance"),
        ({"created": "soon"}, "created"),
        ({"created": "2026-13"}, "created"),
        ({"created": "2026-1-2-3"}, "created"),
        ({"created": "2026-02-30"}, "created"),
        ({"created": ".."}, "created"),
        ({"created": ""}, "created"),
        ({"created": {}}, "created"),
        ({"created": {"from": None}}, "created"),
        ({"created": {"since": "2026"}}, "created"),
        ({"updated": "99999-01-01"}, "updated"),
    ],
)
def test_nonsense(given_filter, names):
    """An invalid filter is refused by its key, with an example."""
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


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], {}),
        (["a=b"], {"a": "b"}),
        (["a=b=c"], {"a": "b=c"}),
        (["a=x", "a=y", "a=z"], {"a": ["x", "y", "z"]}),
        (["a!=x"], {"a!": "x"}),
        (["a="], {"a": ""}),
    ],
)
def test_from_pairs(pairs, expected):
    """KEY=VALUE pairs become a filter; a repeated key takes any of its values."""
    assert from_pairs(pairs) == expected


@pytest.mark.parametrize("pair", ["a", "=x", "!=x", ""])
def test_from_pairs_refuses(pair):
    """What is no KEY=VALUE is refused."""
    with pytest.raises(InvalidInput, match="not KEY=VALUE"):
        from_pairs([pair])


@pytest.mark.parametrize(
    ("value", "folded"),
    [(" Ab ", "ab"), (True, "true"), (2.0, "2"), (2.5, "2.5"), ("STRASSE", "strasse"), ("straße", "strasse")],
)
def test_fold(value, folded):
    """Values compare without case, blanks and number form."""
    assert fold(value) == folded


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T00:00:00+00:00", 0.0), ("2026-11-21", at(2026, 11, 21)), ("soon", None), ("", None), (None, None)],
)
def test_instant(text, seconds):
    """An ISO date is seconds since 1970, anything else is none."""
    assert instant(text) == seconds


@pytest.mark.parametrize("when", [at(2026, 11, 21), at(1999, 12, 31)])
def test_day_of(when):
    """A file's time, in nanoseconds, is its day in local time."""
    assert day_of(int(when * 1e9)) == dt.datetime.fromtimestamp(when).date().isoformat()


def test_path_filters_are_bounded():
    """2,000 globs of 1,000 letters are accepted, more of either are refused."""
    assert len(conditions({"path": ["x"] * 2_000})[0].values) == 2_000
    assert conditions({"path": "x" * 1_000})[0].values == ("x" * 1_000,)
    for much in (["x"] * 2_001, "x" * 1_001):
        with pytest.raises(InvalidInput, match="too much"):
            conditions({"path": much})
