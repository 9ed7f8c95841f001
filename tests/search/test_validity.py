"""Validity: what held when, by dates in frontmatter and by supersession; at every door."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from spellbook.index.filters import as_of_moment, bound, validity
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.search import presentation
from spellbook.system.errors import InvalidInput, MemoryNotFound
from tests.commands import spellbook_in
from tests.helpers import Write
from tests.mcp.agent import Agent, talk

FACT = "Orders are kept in {0}.\n"


def at(*parts: int) -> float:
    return dt.datetime(*parts).timestamp()


@pytest.fixture
def changed(book: Spellbook, write_note: Write) -> Spellbook:
    """Three states of one fact: by `valid_from`, by `created` alone, and one that is still to come."""
    write_note("redis.md", "# Redis\n\n" + FACT.format("Redis"), valid_from="2025-02-03", created="2026-10-01")
    write_note("mysql.md", "# MySQL\n\n" + FACT.format("MySQL"), created="2025-06-10", supersedes="redis")
    write_note("oracle.md", "# Oracle\n\n" + FACT.format("Oracle"), valid_from="2099-01", supersedes="mysql")
    return book


def found(book: Spellbook, query: str = "Where are orders kept?", **options: str) -> list[str]:
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
def test_the_rule(book, write_note, meta, created, ends, holds, words):
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
def test_a_date_means_its_end(as_of):
    """The month and the year that are not over end now; a time with a zone is an instant, wherever the machine is."""
    assert as_of_moment(as_of, at(2026, 11, 27, 12)) == pytest.approx(ENDS[as_of], abs=0.01)
    assert bound("2026-03-01T09:00:00+09:00") == dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp()


@pytest.mark.parametrize("as_of", ["soon", "26", "2026-13", "2026-02-30", "-1"])
def test_what_is_no_date_is_refused(book, write_note, as_of):
    """With the forms that are dates, by `search` and `show`; in a note it is a fault, and hides nothing."""
    write_note("fact.md", FACT, valid_from=json.dumps(as_of), valid_until="")
    for ask in (book.search, book.show):
        with pytest.raises(InvalidInput, match="not a date") as caught:
            ask("fact", as_of=as_of)
        assert "2026-11," in caught.value.hint
    faults = [fault.reason for fault in book.index.catalog.notes.faults()]
    assert faults == [f"the date valid_from is not understood: '{as_of}'"]
    assert found(book, "orders", as_of="1999") == ["fact"]


# -- what held then

STATES = [
    ("2025-02-02", []),
    ("2025-02-03", ["redis"]),
    ("2025-06-09", ["redis"]),
    ("2025-06-10", ["mysql"]),
    ("2026-10", ["mysql"]),
    ("2099-02", ["oracle"]),
]


@pytest.mark.parametrize(("as_of", "held"), STATES)
def test_each_state_is_found_in_its_time(changed, as_of, held):
    """Alone, and not as one that is superseded; `show` of any of them shows it, or says when they held."""
    answer = changed.search("Where are orders kept?", min_score=0, as_of=as_of)
    assert [hit.path.removesuffix(".md") for hit in answer.hits] == held
    assert not any("superseded_by" in hit.why or "until" in str(hit.why["adjustments"]) for hit in answer.hits)
    assert found(changed, as_of=as_of, filter={"path": "mysql.md"}) == [name for name in held if name == "mysql"]
    row = changed.why("Where are orders kept?", "redis", as_of=as_of).rows[0]
    assert (row.verdict == "excluded by the filter as_of, what held then") is (held != ["redis"])
    for id in ("redis", "mysql#", "oracle"):
        if held:
            assert changed.show(id, as_of)[0].path == f"{held[0]}.md"
        else:
            with pytest.raises(MemoryNotFound, match=f"Nothing of this held on {as_of}") as caught:
                changed.show(id, as_of)
            assert "redis from 2025-02-03 until 2025-06-10" in caught.value.hint


def test_what_has_ended_says_so(book, write_note):
    """It loses four tenths, once, and every line about it says until when it held."""
    write_note("old.md", FACT.format("Redis"), valid_until="2026-03-01", status="superseded")
    write_note("new.md", FACT.format("MySQL"), valid_until="2099")
    hits = book.search("Where are orders kept?", min_score=0).hits
    assert [(hit.path, [one["reason"] for one in hit.why["adjustments"]]) for hit in hits] == [
        ("new.md", []),
        ("old.md", ["until 2026-03-01"]),
    ]
    assert found(book, as_of="2026-01") == ["new", "old"]
    assert presentation.labels(hits[1], "") == ["until 2026-03-01"]


@pytest.mark.parametrize("fields", [{}, {"status": "superseded"}])
def test_a_supersession_without_dates_ends_nothing(book, write_note, fields):
    """The older note is found whenever, below its successor; a status without a successor lowers nothing then."""
    write_note("old.md", FACT.format("Redis") * 2, **fields)
    assert not book.search("Redis", min_score=0, as_of="2026-01").hits[0].why["adjustments"]
    write_note("new.md", FACT.format("MySQL"), supersedes="old")
    assert found(book, as_of="2026-01") == ["new", "old"]
    [_, old] = book.search("Where are orders kept?", min_score=0, as_of="2026-01").hits
    assert old.why["superseded_by"]["path"] == "new.md"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Where were orders kept in March 2025?", "redis"),
        ("Where were orders kept in August 2025?", "mysql"),
        ("Where have orders been kept since July 2025?", "mysql"),
        ("Where are orders kept?", "mysql"),
        ("2099년 3월에 orders kept?", "oracle"),
    ],
)
def test_a_time_in_the_question_prefers_what_held_then(changed, query, first):
    """
    A successor that held later is not lifted, and the older note still says what superseded it. What ended, and what did
    not begin, lose a share; a successor that did not begin supersedes nothing yet.
    """
    hits = {hit.path: hit for hit in changed.search(query, min_score=0).hits}
    assert next(iter(hits)) == f"{first}.md"
    assert hits["redis.md"].why["superseded_by"]["path"] == "mysql.md"
    if query == "Where are orders kept?":
        assert [*hits] == ["mysql.md", "redis.md", "oracle.md"]
        assert "superseded_by" not in hits["mysql.md"].why
        lost = [one for one in hits["oracle.md"].why["adjustments"] if one["reason"] == "from 2099-01"]
        assert [one["share"] < -0.2 for one in lost] == [True]


def test_of_a_range_each_note_has_its_share(book, write_note):
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


# -- who may not see


def test_a_hidden_successor_tells_no_date(vault, write_note):
    """
    Neither to a limited token, nor from a scope, nor under a filter by privacy: what it supersedes goes on. From a scope
    or under a filter by privacy, a successor out of sight counts, without its title, id and path.
    """
    write_note("old.md", FACT.format("Redis"), created="2025-01-01", privacy_scope="team")
    write_note("new.md", FACT.format("MySQL"), valid_from="2025-06-10", supersedes="old", scope="acme")
    with books.open(vault, embedder="hash") as whole:
        assert found(whole, as_of="2026-01") == ["new"]
        team = limited.seen_by(whole, "team")
        for reader, options in ((team, {}), (whole, {"filter": {"privacy_scope": "team"}})):
            assert found(reader, as_of="2026-01", **options) == ["old"]
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


# -- what is written


def test_dates_are_written_as_dates(book, vault):
    """`remember`, a decision, `revise` and `add` keep them in the frontmatter."""
    first = book.memories.remember("Rent is 900.", valid_from="2026-03", valid_until="2026-12-31", tags=["rent"])
    second = book.memories.decisions.save("rent", "Rent is 950.", valid_from="2027-01-01")
    texts = [(vault / each["path"]).read_text() for each in (first, second)]
    assert "valid_from: 2026-03\nvalid_until: 2026-12-31\n" in texts[0].replace("'", "")
    assert "valid_from: 2027-01-01\n" in texts[1]
    book.revise(first["memory_id"], metadata={"valid_until": "2026-11-30"})
    assert "valid_until: 2026-11-30\n" in (vault / first["path"]).read_text()
    assert spellbook_in(vault, "add", "The lease ended.", "--valid-until", "2025").exit_code == 0
    assert found(book, "lease", as_of="2026") == []


NO_DATES = {
    "metadata.valid_from is 'soon', which is not a date such as 2026-11-21, 2026-11 or 2026.": {"valid_from": "soon"},
    "which is not a date": {"valid_until": "2026-02-30"},
    "valid_until is before valid_from": {"valid_from": "2026-03-02", "valid_until": "2026-03-01"},
}


@pytest.mark.parametrize("message", NO_DATES)
def test_what_is_no_validity_is_refused(book, write_note, message):
    """By whatever writes it, also if the other date is in the note already."""
    write_note("fact.md", "---\nvalid_from: 2026-05-05\n---\n" + FACT)
    dates = NO_DATES[message]
    for write in (
        lambda: book.memories.remember("Rent is 900.", **dates),
        lambda: book.memories.decisions.save("rent", "Rent is 950.", **dates),
        lambda: book.revise("fact", metadata=dates),
    ):
        with pytest.raises(InvalidInput) as caught:
            write()
        assert message in str(caught.value) + (caught.value.hint or "")
    with pytest.raises(InvalidInput, match="before valid_from"):
        book.revise("fact", metadata={"valid_until": "2026-05-04"})


# -- the doors


def test_tools(changed: Spellbook) -> None:
    """`as_of` is an argument of recall and memorize too; validity of remember and mama_save is in the answer."""

    async def conversation(agent: Agent) -> None:
        for tool in ("memorize", "recall"):
            assert "MySQL" not in await agent.call(tool, query="orders", min_score=0, as_of="2025-03"), tool
        await agent.call("remember", content="Rent is 900.", valid_until="2025-12-31", supersedes=[])
        await agent.call("mama_save", type="decision", topic="rent", decision="Rent is 950.", valid_from="2099-01-01")
        assert "until 2025-12-31" in await agent.call("search", query="Rent is 900", min_score=0)

    talk(changed, conversation, toolsets=("core", "memento", "decisions"))
