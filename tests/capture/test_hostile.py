"""Nothing is captured because of JSON that cannot be read: of a client's hook, of a job, of the ledger, of a line."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.capture.hook import CaptureJob, HookInput
from spellbook.capture.ledger import CLAUDE_MEMORY, Ledger, SessionNote
from tests.capture.transcripts import DEPLOY, OTHER, ROTATE, SESSION, answered, asked, claude, of_codex, said, talk
from tests.commands import spellbook_in
from tests.helpers import finished, python

Capture = Callable[..., dict[str, str]]

GIVEN = {"hook_event_name": "SessionEnd", "session_id": SESSION, "transcript_path": f"/x/{SESSION}.jsonl"}
ROW = {**GIVEN, "is_off": False}
NONE = [5, True, 1.5, [], {}, ["SessionEnd"], {"a": SESSION}, "\ud800", "a\0b", "x" * 5_000, [[[[[]]]]]]
"""Values that can be no name."""
NO_SWITCH: list[object] = [0, None, "", [], "false"]
NO_ROW: list[object] = [None, "", 5, [ROW], {}]


def raw(ledger: Ledger, *rows: tuple[str, str, object]) -> None:
    """Write rows into the ledger's file, whatever their values are; bytes are a text, be they no UTF-8."""
    with contextlib.closing(sqlite3.connect(ledger.folder / "ledger.db")) as connection:
        connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, CAST(? AS TEXT))", rows)
        connection.commit()


@pytest.mark.parametrize("off", [False, True])
def test_a_hook_whose_values_can_be_none_leaves_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, off: bool
) -> None:
    """
    A hook with a value of another type for its event, its session or its transcript leaves neither job nor mark. If it
    is switched off, each session that can be read is off all the same. A hook that is sound leaves both, also behind a
    mark of its byte order, which some shells of Windows add.
    """
    if off:
        monkeypatch.setenv("SPELLBOOK_CAPTURE", "0")
    for number, (key, value) in enumerate((key, value) for key in GIVEN for value in NONE):
        session = f"{number:08}{SESSION[8:]}"
        given = {**GIVEN, "session_id": session, "transcript_path": f"/x/{session}.jsonl", key: value}
        ledger.leave_job(HookInput.read(json.dumps(given).encode()))
        assert ledger.is_off(session) is off, (key, value)
    for missing in ("hook_event_name", "session_id"):
        ledger.leave_job(HookInput.read(json.dumps({**GIVEN, missing: None}).encode()))
    for whole in (
        b"",
        b"null",
        b"[]",
        b'"SessionEnd"',
        b"7",
        b"[" * 200_000,
        b"{" * 200_000,
        b"\xff\xfe",
        b'{"a":\xff}',
    ):
        ledger.leave_job(HookInput.read(whole))
    assert ledger.jobs() == ledger.all("mark") == {}
    ledger.leave_job(HookInput.read(json.dumps({**GIVEN, "cwd": ["x"], "prompt": 1, "source": [], "new": 1}).encode()))
    assert bool(ledger.all("mark")) is not off
    ledger.leave_job(HookInput.read(json.dumps({**GIVEN, "session_id": OTHER}).encode("utf-8-sig")))
    assert ledger.is_off(OTHER) is off
    assert (OTHER in ledger.all("mark")) is not off


def test_a_job_is_written_as_before_and_read_with_more_or_less() -> None:
    """The row of a job has these bytes. One with more keys, as older versions wrote it, is read; one without a key is none."""
    jobs = {place: CaptureJob(7, "SessionEnd", SESSION, place, is_off=False) for place in ("/x/a.jsonl", "")}
    rows = [json.dumps(job.as_json()) for job in jobs.values()]
    begin = f'{{"hook_event_name": "SessionEnd", "session_id": "{SESSION}", "transcript_path": '
    assert rows == [f'{begin}"/x/a.jsonl", "is_off": false}}', f'{begin}null, "is_off": false}}']
    assert [CaptureJob.read("7", json.loads(row)) for row in rows] == [*jobs.values()]
    assert CaptureJob.read("7", {**ROW, "cwd": "/work"}) == CaptureJob(
        7, "SessionEnd", SESSION, GIVEN["transcript_path"], False
    )
    assert [CaptureJob.read("7", {**ROW, key: value}) for key in ROW for value in NONE if key != "is_off"] == [
        None
    ] * 33
    assert [CaptureJob.read("7", {**ROW, "is_off": value}) for value in NO_SWITCH] == [None] * 5
    assert [CaptureJob.read("7", {key: ROW[key] for key in ROW.keys() - {gone}}) for gone in ROW] == [None] * 4
    assert [CaptureJob.read("7", value) for value in NO_ROW] == [None] * 5
    assert [CaptureJob.read(key, ROW) for key in ("", "-1", "x", "1.5", "²", "٣", "9" * 20, "9" * 5_000)] == [None] * 8


