"""Notes whose frontmatter cannot be read: links in their text are kept right, and their frontmatter stays as it is."""

from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from tests.helpers import Write, held

BROKEN = {
    "colon": "title: Tea: a story\n",
    "quote": 'title: "Tea" and more\n',
    "open quote": 'title: "Tea\n',
    "tab": "tags:\n\t- tea\n",
    "at": "author: @ann\n",
    "twice": "title: a\ntitle: b\n",
    "placeholder": "title: {{title}}: x\n",
    "link": "title: [[tea]]: a story\nsee: '[[tea]]'\n",
    "no mapping": "- [[tea]]\n- more\n",
    "prose": "read [[tea]] first\n",
}
Headers = dict[str, tuple[bytes, bytes]]


@pytest.fixture
def headers(vault: Path, write_note: Write) -> Headers:
    """The notes of BROKEN in the vault, as header and text by path, beside the note that they link to."""
    write_note("tea.md", "# Tea\n\n## Green\n\nTea is green.\n")
    parts = {}
    for number, (name, header) in enumerate(BROKEN.items()):
        end = "\r\n" if number % 2 else "\n"
        head = f"---\n{header}---\n".replace("\n", end).encode()
        body = f"See [[tea#Green|차]] and [tea](tea.md).{end}\n```\n[[tea]]\n```\n".encode()
        parts[f"{name}.md"] = head, body
        (vault / f"{name}.md").write_bytes(head + body)
    return parts


def test_a_move_mends_links_below_broken_frontmatter(vault: Path, headers: Headers, book: Spellbook) -> None:
    """A move rewrites the links in a text whose frontmatter cannot be read, no byte of that; undo restores all."""
    before = held(vault)
    moved = book.move("tea.md", "drinks/brew.md")
    for path, (head, body) in headers.items():
        wanted = body.replace(b"[[tea#", b"[[brew#").replace(b"(tea.md)", b"(drinks/brew.md)")
        assert (vault / path).read_bytes() == head + wanted
    # A link that stands between the rules of a text that is no frontmatter is named instead.
    assert {fault.path for fault in moved.left} == {"no mapping.md", "prose.md"}
    book.undo()
    assert held(vault) == before


def test_a_merge_mends_links_below_broken_frontmatter(
    vault: Path, headers: Headers, write_note: Write, book: Spellbook
) -> None:
    """A merge rewrites these links, too."""
    write_note("chai.md", "---\nid: chai\ncreated: 2020-01-01\n---\n# Chai\n\nChai is sweet.\n")
    before = held(vault)
    book.merge("chai.md", "tea.md", apply=True)
    for path, (head, body) in headers.items():  # the wikilink leads there by its alias
        assert (vault / path).read_bytes() == head + body.replace(b"(tea.md)", b"(chai.md)")
    book.undo()
    assert held(vault) == before


def test_links_to_a_file_that_moved_are_repaired_below_broken_frontmatter(
    vault: Path, headers: Headers, book: Spellbook
) -> None:
    """`doctor --fix links` repairs these links, and undo takes it back."""
    book.refresh()
    (vault / "drinks").mkdir()
    (vault / "tea.md").rename(vault / "drinks" / "brew.md")
    before = held(vault)
    book.mend_links()
    for path, (head, body) in headers.items():
        wanted = body.replace(b"[[tea#", b"[[brew#").replace(b"(tea.md)", b"(drinks/brew.md)")
        assert (vault / path).read_bytes() == head + wanted
    book.undo()
    assert held(vault) == before


def test_a_canvas_that_cannot_be_read_is_named_once(vault: Path, write_note: Write, book: Spellbook) -> None:
    """A move names a canvas that is not on this machine with its reason once, where it is now."""
    write_note("tea/green.md", "Green tea.\n")
    (vault / "tea" / ".deck.canvas.icloud").write_bytes(b"x")
    (vault / "bad.canvas").write_bytes(b"\xff{}")
    moved = book.move("tea", "drinks", dry_run=True)
    told = {str(fault) for fault in moved.left}
    assert "drinks/deck.canvas: it is not on this machine, iCloud has it" in told
    assert all(line.count(".canvas") == 1 and not line.endswith(".") for line in told)
    assert len(told) == 2
