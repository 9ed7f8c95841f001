"""The table of `make bench`: its rows and its aims; and the notes that it generates."""

from __future__ import annotations

from importlib import import_module
from math import nan
from pathlib import Path

from spellbook.notes.note import parse
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.table import Figure, Ratio

ROWS = (
    (Figure("a", 0.0123), "| a |  | 12 ms |  |  |"),
    (Figure("a", 300, "MB", most=150), "| a | ≤ 150 MB | 300 MB |  | **no** |"),
    (Figure("a", 4.0, ratio=Ratio(1.9, "b", most=2)), "| a | ≤ 2 × b | 4 s | 1.90 | yes |"),
    (Figure("a", 4.0, most=1, ratio=Ratio(1.9, "b", most=2)), "| a | ≤ 2 × b; ≤ 1 s | 4 s | 1.90 | **no** |"),
    (Figure("a", 90, "x/s", ratio=Ratio(0.8, "b", least=0.9)), "| a | ≥ 0.9 × b | 90 x/s | 0.80 | **no** |"),
    (Figure("a", 2.5, ratio=Ratio(3, "b"), also="c"), "| a |  | 2.5 s; c | 3.00 × b |  |"),
    (Figure("a", nan, "%", most=0.5), "| a | ≤ 0.50 % | nan % |  | **no** |"),
)


def test_a_row_tells_the_aim_and_whether_it_is_met() -> None:
    """
    A figure meets its aim if its own bound and its ratio's are met; an unmeasured one does not. Seconds have a suitable
    unit, and figures have few digits.
    """
    assert [figure.row for figure, _ in ROWS] == [row for _, row in ROWS]


def test_generated_notes_are_the_same_ones_each_time(tmp_path: Path) -> None:
    """
    Generated notes are equal in every run, have different paths and no faults. Every benchmark module can be imported.
    """
    forth, back = ({number: Writer().note(number) for number in order} for order in (range(40), reversed(range(40))))
    assert forth == back
    size = write(tmp_path, range(40), Writer())
    files = list(tmp_path.rglob("*.md"))
    assert len(files) == 40
    assert sum(file.stat().st_size for file in files) == size
    assert not any(parse(file.name, file.read_bytes()).faults for file in files)
    for path in (Path(__file__).parents[1] / "benchmarks").glob("[!_]*.py"):
        import_module(f"tests.benchmarks.{path.stem}")
