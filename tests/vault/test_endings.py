"""Markdown files under every ending that programs give them: found, linked, moved, kept; MDX is named."""

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.library.book import Spellbook
from spellbook.notes.where_links_lead import Files, path_id
from spellbook.system.errors import MemoryNotFound
from spellbook.text.markdown_endings import ENDINGS
from spellbook.text.unicode import is_markdown, without_ending
from spellbook.vault.names import is_note, note_name
from tests.commands import spellbook_in
from tests.helpers import Write, from_scratch, told

OTHERS = [
    ".txt",
    ".org",
    ".rst",
    ".mdx",
    ".rmd",
    ".qmd",
    ".adoc",
    ".mediawiki",
    ".md5",
    ".markdownx",
    ".livemd",
    ".canvas",
]
"""Endings beside those of Markdown: other formats, and Markdown that is a program, too."""
STEMS = st.text("abZ가. ", min_size=1, max_size=6).filter(lambda stem: stem[0] not in ". " and "/" not in stem)


@given(STEMS, st.sampled_from(ENDINGS), st.booleans(), st.sampled_from(OTHERS))
def test_endings_of_markdown_are_notes_and_others_none(stem: str, ending: str, is_upper: bool, other: str) -> None:
    """A file is a note by its ending in either case; its name without one is its stem, and a link finds it by that."""
    name = stem + (ending.upper() if is_upper else ending)
    assert is_note(name)
    assert without_ending(name) == stem
    for target in (name, stem):
        reached = Files([name]).follow("b.md", target, False)
        assert reached is not None
        assert reached.path == name
    assert not is_markdown(stem + other)
    assert not is_note(stem + other)
    assert not is_markdown(note_name(name))


@given(st.lists(st.tuples(STEMS, st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=3)), max_size=9))
def test_no_two_paths_have_one_id(names: list[tuple[str, list[str]]]) -> None:
    """Files beside each other have ids that differ, whatever their endings."""
    paths = {stem + "".join(endings) for stem, endings in names}
    assert len({path_id(path) for path in paths}) == len(paths)


def test_every_ending_goes_through_every_door(book: Spellbook, vault: Path, tmp_path: Path, write_note: Write) -> None:
    """
    Notes of every ending are listed, found, shown by path and by name, linked, revised, moved with their ending and
    their links, undone, erased and exported; `a.md` and `a.markdown` are two notes, and a link `[[a]]` leads to the first.
    """
    for number, ending in enumerate(ENDINGS):
        write_note(f"notes/marmot{number}{ending}", f"# Marmot {number}\n\nThe marmot digs burrow {number}.\n")
    write_note("a.md", "A yak grazes.\n")
    write_note("a.markdown", "---\ntags: [herd]\n---\n\nAnother yak sleeps. See [[marmot1]].\n")
    write_note("links.md", "See [[marmot1]], [[notes/marmot2]], [it](notes/marmot3.mdown) and [[a]].\n")
    assert book.reindex().unread == ()
    hits = book.find("marmot digs", limit=50, min_score=0).hits
    assert {hit.path for hit in hits} == {f"notes/marmot{n}{ending}" for n, ending in enumerate(ENDINGS)}
    assert {hit.path for hit in book.find("yak", limit=9, min_score=0).hits} == {"a.md", "a.markdown"}
    assert book.show("a")[0].path == "a.md"
    assert book.show("a.markdown")[0].path == "a.markdown"
    assert book.show("marmot1")[0].path == "notes/marmot1.markdown"

    book.move("notes/marmot1.markdown", "burrows/deep")
    assert (vault / "burrows/deep.markdown").exists()
    assert "[[deep]]" in (vault / "a.markdown").read_text()
    assert "[[deep]], [[notes/marmot2]], [it](notes/marmot3.mdown)" in (vault / "links.md").read_text()
    book.undo()
    assert "[[marmot1]], [[notes/marmot2]]" in (vault / "links.md").read_text()
    before = (vault / "a.markdown").read_bytes()
    book.revise("a.markdown", metadata={"importance": 0.9})
    assert (vault / "a.markdown").read_bytes() == before.replace(b"---\n\n", b"importance: 0.9\n---\n\n", 1)
    book.erase("a.markdown")
    assert not (vault / "a.markdown").exists()
    with pytest.raises(MemoryNotFound):
        book.show("a.markdown")
    book.undo()
    book.reindex()
    assert told(book.index) == from_scratch(vault, tmp_path / "scratch")
    out = vault.parent / "out.zip"
    assert book.export(out, attachments=False).notes == len(ENDINGS) + 3
    with zipfile.ZipFile(out) as packed:
        assert {*packed.namelist()} >= {"a.markdown", *(f"notes/marmot{n}{ending}" for n, ending in enumerate(ENDINGS))}


def test_pages_of_mdx_are_named_once(vault: Path, write_note: Write) -> None:
    """MDX is Markdown with a program in it: status names the first file of it and counts them, in Korean too."""
    write_note("a.md", "The marmot sleeps.")
    write_note("docs/b.mdx", "import X from 'x'\n\n# Marmots\n\n<X/>\n")
    write_note("docs/c.MDX", "export const meta = {}\n")
    spellbook_in(vault, "reindex", "--words-only")
    assert "docs/b.mdx: the first of 2 pages of MDX" in spellbook_in(vault, "status").stdout
    assert "MDX 페이지 2개 중 첫째" in spellbook_in(vault, "status", SPELLBOOK_LANG="ko").stdout
