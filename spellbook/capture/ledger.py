"""
The ledger of a vault on this machine: what a person said yes to, which sessions were captured, the jobs of hooks.

It lies in the data folder, as no setting of a vault may switch capture on. What it lists is never written again, also
if a person deleted the note. If it is lost, capture is off.

A session that is off has a file beside it, so that neither a lock nor the loss of the ledger makes that forgotten. That
a session may be captured is known by its mark in the ledger alone. Both are on the disk before a hook ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spellbook.settings import paths
from spellbook.system import children, disk
from spellbook.system.sqlite import BUSY_SECONDS, Database, run_script
from spellbook.text.unicode import digest_of

FORGOTTEN = ["-", 0]
"""Stands in older ledgers for a session that a person does not want to be captured."""

CAPTURE, CLAUDE_MEMORY = "", "claude-memory"
"""Names of switches: of capture, and of Claude Code's own memory, which is searched beside the vault."""

_EVENTS = ("SessionStart", "SessionEnd", "PreCompact")
_ALLOWING = ("", "1", "true", "on", "yes")
"""Values of SPELLBOOK_CAPTURE that leave a session to the switch of the machine; each other one is off."""
_MOST_JOB = 4_096  # letters
_MOST_STDIN = 100_000  # bytes
_STDIN_SECONDS = 0.1
PATIENCE = 0.08
"""Seconds that a hook waits for another process, twice at most: what it cannot read or write then is not captured."""
LOCK = "capture.lock"
"""The file beside the ledger that the process which captures holds; it is there once a job was done."""

LONG_ID = 36
"""Letters of the id that a client gives a session; the name of its transcript ends with it."""

_LATE = 600.0  # seconds after which a job should have been done; by hand
_LOSS = "capture is off until `spellbook capture on`"
_TABLES = """
    -- switch, by its name, CAPTURE or another's: {on, at, since}; key: of an exchange; transcript: the offset at which
    -- to read on; session: [name of its note, last part of that] or FORGOTTEN; job: what a hook was given; run: how the
    -- last one failed; seen: the id of an agent's note that a person kept on the first page; mark: when a hook of a
    -- session ran while capture was on (nanoseconds since 1970), 0 once its end was captured; size: bytes of the
    -- transcript of a session that is off, when it was read; erased: exchanges of a session that were left out, since
    -- they were erased.
    CREATE TABLE kept (kind TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
"""
_started: list[Any] = []


