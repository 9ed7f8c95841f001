"""The table of `make bench`: its rows and its aims; and the notes that it generates."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from importlib import import_module
from math import nan
from pathlib import Path

import pytest

from spellbook.notes.note import parse
from tests.benchmarks.__main__ import measured
from tests.benchmarks.conversations import read
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.public import keep, main
from tests.benchmarks.table import Figure, Ratio, Sizes
from tests.benchmarks.timing import apart

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


def one_then_die(number: int) -> Iterator[int]:
    yield number
    os._exit(3)


@pytest.mark.slow
def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    """Figures from before a process was killed are kept. A failing part is a row with its reason; later parts are measured."""
    figures = apart(one_then_die, 7)
    assert next(figures) == 7
    with pytest.raises(RuntimeError, match="ended with 3"):
        next(figures)
    rows = list(measured(["nowhere", "nobody"], Sizes(), tmp_path))
    assert [row.split(" | ")[0] for row in rows] == ["| nowhere", "| nobody"]
    assert "failed: No module named 'tests.benchmarks.nowhere'" in rows[0]


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


LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "Good morning, Bo!"},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "I bought a cello in Utrecht."},
                {"speaker": "Ann", "dia_id": "D1:3", "text": "# Lovely\n```\n## D1", "blip_caption": "a ferry"},
            ],
            "session_10": [{"speaker": "Bo", "dia_id": "D10:1", "text": "Tell me of the harbour."}],
            "session_10_date_time": "when?",
            "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "The tide took my kayak.\n\nTwice."}],
        },
        "qa": [
            {"question": "who bought a cello?", "evidence": ["D1:2"], "category": 4},
            {"question": "kayak?", "evidence": ["D1:03; D2:1"], "category": 1},
            {"question": "nobody knows", "category": 5},
        ],
    }
]
TURNS = [
    [{"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "Plan my sprint, please. ->-> 1,1"},
     {"role": "assistant", "id": 1, "content": "### Sprint\n\nIt ends on Friday."}],
    [{"role": "user", "id": 2, "content": "The zeppelin lands at noon."}],
]  # fmt: skip
PROBING = {
    "abstention": [{"question": "anything of whales?"}],
    "event_ordering": [{"question": "when lands the zeppelin?", "source_chat_ids": {"first": [1], "second": ["2"]}}],
}


def test_public_benchmarks_are_read_and_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Evidence is found in the turn itself, or in the one beside it; sessions and messages without a date are kept too.
    Beside the product stands plain BM25, and a file names what each found, by which anybody can count again.
    """
    (tmp_path / "locomo10.json").write_text(json.dumps(LOCOMO))
    (probing := tmp_path / "100K" / "1" / "probing_questions").mkdir(parents=True)
    (probing.parent / "chat.json").write_text(json.dumps([{"batch_number": 1, "turns": TURNS}]))
    (probing / "probing_questions.json").write_text(json.dumps(PROBING))
    rows = [{"chat": TURNS, "probing_questions": json.dumps(PROBING)}]
    (tmp_path / "beam.json").write_text(json.dumps(rows))
    (chat,), beam = read(tmp_path)["LoCoMo"], read(tmp_path)["BEAM"]
    assert [(day, len(said)) for day, said in chat.sessions] == [(dt.date(2023, 5, 8), 3), (None, 1), (None, 1)]
    assert [len(each.sessions) for each in beam] == [1, 2]
    assert beam[0].sessions[0][1][0].text.strip() == "Plan my sprint, please."
    places = keep(tmp_path, chat)
    lines = {path: (tmp_path / path).read_text("utf-8").split("\n") for path in places}
    heads = [lines[path][line - 1] for path, listed in places.items() for line, _ in listed]
    assert heads == ["## Ann", "## Bo", "## Ann", "## Bo", "## Bo"]
    told = tmp_path / "told.json"
    main([str(tmp_path / "locomo10.json"), str(tmp_path / "100K"), "--embedder", "hash", "--json", str(told)])
    listed = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if " | " in line]
    rows_of = {(name, by.partition(" ")[0]): row for name, by, *row in listed}
    assert rows_of["LoCoMo, category 4", "Spellbook,"] == ["1", *["1.000 ±0.000"] * 9]
    assert rows_of["LoCoMo, category 4", "BM25"][:6] == ["1", *["1.000 ±0.000"] * 5]
    # Of the evidence of category 1 only one turn has the word.
    shares = ("0.500", "0.500", "0.000", "0.000", "1.000")
    assert rows_of["LoCoMo, category 1", "BM25"][1:6] == [f"{share} ±0.000" for share in shares]
    assert rows_of["LoCoMo, categories 1 to 4", "the"][0] == "2"
    assert {name.partition(",")[2] for name, _ in rows_of} >= {" category 1", " all", " event_ordering"}
    assert rows_of["BEAM, left out: no turn is named as evidence", "1"][-1].startswith("1")
    kept = json.loads(told.read_text())["benchmarks"]["LoCoMo"]["questions"]
    assert [(each["question"], each["evidence"]) for each in kept] == [(0, ["D1:2"]), (1, ["D1:3", "D2:1"])]
    assert kept[1]["found"]["bm25"] == [["D2:1"]]
    assert kept[0]["sessions"]["evidence"] == ["session-0001.md"]
    assert "cello" not in told.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("locomo10.json", "[" * 100_000),
        ("locomo10.json", '[{"qa": []}]'),
        ("beam.json", '[{"chat": [], "probing_questions": "{\'a\': 1}"}]'),
        ("chat.json", "[]"),
        ("notes.json", "{}"),
    ],
)
def test_another_form_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> None:
    """A file that is not in its form ends the run with a message that names it and the forms."""
    (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    message = capsys.readouterr().err
    assert "locomo*.json" in message
    assert (str(tmp_path / name) in message) is (name != "notes.json")
