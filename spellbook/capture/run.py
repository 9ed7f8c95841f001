"""
The process that captures: it does the jobs that hooks left, one process at a time, and ends.

It loads no model, indexes nothing, and reads no file but transcripts in the folders of their clients. A note is written
before the ledger; a job that a kill cut short is done again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from spellbook.archive.formats.conversations import on_one_line
from spellbook.capture import notes, transcripts
from spellbook.capture.ledger import FORGOTTEN, Ledger
from spellbook.capture.notes import Section
from spellbook.editing.revise import erase_notes
from spellbook.index import scopes
from spellbook.index.filters import conditions, path_glob
from spellbook.index.lookup import named
from spellbook.index.opened import Index
from spellbook.settings.config import Config, load
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.system.lock import held
from spellbook.vault.journal import BY_ITSELF
from spellbook.vault.names import safe_name

_CLIENTS = {
    "claude-code": ("Claude Code", "CLAUDE_CONFIG_DIR", "~/.claude", "projects"),
    "codex": ("Codex", "CODEX_HOME", "~/.codex", "sessions"),
}
"""Of each client its name, the variable that names its folder, the usual folder, and the one of transcripts in it."""

_SETTLE = 0.5  # seconds that a client has to write its last lines
_QUIET = 600.0  # seconds without a new line after which a session counts as over; by hand
_MOST_TRANSCRIPTS = 50  # that are caught up at a time
_LEAST_LETTERS = 400  # of the person, that make a note where there is one exchange
_MOST_TITLE = 80  # letters


def serve() -> None:
    """Be the process that a hook starts: do all jobs, unless another process is at it."""
    time.sleep(_SETTLE)
    config = load()
    ledger = Ledger(str(config.vault))
    while ledger.all("job"):
        with held(ledger.folder / "capture.lock") as is_ours:
            if not is_ours:
                return
            for number, job in ledger.all("job").items():
                ledger.put(("run", "", _do(config, ledger, job)), job=number)


def _do(config: Config, ledger: Ledger, job: Mapping[str, Any]) -> dict[str, Any]:
    """Do a job and return how it ended, for `Ledger.problems`."""
    ended: dict[str, Any] = {"at": time.time()}
    try:
        index = Index.open(config)
        ended["exchanges"] = sum(capture(index, ledger, *each) for each in _wanted(ledger, job))
    except Exception as error:  # whatever it is, a person should see it
        ended["failed"] = on_one_line(str(error) or type(error).__name__)[:500]
    return ended


def _wanted(ledger: Ledger, job: Mapping[str, Any]) -> Iterator[tuple[str, Path, bool, str]]:
    """Yield the transcripts of a job, each with its client, whether its session is over, and the only scope."""
    place, session, event = (str(job[key] or "") for key in ("transcript_path", "session_id", "hook_event_name"))
    client, file = _located(place) if place else ("codex", Path())
    if job["is_off"]:
        ledger.put(("session", session, FORGOTTEN))
    elif event != "SessionStart":
        yield from [(client, file, event == "SessionEnd", "")] if place else []
    else:
        found = _folder(client).glob("*/*/*/*.jsonl") if client == "codex" else file.parent.glob("*.jsonl")
        times = {file: file.lstat().st_mtime for file in found if file.stem[-36:] != session}
        newest = sorted(times, key=lambda file: -times[file])[:_MOST_TRANSCRIPTS]
        for file in (file for file in newest if times[file] >= ledger.switch["at"]):
            only = _scope(str(job["cwd"])) if client == "codex" else ""
            yield *_located(str(file)), time.time() - times[file] > _QUIET, only


def _located(place: str) -> tuple[str, Path]:
    """Return the client and the path of a transcript. Raises InvalidInput for a link, and for what lies elsewhere."""
    real = Path(os.path.realpath(place))
    for client in _CLIENTS:
        if real.suffix == ".jsonl" and real.is_relative_to(_folder(client)) and not os.path.islink(place):
            return client, real
    raise InvalidInput(f"{place:.200}: this is no transcript of Claude Code or Codex.", "Nothing was read.")


def _folder(client: str) -> Path:
    _, variable, usual, below = _CLIENTS[client]
    return Path(os.path.realpath(os.path.join(os.path.expanduser(os.environ.get(variable) or usual), below)))


def _scope(cwd: str) -> str:
    return scopes.project({"CLAUDE_PROJECT_DIR": cwd})


def capture(index: Index, ledger: Ledger, client: str, place: Path, is_over: bool, only: str = "") -> int:
    """
    Write what is new in a transcript into the notes of its session, and return how many exchanges that were.

    With `only`, nothing of a session of another scope. Raises OSError and SpellbookError; then a part may be written.
    """
    session, count = place.stem[-36:], 0
    stem, part = ledger.get("session", session) or ("", 0)
    new: dict[str, Section] = {}
    with disk.regular(place) as file:
        offset, is_end = ledger.get("transcript", str(place)) or 0, False
        offset = offset if offset <= os.fstat(file.fileno()).st_size else 0  # it was cut
        while not is_end:
            exchanges, offset, is_end = transcripts.read(file, offset, is_over=is_over)
            if only and exchanges and _scope(exchanges[0].cwd) != only:
                break
            sections = [notes.section(exchange, _CLIENTS[client][0]) for exchange in exchanges]
            new |= {each.key: each for each in sections if _is_new(index, ledger, each)}
            if new and not (stem or len(new) > 1 or sum(len(each.said) for each in new.values()) >= _LEAST_LETTERS):
                continue
            if new and [stem, part] != FORGOTTEN:
                stem, part = _write(index, (client, session, stem, part), [*new.values()])
                count += len(new)
            keys = (key for each in new.values() for key in (each.key, each.exchange.uuid) if key)
            known = [("session", session, [stem, part])] if stem else []
            ledger.put(*(("key", key, 1) for key in keys), *known, ("transcript", str(place), offset))
            new = {}
    return count


def _is_new(index: Index, ledger: Ledger, section: Section) -> bool:
    """Say whether an exchange was never written, at a time and in a folder that a person lets be captured."""
    exchange = section.exchange
    is_known = ledger.get("key", section.key) or ledger.get("key", exchange.uuid)
    globs = map(os.path.expanduser, index.config.capture.get("exclude", ()))
    is_let = exchange.at.timestamp() >= ledger.switch["since"] and not any(
        path_glob(exchange.cwd, glob) for glob in globs
    )
    return bool(section.said and is_let and not is_known)


def _write(index: Index, known: tuple[str, str, str, int], sections: list[Section]) -> tuple[str, int]:
    """Write sections of a session, of which the client, the id, the note and the last part of that are `known`."""
    client, session, stem, part = known
    first, last = sections[0].exchange, sections[-1].exchange
    begun, scope, number = first.at.astimezone(), _scope(first.cwd), sha256(session.encode()).hexdigest()[:8]
    stem = stem or f"{begun:%Y-%m-%d}-{safe_name(scope or client, 40)}-{number}"
    meta = {
        **{"id": f"session-{number}", "session": session, "title": on_one_line(sections[0].said)[:_MOST_TITLE]},
        **{"category": "session", "type": "episodic", "importance": "low", "trust": "agent"},
        **{"privacy_scope": "private", **({"scope": scope} if scope else {}), "source": client},
        **{"created": begun, "updated": last.at.astimezone()},
    }
    with index.vault.change(BY_ITSELF, stem):
        return stem, notes.append(index.vault, stem, part, sections, meta)


def forget(index: Index, session: str = "", project: str = "", since: str = "", *, dry_run: bool = False) -> list[str]:
    """
    Move the notes of sessions to the trash and return their paths; these sessions are never captured again.

    A session is named by its id or its note, others by their scope, or by the day of their last words (ISO 8601).
    """
    with contextlib.suppress(MemoryNotFound):
        session = session and str(named(index, session)[0][0].meta.get("session") or session)
    asked = {"session": session, "scope": project, "updated": {"from": since} if since else ""}
    wanted = conditions({"category": "session", **{key: value for key, value in asked.items() if value}})
    chunks = [index.catalog.at(path)[0] for path in index.catalog.paths(wanted)]
    sessions = {session, *(str(chunk.meta.get("session", "")) for chunk in chunks)} - {""}
    if not dry_run:
        Ledger(str(index.config.vault)).put(*(("session", each, FORGOTTEN) for each in sessions))
        if chunks:
            erase_notes(index, chunks, "sessions", session or project or since, "forget")
    return [chunk.path for chunk in chunks]
