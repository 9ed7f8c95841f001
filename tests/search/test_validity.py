"""Validity: what held when, by dates in frontmatter and by supersession; `validity.tesh` shows it at every door."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from spellbook.index.filters import as_of_moment, bound, validity
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.mcp import render
from tests.helpers import Write

FACT = "Orders are kept in {0}.\n"


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> float:
    return dt.datetime(year, month, day, hour, minute).timestamp()


def found(book: Reader, query: str = "Where are orders kept?", **options: Any) -> list[str]:
    return [hit.path.removesuffix(".md") for hit in book.search(query, min_score=0, **options).hits]


# -- the rule


@pytest.mark.parametrize(
    ("meta", "created", "ends", "holds", "words"),
    [
        ({}, None, None, "before on after", ""),
        ({"valid_from": "2026-03-01"}, None, None, "on after", "from 2026-03-01"),
        ({"valid_from": "2026-03"}, "2026-04-01", None, "on after", "from 2026-03"),
        ({}, "2026-03-01T13:00:00", None, "after", "from 2026-03-01"),
        ({"valid_until": "2026-03-01"}, None, None, "before on", "until 2026-03-01"),
        ({"valid_until": "2026-03-01T11:59:00"}, None, None, "before", "until 2026-03-01T11:59:00"),
        ({"valid_until": "never"}, None, at(2026, 3, 1, 12), "before", "until 2026-03-01"),
        ({}, None, at(2026, 3, 1, 12, 1), "before on", "until 2026-03-01"),
        ({"valid_until": "2026-06-30"}, None, at(2026, 2, 1), "before on", "until 2026-06-30"),
        ({"valid_from": ["2026-03-02"], "valid_until": True}, None, None, "before on after", ""),
    ],
)
def test_the_rule(
    book: Spellbook,
    write_note: Write,
    meta: dict[str, Any],
    created: str | None,
    ends: Any,
    holds: str,
    words: str,
) -> None:
    """Own dates, then `created` and a successor; a day, a month and a year count whole; what is no date counts as none."""
    first, last, said = validity(meta, created, ends)
    moments = {"before": at(2026, 1, 1), "on": at(2026, 3, 1, 12), "after": at(2026, 7, 1)}
    assert ([name for name, moment in moments.items() if first <= moment <= last], said) == (holds.split(), words)
    # The catalog says the same.
    write_note("fact.md", FACT, **{**meta, **({"created": created} if created else {})})
    if ends:
        write_note("next.md", "text\n", supersedes="fact", valid_from=dt.datetime.fromtimestamp(ends).isoformat())
    for name, moment in moments.items():
        as_of = dt.datetime.fromtimestamp(moment).isoformat()
        assert ("fact" in found(book, "orders", as_of=as_of)) == (name in holds.split()), name


ENDS = {"2026-03-01": at(2026, 3, 2), "2026-10": at(2026, 11, 1), "2027": at(2028, 1, 1)}
ENDS |= {"2026-11": at(2026, 11, 27, 12), "2026": at(2026, 11, 27, 12), "2026-03-01T10:00": at(2026, 3, 1, 10)}


@pytest.mark.parametrize("as_of", ENDS)
def test_a_date_means_its_end(as_of: str) -> None:
    """The month and the year that are not over end now; a time with a zone is an instant, wherever the machine is."""
    assert as_of_moment(as_of, at(2026, 11, 27, 12)) == pytest.approx(ENDS[as_of], abs=0.01)
    assert bound("2026-03-01T09:00:00+09:00") == dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp()


def test_of_a_range_each_note_has_its_share(book: Spellbook, write_note: Write) -> None:
    """
    What held for most of a range is preferred to what held for a little of it. A question for nothing but a time asks
    what was made then, not what held. Of notes that supersede each other the newest holds, and the line over time has
    each once.
    """
    write_note("old.md", FACT.format("Redis"), created="2025-02-03")
    write_note("new.md", FACT.format("MySQL"), created="2025-06-10", supersedes="old")
    for month, paths in (("March", []), ("June", ["new.md"])):
        assert [hit.path for hit in book.search(f"what did we decide in {month} 2025").hits] == paths
    write_note("old.md", FACT, created="2025-02-03", supersedes="new")
    assert found(book, "orders", as_of="2025-07") == ["new"]
    assert [each.path for each in book.around("old").timeline] == ["old.md", "new.md"]
    year = dt.date.today().year - 1
    write_note("old.md", FACT.format("Redis"), valid_from="2001", valid_until=f"{year}-11")
    write_note("new.md", FACT.format("MySQL"), valid_from=f"{year}-12")
    for hit in book.search("작년에 orders", min_score=0).hits:
        share = sum(one["share"] for one in hit.why["adjustments"] if "작년에" in one["reason"])
        assert share == pytest.approx(0.15 * (11 if hit.path == "old.md" else 1) / 12, abs=0.002)


def test_what_does_not_hold_yet_stands_below(book: Spellbook, write_note: Write) -> None:
    """Of two equal notes, the one that begins to hold later loses as much as one that is over."""
    year = dt.date.today().year
    lapsed: dict[str, dict[str, Any]] = {
        "later.md": {"valid_from": f"{year + 2}"},
        "over.md": {"valid_until": f"{year - 2}"},
        "now.md": {"x": 1},
    }
    for path, meta in lapsed.items():
        write_note(path, FACT.format(path), **meta)
    hits = {hit.path: hit.why["adjustments"] for hit in book.search("Where are orders kept?", min_score=0).hits}
    shares = {path: [round(one["share"], 1) for one in made] for path, made in hits.items()}
    assert next(iter(hits)) == "now.md"
    assert shares["now.md"] == []
    assert shares["later.md"] == pytest.approx(shares["over.md"], abs=0.1)
    assert shares["later.md"][0] < -0.1


# -- who may not see


def test_a_hidden_successor_tells_no_date(vault: Path, write_note: Write) -> None:
    """
    Neither to a limited token, nor from a scope, nor under a filter by privacy: what it supersedes goes on. From a scope
    or under a filter by privacy, a successor out of sight counts, without its title, id and path.
    """
    write_note("old.md", FACT.format("Redis"), created="2025-01-01", privacy_scope="team")
    write_note("new.md", FACT.format("MySQL"), valid_from="2025-06-10", supersedes="old", scope="acme")
    with books.open(vault, embedder="hash") as whole:
        assert found(whole, as_of="2026-01") == ["new"]
        team = limited.seen_by(whole, "team")
        assert found(team, as_of="2026-01") == ["old"]
        assert found(whole, as_of="2026-01", filter={"privacy_scope": "team"}) == ["old"]
        assert team.show("old", "2026-01")[0].path == "old.md"
        assert "2025-06" not in json.dumps(team.search("orders", min_score=0).as_dict())
        assert team.around("old").timeline == ()
        assert [each.path for each in whole.around("old").timeline] == ["old.md", "new.md"]
    with books.open(vault, embedder="hash", scope="home") as scoped:
        assert (found(scoped, as_of="2026-01"), scoped.around("old").timeline) == (["old"], ())
        [hit] = scoped.find("orders").hits
        assert (hit.why["superseded_by"], hit.why["adjustments"][-1]["reason"]) == ({}, "superseded")
        assert "new" not in str(hit.as_dict())
        assert "\n   superseded\n" in render.answer(scoped.find("orders"))
