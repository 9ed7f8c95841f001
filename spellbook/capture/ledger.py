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
import math
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from spellbook.capture.hook import EVENTS, CaptureJob, HookInput
from spellbook.settings import paths
from spellbook.system import children, disk
from spellbook.system.sqlite import BUSY_SECONDS, Database, run_script
from spellbook.text.json_values import mapping_of, name_of, number_of, parsed
from spellbook.text.unicode import digest_of

CAPTURE, CLAUDE_MEMORY = "", "claude-memory"
"""Names of switches: of capture, and of Claude Code's own memory, which is searched beside the vault."""

_ALLOWING = ("", "1", "true", "on", "yes")
"""Values of SPELLBOOK_CAPTURE that leave a session to the switch of the machine; each other one is off."""
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
    -- to read on; session: [name of its note, last part of that]; job: what a hook was given; run: how the
    -- last one failed; mark: when a hook of a session ran while capture was on (nanoseconds since 1970), 0 once its end
    -- was captured; size: bytes of the transcript of a session that is off, when it was read; erased: exchanges of a
    -- session that were left out, since they were erased.
    CREATE TABLE kept (kind TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
"""


class Switch(NamedTuple):
    """A row of a switch: when it was set, and from when on words are kept, in seconds since 1970."""

    is_on: bool = False
    at: float = 0
    since: float = math.inf


class SessionNote(NamedTuple):
    """The note of a client's session: its name, "" before the first, and the part that was written last, 0 for none."""

    client: str
    session: str
    stem: str = ""
    part: int = 0


class Ledger:
    """
    The ledger of the vault at the real path `root`, in `folder`. Methods raise StorageError.

    They wait `patience` seconds for another process.
    """

    def __init__(self, root: str, patience: float = BUSY_SECONDS) -> None:
        self.folder, self._root = Path(paths.data(root), "capture"), root
        self._database = Database(
            self.folder / "ledger.db", 1, _build, {}, "ledger of sessions", _LOSS, patience=patience, is_durable=True
        )

    def all(self, kind: str) -> dict[str, object]:
        """Return the values of a kind by key, in order; "" is an empty one, or one that cannot be read."""
        sql = "SELECT key, CAST(value AS BLOB) FROM kept WHERE kind = ? ORDER BY key"  # it may be no UTF-8
        rows = self._database.rows(sql, (kind,)) if self._database.exists() else ()
        return {key: parsed(text) or "" for key, text in rows}

    def get(self, kind: str, key: str) -> object:
        """Return a value as `all` does, None if there is none."""
        rows = self._database.rows("SELECT CAST(value AS BLOB) FROM kept WHERE kind = ? AND key = ?", (kind, key))
        return parsed(rows[0][0]) or "" if rows else None

    def numbers(self, kind: str) -> dict[str, int]:
        """Return the numbers of a kind by key; 0 is one that cannot be read."""
        return {key: number_of(value) for key, value in self.all(kind).items()}

    def jobs(self) -> dict[str, CaptureJob | None]:
        """Return the jobs that wait, the oldest first, by key; None is one that cannot be read."""
        return {key: CaptureJob.read(key, value) for key, value in self.all("job").items()}

    def put(self, *values: tuple[str, str, object], job: str = "") -> None:
        """Write values by kind and key, and delete a job that is done: all or nothing."""
        if not self._database.exists():
            disk.restrict(self.folder, Path(self._root))
        with self._database.transaction() as connection:
            rows = [(kind, key, json.dumps(value)) for kind, key, value in values]
            connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", rows)
            connection.execute("DELETE FROM kept WHERE kind = 'job' AND key = ?", (job,))

    def switch(self, name: str = CAPTURE) -> Switch:
        """Return the switch of capture, or of another thing; it is off if it was never set, or cannot be read."""
        match self.all("switch").get(name):
            case {"on": bool(is_on), "at": int() | float() as at, "since": int() | float() as since}:
                return Switch(is_on, at, since)
        return Switch()

    def turn(self, is_on: bool, vault: Path, name: str = CAPTURE) -> None:
        """Switch capture, or another thing, on or off. What is said while it is off is not captured later."""
        with disk.explain_errors(str(self.folder)):
            disk.restrict(self.folder, vault)
        is_set = name in self.all("switch")
        if not is_set or self.switch(name).is_on is not is_on:
            # If the ledger was lost, nobody knows which earlier words were captured, or were not to be.
            is_first = not is_set and not (self.folder / LOCK).exists()
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
        return self.note("", session) is None

    def note(self, client: str, session: str) -> SessionNote | None:
        """Return the note of a session as it was written last, None if the session is off."""
        try:
            os.lstat(self._off(session))
        except FileNotFoundError:
            match self.get("session", session):
                case None:
                    return SessionNote(client, session)
                case [str(stem), int(part)] if name_of(stem) and number_of(part):  # older ledgers have ["-", 0] if off
                    return SessionNote(client, session, stem, part)
        except OSError:  # which leaves it open, so the session is off
            pass
        return None

    def _off(self, session: str) -> Path:
        return self.folder.with_name("capture-off") / digest_of(session, 32)

    def leave_job(self, hook: HookInput) -> None:
        """
        Leave a hook's job to a process that this starts, if capture is on, and mark its session.

        Raises OSError, StorageError.
        """
        is_off = os.environ.get("SPELLBOOK_CAPTURE", "").strip().casefold() not in _ALLOWING
        if is_off:  # first, as nothing holds a file up
            for each in {hook.session, Path(hook.transcript).stem[-LONG_ID:]} - {""}:
                self.forbid(each)
        if hook.is_sound and hook.session and hook.event in EVENTS and self.switch().is_on:
            job = CaptureJob(time.time_ns(), hook.event, hook.session, hook.transcript, is_off)
            marks = [] if is_off else [("mark", hook.session, job.at)]
            self.put(*marks, ("job", str(job.at), job.as_json()))
            children.child("spellbook.capture.jobs", {**os.environ, "SPELLBOOK_VAULT": self._root}, alone=True)

    def problems(self) -> list[str]:
        """Return what a person should know: the last run failed, jobs wait, an earlier ledger was damaged."""
        failed = mapping_of(self.all("run").get("")).get("failed")
        is_late = any(job is None or time.time() - job.at / 1e9 > _LATE for job in self.jobs().values())
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
        given = HookInput.read(children.read_stdin(_MOST_STDIN, _STDIN_SECONDS))
        Ledger(paths.real(paths.vault(vault)), PATIENCE).leave_job(given)
    logging.disable(logging.NOTSET)
