"""
Questions as of a date: React's documentation as a repository with 200 commits of edits, moves and deletions.

Each date is asked first by a book that has no state of it, and then again. Its index is compared with that of the commit
checked out and indexed from nothing; a difference is a row that says so. Vectors are hashes of words. Without
React's documentation, notes are generated.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import spellbook
from spellbook.library import earlier
from spellbook.library.book import Spellbook
from tests import repositories
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Failure, Figure
from tests.helpers import from_scratch, told

_REACT = Path(__file__).parents[3] / "shared" / "vaults" / "react-docs" / "en"
_COMMITS, _DATES, _GENERATED = 200, 10, 250
_QUESTIONS = ("how do I fetch data in an effect", "when to use a reducer", "the quay of the harbour was swept")


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure | Failure]:
    """Make the repository, ask as of ten dates, and compare."""
    if not _REACT.is_dir():
        write(folder / "notes", range(_GENERATED), Writer())
    source = _REACT if _REACT.is_dir() else folder / "notes"
    notes = {path.relative_to(source).as_posix(): path.read_bytes() for path in sorted(source.rglob("*.md"))}
    commits = repositories.write(folder / "vault", repositories.history(notes, _COMMITS))
    dates = [commits[number * (_COMMITS - 1) // (_DATES - 1)] for number in range(_DATES)]
    size = f"{len(notes)} notes, {_COMMITS} commits"
    with spellbook.open(folder / "vault", embedder="hash", state=folder / "state") as book:
        book.reindex()
        book.search(_QUESTIONS[0])
        firsts, laters, wrong = [], [], []
        for commit in reversed(dates):
            first, later = _asked(book, commit.hash)
            firsts.append(first)
            laters += later
            checked = repositories.checked_out(folder / "checked", commit)
            with earlier.at(book, commit.hash) as then:
                then.reindex()
                if told(then.index) != from_scratch(checked, folder / "other"):
                    wrong.append(commit.hash)
            for each in ("checked", "other"):
                shutil.rmtree(folder / each)
    yield Figure(f"first question as of a date, {size}", statistics.median(firsts), most=2, also=_most(firsts))
    yield Figure("the next question as of that date", statistics.median(laters), most=0.1, also=_most(laters))
    if wrong:
        yield Failure("as of a date", f"{len(wrong)} of {_DATES} differ from a checkout: {', '.join(wrong)}")


def _asked(book: Spellbook, when: str) -> tuple[float, list[float]]:
    """Return the seconds of the first question as of then, and of the next ones."""
    taken = []
    for question in (_QUESTIONS[0], *_QUESTIONS):
        started = time.perf_counter()
        with earlier.at(book, when) as then:
            then.search(question)
        taken.append(time.perf_counter() - started)
    return taken[0], taken[1:]


def _most(taken: list[float]) -> str:
    return f"at most {max(taken):.2f} s"
