"""Ranking: fusion, adjustments and choice; every share has a name, and shares add up."""

import datetime as dt
import math
from itertools import pairwise
from typing import Any

import pytest

from spellbook.search.choice import choose, convincing, least
from spellbook.search.ranking import adjust, supersede
from spellbook.search.related import Superseded
from spellbook.search.scores import Candidate, Leg, Mode, fuse, hit_of
from tests.search.candidates import candidate

NOW = dt.datetime(2026, 11, 22, tzinfo=dt.UTC).timestamp()


def ranked(*candidates: Candidate, mode: Mode = "both", half_lives: Any = None, above: Any = None) -> Any:
    fused = fuse(candidates, mode)
    fused = adjust(fused, half_lives or {}, {}, NOW)
    found = {path: Superseded(frozenset(by), (by[0], f"id of {by[0]}", by[0])) for path, by in (above or {}).items()}
    return supersede(fused, found, (NOW, NOW))


def known_words(candidates: Any) -> Any:
    """The candidates, of a question whose words the vault does not have."""
    for each in candidates:
        each.matches[0].expected = 0.0
    return candidates


def shares(each: Any) -> Any:
    return sum(leg["share"] for leg in each.legs.values()) + sum(one["share"] for one in each.adjustments)


def reasons(each: Any) -> Any:
    return [one["reason"] for one in each.adjustments]


@pytest.mark.parametrize(
    ("mode", "semantic", "keyword", "expected"),
    [
        ("both", 0.8, 0.5, 0.71),
        ("semantic", 0.8, 0.5, 0.8),
        ("keyword", 0.8, 0.5, 0.5),
        ("both", None, 1.0, 0.3),
        ("both", 1.0, None, 0.7),
    ],
)
def test_fusion_is_a_weighed_sum(mode: Mode, semantic: float | None, keyword: float | None, expected: float) -> None:
    """`search` is 0.7 meaning and 0.3 words; the other verbs, and a search without the embedder, use one of them whole."""
    [each] = fuse([candidate(semantic=semantic, keyword=keyword)], mode)
    assert each.score == pytest.approx(expected)
    assert shares(each) == pytest.approx(each.score)
    if keyword is not None:
        [each] = fuse([candidate(keyword=keyword)], mode, by_words_only=True)
        assert each.score == keyword


def aged(days: Any, **given: Any) -> Any:
    return candidate(
        semantic=1.0,
        updated=(dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=NOW - 86_400 * days)).isoformat(),
        **given,
    )


@pytest.mark.parametrize(
    ("meta", "score"),
    [
        ({"type": "episodic"}, 0.998),
        ({"type": "episodic", "trust": "agent", "session": "s"}, 0.7),
        ({"type": "semantic", "trust": "agent", "session": "s"}, 0.7),
        ({"type": "semantic", "trust": "agent", "session": "s", "pinned": True}, 0.7),
        ({"type": "working"}, 0.85),
        ({"type": "semantic", "trust": "trusted"}, 1.0),
    ],
)
def test_a_captured_session_loses_and_fades(meta: dict[str, Any], score: float) -> None:
    """It has 0.85 of its score, fades as a working memory does, and says why; what was kept on purpose does neither."""
    [each] = ranked(aged(7 if score > 0.99 else 60, **meta), mode="semantic")
    assert each.score == pytest.approx(score, abs=2e-3)
    assert shares(each) == pytest.approx(each.score)
    assert ("from a session, not kept on purpose" in reasons(each)) is (meta.get("trust") == "agent")


@pytest.mark.parametrize(
    ("kept", "limit", "options", "expected"),
    [
        (5, 5, {}, "sskkk"),  # two of five
        (5, 9, {}, "sskkkssk" + "k"),  # the others wait
        (1, 5, {}, "ssk"),  # and do not fill up
        (0, 1, {}, "s"),
        (5, 5, {"few": False}, "ssssk"),  # asked for
        (5, 5, {"per_note": 1}, "sskkk"),
    ],
)
def test_two_of_the_first_five_are_from_sessions(kept: int, limit: int, options: dict[str, Any], expected: str) -> None:
    """Better as they may be: a third session waits until there are five hits, unless sessions are asked for."""
    found = [candidate(f"s{at}.md", 0.99 - at / 100, trust="agent", session="s") for at in range(4)]
    found += [candidate(f"k{at}.md", 0.5 - at / 100) for at in range(kept)]
    chosen = choose(ranked(*found, mode="semantic"), limit, **options)
    assert "".join(each.chunk.path[0] for each in chosen) == expected


