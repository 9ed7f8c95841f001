"""Translations: of two notes that say the same in two languages one is a hit, and names the other."""

from __future__ import annotations

import pytest

from spellbook.index import sync
from spellbook.search import explain
from spellbook.search.presentation import why
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.text import languages
from tests.helpers import opened

SHARED = ("lighthouse schedule keeper signal " * 20).strip()
ENGLISH = f"# Rotation\n\n{SHARED}, and this is what it was for."
GERMAN = f"# Rotation\n\n{SHARED}, und das ist nicht der Grund."


@pytest.fixture
def asked(vault, write_note):
    """What a question finds, by path with its translations, and its reasons."""

    def ask(text, notes, mode="both", **options):
        for path, body in notes.items():
            write_note(path, body)
        with opened(vault) as index:
            sync.run(index)
            searcher = Searcher(index)
            question = Question(text, mode, min_score=0.0, **options)
            rows = explain.why(index, searcher, question).rows
            return searcher.ask(question).hits, {row.path: row.verdict for row in rows}

    return ask


@pytest.mark.parametrize("paths", [("en/a.md", "de/a.md"), ("a.md", "a.de.md"), ("a-en.md", "a-de.md")])
@pytest.mark.parametrize(
    ("text", "own", "called"),
    [
        ("what was the lighthouse schedule and the keeper", 0, "German"),
        ("wie ist der lighthouse schedule und das signal", 1, "English"),
    ],
)
def test_one_entry_in_the_questions_language(asked, paths, text, own, called):
    """The other language is named in the reasons and in JSON, and `why` says where it went."""
    [hit], verdicts = asked(text, dict(zip(paths, (ENGLISH, GERMAN), strict=True)))
    other = paths[1 - own]
    assert hit.path == paths[own]
    assert hit.why["translations"] == {other: ("de", "en")[own]}
    assert why(hit).endswith(f"also in {called}: {other}")
    assert verdicts == {paths[own]: "hit 1", other: f"shown as its translation {paths[own]}"}
    shares = sum(each["share"] for each in (*hit.why["adjustments"], hit.why["semantic"], hit.why["keyword"]))
    assert shares == pytest.approx(hit.score, abs=1e-9)


def test_notes_that_say_different_things_are_both_hits(asked):
    """A common name in two languages hides nothing, nor do equal texts without a mark."""
    notes = {
        "en/a.md": ENGLISH,
        "de/a.md": "# Hafen\n\nlighthouse und das ist ein ganz anderer Text mit Wind und Regen",
    }
    hits, _ = asked("what was the lighthouse", notes)
    assert {hit.path for hit in hits} == set(notes)


def test_words_asked_for_alone_and_filters_find_each_language(asked):
    """`find` lists what holds the words; a filter by language takes the other."""
    notes = {"en/a.md": ENGLISH, "de/a.md": GERMAN}
    hits, _ = asked("lighthouse", notes, "keyword", keywords=("lighthouse",))
    assert {hit.path for hit in hits} == set(notes)
    [hit], _ = asked("what was the lighthouse for", notes, filter={"language": "de"})
    assert (hit.path, "translations" in hit.why) == ("de/a.md", False)


def test_families():
    """A mark needs a counterpart."""
    assert languages.families(["ko/a.md", "en/a.md", "go.it.md", "b.md", "b.ko.md"]) == {
        "*/a.md": {"ko/a.md": "hangul:ko", "en/a.md": "latin:en"},
        "b.md": {"b.md": "", "b.ko.md": "hangul:ko"},
    }
    assert all(languages.code(code) == code for code in languages.NAMES)