class Ledger:
    """
    The ledger of the vault at the real path `root`, in `folder`. Methods raise StorageError.

    They wait `patience` seconds for another process.
    """

    def __init__(self, root: str, patience: float = BUSY_SECONDS) -> None:
        self.folder, self._root = Path(paths.data(root), "capture"), root
        self._patience = patience
        self._database = Database(
            self.folder / "ledger.db", 1, _build, {}, "ledger of sessions", _LOSS, patience=patience, is_durable=True
        )

    def all(self, kind: str) -> dict[str, Any]:
        """Return the values of a kind by key, in order; {} if there is no ledger."""
        sql = "SELECT key, value FROM kept WHERE kind = ? ORDER BY key"
        rows = self._database.rows(sql, (kind,)) if self._database.exists() else ()
        return {key: json.loads(value) for key, value in rows}

    def get(self, kind: str, key: str) -> Any:
        """Return a value, None if there is none."""
        rows = self._database.rows("SELECT value FROM kept WHERE kind = ? AND key = ?", (kind, key))
        return json.loads(rows[0][0]) if rows else None

    def put(self, *values: tuple[str, str, Any], job: str = "") -> None:
        """Write values by kind and key, and delete a job that is done: all or nothing."""
        if not self._database.exists():
            disk.restrict(self.folder, Path(self._root))
        with self._database.transaction(patience=self._patience) as connection:
            rows = [(kind, key, json.dumps(value)) for kind, key, value in values]
            connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", rows)
            connection.execute("DELETE FROM kept WHERE kind = 'job' AND key = ?", (job,))

    @property
    def switch(self) -> dict[str, Any]:
        """The switch of capture: `on`, when it was set (`at`), and `since` when words are kept; {} if never set."""
        return dict(self.all("switch").get(CAPTURE, {}))

    def turn(self, is_on: bool, vault: Path, name: str = CAPTURE) -> None:
        """Switch capture, or another thing, on or off. What is said while it is off is not captured later."""
        with disk.explain_errors(str(self.folder)):
            disk.restrict(self.folder, vault)
        before = self.all("switch").get(name, {})
        if before.get("on") is not is_on:
            # If the ledger was lost, nobody knows which earlier words were captured, or were not to be.
            is_first = not before and not (self.folder / LOCK).exists()
            self.put(("switch", name, {"on": is_on, "at": time.time(), "since": 0 if is_first else time.time()}))

    def forbid(self, session: str) -> None:
        """Mark a session as off, on the disk, without waiting for anybody, also if capture was never on."""
        mark = self._off(session)
        with disk.explain_errors(str(mark)):
            disk.restrict(mark.parent, Path(self._root))
            with disk.replacing(mark):
                disk.sync_folder(mark.parent.parent)

    def is_off(self, session: str) -> bool:
        """Say whether a session is off: by SPELLBOOK_CAPTURE at one of its hooks, or as a person forgot it."""
        try:
            os.lstat(self._off(session))
        except FileNotFoundError:  # any other error leaves it open, so the session is off
            return bool(self.get("session", session) == FORGOTTEN)
        except OSError:
            return True
        return True

    def _off(self, session: str) -> Path:
        return self.folder.with_name("capture-off") / digest_of(session, 32)

    def leave_job(self, hook: Mapping[str, Any]) -> None:
        """
        Leave what a hook was given to a process that this starts, if capture is on, and mark its session.

        Raises OSError, StorageError.
        """
        job = {key: hook.get(key) for key in ("hook_event_name", "session_id", "transcript_path")}
        session = job["session_id"] if isinstance(job["session_id"], str) else ""
        place = job["transcript_path"] if isinstance(job["transcript_path"], str) else ""
        job["is_off"] = os.environ.get("SPELLBOOK_CAPTURE", "").strip().casefold() not in _ALLOWING
        if job["is_off"]:  # first, as nothing holds a file up
            for each in {session, Path(place).stem[-LONG_ID:]} - {""}:
                self.forbid(each)
        is_job = session and job["hook_event_name"] in _EVENTS
        if is_job and len(json.dumps(job)) <= _MOST_JOB and self.switch.get("on"):
            number = time.time_ns()
            marks = [] if job["is_off"] else [("mark", session, number)]
            self.put(*marks, ("job", str(number), job))
            variables = {**os.environ, "SPELLBOOK_VAULT": self._root}
            _started.append(children.child("spellbook.capture.jobs", variables, alone=True))

    def problems(self) -> list[str]:
        """Return what a person should know: the last run failed, jobs wait, an earlier ledger was damaged."""
        failed = self.all("run").get("", {}).get("failed")
        is_late = any(time.time() - int(job) / 1e9 > _LATE for job in self.all("job"))
        return [
            *([f"the last capture failed: {failed}"] if failed else []),
            *(["sessions wait to be captured: Spellbook did not start in the background"] if is_late else []),
            *(f"the ledger was damaged, and lies in {aside}: capture is off" for aside in self._database.set_aside()),
        ]


def _build(connection: Any, form: int) -> None:
    run_script(connection, _TABLES)


def hook(vault: str) -> None:
    """Leave a job for the event that a client's hook gets on stdin. Prints and raises nothing; waits .3 s at most."""
    logging.disable()
    with contextlib.suppress(Exception):
        given = json.loads(children.read_stdin(_MOST_STDIN, _STDIN_SECONDS))
        Ledger(paths.real(paths.vault(vault)), PATIENCE).leave_job(given)
    logging.disable(logging.NOTSET)
