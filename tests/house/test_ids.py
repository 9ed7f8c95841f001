"""Ids: a note's id or path means the note, a section's id the section, in every verb."""

from __future__ import annotations

import pytest

from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from tests.mcp.agent import talk

LONG = " ".join(f"word{i}" for i in range(400))
TEXT = f"# Keys\n\nAnn has them. {LONG}\n\n## Rotation\n\nEvery Monday.\n\n## Spare\n\nIn the office.\n"
IDS = ["#", "#~2", "#~3", "#~4", "#~5", "#rotation", "#spare"]


@pytest.fixture
def keys(write_note):
    return write_note("ops/keys.md", TEXT)


@pytest.fixture
def hall(write_note):
    """A note with its own id and one chunk."""
    return write_note("ops/hall.md", "# Hall\n\nIt is dark.\n", id="01HALL")


def test_an_id_means_the_same_to_all_that_read(book, keys):
    """`show`, `why` and related notes resolve an id to the same chunks."""
    for id, expected in {
        **{"ops/keys": IDS, "ops/keys.md": IDS},
        **{"ops/keys#": ["#"], "ops/keys#~2": ["#~2"]},
        **{"ops/keys#rotation": ["#rotation"], "ops/keys.md#rotation": ["#rotation"]},
    }.items():
        assert [found.id for found in book.show(id)] == [f"ops/keys{suffix}" for suffix in expected]
        assert {row.id for row in book.why("word1 Monday", id).rows} == {f"ops/keys{suffix}" for suffix in expected}
        assert book.around(id) == book.around("ops/keys.md")


@pytest.mark.parametrize(
    ("id", "whole"),
    [("ops/keys", False), ("ops/keys.md", False), *((f"ops/keys{end}", True) for end in ("", "#", "#rotation", ".md#spare"))],
)  # fmt: skip
def test_erasing_a_note_takes_all_of_it(book, keys, vault, id, whole):
    """
    A note's id or path erases the note, with `whole` any id of it, and every id brings it back; with `hard` too it goes
    to no trash.
    """
    for name in ("ops/keys", "ops/keys.md", "ops/keys#", "ops/keys#rotation", id):
        done = book.erase(id, whole=whole)
        assert (done.erased, len(done.chunk_ids)) == ("the note Keys (3 sections)", len(IDS))
        assert (done.trash, keys.exists()) == ((".trash/ops/keys.md",), False)
        book.restore(name)
        assert keys.read_text() == TEXT
    assert book.erase(id, whole=whole, hard=True).trash == ()
    assert not [*vault.rglob("*.md")]


def test_erasing_a_section_leaves_the_others(book, keys):
    """A section's id erases only that section, the answer names it, and its id restores it."""
    for id, said in (
        ("ops/keys#rotation", "the section Rotation of Keys"),
        ("ops/keys#~2", "part 2 of 5 of the text above the first section of Keys"),
        ("ops/keys#", "part 1 of 5 of the text above the first section of Keys"),
    ):
        text = book.show(id)[0].text
        done = book.erase(id)
        assert (done.erased, len(done.chunk_ids)) == (said, 1)
        assert text not in keys.read_text()
        assert "In the office." in keys.read_text()
        book.restore(id)
        assert keys.read_text() == TEXT


def test_the_only_chunk_of_a_note_is_the_note(book, hall):
    """For a note with one section, the chunk's id means the whole note; `scribe` returns the id of the note."""
    [hit] = book.find("dark").hits
    assert hit.id == "01HALL#"
    assert book.move(hit.id, "ops/hall2.md").new == "ops/hall2.md"
    for name in (hit.id, "01HALL"):
        assert book.erase(name).erased == "the note Hall"
        assert book.restore(hit.id) == ("ops/hall2.md",)
    chunk = {"text": "Anna keeps a key.\n\n## Spare\n\nBob too.", "metadata": {"topic": "keys", "keywords": ["a"]}}
    [written] = book.scribe(chunk, force=True).written
    assert [found.id for found in book.show(written.chunk_id)] == [f"{written.chunk_id}#", f"{written.chunk_id}#spare"]
    assert book.erase(written.chunk_id).erased.startswith("the note")


