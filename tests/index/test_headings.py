"""lookup: headings and blocks by which a part of a note is named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.index import lookup
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.text.unicode import slug
from tests.helpers import Write

NOTE = """# Trip

Words above. ^intro

## People

Two of them.

### Guests

Ann comes.

#### Late: guests

Bob comes. ^bob-1

### 손님 명단

김 씨.

## Places

### Guests

Rooms for *all*.

### **Bold** `code` plan

### See [the map](map.md) and [[Way|the way]] ^way

### 🎉

### C# and F#

### 🚗 Road | trip

Setext heading
--------------

### Repeated

Once.

### Repeated

Twice.
"""

NAMES = {
    "Trip": "#",
    "People": "#people",
    "People#Guests": "#people",
    "Trip#People#Guests": "#people",
    "Trip#Guests#Late: guests": "#people",
    "Late guests": "#people",
    "late-guests": "#people",
    "손님 명단": "#people",
    "손님-명단": "#people",
    "^intro": "#",
    "^bob-1": "#people",
    "^way": "#places",
    "Places#Guests": "#places",
    "guests-1": "#places",
    "**Bold** `code` plan": "#places",
    "Bold code plan": "#places",
    "bold-code-plan": "#places",
    "See the map and the way": "#places",
    "🎉": "#places",
    "C# and F#": "#places",
    "C and F": "#places",
    "c-and-f": "#places",
    "🚗 Road trip": "#places",
    "-road--trip": "#places",
    "Setext heading": "#setext-heading",
    "Repeated": "#setext-heading",
    "repeated-1": "#setext-heading",
}


@pytest.fixture
def trip(book: Spellbook, write_note: Write) -> Spellbook:
    write_note("trips/Trip.md", NOTE)
    book.refresh()
    return book


def test_a_heading_leads_to_the_section_that_holds_it(trip: Spellbook) -> None:
    """`note#Heading` of any level leads to its section: as it is written, as an anchor, below others, and by block."""
    for name, suffix in NAMES.items():
        for id in (f"Trip#{name}", f"trips/Trip.md#{name}", f"[[Trip#{name}]]"):
            chunks, is_note = lookup.named(trip.index, id)
            assert [chunk.suffix for chunk in chunks] == [suffix], id
            assert not is_note


def test_only_a_whole_section_is_changed(trip: Spellbook, vault: Path) -> None:
    """Revising and erasing by a heading below a section name the section, and change nothing."""
    before = (vault / "trips/Trip.md").read_bytes()
    changes: tuple[Callable[[str], object], ...] = (
        lambda id: trip.revise(id, append="Zoe comes."),
        lambda id: trip.revise(id, "Nobody comes."),
        trip.erase,
    )
    for change in changes:
        for id in ("Trip#People#Guests", "[[Trip#손님 명단]]", "Trip#^bob-1"):
            with pytest.raises(InvalidInput, match="#people"):
                change(id)
    assert (vault / "trips/Trip.md").read_bytes() == before
    trip.revise("Trip#Places", append="An end.")
    assert "An end.\n" in (vault / "trips/Trip.md").read_text("utf-8")


def test_names_of_nothing_name_nothing(trip: Spellbook) -> None:
    """A heading or a block that is not there is not found, and one that stands in two sections names both."""
    for name in ("Nobody", "People#Places", "Places#손님 명단", "^nobody", "^bob", "repeated-2", "guests-7"):
        with pytest.raises(MemoryNotFound):
            lookup.named(trip.index, f"Trip#{name}")
    with pytest.raises(InvalidInput, match=r"#people.*#places"):
        lookup.named(trip.index, "Trip#Guests")


@given(
    st.lists(
        st.tuples(
            st.integers(3, 6),
            st.text("abcé한글カ😀 -_*:|", min_size=1).filter(lambda text: any(map(str.isalpha, text))),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_heading_leads_to_its_section(headings: list[tuple[int, str]]) -> None:
    """Whatever a heading below a section is, its key is the same as written, and as an anchor of it."""
    for _, text in headings:
        anchor = slug(text.strip())
        assert lookup.key_of(text) == lookup.key_of(anchor), (text, anchor)
