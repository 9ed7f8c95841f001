"""Numbers of things: one is singular, more are plural, in every message."""

from __future__ import annotations

import re

import pytest

from spellbook.text.quoting import counted
from tests.cli.messages import every

MANY = {
    "{0} leads on more than {1} times.",
    "{0} notes need fixing.",
    "The last snapshot is {0} days old.",
    "There are {0} keywords; the maximum is {1}.",
    "{0} is a note of {1} sections, and the content is for one.",
    "{0}: {1} is there {2} times, in lines {3}.",
    "{0}: {1} of {2} notes are gone. Is a drive not mounted?",
    "only its first {0} sections are indexed each by itself; the {1} from here on, by size",
}
"""Messages in which the number is always more than one."""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (counted(0, "note"), "0 notes"),
        (counted(1, "note"), "1 note"),
        (counted(2_000, "query", "queries"), "2,000 queries"),
        (counted(1, "file", of=1), "1 of 1 file"),
        (counted(1, "file", of=3_000), "1 of 3,000 files"),
    ],
)
def test_one_is_singular(said: str, expected: str) -> None:
    """The noun fits its number, or the number of all of which some are meant."""
    assert said == expected


def test_no_message_puts_a_plural_behind_any_number() -> None:
    """A noun that is counted somewhere is counted by `counted` everywhere: none reads `1 files`."""
    said = every()
    nouns = {noun[1] for text in said if (noun := re.fullmatch(r"\{0\} (?:of \{1\} )?([a-z ]+)", text))}
    several = {noun for noun in nouns if {noun.removesuffix("s"), re.sub("ies$", "y", noun)} & (nouns - {noun})}
    assert {"notes", "files", "queries"} <= several
    behind = re.compile(rf"\{{\d+\}} (?:{'|'.join(several)})\b")
    counts = {f"{part} {noun}" for part in ("{0}", "{0} of {1}") for noun in several}
    assert {text for text in said if behind.search(text)} - counts - MANY == set()
