"""words: the full-text index holds the words of the chunks and no others, whatever happens to notes and rules."""

from __future__ import annotations

import contextlib
import tracemalloc

from spellbook.index import sync
from spellbook.index.catalog import words
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.helpers import opened, raw, rows
from tests.scratch import assert_equal_to_scratch


def test_words_of_other_rules_are_replaced(vault, write_note, tmp_path):
    """An index whose words were made by other rules is built anew by the first edit of a note that they differ in."""
    for name in "ab":
        write_note(f"{name}.md", f"# {name}\n\nharbor {name}\n")
    with opened(vault) as index:
        sync.run(index)
        with contextlib.closing(raw(index.catalog.file)) as connection:
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
            connection.execute("INSERT INTO words (rowid, body) SELECT chunk, 'zebra' FROM chunks")
            connection.execute("UPDATE chunks SET checksum = words_checksum('', '', '', '', 'zebra', '')")
        assert index.catalog.verify()
        write_note("a.md", "# a\n\nlighthouse\n")
        sync.scan_paths(index, ["a.md"])
        assert index.catalog.verify() == []
        for word, paths in (("harbor", ["b.md"]), ("zebra", []), ("lighthouse", ["a.md"])):
            assert [hit.path for hit in Searcher(index).ask(Question(word, "keyword")).hits] == paths
        sync.run(index)
    assert_equal_to_scratch(vault, tmp_path / "fresh")


def test_the_words_of_many_notes_are_removed_one_note_at_a_time(vault, write_note):
    """Twelve large notes take no twelve times the memory of one, also where the index has to be built anew meanwhile."""
    for number in range(12):
        write_note(f"{number:02}.md", " ".join(f"w{number}x{each}" for each in range(10_000)))
    with opened(vault) as index:
        sync.scan(index)
        rows(index.catalog, "UPDATE chunks SET checksum = 0 WHERE note = 9")
        with contextlib.closing(raw(index.catalog.file)) as connection:
            connection.execute("BEGIN")
            peaks = []
            for notes in ([1], range(1, 13)):
                tracemalloc.start()
                words.drop(connection, notes)
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
            assert connection.execute("SELECT count(*) FROM words_docsize").fetchall() == [(0,)]
            connection.execute("ROLLBACK")
        assert peaks[1] < 4 * peaks[0]
