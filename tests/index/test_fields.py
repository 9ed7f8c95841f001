"""Fields of notes in the index: values by YAML 1.2, keys in any case, links as labels, categories, dates, languages."""

from __future__ import annotations

import pytest

from spellbook.index import sync
from spellbook.index.filters import conditions
from spellbook.library.doctor import checks
from tests.helpers import opened, rows

KOREAN = "어제 회의에서 저장소를 나누기로 했다. `git mv` 로 옮긴다.\n\n```python\nfor the_file in that_list: print('of')\n```"
ENGLISH = "We decided to split the repository, and this is what it was for."


def test_notes_have_a_language_of_their_own_or_by_their_text(vault, write_note):
    """The declared language wins, also under `lang` and with a region; unclear text has none."""
    write_note("a.md", KOREAN)
    write_note("b.md", ENGLISH)
    write_note("c.md", KOREAN, language="en-GB")
    write_note("d.md", ENGLISH, lang="fr")
    write_note("e.md", "x = 1")
    write_note("f.md", ENGLISH, language="Klingon")
    with opened(vault) as index:
        sync.run(index)
        sql = (
            "SELECT substr(path, 1, 1), value FROM fields JOIN notes USING (note) WHERE key = 'language' ORDER BY 1, 2"
        )
        found = [("a", "ko"), ("b", "en"), ("c", "en"), ("c", "en-gb"), ("d", "fr"), ("f", "klingon")]
        assert rows(index.catalog, sql) == found


ASKED = [
    *({"event": "10:30"}, {"country": "no"}, {"mode": "0755"}, {"tags": "1.10"}, {"TAGS": "on"}, {"title": "12:30"}),
    *({"category": "Books"}, {"category": "[[Books]]"}, {"topic": "Art"}, {"author": "Ann"}, {"pinned": "true"}),
    *({"author": "[[People/Ann]]"}, {"Birthday": "1990-05-12"}, {"when": "2024-01-05"}, {"updated": "2024-01-06"}),
]


def test_a_value_is_found_as_it_is_written(book, write_note):
    """A filter finds a note by the values of its frontmatter as Obsidian reads them, whatever the case of keys."""
    write_note(
        "a.md",
        "---\nTitle: 12:30\nTags: [1.10, on]\nevent: 10:30\ncountry: no\nmode: 0755\nPinned: true\nBirthday: 1990-05-12\n"
        'Category: "[[Books]]"\ntopic: "[[lib/Art|x]]"\nauthor: "[[People/Ann]]"\ndate created: January 5, 2024\n'
        "date modified: Saturday, January 6th 2024, 3:04 PM\n---\ntext\n",
    )
    write_note("Books.md", "---\ntitle: 1.1\ntags: 1.1\nevent: 630\npinned: yes\n---\nother\n")
    book.reindex()
    for asked in ASKED:
        assert [hit.path for hit in book.find("text", filter=asked).hits] == ["a.md"], asked
    assert [(hit.path, hit.backlinks) for hit in book.find("other").hits] == [("Books.md", 1)]
    meta = book.show("a")[0].meta
    told = book.show("a")[0].title, meta["tags"], meta["country"], meta["event"]
    assert told == ("12:30", ["1.10", "on"], "no", "10:30")


def test_a_date_that_is_not_understood_is_named(book, write_note):
    """The file and the key are named, and the file's time counts; a date, an empty key and another key are no fault."""
    write_note("a.md", "---\ndate created: soon\n---\ntext\n", age=3600)
    write_note("b.md", "---\ncreated: 2024-01-05\nupdated:\ndue: soon\n---\ntext\n")
    book.reindex()
    named = dict(checks(book.index, ""))["note files"]
    assert named == ["a.md: the date date created is not understood: 'soon'"]
    assert book.status()["faults"][0]["path"] == "a.md"
    assert book.show("a")[0].created is None


def test_a_note_is_found_by_each_of_its_categories_and_filed_by_the_first(book, write_note):
    """
    A filter finds it by any of them, also negated; a text with a comma is one category; `categories` is a list. The
    table of contents and the hit name the first; a topic is there once.
    """
    for name, category in (("both", "[decision, 프로젝트]"), ("one", "decision"), ("comma", "decision, project")):
        write_note(f"{name}.md", f"# {name}\n\ntext of {name}", category=category, age=100)
    write_note("empty.md", "# Empty\n\ntext of Empty", category="[null, project]", age=100)
    write_note("article.md", "# Article\n\ntext", category="article", categories="[longblack, business]", age=100)
    book.reindex()
    for filter, names in (
        ({"category": "decision"}, ["both", "one"]),
        ({"category": "프로젝트"}, ["both"]),
        ({"category": "project"}, ["empty"]),
        ({"category": "decision, project"}, ["comma"]),
        ({"category!": ["프로젝트", "project"]}, ["article", "comma", "one"]),
        ({"category": "article", "categories": "business"}, ["article"]),
        ({"categories": ["longblack", "x"]}, ["article"]),
    ):
        assert book.index.catalog.paths(conditions(filter)) == [f"{name}.md" for name in names], filter
    contents = {each.name: [topic.notes for topic in each.topics] for each in book.contents()}
    assert contents == {"decision": [2], "decision, project": [1], "project": [1], "article": [1]}
    [hit] = book.search("both", filter={"category": "프로젝트"}).hits
    assert (hit.path, hit.category) == ("both.md", "decision")


@pytest.mark.parametrize("key", ["categories", "type"])
def test_a_key_that_tools_write_may_be_missing(book, write_note, key):
    """Where no note has it yet, nothing is found; other unknown keys are an error that does not suggest it."""
    write_note("a.md", "# A\n\ntext")
    answer = book.search("A", filter={key: "x"})
    assert (answer.hits, [str(each) for each in answer.unmatched]) == ((), [f"No note has {key} x."])
