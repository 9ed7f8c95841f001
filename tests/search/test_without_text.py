"""Notes without text: cards of properties, stubs, lone headings, empty files."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spellbook.index.catalog.rows import NO_TEXT
from spellbook.library.book import Spellbook
from tests.helpers import Write

NOTES = {
    "people/Jane Doe.md": "---\naliases: [Janey, 제인]\ntags: [friend/tennis]\nphone: 555-0101\n---\n",
    "people/박서연.md": "---\ntags: [동료]\n---\n\n",
    "vault.lang.zig.md": "---\ntitle: Zig\nid: 8f2k\ndesc: ''\n---\n",
    "places/Lisbon.md": "# Lisbon\n",
    "places/odd.md": "### Alfama quarter\n",
    "Kyoto.md": "",
    "blank.md": " \n\n\t\n",
    "comment.md": "---\ntitle: Hidden garden\n---\n   \n",
    "trip.md": "# Holidays\n\nIn Lisbon we ate well, and Zig was there, in Kyoto as well.\n",
}

FOUND = {
    "Jane": "people/Jane Doe.md",
    "Janey": "people/Jane Doe.md",
    "제인": "people/Jane Doe.md",
    "tennis": "people/Jane Doe.md",
    "555-0101": "people/Jane Doe.md",
    "서연": "people/박서연.md",
    "동료": "people/박서연.md",
    "zig": "vault.lang.zig.md",
    "lang": "vault.lang.zig.md",
    "lisbon": "places/Lisbon.md",
    "Alfama": "places/odd.md",
    "odd": "places/odd.md",
    "Kyoto": "Kyoto.md",
    "blank": "blank.md",
    "garden": "comment.md",
}


@pytest.fixture
def cards(book: Spellbook, write_note: Write) -> Any:
    for path, text in NOTES.items():
        write_note(path, text)
    book.refresh(embed=True)
    return book


def test_a_note_without_text_is_found(cards: Any) -> None:
    """By title, file name, alias, tag, property or lone heading, in `find` and `search`; below notes that say it."""
    for asked, path in FOUND.items():
        for answer in (cards.find([asked]), cards.search(asked)):
            paths = [hit.path for hit in answer.hits]
            assert path in paths, asked
            assert "trip.md" not in paths or paths.index("trip.md") < paths.index(path), asked


def test_thousands_of_stubs_leave_room(book: Spellbook, write_note: Write) -> None:
    """Texts stand before any number of stubs with the word in their titles, and each stub is found by its own name."""
    for number in range(300):
        write_note(f"lang.python.m{number}.md", f"---\ntitle: Python m{number}\n---\n")
    for number in range(5):
        write_note(
            f"text{number}.md", f"A day with a snake, number {number}.\n\nWe read of python and of its readers.\n"
        )
    book.refresh(embed=True)
    for answer in (book.find(["python"], limit=5), book.search("python", limit=5)):
        assert {hit.path for hit in answer.hits} == {f"text{number}.md" for number in range(5)}
    assert [hit.path for hit in book.find(["m217"]).hits] == ["lang.python.m217.md"]


def test_no_text_is_embedded_for_them(cards: Any) -> None:
    """Their titles have vectors, as all titles have; their empty texts have none, and nothing waits for one."""
    chunks = [chunk for path in NOTES for chunk in cards.index.catalog.at(path)]
    assert sorted({chunk.path for chunk in chunks if chunk.key == NO_TEXT}) == sorted(NOTES.keys() - {"trip.md"})
    assert cards.index.catalog.counts().pending == 0


NAMES = st.text("abcdefg가나다라마カタ", min_size=3, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique=True), st.sampled_from(["", "---\ntags: [x]\n---\n", "## ", "\n"])
)
def test_any_name_finds_its_note(book: Spellbook, vault: Path, names: Any, text: str) -> None:
    """Whatever a note without text is called, its name finds it."""
    for name in names:
        (vault / f"{name}.md").write_text(f"{text}{name}\n" if text == "## " else text, "utf-8")
    book.refresh()
    for name in names:
        assert f"{name}.md" in [hit.path for hit in book.find([name], limit=20).hits]
    for name in names:
        (vault / f"{name}.md").unlink()