def test_a_damaged_job_stops_no_other(vault: Path, ledger: Ledger, home: Path) -> None:
    """A job that cannot be read is deleted and named by `doctor`; the others are done, and their sessions captured."""
    claude(home).write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    sound = json.dumps({**ROW, "transcript_path": str(claude(home))})
    others = ("{}", "[" * 100_000, sound.replace("false", "0"), "no JSON", "null", "9" * 5_000, b'{"a":"\xff"}')
    raw(
        ledger,
        ("job", "3", sound),
        ("job", "x", sound),
        *(("job", str(4 + at), text) for at, text in enumerate(others)),
    )
    assert "sessions wait to be captured" in spellbook_in(vault, "doctor", code=1).stdout
    finished(python("from spellbook.capture import jobs; jobs.serve()", SPELLBOOK_VAULT=str(vault)))
    assert ledger.jobs() == {}
    notes = {file.name: file.read_text("utf-8") for file in (vault / "sessions").iterdir()}
    assert asked(notes) == [ROTATE[0], DEPLOY[0]]
    assert "A job that a hook left is damaged." in spellbook_in(vault, "doctor", code=1).stdout


def test_a_ledger_whose_rows_are_damaged(ledger: Ledger) -> None:
    """
    A switch that cannot be read is off, a session whose note cannot be read is not captured, a number is 0. Rows as they
    were written are read.
    """
    broken = ("no JSON", "null", "5", '"on"', "[]", "{}", "[" * 100_000, b'{"on": true, "\xff')
    for text in (*broken, '{"on": 1, "at": 0, "since": 0}', '{"on": true, "at": "0", "since": 0}', '{"on": true}'):
        raw(ledger, ("switch", "", text), ("switch", CLAUDE_MEMORY, text))
        assert not ledger.switch().is_on, text
        assert not ledger.switch(CLAUDE_MEMORY).is_on, text
    ledger.turn(False, ledger.folder)
    ledger.turn(True, ledger.folder)
    assert ledger.switch().since > 0, "nobody knows what was captured before"
    raw(ledger, ("switch", "", '{"on": true, "at": 5.5, "since": 0}'))
    assert ledger.switch() == (True, 5.5, 0)
    for text in (*broken, '["-", 0]', '["a", -1]', '["a", "1"]', "[5, 1]", '["", 1]', '["a\\u0000", 1]', '["a", 1, 1]'):
        raw(ledger, ("session", SESSION, text))
        assert ledger.is_off(SESSION), text
    raw(ledger, ("session", SESSION, '["2026-11-26-shop-1", 2]'))
    assert ledger.note("codex", SESSION) == SessionNote("codex", SESSION, "2026-11-26-shop-1", 2)
    for text in (*broken[:2], broken[-1], '"5"', "[5]", "-5", "true", "1.5", "9" * 19, "9" * 5_000):
        raw(ledger, ("mark", SESSION, text))
        assert ledger.numbers("mark") == {SESSION: 0}, text


def test_an_exchange_whose_row_is_damaged_is_not_written_again(captured: Capture, ledger: Ledger) -> None:
    """That a row of an exchange is there counts, whatever its value is; so its answer is kept with no other question."""
    for number, text in enumerate(("no JSON", "null", "0", "[]", '"-"', "2", b"1\xff")):
        raw(ledger, ("key", f"line-{number}", text))
        assert captured(said(f"What is {number}? " * 40, uuid=f"line-{number}"), answered("No.")) == {}, text
    both = captured(
        said("What is 0? ", uuid="line-0"), said(ROTATE[0], 1), answered("tiger-lily"), *talk(DEPLOY, first=9)
    )
    assert asked(both) == [ROTATE[0], DEPLOY[0]]
    assert "tiger-lily" not in "".join(both.values())


WRONG = [5, True, ["/work/shop"], {"a": "/work/shop"}, "\ud800", "/a\0b", "/" * 5_000]


@pytest.mark.parametrize("key", ["cwd", "sessionId", "forkedFrom", "timestamp"])
def test_words_of_a_line_whose_values_can_be_none_are_not_kept(captured: Capture, key: str) -> None:
    """Where a folder, a session or a time cannot be read, nobody knows whether its words may be kept."""
    lines = [said(f"No {number}", uuid=f"n{number}", **{key: value}) for number, value in enumerate(WRONG)]
    lines.append(said("No fork", uuid="f", forkedFrom={"sessionId": [OTHER]}) if key == "forkedFrom" else b"")
    assert asked(captured(*lines, answered("No."), *talk(ROTATE, DEPLOY))) == [ROTATE[0], DEPLOY[0]]


def test_an_answer_of_a_folder_that_can_be_none_is_left_out(captured: Capture) -> None:
    """The question is kept, the answer is not, and a version that can be none is unknown."""
    pieces = [
        said(f"Ask {number}?", number, uuid=f"a{number}", parentUuid=value)
        + answered("tiger-lily", cwd=value, version=value)
        for number, value in enumerate(WRONG)
    ]
    note = "".join(captured(*talk(ROTATE, DEPLOY), *pieces).values())
    assert [f"Ask {number}?" in note for number in range(len(WRONG))] == [True] * len(WRONG)
    assert "tiger-lily" not in note
    assert "by: claude-code/unknown" in note


@pytest.mark.parametrize("source", [5, True, "", None, ["cli"], {}, {"subagent": "review"}, "\ud800", "exec"])
def test_codex_of_a_source_that_can_be_none(captured: Capture, source: object) -> None:
    """Where nobody knows whether a person speaks, nothing of a session of Codex is captured; without a source all is."""
    place = claude(Path.home())  # the form of a line says which client wrote it
    assert captured(of_codex(ROTATE, DEPLOY, source=source), place=place) == {}
    plain = of_codex(ROTATE, DEPLOY, source="cli").replace(b'"source": "cli", ', b"")
    assert asked(captured(plain, place=claude(Path.home(), OTHER))) == [ROTATE[0], DEPLOY[0]]
