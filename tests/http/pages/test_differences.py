"""What changed between two texts of a note, by words: `{-gone-}`, `{+come+}`, and `|` between places of a note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from spellbook.http.pages.differences import Block, compared, of_patch
from spellbook.text.diff import unified

SHAPES = {"": "{}", "del": "{{-{}-}}", "ins": "{{+{}+}}"}
HEAD = "---\nid: {0}\ntitle: Tea\nupdated: 2026-01-0{0}\ntopic: {1}\n---\n"

CASES = {
    "a word": ("We deploy on Tuesday.\n", "We deploy on Monday.\n", "We deploy on {-Tuesday-}{+Monday+}.\n"),
    "a Korean word with its particle": (
        "매주 화요일에 배포.\n",
        "매주 수요일에 배포.\n",
        "매주 {-화요일에 -}{+수요일에 +}배포.\n",
    ),
    "a number is one word": ("It costs 1,200 won.", "It costs 1,300 won.", "It costs {-1,200 -}{+1,300 +}won.\n"),
    "a word goes": ("the very big cat", "the big cat", "the {-very -}big cat\n"),
    "a word comes": ("the cat sleeps", "the old cat sleeps", "the {+old +}cat sleeps\n"),
    "a sign between changes": ("It is a, b now here.", "It is c, d now here.", "It is {-a, b -}{+c, d +}now here.\n"),
    "another sentence": ("우산은 현관에 있다.", "Nothing of it.", "{-우산은 현관에 있다-}{+Nothing of it+}.\n"),
    "without spaces": ("会議は火曜日です", "会議は水曜日です", "会議は{-火-}{+水+}曜日です\n"),
    "a line comes": ("one\ntwo\n", "one\n\nnew\ntwo\n", "one\n{+\nnew\n+}two\n"),
    "only its spaces": ("a  b\n", "a b\n", "{-a  b\n-}{+a b\n+}"),
    "two places": (
        "a b c\n1\n2\n3\n4\nd e f\n",
        "a b x\n1\n2\n3\n4\nd e y\n",
        "a b {-c-}{+x+}\n1\n|4\nd e {-f-}{+y+}\n",
    ),
    "near places": ("a b c\n1\nd e f\n", "a b x\n1\nd e y\n", "a b {-c-}{+x+}\n1\nd e {-f-}{+y+}\n"),
    "a note comes": ("", "one\n", "{+one\n+}"),
    "nothing": ("one\n", "one\n", ""),
}


def shown(blocks: Sequence[Block]) -> str:
    return "|".join("".join(SHAPES[kind].format(text) for kind, text in block) for block in blocks)


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
def test_what_changed_is_shown_by_words(before: Any, after: Any, expected: Any) -> None:
    """The words that go and come are marked, with a line around them; a patch of the same texts shows the same."""
    assert shown(compared(before, after).text) == expected
    of_hunks = [shown(each.text) for each in of_patch(unified(before, after))]
    assert "|".join(of_hunks) == expected


def test_properties_stand_apart_without_ids_and_times() -> None:
    """Also those of TOML; of a note that only got another time nothing is shown; a patch names its files."""
    found = compared(HEAD.format(1, "tea") + "green\n", HEAD.format(2, "green tea") + "white\n", "tea.md")
    assert (found.name, shown(found.properties)) == ("tea.md", "title: Tea\ntopic: {+green +}tea\n")
    assert shown(found.text) == "{-green-}{+white+}\n"
    assert compared(HEAD.format(1, "x"), HEAD.format(2, "x")).properties == []
    found = compared('+++\ntitle = "a b"\nupdated = 1\n+++\nx\n', '+++\ntitle = "a c"\nupdated = 2\n+++\nx\n')
    assert shown(found.properties) == 'title = "a {-b-}{+c+}"\n'
    patch = "\n".join(unified("-- a\n", "++ b\n", f"a/{name}", f"b/{name}") for name in ("one.md", "two.md"))
    named = [(each.name, shown(each.text)) for each in of_patch(f"rename from x\nrename to y\n{patch}\n… 3 more lines")]
    assert named == [(name, "{--- a\n-}{+++ b\n+}") for name in ("one.md", "two.md")]