FOREVER = [{"category": "system"}, {"category": "preference"}, {"category": "decision"}]
FOREVER += [{"type": "semantic", "category": "project"}, {"type": "procedural", "category": "checkpoint"}]
YEAR = [
    *((2, {"type": "working", "category": "decision"}), (365, {"type": "Episodic"}), (365, {"type": 7})),
    *((365, {"type": ["episodic", "trip"], "category": "project"}), (180, {"type": "meeting", "category": "project"})),
    *((14, {"category": "checkpoint"}), (365, {"category": "working"})),
]
SET = [
    *((30, {"category": "log"}), (10, {"type": "trip", "category": "log"})),
    *((50, {}), (180, {"category": "project"}), (math.inf, {"type": "working"})),
]
LIVES = {"working": math.inf, "log": 30.0, "trip": 10.0, "": 50.0}


@pytest.mark.parametrize(
    ("days", "given", "lives"),
    [
        *((math.inf, given, {}) for given in FOREVER),
        *((30, given, {"system": 30.0, "preference": 30.0, "decision": 30.0}) for given in FOREVER[:3]),
        *((days, given, {}) for days, given in YEAR),
        *((days, given, LIVES) for days, given in SET),
    ],
)
def test_half_lives(days: Any, given: Any, lives: Any) -> None:
    """
    What is `system`, `preference`, `decision`, `semantic` or `procedural` does not age unless a setting says so. A known
    `type` goes before the category, which shares no names with types. A setting names either, and "" all others. After
    one half-life a note has lost half of what age can cost.
    """
    year, two, never = (ranked(aged(days), mode="semantic")[0].score for days in (365, 730, 365_000))
    assert (1 - year) == pytest.approx(2 / 3 * (1 - two), abs=1e-3) == pytest.approx(0.5 * (1 - never), abs=1e-3)
    [each] = ranked(aged(min(days, 5_000), **given), mode="semantic", half_lives=lives)
    assert each.score == pytest.approx(1 if days == math.inf else year, abs=1e-3)


def test_pins_and_importance() -> None:
    """A pin raises the score and stops ageing; importance changes it a little; without a date, or before it, none ages."""
    [low] = ranked(candidate(semantic=0.5, importance=0.2), mode="semantic")
    assert (reasons(low), low.score < 0.5) == (["importance 0.2"], True)
    [pinned] = ranked(candidate(semantic=0.5, pinned=True, updated="2001-01-01"), mode="semantic")
    assert (reasons(pinned), pinned.score) == (["pinned"], 0.55)
    assert [reasons(each) for each in ranked(candidate("a.md", 0.8), aged(-30, path="b.md"))] == [[], []]


@pytest.mark.parametrize(
    ("declared", "score", "named"),
    [
        *(({"outcome": outcome}, 0.53, ["outcome success"]) for outcome in ("success", " Success ")),
        *(({"outcome": outcome}, 0.5, []) for outcome in ("pending", None, ["failed"])),
        ({"outcome": "partial"}, 0.5, ["outcome partial"]),
        ({"outcome": "failed"}, 0.45, ["outcome failed"]),
        *(({key: value}, 0.3, ["superseded"]) for key, value in (("superseded_by", "NEW"), ("status", " Superseded"))),
        ({"superseded_by": None, "status": "done"}, 0.5, []),
    ],
)
def test_what_a_note_says_of_itself(declared: Any, score: Any, named: Any) -> None:
    """
    What succeeded ranks a little higher, what failed a little lower, and each says so; other words say nothing. A note
    that says that it is superseded loses four tenths, whether its successor is known or not.
    """
    [each] = ranked(candidate(semantic=0.5, **declared), mode="semantic")
    assert (each.score, reasons(each), "superseded_by" in hit_of(each).why) == (score, named, named == ["superseded"])