@pytest.mark.parametrize("name", ["ops/hall", "ops/hall.md", "01HALL"])
def test_a_note_with_an_id_is_named_by_its_path_too(book, write_note, vault, name):
    """With or without `.md`, its path means the whole note to every verb, as its id does; so do those of sections."""
    write_note("ops/hall.md", "# Hall\n\nIt is dark.\n\n## Lamp\n\nIt is broken.\n", id="01HALL")
    assert [found.id for found in book.show(name)] == ["01HALL#", "01HALL#lamp"]
    assert [found.id for found in book.show(f"{name}#lamp")] == ["01HALL#lamp"]
    assert {row.id for row in book.why("dark lamp", name).rows} == {"01HALL#", "01HALL#lamp"}
    assert book.revise(name, replace=("broken", "new")).path == "ops/hall.md"
    assert book.revise(name, append="The end.").chunk_id == "01HALL"
    assert book.move(name, "ops/hall2.md").new == "ops/hall2.md"
    book.move("ops/hall2", "ops/hall.md")
    assert book.erase(name).erased == "the note Hall (2 sections)"
    assert not (vault / "ops" / "hall.md").exists()


def test_an_edit_of_a_note_and_of_a_section(book, keys, hall):
    """
    Text appended to a note goes to its end, text appended to `<note>#` to the end of the text above the first section. New
    content for a note with several sections is refused with the id to use; metadata is accepted. The hash of a note is
    refused once any section has changed; moving a section is refused with a hint.
    """
    assert book.revise("ops/keys", append="The end.").chunk_id == "ops/keys"
    assert keys.read_text().endswith("In the office.\n\nThe end.\n")
    assert book.revise("ops/keys#", append="The beginning's end.").chunk_id == "ops/keys#"
    assert "The beginning's end.\n\n## Rotation" in keys.read_text()
    text = keys.read_text()
    with pytest.raises(InvalidInput, match=r"note of 3 sections.* 'ops/keys#' is the first; nothing was changed"):
        book.revise("ops/keys", content="All is new.")
    assert keys.read_text() == text
    assert book.revise("01HALL", content="It is bright.").chunk_id == "01HALL"
    assert book.revise("ops/keys#spare", content="In the tower.").chunk_id == "ops/keys#spare"
    assert "## Spare\n\nIn the tower." in keys.read_text()
    hash = book.revise("ops/keys", metadata={"topic": "x"}).hash
    assert "topic: x" in keys.read_text()
    hash = book.revise("ops/keys", append="Two.", expected_hash=hash).hash
    book.revise("ops/keys#rotation", append="On Mondays.")
    with pytest.raises(Conflict):
        book.revise("ops/keys", append="Three.", expected_hash=hash)
    with pytest.raises(InvalidInput, match=r"is one section of ops/keys\.md.*'ops/keys'"):
        book.move("ops/keys#spare", "ops/spare.md")
    with pytest.raises(MemoryNotFound):
        book.move("ops/keys#nowhere", "ops/spare.md")


def test_a_path_or_heading_may_be_odd(book, write_note, hall):
    """
    `C# notes.md` is one note, and `a~2.md` no part of `a.md`. Long headings with the same beginning have different ids, and
    each can be shown. Ids in `supersedes`, filters and links resolve.
    """
    write_note("C# notes.md", "# C\n\nsharp\n\n## More\n\ntext\n")
    write_note("a.md", f"# A\n\n## {'long ' * 60}one\n\nx\n\n## {'long ' * 60}two\n\ny\n")
    write_note("a~2.md", "another")
    write_note("new.md", "# New\n\nIt is dark no more. See [[ops/hall#]].\n", supersedes="01HALL#")
    found = [(found.id, found.note) for found in book.show("C# notes")]
    assert found == [("C# notes#", "C# notes"), ("C# notes#more", "C# notes")]
    assert list(book.stats()["opened"]) == ["C# notes"]
    assert [found.path for found in book.show("a~2")] == ["a~2.md"]
    assert [found.id for found in book.show("C# notes#more")] == ["C# notes#more"]
    ids = [found.id for found in book.show("a")][1:]
    assert (len(set(ids)), max(map(len, ids)) < 210) == (2, True)
    assert [[found.text.strip()[-1] for found in book.show(id)] for id in ids] == [["x"], ["y"]]
    assert [hit.path for hit in book.find("dark").hits] == ["new.md", "ops/hall.md"]
    assert "superseded by new.md" in str(book.find("dark").hits[1].why)
    assert [hit.path for hit in book.find("dark", filter={"id": "01HALL#"}).hits] == ["ops/hall.md"]
    assert [each.path for each in book.around("01HALL").backlinks] == ["new.md"]


def test_a_tool_erases_all_of_a_note_or_a_section(book, keys):
    """Of a section's id the tool takes all of the note with `whole`; without it the id means the section."""
    for whole, said in ((True, "the note Keys (3 sections)"), (False, "the section Spare of Keys")):
        done = talk(book, lambda agent, whole=whole: agent.json("erase", chunk_id="ops/keys#spare", whole=whole))
        assert (done["erased"], keys.exists()) == (said, not whole)
        book.restore("ops/keys#spare")
