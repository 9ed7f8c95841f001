"""Pictures of the vault: all notes and their links, and the notes of a folder; `around.tesh` has the links of a note."""

from spellbook.library.book import Spellbook
from tests.helpers import Write


def test_all_notes_and_their_links(book: Spellbook, write_note: Write) -> None:
    """
    The most linked first; a pair is joined once, by its relation if it has one; nothing leads nowhere. No more than asked
    for, with the links between them, and how many there are.
    """
    write_note("hub.md", "# Hub\n\n[[a]] [[b]] [[a]] [[nowhere]] [[hub]]", category="x", topic="t")
    write_note("a.md", "Back to [[hub]].", trust="untrusted")
    write_note("b.md", "Text.", supersedes="a")
    write_note("alone.md", "Nobody links here.")
    graph = book.vault_graph(100)
    assert [(note.id, links) for note, links in zip(graph.notes, graph.degrees, strict=True)] == [
        *(("a", 2), ("b", 2), ("hub", 2), ("alone", 0))
    ]
    named = {(frozenset((graph.notes[a].id, graph.notes[b].id)), kind) for a, b, kind in graph.edges}
    assert named == {
        (frozenset(("hub", "a")), "link"),
        (frozenset(("hub", "b")), "link"),
        (frozenset(("a", "b")), "supersedes"),
    }
    assert [note.untrusted for note in graph.notes] == [True, False, False, False]
    assert (graph.notes[2].category, graph.notes[2].topic, graph.notes[2].title) == ("x", "t", "Hub")
    few = book.vault_graph(2)
    assert ([note.id for note in few.notes], few.total, len(few.edges)) == (["a", "b"], 4, 1)


def test_notes_of_a_folder_come_by_name(book: Spellbook, write_note: Write) -> None:
    """Without case, with numbers as numbers; the first has none before it, and one alone has no other."""
    for name in ("b", "C", "a10", "a9", "sub/x"):
        write_note(f"f/{name}.md", f"Text of {name}.")
    order, at = ["f/a9"], book.adjacent("f/a9")
    assert at[0] is None
    while after := book.adjacent(order[-1])[1]:
        assert [each.id for each in book.adjacent(after.id)[:1] if each] == order[-1:]
        order.append(after.id)
    assert order == ["f/a9", "f/a10", "f/b", "f/C"]
    assert book.adjacent("f/sub/x") == (None, None)