@pytest.mark.parametrize(("missing", "left"), [("", "cba"), ("b", "ca"), ("c", "ba"), ("a", "cb")])
def test_a_chain_stands_newest_first(missing: str, left: str) -> None:
    """
    Each note is below those that supersede it, also where the one between them is no candidate, only says of itself that
    it is superseded, or matches nothing.
    """
    old, middle = candidate("old.md", 0.9), candidate("middle.md", 0.5, status="superseded")
    found = ranked(old, middle, mode="semantic", above={"old.md": ["middle.md"]})
    assert [(each.chunk.path, each.score) for each in found] == [("middle.md", 0.54), ("old.md", 0.5399)]
    old, middle, new = candidate("old.md", 0.9), candidate("middle.md", 0.0), candidate("new.md", 0.2)
    found = ranked(old, middle, new, mode="semantic", above={"middle.md": ["new.md"], "old.md": ["middle.md"]})
    assert [(each.chunk.path[0], each.score) for each in found] == [("n", 0.9), ("m", 0.8999), ("o", 0.8998)]
    scores = {"a": 0.9, "b": 0.6, "c": 0.2}
    there = [candidate(name, score) for name, score in scores.items() if name != missing]
    more = [candidate(name, score / 2, id=f"{name}2") for name, score in scores.items() if name != missing]
    found = ranked(*there, *more, mode="semantic", above={"b": ["c"], "a": ["b"]})
    best = list(dict.fromkeys(each.chunk.path for each in found))
    assert "".join(best) == left


def test_what_is_superseded_loses_no_more_than_its_place() -> None:
    """
    Its successor is lifted to it and stands above it, by its best chunk, and both say so; where that is better anyway,
    or is no candidate, it loses nothing.
    """
    worse, better = candidate("new.md", 0.2, id="new#1"), candidate("new.md", 0.3, id="new#2")
    found = ranked(worse, candidate("old.md", 0.8), better, mode="semantic", above={"old.md": ["new.md"]})
    assert [each.chunk.id for each in found] == ["new#2#", "old#", "new#1#"]
    old, new, other = candidate("old.md", 0.8), candidate("new.md", 0.3), candidate("other.md", 0.6)
    found = ranked(old, new, other, mode="semantic", above={"old.md": ["new.md"]})
    assert [(each.chunk.path, each.score) for each in found][:2] == [("new.md", 0.8), ("old.md", 0.7999)]
    new, old = found[:2]
    for each, reason in ((new, "supersedes old.md"), (old, "superseded by new.md")):
        assert (reasons(each), shares(each)) == ([reason], pytest.approx(each.score))
    assert hit_of(old).why["superseded_by"] == {"path": "new.md", "id": "id of new.md", "title": "new.md"}
    old, new = candidate("old.md", 0.5), candidate("new.md", 0.7)
    found = ranked(old, new, mode="semantic", above={"old.md": ["new.md"]})
    assert [(each.score, reasons(each)) for each in found] == [(0.7, []), (0.5, [])]
    [alone] = ranked(candidate("old.md", 0.8), mode="semantic", above={"old.md": ["new.md"]})
    assert (alone.score, hit_of(alone).why["superseded_by"]["path"]) == (0.8, "new.md")


@pytest.mark.parametrize(("per_note", "expected"), [(0, "abaa"), (1, "abc"), (2, "abac"), (9, "abaa")])
def test_a_note_does_not_fill_all_places(per_note: int, expected: str) -> None:
    """
    From its second hit on a note gives way to others that are nearly as good, not to worse ones; with `per_note` the
    places that a note may not have go to others, even to much worse ones. Of two hits with the same text the second
    loses score.
    """
    many = [candidate("a.md", 0.9 - i / 1000, id=f"a#{i}") for i in range(4)]
    chosen = choose(ranked(*many, candidate("b.md", 0.89), candidate("c.md", 0.3), mode="semantic"), 4, per_note)
    assert "".join(each.chunk.path[0] for each in chosen) == expected
    assert [reasons(each) for each in chosen[2:3] if each.chunk.path == "a.md"] in ([], [["chunk 2 of its note here"]])
    assert [each.score for each in chosen] == sorted((each.score for each in chosen), reverse=True)
    copies = [candidate(f"{name}.md", 0.9, key="same") for name in "ab"]
    chosen = choose(ranked(*copies, candidate("c.md", 0.85), mode="semantic"), 3)
    assert {each.chunk.path: reasons(each) for each in chosen} == {"a.md": [], "c.md": [], "b.md": ["repeats a.md"]}


def test_equals_come_newest_first() -> None:
    """Equal hits are ordered by the better match by words, then newest first; a hit without a date comes last."""
    dated = [candidate(f"{year}.md", 0.6, category="decision", updated=f"{year}-01-01") for year in (2020, 2026, 2023)]
    found = ranked(*dated, candidate("none.md", 0.6), mode="semantic")
    assert [each.chunk.path for each in found] == ["2026.md", "2023.md", "2020.md", "none.md"]
    weak, strong = (candidate(f"{at}.md", keyword=1.0, category="decision", updated=at) for at in ("2026", "2020"))
    strong.matches[0].keyword = Leg(1, 1.0, beyond=0.2)
    assert [each.chunk.path for each in ranked(weak, strong, mode="keyword")] == ["2020.md", "2026.md"]


RELATED = {
    "means it and says it": (0.6, 0.7, 0.0, 0.7),
    "only meaning was asked for": (0.55, None, 0.0, None),
    "nobody knows the words": (0.55, 0.0, 0.0, 0.0),
    "it cannot have the words in its language": (0.55, 0.0, 1.0, 1.0),
    "an exact name": (0.1, 0.9, 0.0, 1.0),
    "not embedded yet": (None, 0.6, 0.0, 1.0),
}
UNRELATED = {
    "the vault knows the words, this lacks them": (0.55, 0.0, 0.0, 1.0),
    "a little of both": (0.45, 0.3, 0.0, 1.0),
}


@pytest.mark.parametrize("name", [*RELATED, *UNRELATED])
def test_what_has_to_do_with_a_question(name: Any) -> None:
    """
    Meaning decides whether a hit is related, and words confirm it where they can be expected. Of several texts the best
    two count, by their mean: one text alone cannot make a chunk sure. A chunk in another language gets credit for words
    as a named share, and the shares add up.
    """
    low, middle, high = (candidate(semantic=score, keyword=score).matches[0] for score in (0.0, 0.1, 0.9))
    one = candidate()._replace(matches=[middle, high, low])
    assert one.evidence() == pytest.approx((middle.evidence() + high.evidence()) / 2)
    assert fuse([one], "both")[0].score == pytest.approx((0.1 + 0.9) / 2, abs=1e-3)
    own, other = candidate("own.md", 0.7, 0.2), candidate("foreign.md", 0.75)
    other.matches[0].foreign = 1.0
    second, first = fuse([own, other], "both")
    assert (reasons(first), reasons(second), "keyword" in first.legs) == (["in another language"], [], False)
    assert (first.order < second.order, shares(first)) == (True, pytest.approx(first.score))
    semantic, keyword, foreign, expected = {**RELATED, **UNRELATED}[name]
    each = candidate(semantic=semantic, keyword=keyword)
    each.matches[0].foreign, each.matches[0].expected = foreign, expected
    assert bool(convincing(fuse([each], "both"), 100)) is (name in RELATED)


def test_one_sure_hit_brings_its_lesser_neighbours() -> None:
    """If one hit is sure, weaker ones follow unless they are far below it; if none is, the result is empty."""
    scores = {"sure": 0.8, "probable": 0.49, "far": 0.4, "other": 0.1}
    listed = known_words(fuse([candidate(f"{name}.md", score, 0.0) for name, score in scores.items()], "both"))
    assert [each.chunk.path for each in convincing(listed, 100)] == ["sure.md", "probable.md"]
    assert convincing(listed[1:], 100) == []


def test_the_more_there_is_the_surer_one_must_be() -> None:
    """The required evidence grows smoothly with the number of chunks."""
    needed = [least(count) for count in range(20_000)]
    assert needed == sorted(needed)
    assert max(b - a for a, b in pairwise(needed[1:])) < 0.06
    assert (least(0), least(1), least(100)) == (0.28, 0.28, 0.4975)
    middling = candidate("a.md", 0.45, 0.0)
    assert [bool(convincing(known_words(fuse([middling], "both")), count)) for count in (1, 5, 50)] == [
        True,
        True,
        False,
    ]
